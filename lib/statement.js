"use strict";

const { isPlain } = require("./canonical-json");
const { take } = require("./errors");

/** @typedef {import("./native").NativeStatement} NativeStatement */
/** @typedef {import("./native").Cells} Cells */

const WRITER = "This statement does not return data. Use run() instead";

/**
 * A prepared statement in the shape of better-sqlite3's. Native code hands over cells; rows are made here, in the realm of
 * the caller.
 */
class SqliteStatement {
  #native;
  /** @type {string[] | undefined} */
  #parameterNames;
  /** @type {unknown[] | undefined} */
  #bound;
  /** @type {"row" | "pluck" | "raw" | "expand"} */
  #shape = "row";
  #safeIntegers;
  #columns = /** @type {string[]} */ ([]);
  #columnTables = /** @type {string[] | undefined} */ (undefined);
  #prepared = -1;

  /**
   * @param {import("./connection").SqliteConnection} database
   * @param {NativeStatement} native
   * @param {string} source
   * @param {boolean} safeIntegers
   */
  constructor(database, native, source, safeIntegers) {
    this.#native = native;
    this.#safeIntegers = safeIntegers;
    /** @readonly */
    this.database = database;
    /** @readonly */
    this.source = source;
    /** @readonly */
    this.reader = native.returnsData;
    /** @readonly */
    this.readonly = native.isReadonly;
  }

  /** Whether an iterator of this statement is under way. */
  get busy() {
    return this.#native.isBusy;
  }

  /** @param {unknown[]} parameters */
  run(...parameters) {
    const [, changes, lastInsertRowid] = take(this.#native.run(this.#parameters(parameters), this.#safeIntegers));
    return { changes: Number(changes), lastInsertRowid };
  }

  /** @param {unknown[]} parameters @returns {any} */
  get(...parameters) {
    this.#assertReader();
    const cells = take(this.#native.get(this.#parameters(parameters), this.#safeIntegers));
    return cells === undefined ? undefined : this.#row(cells, 1);
  }

  /** @param {unknown[]} parameters @returns {any[]} */
  all(...parameters) {
    this.#assertReader();
    const cells = take(this.#native.all(this.#parameters(parameters), this.#safeIntegers));
    const rows = [];
    const width = this.#columnsOf(cells).length;
    for (let at = 1; at < cells.length; at += width) rows.push(this.#row(cells, at));
    return rows;
  }

  /** @param {unknown[]} parameters @returns {IterableIterator<any>} */
  iterate(...parameters) {
    this.#assertReader();
    take(this.#native.begin(this.#parameters(parameters)));
    const native = this.#native;
    const safeIntegers = this.#safeIntegers;
    return {
      next: () => {
        const cells = take(native.nextRow(safeIntegers));
        return cells === undefined ? { value: undefined, done: true } : { value: this.#row(cells, 1), done: false };
      },
      return: (value) => {
        take(native.end());
        return { value, done: true };
      },
      [Symbol.iterator]() {
        return this;
      },
    };
  }

  /** @param {boolean} [on] */
  pluck(on = true) {
    return this.#reshape("pluck", on);
  }

  /** @param {boolean} [on] */
  raw(on = true) {
    return this.#reshape("raw", on);
  }

  /** @param {boolean} [on] */
  expand(on = true) {
    return this.#reshape("expand", on);
  }

  /** @param {boolean} [on] */
  safeIntegers(on = true) {
    this.#assertIdle();
    assertBoolean(on);
    this.#safeIntegers = on;
    return this;
  }

  /** @param {unknown[]} parameters */
  bind(...parameters) {
    this.#assertIdle();
    if (this.#bound !== undefined) {
      throw new TypeError("The bind() method can only be invoked once per statement object");
    }
    this.#bound = this.#parameters(parameters);
    return this;
  }

  columns() {
    if (!this.reader) throw new TypeError("The columns() method is only for statements that return data");
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
    if (!this.reader) throw new TypeError(WRITER);
  }

  #assertIdle() {
    if (this.busy) throw new TypeError("This statement is busy executing a query");
  }

  /** @param {"pluck" | "raw" | "expand"} shape @param {boolean} on */
  #reshape(shape, on) {
    if (!this.reader) throw new TypeError(`The ${shape}() method is only for statements that return data`);
    this.#assertIdle();
    assertBoolean(on);
    if (on) this.#shape = shape;
    else if (this.#shape === shape) this.#shape = "row";
    return this;
  }

  /** The names of the columns, which change when SQLite prepares the statement again. @param {Cells} cells */
  #columnsOf(cells) {
    if (cells[0] !== this.#prepared) {
      this.#columns = Array.from(take(this.#native.columnNames()));
      this.#columnTables = undefined;
      this.#prepared = /** @type {number} */ (cells[0]);
    }
    return this.#columns;
  }

  /** @param {Cells} cells @param {number} at @returns {any} */
  #row(cells, at) {
    const columns = this.#columnsOf(cells);
    switch (this.#shape) {
      case "pluck":
        return cells[at];
      case "raw":
        return columns.map((_, index) => cells[at + index]);
      case "expand":
        return this.#expanded(cells, at, columns);
      default: {
        /** @type {Record<string, unknown>} */
        const row = {};
        for (let index = 0; index < columns.length; index += 1) {
          row[/** @type {string} */ (columns[index])] = cells[at + index];
        }
        return row;
      }
    }
  }

  /** Columns by table; those of no table under `$`. @param {Cells} cells @param {number} at @param {string[]} names */
  #expanded(cells, at, names) {
    this.#columnTables ??= this.columns().map((column) => column.table ?? "$");
    /** @type {Record<string, Record<string, unknown>>} */
    const row = {};
    names.forEach((name, index) => {
      const table = /** @type {string} */ (this.#columnTables?.[index]);
      row[table] ??= {};
      row[table][name] = cells[at + index];
    });
    return row;
  }

  /** The values to bind, in the order of the statement's parameters. @param {unknown[]} given @returns {unknown[]} */
  #parameters(given) {
    if (this.#bound !== undefined) {
      if (given.length > 0) throw new TypeError("This statement already has bound parameters");
      return this.#bound;
    }
    this.#parameterNames ??= Array.from(take(this.#native.parameterNames()));
    return ordered(this.#parameterNames, given);
  }
}

/**
 * Puts parameters into the order of the statement: arrays and single values fill the places without a name, one plain
 * object the named ones. What is wrong is reported in the order in which it is given.
 *
 * @param {string[]} names
 * @param {unknown[]} given
 */
function ordered(names, given) {
  const values = new Array(names.length);
  let next = 0;
  let named = false;
  /** @param {unknown} value */
  const place = (value) => {
    while (next < names.length && names[next] !== "") next += 1;
    if (next === names.length) throw new RangeError("Too many parameter values were provided");
    values[next] = value;
    next += 1;
  };
  for (const argument of given) {
    if (Array.isArray(argument)) {
      for (const value of argument) place(value);
    } else if (typeof argument !== "object" || argument === null || ArrayBuffer.isView(argument)) place(argument);
    else if (isPlain(argument)) {
      if (named) throw new TypeError("You cannot specify named parameters in two different objects");
      named = true;
      fillNamed(names, values, /** @type {Record<string, unknown>} */ (argument));
    } else if (names.some((name) => name !== "")) {
      throw new TypeError("Named parameters can only be passed within plain objects");
    } else place(argument);
  }
  if (!named && names.some((name) => name !== "")) throw new TypeError("Missing named parameters");
  if (names.indexOf("", next) !== -1) throw new RangeError("Too few parameter values were provided");
  return values;
}

/** @param {string[]} names @param {unknown[]} values @param {Record<string, unknown>} named */
function fillNamed(names, values, named) {
  for (const [index, name] of names.entries()) {
    if (name === "") continue;
    const plain = name.slice(1);
    if (!Object.hasOwn(named, plain)) throw new RangeError(`Missing named parameter "${plain}"`);
    values[index] = named[plain];
  }
}

/** @param {unknown} on */
function assertBoolean(on) {
  if (typeof on !== "boolean") throw new TypeError("Expected first argument to be a boolean");
}

module.exports = { SqliteStatement };
