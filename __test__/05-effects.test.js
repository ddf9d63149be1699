"use strict";

const { EffectRequestConflictError } = require("..");
const { FOREVER_MS, at, claimed, refused, rows, unchanged } = require("./support");

const begin = () => {
  const { uid, claim, ...rest } = claimed();
  const request = {
    key: "merge:1",
    resourceUid: uid,
    claim,
    generation: 1,
    kind: "merge",
    requestFingerprint: "f",
    now: at(1),
  };
  return { ...rest, uid, claim, request };
};

describe("reserveEffect", () => {
  it("reserves once and adopts the same request", () => {
    const { store, uid, request } = begin();
    const { record, created } = store.reserveEffect(request);
    expect(created).toBe(true);
    expect(record).toStrictEqual({
      key: "merge:1",
      resourceUid: uid,
      generation: 1,
      kind: "merge",
      state: "pending",
      requestFingerprint: "f",
      startedAt: at(1),
    });
    expect(unchanged(store, () => store.reserveEffect({ ...request, now: at(2) }))).toStrictEqual({
      record,
      created: false,
    });
  });

  it("refuses another request under the same key, a stale claim and another resource", () => {
    const { store, claim, request } = begin();
    store.reserveEffect(request);
    for (const other of [{ kind: "x" }, { generation: 2 }, { requestFingerprint: "x" }]) {
      refused(store, () => store.reserveEffect({ ...request, ...other }), EffectRequestConflictError, claim);
      refused(
        store,
        () => store.reserveEffect({ ...request, ...other }),
        'Effect key "merge:1" was reused with a different request',
      );
    }
    refused(
      store,
      () => store.reserveEffect({ ...request, claim: { ...claim, token: "x" } }),
      "Controller claim is stale",
    );
    refused(
      store,
      () => store.reserveEffect({ ...request, resourceUid: "absent" }),
      "Controller resource not found: absent",
    );
    const two = store.putResource({ controller: "jobs", key: "two", spec: 1, initialStatus: 1, now: at(0) });
    refused(
      store,
      () => store.reserveEffect({ ...request, resourceUid: two.metadata.uid }),
      "Controller claim targets another resource",
    );
  });

  it("asks again after the spec has changed: the effect has the resource's generation", () => {
    const { store, ref, request } = begin();
    store.reserveEffect(request);
    store.putResource({ ...ref, spec: { v: 2 }, initialStatus: {}, now: at(2) });
    refused(store, () => store.reserveEffect(request), EffectRequestConflictError);
    expect(store.reserveEffect({ ...request, generation: 2 }).created).toBe(false);
  });
  it("keeps keys of resources apart", () => {
    const { store, request } = begin();
    store.reserveEffect(request);
    const two = store.putResource({ controller: "jobs", key: "two", spec: 1, initialStatus: 1, now: at(0) });
    const claim = store.claimNext({ controllers: ["jobs"], ownerId: "worker-1", leaseMs: FOREVER_MS, now: at(0) });
    const other = { ...request, resourceUid: two.metadata.uid, claim, kind: "other" };
    expect(store.reserveEffect(other)).toMatchObject({ created: true, record: { kind: "other" } });
    expect(store.reserveEffect(request)).toMatchObject({ created: false, record: { kind: "merge" } });
  });

  it("takes a claim that cannot be changed, and leaves the version of the resource alone", () => {
    const { store, ref, claim, request } = begin();
    const before = store.getResource(ref);
    expect(store.reserveEffect({ ...request, claim: Object.freeze(claim) }).created).toBe(true);
    expect(store.getResource(ref)).toStrictEqual(before);
  });

  it("names any key, as JSON, in the refusal", () => {
    const { store, request } = begin();
    const key = 'say "hi"\n☃\u0000';
    store.reserveEffect({ ...request, key });
    refused(
      store,
      () => store.reserveEffect({ ...request, key, kind: "x" }),
      `Effect key ${JSON.stringify(key)} was reused with a different request`,
    );
  });

  it("refuses a claim from the moment on at which it lapses, even for a reserved effect", () => {
    const { store, claim, request } = begin();
    store.reserveEffect(request);
    store.renewClaim(claim, 1_000, at(1));
    expect(store.reserveEffect({ ...request, now: new Date(Date.parse(at(2)) - 1).toISOString() }).created).toBe(false);
    refused(store, () => store.reserveEffect({ ...request, now: at(2) }), "Controller claim is stale", claim);
    refused(store, () => store.reserveEffect({ ...request, now: "never" }), "Invalid timestamp", claim);
  });
});

describe("updateEffect", () => {
  it.each([
    ["applied", { externalRef: "sha" }, { completedAt: at(2), externalRef: "sha" }],
    ["rejected", { error: "no ✗" }, { completedAt: at(2), error: "no ✗" }],
    ["indeterminate", {}, { completedAt: at(2) }],
    ["pending", { error: "again" }, { error: "again" }],
  ])("stores the outcome %s", (state, given, found) => {
    const { store, uid, claim, request } = begin();
    const { record } = store.reserveEffect(request);
    const updated = store.updateEffect({ resourceUid: uid, key: "merge:1", claim, state, ...given, now: at(2) });
    expect(updated).toStrictEqual({ ...record, state, ...found });
    expect(store.getEffect(uid, "merge:1")).toStrictEqual(updated);
  });

  it("replaces an earlier outcome, reference and error", () => {
    const { store, uid, claim, request } = begin();
    store.reserveEffect(request);
    const update = (options) => store.updateEffect({ resourceUid: uid, key: "merge:1", claim, now: at(2), ...options });
    update({ state: "applied", externalRef: "sha", error: "e" });
    expect(update({ state: "rejected" })).not.toHaveProperty("externalRef");
    expect(rows(store, "events").map((event) => event.event_type)).toStrictEqual(
      expect.arrayContaining(["effect.reserved", "effect.applied", "effect.rejected"]),
    );
  });

  it("refuses what was not reserved, a stale claim and a state that is none", () => {
    const { store, uid, claim, request } = begin();
    store.reserveEffect(request);
    const update = (options) => () =>
      store.updateEffect({ resourceUid: uid, key: "merge:1", claim, state: "applied", now: at(2), ...options });
    refused(store, update({ key: "absent" }), `Effect record not found: ${uid}/absent`);
    refused(store, update({ claim: { ...claim, generation: 2 } }), "Controller claim is stale");
    refused(
      store,
      update({ now: new Date(Date.parse(at(0)) + FOREVER_MS).toISOString() }),
      "Controller claim is stale",
    );
    refused(store, update({ state: "done" }), expect.objectContaining({ code: "SQLITE_CONSTRAINT_CHECK" }));
  });
  it("opens a settled effect again as pending, without the time of completion", () => {
    const { store, uid, claim, request } = begin();
    const { record } = store.reserveEffect(request);
    const update = (state) => store.updateEffect({ resourceUid: uid, key: "merge:1", claim, state, now: at(2) });
    expect(update("applied").completedAt).toBe(at(2));
    expect(update("pending")).toStrictEqual(record);
    expect(store.reserveEffect(request)).toStrictEqual({ record, created: false });
  });

  it("refuses an absent resource and the claim of another one", () => {
    const { store, claim, request } = begin();
    store.reserveEffect(request);
    const two = store.putResource({ controller: "jobs", key: "two", spec: 1, initialStatus: 1, now: at(0) });
    const update = (resourceUid) => () =>
      store.updateEffect({ resourceUid, key: "merge:1", claim, state: "applied", now: at(2) });
    refused(store, update("absent"), "Controller resource not found: absent", claim);
    refused(store, update(two.metadata.uid), "Controller claim targets another resource", claim);
  });

  it("takes a claim that cannot be changed, and leaves the version of the resource alone", () => {
    const { store, ref, uid, claim, request } = begin();
    store.reserveEffect(request);
    const before = store.getResource(ref);
    Object.freeze(claim);
    store.updateEffect({ resourceUid: uid, key: "merge:1", claim, state: "applied", now: at(2) });
    expect(store.getResource(ref)).toStrictEqual(before);
  });
});

describe("getEffect, listEffects", () => {
  it("give what is there, oldest first, and nothing else", () => {
    const { store, uid, request } = begin();
    for (const [key, seconds] of [
      ["b", 3],
      ["a", 2],
    ])
      store.reserveEffect({ ...request, key, now: at(seconds) });
    expect(store.listEffects(uid).map((effect) => effect.key)).toStrictEqual(["a", "b"]);
    expect(store.listEffects("absent")).toStrictEqual([]);
    expect(store.getEffect(uid, "absent")).toBeUndefined();
    expect(store.getEffect("absent", "a")).toBeUndefined();
  });
  it("give the effects of a resource that is gone no longer", () => {
    const { store, ref, uid, claim, request } = begin();
    store.reserveEffect(request);
    store.requestDeletion(ref, at(2));
    store.deleteResource(ref, 3, claim);
    expect(store.getEffect(uid, "merge:1")).toBeUndefined();
    expect(store.listEffects(uid)).toStrictEqual([]);
  });
});
