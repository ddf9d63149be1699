// How long `pruneUnreferencedBlobs()` takes, and how long a rival process waits meanwhile, as the file grows.
// node bench/prune.mjs [blobs ...]   (10000 100000 1000000 where none are given)
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import store from "../index.js";

const { StateDatabase } = store;

/** So many blobs to one that an event still points to. */
const ORPHANS_PER_EVENT = 3;

const [command, ...rest] = process.argv.slice(2);
if (command === "rival") rival(rest[0]);
else for (const blobs of sizes(process.argv.slice(2))) await measure(blobs);

function sizes(given) {
  return given.length > 0 ? given.map(Number) : [10_000, 100_000, 1_000_000];
}

async function measure(blobs) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), "prune-"));
  try {
    const filePath = path.join(dir, "state.sqlite");
    const state = new StateDatabase({ filePath });
    const orphans = fill(state.connection, blobs);
    state.close();
    const megabytes = fs.statSync(filePath).size / 2 ** 20;
    const again = timed(() => new StateDatabase({ filePath }));
    const alone = blobs <= 100_000 ? copyAndPrune(dir, filePath) : undefined;
    const rivals = spawn(process.execPath, [fileURLToPath(import.meta.url), "rival", filePath], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    await once(rivals.stdout, "data");
    const pruned = timed(() => again.value.pruneUnreferencedBlobs());
    if (pruned.value !== orphans) throw new Error(`pruned ${pruned.value} of ${orphans} blobs`);
    rivals.stdin.end();
    const [report] = await once(rivals.stdout, "data");
    again.value.integrityCheck();
    again.value.close();
    console.log(
      `${String(blobs).padStart(8)} blobs, ${megabytes.toFixed(0).padStart(4)} MB: open ${again.ms.toFixed(1)} ms, ` +
        `prune ${alone === undefined ? "" : `${alone.toFixed(0)} ms alone, `}${pruned.ms.toFixed(0)} ms beside a writer ` +
        `(${((pruned.ms * 1_000) / blobs).toFixed(1)} µs a blob); ${report}`,
    );
  } finally {
    fs.rmSync(dir, { recursive: true, force: true });
  }
}

/** Blobs of which most are orphans; gives their number. */
function fill(connection, blobs) {
  connection.pragma("synchronous = OFF");
  const blob = connection.prepare("INSERT INTO blobs VALUES (?, 'text/plain', ?, ?, 0)");
  const event = connection.prepare(
    "INSERT INTO events(event_id, resource_id, resource_revision, event_type, actor_type, payload_hash, recorded_at) VALUES (?, 'r', ?, 't', 'system', ?, 0)",
  );
  connection.exec("INSERT INTO resources VALUES ('r', 'run', 'r', 0, 0, 0)");
  let orphans = 0;
  const chunk = connection.transaction((from, to) => {
    for (let index = from; index < to; index += 1) {
      const content = Buffer.from(`status ${index}: ${"x".repeat(index % 300)}`);
      const hash = createHash("sha256").update(content).digest();
      blob.run(hash, content.length, content);
      if (index % (ORPHANS_PER_EVENT + 1) === 0) event.run(`e${index}`, index + 1, hash);
      else orphans += 1;
    }
  });
  for (let from = 0; from < blobs; from += 50_000) chunk(from, Math.min(blobs, from + 50_000));
  return orphans;
}

function copyAndPrune(dir, filePath) {
  const copy = path.join(dir, "copy.sqlite");
  fs.copyFileSync(filePath, copy); // nothing has it open
  const state = new StateDatabase({ filePath: copy });
  const { ms } = timed(() => state.pruneUnreferencedBlobs());
  state.close();
  return ms;
}

/** Another process that writes all the while; says how long its slowest write took. */
function rival(filePath) {
  const state = new StateDatabase({ filePath });
  const insert = state.connection.prepare("INSERT INTO projects VALUES (?, ?, 0)");
  let [writes, slowest, isOver] = [0, 0, false];
  process.stdin.resume().on("end", () => {
    isOver = true;
  });
  console.log("ready");
  (function write() {
    if (isOver) {
      console.log(`the writer made ${writes} commits, its slowest took ${slowest.toFixed(0)} ms`);
      return state.close();
    }
    const name = `${process.pid}-${writes}`;
    slowest = Math.max(slowest, timed(() => state.transaction(() => insert.run(name, name))).ms);
    writes += 1;
    setTimeout(write, 2);
  })();
}

function timed(run) {
  const started = performance.now();
  const value = run();
  return { value, ms: performance.now() - started };
}
