"use strict";

/** @param {Function} errorClass @param {string} name */
function named(errorClass, name) {
  Object.defineProperty(errorClass.prototype, "name", { value: name, configurable: true, writable: true });
}

class ResourceConflictError extends Error {
  /** @param {string} controller @param {string} key */
  constructor(controller, key) {
    super(`Controller resource ${controller}/${key} changed during reconciliation`);
  }
}
named(ResourceConflictError, "ResourceConflictError");

class ResourceNotFoundError extends Error {
  /** @param {string} controller @param {string} key */
  constructor(controller, key) {
    super(`Controller resource not found: ${controller}/${key}`);
  }
}
named(ResourceNotFoundError, "ResourceNotFoundError");

class EffectRequestConflictError extends Error {
  /** @param {string} key */
  constructor(key) {
    super(`Effect key ${JSON.stringify(key)} was reused with a different request`);
  }
}
named(EffectRequestConflictError, "EffectRequestConflictError");

class WorkflowRequestConflictError extends Error {
  /** @param {string} key */
  constructor(key) {
    super(`Workflow request key ${JSON.stringify(key)} was reused with different input`);
  }
}
named(WorkflowRequestConflictError, "WorkflowRequestConflictError");

class SqliteError extends Error {
  /** @param {string} message @param {string} code */
  constructor(message, code) {
    super(message);
    /** @readonly */
    this.code = code;
  }
}
named(SqliteError, "SqliteError");

/** @typedef {import("./native").Failure} Failure */

/** How each kind of native failure becomes an error of this realm.
 * @type {Record<Failure["kind"], (message: string, detail: string) => Error>} */
const CLASSES = {
  sqlite: (message, code) => new SqliteError(message, code),
  type: (message) => new TypeError(message),
  range: (message) => new RangeError(message),
  error: (message) => new Error(message),
  resourceConflict: (controller, key) => new ResourceConflictError(controller, key),
  resourceNotFound: (controller, key) => new ResourceNotFoundError(controller, key),
  effectRequestConflict: (key) => new EffectRequestConflictError(key),
  workflowRequestConflict: (key) => new WorkflowRequestConflictError(key),
};

/**
 * The value of a native call. A failure, which is the only plain object that native functions return, is thrown as an
 * error of this realm, so that `instanceof` holds for the caller and the stack leads to the caller's line.
 *
 * @template T
 * @param {T | Failure} answer
 * @returns {T}
 */
function take(answer) {
  if (typeof answer === "object" && answer !== null && "kind" in answer) {
    throw CLASSES[answer.kind](answer.message, answer.detail ?? "");
  }
  return /** @type {T} */ (answer);
}

module.exports = {
  EffectRequestConflictError,
  ResourceConflictError,
  ResourceNotFoundError,
  SqliteError,
  WorkflowRequestConflictError,
  take,
};
