"use strict";

const { spawn } = require("node:child_process");
const { createHash } = require("node:crypto");
const fs = require("node:fs");
const path = require("node:path");
const { SqliteControllerStore, StateDatabase, workflowStatePath } = require("..");
const { PROJECT, at, claimed, refused, rows, world } = require("./support");

const put = (store, key = "a") =>
  store.putResource({ controller: "jobs", key, spec: {}, initialStatus: {}, now: at(0) });
const mode = (file) => (fs.statSync(file).mode & 0o777).toString(8);

describe("opening", () => {
  it("creates the file, its folder and its settings", () => {
    const { file, open } = world();
    const store = open();
    expect(store.filePath).toBe(file);
    expect(store.state.filePath).toBe(file);
    expect(store.state.mode).toBe("read-write");
    const pragma = (name) => store.state.connection.pragma(name, { simple: true });
    expect(["journal_mode", "synchronous", "foreign_keys", "application_id", "user_version"].map(pragma)).toStrictEqual(
      ["wal", 2, 1, 0x50495746, 1],
    );
  });

  it("makes a relative path absolute", () => {
    const { file } = world();
    const store = new SqliteControllerStore(path.relative(process.cwd(), file), { projectPath: PROJECT });
    expect(store.filePath).toBe(file);
    store.close();
  });

  it("keeps file, log, index and folder private whatever the umask, and other folders as they are", () => {
    const { dir, file, open } = world();
    const previous = process.umask(0);
    try {
      put(open());
      expect(["", "-wal", "-shm"].map((suffix) => mode(file + suffix))).toStrictEqual(["600", "600", "600"]);
      expect(mode(path.dirname(file))).toBe("700");
      const shared = path.join(dir, "shared");
      fs.mkdirSync(shared, { mode: 0o755 });
      new SqliteControllerStore(path.join(shared, "state.sqlite"), { projectPath: PROJECT }).close();
      expect(mode(shared)).toBe("755");
    } finally {
      process.umask(previous);
    }
  });

  it("narrows a file that was readable by others", () => {
    const { file, open } = world();
    open().close();
    fs.chmodSync(file, 0o644);
    put(open());
    expect(["", "-wal", "-shm"].map((suffix) => mode(file + suffix))).toStrictEqual(["600", "600", "600"]);
  });

  it("initialises an empty file, and refuses it to a reader", () => {
    const { file, open } = world();
    fs.mkdirSync(path.dirname(file));
    fs.writeFileSync(file, "");
    expect(() => open({ readOnly: true })).toThrow(/incompatible.*it is empty/);
    expect(fs.statSync(file).size).toBe(0);
    expect(put(open()).metadata.resourceVersion).toBe(1);
  });

  it.each([
    ["garbage", Buffer.from("somebody's notes ".repeat(99)), /not a SQLite database/],
    ["a short text", Buffer.from("hello"), /not a SQLite database/],
  ])("refuses %s and leaves it as it was", (_, bytes, message) => {
    const { file, open } = world();
    fs.mkdirSync(path.dirname(file));
    fs.writeFileSync(file, bytes, { mode: 0o640 });
    for (const readOnly of [false, true]) expect(() => open({ readOnly })).toThrow(message);
    expect(fs.readFileSync(file)).toStrictEqual(bytes);
    expect(mode(file)).toBe("640");
  });

  it.each([
    ["another application's database", "PRAGMA application_id = 1; CREATE TABLE notes(x)", /application id is 1/],
    ["a newer version", "PRAGMA user_version = 2", /version is 2/],
    ["a missing table", "PRAGMA foreign_keys = OFF; DROP TABLE turn_intents", /no turn_intents/],
  ])("refuses %s with the reset instruction", (_, change, message) => {
    const { file, open } = world();
    const store = open();
    store.state.connection.exec(change);
    store.close();
    const before = fs.readFileSync(file);
    for (const readOnly of [false, true]) {
      expect(() => open({ readOnly })).toThrow(message);
      expect(() => open({ readOnly })).toThrow(/incompatible.*move or remove it/);
    }
    expect(() => open()).toThrow(file);
    expect(fs.readFileSync(file)).toStrictEqual(before);
  });

  it("leaves the log of somebody else's crashed database alone", () => {
    const { file, open } = world();
    fs.mkdirSync(path.dirname(file));
    const script = `const { StateDatabase } = require(process.argv[1]); const s = new StateDatabase({ filePath: process.argv[2] });
      s.connection.exec("PRAGMA application_id = 7; CREATE TABLE theirs(x); INSERT INTO theirs VALUES (1)"); process.kill(process.pid, "SIGKILL")`;
    return new Promise((resolve) => {
      spawn(process.execPath, ["-e", script, path.join(__dirname, ".."), file]).on("exit", resolve);
    }).then(() => {
      const before = [file, `${file}-wal`].map((name) => fs.readFileSync(name));
      expect(before[1].length).toBeGreaterThan(0);
      expect(() => open()).toThrow(/incompatible/);
      expect([file, `${file}-wal`].map((name) => fs.readFileSync(name))).toStrictEqual(before);
    });
  });

  it("refuses leftovers of the older layout before a first start only", () => {
    const { dir } = world();
    const root = path.dirname(workflowStatePath(dir));
    expect(workflowStatePath(dir)).toBe(path.join(dir, ".pi", "agent", "workflows", "state.sqlite"));
    for (const name of ["runs", "decisions", "controllers"]) {
      fs.mkdirSync(path.join(root, name), { recursive: true });
      expect(() => new StateDatabase({ homeDir: dir })).toThrow(/incompatible.*older layout/);
      expect(fs.readdirSync(root)).toStrictEqual([name]);
      fs.rmdirSync(path.join(root, name));
    }
    new StateDatabase({ homeDir: dir }).close();
    fs.mkdirSync(path.join(root, "runs"));
    new StateDatabase({ homeDir: dir }).close();
  });

  it("refuses an empty path, a folder and a missing file for a reader", () => {
    const { dir, file, open } = world();
    expect(() => new SqliteControllerStore("")).toThrow(/filePath/);
    expect(() => new SqliteControllerStore("a\0b")).toThrow(/filePath/);
    expect(() => new SqliteControllerStore(dir, { projectPath: PROJECT })).toThrow(Error);
    expect(() => open({ readOnly: true })).toThrow(`does not exist: ${file}`);
    expect(fs.readdirSync(dir)).toStrictEqual([]);
  });

  it("lets processes race for a first start", async () => {
    const { file, open } = world();
    const script = `const { SqliteControllerStore } = require(process.argv[1]);
      const s = new SqliteControllerStore(process.argv[2], { projectPath: "${PROJECT}" });
      s.putResource({ controller: "jobs", key: String(process.pid), spec: {}, initialStatus: {} }); s.close()`;
    const starts = Array.from({ length: 6 }, () =>
      spawn(process.execPath, ["-e", script, path.join(__dirname, ".."), file], {
        stdio: ["ignore", "ignore", "inherit"],
      }),
    );
    const codes = await Promise.all(starts.map((child) => new Promise((resolve) => child.on("exit", resolve))));
    expect(codes).toStrictEqual([0, 0, 0, 0, 0, 0]);
    expect(open().listResources()).toHaveLength(6);
  });
  it("refuses the older layout's messenger state before a first start", () => {
    const { dir } = world();
    const config = path.join(dir, ".config", "pi-workflows");
    fs.mkdirSync(config, { recursive: true });
    fs.writeFileSync(path.join(config, "telegram-state.sqlite"), "");
    expect(() => new StateDatabase({ homeDir: dir })).toThrow(/incompatible.*older layout/);
    expect(fs.existsSync(workflowStatePath(dir))).toBe(false);
    new StateDatabase({ homeDir: dir, checkLegacyState: false }).close();
  });
});

describe("close", () => {
  it("closes once, and nothing works afterwards", () => {
    const store = world().open();
    store.close();
    store.close();
    expect(() => put(store)).toThrow(new TypeError("The database connection is not open"));
    expect(() => store.listResources()).toThrow(TypeError);
  });

  it("leaves a database that was handed in open", () => {
    const { file } = world();
    const state = new StateDatabase({ filePath: file });
    const store = new SqliteControllerStore(file, { state, projectPath: PROJECT });
    expect(store.state).toBe(state);
    put(store);
    store.close();
    expect(state.connection.open).toBe(true);
    state.close();
    expect(state.connection.open).toBe(false);
  });

  it("happens on dispose", () => {
    const store = world().open();
    store[Symbol.dispose]();
    expect(store.state.connection.open).toBe(false);
  });
});

describe("projects", () => {
  it("keeps projects apart, and registers each once", () => {
    const { open } = world();
    const [one, other] = [open(), open({ projectPath: "/test/other" })];
    open().close();
    put(one);
    expect(other.listResources()).toStrictEqual([]);
    expect(other.getResource({ controller: "jobs", key: "a" })).toBeUndefined();
    expect(other.listQueue()).toStrictEqual([]);
    expect(other.listEvents()).toStrictEqual([]);
    expect(one.state.connection.prepare("SELECT count(*) FROM projects").pluck().get()).toBe(2);
  });

  it("resolves links to the real folder", () => {
    const { dir, open } = world();
    fs.mkdirSync(path.join(dir, "real"));
    fs.symlinkSync(path.join(dir, "real"), path.join(dir, "link"));
    put(open({ projectPath: path.join(dir, "link") }));
    expect(open({ projectPath: path.join(dir, "real") }).listResources()).toHaveLength(1);
  });

  it("lets a reader of an unregistered project read across projects, or refuses it", () => {
    const { open } = world();
    put(open());
    const stranger = open({ readOnly: true, projectPath: "/test/stranger" });
    expect(stranger.listResources()).toHaveLength(1);
    expect(stranger.listEvents()).toHaveLength(1);
    expect(stranger.getResource({ controller: "jobs", key: "a" })).toBeUndefined();
    for (const call of [() => stranger.listQueue(), () => stranger.listWorkflowRuns()]) {
      expect(call).toThrow("Controller project is not registered in the state database");
    }
  });

  it("lets a reader read, and refuses it every write", () => {
    const { open } = world();
    put(open());
    const reader = open({ readOnly: true });
    expect(reader.listResources()).toHaveLength(1);
    expect(() => put(reader)).toThrow("Controller store is read-only");
    expect(() => reader.enqueue({ controller: "jobs", key: "a" })).toThrow(
      expect.objectContaining({ code: "SQLITE_READONLY" }),
    );
    expect(() => reader.state.connection.exec("DELETE FROM events")).toThrow(
      expect.objectContaining({ code: "SQLITE_READONLY" }),
    );
    expect(reader.listEvents()).toHaveLength(1);
  });
  it("gives a project the id that its path derives", () => {
    const store = world().open();
    const id = createHash("sha256").update(PROJECT).digest("hex").slice(0, 40);
    expect(rows(store, "projects")).toStrictEqual([
      { project_id: `project-${id}`, canonical_path: PROJECT, created_at: expect.any(Number) },
    ]);
  });

  it("belongs to the working directory where no project is named", () => {
    const store = world().open({ projectPath: undefined });
    expect(rows(store, "projects")[0].canonical_path).toBe(fs.realpathSync(process.cwd()));
  });

  it("lets a reader of an unregistered project find what a uid names", () => {
    const { store, open, uid, resource, claim } = claimed();
    const effect = { key: "e", resourceUid: uid, claim, generation: 1, kind: "k", requestFingerprint: "f", now: at(1) };
    const { record } = store.reserveEffect(effect);
    const stranger = open({ readOnly: true, projectPath: "/test/stranger" });
    expect(stranger.getResourceByUid(uid)?.metadata.key).toBe(resource.metadata.key);
    expect(stranger.getEffect(uid, "e")).toStrictEqual(record);
    expect(stranger.listEffects(uid)).toStrictEqual([record]);
    expect(stranger.listWorkflows(uid)).toStrictEqual([]);
    expect(stranger.listEvents({ controller: "jobs", key: "one" })).toStrictEqual(store.listEvents());
    expect(rows(store, "projects")).toHaveLength(1);
  });

  it.each([
    ["updateStatus", ({ ref, claim }) => [{ ref, expectedResourceVersion: 2, claim, status: {}, now: at(1) }]],
    ["requestDeletion", ({ ref }) => [ref, at(1)]],
    ["updateFinalizers", ({ ref }) => [{ ref, expectedResourceVersion: 2, finalizers: ["x"], now: at(1) }]],
    ["deleteResource", ({ ref, claim }) => [ref, 2, claim]],
    ["enqueue", ({ ref }) => [ref, at(1)]],
    ["claimNext", () => [{ controllers: ["jobs"], ownerId: "w", leaseMs: 1_000, now: at(1) }]],
    ["renewClaim", ({ claim }) => [claim, 1_000, at(1)]],
    ["settleClaim", ({ claim }) => [claim, at(1)]],
    ["requeueClaim", ({ claim }) => [claim, { availableAt: at(2) }, at(1)]],
    ["recordEvent", ({ ref, claim }) => [{ ...ref, claim, type: "t", now: at(1) }]],
    [
      "reserveEffect",
      ({ uid, claim }) => [
        { key: "e", resourceUid: uid, claim, generation: 1, kind: "k", requestFingerprint: "f", now: at(1) },
      ],
    ],
    ["updateEffect", ({ uid, claim }) => [{ key: "e", resourceUid: uid, claim, state: "applied", now: at(1) }]],
    [
      "reserveWorkflow",
      ({ uid, claim }) => [
        { resourceUid: uid, claim, requestKey: "r", workflow: "w", inputFingerprint: "ab".repeat(32) },
      ],
    ],
    ["updateWorkflow", ({ claim }) => ["id", { state: "running" }, claim]],
    ["completeWorkflow", () => ["id", { state: "failed" }]],
  ])("refuses %s to a reader", (method, parameters) => {
    const begun = claimed();
    const reader = begun.open({ readOnly: true });
    refused(
      begun.store,
      () => reader[method](...parameters(begun)),
      expect.objectContaining({ code: "SQLITE_READONLY" }),
      begun.claim,
    );
  });
});
