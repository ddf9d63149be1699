const os = require("node:os");
const path = require("node:path");
const { native } = require("../binding");
const args = require("./arguments");
const { SqliteConnection } = require("./connection");
const { take } = require("./errors");
const { attach } = require("./native-handle");
const { workflowStatePath } = require("./paths");

class StateDatabase {
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

  [Symbol.dispose]() {
    this.close();
  }
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
