// Builds the native library and puts it beside index.js. Cargo decides what is stale; a second run takes a moment.
import fs from "node:fs";
import path from "node:path";
import { localBinary } from "../lib/target.js";
import { root, run } from "./steps.mjs";

const LIBRARY =
  {
    darwin: "libpi_workflows_store.dylib",
    win32: "pi_workflows_store.dll",
  }[process.platform] ?? "libpi_workflows_store.so";

run("build the native library", "cargo", ["build", "--release", "--locked"]);

// a process may have the old file mapped: replace it, never write into it
const binary = path.join(root, localBinary());
const fresh = `${binary}.${process.pid}`;
fs.copyFileSync(path.join(root, "target", "release", LIBRARY), fresh);
fs.renameSync(fresh, binary);
