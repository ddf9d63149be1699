/// <reference types="node" />

/**
 * The durable store of pi-workflows: controllers, queues, leases, effects, runs and deferred turns in one SQLite file.
 *
 * Every method is synchronous and, where it writes, one transaction with one commit. Times go in as anything that
 * JavaScript's `Date` accepts and come out as `toISOString()` text; durations are milliseconds. A record is a plain object
 * of the caller's realm and a copy: members in canonical order, `undefined` gone.
 *
 * Besides what a method names, every method throws a `TypeError` for an argument of the wrong type and an `Error` for
 * one that cannot be (both name the argument, and nothing was written), a {@link SqliteError} where SQLite fails, and a
 * `TypeError` ("The database connection is not open") after the database was closed.
 */

// ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A value that JSON can hold. */
export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;

/** A JSON object. */
export type JsonObject = { [key: string]: JsonValue };

// ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A resource is not at the version that the caller expected: somebody else changed it. Read it again. */
export declare class ResourceConflictError extends Error {
  constructor(controller: string, key: string);
}

/** There is no such resource in the store's project. */
export declare class ResourceNotFoundError extends Error {
  constructor(controller: string, key: string);
}

/** An effect's idempotency key came back with another request. */
export declare class EffectRequestConflictError extends Error {
  constructor(key: string);
}

/** A child workflow's request key came back with another workflow or input. */
export declare class WorkflowRequestConflictError extends Error {
  constructor(key: string);
}

/** SQLite refused or failed; the message is SQLite's own. */
export declare class SqliteError extends Error {
  constructor(message: string, code: string);
  /** The extended result name, such as `SQLITE_CONSTRAINT_UNIQUE` or `SQLITE_BUSY` (sqlite.org/rescode.html). */
  readonly code: string;
}

// ── controllers ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Names a resource: a controller, and a key that is unique for it within a project. */
export type ControllerResourceRef = { controller: string; key: string };

/** One aspect of a resource's status, as of a time. */
export type ControllerCondition = {
  type: string;
  status: true | false | "unknown";
  /** A word for programs. */
  reason: string;
  /** A sentence for people. */
  message?: string;
  /** The spec's generation that it was observed for. */
  observedGeneration: number;
  lastTransitionTime: string;
};

/** How far a child workflow is. `succeeded`, `failed` and `interrupted` are its ends. */
export type ChildWorkflowState = "pending" | "running" | "waiting" | "succeeded" | "failed" | "interrupted";

/** A child workflow, as a resource's status refers to it. */
export type ChildWorkflowReference = { requestId: string; runId?: string; state: ChildWorkflowState; attempt: number };

/** What is, as a controller has last reported it. */
export type ControllerResourceStatus<TStatus> = {
  /** The generation of the spec that the report is about; 0 before the first one. */
  observedGeneration: number;
  conditions: ControllerCondition[];
  controllerStatus: TStatus;
  workflowRun?: ChildWorkflowReference;
};

/** A resource: what should be, and what is. */
export type ControllerResource<TSpec = unknown, TStatus = unknown> = {
  metadata: {
    /** Random; a key that is used again after a deletion gets a new one. */
    uid: string;
    controller: string;
    key: string;
    /** Grows with every change and never goes back, also when the key is used again. */
    resourceVersion: number;
    /** Grows with every change of the spec; 1 for a new resource. */
    generation: number;
    /** When its deletion was requested; absent before. */
    deletionTimestamp?: string;
    /** What still has to be done before it can be deleted, in the order in which it was set. */
    finalizers: string[];
  };
  spec: TSpec;
  status: ControllerResourceStatus<TStatus>;
};

/**
 * The right to work on a resource until `expiresAt`. Methods that take a claim change it in place: `renewClaim` sets
 * `expiresAt`; `updateStatus`, `recordEvent`, `settleClaim` and `requeueClaim` set `resourceVersion`. Where that field
 * cannot be assigned (a frozen claim, say), they throw a `TypeError` before anything is written.
 */
export type ControllerQueueClaim = {
  controller: string;
  key: string;
  ownerId: string;
  /** 32 random bytes in base64url. Only its SHA-256 is stored. */
  token: string;
  /** The fencing generation: grows with every claim of the resource and never repeats. */
  generation: number;
  /** The version of the queue item that was claimed; it moves on when the resource is queued again meanwhile. */
  queueVersion: number;
  resourceVersion: number;
  /** How often in a row the item was requeued. */
  consecutiveErrors: number;
  expiresAt: string;
};

/** A resource that waits for its controller. */
export type QueueItem = {
  controller: string;
  key: string;
  availableAt: string;
  consecutiveErrors: number;
  /** Until when it is claimed; absent where nobody holds it. A time that is past: the claim has lapsed. */
  claimExpiresAt?: string;
};

/** When a requeued item may be claimed again, and what went wrong. */
export type QueueRequeueOptions = { availableAt: string; error?: string };

/** Something that is to happen outside, once for its key. */
export type EffectRecord = {
  key: string;
  resourceUid: string;
  /** The current generation of the resource. */
  generation: number;
  kind: string;
  /** `indeterminate`: it may or may not have happened. */
  state: "pending" | "applied" | "rejected" | "indeterminate";
  requestFingerprint: string;
  startedAt: string;
  /** When it was settled; absent while it is pending. */
  completedAt?: string;
  externalRef?: string;
  error?: string;
};

/** An effect, and whether this call reserved it (`true`) or found it reserved for the same request. */
export type EffectReservation = { record: EffectRecord; created: boolean };

/** A workflow that a controller has asked for. */
export type ChildWorkflowRecord = ChildWorkflowReference & {
  resourceUid: string;
  requestKey: string;
  /** 64 lowercase hex digits. */
  inputFingerprint: string;
  workflow: string;
  error?: string;
};

/** A child workflow, and whether this call reserved it (`true`) or found it reserved for the same request. */
export type WorkflowReservation = { record: ChildWorkflowRecord; created: boolean };

/** How a child workflow is getting on. A missing `runId` or `attempt` stays as it is; a missing `error` is removed. */
export type WorkflowRecordUpdate = {
  runId?: string | null;
  state: ChildWorkflowState;
  attempt?: number;
  error?: string | null;
};

/** Something that happened to a resource. */
export type ControllerEvent = {
  /** Its number in the file; grows, never repeats. */
  seq: number;
  recordedAt: string;
  controller: string;
  key: string;
  type: string;
  payload: JsonObject;
};

/** The controller half of the store. */
export interface ControllerStore {
  /** Closes the database, unless it was handed in. A closed store can be closed again, but not used. */
  close(): void;

  /**
   * Creates a resource, or changes its spec; gives the resource.
   *
   * A new one starts at version 1 and generation 1, and is queued at `now`. A changed spec makes a new version and
   * generation, and queues it. The same spec again changes nothing and does not wait for writers; `initialStatus` counts
   * only for a new resource. A key whose resource was deleted is used again with a new uid: versions go on.
   *
   * @throws `Error` "Controller store is read-only"; "controller is invalid" and "resource key is invalid" for names
   * that are empty or longer than 512 UTF-16 code units; what {@link canonicalJson} throws.
   */
  putResource<TSpec, TStatus>(options: {
    controller: string;
    key: string;
    spec: TSpec;
    initialStatus: TStatus;
    now?: string;
  }): ControllerResource<TSpec, TStatus>;

  /** Gives a resource; `undefined` where there is none in this project. */
  getResource<TSpec = unknown, TStatus = unknown>(
    ref: ControllerResourceRef,
  ): ControllerResource<TSpec, TStatus> | undefined;

  /** Gives a resource by its uid, in whichever project; `undefined` where there is none. */
  getResourceByUid(uid: string): ControllerResource | undefined;

  /** Lists resources by controller and key; `[]` where there are none. */
  listResources<TSpec = unknown, TStatus = unknown>(options?: {
    controller?: string;
  }): ControllerResource<TSpec, TStatus>[];

  /**
   * Stores the status that the holder of a claim reports, and gives the resource.
   *
   * Sets `claim.resourceVersion` to the new version. `finalizers` replaces the finalizers where given.
   *
   * @throws {ResourceNotFoundError} where there is no such resource. {ResourceConflictError} where it is not at
   * `expectedResourceVersion`. `Error` "Controller claim targets another resource", "Controller claim is stale" (lapsed,
   * taken over, or another token), "Controller finalizers must be unique". `TypeError` where
   * `claim.resourceVersion` cannot be assigned; nothing was written.
   */
  updateStatus<TStatus>(options: {
    ref: ControllerResourceRef;
    expectedResourceVersion: number;
    claim: ControllerQueueClaim;
    status: ControllerResourceStatus<TStatus>;
    finalizers?: string[];
    now?: string;
  }): ControllerResource<unknown, TStatus>;

  /**
   * Marks a resource for deletion and queues it; gives the resource. One that is marked already stays as it is.
   *
   * @throws {ResourceNotFoundError}
   */
  requestDeletion(ref: ControllerResourceRef, now?: string): ControllerResource;

  /**
   * Replaces the finalizers of a resource, without a claim; gives the resource.
   *
   * @throws {ResourceNotFoundError} {ResourceConflictError} where it is not at `expectedResourceVersion`. `Error`
   * "Controller finalizers must be unique".
   */
  updateFinalizers(options: {
    ref: ControllerResourceRef;
    expectedResourceVersion: number;
    finalizers: string[];
    now?: string;
  }): ControllerResource;

  /**
   * Deletes a resource that is marked for deletion and has no finalizers left; the claim ends with it.
   *
   * `false`: it is not marked, or finalizers remain. Its events stay, and its versions and fencing generations go on when
   * the key is used again.
   *
   * @throws {ResourceNotFoundError} {ResourceConflictError} where it is not at `expectedResourceVersion`. `Error`
   * "Controller claim targets another resource", "Controller claim is stale".
   */
  deleteResource(ref: ControllerResourceRef, expectedResourceVersion: number, claim: ControllerQueueClaim): boolean;

  /**
   * Queues a resource, at once or from `availableAt` on. A queued item keeps its earlier time.
   *
   * @throws {ResourceNotFoundError}
   */
  enqueue(ref: ControllerResourceRef, availableAt?: string): void;

  /**
   * Claims what is due and free: earliest first, then by controller and key.
   *
   * `undefined`: no controllers given, nothing due, or all of it claimed. A lapsed claim counts as free.
   *
   * @param options.leaseMs how long the claim holds, in milliseconds: a positive safe integer
   */
  claimNext(options: {
    controllers: string[];
    ownerId: string;
    leaseMs: number;
    now?: string;
  }): ControllerQueueClaim | undefined;

  /**
   * Extends a claim to `leaseMs` from now and sets `claim.expiresAt`.
   *
   * `false`: it has lapsed, was taken over, or its resource is gone; the claim is as it was.
   *
   * @throws `TypeError` where `claim.expiresAt` cannot be assigned; nothing was written
   */
  renewClaim(claim: ControllerQueueClaim, leaseMs: number, now?: string): boolean;

  /**
   * Ends a claim whose work is done and sets `claim.resourceVersion`. The item leaves the queue, unless it was queued
   * again since the claim.
   *
   * `false`: somebody else holds the resource now, or nobody. A lapsed claim that nobody has taken over still settles.
   *
   * @throws `TypeError` where `claim.resourceVersion` cannot be assigned; nothing was written
   */
  settleClaim(claim: ControllerQueueClaim, now?: string): boolean;

  /**
   * Ends a claim whose work has failed and sets `claim.resourceVersion`. The item stays, with one more consecutive error.
   *
   * `false` as in {@link settleClaim}.
   *
   * @throws as {@link settleClaim}
   */
  requeueClaim(claim: ControllerQueueClaim, options: QueueRequeueOptions, now?: string): boolean;

  /**
   * Lists the queue of the project in the order in which it is claimed, claimed items included.
   *
   * @throws `Error` "Controller project is not registered in the state database" on a read-only store
   */
  listQueue(): QueueItem[];

  /**
   * Reserves an effect once for its key; the same request again gives the reservation that is there.
   *
   * @throws {EffectRequestConflictError} where `generation`, `kind` or `requestFingerprint` differ. `Error` "Controller
   * resource not found: UID", and for the claim as {@link updateStatus}.
   */
  reserveEffect(options: {
    key: string;
    resourceUid: string;
    claim: ControllerQueueClaim;
    generation: number;
    kind: string;
    requestFingerprint: string;
    now?: string;
  }): EffectReservation;

  /** Gives an effect; `undefined` where none was reserved under this key. */
  getEffect(resourceUid: string, key: string): EffectRecord | undefined;

  /**
   * Stores the outcome of an effect; a later one replaces it, with reference and error.
   *
   * @throws `Error` "Effect record not found: UID/KEY", and for the claim as {@link updateStatus}
   */
  updateEffect(options: {
    resourceUid: string;
    key: string;
    claim: ControllerQueueClaim;
    state: EffectRecord["state"];
    externalRef?: string;
    error?: string;
    now?: string;
  }): EffectRecord;

  /** Lists the effects of a resource, oldest first. */
  listEffects(resourceUid: string): EffectRecord[];

  /**
   * Reserves a child workflow once for its request key; the same request again gives the reservation that is there.
   *
   * @param options.inputFingerprint 64 lowercase hex digits
   * @throws {WorkflowRequestConflictError} where `workflow` or `inputFingerprint` differ. {SqliteError} where the
   * fingerprint is not 32 bytes in hex. For the claim as {@link updateStatus}.
   */
  reserveWorkflow(options: {
    resourceUid: string;
    claim: ControllerQueueClaim;
    requestKey: string;
    workflow: string;
    inputFingerprint: string;
  }): WorkflowReservation;

  /** Gives a child workflow; `undefined` where none was reserved under this key. */
  getWorkflow(resourceUid: string, requestKey: string): ChildWorkflowRecord | undefined;

  /** Gives a child workflow by the id of its request; `undefined` where there is none. */
  getWorkflowByRequestId(requestId: string): ChildWorkflowRecord | undefined;

  /**
   * Stores how a child workflow is getting on, under the resource's claim.
   *
   * @throws `Error` "Workflow request not found: ID", and for the claim as {@link updateStatus}
   */
  updateWorkflow(requestId: string, update: WorkflowRecordUpdate, claim: ControllerQueueClaim): ChildWorkflowRecord;

  /**
   * Stores how a child workflow ended, without a claim, and moves the resource's version along.
   *
   * @throws `Error` "Workflow request not found: ID", "Scheduler completion must report a settled child state" for
   * `pending` and `running`, "Scheduler completion run ID does not match the reserved child run"
   */
  completeWorkflow(requestId: string, update: WorkflowRecordUpdate): ChildWorkflowRecord;

  /** Lists the child workflows of a resource, oldest first. */
  listWorkflows(resourceUid: string): ChildWorkflowRecord[];

  /**
   * Records an event and moves the resource's version along; sets `claim.resourceVersion` where there is a claim.
   *
   * @throws {ResourceNotFoundError}, for the claim as {@link updateStatus}, what {@link canonicalJson} throws
   */
  recordEvent(options: {
    controller: string;
    key: string;
    claim?: ControllerQueueClaim;
    type: string;
    payload?: JsonObject;
    now?: string;
  }): ControllerEvent;

  /** Lists the newest events of the project's resources, newest first: 100, or `limit`. */
  listEvents(options?: { controller?: string; key?: string; limit?: number }): ControllerEvent[];
}

// ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Where a run is in the queue. `done`, `failed` and `cancelled` are its ends. */
export type WorkflowRunLaunchStatus = "queued" | "starting" | "running" | "parked" | "done" | "failed" | "cancelled";

/** A run of a workflow, as the queue knows it. */
export type WorkflowRunQueueRecord = {
  runId: string;
  workflowName: string;
  workflowSourceRef: string;
  workflowSource: unknown;
  /** Whether the engine has taken it up. */
  initialized: boolean;
  /** `sha256:` and 64 hex digits. */
  definitionDigest: string;
  input: unknown;
  launchOptions: unknown;
  status: WorkflowRunLaunchStatus;
  /** Who holds it, be it lapsed or not. */
  runnerId: string | null;
  /** The token, for whoever has just claimed it; `null` otherwise. */
  claimToken: string | null;
  claimGeneration: number | null;
  claimExpiresAt: string | null;
  affinityRunnerId: string | null;
  originSessionId: string | null;
  parentRunId: string | null;
  errorCode: string | null;
  errorMessage: string | null;
  createdAt: string;
  updatedAt: string;
  startedAt: string | null;
  finishedAt: string | null;
};

/** What a node of a run tells a session. */
export type WorkflowNotificationRecord = {
  notificationId: string;
  runId: string;
  nodeId: string;
  attemptId: string;
  notificationIndex: number;
  targetSessionId: string;
  kind: "progress" | "final";
  content: string;
  createdAt: string;
  /** Until when it was claimed when the record was read: in what a claim gives, the claim before it. */
  deliveryClaimExpiresAt: string | null;
  deliveredAt: string | null;
};

/** Why a session owes a turn. */
export type WorkflowTurnIntentCause =
  | "agentCancelled"
  | "timedOut"
  | "failed"
  | "launchFailed"
  | "controllerInterrupted"
  | "claimLost";

/** How a turn was taken. */
export type WorkflowTurnIntentResolution = "workflowPrompt" | "presentation" | "fallback";

/** What a turn can say where nothing better is known. */
export type WorkflowTurnIntentFacts = JsonObject & {
  schema: "pi-workflows.deferred-turn-facts.v1";
  workflowName: string;
  runId: string;
  observedState: string;
  cause: WorkflowTurnIntentCause;
  nodeId: string | null;
  attemptId: string | null;
  reason: string | null;
  handoff: boolean;
};

/** A turn that a session owes the outcome of a run. */
export type WorkflowTurnIntentRecord = {
  intentId: string;
  sourceEventId: string;
  runId: string;
  workflowRef: string;
  targetSessionId: string;
  cause: WorkflowTurnIntentCause;
  nodeId: string | null;
  attemptId: string | null;
  fallbackFacts: WorkflowTurnIntentFacts;
  requestedAt: string;
  /** From when on it can be delivered; `null`: not yet. */
  eligibleAt: string | null;
  resolvedAt: string | null;
  resolution: WorkflowTurnIntentResolution | null;
  resolutionMessageId: string | null;
  deliveryClaimExpiresAt: string | null;
};

/** Something that happened to a run. */
export type RunEventRecord = {
  seq: number;
  recordedAt: string;
  runId: string;
  workflowRef: string;
  type: string;
  runnerId: string | null;
  payload: JsonObject;
};

/** What is needed to reserve a run. */
export type WorkflowRunRequest = {
  /** A letter or digit, then up to 199 of letters, digits, `.`, `_` and `-`. */
  runId: string;
  workflowName: string;
  /** `builtin:NAME`, or a file. */
  workflowSourceRef: string;
  /** `{ kind: "builtin" | "file", … }`, or `{ root, mounted }` of such. */
  workflowSource: unknown;
  /** SHA-256 in hex, with `sha256:` before it or without. */
  definitionDigest: string;
  definitionSnapshot: unknown;
  input: unknown;
  launchOptions?: unknown;
  /** Who should run it first. */
  runnerId: string;
  /** The session that it reports to. */
  originSessionId: string;
  /** The parked run of the same session that it continues. */
  parentRunId?: string;
  now?: string;
};

// ── the store ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** How to open a store. */
export type SqliteControllerStoreOptions = {
  /** Only read: the database must exist, and every write is refused. */
  readOnly?: boolean;
  /** The folder of the project; the working directory where it is left out. */
  projectPath?: string;
  /** A database to share. The store does not close it. */
  state?: StateDatabase;
};

/**
 * The store of one project on one database file.
 *
 * A writing store registers its project. A read-only one looks it up; where it is not registered, lists read across
 * projects, `getResource` gives `undefined`, and the rest throws "Controller project is not registered in the state
 * database". Inside `state.transaction(fn)` methods become part of that transaction.
 */
export declare class SqliteControllerStore {
  /**
   * Opens the store, and creates the database where there is none.
   *
   * @param filePath the database file; {@link workflowStatePath} where it is left out
   * @throws `Error` with the reset instruction ("… incompatible …") where the file holds something else or leftovers of
   * the older layout are there, and "… does not exist …" for a read-only store without a file
   */
  constructor(filePath?: string, options?: SqliteControllerStoreOptions);

  /** The database file, absolute. */
  readonly filePath: string;
  /** The database, shared by whoever works on it in this thread. */
  readonly state: StateDatabase;

  /** Closes the store, as `close` does: for `using`. */
  [Symbol.dispose](): void;

  /**
   * Reserves a run: it is queued for its session. A parked parent of the same session is done with that.
   *
   * @throws `Error` "Invalid workflow run id: ID", "Expected a SHA-256 digest", "Workflow run already reserved: ID",
   * "Stored workflow source identity is invalid", or what stands in the way of continuing the parent. {SqliteError}
   * `SQLITE_CONSTRAINT_UNIQUE` where the session has another run queued, starting or running.
   */
  reserveWorkflowRun(options: WorkflowRunRequest): WorkflowRunQueueRecord;

  /**
   * Reserves a run where it is new, and claims it, in one transaction.
   *
   * @throws as {@link reserveWorkflowRun}, and `Error` "Workflow run could not be claimed: ID"
   */
  enqueueWorkflowRun(options: WorkflowRunRequest & { claimToken: string; leaseMs: number }): WorkflowRunQueueRecord;

  /** Gives a run, in whichever project; `undefined` where there is none. */
  getWorkflowRun(runId: string): WorkflowRunQueueRecord | undefined;

  /** Lists the runs of the project, newest first: 100, or `limit`. Empty filters let all through. */
  listWorkflowRuns(options?: {
    statuses?: WorkflowRunLaunchStatus[];
    excludeRunIds?: string[];
    limit?: number;
  }): WorkflowRunQueueRecord[];

  /** Gives the newest run of a session that has not ended; `undefined` where there is none. */
  findSessionReservation(sessionId: string): WorkflowRunQueueRecord | undefined;

  /**
   * Claims a run, which is `starting` then. Whoever holds it already claims it anew, under the new token.
   *
   * `undefined`: there is no such run, it has ended, or somebody else holds it.
   *
   * @throws {SqliteError} `SQLITE_CONSTRAINT_UNIQUE` where its session has another active run
   */
  claimWorkflowRun(options: {
    runId: string;
    runnerId: string;
    claimToken: string;
    leaseMs: number;
    now?: string;
  }): WorkflowRunQueueRecord | undefined;

  /** Marks a claimed run as `running`; `false` where the token does not hold it. */
  markWorkflowRunRunning(options: { runId: string; claimToken: string; now?: string }): boolean;

  /**
   * Claims the run that is due first: of `sessionId`, or, without one, any that is headless or was started before.
   *
   * `undefined`: nothing to claim. A run whose session is busy with another one is passed over.
   */
  claimNextWorkflowRun(options: {
    runnerId: string;
    sessionId?: string;
    claimToken: string;
    leaseMs: number;
    now?: string;
    excludeRunIds?: string[];
  }): WorkflowRunQueueRecord | undefined;

  /** Extends the claim on a run to `leaseMs` from now; `false` where the token does not hold it any more. */
  renewWorkflowRunClaim(options: { runId: string; claimToken: string; leaseMs: number; now?: string }): boolean;

  /** Tells whether the token holds the run. */
  verifyWorkflowRunClaim(options: { runId: string; claimToken: string; now?: string }): boolean;

  /** Tells in whose name the holder of the token may act now; `undefined` where the token does not hold the run. */
  workflowRunAuthority(
    runId: string,
    claimToken: string,
  ):
    | {
        actor: { type: "session" | "host"; id: string };
        ownerType: "session" | "host";
        ownerId: string;
        token: string;
        generation: number;
      }
    | undefined;

  /** Puts a claimed run aside, free for the next one; `false` where the token does not hold it. */
  parkWorkflowRun(options: { runId: string; claimToken: string; now?: string }): boolean;

  /**
   * Ends a run as failed, in the queue and in its recorded state.
   *
   * `false`: there is no such run, it has ended, the token does not hold it, or, without a token, somebody holds it or it
   * was started before.
   *
   * @throws `Error` "Workflow run ID has no state projection", "Workflow run ID state is invalid"
   */
  failWorkflowRun(options: {
    runId: string;
    claimToken?: string;
    errorCode: string;
    errorMessage: string;
    now?: string;
  }): boolean;

  /** Ends a run as cancelled; `false` as in {@link failWorkflowRun}. */
  cancelWorkflowRun(options: { runId: string; claimToken?: string; now?: string }): boolean;

  /**
   * Removes a run, its queue row and its binding; `false` where the token does not hold it now.
   *
   * Its identity and events stay, so that the id can be reserved again. Runs that continue it lose their parent.
   */
  deleteWorkflowRun(options: { runId: string; claimToken: string }): boolean;

  /** Ends a claimed run as done; `false` where the token does not hold it. */
  completeWorkflowRun(options: { runId: string; claimToken: string; now?: string }): boolean;

  /** Throws: there is no older layout to repair any more. */
  repairCanonicalWorkflowSourceRun(): never;

  /** Throws: there is no older layout to claim from any more. */
  claimLegacyWorkflowSourceRun(): never;

  /**
   * Records an event of a run and moves its version along.
   *
   * @throws `Error` "Workflow run not found: ID"
   */
  recordRunEvent(options: {
    runId: string;
    workflowRef: string;
    type: string;
    payload?: JsonObject;
    runnerId?: string;
    now?: string;
  }): RunEventRecord;

  /** Lists the events of all runs after a watermark (`seq`), oldest first: 100, or `limit`. `[]`: nothing new. */
  listRunEventsAfter(seq: number, options?: { limit?: number }): RunEventRecord[];

  /**
   * Stores a turn intent once for its source event; gives the one that is there where there is one already.
   *
   * @throws `Error` "Workflow run not found: ID"
   */
  ensureWorkflowTurnIntent(options: {
    intentId: string;
    sourceEventId: string;
    runId: string;
    workflowRef: string;
    targetSessionId: string;
    cause: WorkflowTurnIntentCause;
    nodeId?: string | null;
    attemptId?: string | null;
    fallbackFacts: WorkflowTurnIntentFacts;
    eligible: boolean;
    requestedAt?: string;
  }): WorkflowTurnIntentRecord;

  /** Gives a turn intent; `undefined` where there is none. */
  getWorkflowTurnIntent(intentId: string): WorkflowTurnIntentRecord | undefined;

  /** Gives the newest open intent of a run for a session; `undefined` where there is none. */
  findPendingWorkflowTurnIntent(options: {
    runId: string;
    targetSessionId: string;
  }): WorkflowTurnIntentRecord | undefined;

  /** Claims an intent; `undefined` where there is none for that session, or it is settled or claimed. */
  claimWorkflowTurnIntent(options: {
    intentId: string;
    targetSessionId: string;
    claimToken: string;
    leaseMs: number;
    now?: string;
  }): WorkflowTurnIntentRecord | undefined;

  /** Claims eligible intents of a session, oldest first: of the first 10, or `limit`, those that nobody has claimed. */
  claimEligibleWorkflowTurnIntents(options: {
    targetSessionId: string;
    claimToken: string;
    leaseMs: number;
    now?: string;
    limit?: number;
  }): WorkflowTurnIntentRecord[];

  /** Lets an open intent be delivered from `eligibleAt` (or `now`) on, with new facts; `false` where it is not open. */
  makeWorkflowTurnIntentEligible(options: {
    intentId: string;
    fallbackFacts: WorkflowTurnIntentFacts;
    eligibleAt?: string;
    now?: string;
  }): boolean;

  /** Settles a claimed intent; `false` where the token does not hold it for that session, or it is settled already. */
  resolveWorkflowTurnIntent(options: {
    intentId: string;
    targetSessionId: string;
    claimToken: string;
    resolution: WorkflowTurnIntentResolution;
    messageId?: string;
    now?: string;
  }): boolean;

  /** Gives up the claim on an intent, lapsed or not; `false` where the token does not hold it for that session. */
  releaseWorkflowTurnIntentClaim(options: { intentId: string; targetSessionId: string; claimToken: string }): boolean;

  /** Lists turn intents, newest first: 100, or `limit`. */
  listWorkflowTurnIntents(options?: {
    runId?: string;
    targetSessionId?: string;
    unresolvedOnly?: boolean;
    limit?: number;
  }): WorkflowTurnIntentRecord[];

  /**
   * Stores a notification once for its attempt and index; gives the one that is there where there is one already.
   *
   * `nodeId` is read from the attempt. @throws `Error` "Workflow run not found: ID". {SqliteError}
   * `SQLITE_CONSTRAINT_FOREIGNKEY` where there is no such attempt.
   */
  enqueueWorkflowNotification(options: {
    runId: string;
    nodeId: string;
    attemptId: string;
    notificationIndex: number;
    targetSessionId: string;
    kind: "progress" | "final";
    content: string;
    now?: string;
  }): WorkflowNotificationRecord;

  /** Claims what is to be told to a session, oldest first: of the first 20, or `limit`, what nobody has claimed. */
  claimPendingWorkflowNotifications(options: {
    targetSessionId: string;
    claimToken: string;
    leaseMs: number;
    now?: string;
    limit?: number;
  }): WorkflowNotificationRecord[];

  /** Marks a claimed notification as delivered; `false` where the token does not hold it for that session. */
  markWorkflowNotificationDelivered(options: {
    notificationId: string;
    targetSessionId: string;
    claimToken: string;
    now?: string;
  }): boolean;

  /** Marks the pending effects of a run, of one type, as applied; nothing happens where there are none. */
  settleRunEffect(runId: string, effectType: "run.park_queue" | "run.settle_queue"): void;

  /**
   * Binds a run to another session; `true`.
   *
   * @throws {SqliteError} `SQLITE_CONSTRAINT_FOREIGNKEY` where there is no such run
   */
  setWorkflowRunOriginSession(runId: string, originSessionId: string): boolean;
}

/** The controller half of the class: written once, at the interface. */
export interface SqliteControllerStore extends ControllerStore {}

// ── the database ────────────────────────────────────────────────────────────────────────────────────────────────────

/** The schema of a host package. A file is created with exactly this, and must match it exactly. */
export type StateSchema = {
  sql: string;
  name: string;
  version: number;
  applicationId: number;
  appVersion: string;
};

/** How to open a database. */
export type StateDatabaseOptions = {
  /** The file; {@link workflowStatePath} of `homeDir` where it is left out. */
  filePath?: string;
  homeDir?: string;
  mode?: "read-write" | "read-only";
  /** Refuse a first start beside leftovers of the older layout; by default where no `filePath` is given. */
  checkLegacyState?: boolean;
  /** The built-in schema where it is left out. */
  schema?: StateSchema;
};

/** A stored value; `hash` is the SHA-256 of its content, 32 bytes. */
export type BlobRecord = { hash: Buffer; mediaType: string; byteLength: number; content: Buffer };

/** An open database file: one native connection for all stores and statements of this thread. */
export declare class StateDatabase {
  /** Opens the database, and creates it where there is none. @throws as the constructor of {@link SqliteControllerStore} */
  constructor(options?: StateDatabaseOptions);
  /** The database file, absolute. */
  readonly filePath: string;
  /** Whether it can be written. */
  readonly mode: "read-write" | "read-only";
  /** The connection, for statements of your own. */
  readonly connection: SqliteConnection;

  /** Closes the connection; every statement of it is of no use afterwards. */
  close(): void;
  /** Closes the database, as `close` does: for `using`. */
  [Symbol.dispose](): void;

  /**
   * Runs `fn` as one write transaction (`BEGIN IMMEDIATE`), or, inside another, as a savepoint; gives what it gives.
   *
   * What `fn` throws undoes everything and is passed on unchanged. `fn` must not be asynchronous.
   */
  transaction<T>(fn: () => T): T;

  /** Stores a value as canonical JSON; gives its 32-byte key. `now` is epoch milliseconds. */
  putJson(value: unknown, now?: number): Buffer;
  /** Stores a text; gives its 32-byte key. */
  putText(value: string, now?: number): Buffer;
  /** Stores bytes; gives their 32-byte key. @throws `Error` "Content-addressed blob conflict": stored as another type */
  putBlob(content: Uint8Array, mediaType: string, now?: number): Buffer;
  /** Gives a stored value; `undefined` where there is none. */
  readBlob(hash: Uint8Array): BlobRecord | undefined;
  /** Gives a stored JSON value. @throws `Error` "JSON blob is missing or has the wrong media type" */
  readJson(hash: Uint8Array): unknown;

  /** Checks file and foreign keys. @throws `Error` that says what is damaged */
  integrityCheck(): void;
  /**
   * Removes the values that nothing points to; gives their number. Time linear in the file, in parts between which others write.
   *
   * What another connection has stored in the last ten minutes survives: it may be about to point to it.
   */
  pruneUnreferencedBlobs(): number;
  /**
   * Copies the live database to `destination`, off the event loop, without stopping writers.
   *
   * The copy is verified, private (0600) and put in place by a rename: a failure leaves the destination as it was.
   * Rejects where the destination is the live database.
   */
  backup(destination: string): Promise<void>;
}

// ── the connection ──────────────────────────────────────────────────────────────────────────────────────────────────

/** What a statement has done. */
export type RunResult = { changes: number; lastInsertRowid: number | bigint };

/** A column of a statement's rows. */
export type ColumnDefinition = {
  name: string;
  column: string | null;
  table: string | null;
  database: string | null;
  type: string | null;
};

type VariableArgFunction = (...params: any[]) => unknown;
type ArgumentTypes<F extends VariableArgFunction> = F extends (...args: infer A) => unknown ? A : never;

/** A prepared statement in the shape of better-sqlite3's. */
export interface SqliteStatement<BindParameters extends unknown[], Result = unknown> {
  /** What prepared it. */
  readonly database: SqliteConnection;
  /** Its text. */
  readonly source: string;
  /** Whether it returns data. */
  readonly reader: boolean;
  /** Whether it changes nothing. */
  readonly readonly: boolean;
  /** Whether an iterator of it is under way. */
  readonly busy: boolean;
  /** Runs it. @throws `TypeError` while anything of this connection iterates */
  run(...params: BindParameters): RunResult;
  /** Gives the first row; `undefined` where there is none. */
  get(...params: BindParameters): Result | undefined;
  /** Gives all rows. */
  all(...params: BindParameters): Result[];
  /** Steps through the rows. Until it ends, this connection refuses to write. */
  iterate(...params: BindParameters): IterableIterator<Result>;
  /** Gives the first column instead of a row. */
  pluck(toggleState?: boolean): this;
  /** Gives arrays instead of objects. */
  raw(toggleState?: boolean): this;
  /** Gives an object of objects, by table. */
  expand(toggleState?: boolean): this;
  /** Binds parameters for good. */
  bind(...params: BindParameters): this;
  /** Describes the columns of the rows. @throws `TypeError` for a statement that returns no data */
  columns(): ColumnDefinition[];
  /** Gives integers as bigint. */
  safeIntegers(toggleState?: boolean): this;
}

/** A function that runs as a transaction, in the kind of its name. */
export interface SqliteTransaction<F extends VariableArgFunction> {
  (...params: ArgumentTypes<F>): ReturnType<F>;
  default(...params: ArgumentTypes<F>): ReturnType<F>;
  deferred(...params: ArgumentTypes<F>): ReturnType<F>;
  immediate(...params: ArgumentTypes<F>): ReturnType<F>;
  exclusive(...params: ArgumentTypes<F>): ReturnType<F>;
}

/** The one connection of a database, in the shape of better-sqlite3's. */
export interface SqliteConnection {
  /** The file, as it was opened. */
  readonly name: string;
  /** Whether it has not been closed. */
  readonly open: boolean;
  /** Whether a transaction is open. */
  readonly inTransaction: boolean;
  /** Whether it refuses writes. */
  readonly readonly: boolean;
  /** Whether it has no file. */
  readonly memory: boolean;
  /** Prepares one statement. @throws `RangeError` for none and for several; {SqliteError} for what SQLite refuses */
  // biome-ignore lint/complexity/noBannedTypes: as @types/better-sqlite3 has it, so that its callers compile unchanged
  prepare<BindParameters extends unknown[] | {} = unknown[], Result = unknown>(
    source: string,
  ): BindParameters extends unknown[]
    ? SqliteStatement<BindParameters, Result>
    : SqliteStatement<[BindParameters], Result>;
  /** Runs all statements of a text. */
  exec(source: string): this;
  /** Runs a pragma; gives its rows, or with `simple` the first column of the first. */
  pragma(source: string, options?: { simple?: boolean }): unknown;
  /** Makes a function that runs as a transaction; inside another, as a savepoint. */
  transaction<F extends VariableArgFunction>(fn: F): SqliteTransaction<F>;
  /** Gives integers as bigint, for the statements that are prepared from now on. */
  defaultSafeIntegers(toggleState?: boolean): this;
  /** As {@link StateDatabase.backup}. */
  backup(destination: string): Promise<void>;
  /** Closes it; once more does nothing. @throws `TypeError` while a statement of it iterates */
  close(): this;
  /** Closes it, as `close` does: for `using`. */
  [Symbol.dispose](): void;
}

// ── functions ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Where pi-workflows keeps its state: `.pi/agent/workflows/state.sqlite` in the home directory. */
export declare function workflowStatePath(homeDir?: string): string;

/** The identity of a resource: its type, `-`, and 40 hex digits of SHA-256 over type, NUL and aggregate key. */
export declare function resourceIdFor(type: string, aggregateKey: string): string;

/** The SHA-256 of a token, which is what the database holds of it. */
export declare function tokenHash(token: string): Buffer;

/**
 * The canonical text of a JSON value: keys sorted by UTF-16 code unit (integer-like ones first, by number), `undefined`
 * members left out.
 *
 * @throws `Error` "JSON numbers must be finite", "Only plain objects can be stored as canonical JSON", "Unsupported JSON
 * value type: TYPE", and for cycles and nesting too deep to walk
 */
export declare function canonicalJson(value: unknown): string;

/** The SHA-256 of the canonical text of a JSON value, in hex. @throws as {@link canonicalJson} */
export declare function jsonFingerprint(value: unknown): string;

// biome-ignore lint/complexity/noUselessEmptyExport: without it a declaration file exports its helper types as well
export {};
