"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { localBinary, targetName } = require("./lib/target");

/** @returns {import("./lib/native").Binding} */
function load() {
  const local = path.join(__dirname, localBinary());
  return require(fs.existsSync(local) ? local : `@pi-workflows/store-${targetName()}`);
}

module.exports = { native: load() };
