import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { StateDatabase, type StateSchema } from "@pi-workflows/store";

/** Stands in for the host's own schema file: the tables that the store uses, and one that only the host knows. */
function hostSql(): string {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "host-schema-"));
  const scratch = new StateDatabase({ filePath: path.join(folder, "scratch.sqlite") });
  const statements = scratch.connection
    .prepare<[], string>("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")
    .pluck()
    .all();
  scratch.close();
  fs.rmSync(folder, { recursive: true });
  return `${statements.join(";\n")};
    CREATE TABLE decisions(
      decision_id TEXT NOT NULL PRIMARY KEY,
      run_id TEXT NOT NULL REFERENCES runs(run_id) ON DELETE CASCADE,
      answer_hash BLOB REFERENCES blobs(blob_hash)
    ) STRICT;`;
}

export const STATE_SCHEMA: StateSchema = {
  sql: hostSql(),
  name: "pi-workflows-state",
  version: 1,
  applicationId: 0x50495746,
  appVersion: "0.13.0",
};
