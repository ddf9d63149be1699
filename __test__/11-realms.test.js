"use strict";

const { at, claimed } = require("./support");

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
});
