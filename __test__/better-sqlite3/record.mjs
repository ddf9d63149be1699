// Records what better-sqlite3 does. node record.mjs FOLDER, where FOLDER has better-sqlite3 12 installed.
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { replay, subjects } from "./replay.js";

const require = createRequire(path.resolve(process.argv[2], "package.json"));
const Database = require("better-sqlite3");

const recorded = { version: require("better-sqlite3/package.json").version };
for (const [subject, cases] of Object.entries(subjects)) {
  recorded[subject] = {};
  for (const [name, run] of Object.entries(cases)) {
    const db = new Database(":memory:");
    db.pragma("foreign_keys = ON");
    recorded[subject][name] = replay(db, run);
  }
}
fs.writeFileSync(new URL("recorded.json", import.meta.url), `${JSON.stringify(recorded, null, 1)}\n`);
