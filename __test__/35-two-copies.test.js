"use strict";

const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { fromMaps } = require("../lib/loaded-objects");
const { world } = require("./support");

const ROOT = path.join(__dirname, "..");

/** Installs the package into a folder, as npm would: the files of a copy of its own. */
function install(folder, version) {
  fs.mkdirSync(folder, { recursive: true });
  for (const name of fs.readdirSync(ROOT)) {
    if (["binding.js", "index.js", "lib", "package.json"].includes(name) || name.endsWith(".node")) {
      fs.cpSync(path.join(ROOT, name), path.join(folder, name), { recursive: true });
    }
  }
  if (version === undefined) return;
  const manifest = path.join(folder, "package.json");
  fs.writeFileSync(manifest, JSON.stringify({ ...JSON.parse(fs.readFileSync(manifest, "utf8")), version }));
}

/** Runs a script in a process of its own; `argv` holds the two folders and a database file. */
function script(text, dir, file) {
  const parameters = [path.join(dir, "global"), path.join(dir, "project"), file];
  return spawnSync(process.execPath, ["-e", text, ...parameters], { encoding: "utf8" });
}

const LOADED = `process.report.getReport().sharedObjects.filter((name) => name.includes("pi-workflows-store"))`;
const BOTH = `
  const [one, two] = process.argv.slice(1, 3).map((folder) => require(folder));
  const open = ({ SqliteControllerStore }) => new SqliteControllerStore(process.argv[3], { projectPath: "/p" });
  const [first, second] = [open(one), open(two)];
  first.putResource({ controller: "c", key: "k", spec: {}, initialStatus: {} });
  console.log(JSON.stringify({ seen: second.listResources().length, loaded: ${LOADED} }));`;

describe("two copies of the package in one process", () => {
  it("share the native library of the first", () => {
    const { dir, file } = world();
    install(path.join(dir, "global"));
    install(path.join(dir, "project"));
    const { status, stdout, stderr } = script(BOTH, dir, file);
    expect({ status, stderr }).toStrictEqual({ status: 0, stderr: "" });
    const { seen, loaded } = JSON.parse(stdout);
    expect(seen).toBe(1);
    expect(loaded).toHaveLength(1);
    expect(loaded[0]).toContain(`${path.sep}global${path.sep}`);
  });

  it("share it across worker threads", () => {
    const { dir, file } = world();
    install(path.join(dir, "global"));
    install(path.join(dir, "project"));
    const { status, stdout } = script(
      `require(process.argv[1]);
       const { Worker } = require("node:worker_threads");
       new Worker(\`const { workerData } = require("node:worker_threads"); require(workerData)\`, { eval: true, workerData: process.argv[2] })
         .on("exit", () => console.log(${LOADED}.length))`,
      dir,
      file,
    );
    expect({ status, stdout: stdout.trim() }).toStrictEqual({ status: 0, stdout: "1" });
  });

  it("share it where a worker thread was first and is busy in a native call", () => {
    const { dir, file } = world();
    install(path.join(dir, "global"));
    install(path.join(dir, "project"));
    const { status, stdout, stderr } = script(
      `const { Worker } = require("node:worker_threads");
       const worker = new Worker(\`
         const { workerData: { folder, ready, over } } = require("node:worker_threads");
         require(folder);
         require("node:fs").writeFileSync(ready, "");
         // busy until the main thread has loaded its copy: were that waiting for this worker, neither would end
         require("node:child_process").execSync(\\\`for i in $(seq 300); do [ -e "\\\${over}" ] && exit; sleep 0.1; done; exit 1\\\`);\`,
         { eval: true, workerData: { folder: process.argv[1], ready: process.argv[3] + ".ready", over: process.argv[3] + ".over" } });
       worker.on("error", (error) => { console.error(error.message); process.exit(1); });
       worker.on("exit", () => console.log(${LOADED}.length));
       const fs = require("node:fs");
       fs.mkdirSync(require("node:path").dirname(process.argv[3]), { recursive: true });
       (function wait() {
         if (!fs.existsSync(process.argv[3] + ".ready")) return setTimeout(wait, 5);
         require(process.argv[2]);
         fs.writeFileSync(process.argv[3] + ".over", "");
       })();`,
      dir,
      file,
    );
    expect({ status, stdout: stdout.trim(), stderr }).toStrictEqual({ status: 0, stdout: "1", stderr: "" });
  });

  it("are refused, by their paths, where they do not fit", () => {
    const { dir, file } = world();
    install(path.join(dir, "global"));
    install(path.join(dir, "project"), "99.0.0");
    const { status, stderr } = script(BOTH, dir, file);
    expect(status).toBe(1);
    expect(stderr).toMatch(/Two copies of @pi-workflows\/store/);
    for (const folder of ["global", "project"]) expect(stderr).toContain(path.join(dir, folder, "pi-workflows-store."));
    expect(fs.existsSync(file)).toBe(false);
  });

  it("does not mistake a library of another version for its own", () => {
    const { dir, file } = world();
    install(path.join(dir, "global"), "99.0.0");
    const { status, stderr } = script("require(process.argv[1])", dir, file);
    expect(status).toBe(1);
    expect(stderr).toMatch(/native library of version 0\.1\.0, but this package is version 99\.0\.0/);
  });
});

describe("the libraries of a process", () => {
  it("are read from the kernel's list, replaced files and odd names included", () => {
    const maps = [
      "55d0c0000000-55d0c0001000 r--p 00000000 08:01 42                         /usr/bin/node",
      "7f00c0000000-7f00c0001000 r-xp 00000000 08:01 43                         /my apps/a.node",
      "7f00c0001000-7f00c0002000 r--p 00001000 08:01 43                         /my apps/a.node",
      "7f00c0003000-7f00c0004000 r-xp 00000000 08:01 44                         /opt/b.node (deleted)",
      "7f00c0005000-7f00c0006000 r-xp 00000000 08:01 45                         /lib/ld-musl-x86_64.so.1",
      "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]",
      "",
    ].join("\n");
    expect(fromMaps(maps)).toStrictEqual([
      "/usr/bin/node",
      "/my apps/a.node",
      "/opt/b.node",
      "/lib/ld-musl-x86_64.so.1",
    ]);
  });
});
