import { StateDatabase as NativeStateDatabase, type StateDatabaseOptions } from "@pi-workflows/store";
import { STATE_SCHEMA } from "./schema.js";

export { workflowStatePath } from "@pi-workflows/store";

/** The state of pi-workflows: the native database with the schema of this package. */
export class StateDatabase extends NativeStateDatabase {
  constructor(options: Omit<StateDatabaseOptions, "schema"> = {}) {
    super({ ...options, schema: STATE_SCHEMA });
  }
}
