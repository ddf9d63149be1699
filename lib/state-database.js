"use strict";

const os = require("node:os");
const path = require("node:path");
const { native } = require("../binding");
const args = require("./arguments");
const { canonicalJson } = require("./canonical-json");
const { SqliteConnection, transact } = require("./connection");
const { take } = require("./errors");
const { NATIVE, attach } = require("./native-handle");
const { workflowStatePath } = require("./paths");

class StateDatabase {
  /** @type {import("./native").NativeDatabase} */
  // @ts-expect-error -- attached by the constructor, out of sight
  [NATIVE];

  /** @param {any} [options] */
  constructor(options = {}) {
    const { filePath, homeDir, mode = "read-write", checkLegacyState, schema } = args.object(options, "options");
    if (mode !== "read-write" && mode !== "read-only") {
      throw new TypeError('mode must be "read-write" or "read-only"');
    }
    const home = homeDir === undefined ? os.homedir() : args.text(homeDir, "homeDir");
    const file = filePath === undefined ? workflowStatePath(home) : args.text(filePath, "filePath");
    if (file === "") throw new Error("filePath must not be empty");
    if (file.includes("\0")) throw new Error("filePath must not contain a NUL character");
    const looksForLeftovers =
      checkLegacyState === undefined ? filePath === undefined : args.boolean(checkLegacyState, "checkLegacyState");
    this.filePath = path.resolve(file);
    /** @type {"read-write" | "read-only"} */
    this.mode = mode;
    const database = take(
      native.openDatabase(
        this.filePath,
        mode === "read-only",
        looksForLeftovers ? path.resolve(home) : undefined,
        schema === undefined ? undefined : hostSchema(schema),
      ),
    );
    attach(this, database);
    this.connection = new SqliteConnection(database, this.filePath, mode === "read-only");
  }

  close() {
    this.connection.close();
  }

  /**
   * @template T
   * @param {() => T} fn
   * @returns {T}
   */
  transaction(fn) {
    if (typeof fn !== "function") throw new TypeError("fn must be a function");
    return transact(this[NATIVE], "immediate", fn);
  }

  /** @param {unknown} value @param {number} [now] @returns {Buffer} */
  putJson(value, now = Date.now()) {
    const at = args.integer(now, "now");
    return take(this[NATIVE].putText(canonicalJson(value), true, at));
  }

  /** @param {string} value @param {number} [now] @returns {Buffer} */
  putText(value, now = Date.now()) {
    const text = args.content(value, "value");
    return take(this[NATIVE].putText(text, false, args.integer(now, "now")));
  }

  /** @param {Uint8Array} content @param {string} mediaType @param {number} [now] @returns {Buffer} */
  putBlob(content, mediaType, now = Date.now()) {
    const bytes = buffer(content, "content");
    return take(this[NATIVE].putBlob(bytes, args.text(mediaType, "mediaType"), args.integer(now, "now")));
  }

  /** @param {Uint8Array} hash @returns {any} */
  readBlob(hash) {
    const key = buffer(hash, "hash");
    const found = take(this[NATIVE].readBlob(key));
    if (found === undefined) return undefined;
    const content = /** @type {Buffer} */ (found[1]);
    return {
      hash: Buffer.from(key),
      mediaType: /** @type {string} */ (found[0]),
      byteLength: content.length,
      content,
    };
  }

  /** @param {Uint8Array} hash @returns {any} */
  readJson(hash) {
    const blob = this.readBlob(hash);
    if (blob?.mediaType !== "application/json") throw new Error("JSON blob is missing or has the wrong media type");
    return JSON.parse(blob.content.toString("utf8"));
  }

  integrityCheck() {
    const problems = take(this[NATIVE].integrityProblems());
    if (problems !== "") throw new Error(`The workflow state is damaged: ${problems}`);
  }

  /** @param {string} destination @returns {Promise<void>} */
  async backup(destination) {
    await this.connection.backup(destination);
  }

  /** @returns {number} */
  pruneUnreferencedBlobs() {
    return take(this[NATIVE].prune());
  }

  [Symbol.dispose]() {
    this.close();
  }
}

/** The same bytes as a Buffer. @param {unknown} value @param {string} name @returns {Buffer} */
function buffer(value, name) {
  if (Buffer.isBuffer(value)) return value;
  if (!ArrayBuffer.isView(value)) throw new TypeError(`${name} must be a Buffer or Uint8Array`);
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

/** @param {unknown} value @returns {import("./native").HostSchema} */
function hostSchema(value) {
  const { sql, name, version, applicationId, appVersion } = args.object(value, "schema");
  return {
    sql: args.text(sql, "schema.sql"),
    name: args.text(name, "schema.name"),
    version: int32(version, "schema.version"),
    applicationId: int32(applicationId, "schema.applicationId"),
    appVersion: args.text(appVersion, "schema.appVersion"),
  };
}

/** SQLite keeps both in four bytes of the file's header. @param {unknown} value @param {string} name */
function int32(value, name) {
  const checked = args.integer(value, name);
  if (checked !== (checked | 0)) throw new Error(`${name} must be a 32-bit integer`);
  return checked;
}

module.exports = { StateDatabase };
