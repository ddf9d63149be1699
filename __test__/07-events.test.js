"use strict";

const { ResourceNotFoundError } = require("..");
const { at, claimed, refused, rows } = require("./support");

describe("recordEvent", () => {
  it("records a copy of the payload in canonical order, and takes the claim along", () => {
    const { store, ref, claim } = claimed();
    const payload = { z: 1, a: { y: [true, null], b: undefined } };
    const event = store.recordEvent({ ...ref, claim, type: "observed", payload, now: at(1) });
    expect(event).toStrictEqual({
      seq: 3,
      recordedAt: at(1),
      ...ref,
      type: "observed",
      payload: { a: { y: [true, null] }, z: 1 },
    });
    expect(Object.keys(event.payload)).toStrictEqual(["a", "z"]);
    expect(claim.resourceVersion).toBe(3);
    expect(store.listEvents({ limit: 1 })).toStrictEqual([event]);
    expect(rows(store, "events").at(-1)).toMatchObject({
      actor_type: "controller",
      actor_id: "worker-1",
      lease_generation: 1,
    });
  });

  it("works without a claim and without a payload", () => {
    const { store, ref } = claimed();
    expect(store.recordEvent({ ...ref, type: "seen", now: at(1) }).payload).toStrictEqual({});
    expect(rows(store, "events").at(-1)).toMatchObject({
      actor_type: "control",
      actor_id: null,
      lease_generation: null,
    });
    expect(store.getResource(ref).metadata.resourceVersion).toBe(3);
  });

  it("refuses an absent resource, a stale claim, what is no JSON, and a frozen claim", () => {
    const { store, ref, claim } = claimed();
    const record = (options) => () => store.recordEvent({ ...ref, claim, type: "t", now: at(1), ...options });
    refused(store, record({ key: "absent" }), ResourceNotFoundError, claim);
    refused(store, record({ claim: { ...claim, token: "x" } }), "Controller claim is stale");
    refused(
      store,
      record({ payload: { when: new Date(0) } }),
      "Only plain objects can be stored as canonical JSON",
      claim,
    );
    refused(store, record({ claim: Object.freeze({ ...claim }) }), TypeError);
  });
  it("refuses the claim of another resource, and one that lapsed", () => {
    const { store, ref, claim } = claimed();
    store.putResource({ controller: "jobs", key: "two", spec: 1, initialStatus: 1, now: at(0) });
    refused(
      store,
      () => store.recordEvent({ ...ref, key: "two", claim, type: "t", now: at(1) }),
      "Controller claim targets another resource",
      claim,
    );
    store.renewClaim(claim, 1_000, at(0));
    refused(
      store,
      () => store.recordEvent({ ...ref, claim, type: "t", now: at(1) }),
      "Controller claim is stale",
      claim,
    );
  });

  it("gives a copy, and leaves a claim alone that it was not given", () => {
    const { store, ref, claim } = claimed();
    const payload = Object.freeze({ list: Object.freeze([1]) });
    const event = store.recordEvent({ ...ref, type: "t", payload, now: at(1) });
    expect(event.payload).toStrictEqual(payload);
    expect(event.payload.list).not.toBe(payload.list);
    expect(claim.resourceVersion).toBe(2);
    // and so the holder learns that somebody else was here
    refused(
      store,
      () => store.updateStatus({ ref, expectedResourceVersion: 2, claim, status: {}, now: at(2) }),
      "Controller resource jobs/one changed during reconciliation",
      claim,
    );
  });
});

describe("listEvents", () => {
  it("lists the newest first, by controller and key, up to the limit", () => {
    const { store, ref } = claimed();
    store.putResource({ controller: "other", key: "two", spec: 1, initialStatus: 1, now: at(1) });
    store.recordEvent({ ...ref, type: "last", now: at(2) });
    const types = (options) => store.listEvents(options).map((event) => event.type);
    expect(types()).toStrictEqual(["last", "resource.created", "lease.claimed", "resource.created"]);
    expect(types({ limit: 1 })).toStrictEqual(["last"]);
    expect(types({ limit: 0 })).toStrictEqual([]);
    expect(types({ controller: "other" })).toStrictEqual(["resource.created"]);
    expect(types({ key: "one" })).toStrictEqual(["last", "lease.claimed", "resource.created"]);
    expect(types({ controller: "other", key: "one" })).toStrictEqual([]);
  });

  it("gives 100 unless told otherwise", () => {
    const { store, ref } = claimed();
    store.state.transaction(() => {
      for (let index = 0; index < 120; index += 1) store.recordEvent({ ...ref, type: `t${index}`, now: at(index) });
    });
    expect(store.listEvents()).toHaveLength(100);
    expect(store.listEvents({ limit: 1_000 })).toHaveLength(122);
  });

  it("numbers every revision of a resource without gaps", () => {
    const { store, ref, claim } = claimed();
    store.requestDeletion(ref, at(1));
    store.recordEvent({ ...ref, type: "t", now: at(1) });
    store.settleClaim(claim, at(2));
    expect(rows(store, "events").map((event) => event.resource_revision)).toStrictEqual([1, 2, 3, 4, 5]);
    expect(rows(store, "resources")[0].revision).toBe(5);
  });
  it("gives the events of a deleted resource no longer, and all of them when the key is used again", () => {
    const { store, ref, claim } = claimed();
    store.requestDeletion(ref, at(1));
    store.deleteResource(ref, 3, claim);
    expect(store.listEvents()).toStrictEqual([]);
    store.putResource({ ...ref, spec: 1, initialStatus: 1, now: at(2) });
    expect(store.listEvents().map((event) => event.type)).toStrictEqual([
      "resource.created",
      "resource.deleted",
      "resource.deletion_requested",
      "lease.claimed",
      "resource.created",
    ]);
  });
});
