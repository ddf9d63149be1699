"use strict";

const { SqliteControllerStore, resourceIdFor, tokenHash } = require("..");
const { FOREVER_MS, at, claimed, refused } = require("./support");

const SURROGATE = "\ud800";

describe("arguments", () => {
  it.each([
    0,
    -1,
    1.5,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    "1000",
    undefined,
    null,
    2 ** 60,
    Number.MAX_SAFE_INTEGER,
    10n,
  ])("refuse %p for a leaseMs", (leaseMs) => {
    const { store, claim } = claimed();
    refused(store, () => store.claimNext({ controllers: ["jobs"], ownerId: "w", leaseMs, now: at(0) }), /leaseMs/);
    refused(store, () => store.renewClaim(claim, leaseMs, at(0)), /leaseMs/, claim);
    refused(store, () => store.claimWorkflowRun({ runId: "r", runnerId: "w", claimToken: "t", leaseMs }), /leaseMs/);
  });

  it.each([-1, 1.5, Number.NaN, "5", 2 ** 60])("refuse %p for a limit", (limit) => {
    const { store } = claimed();
    for (const call of [
      () => store.listEvents({ limit }),
      () => store.listWorkflowRuns({ limit }),
      () => store.listRunEventsAfter(0, { limit }),
    ]) {
      refused(store, call, /limit/);
    }
  });

  it("hold the longest lease that a Date can express", () => {
    const { store, claim } = claimed();
    const longest = 8.64e15 - Date.parse(at(1));
    expect(store.renewClaim(claim, longest, at(1))).toBe(true);
    expect(claim.expiresAt).toBe("+275760-09-13T00:00:00.000Z");
    expect(store.listQueue()[0].claimExpiresAt).toBe(claim.expiresAt);
  });

  const { raw } = String;
  it.each([
    ["putResource", [], TypeError],
    ["putResource", [{ controller: 1, key: "k", spec: 1, initialStatus: 1 }], /controller/],
    ["putResource", [{ controller: "c", key: SURROGATE, spec: 1, initialStatus: 1 }], /key/],
    ["putResource", [{ controller: SURROGATE, key: "k", spec: 1, initialStatus: 1 }], /controller/],
    ["getResource", ["jobs/one"], TypeError],
    ["getResource", [null], TypeError],
    ["getResource", [{ controller: "jobs" }], /ref\.key/],
    ["getResourceByUid", [1], /uid/],
    ["listResources", [{ controller: 1 }], /controller/],
    ["updateStatus", [{ ref: { controller: "jobs", key: "one" }, expectedResourceVersion: 1, status: {} }], /claim/],
    ["requestDeletion", [], TypeError],
    [
      "updateFinalizers",
      [{ ref: { controller: "jobs", key: "one" }, expectedResourceVersion: "1", finalizers: [] }],
      /expectedResourceVersion/,
    ],
    ["deleteResource", [{ controller: "jobs", key: "one" }, 1], /claim/],
    ["enqueue", [{ controller: "jobs", key: SURROGATE }], /key/],
    ["claimNext", [{ controllers: "jobs", ownerId: "w", leaseMs: 1 }], /controllers/],
    ["claimNext", [{ controllers: ["jobs", 1], ownerId: "w", leaseMs: 1 }], /controllers\[1\]/],
    ["claimNext", [{ controllers: ["jobs"], ownerId: 1, leaseMs: 1 }], /ownerId/],
    ["renewClaim", [{}, 1], /claim\.controller/],
    ["settleClaim", [], /claim/],
    ["getEffect", ["u", SURROGATE], /key/],
    ["listEffects", [undefined], /resourceUid/],
    ["reserveEffect", [], TypeError],
    ["reserveEffect", [{ key: 1 }], /key must be a string/],
    ["reserveEffect", [{ key: "e", resourceUid: "u" }], /claim/],
    ["updateEffect", [{ resourceUid: 1 }], /resourceUid/],
    ["reserveWorkflow", [{ resourceUid: "u", claim: null }], /claim/],
    ["updateWorkflow", ["id", { state: 1 }, {}], /update\.state/],
    ["updateWorkflow", ["id", { state: "running", runId: 1 }, {}], /update\.runId/],
    ["updateWorkflow", ["id", { state: "running", error: 1 }, {}], /update\.error/],
    ["updateWorkflow", ["id", { state: "running" }], /claim/],
    ["completeWorkflow", ["id", { state: "failed", attempt: "1" }], /update\.attempt/],
    ["getWorkflowByRequestId", [], /requestId/],
    ["listWorkflows", [null], /resourceUid/],
    ["listResources", [null], /options/],
    ["listEvents", [{ key: 1 }], /key/],
    ["listEvents", [{ limit: null }], /limit/],
    ["recordEvent", [{ controller: "jobs", key: "one", type: "t", payload: 1n }], /bigint/],
    ["recordEvent", [{ controller: "jobs", key: "one", type: "t", claim: null }], /claim/],
    ["getWorkflow", ["u", 1], /requestKey/],
    ["completeWorkflow", ["id"], /update/],
    ["recordEvent", [{ controller: "jobs", key: "one", type: 1 }], /type/],
    ["listRunEventsAfter", ["0"], /seq/],
    ["getWorkflowRun", [1], /runId/],
    ["failWorkflowRun", [{ runId: "r", errorCode: 1, errorMessage: "" }], /errorCode/],
    ["claimWorkflowRun", [{ runId: "r", runnerId: "w", claimToken: 1, leaseMs: 1 }], /claimToken/],
    ["ensureWorkflowTurnIntent", [{}], /intentId/],
    ["enqueueWorkflowNotification", [{ runId: "r", attemptId: "a", notificationIndex: "1" }], /notificationIndex/],
  ])("of %s(%j) are refused by name", (method, parameters, expected) => {
    const { store } = claimed();
    refused(store, () => store[method](...parameters), expected);
  });

  it("of claims are refused field by field", () => {
    const { store, claim } = claimed();
    for (const [field, value] of [
      ["controller", 1],
      ["key", SURROGATE],
      ["ownerId", undefined],
      ["token", 1],
      ["generation", "1"],
      ["generation", 1.5],
      ["queueVersion", undefined],
    ]) {
      refused(store, () => store.settleClaim({ ...claim, [field]: value }, at(1)), new RegExp(raw`claim\.${field}`));
    }
  });

  it("that call back into the store are read before the native call", () => {
    const { store } = claimed();
    const options = {
      controllers: ["jobs"],
      get ownerId() {
        return store.listResources()[0].metadata.key;
      },
      leaseMs: FOREVER_MS,
      now: at(0),
    };
    expect(store.claimNext(options)).toBeUndefined();
  });

  it("keep contents that are no names, with U+FFFD for lone surrogates", () => {
    const { store, claim, uid } = claimed();
    store.reserveEffect({
      key: "e",
      resourceUid: uid,
      claim,
      generation: 1,
      kind: "k",
      requestFingerprint: "f",
      now: at(1),
    });
    const updated = store.updateEffect({
      resourceUid: uid,
      key: "e",
      claim,
      state: "rejected",
      error: `a\u0000${SURROGATE}`,
      now: at(1),
    });
    expect(updated.error).toBe("a\u0000\ufffd");
  });

  it("of constructors are checked", () => {
    expect(() => new SqliteControllerStore(1)).toThrow(/filePath/);
    expect(() => new SqliteControllerStore("x", null)).toThrow(/options/);
    expect(() => new SqliteControllerStore("x", { readOnly: "yes" })).toThrow(/readOnly/);
    expect(() => new SqliteControllerStore("x", { projectPath: 1 })).toThrow(/projectPath/);
    expect(() => new SqliteControllerStore("x", { state: {} })).toThrow(/state/);
  });
  it("of a requeue are refused by name, and the claim stays as it was", () => {
    const { store, claim } = claimed();
    const requeue = (options) => () => store.requeueClaim(claim, options, at(1));
    refused(store, requeue(undefined), /options/, claim);
    refused(store, requeue({ availableAt: at(2), error: 1 }), /error/, claim);
    refused(store, requeue({ availableAt: null }), /availableAt/, claim);
  });

  it("that are numbers of another kind are refused", () => {
    const { store, uid, ref, claim } = claimed();
    for (const number of ["1", 1n, null, 1.5, Number.NaN, 2 ** 53]) {
      const effect = { key: "e", resourceUid: uid, claim, generation: number, kind: "k", requestFingerprint: "f" };
      refused(store, () => store.reserveEffect({ ...effect, now: at(1) }), /generation/, claim);
      refused(store, () => store.deleteResource(ref, number, claim), /expectedResourceVersion/, claim);
    }
  });

  it("that throw pass their own error on", () => {
    const { store } = claimed();
    const mine = new RangeError("mine");
    const options = {
      get controller() {
        throw mine;
      },
    };
    refused(store, () => store.putResource(options), mine);
    refused(store, () => store.getResource(new Proxy({}, { get: () => options.controller })), mine);
  });

  it("take names of any Unicode, and NUL", () => {
    const { store } = claimed();
    for (const key of ["snow ☃ \u{1f600}", "a\u0000b", "a\u0000", "é", "e\u0301", " ", "'; --"]) {
      store.putResource({ controller: "any", key, spec: { key }, initialStatus: 1, now: at(0) });
      expect(store.getResource({ controller: "any", key })?.spec).toStrictEqual({ key });
    }
    expect(store.listResources({ controller: "any" })).toHaveLength(7);
  });
});

describe("resourceIdFor, tokenHash", () => {
  it("are what the TypeScript modules derive", () => {
    expect(resourceIdFor("run", "run-1")).toBe("run-66e4f52214380b24dd04f707af100e5afe8d5297");
    expect(tokenHash("token").toString("hex")).toBe("3c469e9d6c5875d37a43f353d4f88e61fcf812c66eee3457465a40b0da4153e0");
    expect(Buffer.isBuffer(tokenHash(""))).toBe(true);
    expect(() => resourceIdFor("run", 1)).toThrow(/aggregateKey/);
    expect(() => tokenHash(1)).toThrow(/token/);
  });
});
