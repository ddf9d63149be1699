//! Events: one for each revision of a resource, with who did it and under which fencing generation.

use rusqlite::{Row, params};

use super::error::{Refusal, Result};
use super::leases::Claim;
use super::sets::{ActorType, OwnerType};
use super::{Store, resources};
use crate::state::json::{Array, Object, object};
use crate::state::{State, Write, for_each, ids, json_column, text};

const BUMP: &str =
    "UPDATE resources SET revision = revision + 1, updated_at = ? WHERE resource_id = ? AND revision = ?";

const INSERT: &str = "INSERT INTO events(event_id, resource_id, resource_revision, event_type, actor_type, actor_id,
    lease_generation, payload_hash, recorded_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// The payload of an event that has nothing to add.
pub(super) const NO_PAYLOAD: &str = "{}";

macro_rules! select_events {
    ($clause:literal) => {
        concat!(
            "SELECT e.event_seq, e.recorded_at, c.controller_name, c.resource_key, e.event_type,
               CASE WHEN e.payload_hash IS NULL THEN CAST('{}' AS BLOB)
                    ELSE (SELECT b.content FROM blobs b
                          WHERE b.blob_hash = e.payload_hash AND b.media_type = 'application/json') END
             FROM events e
             JOIN controller_resources c ON c.resource_id = e.resource_id ",
            $clause
        )
    };
}

/// Newest first, by filter: (project?, controller?, key?). A parameter that the filter does not use is not in the text.
const LIST: [&str; 8] = [
    select_events!("ORDER BY e.event_seq DESC LIMIT ?4"),
    select_events!("WHERE c.resource_key = ?3 ORDER BY e.event_seq DESC LIMIT ?4"),
    select_events!("WHERE c.controller_name = ?2 ORDER BY e.event_seq DESC LIMIT ?4"),
    select_events!("WHERE c.controller_name = ?2 AND c.resource_key = ?3 ORDER BY e.event_seq DESC LIMIT ?4"),
    select_events!("WHERE c.project_id = ?1 ORDER BY e.event_seq DESC LIMIT ?4"),
    select_events!("WHERE c.project_id = ?1 AND c.resource_key = ?3 ORDER BY e.event_seq DESC LIMIT ?4"),
    select_events!("WHERE c.project_id = ?1 AND c.controller_name = ?2 ORDER BY e.event_seq DESC LIMIT ?4"),
    select_events!(
        "WHERE c.project_id = ?1 AND c.controller_name = ?2 AND c.resource_key = ?3 ORDER BY e.event_seq DESC LIMIT ?4"
    ),
];

/// Who caused an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Actor<'a> {
    pub(super) kind: ActorType,
    pub(super) id: Option<&'a str>,
}

impl<'a> Actor<'a> {
    /// Whoever steers the controllers from outside.
    pub(super) const CONTROL: Self = Self { kind: ActorType::Control, id: None };

    /// The store itself, or a scheduler.
    pub(super) const SYSTEM: Self = Self { kind: ActorType::System, id: None };

    /// A controller's worker.
    pub(super) fn controller(id: &'a str) -> Self {
        Self { kind: ActorType::Controller, id: Some(id) }
    }

    /// A session of the user's.
    pub(super) fn session(id: &'a str) -> Self {
        Self { kind: ActorType::Session, id: Some(id) }
    }

    /// Whoever runs workflows: a session where nobody says.
    pub(super) fn runner(id: Option<&'a str>) -> Self {
        Self { kind: id.map_or(ActorType::Session, |id| OwnerType::of_runner(id).into()), id }
    }
}

/// An event that is about to be written.
#[derive(Debug)]
pub(super) struct NewEvent<'a> {
    pub(super) resource_id: &'a str,
    pub(super) kind: &'a str,
    pub(super) actor: Actor<'a>,
    /// The fencing generation under which it happened.
    pub(super) generation: Option<i64>,
    /// Canonical JSON.
    pub(super) payload: &'a str,
    pub(super) now: i64,
}

/// Where an event went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appended {
    pub(super) seq: i64,
    pub(super) revision: i64,
}

/// Moves a resource from `revision` to the next one, with the event that says why.
pub(super) fn append(tx: &Write<'_>, revision: i64, event: &NewEvent<'_>) -> Result<Appended> {
    if tx.execute(BUMP, params![event.now, event.resource_id, revision])? != 1 {
        return Err(Refusal::RevisionConflict.into());
    }
    append_at(tx, revision + 1, event)
}

/// Writes the event of a revision that the resource has already.
pub(super) fn append_at(tx: &Write<'_>, revision: i64, event: &NewEvent<'_>) -> Result<Appended> {
    let payload = tx.put_json(event.payload, event.now)?;
    tx.execute(
        INSERT,
        params![
            ids::random_id("event")?,
            event.resource_id,
            revision,
            event.kind,
            event.actor.kind,
            event.actor.id,
            event.generation,
            payload,
            event.now
        ],
    )?;
    Ok(Appended { seq: tx.last_insert_rowid(), revision })
}

/// A controller's own event, as a caller records it.
#[derive(Debug)]
pub struct RecordEvent<'a> {
    /// The controller's name.
    pub controller: &'a str,
    /// The resource's key.
    pub key: &'a str,
    /// The claim under which it happened, if it did under one.
    pub claim: Option<&'a Claim>,
    /// The type of the event.
    pub kind: &'a str,
    /// Canonical JSON.
    pub payload: &'a str,
    /// The time.
    pub now: i64,
}

impl Store {
    /// Records an event of a resource and moves its version along. Gives `{ event, resourceVersion }`.
    pub fn record_event(&self, state: &mut State, event: &RecordEvent<'_>) -> Result<String> {
        let RecordEvent { controller, key, claim, kind, payload, now } = *event;
        let appended = state.write(|tx| {
            let row = resources::require(tx, self.project.as_deref(), controller, key)?;
            if let Some(claim) = claim {
                row.assert_live_claim(claim, now)?;
            }
            let actor = claim.map_or(Actor::CONTROL, |claim| Actor::controller(&claim.owner_id));
            let generation = claim.map(|claim| claim.generation);
            append(tx, row.revision, &NewEvent { resource_id: &row.resource_id, kind, actor, generation, payload, now })
        })?;
        Ok(object(|recorded| {
            write_event(recorded.key("event"), appended.seq, now, controller, key, kind, payload);
            recorded.integer("resourceVersion", appended.revision);
        }))
    }

    /// The newest events of the project's resources, newest first. An empty list: none, or none that the filters let through.
    pub fn list_events(
        &self,
        state: &State,
        controller: Option<&str>,
        key: Option<&str>,
        limit: i64,
    ) -> Result<String> {
        let project = self.project.as_deref();
        let filter =
            usize::from(project.is_some()) << 2 | usize::from(controller.is_some()) << 1 | usize::from(key.is_some());
        let sql = LIST.get(filter).copied().unwrap_or_default();
        let mut list = Array::begin();
        for_each(state.connection(), sql, params![project, controller, key, limit], |row| {
            push_event(list.element(), row)
        })?;
        Ok(list.end())
    }
}

fn push_event(out: &mut String, row: &Row<'_>) -> Result<()> {
    write_event(out, row.get(0)?, row.get(1)?, text(row, 2)?, text(row, 3)?, text(row, 4)?, json_column(row, 5)?);
    Ok(())
}

fn write_event(out: &mut String, seq: i64, now: i64, controller: &str, key: &str, kind: &str, payload: &str) {
    let mut event = Object::begin(out);
    event.integer("seq", seq);
    event.time("recordedAt", now);
    event.string("controller", controller);
    event.string("key", key);
    event.string("type", kind);
    event.raw("payload", payload);
    event.end();
}
