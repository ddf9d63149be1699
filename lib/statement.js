"use strict";

const { take } = require("./errors");
const { ordered } = require("./parameters");

/** @typedef {import("./native").NativeStatement} NativeStatement */
/** @typedef {import("./native").Cells} Cells */

/** The bits that native code takes: see `Shape` in src/node/value.rs. */
const SAFE_INTEGERS = 1;
const PLUCK = 2;

/**
 * A prepared statement in the shape of better-sqlite3's. Native code hands over cells; rows are made here, in the realm of
 * the caller.
 */
class SqliteStatement {
  #native;
  #database;
  #source;
  #reader;
  #readonly;
  /** @type {string[]} */
  #parameterNames = [];
  #hasNames = false;
  #isBound = false;
  #isIterating = false;
  /** @type {"row" | "pluck" | "raw" | "expand"} */
  #shape = "row";
  #safeIntegers;
  /** What native code is told: made of the two above. */
  #bits = 0;
  /** @type {string[]} */
  #columns = [];
  /** @type {string[] | undefined} */
  #tables;
  #stamp = -1;

  /**
   * @param {import("./connection").SqliteConnection} database
   * @param {NativeStatement} native
   * @param {string} source
   * @param {boolean} safeIntegers
   * @param {boolean} isPragma a pragma that returns nothing gives no rows, where any other such statement is refused
   */
  constructor(database, native, source, safeIntegers, isPragma) {
    const facts = take(native.facts());
    this.#native = native;
    for (let at = 2; at < facts.length; at += 1) this.#parameterNames.push(/** @type {string} */ (facts[at]));
    this.#hasNames = this.#parameterNames.some((name) => name !== "");
    this.#safeIntegers = safeIntegers;
    this.#tell();
    this.#reader = isPragma || /** @type {boolean} */ (facts[0]);
    this.#readonly = /** @type {boolean} */ (facts[1]);
    this.#source = source;
    this.#database = database;
  }

  /** The connection. */
  get database() {
    return this.#database;
  }

  /** Its text. */
  get source() {
    return this.#source;
  }

  /** Whether it returns data. */
  get reader() {
    return this.#reader;
  }

  /** Whether it changes nothing. */
  get readonly() {
    return this.#readonly;
  }

  /** Whether an iterator of this statement is under way. */
  get busy() {
    return this.#isIterating;
  }

  /** @param {unknown[]} parameters */
  run(...parameters) {
    const result = take(this.#native.run(this.#parameters(parameters, true), this.#bits));
    return {
      changes: /** @type {number} */ (result[0]),
      lastInsertRowid: /** @type {number | bigint} */ (result[1]),
    };
  }

  /** @param {unknown[]} parameters @returns {any} */
  get(...parameters) {
    this.#assertReader();
    const cells = take(this.#native.get(this.#parameters(parameters, false), this.#bits));
    return cells === undefined ? undefined : this.#row(cells, 1);
  }

  /** @param {unknown[]} parameters @returns {any[]} */
  all(...parameters) {
    this.#assertReader();
    const cells = take(this.#native.all(this.#parameters(parameters, false), this.#bits));
    const rows = [];
    if (this.#shape === "pluck") {
      for (let at = 1; at < cells.length; at += 1) rows.push(cells[at]);
    } else if (cells.length > 1) {
      const width = this.#columnsOf(cells).length;
      for (let at = 1; at < cells.length; at += width) rows.push(this.#row(cells, at));
    }
    return rows;
  }

  /** @param {unknown[]} parameters @returns {IterableIterator<any>} */
  iterate(...parameters) {
    this.#assertReader();
    take(this.#native.begin(this.#parameters(parameters, false)));
    this.#isIterating = true;
    let isDone = false;
    const end = () => {
      isDone = true;
      this.#isIterating = false;
      this.#native.end(!this.#isBound);
      return { value: undefined, done: true };
    };
    return {
      next: () => {
        if (isDone) return { value: undefined, done: true };
        let cells;
        try {
          cells = take(this.#native.nextRow(this.#bits));
        } catch (error) {
          end();
          throw error;
        }
        return cells === undefined ? end() : { value: this.#row(cells, 1), done: false };
      },
      return: () => (isDone ? { value: undefined, done: true } : end()),
      [Symbol.iterator]() {
        return this;
      },
    };
  }

  /** @param {boolean[]} on */
  pluck(...on) {
    return this.#reshape("pluck", on);
  }

  /** @param {boolean[]} on */
  raw(...on) {
    return this.#reshape("raw", on);
  }

  /** @param {boolean[]} on */
  expand(...on) {
    return this.#reshape("expand", on);
  }

  /** @param {boolean[]} on */
  safeIntegers(...on) {
    this.#assertIdle();
    this.#safeIntegers = toggle(on);
    return this.#tell();
  }

  /** @param {unknown[]} parameters */
  bind(...parameters) {
    if (this.#isBound) throw new TypeError("The bind() method can only be invoked once per statement object");
    take(this.#native.bind(this.#parameters(parameters, false)));
    this.#isBound = true;
    return this;
  }

  columns() {
    if (!this.#reader) throw new TypeError("The columns() method is only for statements that return data");
    const facts = take(this.#native.columnMetadata());
    const columns = [];
    for (let at = 0; at < facts.length; at += 5) {
      columns.push({
        name: /** @type {string} */ (facts[at]),
        column: facts[at + 1] ?? null,
        table: facts[at + 2] ?? null,
        database: facts[at + 3] ?? null,
        type: facts[at + 4] ?? null,
      });
    }
    return columns;
  }

  #assertReader() {
    if (!this.#reader) throw new TypeError("This statement does not return data. Use run() instead");
  }

  #assertIdle() {
    if (this.#isIterating) throw new TypeError("This statement is busy executing a query");
  }

  /** @param {"pluck" | "raw" | "expand"} shape @param {boolean[]} on */
  #reshape(shape, on) {
    if (!this.#reader) throw new TypeError(`The ${shape}() method is only for statements that return data`);
    this.#assertIdle();
    if (toggle(on)) this.#shape = shape;
    else if (this.#shape === shape) this.#shape = "row";
    return this.#tell();
  }

  #tell() {
    this.#bits = (this.#safeIntegers ? SAFE_INTEGERS : 0) | (this.#shape === "pluck" ? PLUCK : 0);
    return this;
  }

  /** The names of the columns, which change when SQLite prepares the statement again. @param {Cells} cells */
  #columnsOf(cells) {
    if (cells[0] !== this.#stamp) {
      this.#columns = Array.from(take(this.#native.columnNames()));
      this.#tables = undefined;
      this.#stamp = /** @type {number} */ (cells[0]);
    }
    return this.#columns;
  }

  /** @param {any} cells the cells of one or more rows after a stamp; the value itself where it is plucked @param {number} at */
  #row(cells, at) {
    if (this.#shape === "pluck") return cells;
    const columns = this.#columnsOf(cells);
    if (this.#shape === "expand") return this.#expanded(cells, at, columns);
    if (this.#shape === "raw") return columns.map((_, index) => cells[at + index]);
    /** @type {Record<string, unknown>} */
    const row = {};
    for (let index = 0; index < columns.length; index += 1) {
      row[/** @type {string} */ (columns[index])] = cells[at + index];
    }
    return row;
  }

  /** Columns by table; those of no table under `$`. @param {Cells} cells @param {number} at @param {string[]} names */
  #expanded(cells, at, names) {
    this.#tables ??= this.columns().map((column) => column.table ?? "$");
    /** @type {Record<string, Record<string, unknown>>} */
    const row = {};
    names.forEach((name, index) => {
      const table = /** @type {string} */ (this.#tables?.[index]);
      if (!Object.hasOwn(row, table)) row[table] = {};
      /** @type {Record<string, unknown>} */ (row[table])[name] = cells[at + index];
    });
    return row;
  }

  /**
   * The values to bind, in the order of the statement's parameters; nothing where they are bound for good.
   *
   * @param {unknown[]} given
   * @param {boolean} mayWrite
   */
  #parameters(given, mayWrite) {
    if (!this.#isBound && this.#areInOrder(given)) return given;
    try {
      if (!this.#isBound) return ordered(this.#parameterNames, given);
      if (given.length > 0) throw new TypeError("This statement already has bound parameters");
      return undefined;
    } catch (error) {
      // whether the statement may run at all comes first
      take(this.#native.check(mayWrite));
      throw error;
    }
  }

  /** Whether they can go over as they are, which is the usual case. @param {unknown[]} given */
  #areInOrder(given) {
    if (this.#hasNames || given.length !== this.#parameterNames.length) return false;
    for (let index = 0; index < given.length; index += 1) {
      const value = given[index];
      if (typeof value !== "string" && typeof value !== "number" && value !== null) return false;
    }
    return true;
  }
}

/** Whether a toggle is to be on: it is where it is called without an argument. @param {unknown[]} given */
function toggle(given) {
  if (given.length === 0) return true;
  if (typeof given[0] !== "boolean") throw new TypeError("Expected first argument to be a boolean");
  return given[0];
}

module.exports = { SqliteStatement, toggle };
