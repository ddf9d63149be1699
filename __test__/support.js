"use strict";

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { SqliteControllerStore } = require("..");

const PROJECT = "/test/project";
const DIGEST = "5f".repeat(32);

/** Seconds after a fixed moment, as every method takes them. */
const at = (seconds) => new Date(Date.UTC(2026, 7, 4) + seconds * 1_000).toISOString();

/** A lease that outlives the wall clock, for methods that read the clock themselves. */
const FOREVER_MS = 1_500_000_000_000;

const worlds = [];
afterEach(() => {
  for (const { stores, dir } of worlds.splice(0)) {
    for (const store of stores) store.close();
    fs.rmSync(dir, { recursive: true, force: true });
  }
});

/** A folder and a database file of its own; what is opened is closed after the test. */
function world() {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), "store-test-"));
  const stores = [];
  const file = path.join(dir, "state", "state.sqlite");
  worlds.push({ dir, stores });
  const open = (options = {}) => {
    const store = new SqliteControllerStore(file, { projectPath: PROJECT, ...options });
    stores.push(store);
    return store;
  };
  return { dir, file, open };
}

/** The usual beginning: one resource `jobs/one`, and a claim on it that does not lapse. */
function claimed(key = "one") {
  const { open, ...rest } = world();
  const store = open();
  const resource = store.putResource({ controller: "jobs", key, spec: { v: 1 }, initialStatus: {}, now: at(0) });
  const claim = store.claimNext({ controllers: ["jobs"], ownerId: "worker-1", leaseMs: FOREVER_MS, now: at(0) });
  return { ...rest, open, store, uid: resource.metadata.uid, resource, claim, ref: { controller: "jobs", key } };
}

/** A request for a run of a session. */
const runRequest = (runId, session, extra = {}) => ({
  runId,
  workflowName: "echo",
  workflowSourceRef: "builtin:echo",
  workflowSource: { kind: "builtin", id: "echo" },
  definitionDigest: DIGEST,
  definitionSnapshot: { nodes: [] },
  input: { text: "hi" },
  runnerId: session,
  originSessionId: session,
  now: at(0),
  ...extra,
});

/** The rows of a table, oldest first. */
const rows = (store, table) => store.state.connection.prepare(`SELECT * FROM ${table} ORDER BY rowid`).all();

/** Everything that is in the file. */
function contents(store) {
  const tables = store.state.connection
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
    .pluck()
    .all();
  return Object.fromEntries(tables.map((table) => [table, rows(store, table)]));
}

/** Runs something that must change nothing, and gives what it gives. */
function unchanged(store, action) {
  const before = contents(store);
  const result = action();
  expect(contents(store)).toStrictEqual(before);
  return result;
}

/** Expects a refusal, and that the file and the claim are as they were. A text is the whole message, not a part. */
function refused(store, action, expected, claim) {
  const before = claim === undefined ? undefined : { ...claim };
  const wanted = typeof expected === "string" ? expect.objectContaining({ message: expected }) : expected;
  unchanged(store, () => expect(action).toThrow(wanted));
  if (claim !== undefined) expect(claim).toStrictEqual(before);
}

module.exports = { DIGEST, FOREVER_MS, PROJECT, at, claimed, contents, refused, rows, unchanged, world, runRequest };
