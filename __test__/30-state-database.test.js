"use strict";

const { createHash } = require("node:crypto");
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { StateDatabase, SqliteControllerStore } = require("..");
const { PROJECT, at, claimed, refused, rows, unchanged, world } = require("./support");

const mode = (file) => (fs.statSync(file).mode & 0o777).toString(8);

describe("putJson, putText, putBlob", () => {
  it("store a value once and give its SHA-256", () => {
    const { state } = world().open();
    const key = state.putJson({ b: 1, a: "é" }, 5);
    expect(key).toStrictEqual(createHash("sha256").update('{"a":"é","b":1}').digest());
    expect(state.putJson({ a: "é", b: 1 }, 9)).toStrictEqual(key);
    expect(state.readBlob(key)).toStrictEqual({
      hash: key,
      mediaType: "application/json",
      byteLength: 16,
      content: Buffer.from('{"a":"é","b":1}'),
    });
    expect(state.readJson(key)).toStrictEqual({ a: "é", b: 1 });
    const bytes = state.putBlob(new Uint8Array([0, 255]), "application/octet-stream");
    expect(state.readBlob(new Uint8Array(bytes)).content).toStrictEqual(Buffer.from([0, 255]));
    expect(state.readBlob(Buffer.alloc(32))).toBeUndefined();
  });

  it("refuse another type for the same bytes, and what is no value", () => {
    const store = world().open();
    const { state } = store;
    const key = state.putText("plain");
    refused(store, () => state.putBlob(Buffer.from("plain"), "application/json"), "Content-addressed blob conflict");
    for (const hash of [key, Buffer.alloc(32)])
      expect(() => state.readJson(hash)).toThrow("JSON blob is missing or has the wrong media type");
    refused(store, () => state.putJson(new Date(0)), "Only plain objects can be stored as canonical JSON");
    refused(store, () => state.putText(1), /value/);
    refused(store, () => state.putBlob("text", "text/plain"), /content/);
    refused(store, () => state.putJson(1, 1.5), /now/);
    expect(() => state.readBlob("hash")).toThrow(/hash/);
  });
});

describe("transaction", () => {
  it("gives what the function gives, and undoes what it did before a throw", () => {
    const store = world().open();
    const { state } = store;
    expect(state.transaction(() => state.putText("kept"))).toHaveLength(32);
    const mine = new RangeError("mine");
    refused(
      store,
      () =>
        state.transaction(() => {
          state.putText("gone");
          throw mine;
        }),
      mine,
    );
    refused(
      store,
      () => state.transaction(async () => state.putText("gone")),
      "Transaction function cannot return a promise",
    );
    expect(() => state.transaction(1)).toThrow(TypeError);
  });

  it("nests as savepoints", () => {
    const { state } = world().open();
    state.transaction(() => {
      state.putText("outer");
      expect(() =>
        state.transaction(() => {
          state.putText("inner");
          throw new Error("no");
        }),
      ).toThrow("no");
      expect(state.connection.inTransaction).toBe(true);
    });
    expect(state.connection.prepare("SELECT CAST(content AS TEXT) FROM blobs").pluck().all()).toStrictEqual(["outer"]);
  });

  it("passes on the error of a commit that fails, and ends", () => {
    const store = world().open();
    const { state } = store;
    const commit = () =>
      state.transaction(() => {
        state.connection.pragma("defer_foreign_keys = ON");
        state.connection.exec("INSERT INTO leases(resource_id) VALUES ('nobody')");
      });
    refused(store, commit, expect.objectContaining({ code: "SQLITE_CONSTRAINT_FOREIGNKEY" }));
    expect(state.connection.inTransaction).toBe(false);
  });

  it("ends although its function has left an iterator behind", () => {
    const { state } = world().open();
    let iterator;
    expect(() =>
      state.transaction(() => {
        iterator = state.connection.prepare("SELECT 1 UNION SELECT 2").iterate();
        iterator.next();
        throw new Error("mine");
      }),
    ).toThrow("mine");
    expect(state.connection.inTransaction).toBe(false);
    iterator.return();
    state.putText("works");
  });
});

describe("integrityCheck", () => {
  it("says what is damaged", () => {
    const { store } = claimed();
    expect(store.state.integrityCheck()).toBeUndefined();
    store.state.connection.exec("PRAGMA foreign_keys = OFF; INSERT INTO leases(resource_id) VALUES ('nobody')");
    expect(() => store.state.integrityCheck()).toThrow(/leases \d+ points to nothing in resources/);
  });
});

describe("pruneUnreferencedBlobs", () => {
  it("removes what nothing points to, and nothing else", () => {
    const { store, ref, claim } = claimed();
    for (let turn = 0; turn < 20; turn += 1) {
      const status = { observedGeneration: turn, conditions: [], controllerStatus: { turn } };
      store.updateStatus({ ref, expectedResourceVersion: claim.resourceVersion, claim, status, now: at(turn) });
    }
    const before = [store.getResource(ref), store.listEvents()];
    expect(store.state.pruneUnreferencedBlobs()).toBe(20);
    expect([store.getResource(ref), store.listEvents()]).toStrictEqual(before);
    expect(unchanged(store, () => store.state.pruneUnreferencedBlobs())).toBe(0);
    store.state.integrityCheck();
  });

  it("spares what another connection has just stored, old values included", () => {
    const { file, open } = world();
    const store = open();
    const other = new StateDatabase({ filePath: file });
    other.putText("young");
    const old = other.putText("old", 0);
    expect(store.state.pruneUnreferencedBlobs()).toBe(1);
    expect(other.readBlob(old)).toBeUndefined();
    other.putText("old", 0);
    // stored again: whoever did is about to point to it
    other.putText("old", 0);
    expect(store.state.pruneUnreferencedBlobs()).toBe(0);
    other.close();
  });

  it("fails no call of another process that writes all the while, nor its own", async () => {
    const { file, open } = world();
    const store = open();
    const writer = spawn(
      process.execPath,
      [
        "-e",
        `const { SqliteControllerStore } = require(process.argv[1]);
         const store = new SqliteControllerStore(process.argv[2], { projectPath: "${PROJECT}" });
         for (let index = 0; index < 300; index += 1) {
           store.putResource({ controller: "jobs", key: "k" + (index % 7), spec: { index }, initialStatus: { index } });
           store.state.transaction(() => store.state.readJson(store.state.putJson({ value: index % 3 })));
         }
         store.close();`,
        path.join(__dirname, ".."),
        file,
      ],
      { stdio: ["ignore", "ignore", "pipe"] },
    );
    let complaint = "";
    writer.stderr.on("data", (chunk) => {
      complaint += chunk;
    });
    const ended = new Promise((resolve) => writer.on("exit", resolve));
    let code;
    ended.then((exit) => {
      code = exit;
    });
    let rounds = 0;
    while (code === undefined) {
      store.state.putText(`garbage ${rounds}`);
      expect(store.state.pruneUnreferencedBlobs()).toBeGreaterThanOrEqual(1);
      rounds += 1;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect({ code, complaint }).toStrictEqual({ code: 0, complaint: "" });
    expect(rounds).toBeGreaterThan(1);
    store.state.integrityCheck();
  });

  it("is refused in a transaction and to a reader", () => {
    const { open } = world();
    const store = open();
    expect(() => store.state.transaction(() => store.state.pruneUnreferencedBlobs())).toThrow(/inside a transaction/);
    const reader = open({ readOnly: true });
    expect(() => reader.state.pruneUnreferencedBlobs()).toThrow(expect.objectContaining({ code: "SQLITE_READONLY" }));
  });
});

describe("backup", () => {
  it("copies a live database whole and private, while it is written", async () => {
    const { dir, open } = world();
    const store = open();
    const put = (key) => store.putResource({ controller: "jobs", key, spec: {}, initialStatus: {}, now: at(0) });
    for (let index = 0; index < 50; index += 1) put(`k${index}`);
    const destination = path.join(dir, "backups", "copy.sqlite");
    for (const round of [1, 2]) {
      const pending = store.state.backup(destination);
      expect(pending).toBeInstanceOf(Promise);
      put(`during ${round}`);
      await pending;
    }
    expect(fs.readdirSync(path.dirname(destination))).toStrictEqual(["copy.sqlite"]);
    expect([mode(path.dirname(destination)), mode(destination)]).toStrictEqual(["700", "600"]);
    const copy = new SqliteControllerStore(destination, { readOnly: true, projectPath: PROJECT });
    expect(copy.listResources().length).toBeGreaterThanOrEqual(51);
    copy.state.integrityCheck();
    copy.close();
  });

  it("refuses the live database under every name, and a place where nothing can be", async () => {
    const { dir, file, open } = world();
    const { state } = open();
    fs.symlinkSync(file, path.join(dir, "link"));
    for (const destination of [file, path.join(path.dirname(file), ".", "state.sqlite"), path.join(dir, "link")]) {
      await expect(state.backup(destination)).rejects.toThrow(/differ/);
    }
    fs.writeFileSync(path.join(dir, "file"), "");
    await expect(state.backup(path.join(dir, "file", "copy.sqlite"))).rejects.toThrow(path.join(dir, "file"));
    await expect(state.backup(1)).rejects.toThrow(TypeError);
    await expect(state.backup("")).rejects.toThrow(TypeError);
    state.close();
    await expect(state.backup(path.join(dir, "x"))).rejects.toThrow("The database connection is not open");
    expect(fs.existsSync(path.join(dir, "x"))).toBe(false);
  });
});

describe("a host's schema", () => {
  it("creates the file, and must match it exactly", () => {
    const { file, open, dir } = world();
    const builtin = open();
    const sql = `${builtin.state.connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'").pluck().all().join(";\n")};
      CREATE TABLE host_notes(id INTEGER PRIMARY KEY, body BLOB REFERENCES blobs(blob_hash)) STRICT;`;
    const schema = { sql, name: "pi-workflows-state", version: 1, applicationId: 0x50495746, appVersion: "9.9.9" };
    const filePath = path.join(dir, "host.sqlite");
    const state = new StateDatabase({ filePath, schema });
    state.connection.prepare("INSERT INTO host_notes(body) VALUES (?)").run(state.putText("theirs"));
    state.putText("nobody's");
    // pruning knows the references of tables that it has never heard of
    expect(state.pruneUnreferencedBlobs()).toBe(1);
    state.integrityCheck();
    state.close();
    new StateDatabase({ filePath }).close();
    for (const other of [
      { appVersion: "1" },
      { sql: `${sql} ` },
      { version: 2 },
      { applicationId: 1 },
      { name: "other" },
    ]) {
      expect(() => new StateDatabase({ filePath, schema: { ...schema, ...other } })).toThrow(/incompatible/);
    }
    expect(() => new StateDatabase({ filePath: file, schema })).toThrow(/incompatible/);
    expect(() => new StateDatabase({ filePath, schema: { ...schema, version: 2 ** 40 } })).toThrow(/schema.version/);
    expect(rows(builtin, "schema_meta")[0].app_version).toBe(require("../package.json").version);
  });
});
