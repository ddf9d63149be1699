"use strict";

const { WorkflowRequestConflictError } = require("..");
const { at, claimed, refused, rows, runRequest, unchanged } = require("./support");

const FINGERPRINT = "ab".repeat(32);
const begin = () => {
  const { uid, claim, ...rest } = claimed();
  const request = {
    resourceUid: uid,
    claim,
    requestKey: "repair:1",
    workflow: "repair",
    inputFingerprint: FINGERPRINT,
  };
  return { ...rest, uid, claim, request };
};
const reserved = () => {
  const started = begin();
  return { ...started, id: started.store.reserveWorkflow(started.request).record.requestId };
};

describe("reserveWorkflow", () => {
  it("reserves once and adopts the same request", () => {
    const { store, uid, request } = begin();
    const { record, created } = store.reserveWorkflow(request);
    expect(created).toBe(true);
    expect(record).toStrictEqual({
      requestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      resourceUid: uid,
      requestKey: "repair:1",
      inputFingerprint: FINGERPRINT,
      workflow: "repair",
      state: "pending",
      attempt: 0,
    });
    expect(unchanged(store, () => store.reserveWorkflow(request))).toStrictEqual({ record, created: false });
  });

  it("refuses another request under the same key, a stale claim, and what is no fingerprint", () => {
    const { store, claim, request } = begin();
    store.reserveWorkflow(request);
    for (const other of [
      { workflow: "x" },
      { inputFingerprint: "cd".repeat(32) },
      { inputFingerprint: FINGERPRINT.toUpperCase() },
    ]) {
      refused(store, () => store.reserveWorkflow({ ...request, ...other }), WorkflowRequestConflictError, claim);
    }
    refused(
      store,
      () => store.reserveWorkflow({ ...request, claim: { ...claim, token: "x" } }),
      "Controller claim is stale",
    );
    refused(
      store,
      () => store.reserveWorkflow({ ...request, resourceUid: "absent" }),
      "Controller resource not found: absent",
    );
    for (const inputFingerprint of ["", "not hex", "ab", `${FINGERPRINT}ab`]) {
      refused(
        store,
        () => store.reserveWorkflow({ ...request, requestKey: "bad", inputFingerprint }),
        expect.objectContaining({ code: "SQLITE_CONSTRAINT_CHECK" }),
      );
    }
  });
  it("takes a claim that cannot be changed, and leaves the resource alone", () => {
    const { store, ref, claim, request } = begin();
    const before = store.getResource(ref);
    expect(store.reserveWorkflow({ ...request, claim: Object.freeze(claim) }).created).toBe(true);
    expect(store.getResource(ref)).toStrictEqual(before);
  });

  it("refuses the claim of another resource, and names any key as JSON", () => {
    const { store, claim, request } = begin();
    const two = store.putResource({ controller: "jobs", key: "two", spec: 1, initialStatus: 1, now: at(0) });
    refused(
      store,
      () => store.reserveWorkflow({ ...request, resourceUid: two.metadata.uid }),
      "Controller claim targets another resource",
      claim,
    );
    const requestKey = 'a "b"\n';
    store.reserveWorkflow({ ...request, requestKey });
    refused(
      store,
      () => store.reserveWorkflow({ ...request, requestKey, workflow: "x" }),
      `Workflow request key ${JSON.stringify(requestKey)} was reused with different input`,
      claim,
    );
  });

  it("refuses a claim that lapsed", () => {
    const { store, claim, request } = begin();
    store.renewClaim(claim, 1_000, at(0));
    refused(store, () => store.reserveWorkflow(request), "Controller claim is stale", claim);
  });
});

describe("updateWorkflow", () => {
  it("keeps run and attempt where they are not given, and removes the error", () => {
    const { store, id, claim } = reserved();
    const update = (options) => {
      const { runId, state, attempt, error } = store.updateWorkflow(id, options, claim);
      return { runId, state, attempt, error };
    };
    expect(update({ state: "running", runId: "r", attempt: 1 })).toStrictEqual({
      runId: "r",
      state: "running",
      attempt: 1,
      error: undefined,
    });
    expect(update({ state: "failed", error: "boom" })).toStrictEqual({
      runId: "r",
      state: "failed",
      attempt: 1,
      error: "boom",
    });
    expect(update({ state: "running", runId: null, error: null })).toStrictEqual({
      runId: "r",
      state: "running",
      attempt: 1,
      error: undefined,
    });
  });

  it("refuses an unknown request, a stale claim and a state that is none", () => {
    const { store, id, claim } = reserved();
    refused(
      store,
      () => store.updateWorkflow("absent", { state: "running" }, claim),
      "Workflow request not found: absent",
    );
    refused(
      store,
      () => store.updateWorkflow(id, { state: "running" }, { ...claim, token: "x" }),
      "Controller claim is stale",
    );
    refused(
      store,
      () => store.updateWorkflow(id, { state: "done" }, claim),
      expect.objectContaining({ code: "SQLITE_CONSTRAINT_CHECK" }),
    );
    refused(
      store,
      () => store.updateWorkflow(id, { state: "running", attempt: -1 }, claim),
      expect.objectContaining({ code: "SQLITE_CONSTRAINT_CHECK" }),
    );
    refused(store, () => store.updateWorkflow(id, { state: "running", attempt: 1.5 }, claim), /update.attempt/);
  });
  it.each([["pending"], ["running"], ["waiting"], ["succeeded"], ["failed"], ["interrupted"]])(
    "stores the state %s",
    (state) => {
      const { store, uid, id, claim, ref } = reserved();
      const before = store.getResource(ref);
      const record = store.getWorkflow(uid, "repair:1");
      const updated = store.updateWorkflow(id, { state, attempt: 3 }, Object.freeze(claim));
      expect(updated).toStrictEqual({ ...record, state, attempt: 3 });
      expect(store.getWorkflowByRequestId(id)).toStrictEqual(updated);
      // it is the holder's own note: no event, no version
      expect(store.getResource(ref)).toStrictEqual(before);
    },
  );

  it("refuses the claim of another resource, and one that lapsed", () => {
    const { store, id, claim } = reserved();
    const update = (held) => () => store.updateWorkflow(id, { state: "running" }, held);
    refused(store, update({ ...claim, key: "two" }), "Controller claim targets another resource");
    store.renewClaim(claim, 1_000, at(0));
    refused(store, update(claim), "Controller claim is stale", claim);
  });
});

describe("completeWorkflow", () => {
  it("settles without a claim and moves the resource's version along", () => {
    const { store, id, claim, ref } = reserved();
    store.updateWorkflow(id, { state: "running", runId: "r" }, claim);
    const completed = store.completeWorkflow(id, { state: "succeeded", attempt: 2 });
    expect(completed).toMatchObject({ state: "succeeded", attempt: 2, runId: "r" });
    expect(store.getResource(ref).metadata.resourceVersion).toBe(claim.resourceVersion + 1);
    expect(store.listEvents({ limit: 1 })[0]).toMatchObject({
      type: "workflow_state_changed",
      payload: { requestId: id, runId: "r", state: "succeeded" },
    });
  });

  it("links a run that exists", () => {
    const { store, id } = reserved();
    store.reserveWorkflowRun(runRequest("run-1", "s"));
    expect(store.completeWorkflow(id, { state: "succeeded", runId: "run-1" }).runId).toBe("run-1");
    expect(store.completeWorkflow(id, { state: "failed" }).runId).toBe("run-1");
  });

  it("refuses what is not settled, another run, and an unknown request", () => {
    const { store, id, claim } = reserved();
    store.updateWorkflow(id, { state: "running", runId: "r" }, claim);
    for (const state of ["pending", "running"])
      refused(
        store,
        () => store.completeWorkflow(id, { state }),
        "Scheduler completion must report a settled child state",
      );
    for (const runId of ["other", null])
      refused(
        store,
        () => store.completeWorkflow(id, { state: "failed", runId }),
        "Scheduler completion run ID does not match the reserved child run",
      );
    refused(store, () => store.completeWorkflow("absent", { state: "failed" }), "Workflow request not found: absent");
  });
  it.each([["waiting"], ["succeeded"], ["failed"], ["interrupted"]])("takes %s for settled", (state) => {
    const { store, id } = reserved();
    expect(store.completeWorkflow(id, { state, error: "e ✗" })).toMatchObject({ state, error: "e ✗" });
    expect(store.completeWorkflow(id, { state })).not.toHaveProperty("error");
    expect(store.completeWorkflow(id, { state, error: null })).not.toHaveProperty("error");
  });

  it("says null in the event where there is no run", () => {
    const { store, id } = reserved();
    expect(store.completeWorkflow(id, { state: "failed", runId: null })).not.toHaveProperty("runId");
    expect(store.listEvents({ limit: 1 })[0].payload).toStrictEqual({ requestId: id, runId: null, state: "failed" });
    expect(rows(store, "events").at(-1)).toMatchObject({
      actor_type: "system",
      actor_id: null,
      lease_generation: null,
    });
  });

  it("reserves no run that does not exist", () => {
    const { store, id } = reserved();
    expect(store.completeWorkflow(id, { state: "failed", runId: "nobody" })).not.toHaveProperty("runId");
  });

  it("refuses a state that is none", () => {
    const { store, id } = reserved();
    refused(
      store,
      () => store.completeWorkflow(id, { state: "done" }),
      expect.objectContaining({ code: "SQLITE_CONSTRAINT_CHECK" }),
    );
  });
});

describe("getWorkflow, getWorkflowByRequestId, listWorkflows", () => {
  it("give what is there, and nothing else", () => {
    const { store, uid, id } = reserved();
    const record = store.getWorkflow(uid, "repair:1");
    expect(store.getWorkflowByRequestId(id)).toStrictEqual(record);
    expect(store.listWorkflows(uid)).toStrictEqual([record]);
    expect([store.getWorkflow(uid, "absent"), store.getWorkflowByRequestId("absent")]).toStrictEqual([
      undefined,
      undefined,
    ]);
    expect(store.listWorkflows("absent")).toStrictEqual([]);
  });
  it("list the oldest first", () => {
    jest.useFakeTimers({ now: Date.parse(at(10)), doNotFake: ["nextTick", "setImmediate"] });
    try {
      const { store, uid, request } = begin();
      for (const [requestKey, seconds] of [
        ["second", 20],
        ["third", 30],
        ["first", 15],
      ]) {
        jest.setSystemTime(Date.parse(at(seconds)));
        store.reserveWorkflow({ ...request, requestKey });
      }
      expect(store.listWorkflows(uid).map((record) => record.requestKey)).toStrictEqual(["first", "second", "third"]);
    } finally {
      jest.useRealTimers();
    }
  });
});
