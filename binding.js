"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { loadOnce } = require("./lib/one-copy");
const { localBinary, targetName } = require("./lib/target");

/** The native library for this platform: built here, or from its npm package. */
function find() {
  const local = path.join(__dirname, localBinary());
  return fs.realpathSync(fs.existsSync(local) ? local : require.resolve(`@pi-workflows/store-${targetName()}`));
}

module.exports = { native: loadOnce(find()) };
