// A controller at work: it reads a list of pull requests, keeps each as a resource, and works on them until nothing is
// left to do. Only the forge that hosts them is made up; the store, its leases and its file are real.
//
// Run it again: it continues where the last run ended and repeats nothing. Change the head of a pull request in the list:
// that one is worked on again. Run it with --crash on a new database: the next runs finish what the dead one has begun.
//
// From top to bottom: what should be (the list), the loop, one turn, the scheduler, the forge, what is printed.
import fs from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { jsonFingerprint, ResourceConflictError, SqliteControllerStore } from "../index.mjs";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const HELP = `Usage: node examples/reconcile.mjs [pull-requests.json] [options]

  --database FILE  where to keep the state (default: .demo/state.sqlite in the repository)
  --crash          die at the first effect: after the forge has done it, before the store knows
  --help           show this`;

const PULL_REQUEST = "pull-request";
const REPOSITORY = "repository";
const CHECK_STATES = ["passed", "failed", "pending", "flaky"];

/** Holds the deletion of a pull request back until its branch is gone. */
const DELETE_BRANCH = "example/delete-branch";

/** How long a worker may be silent. Short, so that after --crash nobody waits long; a real one takes a minute or so. */
const LEASE_MS = 5_000;

/** The pause before the second attempt; it doubles with every further one. */
const RETRY_MS = 250;
const MAX_DOUBLINGS = 8;

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { database: { type: "string" }, crash: { type: "boolean" }, help: { type: "boolean" } },
  });
  if (values.help) return console.log(HELP);
  if (positionals.length > 1) throw new Error(`one list at a time, not also ${positionals[1]}`);
  const list = readList(positionals[0] ?? path.join(ROOT, "examples", "pull-requests.json"));
  forge.crashes = values.crash === true;

  // resources belong to a project: this repository, wherever the command is given
  const store = new SqliteControllerStore(values.database ?? path.join(ROOT, ".demo", "state.sqlite"), {
    projectPath: ROOT,
  });
  try {
    printSeen(list, observe(store, list));
    const { turns, leased } = await runToTheEnd(store);
    printSummary(store, turns, leased);
  } finally {
    store.close();
  }
}

// ── what should be ──────────────────────────────────────────────────────────────────────────────────────────────────

/** Reads the list, or says in one line what is wrong with it. */
function readList(file) {
  let list;
  try {
    list = JSON.parse(fs.readFileSync(file, "utf8"));
  } catch (error) {
    throw new Error(`cannot read ${file}: ${error.message}`);
  }
  const wrong = (what) => new Error(`${file}: ${what}`);
  if (!isText(list?.repository)) throw wrong('needs a "repository", such as "owner/name"');
  if (!Array.isArray(list.pullRequests)) throw wrong('needs a list of "pullRequests"');
  const numbers = new Set();
  list.pullRequests.forEach((pull, index) => {
    const problem = problemOf(pull);
    if (problem !== undefined) throw wrong(`pullRequests[${index}] ${problem}`);
    if (numbers.has(pull.number)) throw wrong(`pullRequests[${index}] has the number ${pull.number} a second time`);
    numbers.add(pull.number);
  });
  return list;
}

function problemOf(pull) {
  if (typeof pull !== "object" || pull === null) return "is not an object";
  if (!Number.isSafeInteger(pull.number)) return 'needs an integer "number"';
  if (!["open", "withdrawn"].includes(pull.state)) return 'needs a "state": "open" or "withdrawn"';
  if (!isText(pull.head)) return 'needs a "head", the commit to merge';
  if (typeof pull.mergeable !== "boolean") return 'needs "mergeable": true or false';
  if (!Array.isArray(pull.labels) || !pull.labels.every(isText)) return 'needs a list of "labels"';
  const { checks } = pull;
  if (typeof checks !== "object" || checks === null || Array.isArray(checks)) return 'needs an object of "checks"';
  const odd = Object.keys(checks).find((name) => !CHECK_STATES.includes(checks[name]));
  return odd === undefined ? undefined : `has a check "${odd}" that is none of ${CHECK_STATES.join(", ")}`;
}

function isText(value) {
  return typeof value === "string" && value !== "";
}

/** Tells the store what should be. A spec that it has already changes nothing, and queues nothing. */
function observe(store, { repository, pullRequests }) {
  const now = new Date().toISOString();
  const seen = { new: 0, changed: 0, unchanged: 0, withdrawn: 0 };
  // one transaction for many calls: a crash in between leaves the whole list or none of it
  store.state.transaction(() => {
    const firstSight = store.getResource({ controller: REPOSITORY, key: repository }) === undefined;
    store.putResource({ controller: REPOSITORY, key: repository, spec: {}, initialStatus: { phases: {} }, now });
    const open = new Set();
    for (const { number, state, ...spec } of pullRequests) {
      const ref = { controller: PULL_REQUEST, key: `${repository}#${number}` };
      if (state === "open") open.add(ref.key);
      // a withdrawn one is taken in at first sight, because nobody knows whether its branch is gone; later it is either
      // known, or was deleted and must not come back
      if (state === "open" || firstSight) seen[desire(store, ref, spec, now)] += 1;
    }
    for (const { metadata } of store.listResources({ controller: PULL_REQUEST })) {
      if (repositoryOf(metadata).key !== repository || open.has(metadata.key)) continue;
      if (metadata.deletionTimestamp === undefined) seen.withdrawn += 1;
      store.requestDeletion(metadata, now);
    }
  });
  return seen;
}

/** Puts one pull request; a new one gets its finalizer before anybody can ask for its deletion. */
function desire(store, ref, spec, now) {
  const before = store.getResource(ref);
  const { metadata } = store.putResource({ ...ref, spec, initialStatus: { phase: "new" }, now });
  if (before !== undefined) return metadata.generation === before.metadata.generation ? "unchanged" : "changed";
  const expectedResourceVersion = metadata.resourceVersion;
  store.updateFinalizers({ ref, expectedResourceVersion, finalizers: [DELETE_BRANCH], now });
  return "new";
}

/** The repository that a pull request belongs to. */
function repositoryOf({ key }) {
  return { controller: REPOSITORY, key: key.slice(0, key.lastIndexOf("#")) };
}

// ── the loop ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Works until the queue is empty, or holds only what other workers have leased. */
async function runToTheEnd(store) {
  const row = table(store);
  const claimOptions = { controllers: [PULL_REQUEST, REPOSITORY], ownerId: `worker-${process.pid}`, leaseMs: LEASE_MS };
  for (let turns = 0; ; ) {
    const claim = store.claimNext(claimOptions);
    if (claim !== undefined) {
      turns += 1;
      const happened = turn(store, claim);
      row(turns, claim.key, claim.resourceVersion, happened, conditionsOf(store.getResource(claim)));
      continue;
    }
    if (runChildWorkflows(store, row) > 0) continue;
    const queue = store.listQueue();
    const leased = queue.filter(({ claimExpiresAt: end }) => end !== undefined && Date.parse(end) > Date.now());
    const next = queue.find((item) => !leased.includes(item));
    // who holds the lease may be at work or dead. Only the lease can tell: it lapses.
    if (next === undefined) return { turns, leased };
    await sleep(Math.max(1, Date.parse(next.availableAt) - Date.now()));
  }
}

/** Something that may well work later. */
class TryAgain extends Error {}

/** One turn under a claim; says what happened. However it ends, the claim is settled, requeued or deleted with it. */
function turn(store, claim) {
  try {
    return claim.controller === REPOSITORY ? count(store, claim) : reconcile(store, claim);
  } catch (error) {
    // a conflict means that somebody changed the resource during the turn: look at it again
    if (!(error instanceof TryAgain || error instanceof ResourceConflictError)) throw error;
    const delayMs = RETRY_MS * 2 ** Math.min(claim.consecutiveErrors, MAX_DOUBLINGS);
    const availableAt = new Date(Date.now() + delayMs).toISOString();
    const requeued = store.requeueClaim(claim, { availableAt, error: error.message });
    return `${error.message}: ${requeued ? `again in ${delayMs} ms` : "another worker has it now"}`;
  }
}

// ── one turn of a pull request ──────────────────────────────────────────────────────────────────────────────────────

/** Compares what should be with what is, takes the next step, and reports. */
function reconcile(store, claim) {
  const resource = store.getResource(claim);
  if (resource.metadata.deletionTimestamp !== undefined) return remove(store, claim, resource);
  const outcome = takeNextStep(store, claim, resource);
  report(store, claim, resource, outcome);
  return outcome.happened;
}

function takeNextStep(store, claim, resource) {
  const { labels, mergeable, checks } = resource.spec;
  const states = Object.values(checks);
  if (labels.includes("wontfix")) return close(store, claim, resource);
  if (!mergeable) return askForRebase(store, claim, resource);
  if (states.includes("failed")) return repair(store, claim, resource);
  if (states.includes("pending")) {
    // no need to look again later: when the check has a result, the spec changes, and that queues the resource
    return {
      phase: "waiting",
      happened: "waits for its checks",
      checks: ["unknown", "Pending"],
      merged: [false, "Waits"],
    };
  }
  if (states.includes("flaky") && claim.consecutiveErrors === 0) throw new TryAgain("a flaky check failed");
  return merge(store, claim, resource, [true, "Passed"]);
}

function merge(store, claim, resource, checks) {
  const happened = applyOnce(store, claim, resource, "merge", "merged");
  return { phase: "merged", happened, checks, merged: [true, "Merged"] };
}

function close(store, claim, resource) {
  const happened = applyOnce(store, claim, resource, "close", "closed, as it is labelled wontfix");
  return { phase: "closed", happened, checks: ["unknown", "Closed"], merged: [false, "Closed"] };
}

function askForRebase(store, claim, resource) {
  const happened = applyOnce(store, claim, resource, "label", "conflicts: labelled needs-rebase");
  return { phase: "blocked", happened, checks: ["unknown", "Conflicts"], merged: [false, "Conflicts"] };
}

/** Failing checks are a child workflow's work. It is reserved once for a head and its failures, and takes its time. */
function repair(store, claim, resource) {
  const { metadata, spec } = resource;
  const failed = Object.keys(spec.checks).filter((name) => spec.checks[name] === "failed");
  const inputFingerprint = jsonFingerprint({ head: spec.head, failed });
  const { record } = store.reserveWorkflow({
    resourceUid: metadata.uid,
    claim,
    // the key comes from the input, so that it can never come back with another input
    requestKey: `repair:${inputFingerprint.slice(0, 16)}`,
    workflow: "repair-checks",
    inputFingerprint,
  });
  if (record.state === "succeeded") return merge(store, claim, resource, [true, "Repaired"]);
  if (record.state === "failed") {
    const happened = `not repaired: ${record.error}`;
    return { phase: "blocked", happened, checks: [false, "NotRepaired"], merged: [false, "ChecksFail"] };
  }
  const running = record.state === "running" ? record : launch(store, claim, record);
  const { requestId, runId, state, attempt } = running;
  return {
    phase: "repairing",
    happened: `${failed.join(" and ")} failed: child workflow ${running === record ? "still runs" : "launched"}`,
    checks: [false, "Repairing"],
    merged: [false, "ChecksFail"],
    workflowRun: { requestId, runId, state, attempt },
  };
}

function launch(store, claim, { requestId, attempt }) {
  // launching can be slow: take a whole lease for it, and start nothing if somebody else may have begun meanwhile
  if (!store.renewClaim(claim, LEASE_MS)) throw new TryAgain("the lease has lapsed");
  return store.updateWorkflow(
    requestId,
    { state: "running", runId: `repair-${requestId}`, attempt: attempt + 1 },
    claim,
  );
}

/**
 * Has the forge do something once for a head, however often it is asked for; says what came of it.
 *
 * Reserved first, because a crash must leave a trace; recorded last, because only then is it known to have happened.
 */
function applyOnce(store, claim, { metadata, spec }, kind, done) {
  const key = `${kind}:${spec.head}`;
  const { record, created } = store.reserveEffect({
    key,
    resourceUid: metadata.uid,
    claim,
    generation: metadata.generation,
    kind,
    requestFingerprint: jsonFingerprint({ kind, head: spec.head }),
  });
  if (record.state === "applied") return `${done} before (${record.externalRef}): not repeated`;
  const externalRef = forge.apply(kind, `${claim.key}/${key}`);
  store.updateEffect({ resourceUid: metadata.uid, key, claim, state: "applied", externalRef });
  return `${done} (${externalRef})${created ? "" : ", begun by a worker that died"}`;
}

/** Stores what is and ends the turn, in one transaction: nobody sees a report whose turn is still to come. */
function report(store, claim, { metadata, status }, { phase, checks, merged, workflowRun }) {
  const observe = (type, [value, reason]) => condition(status, metadata.generation, type, value, reason);
  store.state.transaction(() => {
    store.updateStatus({
      ref: claim,
      // the version that this turn has looked at: if it is not the current one, what we say may be wrong
      expectedResourceVersion: metadata.resourceVersion,
      claim,
      status: {
        observedGeneration: metadata.generation,
        conditions: [observe("ChecksPassed", checks), observe("Merged", merged)],
        controllerStatus: { phase },
        workflowRun,
      },
    });
    store.enqueue(repositoryOf(claim));
    store.settleClaim(claim);
  });
}

/** A condition keeps its transition time for as long as its status stays the same. */
function condition({ conditions }, observedGeneration, type, status, reason) {
  const before = conditions.find((one) => one.type === type);
  const lastTransitionTime = before?.status === status ? before.lastTransitionTime : new Date().toISOString();
  return { type, status, reason, observedGeneration, lastTransitionTime };
}

/** Does what the finalizer waits for, takes it away, and deletes. The claim ends with the resource. */
function remove(store, claim, resource) {
  const { metadata, status } = resource;
  const happened = applyOnce(store, claim, resource, "branch", "withdrawn: branch deleted");
  const deleted = store.state.transaction(() => {
    const finalizers = metadata.finalizers.filter((finalizer) => finalizer !== DELETE_BRANCH);
    store.updateStatus({ ref: claim, expectedResourceVersion: metadata.resourceVersion, claim, status, finalizers });
    store.enqueue(repositoryOf(claim));
    // updateStatus has moved the claim to the new version
    if (store.deleteResource(claim, claim.resourceVersion, claim)) return true;
    store.settleClaim(claim);
    return false;
  });
  return `${happened}, ${deleted ? "resource deleted" : "other finalizers remain"}`;
}

// ── one turn of the repository ──────────────────────────────────────────────────────────────────────────────────────

/** Counts the pull requests by phase. Their turns queue it; many in a row lead to one count. */
function count(store, claim) {
  const { metadata, status } = store.getResource(claim);
  const all = store.listResources({ controller: PULL_REQUEST });
  const pulls = all.filter((pull) => repositoryOf(pull.metadata).key === claim.key);
  const phases = tally(pulls.map(phaseOf));
  const busy = pulls.filter((pull) => !isCurrent(pull) || phaseOf(pull) === "repairing").length;
  const settled = condition(status, metadata.generation, "Settled", busy === 0, busy === 0 ? "Settled" : "Working");
  store.state.transaction(() => {
    store.updateStatus({
      ref: claim,
      expectedResourceVersion: metadata.resourceVersion,
      claim,
      status: { observedGeneration: metadata.generation, conditions: [settled], controllerStatus: { phases } },
    });
    store.settleClaim(claim);
  });
  return `counted: ${pulls.length - busy} of ${pulls.length} settled`;
}

/** Whether the status is about the spec that is there now: an older one says nothing about it. */
function isCurrent({ metadata, status }) {
  return status.observedGeneration === metadata.generation;
}

function phaseOf({ status }) {
  return status.controllerStatus.phase;
}

// ── the scheduler and the forge, both made up ───────────────────────────────────────────────────────────────────────

/** Stands for the scheduler: ends the child workflows that run, and queues their resources. Gives their number. */
function runChildWorkflows(store, row) {
  let ended = 0;
  for (const { metadata, spec } of store.listResources({ controller: PULL_REQUEST })) {
    for (const { requestId, workflow } of store
      .listWorkflows(metadata.uid)
      .filter(({ state }) => state === "running")) {
      const failed = spec.checks.build === "failed";
      // both or neither: an end that queues nothing would never be seen
      store.state.transaction(() => {
        const end = failed ? { state: "failed", error: "it does not even build" } : { state: "succeeded" };
        store.completeWorkflow(requestId, end);
        store.enqueue(metadata);
      });
      const { resourceVersion } = store.getResource(metadata).metadata;
      row("", metadata.key, resourceVersion, `(scheduler) ${workflow} ${failed ? "failed" : "succeeded"}`, "");
      ended += 1;
    }
  }
  return ended;
}

/** Stands for the forge's API. As a good one does, it takes an idempotency key and answers the same for the same key. */
const forge = {
  crashes: false,
  apply(kind, key) {
    const externalRef = `${kind}-${jsonFingerprint(key).slice(0, 7)}`;
    if (this.crashes) {
      console.log(`crash: the forge has done ${key}, and the answer is lost`);
      // no finally, no close, no exit handler: what a power cut would leave
      process.kill(process.pid, "SIGKILL");
    }
    return externalRef;
  },
};

// ── what is printed ─────────────────────────────────────────────────────────────────────────────────────────────────

function printSeen({ repository, pullRequests }, seen) {
  console.log(
    `${repository}: ${pullRequests.length} pull requests listed; ` +
      `${seen.new} new, ${seen.changed} changed, ${seen.withdrawn} to be removed\n`,
  );
}

/** Gives a function that prints a row; the first row brings the header. */
function table(store) {
  const keys = store.listResources().map(({ metadata }) => metadata.key.length);
  const widths = [4, Math.max(8, ...keys), 7, 60, 0];
  const print = (cells) =>
    console.log(
      cells
        .map((cell, index) => cell.padEnd(widths[index]))
        .join("  ")
        .trimEnd(),
    );
  let empty = true;
  return (turn, key, version, happened, conditions) => {
    if (empty) print(["turn", "resource", "version", "what happened", "conditions"]);
    empty = false;
    print([String(turn).padStart(4), key, String(version).padStart(7), happened, conditions]);
  };
}

function conditionsOf(resource) {
  if (resource === undefined || !isCurrent(resource)) return "";
  return resource.status.conditions.map(({ type, status }) => `${type}=${status}`).join(" ");
}

function printSummary(store, turns, leased) {
  const pulls = store.listResources({ controller: PULL_REQUEST });
  const effects = pulls.flatMap(({ metadata }) => store.listEffects(metadata.uid));
  const workflows = pulls.flatMap(({ metadata }) => store.listWorkflows(metadata.uid));
  // what no method answers, SQL does, on the store's own connection
  const events = store.state.connection.prepare("SELECT count(*) FROM events").pluck().get();
  const stateOf = ({ state }) => state;
  if (turns > 0 && leased.length > 0) console.log();
  for (const { key, claimExpiresAt } of leased) console.log(`${key} is leased until ${claimExpiresAt}: run again then`);
  if (turns === 0 && leased.length === 0) console.log(`nothing to do: ${pulls.length} resources up to date`);
  console.log(`\npull requests    ${inWords(tally(pulls.map(phaseOf)))}`);
  console.log(`effects          ${inWords(tally(effects.map(stateOf)))}`);
  console.log(`child workflows  ${inWords(tally(workflows.map(stateOf)))}`);
  console.log(`events           ${events}`);
  console.log(`database         ${store.filePath}\n`);
  const file = path.relative(process.cwd(), store.filePath);
  console.log(`sqlite3 -box "${file}" "SELECT event_type, count(*) FROM events GROUP BY 1 ORDER BY 2 DESC"`);
}

function tally(words) {
  const counts = {};
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
  return counts;
}

function inWords(counts) {
  const parts = Object.entries(counts).map(([word, number]) => `${number} ${word}`);
  return parts.length === 0 ? "none" : parts.join(", ");
}

main().catch((error) => {
  console.error(`reconcile: ${error.message.replaceAll(/\s+/g, " ")}`);
  process.exitCode = 1;
});
