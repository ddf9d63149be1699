"use strict";

/**
 * The name of this platform's binary, as in the npm packages: `linux-x64-gnu`, `darwin-arm64`, `win32-x64-msvc`.
 */
function targetName() {
  const base = `${process.platform}-${process.arch}`;
  if (process.platform === "linux") return `${base}-${isMusl() ? "musl" : "gnu"}`;
  return process.platform === "win32" ? `${base}-msvc` : base;
}

/** glibc says its version in the runtime's own report; musl says nothing there. */
function isMusl() {
  const report = /** @type {any} */ (process.report?.getReport());
  return report !== undefined && report.header.glibcVersionRuntime === undefined;
}

/** The file name of a binary that was built here. */
function localBinary() {
  return `pi-workflows-store.${targetName()}.node`;
}

module.exports = { localBinary, targetName };
