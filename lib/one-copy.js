"use strict";

const path = require("node:path");
const { version } = require("../package.json");

/** @typedef {import("./native").Binding} Binding */

/** How the native library is called, on every platform. */
const LIBRARY = /^pi-workflows-store\..+\.node$/;

/**
 * Loads the native library at `own`, or takes the one that another copy of this package has loaded already.
 *
 * A process may load the package from two folders, say a global and a project's one. Two native libraries would be two
 * copies of SQLite, and closing a file in one would drop the locks of the other
 * (https://sqlite.org/howtocorrupt.html, section 2.2.1).
 *
 * @param {string} own
 * @param {string[]} loaded the libraries of the process, in whichever thread
 * @returns {Binding}
 */
function loadOnce(own, loaded) {
  const other = loaded.find((object) => LIBRARY.test(path.basename(object)) && object !== own);
  if (other === undefined) return fitting(require(own), own);
  try {
    return fitting(require(other), other);
  } catch (error) {
    throw new Error(
      `Two copies of @pi-workflows/store do not work in one process: ${other} is loaded already, and ${own} cannot use it. ` +
        "Install one version of the package",
      { cause: error },
    );
  }
}

/** A face and a library of the same version fit. @param {Binding} library @param {string} file */
function fitting(library, file) {
  const found = library.libraryVersion?.();
  if (found !== version) {
    throw new Error(`${file} is the native library of version ${found}, but this package is version ${version}`);
  }
  return library;
}

module.exports = { loadOnce };
