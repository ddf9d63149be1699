"use strict";

const fs = require("node:fs");

/**
 * The files of the libraries that this process has loaded, in whichever thread.
 *
 * On Linux from the kernel. The runtime's report lists them, too, but asks every worker thread for its part and waits for
 * the answer: a worker inside a native call, a long `execSync`, say, would hold up whoever loads this package.
 *
 * @returns {string[]}
 */
function loadedObjects() {
  if (process.platform !== "linux") return fromReport();
  try {
    return fromMaps(fs.readFileSync("/proc/self/maps", "utf8"));
  } catch {
    return fromReport();
  }
}

/**
 * Each line is `address perms offset device inode path`; a file that was replaced since is marked as deleted
 * (https://man7.org/linux/man-pages/man5/proc_pid_maps.5.html).
 *
 * @param {string} maps
 */
function fromMaps(maps) {
  /** @type {Set<string>} */
  const files = new Set();
  for (const line of maps.split("\n")) {
    const start = line.indexOf("/");
    if (start !== -1) files.add(line.slice(start).replace(/ \(deleted\)$/, ""));
  }
  return [...files];
}

/** @returns {string[]} */
function fromReport() {
  const report = /** @type {any} */ (process.report);
  if (typeof report?.getReport !== "function") return [];
  // otherwise it looks up the name of everybody that the process is connected to
  const { excludeNetwork } = report;
  report.excludeNetwork = true;
  try {
    return report.getReport().sharedObjects ?? [];
  } finally {
    report.excludeNetwork = excludeNetwork;
  }
}

module.exports = { fromMaps, loadedObjects };
