"use strict";

const args = require("./arguments");
const { canonicalJson } = require("./canonical-json");
const { take } = require("./errors");
const { NATIVE } = require("./native-handle");

/** @typedef {import("./native").NativeStore} NativeStore */

/** How many records a list gives when nobody says otherwise. */
const DEFAULT_LIMIT = 100;

/** @param {string} text @returns {any} */
function parsed(text) {
  return JSON.parse(text);
}

/** @param {string | undefined} text @returns {any} */
function parsedOrUndefined(text) {
  return text === undefined ? undefined : JSON.parse(text);
}

/** What a child workflow's update says. @param {unknown} value */
function workflowUpdate(value) {
  const { runId, state, attempt, error } = args.object(value, "update");
  return {
    saysRun: runId !== undefined,
    runId: runId === null ? undefined : args.optionalText(runId, "update.runId"),
    state: args.text(state, "update.state"),
    attempt: attempt === undefined ? undefined : args.integer(attempt, "update.attempt"),
    error: error === null ? undefined : args.optionalContent(error, "update.error"),
  };
}

/**
 * The controller half of `SqliteControllerStore`. Each method checks its arguments in the order in which the original
 * class did, makes JSON canonical and times numbers, crosses once, and parses what comes back.
 */
class ControllerMethods {
  /** @type {NativeStore} */
  // @ts-expect-error -- set by the constructor of SqliteControllerStore
  [NATIVE];

  /** @type {any} */
  state;

  /** @param {any} options */
  putResource(options) {
    if (this.state.mode === "read-only") throw new Error("Controller store is read-only");
    const { controller, key, spec, initialStatus, now } = args.object(options, "options");
    const name = args.key(controller, "controller", "controller");
    const resourceKey = args.key(key, "key", "resource key");
    const at = args.timestamp(now, "now");
    const specJson = canonicalJson(spec);
    return parsed(take(this[NATIVE].putResource(name, resourceKey, specJson, canonicalJson(initialStatus), at)));
  }

  /** @param {any} ref @returns {any} */
  getResource(ref) {
    const { controller, key } = args.reference(ref);
    return parsedOrUndefined(take(this[NATIVE].getResource(controller, key)));
  }

  /** @param {string} uid @returns {any} */
  getResourceByUid(uid) {
    return parsedOrUndefined(take(this[NATIVE].getResourceByUid(args.text(uid, "uid"))));
  }

  /** @param {any} [options] @returns {any[]} */
  listResources(options = {}) {
    const { controller } = args.object(options, "options");
    return parsed(take(this[NATIVE].listResources(args.optionalText(controller, "controller"))));
  }

  /** @param {any} options @returns {any} */
  updateStatus(options) {
    const { ref, expectedResourceVersion, claim, status, finalizers, now } = args.object(options, "options");
    const at = args.timestamp(now, "now");
    const { controller, key } = args.reference(ref);
    const version = args.integer(expectedResourceVersion, "expectedResourceVersion");
    const held = args.claim(claim);
    const names = finalizers === undefined ? undefined : args.texts(finalizers, "finalizers");
    args.assertAssignable(claim, "resourceVersion");
    const json = canonicalJson(status);
    const resource = parsed(take(this[NATIVE].updateStatus(controller, key, version, held, json, names, at)));
    claim.resourceVersion = resource.metadata.resourceVersion;
    return resource;
  }

  /** @param {any} ref @param {string} [now] @returns {any} */
  requestDeletion(ref, now) {
    const at = args.timestamp(now, "now");
    const { controller, key } = args.reference(ref);
    return parsed(take(this[NATIVE].requestDeletion(controller, key, at)));
  }

  /** @param {any} options @returns {any} */
  updateFinalizers(options) {
    const { ref, expectedResourceVersion, finalizers, now } = args.object(options, "options");
    const at = args.timestamp(now, "now");
    const { controller, key } = args.reference(ref);
    const version = args.integer(expectedResourceVersion, "expectedResourceVersion");
    const names = args.texts(finalizers, "finalizers");
    return parsed(take(this[NATIVE].updateFinalizers(controller, key, version, names, at)));
  }

  /** @param {any} ref @param {number} expectedResourceVersion @param {any} claim */
  deleteResource(ref, expectedResourceVersion, claim) {
    const { controller, key } = args.reference(ref);
    const version = args.integer(expectedResourceVersion, "expectedResourceVersion");
    return take(this[NATIVE].deleteResource(controller, key, version, args.claim(claim), Date.now()));
  }

  /** @param {any} ref @param {string} [availableAt] */
  enqueue(ref, availableAt) {
    const { controller, key } = args.reference(ref);
    take(this[NATIVE].enqueue(controller, key, args.timestamp(availableAt, "availableAt"), Date.now()));
  }

  /** @param {any} options @returns {any} */
  claimNext(options) {
    const { controllers, ownerId, leaseMs, now } = args.object(options, "options");
    const names = args.texts(controllers, "controllers");
    if (names.length === 0) return undefined;
    const at = args.timestamp(now, "now");
    const owner = args.text(ownerId, "ownerId");
    const expiresAt = args.expiry(leaseMs, at);
    return parsedOrUndefined(take(this[NATIVE].claimNext(JSON.stringify(names), owner, at, expiresAt)));
  }

  /** @param {any} claim @param {number} leaseMs @param {string} [now] */
  renewClaim(claim, leaseMs, now) {
    const at = args.timestamp(now, "now");
    const expiresAt = args.expiry(leaseMs, at);
    const held = args.claim(claim);
    args.assertAssignable(claim, "expiresAt");
    const renewed = take(this[NATIVE].renewClaim(held, at, expiresAt));
    if (renewed) claim.expiresAt = new Date(expiresAt).toISOString();
    return renewed;
  }

  /** @param {any} claim @param {string} [now] */
  settleClaim(claim, now) {
    const at = args.timestamp(now, "now");
    const held = args.claim(claim);
    args.assertAssignable(claim, "resourceVersion");
    return moved(claim, take(this[NATIVE].settleClaim(held, at)));
  }

  /** @param {any} claim @param {any} options @param {string} [now] */
  requeueClaim(claim, options, now) {
    const at = args.timestamp(now, "now");
    const held = args.claim(claim);
    const { availableAt, error } = args.object(options, "options");
    if (availableAt === undefined) throw new TypeError("Invalid timestamp: availableAt must be a date string");
    const again = args.timestamp(availableAt, "availableAt");
    const reason = args.optionalContent(error, "error");
    args.assertAssignable(claim, "resourceVersion");
    return moved(claim, take(this[NATIVE].requeueClaim(held, again, reason, at)));
  }

  /** @returns {any[]} */
  listQueue() {
    return parsed(take(this[NATIVE].listQueue()));
  }

  /** @param {any} options @returns {any} */
  reserveEffect(options) {
    const { key, resourceUid, claim, generation, kind, requestFingerprint, now } = args.object(options, "options");
    const at = args.timestamp(now, "now");
    return parsed(
      take(
        this[NATIVE].reserveEffect(
          args.text(key, "key"),
          args.text(resourceUid, "resourceUid"),
          args.claim(claim),
          args.integer(generation, "generation"),
          args.text(kind, "kind"),
          args.text(requestFingerprint, "requestFingerprint"),
          at,
        ),
      ),
    );
  }

  /** @param {string} resourceUid @param {string} key @returns {any} */
  getEffect(resourceUid, key) {
    return parsedOrUndefined(
      take(this[NATIVE].getEffect(args.text(resourceUid, "resourceUid"), args.text(key, "key"))),
    );
  }

  /** @param {any} options @returns {any} */
  updateEffect(options) {
    const { resourceUid, key, claim, state, externalRef, error, now } = args.object(options, "options");
    const at = args.timestamp(now, "now");
    return parsed(
      take(
        this[NATIVE].updateEffect(
          args.text(resourceUid, "resourceUid"),
          args.text(key, "key"),
          args.claim(claim),
          args.text(state, "state"),
          args.optionalContent(externalRef, "externalRef"),
          args.optionalContent(error, "error"),
          at,
        ),
      ),
    );
  }

  /** @param {string} resourceUid @returns {any[]} */
  listEffects(resourceUid) {
    return parsed(take(this[NATIVE].listEffects(args.text(resourceUid, "resourceUid"))));
  }

  /** @param {any} options @returns {any} */
  reserveWorkflow(options) {
    const { resourceUid, claim, requestKey, workflow, inputFingerprint } = args.object(options, "options");
    return parsed(
      take(
        this[NATIVE].reserveWorkflow(
          args.text(resourceUid, "resourceUid"),
          args.claim(claim),
          args.text(requestKey, "requestKey"),
          args.text(workflow, "workflow"),
          args.text(inputFingerprint, "inputFingerprint"),
          Date.now(),
        ),
      ),
    );
  }

  /** @param {string} resourceUid @param {string} requestKey @returns {any} */
  getWorkflow(resourceUid, requestKey) {
    return parsedOrUndefined(
      take(this[NATIVE].getWorkflow(args.text(resourceUid, "resourceUid"), args.text(requestKey, "requestKey"))),
    );
  }

  /** @param {string} requestId @returns {any} */
  getWorkflowByRequestId(requestId) {
    return parsedOrUndefined(take(this[NATIVE].getWorkflowByRequestId(args.text(requestId, "requestId"))));
  }

  /** @param {string} requestId @param {any} update @param {any} claim @returns {any} */
  updateWorkflow(requestId, update, claim) {
    const id = args.text(requestId, "requestId");
    const { runId, state, attempt, error } = workflowUpdate(update);
    const held = args.claim(claim);
    return parsed(take(this[NATIVE].updateWorkflow(id, runId, state, attempt, error, held, Date.now())));
  }

  /** @param {string} requestId @param {any} update @returns {any} */
  completeWorkflow(requestId, update) {
    const id = args.text(requestId, "requestId");
    const { saysRun, runId, state, attempt, error } = workflowUpdate(update);
    return parsed(take(this[NATIVE].completeWorkflow(id, saysRun, runId, state, attempt, error, Date.now())));
  }

  /** @param {string} resourceUid @returns {any[]} */
  listWorkflows(resourceUid) {
    return parsed(take(this[NATIVE].listWorkflows(args.text(resourceUid, "resourceUid"))));
  }

  /** @param {any} options @returns {any} */
  recordEvent(options) {
    const { controller, key, claim, type, payload, now } = args.object(options, "options");
    const at = args.timestamp(now, "now");
    const name = args.text(controller, "controller");
    const resourceKey = args.text(key, "key");
    const held = claim === undefined ? undefined : args.claim(claim);
    if (held !== undefined) args.assertAssignable(claim, "resourceVersion");
    const kind = args.text(type, "type");
    const json = canonicalJson(payload ?? {});
    const recorded = parsed(take(this[NATIVE].recordEvent(name, resourceKey, held, kind, json, at)));
    if (held !== undefined) claim.resourceVersion = recorded.resourceVersion;
    return recorded.event;
  }

  /** @param {any} [options] @returns {any[]} */
  listEvents(options = {}) {
    const { controller, key, limit } = args.object(options, "options");
    return parsed(
      take(
        this[NATIVE].listEvents(
          args.optionalText(controller, "controller"),
          args.optionalText(key, "key"),
          args.limit(limit, DEFAULT_LIMIT),
        ),
      ),
    );
  }
}

/**
 * Takes a claim along to the version that ended it; `false` where it ended nothing.
 *
 * @param {any} claim
 * @param {number | undefined} version
 */
function moved(claim, version) {
  if (version === undefined) return false;
  claim.resourceVersion = version;
  return true;
}

module.exports = { ControllerMethods, DEFAULT_LIMIT, parsed, parsedOrUndefined };
