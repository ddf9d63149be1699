// Two sessions and a host, each a process of its own, over one database file: a run is queued, claimed and started, its
// owner is killed, the host takes over when the lease lapses, completes the run, and notifies the session it came from.
//
//   node examples/runs.mjs [--database FILE]
import { fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { SqliteControllerStore } from "../index.mjs";

const SELF = fileURLToPath(import.meta.url);
const RUN = "run-nightly-report";
const LEASE_MS = 800;
const POLL_MS = 50;
/** Long enough for a slow machine; the example ends much earlier. */
const PATIENCE_MS = 20_000;

/** What each process does. It says over its channel to the parent when it has got somewhere. */
const ROLES = {
  /** The session where the run is started. It is killed in the middle of its work. */
  async "session-a"(store) {
    store.reserveWorkflowRun({
      runId: RUN,
      workflowName: "nightly-report",
      workflowSourceRef: "builtin:nightly-report",
      workflowSource: { kind: "builtin", id: "nightly-report" },
      definitionDigest: "5f".repeat(32),
      definitionSnapshot: { nodes: [{ id: "write" }] },
      input: { day: "2026-08-04" },
      runnerId: "session-a",
      originSessionId: "session-a",
    });
    const claimToken = randomUUID();
    store.claimWorkflowRun({ runId: RUN, runnerId: "session-a", claimToken, leaseMs: LEASE_MS });
    store.markWorkflowRunRunning({ runId: RUN, claimToken });
    process.send("running");
    // works, and renews, until somebody kills it
    while (store.renewWorkflowRunClaim({ runId: RUN, claimToken, leaseMs: LEASE_MS })) await sleep(LEASE_MS / 4);
  },

  /** Another session: the run is not its to take, neither queued nor held. */
  async "session-b"(store) {
    const claim = { runnerId: "session-b", sessionId: "session-b", claimToken: randomUUID(), leaseMs: LEASE_MS };
    process.send(store.claimNextWorkflowRun(claim) === undefined ? "nothing for session-b" : "session-b took it");
  },

  /** A host without a session: takes over what was started and is free. */
  async "host-1"(store) {
    const claimToken = randomUUID();
    const run = await patiently(() =>
      store.claimNextWorkflowRun({ runnerId: "host-1", claimToken, leaseMs: LEASE_MS }),
    );
    store.markWorkflowRunRunning({ runId: run.runId, claimToken });
    store.state.transaction(() => {
      // the attempt is the engine's to write; it, the notification and the end of the run come together, or not at all
      store.state.connection
        .prepare(
          `INSERT INTO node_attempts(attempt_id, run_id, node_id, attempt_number, node_type, status, created_at, updated_at)
           VALUES (?, ?, 'write', 1, 'agent', 'completed', ?, ?)`,
        )
        .run("attempt-1", run.runId, Date.now(), Date.now());
      store.enqueueWorkflowNotification({
        runId: run.runId,
        nodeId: "write",
        attemptId: "attempt-1",
        notificationIndex: 0,
        targetSessionId: run.originSessionId,
        kind: "final",
        content: `The report is done; host-1 finished it under claim ${run.claimGeneration}.`,
      });
      store.completeWorkflowRun({ runId: run.runId, claimToken });
    });
    process.send("completed");
  },

  /** The first session again, in a new process: it hears how its run ended. */
  async "session-a again"(store) {
    const claim = { targetSessionId: "session-a", claimToken: randomUUID(), leaseMs: LEASE_MS };
    const [notification] = await patiently(() => {
      const claimed = store.claimPendingWorkflowNotifications(claim);
      return claimed.length > 0 ? claimed : undefined;
    });
    store.markWorkflowNotificationDelivered({ ...claim, notificationId: notification.notificationId });
    process.send(`session-a hears: ${notification.content}`);
  },
};

async function main() {
  const { values } = parseArgs({ options: { database: { type: "string" } } });
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "runs-"));
  const database = path.resolve(values.database ?? path.join(folder, "state.sqlite"));

  const owner = start("session-a", database);
  console.log(`session-a: the run is ${await said(owner)}`);
  console.log(`session-b: ${await said(start("session-b", database))}`);
  const host = start("host-1", database);
  await sleep(LEASE_MS);
  owner.kill("SIGKILL");
  console.log("session-a: killed at work; its lease runs out");
  console.log(`host-1:    the run is ${await said(host)}`);
  console.log(await said(start("session-a again", database)));

  printOwners(database);
  console.log(`\nThe database stays for inspection: ${database}`);
}

/** Starts a role in a process of its own. */
function start(role, database) {
  const child = fork(SELF, [role, database]);
  child.on("exit", (code) => {
    if (code !== 0 && code !== null) process.exitCode = 1;
  });
  return child;
}

/** What a process says first. */
function said(child) {
  return new Promise((resolve, reject) => {
    child.once("message", resolve);
    child.once("exit", () => reject(new Error("a process ended without a word")));
  });
}

/** Tries until there is something. */
async function patiently(attempt) {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await sleep(POLL_MS)) {
    const result = attempt();
    if (result !== undefined) return result;
  }
  throw new Error("nothing came");
}

/** Who owned what when, as the event feed has it. */
function printOwners(database) {
  const store = new SqliteControllerStore(database, { readOnly: true });
  console.log(`\n seq  time          run                 what                who`);
  for (const event of store.listRunEventsAfter(0)) {
    const time = event.recordedAt.slice(11, 23);
    const until =
      event.payload.expiresAt === undefined
        ? ""
        : ` until ${new Date(event.payload.expiresAt).toISOString().slice(11, 23)}`;
    console.log(
      `${String(event.seq).padStart(4)}  ${time}  ${event.runId.padEnd(18)}  ${event.type.padEnd(18)}  ${event.runnerId ?? "-"}${until}`,
    );
  }
  store.close();
}

/** A process of one role. */
async function work(role, database) {
  const store = new SqliteControllerStore(database, { projectPath: path.dirname(SELF) });
  try {
    await ROLES[role](store);
  } finally {
    store.close();
    process.disconnect();
  }
}

const [role, database] = process.argv.slice(2);
const task = process.send !== undefined && role in ROLES ? work(role, database) : main();
task.catch((error) => {
  console.error(`runs: ${error.message}`);
  process.exitCode = 1;
});
