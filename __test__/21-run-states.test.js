"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { FOREVER_MS, at, runRequest, world } = require("./support");

const request = (runId, extra) => runRequest(runId, "session-a", extra);
const held = { runId: "run", claimToken: "token" };
const claim = { ...held, runnerId: "session-a", leaseMs: FOREVER_MS };

/** How a run gets into each state. */
const INTO = {
  queued: () => {},
  starting: (store) => store.claimWorkflowRun({ ...claim, now: at(1) }),
  running: (store) => INTO.starting(store) && store.markWorkflowRunRunning({ ...held, now: at(2) }),
  parked: (store) => INTO.starting(store) && store.parkWorkflowRun({ ...held, now: at(2) }),
  done: (store) => INTO.running(store) && store.completeWorkflowRun({ ...held, now: at(3) }),
  failed: (store) => store.failWorkflowRun({ runId: "run", errorCode: "e", errorMessage: "m", now: at(1) }),
  cancelled: (store) => store.cancelWorkflowRun({ runId: "run", now: at(1) }),
};

/** What is tried in each state. */
const METHODS = {
  claimWorkflowRun: (store) => store.claimWorkflowRun({ ...claim, claimToken: "next", now: at(9) }),
  claimNextWorkflowRun: (store) =>
    store.claimNextWorkflowRun({ ...claim, sessionId: "session-a", claimToken: "next", now: at(9) }),
  enqueueWorkflowRun: (store) =>
    store.enqueueWorkflowRun({ ...request("run"), ...claim, claimToken: "next", now: at(9) }),
  reserveWorkflowRun: (store) => store.reserveWorkflowRun(request("run", { now: at(9) })),
  "reserveWorkflowRun (continuation)": (store) =>
    store.reserveWorkflowRun(request("child", { parentRunId: "run", now: at(9) })),
  markWorkflowRunRunning: (store) => store.markWorkflowRunRunning({ ...held, now: at(9) }),
  renewWorkflowRunClaim: (store) => store.renewWorkflowRunClaim({ ...held, leaseMs: FOREVER_MS, now: at(9) }),
  parkWorkflowRun: (store) => store.parkWorkflowRun({ ...held, now: at(9) }),
  completeWorkflowRun: (store) => store.completeWorkflowRun({ ...held, now: at(9) }),
  failWorkflowRun: (store) => store.failWorkflowRun({ ...held, errorCode: "e", errorMessage: "m", now: at(9) }),
  "failWorkflowRun (no token)": (store) =>
    store.failWorkflowRun({ runId: "run", errorCode: "e", errorMessage: "m", now: at(9) }),
  cancelWorkflowRun: (store) => store.cancelWorkflowRun({ ...held, now: at(9) }),
  "cancelWorkflowRun (no token)": (store) => store.cancelWorkflowRun({ runId: "run", now: at(9) }),
  deleteWorkflowRun: (store) => store.deleteWorkflowRun(held),
};

/** The lines of the document, split into a diagram and a table. */
function documented() {
  const lines = fs.readFileSync(path.join(__dirname, "..", "docs", "run-queue.md"), "utf8").split("\n");
  const table = lines
    .filter((line) => line.startsWith("|"))
    .map((line) =>
      line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  const states = table[0].slice(1);
  const cells = table
    .slice(2)
    .flatMap(([method, ...outcomes]) => states.map((state, index) => [method, state, outcomes[index]]));
  const arrows = lines.map((line) => /^ {4}(\S+) --> (\S+): (.*)$/.exec(line)).filter((match) => match !== null);
  return { states, methods: [...new Set(cells.map(([method]) => method))], cells, arrows };
}

/** Tries a method in a state; gives what follows. */
function outcome(method, state) {
  const store = world().open();
  store.reserveWorkflowRun(request("run"));
  INTO[state](store);
  expect(store.getWorkflowRun("run").status).toBe(state);
  const events = store.listRunEventsAfter(0).length;
  try {
    METHODS[method](store);
  } catch {
    expect(store.getWorkflowRun("run").status).toBe(state);
    expect(store.listRunEventsAfter(0)).toHaveLength(events);
    return "refused";
  }
  const run = store.getWorkflowRun("run");
  if (run === undefined) return "gone";
  return run.status === state && store.listRunEventsAfter(0).length === events ? "same" : run.status;
}

describe("the states of a run", () => {
  const { states, methods, cells, arrows } = documented();

  it("are all in the table, and so is every method", () => {
    expect(states).toStrictEqual(Object.keys(INTO));
    expect(methods).toStrictEqual(Object.keys(METHODS));
  });

  it.each(cells)("%s on a run that is %s: %s", (method, state, expected) => {
    expect(outcome(method, state)).toBe(expected);
  });

  it("are drawn as the table has them", () => {
    const drawn = arrows.flatMap(([, from, to, label]) =>
      label.split(", ").map((name) => {
        const method =
          name === "reserveWorkflowRun of a run that continues it" ? "reserveWorkflowRun (continuation)" : name;
        return `${from} ${to === "[*]" ? "gone" : to} ${method}`;
      }),
    );
    const tabled = cells
      .filter(([, , to]) => to !== "same" && to !== "refused")
      .map(([method, from, to]) => `${from} ${to} ${method.replace(" (no token)", "")}`);
    const births = ["[*] queued reserveWorkflowRun", "[*] starting enqueueWorkflowRun"];
    expect(drawn.sort()).toStrictEqual([...new Set([...tabled, ...births])].sort());
  });
});
