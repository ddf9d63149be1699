"use strict";

const store = require("..");
const { at, claimed, rows } = require("./support");

describe("error classes", () => {
  it.each([
    ["ResourceConflictError", ["c", "k"], "Controller resource c/k changed during reconciliation"],
    ["ResourceNotFoundError", ["c", "k"], "Controller resource not found: c/k"],
    ["EffectRequestConflictError", ['k"\n'], 'Effect key "k\\"\\n" was reused with a different request'],
    ["WorkflowRequestConflictError", ["k"], 'Workflow request key "k" was reused with different input'],
    ["SqliteError", ["m", "SQLITE_BUSY"], "m"],
  ])("%s", (name, parameters, message) => {
    const error = new store[name](...parameters);
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({ name, message });
    expect(Object.prototype.toString.call(error)).toBe("[object Error]");
    expect(error.stack).toMatch(`${name}: `);
  });

  it("come from the store as those classes, with a stack that leads here", () => {
    const { store: opened } = claimed();
    let error;
    try {
      opened.requestDeletion({ controller: "jobs", key: "absent" });
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(store.ResourceNotFoundError);
    expect(error).toStrictEqual(new store.ResourceNotFoundError("jobs", "absent"));
    expect(error.stack).toMatch(/09-errors\.test\.js/);
  });

  it("name SQLite's codes", () => {
    const { store: opened } = claimed();
    const { connection } = opened.state;
    const failing = (sql) => () => connection.exec(sql);
    expect(failing("SELEC")).toThrow(store.SqliteError);
    expect(failing("SELEC")).toThrow(expect.objectContaining({ code: "SQLITE_ERROR" }));
    expect(failing("INSERT INTO projects SELECT project_id, '/elsewhere', 0 FROM projects")).toThrow(
      expect.objectContaining({ code: "SQLITE_CONSTRAINT_PRIMARYKEY" }),
    );
    expect(failing("INSERT INTO leases(resource_id) VALUES ('nobody')")).toThrow(
      expect.objectContaining({ code: "SQLITE_CONSTRAINT_FOREIGNKEY" }),
    );
  });
  it.each([
    ["ResourceNotFoundError", ({ store: opened }) => opened.enqueue({ controller: "jobs", key: "absent" })],
    [
      "ResourceConflictError",
      ({ store: opened, ref }) => opened.updateFinalizers({ ref, expectedResourceVersion: 9, finalizers: [] }),
    ],
    [
      "EffectRequestConflictError",
      ({ store: opened, uid, claim }) => {
        const request = { key: "e", resourceUid: uid, claim, generation: 1, kind: "k", requestFingerprint: "f" };
        opened.reserveEffect({ ...request, now: at(1) });
        opened.reserveEffect({ ...request, kind: "x", now: at(1) });
      },
    ],
    [
      "WorkflowRequestConflictError",
      ({ store: opened, uid, claim }) => {
        const request = { resourceUid: uid, claim, requestKey: "r", inputFingerprint: "ab".repeat(32) };
        opened.reserveWorkflow({ ...request, workflow: "w" });
        opened.reserveWorkflow({ ...request, workflow: "x" });
      },
    ],
    ["SqliteError", ({ store: opened }) => opened.state.connection.exec("SELEC")],
  ])("%s has its own class only, its name and the caller's line", (name, action) => {
    const begun = claimed();
    let error;
    try {
      action(begun);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(store[name]);
    expect(error.name).toBe(name);
    expect(error.constructor).toBe(store[name]);
    expect(Object.keys(error)).toStrictEqual(name === "SqliteError" ? ["code"] : []);
    expect(error.stack).toMatch(/09-errors\.test\.js/);
  });
});

describe("a disk that is full", () => {
  it("is what the caller sees, and the next call works", () => {
    const { store: opened } = claimed();
    const { connection } = opened.state;
    const put = (index) =>
      opened.putResource({
        controller: "jobs",
        key: `k${index}`,
        spec: "x".repeat(9_000) + index,
        initialStatus: {},
        now: at(0),
      });
    connection.pragma(`max_page_count = ${connection.pragma("page_count", { simple: true }) + 4}`);
    const before = rows(opened, "resources").length;
    expect(() => {
      for (let index = 0; index < 100; index += 1) put(index);
    }).toThrow(expect.objectContaining({ code: "SQLITE_FULL" }));
    expect(connection.inTransaction).toBe(false);
    connection.pragma("max_page_count = 1000000");
    put("after");
    expect(rows(opened, "resources").length).toBeGreaterThan(before);
    opened.state.integrityCheck();
  });
});

describe("store methods in a transaction", () => {
  it("become part of it, as savepoints", () => {
    const { store: opened } = claimed();
    const put = (key) => opened.putResource({ controller: "jobs", key, spec: 1, initialStatus: 1, now: at(0) });
    const keys = () => opened.listResources().map(({ metadata }) => metadata.key);
    const mine = new RangeError("mine");
    expect(() =>
      opened.state.transaction(() => {
        put("a");
        throw mine;
      }),
    ).toThrow(mine);
    expect(keys()).toStrictEqual(["one"]);
    opened.state.transaction(() => {
      put("a");
      expect(() => put("")).toThrow("resource key is invalid");
      expect(() =>
        opened.updateFinalizers({
          ref: { controller: "jobs", key: "a" },
          expectedResourceVersion: 1,
          finalizers: ["x", "x"],
        }),
      ).toThrow(/unique/);
      put("b");
    });
    expect(keys()).toStrictEqual(["a", "b", "one"]);
  });
});

describe("a file that somebody else is writing to", () => {
  it("is busy, with nothing written, and the next call works", () => {
    const { store: opened, open, ref, claim } = claimed();
    const other = open();
    other.state.connection.pragma("busy_timeout = 0");
    opened.state.transaction(() => {
      const before = { ...claim };
      for (const call of [
        () => other.enqueue(ref, at(1)),
        () => other.settleClaim(claim, at(1)),
        () => other.claimNext({ controllers: ["jobs"], ownerId: "w", leaseMs: 1_000, now: at(1) }),
      ]) {
        expect(call).toThrow(store.SqliteError);
        expect(call).toThrow(expect.objectContaining({ code: "SQLITE_BUSY" }));
      }
      expect(claim).toStrictEqual(before);
      expect(other.listQueue()).toHaveLength(1);
    });
    expect(other.state.connection.inTransaction).toBe(false);
    expect(other.settleClaim(claim, at(1))).toBe(true);
  });
});

describe("a commit that fails", () => {
  it("is what the caller sees, and the next call works", () => {
    const { store: opened, ref } = claimed();
    const { connection } = opened.state;
    const before = rows(opened, "leases");
    expect(() =>
      opened.state.transaction(() => {
        opened.enqueue(ref, at(1));
        connection.pragma("defer_foreign_keys = ON");
        connection.prepare("INSERT INTO leases(resource_id) VALUES ('nobody')").run();
      }),
    ).toThrow(expect.objectContaining({ code: "SQLITE_CONSTRAINT_FOREIGNKEY" }));
    expect(connection.inTransaction).toBe(false);
    expect(rows(opened, "leases")).toStrictEqual(before);
    expect(rows(opened, "controller_queue")[0].queue_version).toBe(1);
    expect(opened.recordEvent({ ...ref, type: "t", now: at(1) }).type).toBe("t");
  });
});
