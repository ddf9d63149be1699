"use strict";

/** The largest distance from the epoch, in milliseconds, that a `Date` holds. */
const MAX_DATE_MS = 8.64e15;

/** The longest controller name and resource key, in UTF-16 code units. */
const MAX_KEY_UNITS = 512;

const RUN_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/;

/** @param {unknown} value @param {string} name @returns {any} */
function object(value, name) {
  if (typeof value !== "object" || value === null) throw new TypeError(`${name} must be an object`);
  return value;
}

/** A text that is content: lone surrogates are stored as U+FFFD. @param {unknown} value @param {string} name @returns {string} */
function content(value, name) {
  if (typeof value !== "string") throw new TypeError(`${name} must be a string`);
  return value;
}

/** A text that names something. Two different lone surrogates would become the same name. @param {unknown} value @param {string} name @returns {string} */
function text(value, name) {
  const checked = content(value, name);
  if (!checked.isWellFormed()) throw new Error(`${name} must be well-formed Unicode, without lone surrogates`);
  return checked;
}

/** @param {unknown} value @param {string} name */
function optionalText(value, name) {
  return value === undefined ? undefined : text(value, name);
}

/** @param {unknown} value @param {string} name */
function optionalContent(value, name) {
  return value === undefined ? undefined : content(value, name);
}

/** A controller name or resource key. @param {unknown} value @param {string} name @param {string} label */
function key(value, name, label) {
  const checked = text(value, name);
  if (checked.length === 0 || checked.length > MAX_KEY_UNITS) throw new Error(`${label} is invalid`);
  return checked;
}

/** @param {unknown} value @returns {string} */
function runId(value) {
  const checked = text(value, "runId");
  if (!RUN_ID.test(checked)) throw new Error(`Invalid workflow run id: ${checked}`);
  return checked;
}

/** @param {unknown} value @param {string} name @returns {string[]} */
function texts(value, name) {
  if (!Array.isArray(value)) throw new TypeError(`${name} must be an array of strings`);
  // by index: a hole is not a string
  return Array.from(value, (element, index) => text(element, `${name}[${index}]`));
}

/** @param {unknown} value @param {string} name @returns {number} */
function integer(value, name) {
  if (typeof value !== "number") throw new TypeError(`${name} must be a number`);
  if (!Number.isSafeInteger(value)) throw new Error(`${name} must be a safe integer`);
  return value;
}

/** @param {unknown} value @param {string} name */
function boolean(value, name) {
  if (typeof value !== "boolean") throw new TypeError(`${name} must be a boolean`);
  return value;
}

/** @param {unknown} value @param {number} fallback */
function limit(value, fallback) {
  if (value === undefined) return fallback;
  const checked = integer(value, "limit");
  if (checked < 0) throw new Error("limit must not be negative");
  return checked;
}

/**
 * A time in epoch milliseconds, from every form that `Date` accepts; the caller's clock where there is none.
 *
 * @param {unknown} value
 * @param {string} name
 * @returns {number}
 */
function timestamp(value, name) {
  if (value === undefined) return Date.now();
  if (typeof value !== "string" && typeof value !== "number" && !isDate(value)) {
    throw new TypeError(`Invalid timestamp: ${name} must be a date string`);
  }
  const ms = new Date(/** @type {string} */ (value)).getTime();
  if (!Number.isFinite(ms)) throw new Error("Invalid timestamp");
  return ms;
}

/** A Date of any realm. @param {unknown} value */
function isDate(value) {
  return Object.prototype.toString.call(value) === "[object Date]";
}

/**
 * When a lease of `leaseMs` ends, in epoch milliseconds.
 *
 * @param {unknown} leaseMs
 * @param {number} now
 */
function expiry(leaseMs, now) {
  const checked = integer(leaseMs, "leaseMs");
  if (checked <= 0) throw new Error("leaseMs must be positive");
  if (now + checked > MAX_DATE_MS) throw new Error("leaseMs ends after the last time that a Date can hold");
  return now + checked;
}

/**
 * A claim, as native code takes it. Every property is read once, here.
 *
 * @param {unknown} value
 * @returns {import("./native").Claim}
 */
function claim(value) {
  const { controller, key: resourceKey, ownerId, token, generation, queueVersion } = object(value, "claim");
  return {
    controller: text(controller, "claim.controller"),
    key: text(resourceKey, "claim.key"),
    ownerId: text(ownerId, "claim.ownerId"),
    token: content(token, "claim.token"),
    generation: integer(generation, "claim.generation"),
    queueVersion: integer(queueVersion, "claim.queueVersion"),
  };
}

/**
 * Proves that a field of the caller's claim can be changed, before anything is written: afterwards it would be too late
 * to refuse a frozen claim.
 *
 * @param {any} value
 * @param {"expiresAt" | "resourceVersion"} field
 */
function assertAssignable(value, field) {
  const current = value[field];
  // in strict mode this throws a TypeError where the field cannot be assigned
  value[field] = current;
}

/** @param {unknown} value */
function reference(value) {
  const { controller, key: resourceKey } = object(value, "ref");
  return { controller: text(controller, "ref.controller"), key: text(resourceKey, "ref.key") };
}

module.exports = {
  assertAssignable,
  boolean,
  claim,
  content,
  expiry,
  integer,
  key,
  limit,
  object,
  optionalContent,
  optionalText,
  reference,
  runId,
  text,
  texts,
  timestamp,
};
