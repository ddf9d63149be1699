"use strict";

const path = require("node:path");
const { take } = require("./errors");
const { SqliteStatement, toggle } = require("./statement");

/** @typedef {import("./native").NativeDatabase} NativeDatabase */

/** Better-sqlite3's shape around the one native connection of a database. */
class SqliteConnection {
  #native;
  #name;
  #readonly;
  #safeIntegers = false;

  /** @param {NativeDatabase} native @param {string} name @param {boolean} readonly */
  constructor(native, name, readonly) {
    this.#native = native;
    this.#name = name;
    this.#readonly = readonly;
  }

  /** The path of the file. */
  get name() {
    return this.#name;
  }

  /** Whether writes are refused. */
  get readonly() {
    return this.#readonly;
  }

  /** Whether it is a database in memory: never. */
  get memory() {
    return false;
  }

  /** Whether it is open. */
  get open() {
    return this.#native.isOpen();
  }

  /** Whether a transaction is open. */
  get inTransaction() {
    return this.#native.inTransaction();
  }

  /** @param {string} source @returns {any} */
  prepare(source) {
    assertText(source);
    return this.#prepare(source, false);
  }

  /** @param {string} source @returns {this} */
  exec(source) {
    assertText(source);
    take(this.#native.exec(source));
    return this;
  }

  /** @param {string} source @param {{ simple?: boolean } | null} [options] @returns {any} */
  pragma(source, options) {
    const given = options ?? {};
    assertText(source);
    if (typeof given !== "object") throw new TypeError("Expected second argument to be an options object");
    const simple = "simple" in given && given.simple;
    if (typeof simple !== "boolean") throw new TypeError('Expected the "simple" option to be a boolean');
    const statement = this.#prepare(`PRAGMA ${source}`, true);
    return simple ? statement.pluck().get() : statement.all();
  }

  /**
   * @param {(...parameters: any[]) => any} fn
   * @returns {any}
   */
  transaction(fn) {
    if (typeof fn !== "function") throw new TypeError("Expected first argument to be a function");
    const native = this.#native;
    /** @param {"deferred" | "immediate" | "exclusive"} kind */
    const variant = (kind) =>
      /** @this {unknown} @param {unknown[]} parameters */
      function sqliteTransaction(...parameters) {
        return transact(native, kind, () => Reflect.apply(fn, this, parameters));
      };
    const properties = {
      default: { value: variant("deferred") },
      deferred: { value: variant("deferred") },
      immediate: { value: variant("immediate") },
      exclusive: { value: variant("exclusive") },
      database: { value: this, enumerable: true },
    };
    const { default: usual, deferred, immediate, exclusive } = properties;
    for (const { value } of [usual, deferred, immediate, exclusive]) Object.defineProperties(value, properties);
    return usual.value;
  }

  /** @param {boolean[]} on */
  defaultSafeIntegers(...on) {
    this.#safeIntegers = toggle(on);
    return this;
  }

  /** @param {string} destination @returns {Promise<void>} */
  async backup(destination) {
    if (typeof destination !== "string") throw new TypeError("Expected first argument to be a string");
    if (destination.trim() === "") throw new TypeError("Backup filename cannot be an empty string");
    take(await this.#native.backup(path.resolve(destination)));
  }

  close() {
    take(this.#native.close());
    return this;
  }

  [Symbol.dispose]() {
    this.close();
  }

  /** @param {string} source @param {boolean} isPragma */
  #prepare(source, isPragma) {
    const native = take(this.#native.prepare(source, isPragma));
    return new SqliteStatement(this, native, source, this.#safeIntegers, isPragma);
  }
}

/**
 * Runs a function as a transaction: a savepoint where one is open already. What it throws is passed on unchanged.
 *
 * @param {NativeDatabase} native
 * @param {"deferred" | "immediate" | "exclusive"} kind
 * @param {() => any} run
 */
function transact(native, kind, run) {
  const isNested = take(native.begin(kind));
  try {
    const result = run();
    if (typeof result?.then === "function") throw new TypeError("Transaction function cannot return a promise");
    take(native.commit(isNested));
    return result;
  } catch (error) {
    native.undo(isNested);
    throw error;
  }
}

/** @param {unknown} source */
function assertText(source) {
  if (typeof source !== "string") throw new TypeError("Expected first argument to be a string");
}

module.exports = { SqliteConnection, transact };
