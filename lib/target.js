"use strict";

const path = require("node:path");
const { loadedObjects } = require("./loaded-objects");

/**
 * The name of this platform's binary, as in the npm packages: `linux-x64-gnu`, `darwin-arm64`, `win32-x64-msvc`.
 */
function targetName() {
  const base = `${process.platform}-${process.arch}`;
  if (process.platform === "linux") return `${base}-${isMusl() ? "musl" : "gnu"}`;
  return process.platform === "win32" ? `${base}-msvc` : base;
}

/** Every process on such a system has musl's loader in it; glibc's is called otherwise. */
function isMusl() {
  return loadedObjects().some((object) => path.basename(object).startsWith("ld-musl-"));
}

/** The file name of a binary that was built here. */
function localBinary() {
  return `pi-workflows-store.${targetName()}.node`;
}

module.exports = { localBinary, targetName };
