import store from "./index.js";

export const {
  EffectRequestConflictError,
  ResourceConflictError,
  ResourceNotFoundError,
  SqliteControllerStore,
  SqliteError,
  StateDatabase,
  WorkflowRequestConflictError,
  canonicalJson,
  jsonFingerprint,
  resourceIdFor,
  tokenHash,
  workflowStatePath,
} = store;
