"use strict";

const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { world } = require("./support");

const ROOT = path.join(__dirname, "..");

describe("a host package that changes over", () => {
  it("compiles under strict, and runs on its own schema, statements and transactions", () => {
    const { dir, file } = world();
    const tsc = path.join(ROOT, "node_modules", "typescript", "bin", "tsc");
    const compiled = spawnSync(
      process.execPath,
      [tsc, "-p", path.join(__dirname, "adopting"), "--outDir", path.join(dir, "out")],
      { encoding: "utf8" },
    );
    expect(compiled).toMatchObject({ status: 0, stdout: "" });
    // the package, where Node finds it by its name
    fs.mkdirSync(path.join(dir, "node_modules", "@pi-workflows"), { recursive: true });
    fs.symlinkSync(ROOT, path.join(dir, "node_modules", "@pi-workflows", "store"));
    const ran = spawnSync(process.execPath, [path.join(dir, "out", "main.js"), file], { encoding: "utf8" });
    expect(ran).toMatchObject({ status: 0, stdout: "adopted\n", stderr: "" });
  });
});
