"use strict";

const path = require("node:path");
const { StateDatabase } = require("..");
const recorded = require("./better-sqlite3/recorded.json");
const { replay, subjects } = require("./better-sqlite3/replay");
const { world } = require("./support");

/** Where we differ on purpose, or SQLite is built in another way: subject, case, step. */
const DIFFERENT = {
  statements: {
    // a double-quoted text that names no column is an error here
  },
};

describe.each(Object.keys(subjects))(`%s, as better-sqlite3 ${recorded.version} has them`, (subject) => {
  it.each(Object.entries(subjects[subject]))("%s", (name, run) => {
    const state = new StateDatabase({ filePath: path.join(world().dir, "state.sqlite") });
    state.connection.pragma("synchronous = OFF");
    try {
      const expected = { ...recorded[subject][name], ...DIFFERENT[subject]?.[name] };
      expect(replay(state.connection, run)).toStrictEqual(expected);
    } finally {
      state.close();
    }
  });
});
