// Compiled, never run: what TypeScript callers of the package write, and what the types must refuse them.
import {
  type ControllerQueueClaim,
  type ControllerResource,
  type ControllerResourceStatus,
  type ControllerStore,
  canonicalJson,
  EffectRequestConflictError,
  jsonFingerprint,
  ResourceConflictError,
  resourceIdFor,
  SqliteControllerStore,
  SqliteError,
  StateDatabase,
  tokenHash,
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
