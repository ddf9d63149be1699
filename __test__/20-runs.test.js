"use strict";

const { DIGEST, FOREVER_MS, at, refused, rows, runRequest, unchanged, world } = require("./support");

const claim = (runId, runnerId, claimToken, seconds, extra = {}) => ({
  runId,
  runnerId,
  claimToken,
  leaseMs: 10_000,
  now: at(seconds),
  ...extra,
});
const held = (runId, claimToken, seconds) => ({ runId, claimToken, now: at(seconds) });

/** A store with one run of session-a, claimed with token-1 until second 11. */
function started() {
  const { open, ...rest } = world();
  const store = open();
  store.reserveWorkflowRun(runRequest("run-1", "session-a"));
  const run = store.claimWorkflowRun(claim("run-1", "session-a", "token-1", 1));
  return { ...rest, open, store, run };
}
const projection = (store, runId) =>
  store.state.connection
    .prepare(
      "SELECT CAST(b.content AS TEXT) FROM runs r JOIN blobs b ON b.blob_hash = r.output_hash WHERE r.run_id = ?",
    )
    .pluck()
    .get(runId);

describe("reserveWorkflowRun", () => {
  it("queues a run with its definition, source and input", () => {
    const store = world().open();
    const run = store.reserveWorkflowRun(
      runRequest("run-1", "session-a", { input: undefined, launchOptions: undefined }),
    );
    expect(run).toStrictEqual({
      runId: "run-1",
      workflowName: "echo",
      workflowSourceRef: "builtin:echo",
      workflowSource: { id: "echo", kind: "builtin" },
      initialized: false,
      definitionDigest: `sha256:${DIGEST}`,
      input: null,
      launchOptions: {},
      status: "queued",
      runnerId: null,
      claimToken: null,
      claimGeneration: null,
      claimExpiresAt: null,
      affinityRunnerId: "session-a",
      originSessionId: "session-a",
      parentRunId: null,
      errorCode: null,
      errorMessage: null,
      createdAt: at(0),
      updatedAt: at(0),
      startedAt: null,
      finishedAt: null,
    });
    expect(store.getWorkflowRun("run-1")).toStrictEqual(run);
  });

  it("keeps the state as canonical JSON that other modules read", () => {
    const store = world().open();
    const source = { root: { kind: "file", path: "/f.ts" }, mounted: [{ kind: "builtin", id: "x" }] };
    store.reserveWorkflowRun(
      runRequest("run-1", "session-a", { workflowSource: source, definitionDigest: `sha256:${DIGEST}` }),
    );
    expect(projection(store, "run-1")).toBe(
      `{"definitionDigest":"sha256:${DIGEST}","input":{"text":"hi"},"outputs":{},"results":{},"runId":"run-1",` +
        `"schema":"pi-workflows.run-state.v1","startedAt":"${at(0)}","status":"running","steps":[],"traceSeq":1,` +
        `"updatedAt":"${at(0)}","updates":[],"workflowName":"echo","workflowSource":{"kind":"file","path":"/f.ts"},` +
        `"workflowSources":[{"id":"x","kind":"builtin"}]}`,
    );
  });

  it("refuses bad requests and leaves nothing behind", () => {
    const { store } = started();
    const reserve = (extra) => () =>
      store.reserveWorkflowRun(runRequest("run-2", "session-b", { input: { unique: 1 }, ...extra }));
    for (const runId of ["", ".hidden", "a/b", "x".repeat(201)])
      refused(store, reserve({ runId }), `Invalid workflow run id: ${runId}`);
    for (const definitionDigest of ["zz", "", `md5:${DIGEST}`, `${DIGEST}00`])
      refused(store, reserve({ definitionDigest }), "Expected a SHA-256 digest");
    for (const workflowSource of [null, undefined, { kind: "mystery" }, { root: [], mounted: [] }])
      refused(store, reserve({ workflowSource }), "Stored workflow source identity is invalid");
    refused(store, reserve({ input: { when: new Date(0) } }), "Only plain objects can be stored as canonical JSON");
    refused(store, reserve({ now: "never" }), "Invalid timestamp");
    refused(store, reserve({ parentRunId: "absent" }), "Workflow run not found: absent");
    refused(store, reserve({ runId: "run-1" }), "Workflow run already reserved: run-1");
    refused(
      store,
      reserve({ originSessionId: "session-a" }),
      expect.objectContaining({ code: "SQLITE_CONSTRAINT_UNIQUE" }),
    );
  });

  it("continues a parked run of the same session, once", () => {
    const { store } = started();
    const child = (extra) => () =>
      store.reserveWorkflowRun(runRequest("child", "session-a", { parentRunId: "run-1", now: at(3), ...extra }));
    refused(store, child(), "Continuation parent queue is starting");
    store.parkWorkflowRun(held("run-1", "token-1", 2));
    refused(store, child({ originSessionId: "session-b" }), "Continuation parent belongs to another Pi session");
    expect(child()()).toMatchObject({ parentRunId: "run-1", status: "queued" });
    expect(store.getWorkflowRun("run-1")).toMatchObject({ status: "done", finishedAt: at(3) });
    refused(store, child({ runId: "child-2" }), "Continuation parent already has a reserved continuation");
  });
});

describe("enqueueWorkflowRun", () => {
  it("reserves and claims in one transaction, or does neither", () => {
    const store = world().open();
    const enqueue = (runId, session, token) =>
      store.enqueueWorkflowRun({ ...runRequest(runId, session), claimToken: token, leaseMs: 10_000 });
    expect(enqueue("run-1", "session-a", "t1")).toMatchObject({
      status: "starting",
      claimToken: "t1",
      claimGeneration: 1,
    });
    expect(enqueue("run-1", "session-a", "t2")).toMatchObject({ claimToken: "t2", claimGeneration: 2 });
    refused(store, () => enqueue("run-1", "session-b", "t3"), "Workflow run could not be claimed: run-1");
    refused(
      store,
      () => enqueue("run-2", "session-a", "t3"),
      expect.objectContaining({ code: "SQLITE_CONSTRAINT_UNIQUE" }),
    );
  });
});

describe("getWorkflowRun, listWorkflowRuns, findSessionReservation", () => {
  it("give what is there, newest first", () => {
    const { open } = world();
    const store = open();
    for (const [index, name] of ["a", "b", "c"].entries())
      store.reserveWorkflowRun(runRequest(`run-${name}`, `session-${name}`, { now: at(index) }));
    store.claimWorkflowRun(claim("run-b", "session-b", "t", 3));
    const ids = (options, from = store) => from.listWorkflowRuns(options).map((run) => run.runId);
    expect(ids()).toStrictEqual(["run-c", "run-b", "run-a"]);
    expect(ids({ statuses: ["queued"], limit: 1 })).toStrictEqual(["run-c"]);
    expect(ids({ statuses: [], excludeRunIds: ["run-c"] })).toStrictEqual(["run-b", "run-a"]);
    expect(ids({ statuses: ["starting", "done"] })).toStrictEqual(["run-b"]);
    expect(ids({}, open({ projectPath: "/test/other" }))).toStrictEqual([]);
    expect(store.getWorkflowRun("absent")).toBeUndefined();
    expect(store.findSessionReservation("session-b").runId).toBe("run-b");
    expect(store.findSessionReservation("session-z")).toBeUndefined();
  });
});

describe("claimWorkflowRun", () => {
  it("claims for one owner at a time, and for the same one anew", () => {
    const { store, run } = started();
    expect(run).toMatchObject({
      status: "starting",
      runnerId: "session-a",
      claimToken: "token-1",
      claimGeneration: 1,
      claimExpiresAt: at(11),
    });
    expect(store.getWorkflowRun("run-1").claimToken).toBeNull();
    expect(unchanged(store, () => store.claimWorkflowRun(claim("run-1", "session-b", "t", 2)))).toBeUndefined();
    expect(store.claimWorkflowRun(claim("run-1", "session-a", "token-2", 2))).toMatchObject({ claimGeneration: 2 });
    expect(store.claimWorkflowRun(claim("run-1", "host-1", "token-3", 12))).toMatchObject({
      runnerId: "host-1",
      claimGeneration: 3,
    });
    expect(unchanged(store, () => store.claimWorkflowRun(claim("absent", "s", "t", 1)))).toBeUndefined();
  });

  it("throws where the session has another active run", () => {
    const { store } = started();
    store.parkWorkflowRun(held("run-1", "token-1", 2));
    store.reserveWorkflowRun(runRequest("run-2", "session-a", { now: at(3) }));
    refused(
      store,
      () => store.claimWorkflowRun(claim("run-1", "session-a", "t", 4)),
      expect.objectContaining({ code: "SQLITE_CONSTRAINT_UNIQUE" }),
    );
  });
});

describe("claimNextWorkflowRun", () => {
  const next = (store, runnerId, seconds, extra = {}) =>
    store.claimNextWorkflowRun({ runnerId, claimToken: `t-${runnerId}`, leaseMs: 10_000, now: at(seconds), ...extra })
      ?.runId;

  it("gives a new run to its session, and one that was started to anybody once it is free", () => {
    const { open } = world();
    const store = open();
    store.reserveWorkflowRun(runRequest("run-a", "session-a"));
    for (const [runner, extra] of [
      ["session-b", { sessionId: "session-b" }],
      ["host-1", {}],
      ["session-a", { sessionId: "session-a", excludeRunIds: ["run-a"] }],
    ]) {
      expect(unchanged(store, () => next(store, runner, 1, extra))).toBeUndefined();
    }
    expect(next(open({ projectPath: "/test/other" }), "session-a", 1, { sessionId: "session-a" })).toBeUndefined();
    expect(next(store, "session-a", 1, { sessionId: "session-a" })).toBe("run-a");
    expect(next(store, "host-1", 10)).toBeUndefined();
    expect(next(store, "host-1", 11)).toBe("run-a");
  });

  it("passes over a run whose session is busy", () => {
    const { store } = started();
    store.parkWorkflowRun(held("run-1", "token-1", 2));
    store.reserveWorkflowRun(runRequest("run-2", "session-a", { now: at(3) }));
    store.claimWorkflowRun(claim("run-2", "session-a", "t2", 3, { leaseMs: FOREVER_MS }));
    expect(unchanged(store, () => next(store, "host-1", 5))).toBeUndefined();
    store.completeWorkflowRun(held("run-2", "t2", 6));
    expect(next(store, "host-1", 7)).toBe("run-1");
  });

  it("gives rivals different runs", () => {
    const { open } = world();
    const stores = [open(), open()];
    for (const name of ["a", "b"]) {
      stores[0].enqueueWorkflowRun({ ...runRequest(name, name), claimToken: name, leaseMs: 10_000 });
      stores[0].parkWorkflowRun(held(name, name, 1));
    }
    expect([
      next(stores[0], "host-1", 2),
      next(stores[1], "host-2", 2),
      next(stores[1], "host-2", 2, { excludeRunIds: ["a", "b"] }),
    ]).toStrictEqual(["a", "b", undefined]);
  });
});

describe("the claim on a run", () => {
  it("is renewed, verified and named while it lives", () => {
    const { store } = started();
    expect(store.renewWorkflowRunClaim({ ...held("run-1", "token-1", 5), leaseMs: 20_000 })).toBe(true);
    expect(store.verifyWorkflowRunClaim(held("run-1", "token-1", 24))).toBe(true);
    expect(store.verifyWorkflowRunClaim(held("run-1", "token-1", 25))).toBe(false);
    expect(unchanged(store, () => store.renewWorkflowRunClaim({ ...held("run-1", "token-1", 25), leaseMs: 1 }))).toBe(
      false,
    );
    for (const [runId, token] of [
      ["run-1", "wrong"],
      ["absent", "token-1"],
    ]) {
      expect(unchanged(store, () => store.renewWorkflowRunClaim({ ...held(runId, token, 6), leaseMs: 1 }))).toBe(false);
      expect(store.verifyWorkflowRunClaim(held(runId, token, 6))).toBe(false);
    }
  });

  it("gives authority in the name of a session or a host", () => {
    const store = world().open();
    for (const runner of ["session-a", "host-1"]) {
      store.reserveWorkflowRun(runRequest(`run-${runner}`, runner));
      store.claimWorkflowRun(claim(`run-${runner}`, runner, "t", 0, { leaseMs: FOREVER_MS }));
      const type = runner.split("-")[0];
      expect(store.workflowRunAuthority(`run-${runner}`, "t")).toStrictEqual({
        actor: { type, id: runner },
        ownerType: type,
        ownerId: runner,
        token: "t",
        generation: 1,
      });
      expect(store.workflowRunAuthority(`run-${runner}`, "wrong")).toBeUndefined();
    }
    expect(store.workflowRunAuthority("absent", "t")).toBeUndefined();
  });

  it("is needed to start, park and complete", () => {
    const { store } = started();
    for (const method of ["markWorkflowRunRunning", "parkWorkflowRun", "completeWorkflowRun"]) {
      for (const call of [held("run-1", "wrong", 2), held("run-1", "token-1", 11), held("absent", "token-1", 2)]) {
        expect(unchanged(store, () => store[method](call))).toBe(false);
      }
    }
    expect(store.markWorkflowRunRunning(held("run-1", "token-1", 2))).toBe(true);
    expect(store.getWorkflowRun("run-1")).toMatchObject({ status: "running", startedAt: at(2) });
    expect(store.parkWorkflowRun(held("run-1", "token-1", 3))).toBe(true);
    expect(store.getWorkflowRun("run-1")).toMatchObject({
      status: "parked",
      runnerId: null,
      claimGeneration: null,
      finishedAt: null,
    });
    store.claimWorkflowRun(claim("run-1", "host-1", "token-2", 4));
    expect(store.completeWorkflowRun(held("run-1", "token-2", 5))).toBe(true);
    expect(store.getWorkflowRun("run-1")).toMatchObject({ status: "done", startedAt: at(2), finishedAt: at(5) });
  });
});

describe("failWorkflowRun, cancelWorkflowRun", () => {
  it("end the run, its claim and its recorded state", () => {
    const { store } = started();
    expect(
      store.failWorkflowRun({ ...held("run-1", "token-1", 2), errorCode: "boom", errorMessage: 'said "no" ✗' }),
    ).toBe(true);
    expect(store.getWorkflowRun("run-1")).toMatchObject({
      status: "failed",
      initialized: true,
      errorCode: "boom",
      errorMessage: 'said "no" ✗',
      runnerId: null,
      finishedAt: at(2),
    });
    expect(JSON.parse(projection(store, "run-1"))).toMatchObject({
      status: "failed",
      error: 'said "no" ✗',
      traceSeq: 3,
      finishedAt: at(2),
    });
    expect(store.listRunEventsAfter(2)).toMatchObject([
      { type: "run.queue_failed", runnerId: "session-a", payload: { code: "boom", status: "failed" } },
    ]);
    expect(store.reserveWorkflowRun(runRequest("run-2", "session-a")).status).toBe("queued");
  });

  it("give false where the run has ended or is not the caller's", () => {
    const { store } = started();
    for (const call of [
      { runId: "run-1", now: at(2) },
      held("run-1", "wrong", 2),
      held("run-1", "token-1", 11),
      held("absent", "token-1", 2),
    ]) {
      expect(unchanged(store, () => store.cancelWorkflowRun(call))).toBe(false);
      expect(unchanged(store, () => store.failWorkflowRun({ ...call, errorCode: "e", errorMessage: "m" }))).toBe(false);
    }
    expect(store.cancelWorkflowRun(held("run-1", "token-1", 2))).toBe(true);
    expect(store.getWorkflowRun("run-1")).toMatchObject({
      status: "cancelled",
      errorCode: "cancelled",
      errorMessage: "Workflow run cancelled",
    });
  });

  it("write the bytes that JSON.stringify would, also for lone surrogates", () => {
    const { store } = started();
    store.failWorkflowRun({ ...held("run-1", "token-1", 2), errorCode: "e", errorMessage: "a\ud800" });
    expect(projection(store, "run-1")).toContain('"error":"a\\ud800"');
    expect(store.getWorkflowRun("run-1").errorMessage).toBe("a\ufffd");
  });

  it("refuse a run whose recorded state is none", () => {
    const { store } = started();
    const fail = () => store.failWorkflowRun({ ...held("run-1", "token-1", 2), errorCode: "e", errorMessage: "m" });
    const state = (json) => {
      const hash = store.state.putJson(json);
      store.state.connection.prepare("UPDATE runs SET output_hash = ?").run(hash);
    };
    state([1]);
    refused(store, fail, "Workflow run run-1 state is invalid");
    store.state.connection.exec("UPDATE runs SET output_hash = NULL");
    refused(store, fail, "Workflow run run-1 has no state projection");
  });
});

describe("deleteWorkflowRun", () => {
  it("removes the run under its live claim, and lets go of what points to it", () => {
    const { store } = started();
    store.parkWorkflowRun(held("run-1", "token-1", 2));
    store.reserveWorkflowRun(runRequest("child", "session-a", { parentRunId: "run-1", now: at(3) }));
    store.claimWorkflowRun(claim("child", "session-a", "t", 4, { leaseMs: FOREVER_MS }));
    for (const call of [
      { runId: "child", claimToken: "wrong" },
      { runId: "absent", claimToken: "t" },
      { runId: "run-1", claimToken: "token-1" },
    ]) {
      expect(unchanged(store, () => store.deleteWorkflowRun(call))).toBe(false);
    }
    const events = rows(store, "events").length;
    expect(store.deleteWorkflowRun({ runId: "child", claimToken: "t" })).toBe(true);
    expect(store.getWorkflowRun("child")).toBeUndefined();
    expect(rows(store, "events")).toHaveLength(events + 1);
    store.reserveWorkflowRun(runRequest("child", "session-a"));
    expect(store.claimWorkflowRun(claim("child", "session-a", "t2", 5))).toMatchObject({ claimGeneration: 2 });
    store.state.integrityCheck();
  });
});

describe("setWorkflowRunOriginSession", () => {
  it("binds a run to another session, and refuses an absent one", () => {
    const { store } = started();
    expect(store.setWorkflowRunOriginSession("run-1", "session-b")).toBe(true);
    expect(store.getWorkflowRun("run-1").originSessionId).toBe("session-b");
    expect(store.findSessionReservation("session-a")).toBeUndefined();
    refused(
      store,
      () => store.setWorkflowRunOriginSession("absent", "s"),
      expect.objectContaining({ code: "SQLITE_CONSTRAINT_FOREIGNKEY" }),
    );
  });
});

describe("repairCanonicalWorkflowSourceRun, claimLegacyWorkflowSourceRun", () => {
  it("only throw", () => {
    const { store } = started();
    refused(
      store,
      () => store.repairCanonicalWorkflowSourceRun(),
      "Legacy workflow source repair is not available after the SQLite cutover",
    );
    refused(
      store,
      () => store.claimLegacyWorkflowSourceRun(),
      "Legacy workflow source claims are not available after the SQLite cutover",
    );
  });
});

describe("recordRunEvent, listRunEventsAfter", () => {
  it("number events across runs, and list them from a watermark", () => {
    const { store } = started();
    const event = store.recordRunEvent({
      runId: "run-1",
      workflowRef: "echo",
      type: "step",
      runnerId: "host-3",
      payload: { b: 1, a: 2 },
      now: at(2),
    });
    expect(event).toStrictEqual({
      seq: 3,
      recordedAt: at(2),
      runId: "run-1",
      workflowRef: "echo",
      type: "step",
      runnerId: "host-3",
      payload: { a: 2, b: 1 },
    });
    expect(store.listRunEventsAfter(2)).toStrictEqual([{ ...event, workflowRef: "builtin:echo" }]);
    expect(store.listRunEventsAfter(0, { limit: 2 }).map(({ seq, type }) => [seq, type])).toStrictEqual([
      [1, "run.queued"],
      [2, "lease.claimed"],
    ]);
    expect(store.listRunEventsAfter(3)).toStrictEqual([]);
    expect(rows(store, "events").at(-1)).toMatchObject({ actor_type: "host", lease_generation: 1 });
    refused(
      store,
      () => store.recordRunEvent({ runId: "absent", workflowRef: "w", type: "t", now: at(1) }),
      "Workflow run not found: absent",
    );
  });
});

describe("settleRunEffect", () => {
  it("applies the pending effects of a type, each with its event", () => {
    const { store } = started();
    const hash = store.state.putJson({});
    const effect = store.state.connection.prepare(
      `INSERT INTO effects(effect_id, resource_id, source_resource_id, source_revision, effect_type, idempotency_key, payload_hash, owner_scope, status, created_at, updated_at)
       SELECT @id, @id, resource_id, 1, @type, @id, @hash, 'run', @status, 1, 1 FROM runs`,
    );
    for (const [id, type, status] of [
      ["a", "run.park_queue", "pending"],
      ["b", "run.settle_queue", "pending"],
      ["c", "run.park_queue", "cancelled"],
    ]) {
      store.state.connection.prepare("INSERT INTO resources VALUES (?, 'effect', ?, 1, 1, 1)").run(id, id);
      effect.run({ id, type, hash, status });
    }
    expect(store.settleRunEffect("run-1", "run.park_queue")).toBeUndefined();
    expect(rows(store, "effects").map((row) => [row.effect_id, row.status])).toStrictEqual([
      ["a", "applied"],
      ["b", "pending"],
      ["c", "cancelled"],
    ]);
    unchanged(store, () => store.settleRunEffect("run-1", "run.park_queue"));
    unchanged(store, () => store.settleRunEffect("absent", "run.settle_queue"));
  });
});
