"use strict";

/** The cases, by subject. */
const subjects = {
  parameters: require("./parameters"),
  statements: require("./statements"),
  iterators: require("./iterators"),
  transactions: require("./transactions"),
};

const SETUP = `
  CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, n REAL, data BLOB, any);
  CREATE TABLE c(id INTEGER PRIMARY KEY, t INTEGER REFERENCES t(id) DEFERRABLE INITIALLY DEFERRED);
  CREATE TABLE u(v UNIQUE);
  INSERT INTO t(name, n) VALUES ('a', 1), ('b', 2), ('c', 3);
`;

/** What happens in each step of a case, as JSON can hold it. */
function replay(db, run) {
  db.exec(SETUP);
  const steps = {};
  run(db, (label, action) => {
    try {
      steps[label] = written(action());
    } catch (error) {
      const { name, message, code } = error;
      steps[label] = { throws: code === undefined ? `${name}: ${message}` : `${name} ${code}: ${message}` };
    }
  });
  return steps;
}

/** A value, so that two that differ are written differently. */
function written(value) {
  if (value === undefined) return "<undefined>";
  if (typeof value === "bigint") return `<bigint ${value}>`;
  if (typeof value === "number") return Number.isFinite(value) && !Object.is(value, -0) ? value : `<number ${value}>`;
  if (typeof value === "number" || typeof value === "boolean" || value === null) return value;
  if (typeof value === "string") return JSON.stringify(value);
  if (Buffer.isBuffer(value)) return `<Buffer ${value.toString("hex")}>`;
  if (Array.isArray(value)) return value.map(written);
  if (Object.getPrototypeOf(value) !== Object.prototype) return `<${typeof value}>`;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, written(member)]));
}

module.exports = { replay, subjects };
