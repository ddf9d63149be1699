"use strict";

const { ResourceConflictError, ResourceNotFoundError } = require("..");
const { FOREVER_MS, at, claimed, refused, rows, unchanged, world } = require("./support");

const put = (store, options = {}) =>
  store.putResource({
    controller: "jobs",
    key: "one",
    spec: { b: 1, a: undefined },
    initialStatus: { phase: "new" },
    now: at(0),
    ...options,
  });
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe("putResource", () => {
  it("creates a resource as it is read afterwards: a copy, without what is undefined", () => {
    const store = world().open();
    const spec = { b: 1, a: undefined, list: [{ z: 1, y: 2 }] };
    const created = put(store, { spec });
    expect(created).toStrictEqual({
      metadata: {
        uid: expect.stringMatching(UUID),
        controller: "jobs",
        key: "one",
        resourceVersion: 1,
        generation: 1,
        finalizers: [],
      },
      spec: { b: 1, list: [{ y: 2, z: 1 }] },
      status: { observedGeneration: 0, conditions: [], controllerStatus: { phase: "new" } },
    });
    expect(Object.keys(created.spec.list[0])).toStrictEqual(["y", "z"]);
    expect(created.spec.list).not.toBe(spec.list);
    expect(store.getResource({ controller: "jobs", key: "one" })).toStrictEqual(created);
    expect(store.listQueue()).toStrictEqual([
      { controller: "jobs", key: "one", availableAt: at(0), consecutiveErrors: 0 },
    ]);
  });

  it("changes nothing for the same spec in another order, whatever the status", () => {
    const store = world().open();
    const first = put(store, { spec: { a: 1, b: 2 } });
    expect(
      unchanged(store, () => put(store, { spec: { b: 2, a: 1 }, initialStatus: "other", now: at(9) })),
    ).toStrictEqual(first);
  });

  it("makes a version and a generation of a changed spec, and queues it at the earlier time", () => {
    const store = world().open();
    const first = put(store);
    const second = put(store, { spec: { b: 2 }, initialStatus: "ignored", now: at(5) });
    expect(second.metadata).toStrictEqual({ ...first.metadata, resourceVersion: 2, generation: 2 });
    expect(second.status).toStrictEqual(first.status);
    expect(store.listQueue()[0].availableAt).toBe(at(0));
    expect(store.listEvents().map((event) => [event.type, event.payload])).toStrictEqual([
      ["resource.spec_updated", { generation: 2 }],
      ["resource.created", { generation: 1 }],
    ]);
  });

  it("takes names of 1 to 512 UTF-16 code units", () => {
    const store = world().open();
    expect(put(store, { key: "k".repeat(512) }).metadata.key).toHaveLength(512);
    expect(put(store, { key: "\u{1f600}".repeat(256) }).metadata.key).toHaveLength(512);
    for (const key of ["", "k".repeat(513), `${"\u{1f600}".repeat(256)}k`]) {
      refused(store, () => put(store, { key }), "resource key is invalid");
      refused(store, () => put(store, { controller: key }), "controller is invalid");
    }
  });

  it("reads times in every form that Date accepts", () => {
    const store = world().open();
    const forms = [
      "2026-08-04T02:30:00.5+02:30",
      "2026-08-04",
      "Tue, 04 Aug 2026 00:00:00 GMT",
      Date.UTC(2026, 7, 4),
      new Date(at(0)),
    ];
    for (const [index, now] of forms.entries()) put(store, { key: `k${index}`, now });
    expect(store.listQueue().map((item) => item.availableAt)).toStrictEqual([at(0), at(0), at(0), at(0), at(0.5)]);
    for (const now of ["nonsense", "", "2026-13-01T00:00:00Z", Number.NaN, new Date(Number.NaN)]) {
      refused(store, () => put(store, { key: "bad", now }), "Invalid timestamp");
    }
    for (const now of [null, {}, true]) refused(store, () => put(store, { key: "bad", now }), TypeError);
  });

  it("reads the caller's clock where no time is given", () => {
    jest.useFakeTimers({ now: Date.parse(at(42)), doNotFake: ["nextTick", "setImmediate"] });
    try {
      const store = world().open();
      put(store, { now: undefined });
      expect(store.listQueue()[0].availableAt).toBe(at(42));
      expect(rows(store, "projects")[0].created_at).toBe(Date.parse(at(42)));
    } finally {
      jest.useRealTimers();
    }
  });

  it("goes on counting when a key is used again", () => {
    const { store, ref, claim, uid } = claimed();
    store.reserveEffect({
      key: "e",
      resourceUid: uid,
      claim,
      generation: 1,
      kind: "k",
      requestFingerprint: "f",
      now: at(0),
    });
    store.reserveWorkflow({
      resourceUid: uid,
      claim,
      requestKey: "r",
      workflow: "w",
      inputFingerprint: "ab".repeat(32),
    });
    const marked = store.requestDeletion(ref, at(1));
    expect(store.deleteResource(ref, marked.metadata.resourceVersion, claim)).toBe(true);
    const events = rows(store, "events").length;
    const again = put(store, { now: at(2) });
    expect(again.metadata.uid).not.toBe(uid);
    expect(again.metadata).toMatchObject({ generation: 1, finalizers: [] });
    expect(again.metadata.resourceVersion).toBeGreaterThan(marked.metadata.resourceVersion);
    expect(rows(store, "events")).toHaveLength(events + 1);
    // nothing of the former life is there under the new uid, and its keys are free
    expect(store.listEffects(again.metadata.uid)).toStrictEqual([]);
    expect(store.listWorkflows(again.metadata.uid)).toStrictEqual([]);
    const next = store.claimNext({ controllers: ["jobs"], ownerId: "w", leaseMs: FOREVER_MS, now: at(2) });
    expect(next.generation).toBeGreaterThan(claim.generation);
    const effect = {
      key: "e",
      resourceUid: again.metadata.uid,
      claim: next,
      generation: 1,
      kind: "other",
      requestFingerprint: "g",
      now: at(3),
    };
    expect(store.reserveEffect(effect).created).toBe(true);
    store.state.integrityCheck();
  });
  it("refuses a spec or a status that is no JSON, and writes neither", () => {
    const store = world().open();
    for (const bad of [new Date(0), new Map()]) {
      refused(store, () => put(store, { spec: bad }), "Only plain objects can be stored as canonical JSON");
      refused(store, () => put(store, { initialStatus: bad }), "Only plain objects can be stored as canonical JSON");
    }
    refused(store, () => put(store, { spec: undefined }), "Unsupported JSON value type: undefined");
    refused(store, () => put(store, { initialStatus: undefined }), "Unsupported JSON value type: undefined");
    refused(store, () => put(store, { spec: { n: Number.NaN } }), "JSON numbers must be finite");
  });

  it("counts a return to an earlier spec as a change", () => {
    const store = world().open();
    put(store, { spec: "a" });
    put(store, { spec: "b" });
    expect(put(store, { spec: "a" })).toMatchObject({ spec: "a", metadata: { generation: 3, resourceVersion: 3 } });
  });

  it("keeps a resource in the queue whose spec changes while it is claimed", () => {
    const { store, ref, claim } = claimed();
    expect(store.putResource({ ...ref, spec: 2, initialStatus: 1, now: at(1) }).metadata.resourceVersion).toBe(3);
    expect(store.settleClaim(claim, at(2))).toBe(true);
    expect(claim.resourceVersion).toBe(4);
    expect(store.listQueue()).toHaveLength(1);
  });

  it("changes the spec of a resource that is to be deleted, and keeps the mark", () => {
    const { store, ref } = claimed();
    const marked = store.requestDeletion(ref, at(1));
    const changed = store.putResource({ ...ref, spec: 2, initialStatus: 1, now: at(2) });
    expect(changed.metadata).toStrictEqual({ ...marked.metadata, generation: 2, resourceVersion: 4 });
    expect(changed.metadata.deletionTimestamp).toBe(at(1));
  });

  it.each([[null], [true], [""], [42], [[]], [{}], [[[[{ a: [{}] }]]]]])(
    "stores %j as a spec and as a status",
    (value) => {
      const store = world().open();
      const created = put(store, { spec: value, initialStatus: value });
      expect(created.spec).toStrictEqual(value);
      expect(created.status.controllerStatus).toStrictEqual(value);
      expect(store.getResource({ controller: "jobs", key: "one" })).toStrictEqual(created);
    },
  );

  it("takes frozen options, and leaves them alone", () => {
    const store = world().open();
    const spec = Object.freeze({ b: Object.freeze([1]), a: 2 });
    const options = Object.freeze({ controller: "jobs", key: "one", spec, initialStatus: null, now: at(0) });
    expect(store.putResource(options).spec).toStrictEqual({ a: 2, b: [1] });
    expect(Object.keys(spec)).toStrictEqual(["b", "a"]);
  });
});

describe("getResource, getResourceByUid", () => {
  it("give a resource, and undefined where there is none", () => {
    const store = world().open();
    const created = put(store);
    expect(store.getResourceByUid(created.metadata.uid)).toStrictEqual(created);
    expect(store.getResourceByUid("absent")).toBeUndefined();
    expect(store.getResource({ controller: "jobs", key: "absent" })).toBeUndefined();
  });

  it("refuse a value that is no JSON", () => {
    const store = world().open();
    put(store);
    store.state.connection.exec("UPDATE blobs SET media_type = 'text/plain'");
    expect(() => store.getResource({ controller: "jobs", key: "one" })).toThrow(
      "JSON blob is missing or has the wrong media type",
    );
  });
  it("find a resource of another project by its uid only", () => {
    const { open } = world();
    const created = put(open());
    const other = open({ projectPath: "/test/other" });
    expect(other.getResource({ controller: "jobs", key: "one" })).toBeUndefined();
    expect(other.getResourceByUid(created.metadata.uid)).toStrictEqual(created);
  });

  it("give a new copy each time", () => {
    const { store, ref } = claimed();
    const first = store.getResource(ref);
    first.metadata.finalizers.push("mine");
    first.spec.v = 9;
    expect(store.getResource(ref)).toMatchObject({ spec: { v: 1 }, metadata: { finalizers: [] } });
  });
});

describe("listResources", () => {
  it("lists by controller and key, of one controller or all", () => {
    const store = world().open();
    for (const [controller, key] of [
      ["jobs", "b"],
      ["jobs", "a"],
      ["alpha", "z"],
    ])
      put(store, { controller, key });
    const keys = (options) => store.listResources(options).map(({ metadata }) => metadata.key);
    expect(keys()).toStrictEqual(["z", "a", "b"]);
    expect(keys({ controller: "jobs" })).toStrictEqual(["a", "b"]);
    expect(keys({ controller: "none" })).toStrictEqual([]);
  });
  it("gives an empty list where there is nothing, and takes no options", () => {
    const store = world().open();
    expect(store.listResources()).toStrictEqual([]);
    const created = put(store);
    expect(store.listResources({})).toStrictEqual([created]);
    expect(store.listResources({ controller: undefined })).toStrictEqual([created]);
  });
});

describe("updateStatus", () => {
  const status = { observedGeneration: 1, conditions: [], controllerStatus: { phase: "ready" } };

  it("stores the status and takes the claim along", () => {
    const { store, claim, ref } = claimed();
    const updated = store.updateStatus({
      ref,
      expectedResourceVersion: 2,
      claim,
      status,
      finalizers: ["z", "a"],
      now: at(1),
    });
    expect(updated.status).toStrictEqual(status);
    expect(updated.metadata).toMatchObject({ resourceVersion: 3, finalizers: ["z", "a"] });
    expect(claim.resourceVersion).toBe(3);
    expect(
      store.updateStatus({ ref, expectedResourceVersion: 3, claim, status, now: at(2) }).metadata.finalizers,
    ).toStrictEqual(["z", "a"]);
  });

  it("refuses what is not its to change, and leaves file and claim as they were", () => {
    const { store, claim, ref } = claimed();
    store.putResource({ controller: "jobs", key: "two", spec: 1, initialStatus: 1, now: at(0) });
    const update = (options) => () =>
      store.updateStatus({ ref, expectedResourceVersion: 2, claim, status, now: at(1), ...options });
    refused(store, update({ expectedResourceVersion: 1 }), ResourceConflictError, claim);
    refused(store, update({ ref: { controller: "jobs", key: "absent" } }), ResourceNotFoundError, claim);
    refused(
      store,
      update({ ref: { controller: "jobs", key: "two" } }),
      "Controller claim targets another resource",
      claim,
    );
    for (const wrong of [{ token: "wrong" }, { ownerId: "worker-2" }, { generation: 7 }]) {
      refused(store, update({ claim: { ...claim, ...wrong } }), "Controller claim is stale");
    }
    refused(store, update({ finalizers: ["a", "a"] }), "Controller finalizers must be unique", claim);
    refused(
      store,
      update({ status: { ...status, controllerStatus: new Date(0) } }),
      "Only plain objects can be stored as canonical JSON",
      claim,
    );
    refused(
      store,
      update({ now: new Date(Date.parse(at(0)) + FOREVER_MS).toISOString() }),
      "Controller claim is stale",
      claim,
    );
  });

  it("refuses a claim that cannot be changed before anything is written", () => {
    const { store, claim, ref } = claimed();
    const frozen = Object.freeze({ ...claim });
    refused(
      store,
      () => store.updateStatus({ ref, expectedResourceVersion: 2, claim: frozen, status, now: at(1) }),
      TypeError,
      frozen,
    );
  });
  it("keeps conditions and child run as they are given, without what is undefined", () => {
    const { store, claim, ref } = claimed();
    const condition = (given, more) => ({
      type: "Ready",
      status: given,
      reason: "because",
      observedGeneration: 1,
      lastTransitionTime: at(1),
      ...more,
    });
    const full = {
      observedGeneration: 1,
      conditions: [condition(true, { message: "m ✗" }), condition(false), condition("unknown")],
      controllerStatus: [null, { z: 1, a: "é" }],
      workflowRun: { requestId: "r", state: "running", attempt: 1 },
    };
    const given = { ...full, workflowRun: { ...full.workflowRun, runId: undefined } };
    const updated = store.updateStatus({ ref, expectedResourceVersion: 2, claim, status: given, now: at(1) });
    expect(updated.status).toStrictEqual(full);
    expect(Object.keys(updated.status.controllerStatus[1])).toStrictEqual(["a", "z"]);
    expect(store.getResource(ref)).toStrictEqual(updated);
    expect(
      store.updateStatus({ ref, expectedResourceVersion: 3, claim, status, now: at(2) }).status,
    ).not.toHaveProperty("workflowRun");
    expect(store.listEvents({ limit: 1 })[0]).toMatchObject({ type: "resource.status_updated", recordedAt: at(2) });
  });

  it("removes all finalizers for an empty list", () => {
    const { store, claim, ref } = claimed();
    const update = (finalizers) =>
      store.updateStatus({
        ref,
        expectedResourceVersion: claim.resourceVersion,
        claim,
        status,
        finalizers,
        now: at(1),
      });
    update(["a", "b"]);
    expect(update([]).metadata.finalizers).toStrictEqual([]);
    expect(rows(store, "controller_finalizers")).toStrictEqual([]);
  });

  it("looks at the claim before the version", () => {
    const { store, claim, ref } = claimed();
    const wrong = { ...claim, token: "wrong" };
    refused(
      store,
      () => store.updateStatus({ ref, expectedResourceVersion: 9, claim: wrong, status, now: at(1) }),
      "Controller claim is stale",
      wrong,
    );
    refused(
      store,
      () => store.updateStatus({ ref, expectedResourceVersion: 9, claim, status, now: at(1) }),
      "Controller resource jobs/one changed during reconciliation",
      claim,
    );
  });

  it("is refused to whoever was taken over from", () => {
    const store = world().open();
    put(store);
    const next = (ownerId, seconds) =>
      store.claimNext({ controllers: ["jobs"], ownerId, leaseMs: 1_000, now: at(seconds) });
    const old = next("worker-1", 0);
    const taken = next("worker-2", 1);
    const ref = { controller: "jobs", key: "one" };
    const update = (claim) => store.updateStatus({ ref, expectedResourceVersion: 3, claim, status, now: at(1) });
    refused(store, () => update(old), "Controller claim is stale", old);
    expect(update(taken).metadata.resourceVersion).toBe(4);
  });
});
