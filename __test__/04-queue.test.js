"use strict";

const { ResourceNotFoundError } = require("..");
const { FOREVER_MS, at, claimed, refused, rows, unchanged, world } = require("./support");

const put = (store, key, seconds = 0, controller = "jobs") =>
  store.putResource({ controller, key, spec: { key }, initialStatus: {}, now: at(seconds) });
const next = (store, seconds, options = {}) =>
  store.claimNext({ controllers: ["jobs"], ownerId: "worker-1", leaseMs: 10_000, now: at(seconds), ...options });

describe("claimNext", () => {
  it("claims what is due first, then by controller and key, each once", () => {
    const store = world().open();
    for (const [key, seconds, controller] of [
      ["late", 5],
      ["b", 1],
      ["a", 1],
      ["c", 1, "alpha"],
    ])
      put(store, key, seconds, controller);
    const claims = Array.from({ length: 4 }, () => next(store, 4, { controllers: ["jobs", "alpha"] }));
    expect(claims.map((claim) => claim?.key)).toStrictEqual(["c", "a", "b", undefined]);
  });

  it("gives a claim with a token of 256 bits, of which the file holds only the digest", () => {
    const store = world().open();
    put(store, "a");
    const claim = next(store, 1);
    expect(claim).toStrictEqual({
      controller: "jobs",
      key: "a",
      ownerId: "worker-1",
      token: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
      generation: 1,
      queueVersion: 1,
      resourceVersion: 2,
      consecutiveErrors: 0,
      expiresAt: at(11),
    });
    const tables = store.state.connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all();
    const text = JSON.stringify(tables.map((table) => rows(store, table).map((row) => Object.values(row).map(String))));
    expect(text).toContain("worker-1");
    expect(text).not.toContain(claim.token);
    expect(store.listEvents({ limit: 1 })[0]).toMatchObject({
      type: "lease.claimed",
      payload: { expiresAt: Date.parse(at(11)) },
    });
  });

  it("gives undefined where nothing is asked for, due, or free", () => {
    const store = world().open();
    put(store, "a", 10);
    for (const [seconds, options] of [
      [20, { controllers: [] }],
      [20, { controllers: ["other"] }],
      [9, {}],
    ]) {
      expect(unchanged(store, () => next(store, seconds, options))).toBeUndefined();
    }
    expect(next(store, 10)?.key).toBe("a");
    expect(unchanged(store, () => next(store, 19, { ownerId: "worker-2" }))).toBeUndefined();
    expect(next(store, 20, { ownerId: "worker-2" })?.generation).toBe(2);
  });

  it("does not claim for another project", () => {
    const { open } = world();
    put(open(), "a");
    expect(next(open({ projectPath: "/test/other" }), 1)).toBeUndefined();
  });
  it("makes a new token each time, and is seen by every other store of the file", () => {
    const { open } = world();
    const [store, other] = [open(), open()];
    for (const key of ["a", "b", "c"]) put(store, key);
    const claims = [next(store, 0), next(other, 0), next(store, 0)];
    expect(claims.map((claim) => claim.key)).toStrictEqual(["a", "b", "c"]);
    expect(new Set(claims.map((claim) => claim.token)).size).toBe(3);
    expect(unchanged(other, () => next(other, 0))).toBeUndefined();
  });

  it("takes a controller that is named twice, and thousands of them", () => {
    const store = world().open();
    put(store, "a");
    put(store, "b");
    expect(next(store, 0, { controllers: ["jobs", "jobs"] })?.key).toBe("a");
    const names = Array.from({ length: 40_000 }, (_, index) => `other-${index}`);
    expect(next(store, 0, { controllers: [...names, "jobs"] })?.key).toBe("b");
  });

  it("asks for nothing else where no controllers are named", () => {
    const store = world().open();
    expect(unchanged(store, () => store.claimNext({ controllers: [] }))).toBeUndefined();
  });

  it("refuses a time that is none", () => {
    const store = world().open();
    put(store, "a");
    refused(store, () => next(store, 0, { now: "never" }), "Invalid timestamp");
  });
});

describe("renewClaim", () => {
  it("extends a live claim in place", () => {
    const store = world().open();
    put(store, "a");
    const claim = next(store, 0);
    const before = { ...claim };
    expect(store.renewClaim(claim, 20_000, at(5))).toBe(true);
    expect(claim).toStrictEqual({ ...before, expiresAt: at(25) });
    expect(store.listQueue()[0].claimExpiresAt).toBe(at(25));
  });

  it("gives false for a claim that lapsed, was taken over, or is not the one", () => {
    const store = world().open();
    put(store, "a");
    const claim = next(store, 0);
    const before = { ...claim };
    for (const [wrong, seconds] of [
      [{}, 10],
      [{ token: "wrong" }, 1],
      [{ ownerId: "worker-2" }, 1],
      [{ generation: 9 }, 1],
      [{ key: "absent" }, 1],
    ]) {
      expect(unchanged(store, () => store.renewClaim(Object.assign(claim, before, wrong), 1_000, at(seconds)))).toBe(
        false,
      );
      expect(claim).toStrictEqual({ ...before, ...wrong });
    }
    Object.assign(claim, before);
    next(store, 10, { ownerId: "worker-2" });
    expect(unchanged(store, () => store.renewClaim(claim, 1_000, at(11)))).toBe(false);
  });

  it("refuses a frozen claim before anything is written", () => {
    const { store, claim } = claimed();
    refused(store, () => store.renewClaim(Object.freeze(claim), 1_000, at(1)), TypeError, claim);
  });
  it("can shorten a claim, and leaves version and events alone", () => {
    const { store, ref, claim } = claimed();
    const events = rows(store, "events");
    expect(store.renewClaim(claim, 1_000, at(1))).toBe(true);
    expect(claim.expiresAt).toBe(at(2));
    expect(rows(store, "events")).toStrictEqual(events);
    expect(store.getResource(ref).metadata.resourceVersion).toBe(2);
    expect(unchanged(store, () => store.renewClaim(claim, 1_000, at(2)))).toBe(false);
  });

  it("gives false once the claim was settled", () => {
    const { store, claim } = claimed();
    store.settleClaim(claim, at(1));
    expect(unchanged(store, () => store.renewClaim(claim, 1_000, at(1)))).toBe(false);
  });
});

describe("settleClaim", () => {
  it("ends the claim, removes the item, and takes the claim along", () => {
    const { store, claim } = claimed();
    expect(store.settleClaim(claim, at(1))).toBe(true);
    expect(claim.resourceVersion).toBe(3);
    expect(store.listQueue()).toStrictEqual([]);
    expect(unchanged(store, () => store.settleClaim(claim, at(1)))).toBe(false);
  });

  it("keeps an item that was queued again meanwhile", () => {
    const { store, claim, ref } = claimed();
    store.enqueue(ref, at(1));
    expect(store.settleClaim(claim, at(2))).toBe(true);
    expect(store.listQueue()).toStrictEqual([
      { controller: "jobs", key: "one", availableAt: at(0), consecutiveErrors: 0 },
    ]);
  });

  it("lets the holder of a lapsed claim settle until somebody takes over", () => {
    const store = world().open();
    put(store, "a");
    put(store, "b");
    const [a, b] = [next(store, 0), next(store, 0)];
    expect(store.settleClaim(a, at(99))).toBe(true);
    next(store, 99, { ownerId: "worker-2" });
    const before = { ...b };
    expect(unchanged(store, () => store.settleClaim(b, at(99)))).toBe(false);
    expect(b).toStrictEqual(before);
  });
  it.each([
    [{ token: "wrong" }],
    [{ ownerId: "worker-2" }],
    [{ generation: 9 }],
    [{ key: "absent" }],
    [{ controller: "x" }],
  ])("gives false for a claim with %j, and leaves it alone", (wrong) => {
    const { store, claim } = claimed();
    const other = { ...claim, ...wrong };
    expect(unchanged(store, () => store.settleClaim(other, at(1)))).toBe(false);
    expect(other).toStrictEqual({ ...claim, ...wrong });
  });

  it("refuses a claim that cannot be changed before anything is written, and takes a sealed one", () => {
    const { store, claim } = claimed();
    const fixed = Object.defineProperty({ ...claim }, "resourceVersion", { writable: false });
    const getter = { ...claim };
    Object.defineProperty(getter, "resourceVersion", { get: () => 2 });
    for (const unchangeable of [Object.freeze({ ...claim }), fixed, getter]) {
      refused(store, () => store.settleClaim(unchangeable, at(1)), TypeError, unchangeable);
    }
    refused(store, () => store.settleClaim(claim, "never"), "Invalid timestamp", claim);
    const sealed = Object.seal({ ...claim });
    expect(store.settleClaim(sealed, at(1))).toBe(true);
    expect(sealed.resourceVersion).toBe(3);
  });

  it("starts the count of errors anew", () => {
    const { store, claim, ref } = claimed();
    store.requeueClaim(claim, { availableAt: at(2), error: "e" }, at(1));
    const second = next(store, 2);
    expect(second.consecutiveErrors).toBe(1);
    store.settleClaim(second, at(2));
    store.enqueue(ref, at(3));
    expect(next(store, 3)).toMatchObject({ consecutiveErrors: 0, queueVersion: 1, generation: 3 });
  });

  it("records who let go", () => {
    const { store, claim } = claimed();
    store.settleClaim(claim, at(1));
    expect(rows(store, "events").at(-1)).toMatchObject({
      event_type: "lease.released",
      actor_type: "controller",
      actor_id: "worker-1",
      lease_generation: 1,
      recorded_at: Date.parse(at(1)),
    });
    expect(rows(store, "leases")).toMatchObject([
      { generation: 1, owner_type: null, token_hash: null, expires_at: null },
    ]);
  });
});

describe("requeueClaim", () => {
  it("keeps the item, counts the error, and delays", () => {
    const { store, claim } = claimed();
    expect(store.requeueClaim(claim, { availableAt: at(30), error: "no ✗" }, at(1))).toBe(true);
    expect(claim.resourceVersion).toBe(3);
    expect(next(store, 29)).toBeUndefined();
    expect(next(store, 30)).toMatchObject({ consecutiveErrors: 1, queueVersion: 2 });
  });

  it("gives false for a claim that does not hold the resource", () => {
    const { store, claim } = claimed();
    const wrong = { ...claim, token: "wrong" };
    expect(unchanged(store, () => store.requeueClaim(wrong, { availableAt: at(9) }, at(1)))).toBe(false);
  });

  it("refuses times that are none and a frozen claim", () => {
    const { store, claim } = claimed();
    for (const availableAt of ["never", undefined, {}]) {
      refused(store, () => store.requeueClaim(claim, { availableAt }, at(1)), /timestamp/, claim);
    }
    refused(store, () => store.requeueClaim(Object.freeze({ ...claim }), { availableAt: at(9) }, at(1)), TypeError);
  });
  it("counts without an error too, and replaces the last error", () => {
    const { store, claim } = claimed();
    const last = () => {
      const { last_error_hash: hash } = rows(store, "controller_queue")[0];
      return hash === null ? null : store.state.readBlob(hash).content.toString();
    };
    store.requeueClaim(claim, { availableAt: at(1), error: "no ✗" }, at(1));
    expect(last()).toBe("no ✗");
    store.requeueClaim(next(store, 1), { availableAt: at(2) }, at(1));
    expect(last()).toBeNull();
    expect(store.listQueue()).toStrictEqual([
      { controller: "jobs", key: "one", availableAt: at(2), consecutiveErrors: 2 },
    ]);
  });

  it("delays even what was queued again meanwhile", () => {
    const { store, claim, ref } = claimed();
    store.enqueue(ref, at(1));
    store.requeueClaim(claim, { availableAt: at(90) }, at(1));
    expect(store.listQueue()[0].availableAt).toBe(at(90));
    expect(rows(store, "controller_queue")[0].queue_version).toBe(3);
  });

  it("lets the holder of a lapsed claim requeue, and whoever was taken over from not", () => {
    const store = world().open();
    put(store, "a");
    const first = next(store, 0);
    expect(store.requeueClaim(first, { availableAt: at(50) }, at(40))).toBe(true);
    const lapsed = next(store, 50);
    next(store, 60, { ownerId: "worker-2" });
    const before = { ...lapsed };
    expect(unchanged(store, () => store.requeueClaim(lapsed, { availableAt: at(99) }, at(61)))).toBe(false);
    expect(lapsed).toStrictEqual(before);
  });
});

describe("enqueue", () => {
  it("keeps the earliest time and counts versions", () => {
    const { store, ref } = claimed();
    store.enqueue(ref, at(50));
    expect(store.listQueue()[0].availableAt).toBe(at(0));
    store.enqueue(ref, at(-5));
    expect(store.listQueue()[0].availableAt).toBe(at(-5));
    expect(rows(store, "controller_queue")[0].queue_version).toBe(3);
    expect(store.enqueue(ref)).toBeUndefined();
  });

  it("refuses an absent resource and a time that is none", () => {
    const { store, ref } = claimed();
    refused(store, () => store.enqueue({ controller: "jobs", key: "absent" }, at(1)), ResourceNotFoundError);
    refused(store, () => store.enqueue(ref, "never"), "Invalid timestamp");
  });
  it("leaves version and events of the resource alone", () => {
    const { store, ref } = claimed();
    const [events, resources] = [rows(store, "events"), rows(store, "resources")];
    store.enqueue(ref, at(1));
    expect(rows(store, "events")).toStrictEqual(events);
    expect(rows(store, "resources")).toStrictEqual(resources);
  });

  it("does not reach another project", () => {
    const { open, store, ref } = claimed();
    const other = open({ projectPath: "/test/other" });
    refused(store, () => other.enqueue(ref, at(1)), "Controller resource not found: jobs/one");
  });
});

describe("listQueue", () => {
  it("lists by time, controller and key, with the claims", () => {
    const store = world().open();
    put(store, "b", 1);
    put(store, "a", 1);
    put(store, "c", 0);
    next(store, 0, { leaseMs: FOREVER_MS });
    expect(store.listQueue().map(({ key, claimExpiresAt }) => [key, claimExpiresAt !== undefined])).toStrictEqual([
      ["c", true],
      ["a", false],
      ["b", false],
    ]);
  });
  it("gives an empty list where nothing is queued", () => {
    expect(world().open().listQueue()).toStrictEqual([]);
  });

  it("tells when a claim lapsed until somebody takes it over", () => {
    const store = world().open();
    put(store, "a");
    next(store, 0);
    expect(store.listQueue()[0].claimExpiresAt).toBe(at(10));
    next(store, 20);
    expect(store.listQueue()[0].claimExpiresAt).toBe(at(30));
  });
});
