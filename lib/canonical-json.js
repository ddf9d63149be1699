"use strict";

/**
 * Canonical JSON: what `JSON.stringify` prints after a copy in which keys are sorted and `undefined` members left out.
 *
 * It is made here and not in Rust because the copy has to be an ordinary JavaScript object: integer-like keys come
 * first, numbers and escapes are JavaScript's, and whether an object is plain is a question about its realm.
 *
 * @param {unknown} value
 * @returns {string}
 */
function canonicalJson(value) {
  let copied;
  try {
    copied = JSON.stringify(copy(value));
  } catch (error) {
    // only the walk itself and the engine throw a RangeError: the stack or the longest string is used up
    if (error instanceof RangeError)
      throw new Error("JSON is nested too deeply, cyclic or too large", { cause: error });
    throw error;
  }
  return copied;
}

/** @param {unknown} value @returns {unknown} */
function copy(value) {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      if (!Number.isFinite(value)) throw new Error("JSON numbers must be finite");
      return value;
    case "object":
      if (value === null) return null;
      if (Array.isArray(value)) return copyArray(value);
      if (isPlain(value)) return copyObject(/** @type {Record<string, unknown>} */ (value));
      throw new Error("Only plain objects can be stored as canonical JSON");
    default:
      throw new Error(`Unsupported JSON value type: ${typeof value}`);
  }
}

/** @param {unknown[]} array */
function copyArray(array) {
  const copied = new Array(array.length);
  for (let index = 0; index < array.length; index += 1) {
    const element = array[index];
    // an `undefined` element is refused; a hole stays one, and is printed as null
    if (element !== undefined || index in array) copied[index] = copy(element);
  }
  return copied;
}

/** @param {Record<string, unknown>} object */
function copyObject(object) {
  /** @type {Record<string, unknown>} */
  const copied = {};
  for (const key of Object.keys(object).sort()) {
    const member = object[key];
    if (member === undefined) continue;
    const value = copy(member);
    // on an ordinary object this name sets the prototype: such a member vanishes
    if (key !== "__proto__") copied[key] = value;
  }
  return copied;
}

/** Plain in any realm: an object literal of another VM context has that context's Object.prototype. @param {object} value */
function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null || isObjectPrototype(prototype);
}

/** @param {object} prototype */
function isObjectPrototype(prototype) {
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, "__lookupGetter__");
}

module.exports = { canonicalJson, isPlain };
