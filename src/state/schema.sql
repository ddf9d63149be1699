-- The built-in schema, version 1. Every table is a STRICT rowid table; times are epoch milliseconds;
-- digests are 32-byte blobs; every closed set has a CHECK. A column that points to a blob ends in _hash.

-- What this file is. One row; schema_digest is the SHA-256 of the text of the schema that made it.
CREATE TABLE schema_meta (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  schema_name TEXT NOT NULL CHECK (schema_name = 'pi-workflows-state'),
  schema_version INTEGER NOT NULL CHECK (schema_version = 1),
  schema_digest BLOB NOT NULL CHECK (length(schema_digest) = 32),
  app_version TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE projects (
  project_id TEXT NOT NULL PRIMARY KEY,
  canonical_path TEXT NOT NULL UNIQUE,
  created_at INTEGER NOT NULL
) STRICT;

-- Content-addressed values: blob_hash is the SHA-256 of content.
CREATE TABLE blobs (
  blob_hash BLOB NOT NULL PRIMARY KEY CHECK (length(blob_hash) = 32),
  media_type TEXT NOT NULL,
  byte_length INTEGER NOT NULL CHECK (byte_length = length(content)),
  content BLOB NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

-- The identity and version of everything that has events. It outlives the row that describes the thing,
-- because neither a version nor a fencing generation may ever repeat.
CREATE TABLE resources (
  resource_id TEXT NOT NULL PRIMARY KEY,
  resource_type TEXT NOT NULL CHECK (resource_type IN
    ('run', 'session', 'decision', 'controller', 'effect', 'channel', 'notification', 'turn_intent')),
  aggregate_key TEXT NOT NULL,
  revision INTEGER NOT NULL DEFAULT 0 CHECK (revision >= 0),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (resource_type, aggregate_key)
) STRICT;

-- Who holds a resource. generation is the fencing generation: it grows with every claim and never goes back.
CREATE TABLE leases (
  resource_id TEXT NOT NULL PRIMARY KEY REFERENCES resources(resource_id) ON DELETE CASCADE,
  generation INTEGER NOT NULL DEFAULT 0 CHECK (generation >= 0),
  owner_type TEXT CHECK (owner_type IN ('session', 'host', 'controller', 'channel', 'system')),
  owner_id TEXT,
  token_hash BLOB CHECK (length(token_hash) = 32),
  acquired_at INTEGER,
  heartbeat_at INTEGER,
  expires_at INTEGER,
  -- held or free, nothing in between
  CHECK ((owner_type IS NULL) + (owner_id IS NULL) + (token_hash IS NULL)
       + (acquired_at IS NULL) + (heartbeat_at IS NULL) + (expires_at IS NULL) IN (0, 6))
) STRICT;

-- The audit feed: one event for each revision of a resource. AUTOINCREMENT, so that a watermark never sees a number twice.
CREATE TABLE events (
  event_seq INTEGER PRIMARY KEY AUTOINCREMENT,
  event_id TEXT NOT NULL UNIQUE,
  resource_id TEXT NOT NULL REFERENCES resources(resource_id),
  resource_revision INTEGER NOT NULL CHECK (resource_revision > 0),
  event_type TEXT NOT NULL,
  actor_type TEXT NOT NULL CHECK (actor_type IN
    ('session', 'host', 'controller', 'channel', 'human', 'policy', 'control', 'system')),
  actor_id TEXT,
  lease_generation INTEGER CHECK (lease_generation > 0),
  payload_hash BLOB REFERENCES blobs(blob_hash),
  recorded_at INTEGER NOT NULL,
  UNIQUE (resource_id, resource_revision)
) STRICT;

CREATE TABLE workflow_definitions (
  definition_digest BLOB NOT NULL PRIMARY KEY CHECK (length(definition_digest) = 32),
  workflow_name TEXT NOT NULL,
  definition_hash BLOB NOT NULL REFERENCES blobs(blob_hash),
  created_at INTEGER NOT NULL
) STRICT;

-- A run and its state projection (output_hash: the JSON that other modules read).
CREATE TABLE runs (
  run_id TEXT NOT NULL PRIMARY KEY,
  resource_id TEXT NOT NULL UNIQUE REFERENCES resources(resource_id) ON DELETE CASCADE,
  project_id TEXT REFERENCES projects(project_id),
  parent_run_id TEXT REFERENCES runs(run_id),
  definition_digest BLOB NOT NULL REFERENCES workflow_definitions(definition_digest),
  workflow_ref TEXT NOT NULL,
  workflow_source_hash BLOB NOT NULL REFERENCES blobs(blob_hash),
  launch_options_hash BLOB NOT NULL REFERENCES blobs(blob_hash),
  source_type TEXT NOT NULL CHECK (source_type IN ('builtin', 'file')),
  source_ref TEXT NOT NULL,
  source_revision TEXT NOT NULL,
  title TEXT,
  status TEXT NOT NULL CHECK (status IN
    ('queued', 'running', 'waiting', 'completed', 'failed', 'timed_out', 'cancelled')),
  paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  status_detail TEXT,
  input_hash BLOB NOT NULL REFERENCES blobs(blob_hash),
  output_hash BLOB REFERENCES blobs(blob_hash),
  error_hash BLOB REFERENCES blobs(blob_hash),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  finished_at INTEGER,
  CHECK ((status IN ('completed', 'failed', 'timed_out', 'cancelled')) = (finished_at IS NOT NULL))
) STRICT;
CREATE INDEX runs_by_parent ON runs(parent_run_id) WHERE parent_run_id IS NOT NULL;

-- The session that a run reports to.
CREATE TABLE run_bindings (
  run_id TEXT NOT NULL PRIMARY KEY REFERENCES runs(run_id) ON DELETE CASCADE,
  origin_session_id TEXT NOT NULL,
  execution_mode TEXT NOT NULL CHECK (execution_mode IN ('interactive', 'headless')),
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX run_bindings_by_session ON run_bindings(origin_session_id);

CREATE TABLE run_queue (
  run_id TEXT NOT NULL PRIMARY KEY REFERENCES runs(run_id) ON DELETE CASCADE,
  status TEXT NOT NULL CHECK (status IN
    ('queued', 'starting', 'running', 'parked', 'done', 'failed', 'cancelled')),
  available_at INTEGER NOT NULL,
  affinity_runner_id TEXT,
  origin_session_id TEXT NOT NULL,
  consecutive_errors INTEGER NOT NULL DEFAULT 0 CHECK (consecutive_errors >= 0),
  error_code TEXT,
  error_hash BLOB REFERENCES blobs(blob_hash),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER
) STRICT;
-- a session has one active run at a time
CREATE UNIQUE INDEX run_queue_active_session ON run_queue(origin_session_id)
  WHERE status IN ('queued', 'starting', 'running');
-- what can still be claimed, in the order in which it is claimed
CREATE INDEX run_queue_claimable ON run_queue(available_at, created_at)
  WHERE status IN ('queued', 'starting', 'running', 'parked');
CREATE INDEX run_queue_by_creation ON run_queue(created_at);

-- Written by the workflow engine; read here for notifications.
CREATE TABLE node_attempts (
  attempt_id TEXT NOT NULL PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs(run_id) ON DELETE CASCADE,
  node_id TEXT NOT NULL,
  attempt_number INTEGER NOT NULL CHECK (attempt_number > 0),
  node_type TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN
    ('pending', 'running', 'waiting', 'completed', 'failed', 'timed_out', 'cancelled')),
  input_hash BLOB REFERENCES blobs(blob_hash),
  output_hash BLOB REFERENCES blobs(blob_hash),
  error_hash BLOB REFERENCES blobs(blob_hash),
  started_at INTEGER,
  deadline_at INTEGER,
  finished_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (run_id, node_id, attempt_number)
) STRICT;
-- a run works on one node at a time
CREATE UNIQUE INDEX node_attempts_active ON node_attempts(run_id)
  WHERE status IN ('pending', 'running', 'waiting');

CREATE TABLE controller_resources (
  controller_resource_id TEXT NOT NULL PRIMARY KEY,
  resource_id TEXT NOT NULL UNIQUE REFERENCES resources(resource_id) ON DELETE CASCADE,
  project_id TEXT REFERENCES projects(project_id),
  controller_name TEXT NOT NULL,
  resource_key TEXT NOT NULL,
  uid TEXT NOT NULL UNIQUE,
  generation INTEGER NOT NULL CHECK (generation > 0),
  spec_hash BLOB NOT NULL REFERENCES blobs(blob_hash),
  status_hash BLOB NOT NULL REFERENCES blobs(blob_hash),
  deletion_requested_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (project_id, controller_name, resource_key)
) STRICT;

CREATE TABLE controller_finalizers (
  controller_resource_id TEXT NOT NULL
    REFERENCES controller_resources(controller_resource_id) ON DELETE CASCADE,
  finalizer TEXT NOT NULL,
  position INTEGER NOT NULL CHECK (position >= 0),
  PRIMARY KEY (controller_resource_id, finalizer),
  UNIQUE (controller_resource_id, position)
) STRICT;

CREATE TABLE controller_queue (
  controller_resource_id TEXT NOT NULL PRIMARY KEY
    REFERENCES controller_resources(controller_resource_id) ON DELETE CASCADE,
  available_at INTEGER NOT NULL,
  queue_version INTEGER NOT NULL DEFAULT 1 CHECK (queue_version > 0),
  consecutive_errors INTEGER NOT NULL DEFAULT 0 CHECK (consecutive_errors >= 0),
  last_error_hash BLOB REFERENCES blobs(blob_hash),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX controller_queue_by_availability ON controller_queue(available_at);

-- reserved_run_id is the run that was asked for; run_id is the same once that run exists.
CREATE TABLE controller_workflows (
  request_id TEXT NOT NULL PRIMARY KEY,
  controller_resource_id TEXT NOT NULL
    REFERENCES controller_resources(controller_resource_id) ON DELETE CASCADE,
  request_key TEXT NOT NULL,
  workflow_name TEXT NOT NULL,
  input_fingerprint BLOB NOT NULL CHECK (length(input_fingerprint) = 32),
  reserved_run_id TEXT,
  run_id TEXT REFERENCES runs(run_id),
  status TEXT NOT NULL CHECK (status IN
    ('pending', 'running', 'waiting', 'succeeded', 'failed', 'interrupted')),
  attempt_count INTEGER NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
  error_hash BLOB REFERENCES blobs(blob_hash),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (controller_resource_id, request_key)
) STRICT;
CREATE INDEX controller_workflows_by_run ON controller_workflows(run_id) WHERE run_id IS NOT NULL;

-- The outbox: what is to happen outside, once per idempotency key of its source.
CREATE TABLE effects (
  effect_id TEXT NOT NULL PRIMARY KEY,
  resource_id TEXT NOT NULL UNIQUE REFERENCES resources(resource_id),
  source_resource_id TEXT NOT NULL REFERENCES resources(resource_id),
  source_revision INTEGER NOT NULL CHECK (source_revision > 0),
  effect_type TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  payload_hash BLOB NOT NULL REFERENCES blobs(blob_hash),
  owner_scope TEXT NOT NULL CHECK (owner_scope IN ('run', 'controller', 'channel', 'system')),
  status TEXT NOT NULL CHECK (status IN
    ('pending', 'applying', 'applied', 'rejected', 'ambiguous', 'cancelled')),
  attempt_count INTEGER NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
  next_attempt_at INTEGER,
  result_hash BLOB REFERENCES blobs(blob_hash),
  external_ref TEXT,
  error_hash BLOB REFERENCES blobs(blob_hash),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  settled_at INTEGER,
  UNIQUE (source_resource_id, effect_type, idempotency_key)
) STRICT;
CREATE INDEX effects_by_key ON effects(source_resource_id, idempotency_key);

CREATE TABLE notifications (
  notification_id TEXT NOT NULL PRIMARY KEY,
  effect_id TEXT NOT NULL UNIQUE REFERENCES effects(effect_id),
  run_id TEXT NOT NULL REFERENCES runs(run_id) ON DELETE CASCADE,
  attempt_id TEXT NOT NULL REFERENCES node_attempts(attempt_id),
  notification_index INTEGER NOT NULL CHECK (notification_index >= 0),
  target_session_id TEXT NOT NULL,
  notification_type TEXT NOT NULL CHECK (notification_type IN ('progress', 'final')),
  content_hash BLOB NOT NULL REFERENCES blobs(blob_hash),
  created_at INTEGER NOT NULL,
  UNIQUE (run_id, attempt_id, notification_index)
) STRICT;
CREATE INDEX notifications_by_session ON notifications(target_session_id, created_at);
CREATE INDEX notifications_by_attempt ON notifications(attempt_id);

CREATE TABLE turn_intents (
  turn_intent_id TEXT NOT NULL PRIMARY KEY,
  resource_id TEXT NOT NULL UNIQUE REFERENCES resources(resource_id),
  effect_id TEXT NOT NULL UNIQUE REFERENCES effects(effect_id),
  source_event_id TEXT NOT NULL UNIQUE,
  run_id TEXT NOT NULL REFERENCES runs(run_id) ON DELETE CASCADE,
  workflow_ref TEXT NOT NULL,
  target_session_id TEXT NOT NULL,
  cause TEXT NOT NULL,
  node_id TEXT,
  attempt_id TEXT,
  resolution_type TEXT,
  resolution_message_id TEXT,
  facts_hash BLOB NOT NULL REFERENCES blobs(blob_hash),
  requested_at INTEGER NOT NULL,
  eligible_at INTEGER,
  resolved_at INTEGER,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX turn_intents_by_run ON turn_intents(run_id, requested_at);
CREATE INDEX turn_intents_by_session ON turn_intents(target_session_id, requested_at);
-- what can be delivered to a session, oldest first
CREATE INDEX turn_intents_eligible ON turn_intents(target_session_id, eligible_at)
  WHERE resolved_at IS NULL AND eligible_at IS NOT NULL;
