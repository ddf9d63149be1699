"use strict";

const path = require("node:path");
const { loadedObjects } = require("./loaded-objects");

/**
 * The name of this platform's binary, as in the npm packages: `linux-x64-gnu`, `darwin-arm64`, `win32-x64-msvc`.
 *
 * @param {string[]} loaded the libraries of the process
 */
function targetName(loaded = loadedObjects()) {
  const base = `${process.platform}-${process.arch}`;
  if (process.platform === "linux") return `${base}-${isMusl(loaded) ? "musl" : "gnu"}`;
  return process.platform === "win32" ? `${base}-msvc` : base;
}

/** Every process on such a system has musl's loader in it; glibc's is called otherwise. @param {string[]} loaded */
function isMusl(loaded) {
  return loaded.some((object) => path.basename(object).startsWith("ld-musl-"));
}

/** The file name of a binary that was built here. @param {string} [target] */
function localBinary(target = targetName()) {
  return `pi-workflows-store.${target}.node`;
}

module.exports = { localBinary, targetName };
