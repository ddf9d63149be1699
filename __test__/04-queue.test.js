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
});
