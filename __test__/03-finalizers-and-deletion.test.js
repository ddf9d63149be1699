"use strict";

const { ResourceConflictError, ResourceNotFoundError } = require("..");
const { at, claimed, refused, rows, unchanged } = require("./support");

const absent = { controller: "jobs", key: "absent" };

describe("updateFinalizers", () => {
  it("replaces the finalizers in their order, without a claim", () => {
    const { store, ref } = claimed();
    const set = (version, finalizers) =>
      store.updateFinalizers({ ref, expectedResourceVersion: version, finalizers, now: at(1) }).metadata.finalizers;
    expect(set(2, ["z", "a", 'm"\u0000é'])).toStrictEqual(["z", "a", 'm"\u0000é']);
    expect(set(3, ["a", "z"])).toStrictEqual(["a", "z"]);
    expect(set(4, [])).toStrictEqual([]);
    expect(store.listEvents({ limit: 1 })[0]).toMatchObject({ type: "resource.finalizers_updated", payload: {} });
  });

  it("refuses another version, an absent resource and doubles", () => {
    const { store, ref } = claimed();
    const set = (options) => () =>
      store.updateFinalizers({ ref, expectedResourceVersion: 2, finalizers: [], now: at(1), ...options });
    refused(store, set({ expectedResourceVersion: 1 }), ResourceConflictError);
    refused(store, set({ ref: absent }), ResourceNotFoundError);
    refused(store, set({ finalizers: ["a", "a"] }), "Controller finalizers must be unique");
    refused(store, set({ finalizers: "a" }), /finalizers must be an array/);
    refused(store, set({ finalizers: [1] }), /finalizers\[0\]/);
  });
  it("moves the version but not the generation, the queue or a claim", () => {
    const { store, ref, claim } = claimed();
    const [before, queue] = [store.getResource(ref), rows(store, "controller_queue")];
    const after = store.updateFinalizers({ ref, expectedResourceVersion: 2, finalizers: ["x"], now: at(1) });
    expect(after).toStrictEqual({ ...before, metadata: { ...before.metadata, resourceVersion: 3, finalizers: ["x"] } });
    expect(rows(store, "controller_queue")).toStrictEqual(queue);
    expect(claim.resourceVersion).toBe(2);
  });
});

describe("requestDeletion", () => {
  it("marks once and queues", () => {
    const { store, ref, claim } = claimed();
    store.settleClaim(claim, at(1));
    const marked = store.requestDeletion(ref, at(2));
    expect(marked.metadata).toMatchObject({ deletionTimestamp: at(2), resourceVersion: 4 });
    expect(store.listQueue()).toHaveLength(1);
    expect(unchanged(store, () => store.requestDeletion(ref, at(3)))).toStrictEqual(marked);
  });

  it("refuses an absent resource", () => {
    const { store } = claimed();
    refused(store, () => store.requestDeletion(absent), ResourceNotFoundError);
  });
  it("leaves the mark out until then, and keeps an earlier place in the queue", () => {
    const { store, ref, resource } = claimed();
    expect(resource.metadata).not.toHaveProperty("deletionTimestamp");
    store.requestDeletion(ref, at(5));
    expect(store.listQueue()[0].availableAt).toBe(at(0));
    expect(rows(store, "controller_queue")[0].queue_version).toBe(2);
    expect(store.listEvents({ limit: 1 })[0]).toMatchObject({ type: "resource.deletion_requested", recordedAt: at(5) });
  });

  it("refuses a time that is none", () => {
    const { store, ref } = claimed();
    refused(store, () => store.requestDeletion(ref, "never"), "Invalid timestamp");
  });
});

describe("deleteResource", () => {
  it("gives false until it is marked and has no finalizers left", () => {
    const { store, ref, claim } = claimed();
    expect(unchanged(store, () => store.deleteResource(ref, 2, claim))).toBe(false);
    store.updateFinalizers({ ref, expectedResourceVersion: 2, finalizers: ["x"], now: at(1) });
    store.requestDeletion(ref, at(1));
    expect(unchanged(store, () => store.deleteResource(ref, 4, claim))).toBe(false);
  });

  it("removes the resource and its queue item, ends the claim, and keeps the events", () => {
    const { store, ref, claim } = claimed();
    store.requestDeletion(ref, at(1));
    const events = rows(store, "events").map((event) => event.event_id);
    expect(store.deleteResource(ref, 3, claim)).toBe(true);
    expect(store.getResource(ref)).toBeUndefined();
    expect(store.listQueue()).toStrictEqual([]);
    expect(rows(store, "leases")).toMatchObject([{ generation: 1, owner_id: null, token_hash: null }]);
    expect(rows(store, "events").map((event) => event.event_id)).toStrictEqual(expect.arrayContaining(events));
    expect(store.renewClaim(claim, 1_000, at(2))).toBe(false);
    refused(store, () => store.deleteResource(ref, 3, claim), ResourceNotFoundError);
  });

  it("refuses another version, a stale claim and an absent resource", () => {
    const { store, ref, claim } = claimed();
    store.requestDeletion(ref, at(1));
    refused(store, () => store.deleteResource(ref, 2, claim), ResourceConflictError, claim);
    refused(store, () => store.deleteResource(ref, 3, { ...claim, token: "wrong" }), "Controller claim is stale");
    refused(store, () => store.deleteResource(absent, 3, claim), ResourceNotFoundError);
  });
  it("looks at the claim and the version before it gives false", () => {
    const { store, ref, claim } = claimed();
    refused(store, () => store.deleteResource(ref, 2, { ...claim, generation: 9 }), "Controller claim is stale");
    refused(store, () => store.deleteResource(ref, 9, claim), ResourceConflictError, claim);
  });

  it("refuses the claim of another resource, and one that lapsed", () => {
    const { store, ref, claim } = claimed();
    const two = { controller: "jobs", key: "two" };
    store.putResource({ ...two, spec: 1, initialStatus: 1, now: at(0) });
    store.requestDeletion(two, at(1));
    refused(store, () => store.deleteResource(two, 2, claim), "Controller claim targets another resource", claim);
    store.renewClaim(claim, 1_000, at(0));
    store.requestDeletion(ref, at(1));
    refused(store, () => store.deleteResource(ref, 3, claim), "Controller claim is stale", claim);
  });

  it("takes a claim that cannot be changed: it changes none", () => {
    const { store, ref, claim } = claimed();
    store.requestDeletion(ref, at(1));
    expect(store.deleteResource(ref, 3, Object.freeze(claim))).toBe(true);
  });

  it("leaves nothing to settle, queue, mark or record on", () => {
    const { store, ref, uid, claim } = claimed();
    store.requestDeletion(ref, at(1));
    store.deleteResource(ref, 3, claim);
    const before = { ...claim };
    expect(unchanged(store, () => store.settleClaim(claim, at(2)))).toBe(false);
    expect(unchanged(store, () => store.requeueClaim(claim, { availableAt: at(3), error: "e" }, at(2)))).toBe(false);
    expect(claim).toStrictEqual(before);
    const gone = "Controller resource not found: jobs/one";
    refused(store, () => store.enqueue(ref, at(2)), gone);
    refused(store, () => store.requestDeletion(ref, at(2)), gone);
    refused(store, () => store.recordEvent({ ...ref, type: "t", now: at(2) }), gone);
    refused(store, () => store.updateFinalizers({ ref, expectedResourceVersion: 4, finalizers: [] }), gone);
    refused(
      store,
      () => store.updateStatus({ ref, expectedResourceVersion: 4, claim, status: {}, now: at(2) }),
      gone,
      claim,
    );
    expect(store.getResourceByUid(uid)).toBeUndefined();
  });

  it("does not revive a claim of the former life when the key is used again", () => {
    const { store, ref, claim } = claimed();
    store.requestDeletion(ref, at(1));
    store.deleteResource(ref, 3, claim);
    store.putResource({ ...ref, spec: 1, initialStatus: 1, now: at(2) });
    for (const end of [
      () => store.renewClaim(claim, 1_000, at(2)),
      () => store.settleClaim(claim, at(2)),
      () => store.requeueClaim(claim, { availableAt: at(9) }, at(2)),
    ]) {
      expect(unchanged(store, end)).toBe(false);
    }
    const version = store.getResource(ref).metadata.resourceVersion;
    refused(store, () => store.deleteResource(ref, version, claim), "Controller claim is stale", claim);
  });
});
