//! The event feed of the runs, across projects, numbered and read from a watermark; and the outbox effects of a run.

use rusqlite::{Row, params};

use super::Store;
use super::error::{Error, Result};
use super::events::{self, Actor, NewEvent};
use super::runs;
use crate::state::json::{Array, Object, object};
use crate::state::{State, for_each, json_column, optional_text, text};

const LIST_AFTER: &str = "SELECT e.event_seq, e.recorded_at, r.run_id, r.workflow_ref, e.event_type, e.actor_id,
    CASE WHEN e.payload_hash IS NULL THEN CAST('{}' AS BLOB)
         ELSE (SELECT b.content FROM blobs b
               WHERE b.blob_hash = e.payload_hash AND b.media_type = 'application/json') END
  FROM events e JOIN runs r ON r.resource_id = e.resource_id
  WHERE e.event_seq > ? ORDER BY e.event_seq LIMIT ?";

const PENDING_EFFECTS: &str = "SELECT e.effect_id, e.resource_id, i.revision
  FROM effects e
  JOIN runs r ON r.resource_id = e.source_resource_id
  JOIN resources i ON i.resource_id = e.resource_id
  WHERE r.run_id = ? AND e.effect_type = ? AND e.status = 'pending'";

const APPLY_EFFECT: &str = "UPDATE effects SET status = 'applied', updated_at = ?1, settled_at = ?1 WHERE effect_id = ?2 AND status = 'pending'";

/// An event of a run, as a caller records it.
#[derive(Debug)]
pub struct RecordRunEvent<'a> {
    /// The run's id.
    pub run_id: &'a str,
    /// The workflow, as the caller calls it.
    pub workflow_ref: &'a str,
    /// The type of the event.
    pub kind: &'a str,
    /// Canonical JSON.
    pub payload: &'a str,
    /// Who caused it.
    pub runner_id: Option<&'a str>,
    /// The time.
    pub now: i64,
}

struct RunEvent<'a> {
    seq: i64,
    now: i64,
    run_id: &'a str,
    workflow_ref: &'a str,
    kind: &'a str,
    runner_id: Option<&'a str>,
    payload: &'a str,
}

impl RunEvent<'_> {
    fn push(&self, out: &mut String) {
        let mut event = Object::begin(out);
        event.integer("seq", self.seq);
        event.time("recordedAt", self.now);
        event.string("runId", self.run_id);
        event.string("workflowRef", self.workflow_ref);
        event.string("type", self.kind);
        event.nullable_string("runnerId", self.runner_id);
        event.raw("payload", self.payload);
        event.end();
    }
}

impl Store {
    /// Records an event of a run and moves its version along.
    pub fn record_run_event(&self, state: &mut State, event: &RecordRunEvent<'_>) -> Result<String> {
        let RecordRunEvent { run_id, workflow_ref, kind, payload, runner_id, now } = *event;
        let appended = state.write(|tx| {
            let row = runs::require(tx, run_id)?;
            let event = NewEvent {
                resource_id: &row.resource_id,
                kind,
                actor: Actor::runner(runner_id),
                generation: row.lease.event_generation(),
                payload,
                now,
            };
            events::append(tx, row.revision, &event)
        })?;
        let mut out = String::new();
        RunEvent { seq: appended.seq, now, run_id, workflow_ref, kind, runner_id, payload }.push(&mut out);
        Ok(out)
    }

    /// The events of all runs after a watermark, oldest first. An empty list: nothing new.
    pub fn list_run_events_after(&self, state: &State, seq: i64, limit: i64) -> Result<String> {
        let mut list = Array::begin();
        for_each(state.connection(), LIST_AFTER, params![seq, limit], |row| push_event(list.element(), row))?;
        Ok(list.end())
    }

    /// Marks the pending effects of a run, of one type, as applied.
    pub fn settle_run_effect(&self, state: &mut State, run_id: &str, effect_type: &str, now: i64) -> Result<()> {
        state.write(|tx| {
            let mut pending: Vec<(String, String, i64)> = Vec::new();
            for_each(tx, PENDING_EFFECTS, [run_id, effect_type], |row| {
                pending.push((row.get(0)?, row.get(1)?, row.get(2)?));
                Ok::<_, Error>(())
            })?;
            let payload = object(|payload| {
                payload.string("effectType", effect_type);
                payload.string("runId", run_id);
            });
            for (effect_id, resource_id, revision) in &pending {
                tx.execute(APPLY_EFFECT, params![now, effect_id])?;
                let event = NewEvent {
                    resource_id,
                    kind: "effect.applied",
                    actor: Actor::SYSTEM,
                    generation: None,
                    payload: &payload,
                    now,
                };
                events::append(tx, *revision, &event)?;
            }
            Ok(())
        })
    }
}

fn push_event(out: &mut String, row: &Row<'_>) -> Result<()> {
    let event = RunEvent {
        seq: row.get(0)?,
        now: row.get(1)?,
        run_id: text(row, 2)?,
        workflow_ref: text(row, 3)?,
        kind: text(row, 4)?,
        runner_id: optional_text(row, 5)?,
        payload: json_column(row, 6)?,
    };
    event.push(out);
    Ok(())
}
