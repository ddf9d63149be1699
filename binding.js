"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { loadedObjects } = require("./lib/loaded-objects");
const { loadOnce } = require("./lib/one-copy");
const { localBinary, targetName } = require("./lib/target");

/** The native library for this platform: built here, or from its npm package. @param {string} target */
function find(target) {
  const local = path.join(__dirname, localBinary(target));
  return fs.realpathSync(fs.existsSync(local) ? local : require.resolve(`@pi-workflows/store-${target}`));
}

const loaded = loadedObjects();

module.exports = { native: loadOnce(find(targetName(loaded)), loaded) };
