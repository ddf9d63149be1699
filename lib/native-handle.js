"use strict";

/**
 * Where an object of the face keeps its native counterpart. A registered symbol instead of a private field: after
 * `jest.resetModules()` a store of one copy of the face takes the `StateDatabase` of another.
 */
const NATIVE = Symbol.for("@pi-workflows/store.native");

/**
 * Gives an object its native counterpart, out of sight of whoever lists its properties.
 *
 * @param {object} owner
 * @param {unknown} native
 */
function attach(owner, native) {
  Object.defineProperty(owner, NATIVE, { value: native });
}

module.exports = { NATIVE, attach };
