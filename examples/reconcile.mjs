// A controller at work: it reads a list of pull requests, keeps each as a resource, and brings all of them to an end.
//
//   node examples/reconcile.mjs [pull-requests.json] [--database FILE]
//
// Run it twice: the second run continues where the first one ended, and repeats nothing.
import fs from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { jsonFingerprint, SqliteControllerStore } from "../index.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const CONTROLLER = "pull-request";
const REPOSITORY = "repository";
const FINALIZER = "example/close-branch";
const LEASE_MS = 30_000;
const RETRY_MS = 300;

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      database: { type: "string", default: path.join(HERE, "..", ".demo", "state.sqlite") },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return console.log("node examples/reconcile.mjs [pull-requests.json] [--database FILE]");
  const { repository, pullRequests } = readInput(positionals[0] ?? path.join(HERE, "pull-requests.json"));

  const store = new SqliteControllerStore(values.database, { projectPath: path.join(HERE, "..") });
  try {
    store.putResource({ controller: REPOSITORY, key: repository, spec: {}, initialStatus: { phase: "watched" } });
    for (const pull of pullRequests) desire(store, repository, pull);
    const turns = await runToTheEnd(store);
    if (turns === 0) console.log(`nothing to do: ${store.listResources().length} resources are up to date\n`);
    summarise(store);
    console.log(
      `\nThe database stays for inspection:\n  sqlite3 ${path.relative(process.cwd(), store.filePath)} ` +
        `'SELECT event_type, actor_type, recorded_at FROM events'`,
    );
  } finally {
    store.close();
  }
}

/** Reads the list, or says in one line what is wrong with it. */
function readInput(file) {
  const input = JSON.parse(fs.readFileSync(file, "utf8"));
  if (typeof input.repository !== "string" || !Array.isArray(input.pullRequests)) {
    throw new Error(`${file} needs a "repository" and a list of "pullRequests"`);
  }
  for (const pull of input.pullRequests) {
    if (!Number.isInteger(pull.number) || typeof pull.head !== "string" || typeof pull.checks !== "object") {
      throw new Error(`${file} has a pull request without number, head or checks: ${JSON.stringify(pull)}`);
    }
  }
  return input;
}

/** Says what should be. The same again changes nothing, so that a second run has nothing to do. */
function desire(store, repository, { number, withdrawn = false, ...spec }) {
  const ref = { controller: CONTROLLER, key: `${repository}#${number}` };
  // one that was withdrawn and deleted must not come back as a new resource
  if (withdrawn && wasWithdrawn(store, repository, ref.key)) return;
  const resource = store.putResource({ ...ref, spec, initialStatus: { phase: "new" } });
  if (!withdrawn) return;
  // several calls, one transaction: a crash in between leaves none of them
  store.state.transaction(() => {
    // the finalizer holds the deletion back until the controller has closed the branch
    store.updateFinalizers({
      ref,
      expectedResourceVersion: resource.metadata.resourceVersion,
      finalizers: [FINALIZER],
    });
    store.requestDeletion(ref);
    store.recordEvent({ controller: REPOSITORY, key: repository, type: "withdrawn", payload: { key: ref.key } });
  });
}

/** The repository remembers what is gone: the events of a deleted resource are not listed any more. */
function wasWithdrawn(store, repository, key) {
  const events = store.listEvents({ controller: REPOSITORY, key: repository, limit: 1_000 });
  return events.some((event) => event.type === "withdrawn" && event.payload.key === key);
}

/** Claims and reconciles until the queue is empty, waiting for what is delayed. */
async function runToTheEnd(store) {
  let turns = 0;
  for (;;) {
    const claim = store.claimNext({
      controllers: [REPOSITORY, CONTROLLER],
      ownerId: `worker-${process.pid}`,
      leaseMs: LEASE_MS,
    });
    if (claim === undefined) {
      const waiting = store.listQueue();
      if (waiting.length === 0) return turns;
      const held = waiting.find(
        (item) => item.claimExpiresAt !== undefined && Date.parse(item.claimExpiresAt) > Date.now(),
      );
      if (held !== undefined) {
        // another worker, or one that was killed: its lease decides, not we
        console.log(`${held.key} is leased until ${held.claimExpiresAt}; run again then`);
        return turns;
      }
      await sleep(Math.max(0, Date.parse(waiting[0].availableAt) - Date.now()) + 5);
      continue;
    }
    if (turns === 0) printRow("turn", "resource", "version", "what happened");
    turns += 1;
    const happened = turn(store, claim);
    printRow(turns, claim.key, claim.resourceVersion, happened);
  }
}

/** One reconcile turn under a claim: it settles, requeues or deletes. Says what happened. */
function turn(store, claim) {
  const resource = store.getResource(claim);
  if (claim.controller === REPOSITORY) {
    store.settleClaim(claim);
    return "watched";
  }
  if (resource.metadata.deletionTimestamp !== undefined) return remove(store, claim, resource);
  try {
    const steps = [repair(store, claim, resource), merge(store, claim, resource)].filter((step) => step !== undefined);
    report(store, claim, resource, "merged");
    store.settleClaim(claim);
    return steps.join(", ");
  } catch (error) {
    if (!(error instanceof Flake)) throw error;
    const availableAt = new Date(Date.now() + RETRY_MS).toISOString();
    store.requeueClaim(claim, { availableAt, error: error.message });
    return `${error.message}; again in ${RETRY_MS} ms`;
  }
}

/** Failing checks are repaired by a child workflow, reserved once for each head. */
function repair(store, claim, { metadata, spec }) {
  if (!Object.values(spec.checks).includes("failed")) return undefined;
  const { record, created } = store.reserveWorkflow({
    resourceUid: metadata.uid,
    claim,
    requestKey: `repair:${spec.head}`,
    workflow: "repair-checks",
    inputFingerprint: jsonFingerprint(spec.checks),
  });
  if (record.state === "succeeded") return "already repaired";
  store.updateWorkflow(record.requestId, { state: "running", attempt: record.attempt + 1 }, claim);
  // here a scheduler would run it; this one succeeds at once
  store.completeWorkflow(record.requestId, { state: "succeeded" });
  return created ? "repaired by a child workflow" : "repair continued";
}

class Flake extends Error {}

/** Merges once: the effect's key makes a second attempt find the first one. */
function merge(store, claim, { metadata, spec }) {
  const key = `merge:${spec.head}`;
  const { record } = store.reserveEffect({
    key,
    resourceUid: metadata.uid,
    claim,
    generation: metadata.generation,
    kind: "merge",
    requestFingerprint: jsonFingerprint({ head: spec.head }),
  });
  if (record.state === "applied") return `merged before as ${record.externalRef}`;
  if (spec.flaky && claim.consecutiveErrors === 0) throw new Flake("the merge queue did not answer");
  const externalRef = jsonFingerprint(spec).slice(0, 7);
  store.updateEffect({ resourceUid: metadata.uid, key, claim, state: "applied", externalRef });
  return `merged as ${externalRef}`;
}

/** Reports what is. The version is read again: completing a child workflow has moved it along. */
function report(store, claim, { metadata }, phase) {
  const condition = {
    type: "Merged",
    status: true,
    reason: "Applied",
    observedGeneration: metadata.generation,
    lastTransitionTime: new Date().toISOString(),
  };
  store.updateStatus({
    ref: claim,
    expectedResourceVersion: store.getResource(claim).metadata.resourceVersion,
    claim,
    status: { observedGeneration: metadata.generation, conditions: [condition], controllerStatus: { phase } },
  });
}

/** Does what the finalizer waits for, takes the finalizer away, and deletes. */
function remove(store, claim, { metadata }) {
  const { metadata: updated } = store.updateFinalizers({
    ref: claim,
    expectedResourceVersion: metadata.resourceVersion,
    finalizers: metadata.finalizers.filter((finalizer) => finalizer !== FINALIZER),
  });
  store.deleteResource(claim, updated.resourceVersion, claim);
  return "withdrawn: branch closed, resource deleted";
}

function summarise(store) {
  const resources = store.listResources({ controller: CONTROLLER });
  const effects = resources.flatMap(({ metadata }) => store.listEffects(metadata.uid));
  const workflows = resources.flatMap(({ metadata }) => store.listWorkflows(metadata.uid));
  const merged = resources.filter(({ status }) => status.controllerStatus.phase === "merged");
  console.log(
    `\n${merged.length} of ${resources.length} pull requests merged, ${effects.length} effects applied, ${workflows.length} child workflows, ${store.listQueue().length} left in the queue`,
  );
}

function printRow(turn, resource, version, what) {
  console.log(`${String(turn).padStart(4)}  ${resource.padEnd(20)}  ${String(version).padStart(7)}  ${what}`);
}

main().catch((error) => {
  console.error(`reconcile: ${error.message}`);
  process.exitCode = 1;
});
