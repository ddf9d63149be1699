"use strict";

const { at, claimed, refused, rows, unchanged, world } = require("./support");

describe("in a VM context, as Jest's", () => {
  it("results are objects and arrays of the caller's realm", () => {
    const { store, ref, claim } = claimed();
    for (const value of [
      store.getResource(ref),
      claim,
      store.listQueue()[0],
      store.state.connection.prepare("SELECT 1 AS a").get(),
    ]) {
      expect(value instanceof Object).toBe(true);
      expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    }
    for (const value of [
      store.listResources(),
      store.listEvents(),
      store.getResource(ref).metadata.finalizers,
      store.state.connection.prepare("SELECT 1").raw().get(),
    ]) {
      // biome-ignore lint/suspicious/useIsArray: Array.isArray holds in every realm, instanceof only in ours
      expect(value instanceof Array).toBe(true);
    }
  });

  it("errors are errors of the caller's realm", () => {
    const { store } = claimed();
    const thrown = (action) => {
      try {
        action();
      } catch (error) {
        return error;
      }
      return undefined;
    };
    for (const [action, expected] of [
      [() => store.getResource(1), TypeError],
      [() => store.requestDeletion({ controller: "c", key: "k" }), Error],
      [() => store.state.connection.exec("SELEC"), Error],
      [() => store.state.connection.prepare(""), RangeError],
    ]) {
      const error = thrown(action);
      expect(error instanceof Error).toBe(true);
      expect(error).toBeInstanceOf(expected);
    }
  });

  it("the same holds after a reset of the modules, for the classes of then", () => {
    const before = require("..");
    jest.resetModules();
    const after = require("..");
    expect(after.ResourceNotFoundError).not.toBe(before.ResourceNotFoundError);
    const { store, file } = claimed();
    // a store of the one copy takes the database of the other
    const shared = new after.SqliteControllerStore(file, { state: store.state, projectPath: "/test/project" });
    expect(shared.listResources()).toStrictEqual(store.listResources());
    expect(() => shared.requestDeletion({ controller: "c", key: "k" })).toThrow(after.ResourceNotFoundError);
    expect(() => store.requestDeletion({ controller: "c", key: "k" })).toThrow(before.ResourceNotFoundError);
    const own = new after.SqliteControllerStore(file, { projectPath: "/test/project" });
    expect(own.putResource({ controller: "c", key: "k", spec: {}, initialStatus: 1, now: at(0) }).spec).toStrictEqual(
      {},
    );
    own.close();
    jest.isolateModules(() => {
      const isolated = require("..");
      expect(() => isolated.canonicalJson(1n)).toThrow(Error);
    });
  });
  it("every error class is the caller's after a reset of the modules too", () => {
    for (const reset of [false, true]) {
      if (reset) jest.resetModules();
      const now = require("..");
      const { file } = claimed();
      const store = new now.SqliteControllerStore(file, { projectPath: "/test/project" });
      try {
        const ref = { controller: "jobs", key: "one" };
        for (const [name, action] of [
          ["ResourceNotFoundError", () => store.requestDeletion({ ...ref, key: "absent" })],
          ["ResourceConflictError", () => store.updateFinalizers({ ref, expectedResourceVersion: 9, finalizers: [] })],
          ["SqliteError", () => store.state.connection.exec("SELEC")],
        ]) {
          expect(action).toThrow(now[name]);
          expect(action).toThrow(Error);
        }
        expect(store.listEvents({ limit: 0 })).toStrictEqual([]);
        expect(store.getResource(ref).metadata.finalizers).toStrictEqual([]);
      } finally {
        store.close();
      }
    }
  });

  it("buffers are the caller's", () => {
    const { tokenHash } = require("..");
    const hash = tokenHash("t");
    expect(Buffer.isBuffer(hash)).toBe(true);
    expect(hash).toBeInstanceOf(Buffer);
  });
});

describe("under Jest's fake timers", () => {
  const set = (seconds) => jest.setSystemTime(Date.parse(at(seconds)));

  beforeEach(() => {
    jest.useFakeTimers({ now: Date.parse(at(0)), doNotFake: ["nextTick", "setImmediate"] });
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  /** A resource and a claim of ten seconds on it, all by the clock. */
  function begin() {
    const store = world().open();
    const ref = { controller: "jobs", key: "one" };
    const { uid } = store.putResource({ ...ref, spec: 1, initialStatus: {} }).metadata;
    const claim = store.claimNext({ controllers: ["jobs"], ownerId: "worker-1", leaseMs: 10_000 });
    return { store, ref, uid, claim };
  }
  const last = (store) => store.listEvents({ limit: 1 })[0];

  it("a claim lapses as the clock moves", () => {
    const { store, claim } = begin();
    const next = () => store.claimNext({ controllers: ["jobs"], ownerId: "worker-2", leaseMs: 1_000 });
    expect(claim.expiresAt).toBe(at(10));
    jest.advanceTimersByTime(9_000);
    expect(unchanged(store, next)).toBeUndefined();
    expect(store.renewClaim(claim, 10_000)).toBe(true);
    expect(claim.expiresAt).toBe(at(19));
    jest.advanceTimersByTime(10_000);
    expect(unchanged(store, () => store.renewClaim(claim, 10_000))).toBe(false);
    expect(next()).toMatchObject({ generation: 2, expiresAt: at(20) });
  });

  it("resources, queue and events have its time", () => {
    const { store, ref, claim } = begin();
    set(1);
    store.updateStatus({ ref, expectedResourceVersion: 2, claim, status: {} });
    expect(last(store).recordedAt).toBe(at(1));
    set(2);
    store.updateFinalizers({ ref, expectedResourceVersion: 3, finalizers: [] });
    expect(last(store).recordedAt).toBe(at(2));
    set(3);
    expect(store.recordEvent({ ...ref, type: "t" }).recordedAt).toBe(at(3));
    set(4);
    store.requeueClaim(claim, { availableAt: at(60) });
    expect(last(store)).toMatchObject({ type: "lease.released", recordedAt: at(4) });
    set(5);
    store.enqueue(ref);
    expect(store.listQueue()[0].availableAt).toBe(at(5));
    const again = store.claimNext({ controllers: ["jobs"], ownerId: "w", leaseMs: 10_000 });
    set(6);
    store.settleClaim(again);
    expect(last(store)).toMatchObject({ type: "lease.released", recordedAt: at(6) });
    set(7);
    expect(store.requestDeletion(ref).metadata.deletionTimestamp).toBe(at(7));
  });

  it("effects and child workflows have its time, and live as long as the claim", () => {
    const { store, uid, claim } = begin();
    const effect = { key: "e", resourceUid: uid, claim, generation: 1, kind: "k", requestFingerprint: "f" };
    const child = { resourceUid: uid, claim, requestKey: "r", workflow: "w", inputFingerprint: "ab".repeat(32) };
    set(1);
    expect(store.reserveEffect(effect).record.startedAt).toBe(at(1));
    const { requestId } = store.reserveWorkflow(child).record;
    set(2);
    const settle = { resourceUid: uid, key: "e", claim, state: "applied" };
    expect(store.updateEffect(settle).completedAt).toBe(at(2));
    store.updateWorkflow(requestId, { state: "running" }, claim);
    expect(rows(store, "controller_workflows")[0]).toMatchObject({
      created_at: Date.parse(at(1)),
      updated_at: Date.parse(at(2)),
    });
    set(10);
    for (const call of [
      () => store.reserveEffect(effect),
      () => store.updateEffect(settle),
      () => store.reserveWorkflow(child),
      () => store.updateWorkflow(requestId, { state: "failed" }, claim),
    ]) {
      refused(store, call, "Controller claim is stale", claim);
    }
    store.completeWorkflow(requestId, { state: "failed" });
    expect(last(store)).toMatchObject({ type: "workflow_state_changed", recordedAt: at(10) });
  });

  it("a deletion needs a claim that lives by the clock", () => {
    const { store, ref, claim } = begin();
    store.requestDeletion(ref);
    set(10);
    refused(store, () => store.deleteResource(ref, 3, claim), "Controller claim is stale", claim);
    set(9);
    expect(store.deleteResource(ref, 3, claim)).toBe(true);
  });
});
