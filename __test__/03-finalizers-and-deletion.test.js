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
});
