"use strict";

const path = require("node:path");
const { take } = require("./errors");
const { SqliteStatement } = require("./statement");

/** @typedef {import("./native").NativeDatabase} NativeDatabase */

/** The savepoint of a transaction inside another. */
const NESTED = "nested_transaction";

/** Better-sqlite3's shape around the one native connection of a database. */
class SqliteConnection {
  #native;
  #safeIntegers = false;

  /** @param {NativeDatabase} native @param {string} name @param {boolean} readonly */
  constructor(native, name, readonly) {
    this.#native = native;
    /** @readonly */
    this.name = name;
    /** @readonly */
    this.readonly = readonly;
    /** @readonly */
    this.memory = false;
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
    return new SqliteStatement(this, take(this.#native.prepare(source)), source, this.#safeIntegers);
  }

  /** @param {string} source @returns {this} */
  exec(source) {
    assertText(source);
    take(this.#native.exec(source));
    return this;
  }

  /** @param {string} source @param {{ simple?: boolean }} [options] @returns {any} */
  pragma(source, options = {}) {
    assertText(source);
    if (typeof options !== "object" || options === null) {
      throw new TypeError("Expected second argument to be an options object");
    }
    const simple = options.simple ?? false;
    if (typeof simple !== "boolean") throw new TypeError('Expected the "simple" option to be a boolean');
    const statement = this.prepare(`PRAGMA ${source}`);
    if (!statement.reader) {
      statement.run();
      return simple ? undefined : [];
    }
    return simple ? statement.pluck().get() : statement.all();
  }

  /**
   * @param {(...parameters: any[]) => any} fn
   * @returns {any}
   */
  transaction(fn) {
    if (typeof fn !== "function") throw new TypeError("Expected first argument to be a function");
    const native = this.#native;
    /** @param {string} begin */
    const variant = (begin) =>
      /** @this {unknown} @param {unknown[]} parameters */
      function transactional(...parameters) {
        return transact(native, begin, () => Reflect.apply(fn, this, parameters));
      };
    const variants = {
      default: variant("BEGIN"),
      deferred: variant("BEGIN DEFERRED"),
      immediate: variant("BEGIN IMMEDIATE"),
      exclusive: variant("BEGIN EXCLUSIVE"),
    };
    for (const transactional of Object.values(variants)) {
      Object.assign(transactional, variants);
      Object.defineProperty(transactional, "database", { value: this, enumerable: true });
    }
    return variants.default;
  }

  /** @param {boolean} [on] */
  defaultSafeIntegers(on = true) {
    if (typeof on !== "boolean") throw new TypeError("Expected first argument to be a boolean");
    this.#safeIntegers = on;
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
}

/**
 * Runs a function as a transaction: a savepoint where one is open already. What it throws is passed on unchanged.
 *
 * @param {NativeDatabase} native
 * @param {string} begin
 * @param {() => any} run
 */
function transact(native, begin, run) {
  const nested = native.inTransaction();
  take(native.control(nested ? `SAVEPOINT ${NESTED}` : begin));
  try {
    const result = run();
    if (typeof result?.then === "function") throw new TypeError("Transaction function cannot return a promise");
    take(native.control(nested ? `RELEASE ${NESTED}` : "COMMIT"));
    return result;
  } catch (error) {
    // SQLite may have rolled back by itself: then there is nothing left to undo, and the error is what led there
    if (native.inTransaction()) native.control(nested ? `ROLLBACK TO ${NESTED}; RELEASE ${NESTED}` : "ROLLBACK");
    throw error;
  }
}

/** @param {unknown} source */
function assertText(source) {
  if (typeof source !== "string") throw new TypeError("Expected first argument to be a string");
}

module.exports = { SqliteConnection, transact };
