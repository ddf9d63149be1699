"use strict";

const { native } = require("../binding");
const args = require("./arguments");
const { canonicalJson } = require("./canonical-json");

/** @param {string} type @param {string} aggregateKey */
function resourceIdFor(type, aggregateKey) {
  return native.resourceId(args.text(type, "type"), args.text(aggregateKey, "aggregateKey"));
}

/** @param {string} token @returns {Buffer} */
function tokenHash(token) {
  return native.digest(args.content(token, "token"));
}

/** @param {unknown} value */
function jsonFingerprint(value) {
  return native.digestHex(canonicalJson(value));
}

module.exports = { jsonFingerprint, resourceIdFor, tokenHash };
