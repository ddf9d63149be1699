"use strict";

const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { world } = require("./support");

const EXAMPLES = path.join(__dirname, "..", "examples");

/** Runs an example to its end; gives what it printed. */
function example(name, ...parameters) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [path.join(EXAMPLES, name), ...parameters], {
    encoding: "utf8",
    timeout: 60_000,
  });
  return { status, stdout, stderr };
}

describe("examples/reconcile.mjs", () => {
  it("works to the end, and a second run has nothing to do", () => {
    const { file } = world();
    const first = example("reconcile.mjs", "--database", file);
    expect(first).toMatchObject({ status: 0, stderr: "" });
    expect(first.stdout).toMatch(/merged \(merge-[0-9a-f]+\)/);
    expect(first.stdout).toMatch(/again in 250 ms/);
    expect(first.stdout).toMatch(/resource deleted/);
    const second = example("reconcile.mjs", "--database", file);
    expect(second).toMatchObject({ status: 0, stderr: "" });
    expect(second.stdout).toMatch(/nothing to do: 7 resources up to date/);
  });

  it("says in one line what is wrong with its input", () => {
    const { dir, file } = world();
    const list = path.join(dir, "list.json");
    for (const text of ["no JSON", "null", '{"repository":"o/r","pullRequests":[null]}']) {
      fs.writeFileSync(list, text);
      const { status, stderr } = example("reconcile.mjs", list, "--database", file);
      expect(status).toBe(1);
      expect(stderr.trim().split("\n")).toHaveLength(1);
      expect(stderr).toContain(list);
    }
  });
});

describe("examples/runs.mjs", () => {
  it("lets a host finish what a killed session has begun", () => {
    const { file } = world();
    const { status, stdout, stderr } = example("runs.mjs", "--database", file);
    expect({ status, stderr }).toStrictEqual({ status: 0, stderr: "" });
    expect(stdout).toMatch(/nothing for session-b/);
    expect(stdout).toMatch(/session-a hears: The report is done; host-1 finished it under claim 2/);
    expect(stdout).toMatch(/run\.queue_done +host-1/);
  });
});
