// How long opening and pruning take as the file grows.
//
//   node bench/state.mjs
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { SqliteControllerStore, StateDatabase } from "../index.mjs";

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "bench-state-"));
const PROJECT = "/bench/project";

function milliseconds(action) {
  const started = process.hrtime.bigint();
  const result = action();
  return { ms: Number(process.hrtime.bigint() - started) / 1e6, result };
}

function median(values) {
  return values.sort((one, two) => one - two)[Math.floor(values.length / 2)];
}

/** Reconcile turns on 50 resources: claim, effect, status, settle, and queued again. */
function reconcile(store, turns) {
  store.state.connection.pragma("synchronous = OFF"); // the history matters here, not how safely it got there
  for (let index = 0; index < 50; index += 1) {
    store.putResource({ controller: "jobs", key: `k${index}`, spec: { index }, initialStatus: {} });
  }
  for (let turn = 0; turn < turns; turn += 1) {
    const claim = store.claimNext({ controllers: ["jobs"], ownerId: "w", leaseMs: 60_000 });
    const { uid, generation } = store.getResource(claim).metadata;
    const effect = { key: `e${turn}`, resourceUid: uid, claim };
    store.reserveEffect({ ...effect, generation, kind: "k", requestFingerprint: "f" });
    store.updateEffect({ ...effect, state: "applied" });
    const status = { observedGeneration: generation, conditions: [], controllerStatus: { turn } };
    store.updateStatus({ ref: claim, claim, expectedResourceVersion: claim.resourceVersion, status });
    store.enqueue(claim);
    store.settleClaim(claim);
  }
}

console.log("reopening after N reconcile turns, median of 50");
for (const turns of [0, 1_000, 2_000, 4_000, 8_000]) {
  const file = path.join(folder, `turns-${turns}.sqlite`);
  const store = new SqliteControllerStore(file, { projectPath: PROJECT });
  reconcile(store, turns);
  store.close();
  const times = Array.from({ length: 50 }, () => {
    const { ms, result } = milliseconds(() => new SqliteControllerStore(file, { projectPath: PROJECT }));
    result.close();
    return ms;
  });
  console.log(`${String(turns).padStart(9)}  ${median(times).toFixed(2).padStart(9)} ms`);
}

console.log("pruneUnreferencedBlobs() of N blobs, nine in ten of them unreferenced");
for (const blobs of [10_000, 100_000, 1_000_000]) {
  const filePath = path.join(folder, `blobs-${blobs}.sqlite`);
  const state = new StateDatabase({ filePath });
  state.connection.exec(`PRAGMA synchronous = OFF; BEGIN;
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${blobs})
      INSERT INTO blobs SELECT randomblob(32), 'text/plain', 100, zeroblob(100), 0 FROM n;
    INSERT INTO resources VALUES ('r', 'run', 'r', ${blobs / 10}, 0, 0);
    INSERT INTO events(event_id, resource_id, resource_revision, event_type, actor_type, payload_hash, recorded_at)
      SELECT 'e' || rowid, 'r', rowid / 10, 't', 'system', blob_hash, 0 FROM blobs WHERE rowid % 10 = 0;
    COMMIT; PRAGMA synchronous = FULL`);
  const { ms, result } = milliseconds(() => state.pruneUnreferencedBlobs());
  if (result !== (blobs / 10) * 9) throw new Error(`removed ${result} of ${blobs}`);
  state.integrityCheck();
  state.close();
  console.log(
    `${String(blobs).padStart(9)}  ${ms.toFixed(0).padStart(9)} ms  ${((ms * 1e3) / blobs).toFixed(1).padStart(6)} µs each`,
  );
}
fs.rmSync(folder, { recursive: true });
