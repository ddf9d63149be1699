export type { RunEventRecord, WorkflowRunLaunchStatus, WorkflowRunQueueRecord } from "@pi-workflows/store";
export { SqliteControllerStore } from "@pi-workflows/store";
