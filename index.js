"use strict";

const { canonicalJson } = require("./lib/canonical-json");
const { jsonFingerprint, resourceIdFor, tokenHash } = require("./lib/digests");
const errors = require("./lib/errors");
const { workflowStatePath } = require("./lib/paths");
const { StateDatabase } = require("./lib/state-database");
const { SqliteControllerStore } = require("./lib/store");

// checked against what index.d.ts promises
module.exports = /** @satisfies {typeof import("./index.d.ts")} */ ({
  EffectRequestConflictError: errors.EffectRequestConflictError,
  ResourceConflictError: errors.ResourceConflictError,
  ResourceNotFoundError: errors.ResourceNotFoundError,
  SqliteControllerStore,
  SqliteError: errors.SqliteError,
  StateDatabase,
  WorkflowRequestConflictError: errors.WorkflowRequestConflictError,
  canonicalJson,
  jsonFingerprint,
  resourceIdFor,
  tokenHash,
  workflowStatePath,
});
