//! Child workflows of controllers: a request for a run, reserved once for each request key, followed to its end.

use rusqlite::{Connection, Row, params};

use super::error::{Error, Refusal, Result};
use super::events::{self, Actor, NewEvent};
use super::leases::Claim;
use super::{Store, records, resources};
use crate::state::json::{Array, Object, object};
use crate::state::{State, Write, find, for_each, ids, optional_blob_text, optional_bytes, optional_text, text};

macro_rules! select_workflows {
    ($clause:literal) => {
        concat!(
            "SELECT w.request_id, c.uid, w.request_key, w.input_fingerprint, w.workflow_name,
               COALESCE(w.run_id, w.reserved_run_id), w.status, w.attempt_count, error.content
             FROM controller_workflows w
             JOIN controller_resources c ON c.controller_resource_id = w.controller_resource_id
             LEFT JOIN blobs error ON error.blob_hash = w.error_hash ",
            $clause
        )
    };
}

const BY_KEY: &str = select_workflows!("WHERE c.uid = ? AND w.request_key = ?");
const BY_ID: &str = select_workflows!("WHERE w.request_id = ?");
const LIST: &str = select_workflows!("WHERE c.uid = ? ORDER BY w.created_at, w.request_id");

const INSERT: &str = "INSERT INTO controller_workflows(request_id, controller_resource_id, request_key, workflow_name,
    input_fingerprint, status, attempt_count, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, 'pending', 0, ?6, ?6)";

/// The holder of the claim reserves a run before it exists; `run_id` follows once it does.
const UPDATE: &str = "UPDATE controller_workflows SET
    reserved_run_id = COALESCE(?1, reserved_run_id),
    run_id = CASE WHEN EXISTS (SELECT 1 FROM runs WHERE run_id = ?1) THEN ?1 ELSE run_id END,
    status = ?2, attempt_count = COALESCE(?3, attempt_count), error_hash = ?4, updated_at = ?5
  WHERE request_id = ?6";

/// The scheduler reports; it reserves nothing.
const COMPLETE: &str = "UPDATE controller_workflows SET
    run_id = CASE WHEN EXISTS (SELECT 1 FROM runs WHERE run_id = ?1) THEN ?1 ELSE run_id END,
    status = ?2, attempt_count = COALESCE(?3, attempt_count), error_hash = ?4, updated_at = ?5
  WHERE request_id = ?6";

/// A request for a child workflow.
#[derive(Debug)]
pub struct ReserveWorkflow<'a> {
    /// The uid of the resource.
    pub uid: &'a str,
    /// The claim that holds the resource.
    pub claim: &'a Claim,
    /// The request key.
    pub request_key: &'a str,
    /// The workflow's name.
    pub workflow: &'a str,
    /// What tells this input from another: 64 hex digits.
    pub input_fingerprint: &'a str,
    /// The time.
    pub now: i64,
}

/// How a child workflow is getting on.
#[derive(Debug)]
pub struct WorkflowUpdate<'a> {
    /// The run. `None` and `Some(None)` leave it as it is; a completion that says there was none (`Some(None)`) contradicts
    /// a reserved run.
    pub run_id: Option<Option<&'a str>>,
    /// A `ChildWorkflowState`.
    pub status: &'a str,
    /// The attempt; `None` leaves it as it is.
    pub attempt: Option<i64>,
    /// What went wrong; `None` removes it.
    pub error: Option<&'a str>,
    /// The time.
    pub now: i64,
}

struct WorkflowRow {
    request_id: String,
    uid: String,
    input_fingerprint: String,
    workflow: String,
    run_id: Option<String>,
}

impl Store {
    /// Reserves a child workflow, or adopts the reservation of the same request. The record says which (`created`).
    pub fn reserve_workflow(&self, state: &mut State, request: &ReserveWorkflow<'_>) -> Result<String> {
        let ReserveWorkflow { uid, claim, request_key, workflow, input_fingerprint, now } = *request;
        state.write(|tx| {
            let source = resources::require_by_uid(tx, uid)?;
            source.assert_live_claim(claim, now)?;
            if let Some(existing) = find(tx, BY_KEY, [uid, request_key], WorkflowRow::read)? {
                if existing.workflow != workflow || existing.input_fingerprint != input_fingerprint {
                    return Err(Error::WorkflowRequestConflict { key: request_key.to_owned() });
                }
                return reservation(tx, &existing.request_id, false);
            }
            let request_id = ids::random_uuid()?;
            tx.execute(
                INSERT,
                params![
                    request_id,
                    source.controller_resource_id,
                    request_key,
                    workflow,
                    hex_prefix(input_fingerprint),
                    now
                ],
            )?;
            reservation(tx, &request_id, true)
        })
    }

    /// A child workflow; `None` where none was reserved under this key.
    pub fn get_workflow(&self, state: &State, uid: &str, request_key: &str) -> Result<Option<String>> {
        find(state.connection(), BY_KEY, [uid, request_key], record)
    }

    /// A child workflow by the id of its request; `None` where there is none.
    pub fn get_workflow_by_request_id(&self, state: &State, request_id: &str) -> Result<Option<String>> {
        find(state.connection(), BY_ID, [request_id], record)
    }

    /// Stores how a child workflow is getting on, as the holder of the claim sees it.
    pub fn update_workflow(
        &self,
        state: &mut State,
        request_id: &str,
        update: &WorkflowUpdate<'_>,
        claim: &Claim,
    ) -> Result<String> {
        state.write(|tx| {
            let row = require(tx, request_id, WorkflowRow::read)?;
            resources::require_by_uid(tx, &row.uid)?.assert_live_claim(claim, update.now)?;
            change(tx, UPDATE, request_id, update)?;
            require(tx, request_id, record)
        })
    }

    /// Stores how a child workflow ended, as the scheduler reports it, and moves the resource's version along.
    pub fn complete_workflow(
        &self,
        state: &mut State,
        request_id: &str,
        update: &WorkflowUpdate<'_>,
    ) -> Result<String> {
        state.write(|tx| {
            let row = require(tx, request_id, WorkflowRow::read)?;
            if matches!(update.status, "pending" | "running") {
                return Err(Refusal::CompletionNotSettled.into());
            }
            if let (Some(reported), Some(reserved)) = (update.run_id, row.run_id.as_deref())
                && reported != Some(reserved)
            {
                return Err(Refusal::CompletionOfAnotherRun.into());
            }
            let source = resources::require_by_uid(tx, &row.uid)?;
            change(tx, COMPLETE, request_id, update)?;
            let payload = object(|payload| {
                payload.string("requestId", request_id);
                payload.nullable_string("runId", update.run_id.flatten().or(row.run_id.as_deref()));
                payload.string("state", update.status);
            });
            let event = NewEvent {
                resource_id: &source.resource_id,
                kind: "workflow_state_changed",
                actor: Actor::SYSTEM,
                generation: None,
                payload: &payload,
                now: update.now,
            };
            events::append(tx, source.revision, &event)?;
            require(tx, request_id, record)
        })
    }

    /// The child workflows of a resource, oldest first.
    pub fn list_workflows(&self, state: &State, uid: &str) -> Result<String> {
        let mut list = Array::begin();
        for_each(state.connection(), LIST, [uid], |row| push_record(list.element(), row))?;
        Ok(list.end())
    }
}

impl WorkflowRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        Ok(Self {
            request_id: row.get(0)?,
            uid: row.get(1)?,
            input_fingerprint: fingerprint(row)?,
            workflow: row.get(4)?,
            run_id: row.get(5)?,
        })
    }
}

fn fingerprint(row: &Row<'_>) -> Result<String> {
    Ok(hex::encode(optional_bytes(row, 3)?.unwrap_or_default()))
}

fn change(tx: &Write<'_>, sql: &str, request_id: &str, update: &WorkflowUpdate<'_>) -> Result<()> {
    let error = update.error.map(|error| tx.put_text(error, update.now)).transpose()?;
    tx.execute(sql, params![update.run_id.flatten(), update.status, update.attempt, error, update.now, request_id])?;
    Ok(())
}

fn require<T>(connection: &Connection, request_id: &str, read: impl FnOnce(&Row<'_>) -> Result<T>) -> Result<T> {
    find(connection, BY_ID, [request_id], read)?
        .ok_or_else(|| Refusal::WorkflowRequestNotFound(request_id.to_owned()).into())
}

fn reservation(tx: &Write<'_>, request_id: &str, created: bool) -> Result<String> {
    let record = require(tx, request_id, record)?;
    Ok(records::reservation(&record, created))
}

fn record(row: &Row<'_>) -> Result<String> {
    records::one(|out| push_record(out, row))
}

/// Writes a row of `select_workflows!` as a `ChildWorkflowRecord`.
fn push_record(out: &mut String, row: &Row<'_>) -> Result<()> {
    let mut workflow = Object::begin(out);
    workflow.string("requestId", text(row, 0)?);
    workflow.string("resourceUid", text(row, 1)?);
    workflow.string("requestKey", text(row, 2)?);
    workflow.string("inputFingerprint", &fingerprint(row)?);
    workflow.string("workflow", text(row, 4)?);
    workflow.optional_string("runId", optional_text(row, 5)?);
    workflow.string("state", text(row, 6)?);
    workflow.integer("attempt", row.get(7)?);
    workflow.optional_string("error", optional_blob_text(row, 8)?);
    workflow.end();
    Ok(())
}

/// The bytes of the leading pairs of hex digits, as Node's `Buffer.from(text, "hex")` reads them. What is not a
/// fingerprint comes out too short, and the table's `CHECK` refuses it.
fn hex_prefix(text: &str) -> Vec<u8> {
    let digits = text.bytes().take_while(u8::is_ascii_hexdigit).count();
    hex::decode(text.get(..digits & !1).unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::hex_prefix;

    #[test]
    fn fingerprints_are_read_as_node_reads_hex() {
        assert_eq!(hex_prefix("00ffAB"), [0, 255, 171]);
        assert_eq!(hex_prefix("12zz34"), [18]);
        assert_eq!(hex_prefix("123"), [18]);
        assert!(hex_prefix("not hex").is_empty() && hex_prefix("").is_empty());
    }
}
