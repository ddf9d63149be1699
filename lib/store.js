"use strict";

const { native } = require("../binding");
const args = require("./arguments");
const { take } = require("./errors");
const { NATIVE, attach } = require("./native-handle");
const { canonicalProjectPath, workflowStatePath } = require("./paths");
const { StateDatabase } = require("./state-database");
const { RunMethods } = require("./store-runs");

class SqliteControllerStore extends RunMethods {
  #ownsState;
  #closed = false;

  /**
   * @param {string} [filePath]
   * @param {{ readOnly?: boolean, projectPath?: string, state?: any }} [options]
   */
  constructor(filePath = workflowStatePath(), options = {}) {
    super();
    const { readOnly, projectPath, state } = args.object(options, "options");
    const lookUp = readOnly !== undefined && args.boolean(readOnly, "readOnly");
    const folder = args.text(projectPath === undefined ? process.cwd() : projectPath, "projectPath");
    this.#ownsState = state === undefined;
    this.state = state === undefined ? openState(filePath, lookUp) : stateDatabase(state);
    this.filePath = this.state.filePath;
    try {
      attach(this, take(native.openStore(this.state[NATIVE], canonicalProjectPath(folder), lookUp, Date.now())));
    } catch (error) {
      // nobody else will: the caller never gets this store
      if (this.#ownsState) this.state.close();
      throw error;
    }
  }

  close() {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#ownsState) this.state.close();
  }

  [Symbol.dispose]() {
    this.close();
  }
}

/** A `StateDatabase`, of this copy of the package's face or another. @param {unknown} value */
function stateDatabase(value) {
  const state = args.object(value, "state");
  if (state[NATIVE] === undefined) throw new TypeError("state must be a StateDatabase");
  return state;
}

/** @param {string} filePath @param {boolean} readOnly */
function openState(filePath, readOnly) {
  return new StateDatabase({
    filePath,
    mode: readOnly ? "read-only" : "read-write",
    checkLegacyState: filePath === workflowStatePath(),
  });
}

module.exports = { SqliteControllerStore };
