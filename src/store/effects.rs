//! Effects of controllers: what is to happen outside, reserved once for each idempotency key, then settled.

use rusqlite::{Connection, Row, params};

use super::error::{Error, Refusal, Result};
use super::events::{self, Actor, NO_PAYLOAD, NewEvent};
use super::leases::Claim;
use super::{Store, identities, records, resources};
use crate::state::json::{Array, Object, object};
use crate::state::{State, Write, find, for_each, ids, optional_blob_text, optional_text, text};

macro_rules! select_effects {
    ($clause:literal) => {
        concat!(
            "SELECT e.effect_id, e.idempotency_key, c.uid, c.generation, e.effect_type, e.status,
               json_extract(CAST(payload.content AS TEXT), '$.requestFingerprint'), e.created_at, e.settled_at,
               e.external_ref, error.content, e.resource_id, r.revision
             FROM effects e
             JOIN controller_resources c ON c.resource_id = e.source_resource_id
             JOIN resources r ON r.resource_id = e.resource_id
             JOIN blobs payload ON payload.blob_hash = e.payload_hash
             LEFT JOIN blobs error ON error.blob_hash = e.error_hash ",
            $clause
        )
    };
}

const BY_KEY: &str = select_effects!("WHERE c.uid = ? AND e.idempotency_key = ?");

const LIST: &str = select_effects!("WHERE c.uid = ? ORDER BY e.created_at, e.effect_id");

const INSERT: &str = "INSERT INTO effects(effect_id, resource_id, source_resource_id, source_revision, effect_type,
    idempotency_key, payload_hash, owner_scope, status, attempt_count, created_at, updated_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'controller', 'pending', 0, ?8, ?8)";

const UPDATE: &str = "UPDATE effects SET status = ?, external_ref = ?, error_hash = ?, updated_at = ?, settled_at = ?
  WHERE effect_id = ?";

/// The state of an effect, by its name outside and its name in the file.
const STATES: [(&str, &str); 4] =
    [("pending", "pending"), ("applied", "applied"), ("rejected", "rejected"), ("indeterminate", "ambiguous")];

/// The name in the file. One that is not in the closed set is left to the table's `CHECK`.
fn stored_state(state: &str) -> &str {
    STATES.iter().find(|(outside, _)| *outside == state).map_or(state, |(_, stored)| *stored)
}

/// The name outside. Effects that other modules have moved on (`applying`, `cancelled`) keep the name they have.
fn outside_state(stored: &str) -> &str {
    STATES.iter().find(|(_, name)| *name == stored).map_or(stored, |(outside, _)| *outside)
}

/// A request for an effect.
#[derive(Debug)]
pub struct ReserveEffect<'a> {
    /// The idempotency key.
    pub key: &'a str,
    /// The uid of the resource.
    pub uid: &'a str,
    /// The claim that holds the resource.
    pub claim: &'a Claim,
    /// The generation of the spec that asks for it.
    pub generation: i64,
    /// What kind of effect it is.
    pub kind: &'a str,
    /// What tells this request from another one under the same key.
    pub request_fingerprint: &'a str,
    /// The time.
    pub now: i64,
}

/// The outcome of an effect.
#[derive(Debug)]
pub struct UpdateEffect<'a> {
    /// The uid of the resource.
    pub uid: &'a str,
    /// The idempotency key.
    pub key: &'a str,
    /// The claim that holds the resource.
    pub claim: &'a Claim,
    /// `pending`, `applied`, `rejected` or `indeterminate`.
    pub state: &'a str,
    /// What the outside calls it.
    pub external_ref: Option<&'a str>,
    /// What went wrong.
    pub error: Option<&'a str>,
    /// The time.
    pub now: i64,
}

/// What a write method has to know of an effect.
struct EffectRow {
    effect_id: String,
    resource_id: String,
    revision: i64,
    generation: i64,
    kind: String,
    request_fingerprint: String,
}

impl Store {
    /// Reserves an effect, or adopts the reservation of the same request. The record says which (`created`).
    pub fn reserve_effect(&self, state: &mut State, request: &ReserveEffect<'_>) -> Result<String> {
        let ReserveEffect { key, uid, claim, generation, kind, request_fingerprint, now } = *request;
        state.write(|tx| {
            let source = resources::require_by_uid(tx, uid)?;
            source.assert_live_claim(claim, now)?;
            if let Some(existing) = by_key(tx, uid, key, EffectRow::read)? {
                if existing.generation != generation
                    || existing.kind != kind
                    || existing.request_fingerprint != request_fingerprint
                {
                    return Err(Error::EffectRequestConflict { key: key.to_owned() });
                }
                return reservation(tx, uid, key, false);
            }
            let effect_id = ids::effect_id(&source.resource_id, key);
            let resource_id = ids::resource_id("effect", &effect_id);
            let revision = identities::create(tx, &resource_id, "effect", &effect_id, now)?;
            // in canonical order
            let payload = object(|payload| {
                payload.integer("generation", generation);
                payload.string("key", key);
                payload.string("kind", kind);
                payload.string("requestFingerprint", request_fingerprint);
                payload.string("resourceUid", uid);
            });
            let payload = tx.put_json(&payload, now)?;
            tx.execute(
                INSERT,
                params![effect_id, resource_id, source.resource_id, source.revision, kind, key, payload, now],
            )?;
            events::append_at(tx, revision, &effect_event(&resource_id, "effect.reserved", claim, now))?;
            reservation(tx, uid, key, true)
        })
    }

    /// An effect; `None` where none was reserved under this key.
    pub fn get_effect(&self, state: &State, uid: &str, key: &str) -> Result<Option<String>> {
        by_key(state.connection(), uid, key, record)
    }

    /// Stores the outcome of an effect. Each update replaces reference and error, and may change a settled outcome.
    pub fn update_effect(&self, state: &mut State, update: &UpdateEffect<'_>) -> Result<String> {
        let UpdateEffect { uid, key, claim, state: outcome, external_ref, error, now } = *update;
        state.write(|tx| {
            resources::require_by_uid(tx, uid)?.assert_live_claim(claim, now)?;
            let effect = require(tx, uid, key, EffectRow::read)?;
            let error = error.map(|error| tx.put_text(error, now)).transpose()?;
            let settled_at = (outcome != "pending").then_some(now);
            tx.execute(UPDATE, params![stored_state(outcome), external_ref, error, now, settled_at, effect.effect_id])?;
            let kind = format!("effect.{outcome}");
            events::append(tx, effect.revision, &effect_event(&effect.resource_id, &kind, claim, now))?;
            require(tx, uid, key, record)
        })
    }

    /// The effects of a resource, oldest first.
    pub fn list_effects(&self, state: &State, uid: &str) -> Result<String> {
        let mut list = Array::begin();
        for_each(state.connection(), LIST, [uid], |row| push_record(list.element(), row))?;
        Ok(list.end())
    }
}

impl EffectRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        Ok(Self {
            effect_id: row.get(0)?,
            resource_id: row.get(11)?,
            revision: row.get(12)?,
            generation: row.get(3)?,
            kind: row.get(4)?,
            request_fingerprint: optional_text(row, 6)?.unwrap_or_default().to_owned(),
        })
    }
}

fn effect_event<'a>(resource_id: &'a str, kind: &'a str, claim: &'a Claim, now: i64) -> NewEvent<'a> {
    NewEvent {
        resource_id,
        kind,
        actor: Actor::controller(&claim.owner_id),
        generation: Some(claim.generation),
        payload: NO_PAYLOAD,
        now,
    }
}

fn by_key<T>(
    connection: &Connection,
    uid: &str,
    key: &str,
    read: impl FnOnce(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    find(connection, BY_KEY, [uid, key], read)
}

fn require<T>(connection: &Connection, uid: &str, key: &str, read: impl FnOnce(&Row<'_>) -> Result<T>) -> Result<T> {
    by_key(connection, uid, key, read)?
        .ok_or_else(|| Refusal::EffectNotFound { uid: uid.to_owned(), key: key.to_owned() }.into())
}

fn reservation(tx: &Write<'_>, uid: &str, key: &str, created: bool) -> Result<String> {
    let record = require(tx, uid, key, record)?;
    Ok(records::reservation(&record, created))
}

fn record(row: &Row<'_>) -> Result<String> {
    records::one(|out| push_record(out, row))
}

/// Writes a row of `select_effects!` as an `EffectRecord`.
fn push_record(out: &mut String, row: &Row<'_>) -> Result<()> {
    let mut effect = Object::begin(out);
    effect.string("key", text(row, 1)?);
    effect.string("resourceUid", text(row, 2)?);
    effect.integer("generation", row.get(3)?);
    effect.string("kind", text(row, 4)?);
    effect.string("state", outside_state(text(row, 5)?));
    effect.nullable_string("requestFingerprint", optional_text(row, 6)?);
    effect.time("startedAt", row.get(7)?);
    effect.optional_time("completedAt", row.get(8)?);
    effect.optional_string("externalRef", optional_text(row, 9)?);
    effect.optional_string("error", optional_blob_text(row, 10)?);
    effect.end();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, json, text};
    use super::*;

    #[test]
    fn an_effect_is_reserved_once_and_refused_where_the_request_differs() {
        let mut world = World::new();
        let uid = text(&world.put("a", "1", 0)["metadata"], "uid");
        let claim = world.claim("w", 0, 10).unwrap();
        let mut request = ReserveEffect {
            key: "merge",
            uid: &uid,
            claim: &claim,
            generation: 1,
            kind: "github",
            request_fingerprint: "f",
            now: 1,
        };
        let first = json(world.store.reserve_effect(&mut world.state, &request));
        assert_eq!(first["created"], true);
        let again = json(world.store.reserve_effect(&mut world.state, &request));
        assert_eq!((&again["created"], &again["record"]), (&false.into(), &first["record"]));
        request.request_fingerprint = "g";
        let before = world.count("events");
        let other = world.store.reserve_effect(&mut world.state, &request);
        assert!(matches!(other, Err(Error::EffectRequestConflict { .. })));
        assert_eq!(world.count("events"), before);
    }

    #[test]
    fn an_indeterminate_outcome_is_stored_as_ambiguous() {
        let mut world = World::new();
        let uid = text(&world.put("a", "1", 0)["metadata"], "uid");
        let claim = world.claim("w", 0, 10).unwrap();
        let request = ReserveEffect {
            key: "e",
            uid: &uid,
            claim: &claim,
            generation: 1,
            kind: "k",
            request_fingerprint: "f",
            now: 1,
        };
        world.store.reserve_effect(&mut world.state, &request).unwrap();
        let update = UpdateEffect {
            uid: &uid,
            key: "e",
            claim: &claim,
            state: "indeterminate",
            external_ref: None,
            error: Some("timeout"),
            now: 2,
        };
        let effect = json(world.store.update_effect(&mut world.state, &update));
        assert_eq!((&effect["state"], &effect["error"]), (&"indeterminate".into(), &"timeout".into()));
        assert_eq!(world.count("effects WHERE status = 'ambiguous'"), 1);
    }
}
