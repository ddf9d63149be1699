"use strict";

const fs = require("node:fs");
const path = require("node:path");

/** The name of this platform's binary: `linux-x64-gnu`, `darwin-arm64`, `win32-x64-msvc`. */
function targetName() {
  const base = `${process.platform}-${process.arch}`;
  if (process.platform === "linux") return `${base}-${isMusl() ? "musl" : "gnu"}`;
  return process.platform === "win32" ? `${base}-msvc` : base;
}

/** glibc says its version in Node's own report; musl says nothing there. */
function isMusl() {
  const report = /** @type {any} */ (process.report?.getReport());
  return report !== undefined && report.header.glibcVersionRuntime === undefined;
}

/** @returns {import("./lib/native").Binding} */
function load() {
  const target = targetName();
  const local = path.join(__dirname, `pi-workflows-store.${target}.node`);
  if (fs.existsSync(local)) return require(local);
  return require(`@pi-workflows/store-${target}`);
}

module.exports = { native: load() };
