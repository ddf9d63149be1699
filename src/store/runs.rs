//! Runs of workflows: reserving one with its definition, source and input; reading them; removing one.

use rusqlite::{Connection, Row, params};

use super::error::{Error, Refusal, Result};
use super::events::{self, Actor, NO_PAYLOAD, NewEvent};
use super::leases::{self, Lease, lease_columns};
use super::run_state::{self, Queued};
use super::sets::QueueStatus;
use super::{Store, identities, records};
use crate::state::ids::Digest;
use crate::state::json::{Array, Object, object, push_display};
use crate::state::{
    self, State, Write, find, for_each, ids, json_column, optional_blob_text, optional_bytes, optional_text, text,
};

macro_rules! select_records {
    ($clause:literal) => {
        concat!(
            "SELECT r.run_id, d.workflow_name, r.workflow_ref, source.content, r.status, r.definition_digest,
               input.content, launch.content, q.status, l.owner_id, l.generation, l.expires_at,
               q.affinity_runner_id, b.origin_session_id, r.parent_run_id, q.error_code, error.content,
               q.created_at, q.updated_at, q.started_at, q.finished_at
             FROM runs r
             JOIN workflow_definitions d ON d.definition_digest = r.definition_digest
             JOIN run_queue q ON q.run_id = r.run_id
             LEFT JOIN run_bindings b ON b.run_id = r.run_id
             JOIN leases l ON l.resource_id = r.resource_id
             LEFT JOIN blobs source
               ON source.blob_hash = r.workflow_source_hash AND source.media_type = 'application/json'
             LEFT JOIN blobs input ON input.blob_hash = r.input_hash AND input.media_type = 'application/json'
             LEFT JOIN blobs launch
               ON launch.blob_hash = r.launch_options_hash AND launch.media_type = 'application/json'
             LEFT JOIN blobs error ON error.blob_hash = q.error_hash ",
            $clause
        )
    };
}

const RECORD: &str = select_records!("WHERE r.run_id = ?");

/// The newest first; an empty list of statuses lets all through.
const LIST: &str = select_records!(
    "WHERE r.project_id = ?1 AND r.run_id NOT IN (SELECT value FROM json_each(?2))
     ORDER BY q.created_at DESC, r.rowid LIMIT ?3"
);
const LIST_BY_STATUS: &str = select_records!(
    "WHERE r.project_id = ?1 AND r.run_id NOT IN (SELECT value FROM json_each(?2))
       AND q.status IN (SELECT value FROM json_each(?4))
     ORDER BY q.created_at DESC, r.rowid LIMIT ?3"
);

const SESSION_RESERVATION: &str = select_records!(
    "WHERE b.origin_session_id = ? AND q.status NOT IN ('done', 'failed', 'cancelled')
     ORDER BY q.created_at DESC, r.rowid LIMIT 1"
);

const ROW: &str = concat!(
    "SELECT r.run_id, r.resource_id, q.status, b.origin_session_id, i.revision, ",
    lease_columns!("l"),
    " FROM runs r
     JOIN workflow_definitions d ON d.definition_digest = r.definition_digest
     JOIN run_queue q ON q.run_id = r.run_id
     LEFT JOIN run_bindings b ON b.run_id = r.run_id
     JOIN resources i ON i.resource_id = r.resource_id
     JOIN leases l ON l.resource_id = r.resource_id
     WHERE r.run_id = ?"
);

const INSERT_DEFINITION: &str =
    "INSERT INTO workflow_definitions(definition_digest, workflow_name, definition_hash, created_at)
  VALUES (?, ?, ?, ?) ON CONFLICT(definition_digest) DO NOTHING";

const INSERT: &str = "INSERT INTO runs(run_id, resource_id, project_id, parent_run_id, definition_digest, workflow_ref,
    workflow_source_hash, launch_options_hash, source_type, source_ref, source_revision, status, paused, input_hash,
    output_hash, created_at, updated_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 'queued', 0, ?12, ?13, ?14, ?14)";

const INSERT_BINDING: &str = "INSERT INTO run_bindings(run_id, origin_session_id, execution_mode, created_at)
  VALUES (?, ?, 'interactive', ?)";

const INSERT_QUEUE: &str = "INSERT INTO run_queue(run_id, status, available_at, affinity_runner_id, origin_session_id,
    consecutive_errors, created_at, updated_at) VALUES (?1, 'queued', ?2, ?3, ?4, 0, ?2, ?2)";

const CONTINUE_PARENT: &str =
    "UPDATE run_queue SET status = 'done', updated_at = ?1, finished_at = ?1 WHERE run_id = ?2 AND status = 'parked'";

const BIND: &str = "INSERT INTO run_bindings(run_id, origin_session_id, execution_mode, created_at)
  VALUES (?, ?, 'interactive', ?)
  ON CONFLICT(run_id) DO UPDATE SET origin_session_id = excluded.origin_session_id";

const DELETE: &str = "DELETE FROM runs WHERE run_id = ?";

/// What points to a run without belonging to it lets go of it.
const FORGET: [&str; 2] = [
    "UPDATE runs SET parent_run_id = NULL WHERE parent_run_id = ?",
    "UPDATE controller_workflows SET run_id = NULL WHERE run_id = ?",
];

/// Nobody will deliver what a deleted run still had to say.
const CANCEL_EFFECTS: &str = "UPDATE effects SET status = 'cancelled', updated_at = ?1, settled_at = ?1
  WHERE source_resource_id = ?2 AND status IN ('pending', 'applying')";

const DELETE_FORMER_EFFECTS: &str = "DELETE FROM effects WHERE source_resource_id = ?";

/// A run that somebody wants to start.
#[derive(Debug)]
pub struct ReserveRun<'a> {
    /// The run's id.
    pub run_id: &'a str,
    /// The workflow's name.
    pub workflow_name: &'a str,
    /// How the workflow is referred to; `builtin:NAME` or a file.
    pub workflow_ref: &'a str,
    /// Canonical JSON: where the workflow comes from.
    pub source: &'a str,
    /// SHA-256 of the definition: 64 hex digits, with `sha256:` before them or without.
    pub definition_digest: &'a str,
    /// Canonical JSON: the definition.
    pub definition: &'a str,
    /// Canonical JSON.
    pub input: &'a str,
    /// Canonical JSON.
    pub launch_options: &'a str,
    /// Who should run it first.
    pub runner_id: &'a str,
    /// The session that it reports to.
    pub origin_session_id: &'a str,
    /// The run that it continues.
    pub parent_run_id: Option<&'a str>,
    /// The time.
    pub now: i64,
}

/// What a write method has to know of a run.
#[derive(Debug)]
pub(super) struct RunRow {
    pub(super) run_id: String,
    pub(super) resource_id: String,
    pub(super) status: QueueStatus,
    pub(super) origin_session_id: Option<String>,
    pub(super) revision: i64,
    pub(super) lease: Lease,
}

impl RunRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        let status = text(row, 2)?;
        Ok(Self {
            run_id: row.get(0)?,
            resource_id: row.get(1)?,
            status: QueueStatus::parse(status)
                .ok_or_else(|| state::Error::Damaged(format!("a run is {status} in the queue")))?,
            origin_session_id: row.get(3)?,
            revision: row.get(4)?,
            lease: Lease::read(row, 5)?,
        })
    }
}

/// The row of a run; `None` where there is none.
pub(super) fn by_id(connection: &Connection, run_id: &str) -> Result<Option<RunRow>> {
    find(connection, ROW, [run_id], RunRow::read)
}

/// The row of a run that must exist.
pub(super) fn require(connection: &Connection, run_id: &str) -> Result<RunRow> {
    by_id(connection, run_id)?.ok_or_else(|| Refusal::RunNotFound(run_id.to_owned()).into())
}

/// The record of a run that must exist. Only a claim's own caller gets the token back.
pub(super) fn require_record(connection: &Connection, run_id: &str, claim_token: Option<&str>) -> Result<String> {
    find(connection, RECORD, [run_id], |row| record(row, claim_token))?
        .ok_or_else(|| Refusal::RunNotFound(run_id.to_owned()).into())
}

impl Store {
    /// Reserves a run: it is queued, with its definition, source and input. A run that it continues is done with that.
    pub fn reserve_run(&self, state: &mut State, run: &ReserveRun<'_>) -> Result<String> {
        state.write(|tx| {
            self.reserve(tx, run)?;
            require_record(tx, run.run_id, None)
        })
    }

    pub(super) fn reserve(&self, tx: &Write<'_>, run: &ReserveRun<'_>) -> Result<()> {
        let digest = definition_digest(run.definition_digest)?;
        if by_id(tx, run.run_id)?.is_some() {
            return Err(Refusal::RunAlreadyReserved(run.run_id.to_owned()).into());
        }
        if let Some(parent) = run.parent_run_id {
            take_over(tx, parent, run)?;
        }
        insert(tx, self.require_project()?, run, &digest)
    }

    /// A run, in whichever project; `None` where there is none.
    pub fn get_run(&self, state: &State, run_id: &str) -> Result<Option<String>> {
        find(state.connection(), RECORD, [run_id], |row| record(row, None))
    }

    /// The runs of the project, newest first. `statuses` and `exclude` are JSON arrays; an empty one filters nothing.
    pub fn list_runs(&self, state: &State, statuses: &str, exclude: &str, limit: i64) -> Result<String> {
        let project = self.require_project()?;
        let mut list = Array::begin();
        let push = |row: &Row<'_>| push_record(list.element(), row, None);
        if statuses == "[]" {
            for_each(state.connection(), LIST, params![project, exclude, limit], push)?;
        } else {
            for_each(state.connection(), LIST_BY_STATUS, params![project, exclude, limit, statuses], push)?;
        }
        Ok(list.end())
    }

    /// The newest run of a session that has not ended; `None` where there is none.
    pub fn find_session_reservation(&self, state: &State, session_id: &str) -> Result<Option<String>> {
        find(state.connection(), SESSION_RESERVATION, [session_id], |row| record(row, None))
    }

    /// Binds a run to another session.
    pub fn set_run_origin_session(&self, state: &mut State, run_id: &str, session_id: &str, now: i64) -> Result<bool> {
        state.write(|tx| Ok(tx.execute(BIND, params![run_id, session_id, now])? == 1))
    }

    /// Removes a run under its live claim; `false` where the token does not hold it.
    ///
    /// Its identity stays, with its events, its version and its fencing generation, so that the id can be reserved again.
    pub fn delete_run(&self, state: &mut State, run_id: &str, token: &Digest, now: i64) -> Result<bool> {
        state.write(|tx| {
            let Some(row) = by_id(tx, run_id)? else { return Ok(false) };
            let Some(held) = row.lease.live_with_token(token, now) else { return Ok(false) };
            let event = NewEvent {
                resource_id: &row.resource_id,
                kind: "run.deleted",
                actor: held.actor(),
                generation: row.lease.event_generation(),
                payload: NO_PAYLOAD,
                now,
            };
            events::append(tx, row.revision, &event)?;
            for forget in FORGET {
                tx.execute(forget, [run_id])?;
            }
            tx.execute(CANCEL_EFFECTS, params![now, row.resource_id])?;
            tx.execute(DELETE, [run_id])?;
            leases::release(tx, &row.resource_id, row.lease.generation)
        })
    }
}

/// Ends a parked run for the sake of the one that continues it.
fn take_over(tx: &Write<'_>, parent_run_id: &str, run: &ReserveRun<'_>) -> Result<()> {
    let parent = require(tx, parent_run_id)?;
    if parent.origin_session_id.as_deref() != Some(run.origin_session_id) {
        return Err(Refusal::ParentOfAnotherSession.into());
    }
    match parent.status {
        QueueStatus::Parked if parent.lease.held.is_some() => return Err(Refusal::ParentOwned.into()),
        QueueStatus::Parked => {}
        QueueStatus::Done => return Err(Refusal::ParentContinued.into()),
        other => return Err(Refusal::ParentNotParked(other.as_str()).into()),
    }
    tx.execute(CONTINUE_PARENT, params![run.now, parent.run_id])?;
    let event = NewEvent {
        resource_id: &parent.resource_id,
        kind: "run.queue_done_for_continuation",
        actor: Actor::session(run.origin_session_id),
        generation: None,
        payload: &object(|payload| payload.string("continuationRunId", run.run_id)),
        now: run.now,
    };
    events::append(tx, parent.revision, &event)?;
    Ok(())
}

/// Inserts a run. Where its id was used before, it adopts that identity: version and fencing generation go on.
fn insert(tx: &Write<'_>, project: &str, run: &ReserveRun<'_>, digest: &[u8]) -> Result<()> {
    let now = run.now;
    let resource_id = ids::resource_id("run", run.run_id);
    let revision = identities::create(tx, &resource_id, "run", run.run_id, now)?;
    if revision > 1 {
        tx.execute(DELETE_FORMER_EFFECTS, [&resource_id])?;
    }
    let projection = run_state::queued(&Queued {
        run_id: run.run_id,
        workflow_name: run.workflow_name,
        source: run.source,
        definition_digest: run.definition_digest,
        parent_run_id: run.parent_run_id,
        input: run.input,
        revision,
        now,
    })?;
    let definition = tx.put_json(run.definition, now)?;
    let source = tx.put_json(run.source, now)?;
    let input = tx.put_json(run.input, now)?;
    let launch_options = tx.put_json(run.launch_options, now)?;
    let projection = tx.put_json(&projection, now)?;
    tx.execute(INSERT_DEFINITION, params![digest, run.workflow_name, definition, now])?;
    let (source_type, source_ref) =
        run.workflow_ref.strip_prefix("builtin:").map_or(("file", run.workflow_ref), |name| ("builtin", name));
    tx.execute(
        INSERT,
        params![
            run.run_id,
            resource_id,
            project,
            run.parent_run_id,
            digest,
            run.workflow_ref,
            source,
            launch_options,
            source_type,
            source_ref,
            run.definition_digest,
            input,
            projection,
            now
        ],
    )?;
    tx.execute(INSERT_BINDING, params![run.run_id, run.origin_session_id, now])?;
    tx.execute(INSERT_QUEUE, params![run.run_id, now, run.runner_id, run.origin_session_id])?;
    let event = NewEvent {
        resource_id: &resource_id,
        kind: "run.queued",
        actor: Actor::session(run.origin_session_id),
        generation: None,
        payload: NO_PAYLOAD,
        now,
    };
    events::append_at(tx, revision, &event)?;
    Ok(())
}

/// The bytes of a definition's digest.
fn definition_digest(text: &str) -> Result<Vec<u8>> {
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    hex::decode(digits).ok().filter(|digest| digest.len() == 32).ok_or_else(|| Error::from(Refusal::DigestExpected))
}

fn record(row: &Row<'_>, claim_token: Option<&str>) -> Result<String> {
    records::one(|out| push_record(out, row, claim_token))
}

/// Writes a row of `select_records!` as a `WorkflowRunQueueRecord`.
fn push_record(out: &mut String, row: &Row<'_>, claim_token: Option<&str>) -> Result<()> {
    let owner = optional_text(row, 9)?;
    let mut run = Object::begin(out);
    run.string("runId", text(row, 0)?);
    run.string("workflowName", text(row, 1)?);
    run.string("workflowSourceRef", text(row, 2)?);
    run.raw("workflowSource", json_column(row, 3)?);
    run.boolean("initialized", text(row, 4)? != "queued");
    let digest = hex::encode(optional_bytes(row, 5)?.unwrap_or_default());
    push_display(run.key("definitionDigest"), format_args!("\"sha256:{digest}\""));
    run.raw("input", json_column(row, 6)?);
    run.raw("launchOptions", json_column(row, 7)?);
    run.string("status", text(row, 8)?);
    run.nullable_string("runnerId", owner);
    run.nullable_string("claimToken", claim_token);
    match owner {
        Some(_) => run.integer("claimGeneration", row.get(10)?),
        None => run.raw("claimGeneration", "null"),
    }
    run.nullable_time("claimExpiresAt", row.get(11)?);
    run.nullable_string("affinityRunnerId", optional_text(row, 12)?);
    run.nullable_string("originSessionId", optional_text(row, 13)?);
    run.nullable_string("parentRunId", optional_text(row, 14)?);
    run.nullable_string("errorCode", optional_text(row, 15)?);
    run.nullable_string("errorMessage", optional_blob_text(row, 16)?);
    run.time("createdAt", row.get(17)?);
    run.time("updatedAt", row.get(18)?);
    run.nullable_time("startedAt", row.get(19)?);
    run.nullable_time("finishedAt", row.get(20)?);
    run.end();
    Ok(())
}
