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
