"use strict";

const { at, refused, rows, runRequest, unchanged, world } = require("./support");

function begin() {
  const store = world().open();
  store.reserveWorkflowRun(runRequest("run-1", "session-a"));
  store.state.connection.exec(`INSERT INTO node_attempts(attempt_id, run_id, node_id, attempt_number, node_type, status, created_at, updated_at)
    VALUES ('attempt-1', 'run-1', 'reply', 1, 'agent', 'completed', 1, 1)`);
  return store;
}
const facts = (extra = {}) => ({
  schema: "pi-workflows.deferred-turn-facts.v1",
  workflowName: "echo",
  runId: "run-1",
  observedState: "failed",
  cause: "failed",
  nodeId: null,
  attemptId: null,
  reason: null,
  handoff: false,
  ...extra,
});
const intent = (name, seconds, extra = {}) => ({
  intentId: name,
  sourceEventId: `source-${name}`,
  runId: "run-1",
  workflowRef: "echo",
  targetSessionId: "session-a",
  cause: "failed",
  fallbackFacts: facts(),
  eligible: true,
  requestedAt: at(seconds),
  ...extra,
});
const claim = (claimToken, seconds, extra = {}) => ({
  targetSessionId: "session-a",
  claimToken,
  leaseMs: 10_000,
  now: at(seconds),
  ...extra,
});
const ids = (records) => records.map((record) => record.intentId ?? record.notificationId);

describe("ensureWorkflowTurnIntent", () => {
  it("stores an intent once for its source event", () => {
    const store = begin();
    const first = store.ensureWorkflowTurnIntent(intent("i1", 1, { nodeId: "reply", eligible: false }));
    expect(first).toStrictEqual({
      intentId: "i1",
      sourceEventId: "source-i1",
      runId: "run-1",
      workflowRef: "echo",
      targetSessionId: "session-a",
      cause: "failed",
      nodeId: "reply",
      attemptId: null,
      fallbackFacts: facts(),
      requestedAt: at(1),
      eligibleAt: null,
      resolvedAt: null,
      resolution: null,
      resolutionMessageId: null,
      deliveryClaimExpiresAt: null,
    });
    expect(
      unchanged(store, () => store.ensureWorkflowTurnIntent({ ...intent("i2", 2), sourceEventId: "source-i1" })),
    ).toStrictEqual(first);
    expect(rows(store, "effects")).toMatchObject([
      { effect_type: "turn.deliver", idempotency_key: "i1", status: "pending" },
    ]);
  });

  it("refuses an absent run and an id that is taken", () => {
    const store = begin();
    store.ensureWorkflowTurnIntent(intent("i1", 1));
    refused(
      store,
      () => store.ensureWorkflowTurnIntent(intent("i2", 1, { runId: "absent" })),
      "Workflow run not found: absent",
    );
    refused(
      store,
      () => store.ensureWorkflowTurnIntent(intent("i1", 1, { sourceEventId: "other" })),
      expect.objectContaining({ code: "SQLITE_CONSTRAINT_UNIQUE" }),
    );
    refused(
      store,
      () => store.ensureWorkflowTurnIntent(intent("i3", 1, { fallbackFacts: facts({ reason: new Date(0) }) })),
      "Only plain objects can be stored as canonical JSON",
    );
  });
});

describe("getWorkflowTurnIntent, findPendingWorkflowTurnIntent, listWorkflowTurnIntents", () => {
  it("give what is there, newest first", () => {
    const store = begin();
    for (const [index, name] of ["i1", "i2", "i3"].entries())
      store.ensureWorkflowTurnIntent(intent(name, index, { targetSessionId: index === 2 ? "session-b" : "session-a" }));
    expect(ids(store.listWorkflowTurnIntents())).toStrictEqual(["i3", "i2", "i1"]);
    expect(ids(store.listWorkflowTurnIntents({ targetSessionId: "session-a", limit: 1 }))).toStrictEqual(["i2"]);
    expect(ids(store.listWorkflowTurnIntents({ runId: "run-1", unresolvedOnly: true }))).toStrictEqual([
      "i3",
      "i2",
      "i1",
    ]);
    expect(store.listWorkflowTurnIntents({ runId: "absent" })).toStrictEqual([]);
    expect(store.getWorkflowTurnIntent("i1").requestedAt).toBe(at(0));
    expect(store.getWorkflowTurnIntent("absent")).toBeUndefined();
    expect(store.findPendingWorkflowTurnIntent({ runId: "run-1", targetSessionId: "session-a" }).intentId).toBe("i2");
    expect(store.findPendingWorkflowTurnIntent({ runId: "run-1", targetSessionId: "session-z" })).toBeUndefined();
  });
});

describe("claimWorkflowTurnIntent, releaseWorkflowTurnIntentClaim", () => {
  it("claim for one at a time, of the intent's own session", () => {
    const store = begin();
    store.ensureWorkflowTurnIntent(intent("i1", 1));
    const one = (token, seconds, extra) =>
      store.claimWorkflowTurnIntent({ intentId: "i1", ...claim(token, seconds, extra) });
    expect(unchanged(store, () => one("t0", 2, { targetSessionId: "session-b" }))).toBeUndefined();
    expect(one("t1", 2)).toMatchObject({ intentId: "i1", deliveryClaimExpiresAt: at(12) });
    expect(unchanged(store, () => one("t2", 3))).toBeUndefined();
    const release = (options) =>
      store.releaseWorkflowTurnIntentClaim({
        intentId: "i1",
        targetSessionId: "session-a",
        claimToken: "t1",
        ...options,
      });
    for (const wrong of [{ claimToken: "t2" }, { targetSessionId: "session-b" }, { intentId: "absent" }])
      expect(unchanged(store, () => release(wrong))).toBe(false);
    expect(release({})).toBe(true);
    expect(one("t3", 3)).toBeDefined();
    expect(one("t4", 13)).toBeDefined();
    expect(store.claimWorkflowTurnIntent({ intentId: "absent", ...claim("t", 1) })).toBeUndefined();
  });
});

describe("claimEligibleWorkflowTurnIntents, makeWorkflowTurnIntentEligible", () => {
  it("claim the eligible ones of a session, oldest first", () => {
    const store = begin();
    for (const [index, name] of ["i1", "i2", "i3"].entries())
      store.ensureWorkflowTurnIntent(intent(name, index, { eligible: index < 2 }));
    expect(ids(store.claimEligibleWorkflowTurnIntents(claim("t1", 9, { limit: 1 })))).toStrictEqual(["i1"]);
    expect(ids(store.claimEligibleWorkflowTurnIntents(claim("t2", 9)))).toStrictEqual(["i2"]);
    expect(unchanged(store, () => store.claimEligibleWorkflowTurnIntents(claim("t3", 9)))).toStrictEqual([]);
    expect(
      store.makeWorkflowTurnIntentEligible({
        intentId: "i3",
        fallbackFacts: facts({ observedState: "late" }),
        eligibleAt: at(20),
      }),
    ).toBe(true);
    expect(ids(store.claimEligibleWorkflowTurnIntents(claim("t4", 18)))).toStrictEqual([]);
    const claimed = store.claimEligibleWorkflowTurnIntents(claim("t5", 20));
    expect(ids(claimed)).toStrictEqual(["i1", "i2", "i3"]);
    expect(claimed[2].fallbackFacts.observedState).toBe("late");
  });

  it("give nothing for what is not there", () => {
    const store = begin();
    expect(store.makeWorkflowTurnIntentEligible({ intentId: "absent", fallbackFacts: facts(), now: at(1) })).toBe(
      false,
    );
    expect(store.claimEligibleWorkflowTurnIntents(claim("t", 1))).toStrictEqual([]);
  });
});

describe("resolveWorkflowTurnIntent", () => {
  it("settles a claimed intent once", () => {
    const store = begin();
    store.ensureWorkflowTurnIntent(intent("i1", 1));
    store.claimWorkflowTurnIntent({ intentId: "i1", ...claim("t1", 2) });
    const resolve = (seconds, extra = {}) =>
      store.resolveWorkflowTurnIntent({
        intentId: "i1",
        targetSessionId: "session-a",
        claimToken: "t1",
        resolution: "fallback",
        messageId: "m",
        now: at(seconds),
        ...extra,
      });
    for (const [seconds, wrong] of [
      [3, { claimToken: "t2" }],
      [3, { targetSessionId: "session-b" }],
      [3, { intentId: "absent" }],
      [12, {}],
    ]) {
      expect(unchanged(store, () => resolve(seconds, wrong))).toBe(false);
    }
    expect(resolve(4)).toBe(true);
    expect(store.getWorkflowTurnIntent("i1")).toMatchObject({
      resolvedAt: at(4),
      resolution: "fallback",
      resolutionMessageId: "m",
      deliveryClaimExpiresAt: null,
    });
    expect(rows(store, "effects")[0]).toMatchObject({ status: "applied", settled_at: Date.parse(at(4)) });
    expect(unchanged(store, () => resolve(5))).toBe(false);
    expect(store.claimWorkflowTurnIntent({ intentId: "i1", ...claim("t9", 99) })).toBeUndefined();
    expect(unchanged(store, () => store.listWorkflowTurnIntents({ unresolvedOnly: true }))).toStrictEqual([]);
  });
});

describe("notifications", () => {
  const notification = (index, seconds, extra = {}) => ({
    runId: "run-1",
    nodeId: "any",
    attemptId: "attempt-1",
    notificationIndex: index,
    targetSessionId: "session-a",
    kind: "progress",
    content: `line ${index} ✓`,
    now: at(seconds),
    ...extra,
  });

  it("are stored once for each attempt and index, with the attempt's node", () => {
    const store = begin();
    const first = store.enqueueWorkflowNotification(notification(1, 1));
    expect(first).toStrictEqual({
      notificationId: expect.stringMatching(/^notification-[0-9a-f-]{36}$/),
      runId: "run-1",
      nodeId: "reply",
      attemptId: "attempt-1",
      notificationIndex: 1,
      targetSessionId: "session-a",
      kind: "progress",
      content: "line 1 ✓",
      createdAt: at(1),
      deliveryClaimExpiresAt: null,
      deliveredAt: null,
    });
    expect(
      unchanged(store, () => store.enqueueWorkflowNotification(notification(1, 2, { content: "other" }))),
    ).toStrictEqual(first);
  });

  it("are refused for an absent run or attempt, and of another kind", () => {
    const store = begin();
    refused(
      store,
      () => store.enqueueWorkflowNotification(notification(1, 1, { runId: "absent" })),
      "Workflow run not found: absent",
    );
    refused(
      store,
      () => store.enqueueWorkflowNotification(notification(1, 1, { attemptId: "absent" })),
      expect.objectContaining({ code: "SQLITE_CONSTRAINT_FOREIGNKEY" }),
    );
    refused(
      store,
      () => store.enqueueWorkflowNotification(notification(1, 1, { kind: "other" })),
      expect.objectContaining({ code: "SQLITE_CONSTRAINT_CHECK" }),
    );
  });

  it("are claimed by their session, oldest first, and delivered once", () => {
    const store = begin();
    const [one, two] = [
      store.enqueueWorkflowNotification(notification(1, 1)),
      store.enqueueWorkflowNotification(notification(2, 2, { kind: "final" })),
    ];
    expect(store.claimPendingWorkflowNotifications(claim("t0", 3, { targetSessionId: "session-b" }))).toStrictEqual([]);
    expect(store.claimPendingWorkflowNotifications(claim("t1", 3, { limit: 1 }))).toStrictEqual([one]);
    expect(store.claimPendingWorkflowNotifications(claim("t2", 3))).toStrictEqual([two]);
    expect(unchanged(store, () => store.claimPendingWorkflowNotifications(claim("t3", 3)))).toStrictEqual([]);
    const deliver = (options) =>
      store.markWorkflowNotificationDelivered({
        notificationId: one.notificationId,
        targetSessionId: "session-a",
        claimToken: "t1",
        now: at(4),
        ...options,
      });
    for (const wrong of [
      { claimToken: "t2" },
      { targetSessionId: "session-b" },
      { notificationId: "absent" },
      { now: at(13) },
    ]) {
      expect(unchanged(store, () => deliver(wrong))).toBe(false);
    }
    expect(deliver({})).toBe(true);
    expect(unchanged(store, () => deliver({}))).toBe(false);
    // the record says when the claim before this one lapsed
    expect(store.claimPendingWorkflowNotifications(claim("t4", 20))).toStrictEqual([
      { ...two, deliveryClaimExpiresAt: at(13) },
    ]);
  });
});
