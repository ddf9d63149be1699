"use strict";

const args = require("./arguments");
const { canonicalJson } = require("./canonical-json");
const { take } = require("./errors");
const { NATIVE } = require("./native-handle");
const { ControllerMethods, DEFAULT_LIMIT, parsed, parsedOrUndefined } = require("./store-controllers");

/** How many turn intents a session claims at once when nobody says otherwise. */
const DEFAULT_INTENTS = 10;

/** How many notifications a session claims at once when nobody says otherwise. */
const DEFAULT_NOTIFICATIONS = 20;

const DIGEST = /^(?:sha256:)?[a-f0-9]{64}$/i;

/** @param {unknown} value */
function digest(value) {
  const checked = args.text(value, "definitionDigest");
  if (!DIGEST.test(checked)) throw new Error("Expected a SHA-256 digest");
  return checked;
}

/** A list of texts as a JSON array; an empty one where there is none. @param {unknown} value @param {string} name */
function list(value, name) {
  return value === undefined ? "[]" : JSON.stringify(args.texts(value, name));
}

/** A run that is to be reserved, as native code takes it. @param {any} options @returns {import("./native").RunRequest} */
function runRequest(options) {
  const { runId, workflowName, workflowSourceRef, workflowSource, definitionDigest, definitionSnapshot } = options;
  const { input, launchOptions, runnerId, originSessionId, parentRunId, now } = options;
  const id = args.runId(runId);
  const at = args.timestamp(now, "now");
  return {
    runId: id,
    definitionDigest: digest(definitionDigest),
    workflowName: args.text(workflowName, "workflowName"),
    workflowRef: args.text(workflowSourceRef, "workflowSourceRef"),
    runnerId: args.text(runnerId, "runnerId"),
    originSessionId: args.text(originSessionId, "originSessionId"),
    parentRunId: args.optionalText(parentRunId, "parentRunId"),
    definition: canonicalJson(definitionSnapshot),
    // a missing source is an invalid one, like null
    source: canonicalJson(workflowSource ?? null),
    input: canonicalJson(input ?? null),
    launchOptions: canonicalJson(launchOptions ?? {}),
    now: at,
  };
}

/** The part that all claims of deliveries share. @param {any} options */
function deliveryClaim(options) {
  const { targetSessionId, claimToken, leaseMs, now } = options;
  const at = args.timestamp(now, "now");
  return {
    sessionId: args.text(targetSessionId, "targetSessionId"),
    token: args.content(claimToken, "claimToken"),
    now: at,
    expiresAt: args.expiry(leaseMs, at),
  };
}

/** The part that all calls under a run's claim share. @param {any} options */
function runToken(options) {
  const { runId, claimToken, now } = args.object(options, "options");
  const at = args.timestamp(now, "now");
  return { runId: args.text(runId, "runId"), token: args.content(claimToken, "claimToken"), now: at };
}

/**
 * The run half of `SqliteControllerStore`: runs, turn intents, notifications.
 */
class RunMethods extends ControllerMethods {
  /** @param {any} options @returns {any} */
  reserveWorkflowRun(options) {
    return parsed(take(this[NATIVE].reserveRun(runRequest(args.object(options, "options")))));
  }

  /** @param {any} options @returns {any} */
  enqueueWorkflowRun(options) {
    const { claimToken, leaseMs } = args.object(options, "options");
    const request = runRequest(options);
    const token = args.content(claimToken, "claimToken");
    return parsed(take(this[NATIVE].enqueueRun(request, token, args.expiry(leaseMs, request.now))));
  }

  /** @param {string} runId @returns {any} */
  getWorkflowRun(runId) {
    return parsedOrUndefined(take(this[NATIVE].getRun(args.text(runId, "runId"))));
  }

  /** @param {any} [options] @returns {any[]} */
  listWorkflowRuns(options = {}) {
    const { statuses, excludeRunIds, limit } = args.object(options, "options");
    return parsed(
      take(
        this[NATIVE].listRuns(
          list(statuses, "statuses"),
          list(excludeRunIds, "excludeRunIds"),
          args.limit(limit, DEFAULT_LIMIT),
        ),
      ),
    );
  }

  /** @param {string} sessionId @returns {any} */
  findSessionReservation(sessionId) {
    return parsedOrUndefined(take(this[NATIVE].findSessionReservation(args.text(sessionId, "sessionId"))));
  }

  /** @param {any} options @returns {any} */
  claimWorkflowRun(options) {
    const { runnerId, leaseMs } = args.object(options, "options");
    const { runId, token, now } = runToken(options);
    const runner = args.text(runnerId, "runnerId");
    return parsedOrUndefined(take(this[NATIVE].claimRun(runId, runner, token, now, args.expiry(leaseMs, now))));
  }

  /** @param {any} options */
  markWorkflowRunRunning(options) {
    const { runId, token, now } = runToken(options);
    return take(this[NATIVE].markRunRunning(runId, token, now));
  }

  /** @param {any} options @returns {any} */
  claimNextWorkflowRun(options) {
    const { runnerId, sessionId, claimToken, leaseMs, now, excludeRunIds } = args.object(options, "options");
    const at = args.timestamp(now, "now");
    return parsedOrUndefined(
      take(
        this[NATIVE].claimNextRun(
          args.text(runnerId, "runnerId"),
          args.optionalText(sessionId, "sessionId"),
          args.content(claimToken, "claimToken"),
          list(excludeRunIds, "excludeRunIds"),
          at,
          args.expiry(leaseMs, at),
        ),
      ),
    );
  }

  /** @param {any} options */
  renewWorkflowRunClaim(options) {
    const { runId, token, now } = runToken(options);
    return take(this[NATIVE].renewRunClaim(runId, token, now, args.expiry(options.leaseMs, now)));
  }

  /** @param {any} options */
  verifyWorkflowRunClaim(options) {
    const { runId, token, now } = runToken(options);
    return take(this[NATIVE].verifyRunClaim(runId, token, now));
  }

  /** @param {string} runId @param {string} claimToken @returns {any} */
  workflowRunAuthority(runId, claimToken) {
    const id = args.text(runId, "runId");
    return parsedOrUndefined(take(this[NATIVE].runAuthority(id, args.content(claimToken, "claimToken"), Date.now())));
  }

  /** @param {any} options */
  parkWorkflowRun(options) {
    const { runId, token, now } = runToken(options);
    return take(this[NATIVE].parkRun(runId, token, now));
  }

  /** @param {any} options */
  failWorkflowRun(options) {
    const { runId, claimToken, errorCode, errorMessage, now } = args.object(options, "options");
    const at = args.timestamp(now, "now");
    const id = args.text(runId, "runId");
    const token = args.optionalContent(claimToken, "claimToken");
    const code = args.text(errorCode, "errorCode");
    const message = args.content(errorMessage, "errorMessage");
    return take(this[NATIVE].failRun(id, token, code, message, JSON.stringify(message), at));
  }

  /** @param {any} options */
  cancelWorkflowRun(options) {
    const { runId, claimToken, now } = args.object(options, "options");
    const at = args.timestamp(now, "now");
    const token = args.optionalContent(claimToken, "claimToken");
    return take(this[NATIVE].cancelRun(args.text(runId, "runId"), token, at));
  }

  /** @param {any} options */
  deleteWorkflowRun(options) {
    const { runId, claimToken } = args.object(options, "options");
    return take(this[NATIVE].deleteRun(args.text(runId, "runId"), args.content(claimToken, "claimToken"), Date.now()));
  }

  /** @param {any} options */
  completeWorkflowRun(options) {
    const { runId, token, now } = runToken(options);
    return take(this[NATIVE].completeRun(runId, token, now));
  }

  /** @returns {never} */
  repairCanonicalWorkflowSourceRun() {
    throw new Error("Legacy workflow source repair is not available after the SQLite cutover");
  }

  /** @returns {never} */
  claimLegacyWorkflowSourceRun() {
    throw new Error("Legacy workflow source claims are not available after the SQLite cutover");
  }

  /** @param {any} options @returns {any} */
  recordRunEvent(options) {
    const { runId, workflowRef, type, payload, runnerId, now } = args.object(options, "options");
    const at = args.timestamp(now, "now");
    return parsed(
      take(
        this[NATIVE].recordRunEvent(
          args.text(runId, "runId"),
          args.text(workflowRef, "workflowRef"),
          args.text(type, "type"),
          canonicalJson(payload ?? {}),
          args.optionalText(runnerId, "runnerId"),
          at,
        ),
      ),
    );
  }

  /** @param {number} seq @param {any} [options] @returns {any[]} */
  listRunEventsAfter(seq, options = {}) {
    const { limit } = args.object(options, "options");
    return parsed(take(this[NATIVE].listRunEventsAfter(args.integer(seq, "seq"), args.limit(limit, DEFAULT_LIMIT))));
  }

  /** @param {any} options @returns {any} */
  ensureWorkflowTurnIntent(options) {
    const { intentId, sourceEventId, runId, workflowRef, targetSessionId, cause } = args.object(options, "options");
    const { nodeId, attemptId, fallbackFacts, eligible, requestedAt } = options;
    const at = args.timestamp(requestedAt, "requestedAt");
    return parsed(
      take(
        this[NATIVE].ensureTurnIntent({
          intentId: args.text(intentId, "intentId"),
          sourceEventId: args.text(sourceEventId, "sourceEventId"),
          runId: args.text(runId, "runId"),
          workflowRef: args.text(workflowRef, "workflowRef"),
          targetSessionId: args.text(targetSessionId, "targetSessionId"),
          cause: args.text(cause, "cause"),
          nodeId: args.optionalText(nodeId ?? undefined, "nodeId"),
          attemptId: args.optionalText(attemptId ?? undefined, "attemptId"),
          facts: canonicalJson(fallbackFacts),
          eligible: args.boolean(eligible, "eligible"),
          now: at,
        }),
      ),
    );
  }

  /** @param {string} intentId @returns {any} */
  getWorkflowTurnIntent(intentId) {
    return parsedOrUndefined(take(this[NATIVE].getTurnIntent(args.text(intentId, "intentId"))));
  }

  /** @param {any} options @returns {any} */
  findPendingWorkflowTurnIntent(options) {
    const { runId, targetSessionId } = args.object(options, "options");
    return parsedOrUndefined(
      take(
        this[NATIVE].findPendingTurnIntent(args.text(runId, "runId"), args.text(targetSessionId, "targetSessionId")),
      ),
    );
  }

  /** @param {any} options @returns {any} */
  claimWorkflowTurnIntent(options) {
    const { intentId } = args.object(options, "options");
    const id = args.text(intentId, "intentId");
    const { sessionId, token, now, expiresAt } = deliveryClaim(options);
    return parsedOrUndefined(take(this[NATIVE].claimTurnIntent(id, sessionId, token, now, expiresAt)));
  }

  /** @param {any} options @returns {any[]} */
  claimEligibleWorkflowTurnIntents(options) {
    const { limit } = args.object(options, "options");
    const { sessionId, token, now, expiresAt } = deliveryClaim(options);
    const most = args.limit(limit, DEFAULT_INTENTS);
    return parsed(take(this[NATIVE].claimEligibleTurnIntents(sessionId, token, most, now, expiresAt)));
  }

  /** @param {any} options */
  makeWorkflowTurnIntentEligible(options) {
    const { intentId, fallbackFacts, eligibleAt, now } = args.object(options, "options");
    const at = eligibleAt === undefined ? args.timestamp(now, "now") : args.timestamp(eligibleAt, "eligibleAt");
    const id = args.text(intentId, "intentId");
    return take(this[NATIVE].makeTurnIntentEligible(id, canonicalJson(fallbackFacts), at));
  }

  /** @param {any} options */
  resolveWorkflowTurnIntent(options) {
    const { intentId, targetSessionId, claimToken, resolution, messageId, now } = args.object(options, "options");
    const at = args.timestamp(now, "now");
    return take(
      this[NATIVE].resolveTurnIntent(
        args.text(intentId, "intentId"),
        args.text(targetSessionId, "targetSessionId"),
        args.content(claimToken, "claimToken"),
        args.text(resolution, "resolution"),
        args.optionalText(messageId, "messageId"),
        at,
      ),
    );
  }

  /** @param {any} options */
  releaseWorkflowTurnIntentClaim(options) {
    const { intentId, targetSessionId, claimToken } = args.object(options, "options");
    return take(
      this[NATIVE].releaseTurnIntentClaim(
        args.text(intentId, "intentId"),
        args.text(targetSessionId, "targetSessionId"),
        args.content(claimToken, "claimToken"),
      ),
    );
  }

  /** @param {any} [options] @returns {any[]} */
  listWorkflowTurnIntents(options = {}) {
    const { runId, targetSessionId, unresolvedOnly, limit } = args.object(options, "options");
    return parsed(
      take(
        this[NATIVE].listTurnIntents(
          args.optionalText(runId, "runId"),
          args.optionalText(targetSessionId, "targetSessionId"),
          unresolvedOnly !== undefined && args.boolean(unresolvedOnly, "unresolvedOnly"),
          args.limit(limit, DEFAULT_LIMIT),
        ),
      ),
    );
  }

  /** @param {any} options @returns {any} */
  enqueueWorkflowNotification(options) {
    const { runId, attemptId, notificationIndex, targetSessionId, kind, content, now } = args.object(
      options,
      "options",
    );
    const at = args.timestamp(now, "now");
    return parsed(
      take(
        this[NATIVE].enqueueNotification(
          args.text(runId, "runId"),
          args.text(attemptId, "attemptId"),
          args.integer(notificationIndex, "notificationIndex"),
          args.text(targetSessionId, "targetSessionId"),
          args.text(kind, "kind"),
          args.content(content, "content"),
          at,
        ),
      ),
    );
  }

  /** @param {any} options @returns {any[]} */
  claimPendingWorkflowNotifications(options) {
    const { limit } = args.object(options, "options");
    const { sessionId, token, now, expiresAt } = deliveryClaim(options);
    const most = args.limit(limit, DEFAULT_NOTIFICATIONS);
    return parsed(take(this[NATIVE].claimPendingNotifications(sessionId, token, most, now, expiresAt)));
  }

  /** @param {any} options */
  markWorkflowNotificationDelivered(options) {
    const { notificationId, targetSessionId, claimToken, now } = args.object(options, "options");
    const at = args.timestamp(now, "now");
    return take(
      this[NATIVE].markNotificationDelivered(
        args.text(notificationId, "notificationId"),
        args.text(targetSessionId, "targetSessionId"),
        args.content(claimToken, "claimToken"),
        at,
      ),
    );
  }

  /** @param {string} runId @param {string} effectType */
  settleRunEffect(runId, effectType) {
    const id = args.text(runId, "runId");
    take(this[NATIVE].settleRunEffect(id, args.text(effectType, "effectType"), Date.now()));
  }

  /** @param {string} runId @param {string} originSessionId */
  setWorkflowRunOriginSession(runId, originSessionId) {
    const id = args.text(runId, "runId");
    return take(this[NATIVE].setRunOriginSession(id, args.text(originSessionId, "originSessionId"), Date.now()));
  }
}

module.exports = { RunMethods };
