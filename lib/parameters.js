"use strict";

const { isPlain } = require("./canonical-json");

/**
 * Puts parameters into the order of a statement, as better-sqlite3 does: arrays and single values fill the places without
 * a name, one plain object those with one.
 *
 * @param {string[]} names the names of the statement's parameters; empty where one has none
 * @param {unknown[]} given
 * @returns {unknown[]}
 */
function ordered(names, given) {
  const places = new Places(names);
  for (const argument of given) {
    if (Array.isArray(argument)) for (const element of Array.from(argument)) places.next(element);
    else if (isValue(argument)) places.next(argument);
    else if (isPlain(/** @type {object} */ (argument)))
      places.byName(/** @type {Record<string, unknown>} */ (argument));
    else if (places.hasNames) throw new TypeError("Named parameters can only be passed within plain objects");
    else places.next(argument);
  }
  return places.finish();
}

/** The parameters of one call, filled one after the other. */
class Places {
  #names;
  /** @type {unknown[]} */
  #values;
  #place = 0;
  #filled = 0;
  #named = false;

  /** @param {string[]} names */
  constructor(names) {
    this.#names = names;
    this.#values = new Array(names.length).fill(null);
  }

  get hasNames() {
    return this.#names.some((name) => name !== "");
  }

  /** Fills the next place without a name. @param {unknown} value */
  next(value) {
    while (this.#names[this.#place]) this.#place += 1;
    assertBindable(value);
    if (this.#place >= this.#names.length) throw new RangeError("Too many parameter values were provided");
    this.#values[this.#place] = value;
    this.#place += 1;
    this.#filled += 1;
  }

  /** Fills the places that have a name. @param {Record<string, unknown>} values */
  byName(values) {
    if (this.#named) throw new TypeError("You cannot specify named parameters in two different objects");
    this.#named = true;
    this.#names.forEach((prefixed, place) => {
      if (prefixed === "") return;
      const name = prefixed.slice(1);
      if (!Object.hasOwn(values, name)) throw new RangeError(`Missing named parameter "${name}"`);
      const value = values[name];
      assertBindable(value);
      this.#values[place] = value;
      this.#filled += 1;
    });
  }

  finish() {
    if (this.#filled < this.#names.length) {
      if (this.hasNames && !this.#named) throw new TypeError("Missing named parameters");
      throw new RangeError("Too few parameter values were provided");
    }
    return this.#values;
  }
}

/** Whether it fills one place, rather than naming several. @param {unknown} argument */
function isValue(argument) {
  const isObject = typeof argument === "object" || typeof argument === "function";
  return !isObject || argument === null || ArrayBuffer.isView(argument);
}

/** @param {unknown} value */
function assertBindable(value) {
  switch (typeof value) {
    case "number":
    case "string":
    case "undefined":
      return;
    case "bigint":
      if (BigInt.asIntN(64, value) === value) return;
      throw new RangeError("The bound string, buffer, or bigint is too big");
    default:
      if (value === null || ArrayBuffer.isView(value)) return;
      throw new TypeError("SQLite3 can only bind numbers, strings, bigints, buffers, and null");
  }
}

module.exports = { ordered };
