// Compiled, never run: what TypeScript callers of the package write, and what the types must refuse them.
import {
  type BlobRecord,
  type ChildWorkflowRecord,
  type ControllerEvent,
  type ControllerQueueClaim,
  type ControllerResource,
  type ControllerResourceStatus,
  type ControllerStore,
  canonicalJson,
  EffectRequestConflictError,
  jsonFingerprint,
  type QueueItem,
  ResourceConflictError,
  ResourceNotFoundError,
  resourceIdFor,
  type SqliteConnection,
  SqliteControllerStore,
  SqliteError,
  type SqliteStatement,
  StateDatabase,
  tokenHash,
  WorkflowRequestConflictError,
  type WorkflowRunLaunchStatus,
  type WorkflowTurnIntentFacts,
  workflowStatePath,
} from "@pi-workflows/store";

type PullRequestSpec = { head: string; labels: string[] };
type PullRequestStatus = { phase: "new" | "ready"; mergedAs?: string };

/** A reconcile loop that knows the half of the store that it needs. */
class Reconciler {
  constructor(private readonly store: ControllerStore) {}

  turn(ownerId: string): boolean {
    const claim = this.store.claimNext({ controllers: ["pull-request"], ownerId, leaseMs: 30_000 });
    if (claim === undefined) return false;
    const resource = this.store.getResource<PullRequestSpec, PullRequestStatus>(claim);
    if (resource === undefined) return false;
    try {
      this.report(resource, claim);
      return this.store.settleClaim(claim);
    } catch (error) {
      if (error instanceof ResourceConflictError) return this.store.requeueClaim(claim, { availableAt: soon() });
      throw error;
    }
  }

  private report(resource: ControllerResource<PullRequestSpec, PullRequestStatus>, claim: ControllerQueueClaim): void {
    const { uid, generation } = resource.metadata;
    const effect = this.store.reserveEffect({
      key: `merge:${resource.spec.head}`,
      resourceUid: uid,
      claim,
      generation,
      kind: "merge",
      requestFingerprint: jsonFingerprint(resource.spec),
    });
    const outcome: "pending" | "applied" | "rejected" | "indeterminate" = effect.record.state;
    const status: ControllerResourceStatus<PullRequestStatus> = {
      observedGeneration: generation,
      conditions: [
        {
          type: "Merged",
          status: outcome === "applied",
          reason: outcome,
          observedGeneration: generation,
          lastTransitionTime: soon(),
        },
      ],
      controllerStatus: { phase: "ready" },
    };
    const updated = this.store.updateStatus({
      ref: claim,
      expectedResourceVersion: claim.resourceVersion,
      claim,
      status,
    });
    const phase: "new" | "ready" = updated.status.controllerStatus.phase;
    this.store.recordEvent({
      controller: claim.controller,
      key: claim.key,
      claim,
      type: phase,
      payload: { head: resource.spec.head },
    });
  }
}

function soon(): string {
  return new Date(Date.now() + 1_000).toISOString();
}

export function main(): void {
  using store = new SqliteControllerStore(workflowStatePath(), { projectPath: "/project" });
  const put = store.putResource<PullRequestSpec, PullRequestStatus>({
    controller: "pull-request",
    key: "o/r#1",
    spec: { head: "abc", labels: [] },
    initialStatus: { phase: "new" },
  });
  const head: string = put.spec.head;
  const deletedAt: string | undefined = put.metadata.deletionTimestamp;
  new Reconciler(store).turn(`${head}${deletedAt ?? ""}`);

  store.putResource<PullRequestSpec, PullRequestStatus>({
    controller: "c",
    key: "k",
    // @ts-expect-error -- a spec of another type than the generic says
    spec: { head: 1 },
    initialStatus: { phase: "new" },
  });
  // @ts-expect-error -- the type of an unknown resource's spec is unknown
  store.getResource({ controller: "c", key: "k" })?.spec.head;
  // @ts-expect-error -- a lease has a length
  store.claimNext({ controllers: [], ownerId: "me" });
  // @ts-expect-error -- not one of the states
  store.completeWorkflow("id", { state: "done" });
  // @ts-expect-error -- nobody assigns the path
  store.filePath = "elsewhere";
}

export function session(store: SqliteControllerStore): void {
  const run = store.enqueueWorkflowRun({
    runId: "run-1",
    workflowName: "echo",
    workflowSourceRef: "builtin:echo",
    workflowSource: { kind: "builtin", id: "echo" },
    definitionDigest: "5f".repeat(32),
    definitionSnapshot: {},
    input: null,
    runnerId: "session-a",
    originSessionId: "session-a",
    claimToken: "token",
    leaseMs: 1_000,
  });
  const status: WorkflowRunLaunchStatus = run.status;
  const owner: string | null = run.runnerId;
  const claim = { runId: run.runId, claimToken: "token" };
  if (store.markWorkflowRunRunning(claim) && store.renewWorkflowRunClaim({ ...claim, leaseMs: 1_000 })) {
    const authority = store.workflowRunAuthority(run.runId, "token");
    const actor: "session" | "host" | undefined = authority?.actor.type;
    store.recordRunEvent({ runId: run.runId, workflowRef: "echo", type: `${status}${owner}${actor}` });
  }
  const facts: WorkflowTurnIntentFacts = {
    schema: "pi-workflows.deferred-turn-facts.v1",
    workflowName: "echo",
    runId: run.runId,
    observedState: "failed",
    cause: "failed",
    nodeId: null,
    attemptId: null,
    reason: "boom",
    handoff: false,
  };
  const intent = store.ensureWorkflowTurnIntent({
    intentId: "i",
    sourceEventId: "s",
    runId: run.runId,
    workflowRef: "echo",
    targetSessionId: "session-a",
    cause: "failed",
    fallbackFacts: facts,
    eligible: true,
  });
  const eligibleAt: string | null = intent.eligibleAt;
  const notification = { runId: "r", nodeId: eligibleAt ?? "n", attemptId: "a", notificationIndex: 0 };
  store.enqueueWorkflowNotification({
    ...notification,
    targetSessionId: "s",
    // @ts-expect-error -- the types of notifications are a closed set
    kind: "other",
    content: "",
  });
}

/** Nothing after this call is reached: it never returns. */
export function legacy(store: SqliteControllerStore): number {
  return store.repairCanonicalWorkflowSourceRun();
}

export function database(): Buffer {
  const state = new StateDatabase({ mode: "read-write" });
  const { connection } = state;
  const select = connection.prepare<[string], { resource_id: string; revision: number }>(
    "SELECT resource_id, revision FROM resources WHERE resource_id = ?",
  );
  const revision: number | undefined = select.get(resourceIdFor("run", "run-1"))?.revision;
  const add = connection.transaction((one: number, two: number) => one + two);
  const sum: number = add.immediate(revision ?? 0, 2) + state.transaction(() => 1);
  const named = connection.prepare<{ id: string }>("SELECT :id").all({ id: canonicalJson(sum) });
  // @ts-expect-error -- the parameter is a string
  select.get(1);
  try {
    connection.exec("");
  } catch (error) {
    if (error instanceof SqliteError) return Buffer.from(`${error.code}${named.length}`);
    if (error instanceof EffectRequestConflictError) return tokenHash(error.message);
  }
  return state.putJson({ a: 1 });
}

/** A child workflow from its reservation to its end. */
export function child(store: ControllerStore, claim: ControllerQueueClaim, resourceUid: string): string | undefined {
  const { record, created } = store.reserveWorkflow({
    resourceUid,
    claim,
    requestKey: "build",
    workflow: "build",
    inputFingerprint: jsonFingerprint({}),
  });
  if (created) store.updateWorkflow(record.requestId, { runId: "run-2", state: "running", attempt: 1 }, claim);
  const ended: ChildWorkflowRecord = store.completeWorkflow(record.requestId, { state: "failed", error: null });
  // @ts-expect-error -- an update under a claim needs the claim
  store.updateWorkflow(record.requestId, { state: "running" });
  // @ts-expect-error -- an attempt that is not known is left out
  store.completeWorkflow(record.requestId, { state: "failed", attempt: undefined });
  // @ts-expect-error -- there may be none
  store.getWorkflow(resourceUid, "build").state;
  return store.listWorkflows(resourceUid)[0]?.runId ?? store.getWorkflowByRequestId(ended.requestId)?.error;
}

/** Effects, finalizers, deletion, the queue and events. */
export function windDown(store: ControllerStore, claim: ControllerQueueClaim): boolean {
  const marked = store.requestDeletion(claim);
  const free = store.updateFinalizers({
    ref: claim,
    expectedResourceVersion: marked.metadata.resourceVersion,
    finalizers: [],
  });
  const effect = store.updateEffect({
    resourceUid: free.metadata.uid,
    key: "merge",
    claim,
    state: "indeterminate",
    error: "timeout",
  });
  const completedAt: string | undefined = effect.completedAt;
  store.enqueue(claim, completedAt);
  const waiting: QueueItem | undefined = store.listQueue()[0];
  const newest: ControllerEvent | undefined = store.listEvents({ controller: "pull-request", limit: 1 })[0];
  // @ts-expect-error -- the queue may be empty
  store.listQueue()[0].availableAt;
  // @ts-expect-error -- "ambiguous" is what the file says, not what callers say
  store.updateEffect({ resourceUid: "u", key: "k", claim, state: "ambiguous" });
  // @ts-expect-error -- a date is passed as text
  store.enqueue(claim, new Date());
  // @ts-expect-error -- functions are no JSON
  store.recordEvent({ controller: "c", key: "k", type: "t", payload: { run: () => 1 } });
  // @ts-expect-error -- when a requeued item is due again is not optional
  store.requeueClaim(claim, { error: "boom" });
  // @ts-expect-error -- a deletion needs the claim
  store.deleteResource(claim, free.metadata.resourceVersion);
  const known = waiting !== undefined || newest !== undefined;
  return store.deleteResource(claim, free.metadata.resourceVersion, claim) && known && store.renewClaim(claim, 1_000);
}

/** What a session delivers. */
export async function deliver(store: SqliteControllerStore): Promise<number> {
  const lease = { targetSessionId: "session-a", claimToken: "token", leaseMs: 1_000 };
  for (const intent of store.claimEligibleWorkflowTurnIntents({ ...lease, limit: 5 })) {
    const reason: string | null = intent.fallbackFacts.reason;
    store.resolveWorkflowTurnIntent({
      intentId: intent.intentId,
      targetSessionId: lease.targetSessionId,
      claimToken: lease.claimToken,
      resolution: reason === null ? "presentation" : "fallback",
    });
  }
  // @ts-expect-error -- not one of the ways in which a turn is taken
  store.resolveWorkflowTurnIntent({ intentId: "i", targetSessionId: "s", claimToken: "t", resolution: "ignored" });
  // @ts-expect-error -- not one of the effects that the queue settles
  store.settleRunEffect("run-1", "run.other");
  // @ts-expect-error -- not one of the statuses
  store.listWorkflowRuns({ statuses: ["waiting"] });
  const told = store.claimPendingWorkflowNotifications(lease);
  const [first] = store.listRunEventsAfter(0, { limit: 10 });
  await store.state.backup("copy.sqlite");
  return told.length + (first?.seq ?? 0);
}

/** Another module's statements on the store's connection. */
export function statements(connection: SqliteConnection): number {
  const rows: SqliteStatement<unknown[], { id: string }> = connection.prepare<unknown[], { id: string }>("SELECT 1 id");
  for (const { id } of rows.iterate()) canonicalJson(id);
  const plucked = connection.prepare("SELECT 1").pluck().safeIntegers().bind();
  const value: unknown = plucked.get();
  // @ts-expect-error -- what a statement gives is unknown until the caller says
  const wrong: number = plucked.get();
  const { changes, lastInsertRowid } = connection.prepare("DELETE FROM t WHERE id = ?").run(1n);
  // @ts-expect-error -- a rowid may be a bigint
  const rowid: number = lastInsertRowid;
  const version: unknown = connection.pragma("user_version", { simple: true });
  // @ts-expect-error -- named parameters have names
  connection.prepare<{ id: string }>("SELECT :id").get({ key: "k" });
  // @ts-expect-error -- nobody assigns it
  connection.open = false;
  const move = connection.transaction((from: string, to: string) => from.length + to.length);
  // @ts-expect-error -- the function takes two
  move("a");
  const type: string | null | undefined = rows.columns()[0]?.type;
  const seen = [value, wrong, rowid, version, type, rows.source, rows.reader, rows.readonly, rows.busy].length;
  return changes + seen + move.deferred("a", "b") + move.exclusive("a", "b") + move.default("a", "b");
}

/** A shared database, and one that is only read. */
export function shared(): BlobRecord | undefined {
  using state = new StateDatabase({ filePath: "state.sqlite", checkLegacyState: false });
  using store = new SqliteControllerStore(undefined, { state });
  using connection = store.state.connection;
  const reader = new SqliteControllerStore("state.sqlite", { readOnly: true });
  reader.close();
  // @ts-expect-error -- not one of the modes
  new StateDatabase({ mode: "append" });
  // @ts-expect-error -- a schema is given whole
  new StateDatabase({ schema: { sql: "" } });
  // @ts-expect-error -- a key is bytes, not hex
  state.readBlob("00".repeat(32));
  // @ts-expect-error -- an option without a value is left out
  new SqliteControllerStore("state.sqlite", { projectPath: undefined });
  return connection.open ? state.readBlob(state.putText("text")) : undefined;
}

/** The errors, as tests construct them. */
export function errors(): string[] {
  // @ts-expect-error -- a conflict names the key as well
  new ResourceConflictError("c");
  const failure = new SqliteError("database is locked", "SQLITE_BUSY");
  // @ts-expect-error -- nobody assigns the code
  failure.code = "SQLITE_OK";
  return [new ResourceNotFoundError("c", "k").message, new WorkflowRequestConflictError("r").name, failure.code];
}
