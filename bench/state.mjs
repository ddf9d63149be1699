// How long opening takes as the file grows.
//
//   node bench/state.mjs
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { SqliteControllerStore } from "../index.mjs";

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

fs.rmSync(folder, { recursive: true });
