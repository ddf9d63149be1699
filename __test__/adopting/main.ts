import assert from "node:assert/strict";
import { ResourceConflictError } from "./controllers/errors.js";
import { SqliteControllerStore, type WorkflowRunQueueRecord } from "./controllers/sqlite.js";
import { StateDatabase } from "./state/database.js";
import { DecisionStore } from "./state/decisions.js";
import { jsonFingerprint, resourceIdFor } from "./state/mutation.js";

const filePath = process.argv[2];
assert.ok(filePath !== undefined);
const state = new StateDatabase({ filePath });
const store = new SqliteControllerStore(filePath, { state, projectPath: "/host/project" });
const decisions = new DecisionStore(state);

const reserve = (runId: string): WorkflowRunQueueRecord =>
  store.reserveWorkflowRun({
    runId,
    workflowName: "ask",
    workflowSourceRef: "builtin:ask",
    workflowSource: { kind: "builtin", id: "ask" },
    definitionDigest: jsonFingerprint({ name: "ask" }),
    definitionSnapshot: { name: "ask" },
    input: {},
    runnerId: "session-a",
    originSessionId: "session-a",
  });

// the host's rows and the store's come together, or not at all
assert.throws(() =>
  state.transaction(() => {
    decisions.ask("d", reserve("run-1").runId);
    throw new Error("changed my mind");
  }),
);
assert.equal(store.getWorkflowRun("run-1"), undefined);
state.transaction(() => decisions.ask("d", reserve("run-1").runId));
assert.equal(decisions.answer("d", { yes: true }), true);
assert.deepEqual(decisions.read("d"), { yes: true });

// the host reads the store's tables with its own statements
const revision = state.connection
  .prepare<[string], number>("SELECT revision FROM resources WHERE resource_id = ?")
  .pluck()
  .get(resourceIdFor("run", "run-1"));
assert.equal(revision, 1);

// what the host points to is not pruned
assert.equal(state.pruneUnreferencedBlobs(), 0);

const resource = store.putResource({ controller: "c", key: "k", spec: { v: 1 }, initialStatus: {} });
assert.throws(
  () => store.updateFinalizers({ ref: resource.metadata, expectedResourceVersion: 9, finalizers: [] }),
  ResourceConflictError,
);
store.close();
assert.equal(state.connection.open, true);
state.integrityCheck();
state.close();

new StateDatabase({ filePath }).close();
console.log("adopted");
