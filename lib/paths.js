"use strict";

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

/**
 * Where pi-workflows keeps its state: `.pi/agent/workflows/state.sqlite` in the home directory.
 *
 * @param {string} [homeDir]
 */
function workflowStatePath(homeDir = os.homedir()) {
  return path.join(homeDir, ".pi", "agent", "workflows", "state.sqlite");
}

/** The real path of a project's folder; the resolved path where it does not exist. @param {string} projectPath */
function canonicalProjectPath(projectPath) {
  try {
    return fs.realpathSync.native(projectPath);
  } catch {
    return path.resolve(projectPath);
  }
}

module.exports = { canonicalProjectPath, workflowStatePath };
