/**
 * What the native library exports: texts, numbers, booleans and buffers, or a failure that the face throws.
 * Times are epoch milliseconds; JSON is canonical text; records come back as JSON text.
 */

export type Failure = {
  kind:
    | "sqlite"
    | "type"
    | "range"
    | "error"
    | "resourceConflict"
    | "resourceNotFound"
    | "effectRequestConflict"
    | "workflowRequestConflict";
  /** The message, or the first argument of an error class that makes its own. */
  message: string;
  /** The code of a `SqliteError`, or the second argument. */
  detail: string | null;
};

export type Answer<T> = T | Failure;

export type Claim = {
  controller: string;
  key: string;
  ownerId: string;
  token: string;
  generation: number;
  queueVersion: number;
};

export type HostSchema = {
  sql: string;
  name: string;
  version: number;
  applicationId: number;
  appVersion: string;
};

export type RunRequest = {
  runId: string;
  workflowName: string;
  workflowRef: string;
  source: string;
  definitionDigest: string;
  definition: string;
  input: string;
  launchOptions: string;
  runnerId: string;
  originSessionId: string;
  parentRunId: string | undefined;
  now: number;
};

export type IntentRequest = {
  intentId: string;
  sourceEventId: string;
  runId: string;
  workflowRef: string;
  targetSessionId: string;
  cause: string;
  nodeId: string | undefined;
  attemptId: string | undefined;
  facts: string;
  eligible: boolean;
  now: number;
};

export interface NativeDatabase {
  close(): Answer<undefined>;
  isOpen(): boolean;
  inTransaction(): boolean;
  prepare(sql: string, isPragma: boolean): Answer<NativeStatement>;
  exec(sql: string): Answer<undefined>;
  /** Tells whether it has become a savepoint inside another transaction. */
  begin(kind: "deferred" | "immediate" | "exclusive"): Answer<boolean>;
  commit(isNested: boolean): Answer<undefined>;
  undo(isNested: boolean): void;
  putText(text: string, isJson: boolean, now: number): Answer<Buffer>;
  putBlob(content: Buffer, mediaType: string, now: number): Answer<Buffer>;
  /** Media type and content. */
  readBlob(hash: Buffer): Answer<Cells | undefined>;
  integrityProblems(): Answer<string>;
  prune(): Answer<number>;
  backup(destination: string): Promise<Answer<undefined>>;
}

/** Values of SQLite. Rows begin with a stamp, which changes when their columns may have changed. */
export type Cells = (number | string | bigint | Buffer | boolean | null)[];

/** A bit each: integers as bigint; only the first column, and without an array where there is one row. */
export type Shape = number;

export interface NativeStatement {
  /** Whether it returns data, whether it changes nothing, and the names of its parameters. */
  facts(): Answer<Cells>;
  columnNames(): Answer<string[]>;
  /** Name, column, table, database and declared type of each column, one after the other. */
  columnMetadata(): Answer<(string | undefined)[]>;
  /** Fails where it may not run now. */
  check(mayWrite: boolean): Answer<undefined>;
  /** Parameters are in the order of the statement; none where they were bound for good. */
  bind(parameters: unknown[] | undefined): Answer<undefined>;
  /** Gives `[changes, lastInsertRowid]`. */
  run(parameters: unknown[] | undefined, shape: Shape): Answer<Cells>;
  get(parameters: unknown[] | undefined, shape: Shape): Answer<Cells | undefined>;
  all(parameters: unknown[] | undefined, shape: Shape): Answer<Cells>;
  begin(parameters: unknown[] | undefined): Answer<undefined>;
  nextRow(shape: Shape): Answer<Cells | undefined>;
  end(clears: boolean): Answer<undefined>;
}

export interface NativeStore {
  putResource(controller: string, key: string, spec: string, status: string, now: number): Answer<string>;
  getResource(controller: string, key: string): Answer<string | undefined>;
  getResourceByUid(uid: string): Answer<string | undefined>;
  listResources(controller: string | undefined): Answer<string>;
  updateStatus(
    controller: string,
    key: string,
    expectedVersion: number,
    claim: Claim,
    status: string,
    finalizers: string[] | undefined,
    now: number,
  ): Answer<string>;
  requestDeletion(controller: string, key: string, now: number): Answer<string>;
  updateFinalizers(
    controller: string,
    key: string,
    expectedVersion: number,
    finalizers: string[],
    now: number,
  ): Answer<string>;
  deleteResource(controller: string, key: string, expectedVersion: number, claim: Claim, now: number): Answer<boolean>;
  enqueue(controller: string, key: string, availableAt: number, now: number): Answer<undefined>;
  claimNext(controllers: string, ownerId: string, now: number, expiresAt: number): Answer<string | undefined>;
  renewClaim(claim: Claim, now: number, expiresAt: number): Answer<boolean>;
  settleClaim(claim: Claim, now: number): Answer<number | undefined>;
  requeueClaim(claim: Claim, availableAt: number, error: string | undefined, now: number): Answer<number | undefined>;
  listQueue(): Answer<string>;
  reserveEffect(
    key: string,
    uid: string,
    claim: Claim,
    generation: number,
    kind: string,
    requestFingerprint: string,
    now: number,
  ): Answer<string>;
  getEffect(uid: string, key: string): Answer<string | undefined>;
  updateEffect(
    uid: string,
    key: string,
    claim: Claim,
    state: string,
    externalRef: string | undefined,
    error: string | undefined,
    now: number,
  ): Answer<string>;
  listEffects(uid: string): Answer<string>;
  reserveWorkflow(
    uid: string,
    claim: Claim,
    requestKey: string,
    workflow: string,
    inputFingerprint: string,
    now: number,
  ): Answer<string>;
  getWorkflow(uid: string, requestKey: string): Answer<string | undefined>;
  getWorkflowByRequestId(requestId: string): Answer<string | undefined>;
  updateWorkflow(
    requestId: string,
    runId: string | undefined,
    state: string,
    attempt: number | undefined,
    error: string | undefined,
    claim: Claim,
    now: number,
  ): Answer<string>;
  completeWorkflow(
    requestId: string,
    saysRun: boolean,
    runId: string | undefined,
    state: string,
    attempt: number | undefined,
    error: string | undefined,
    now: number,
  ): Answer<string>;
  listWorkflows(uid: string): Answer<string>;
  recordEvent(
    controller: string,
    key: string,
    claim: Claim | undefined,
    type: string,
    payload: string,
    now: number,
  ): Answer<string>;
  listEvents(controller: string | undefined, key: string | undefined, limit: number): Answer<string>;

  reserveRun(request: RunRequest): Answer<string>;
  enqueueRun(request: RunRequest, token: string, expiresAt: number): Answer<string>;
  getRun(runId: string): Answer<string | undefined>;
  listRuns(statuses: string, exclude: string, limit: number): Answer<string>;
  findSessionReservation(sessionId: string): Answer<string | undefined>;
  claimRun(runId: string, runnerId: string, token: string, now: number, expiresAt: number): Answer<string | undefined>;
  claimNextRun(
    runnerId: string,
    sessionId: string | undefined,
    token: string,
    exclude: string,
    now: number,
    expiresAt: number,
  ): Answer<string | undefined>;
  markRunRunning(runId: string, token: string, now: number): Answer<boolean>;
  renewRunClaim(runId: string, token: string, now: number, expiresAt: number): Answer<boolean>;
  verifyRunClaim(runId: string, token: string, now: number): Answer<boolean>;
  runAuthority(runId: string, token: string, now: number): Answer<string | undefined>;
  parkRun(runId: string, token: string, now: number): Answer<boolean>;
  completeRun(runId: string, token: string, now: number): Answer<boolean>;
  failRun(
    runId: string,
    token: string | undefined,
    code: string,
    error: string,
    errorJson: string,
    now: number,
  ): Answer<boolean>;
  cancelRun(runId: string, token: string | undefined, now: number): Answer<boolean>;
  deleteRun(runId: string, token: string, now: number): Answer<boolean>;
  setRunOriginSession(runId: string, sessionId: string, now: number): Answer<boolean>;
  recordRunEvent(
    runId: string,
    workflowRef: string,
    type: string,
    payload: string,
    runnerId: string | undefined,
    now: number,
  ): Answer<string>;
  listRunEventsAfter(seq: number, limit: number): Answer<string>;
  settleRunEffect(runId: string, effectType: string, now: number): Answer<undefined>;

  ensureTurnIntent(request: IntentRequest): Answer<string>;
  getTurnIntent(intentId: string): Answer<string | undefined>;
  findPendingTurnIntent(runId: string, sessionId: string): Answer<string | undefined>;
  claimTurnIntent(
    intentId: string,
    sessionId: string,
    token: string,
    now: number,
    expiresAt: number,
  ): Answer<string | undefined>;
  claimEligibleTurnIntents(
    sessionId: string,
    token: string,
    limit: number,
    now: number,
    expiresAt: number,
  ): Answer<string>;
  makeTurnIntentEligible(intentId: string, facts: string, eligibleAt: number): Answer<boolean>;
  resolveTurnIntent(
    intentId: string,
    sessionId: string,
    token: string,
    resolution: string,
    messageId: string | undefined,
    now: number,
  ): Answer<boolean>;
  releaseTurnIntentClaim(intentId: string, sessionId: string, token: string): Answer<boolean>;
  listTurnIntents(
    runId: string | undefined,
    sessionId: string | undefined,
    unresolvedOnly: boolean,
    limit: number,
  ): Answer<string>;

  enqueueNotification(
    runId: string,
    attemptId: string,
    index: number,
    sessionId: string,
    kind: string,
    content: string,
    now: number,
  ): Answer<string>;
  claimPendingNotifications(
    sessionId: string,
    token: string,
    limit: number,
    now: number,
    expiresAt: number,
  ): Answer<string>;
  markNotificationDelivered(notificationId: string, sessionId: string, token: string, now: number): Answer<boolean>;
}

export interface Binding {
  libraryVersion(): string;
  openDatabase(
    path: string,
    readOnly: boolean,
    leftoversHome: string | undefined,
    schema: HostSchema | undefined,
  ): Answer<NativeDatabase>;
  openStore(database: NativeDatabase, canonicalPath: string, lookUp: boolean, now: number): Answer<NativeStore>;
  resourceId(type: string, aggregateKey: string): string;
  digest(text: string): Buffer;
  digestHex(text: string): string;
}
