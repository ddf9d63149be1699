//! Controller resources: what should be (spec), what is (status), and the finalizers that hold back a deletion.

use std::collections::HashSet;

use rusqlite::{Connection, Row, params};

use super::error::{Error, Refusal, Result};
use super::events::{self, Actor, NO_PAYLOAD, NewEvent};
use super::leases::{self, Claim, Lease, lease_columns};
use super::{Store, identities, queue, records};
use crate::state::ids::Digest;
use crate::state::json::{Array, Object};
use crate::state::{State, Write, find, for_each, ids, json_column, optional_text, text};

macro_rules! select_record {
    ($clause:literal) => {
        concat!(
            "SELECT c.uid, c.controller_name, c.resource_key, r.revision, c.generation, c.deletion_requested_at,
               (SELECT json_group_array(f.finalizer ORDER BY f.position) FROM controller_finalizers f
                WHERE f.controller_resource_id = c.controller_resource_id),
               spec.content, status.content, c.spec_hash
             FROM controller_resources c
             JOIN resources r ON r.resource_id = c.resource_id
             LEFT JOIN blobs spec ON spec.blob_hash = c.spec_hash AND spec.media_type = 'application/json'
             LEFT JOIN blobs status ON status.blob_hash = c.status_hash AND status.media_type = 'application/json' ",
            $clause
        )
    };
}

const RECORD_BY_KEY: &str = select_record!("WHERE c.project_id = ? AND c.controller_name = ? AND c.resource_key = ?");
const RECORD_BY_UID: &str = select_record!("WHERE c.uid = ?");
const RECORD_BY_ID: &str = select_record!("WHERE c.controller_resource_id = ?");

const LIST: &str = select_record!("ORDER BY c.controller_name, c.resource_key");
const LIST_OF_CONTROLLER: &str =
    select_record!("WHERE c.controller_name = ? ORDER BY c.controller_name, c.resource_key");
const LIST_OF_PROJECT: &str = select_record!("WHERE c.project_id = ? ORDER BY c.controller_name, c.resource_key");
const LIST_OF_PROJECT_AND_CONTROLLER: &str =
    select_record!("WHERE c.project_id = ? AND c.controller_name = ? ORDER BY c.controller_name, c.resource_key");

macro_rules! select_row {
    ($clause:literal) => {
        concat!(
            "SELECT c.controller_resource_id, c.resource_id, c.controller_name, c.resource_key, c.generation,
               c.spec_hash, c.deletion_requested_at, r.revision, ",
            lease_columns!("l"),
            " FROM controller_resources c
             JOIN resources r ON r.resource_id = c.resource_id
             JOIN leases l ON l.resource_id = c.resource_id ",
            $clause
        )
    };
}

const ROW_BY_KEY: &str = select_row!("WHERE c.project_id = ? AND c.controller_name = ? AND c.resource_key = ?");
const ROW_BY_UID: &str = select_row!("WHERE c.uid = ?");

const INSERT: &str = "INSERT INTO controller_resources(controller_resource_id, resource_id, project_id,
    controller_name, resource_key, uid, generation, spec_hash, status_hash, created_at, updated_at)
  VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?)";

const UPDATE_SPEC: &str = "UPDATE controller_resources SET spec_hash = ?, generation = generation + 1, updated_at = ?
  WHERE controller_resource_id = ?";

const UPDATE_STATUS: &str =
    "UPDATE controller_resources SET status_hash = ?, updated_at = ? WHERE controller_resource_id = ?";

const REQUEST_DELETION: &str =
    "UPDATE controller_resources SET deletion_requested_at = ?, updated_at = ? WHERE controller_resource_id = ?";

const TOUCH: &str = "UPDATE controller_resources SET updated_at = ? WHERE controller_resource_id = ?";

const DELETE: &str = "DELETE FROM controller_resources WHERE controller_resource_id = ?";

const DELETE_FINALIZERS: &str = "DELETE FROM controller_finalizers WHERE controller_resource_id = ?";

const INSERT_FINALIZER: &str =
    "INSERT INTO controller_finalizers(controller_resource_id, finalizer, position) VALUES (?, ?, ?)";

const HAS_FINALIZERS: &str = "SELECT EXISTS (SELECT 1 FROM controller_finalizers WHERE controller_resource_id = ?)";

/// The effects of a former life of the same key: a new uid starts without any.
const DELETE_FORMER_EFFECTS: &str = "DELETE FROM effects WHERE source_resource_id = ?";

/// What a write method has to know of a resource.
#[derive(Debug)]
pub(super) struct ResourceRow {
    pub(super) controller_resource_id: String,
    pub(super) resource_id: String,
    pub(super) controller: String,
    pub(super) key: String,
    pub(super) generation: i64,
    pub(super) spec_hash: Vec<u8>,
    pub(super) deletion_requested: bool,
    pub(super) revision: i64,
    pub(super) lease: Lease,
}

impl ResourceRow {
    fn read(row: &Row<'_>) -> Result<Self> {
        Ok(Self {
            controller_resource_id: row.get(0)?,
            resource_id: row.get(1)?,
            controller: row.get(2)?,
            key: row.get(3)?,
            generation: row.get(4)?,
            spec_hash: row.get(5)?,
            deletion_requested: row.get::<_, Option<i64>>(6)?.is_some(),
            revision: row.get(7)?,
            lease: Lease::read(row, 8)?,
        })
    }

    /// Refuses a claim on another resource, and one that does not hold this one, be it expired or not.
    pub(super) fn assert_claim(&self, claim: &Claim) -> Result<()> {
        if self.controller != claim.controller || self.key != claim.key {
            return Err(Refusal::ClaimElsewhere.into());
        }
        if self.lease.is_held_by(claim) { Ok(()) } else { Err(Refusal::ClaimStale.into()) }
    }

    /// Refuses an expired claim, too.
    pub(super) fn assert_live_claim(&self, claim: &Claim, now: i64) -> Result<()> {
        self.assert_claim(claim)?;
        if self.lease.live(now).is_some() { Ok(()) } else { Err(Refusal::ClaimStale.into()) }
    }

    fn assert_version(&self, expected: i64) -> Result<()> {
        if self.revision == expected {
            return Ok(());
        }
        Err(Error::ResourceConflict { controller: self.controller.clone(), key: self.key.clone() })
    }
}

/// The row of a resource in a project; `None` where there is none, or no project.
pub(super) fn by_key(
    connection: &Connection,
    project: Option<&str>,
    controller: &str,
    key: &str,
) -> Result<Option<ResourceRow>> {
    let Some(project) = project else { return Ok(None) };
    find(connection, ROW_BY_KEY, [project, controller, key], ResourceRow::read)
}

/// The row of a resource that must exist.
pub(super) fn require(
    connection: &Connection,
    project: Option<&str>,
    controller: &str,
    key: &str,
) -> Result<ResourceRow> {
    by_key(connection, project, controller, key)?.ok_or_else(|| not_found(controller, key))
}

/// The row of a resource that must exist, by its uid, in whichever project.
pub(super) fn require_by_uid(connection: &Connection, uid: &str) -> Result<ResourceRow> {
    find(connection, ROW_BY_UID, [uid], ResourceRow::read)?.ok_or_else(|| Refusal::UidNotFound(uid.to_owned()).into())
}

fn not_found(controller: &str, key: &str) -> Error {
    Error::ResourceNotFound { controller: controller.to_owned(), key: key.to_owned() }
}

/// A resource as it should be.
#[derive(Debug)]
pub struct PutResource<'a> {
    /// The controller's name.
    pub controller: &'a str,
    /// The resource's key.
    pub key: &'a str,
    /// Canonical JSON.
    pub spec: &'a str,
    /// Canonical JSON of the status that a new resource starts with.
    pub status: &'a str,
    /// The time.
    pub now: i64,
}

/// A status that a controller reports under its claim.
#[derive(Debug)]
pub struct UpdateStatus<'a> {
    /// The controller's name.
    pub controller: &'a str,
    /// The resource's key.
    pub key: &'a str,
    /// The version that the status was made from.
    pub expected_version: i64,
    /// The claim that holds the resource.
    pub claim: &'a Claim,
    /// Canonical JSON.
    pub status: &'a str,
    /// The finalizers from now on; `None` leaves them as they are.
    pub finalizers: Option<&'a [String]>,
    /// The time.
    pub now: i64,
}

impl Store {
    /// Creates a resource, or changes its spec. The same spec again changes nothing, whatever the status says.
    ///
    /// A new one, and one whose spec has changed, is queued at `now`.
    pub fn put_resource(&self, state: &mut State, put: &PutResource<'_>) -> Result<String> {
        let spec = Digest::of(put.spec);
        // read first: putting what is there already must not wait for a writer
        if let Some(record) = self.unchanged(state.connection(), put, spec)? {
            return Ok(record);
        }
        state.write(|tx| {
            let id = match by_key(tx, self.project.as_deref(), put.controller, put.key)? {
                None => create(tx, self.require_project()?, put)?,
                Some(row) => {
                    if row.spec_hash != spec.0 {
                        change_spec(tx, &row, put)?;
                    }
                    row.controller_resource_id
                }
            };
            record_by_id(tx, &id)
        })
    }

    fn unchanged(&self, connection: &Connection, put: &PutResource<'_>, spec: Digest) -> Result<Option<String>> {
        let project = self.require_project()?;
        find(connection, RECORD_BY_KEY, [project, put.controller, put.key], |row| {
            let same = row.get_ref(9)?.as_bytes().is_ok_and(|stored| stored == spec.0);
            same.then(|| record(row)).transpose()
        })
        .map(Option::flatten)
    }

    /// A resource; `None` where there is none in this project.
    pub fn get_resource(&self, state: &State, controller: &str, key: &str) -> Result<Option<String>> {
        let Some(project) = self.project.as_deref() else { return Ok(None) };
        find(state.connection(), RECORD_BY_KEY, [project, controller, key], record)
    }

    /// A resource by its uid, in whichever project; `None` where there is none.
    pub fn get_resource_by_uid(&self, state: &State, uid: &str) -> Result<Option<String>> {
        find(state.connection(), RECORD_BY_UID, [uid], record)
    }

    /// The resources of the project, of one controller or of all, by controller and key.
    pub fn list_resources(&self, state: &State, controller: Option<&str>) -> Result<String> {
        let connection = state.connection();
        let mut list = Array::begin();
        let push = |row: &Row<'_>| push_record(list.element(), row);
        match (self.project.as_deref(), controller) {
            (None, None) => for_each(connection, LIST, [], push),
            (None, Some(controller)) => for_each(connection, LIST_OF_CONTROLLER, [controller], push),
            (Some(project), None) => for_each(connection, LIST_OF_PROJECT, [project], push),
            (Some(project), Some(controller)) => {
                for_each(connection, LIST_OF_PROJECT_AND_CONTROLLER, [project, controller], push)
            }
        }?;
        Ok(list.end())
    }

    /// Stores the status that a claim's holder reports, with new finalizers where given, and moves the version along.
    pub fn update_status(&self, state: &mut State, update: &UpdateStatus<'_>) -> Result<String> {
        let UpdateStatus { controller, key, expected_version, claim, status, finalizers, now } = *update;
        state.write(|tx| {
            let row = require(tx, self.project.as_deref(), controller, key)?;
            row.assert_live_claim(claim, now)?;
            row.assert_version(expected_version)?;
            let status = tx.put_json(status, now)?;
            tx.execute(UPDATE_STATUS, params![status, now, row.controller_resource_id])?;
            if let Some(finalizers) = finalizers {
                replace_finalizers(tx, &row.controller_resource_id, finalizers)?;
            }
            let event = NewEvent {
                resource_id: &row.resource_id,
                kind: "resource.status_updated",
                actor: Actor::controller(&claim.owner_id),
                generation: Some(claim.generation),
                payload: NO_PAYLOAD,
                now,
            };
            events::append(tx, row.revision, &event)?;
            record_by_id(tx, &row.controller_resource_id)
        })
    }

    /// Marks a resource for deletion and queues it. One that is marked already keeps its mark.
    pub fn request_deletion(&self, state: &mut State, controller: &str, key: &str, now: i64) -> Result<String> {
        state.write(|tx| {
            let row = require(tx, self.project.as_deref(), controller, key)?;
            if !row.deletion_requested {
                tx.execute(REQUEST_DELETION, params![now, now, row.controller_resource_id])?;
                queue::enqueue(tx, &row.controller_resource_id, now, now)?;
                control_event(tx, &row, "resource.deletion_requested", NO_PAYLOAD, now)?;
            }
            record_by_id(tx, &row.controller_resource_id)
        })
    }

    /// Replaces the finalizers of a resource that is still at the expected version.
    pub fn update_finalizers(
        &self,
        state: &mut State,
        controller: &str,
        key: &str,
        expected_version: i64,
        finalizers: &[String],
        now: i64,
    ) -> Result<String> {
        state.write(|tx| {
            let row = require(tx, self.project.as_deref(), controller, key)?;
            row.assert_version(expected_version)?;
            replace_finalizers(tx, &row.controller_resource_id, finalizers)?;
            tx.execute(TOUCH, params![now, row.controller_resource_id])?;
            control_event(tx, &row, "resource.finalizers_updated", NO_PAYLOAD, now)?;
            record_by_id(tx, &row.controller_resource_id)
        })
    }

    /// Removes a resource that is marked for deletion and has no finalizers left; `false` where it is not ready for that.
    ///
    /// Its identity stays, with its events, its version and its fencing generation. The claim ends with it.
    pub fn delete_resource(
        &self,
        state: &mut State,
        controller: &str,
        key: &str,
        expected_version: i64,
        claim: &Claim,
        now: i64,
    ) -> Result<bool> {
        state.write(|tx| {
            let row = require(tx, self.project.as_deref(), controller, key)?;
            row.assert_live_claim(claim, now)?;
            row.assert_version(expected_version)?;
            if !row.deletion_requested || has_finalizers(tx, &row.controller_resource_id)? {
                return Ok(false);
            }
            let event = NewEvent {
                resource_id: &row.resource_id,
                kind: "resource.deleted",
                actor: Actor::controller(&claim.owner_id),
                generation: Some(claim.generation),
                payload: NO_PAYLOAD,
                now,
            };
            events::append(tx, row.revision, &event)?;
            tx.execute(DELETE, [&row.controller_resource_id])?;
            leases::release(tx, &row.resource_id, claim.generation)
        })
    }
}

/// Creates a resource. Where its key was used before, it adopts that identity: version and fencing generation go on.
fn create(tx: &Write<'_>, project: &str, put: &PutResource<'_>) -> Result<String> {
    let PutResource { controller, key, spec, status, now } = *put;
    let id = ids::random_id("controller-resource")?;
    let resource_id = ids::resource_id("controller", &format!("{project}:{controller}:{key}"));
    let revision = identities::create(tx, &resource_id, "controller", &id, now)?;
    if revision > 1 {
        tx.execute(DELETE_FORMER_EFFECTS, [&resource_id])?;
    }
    let (spec, status) = (tx.put_json(spec, now)?, tx.put_json(status, now)?);
    let uid = ids::random_uuid()?;
    tx.execute(INSERT, params![id, resource_id, project, controller, key, uid, spec, status, now, now])?;
    queue::enqueue(tx, &id, now, now)?;
    let event = NewEvent {
        resource_id: &resource_id,
        kind: "resource.created",
        actor: Actor::CONTROL,
        generation: None,
        payload: r#"{"generation":1}"#,
        now,
    };
    events::append_at(tx, revision, &event)?;
    Ok(id)
}

fn change_spec(tx: &Write<'_>, row: &ResourceRow, put: &PutResource<'_>) -> Result<()> {
    let spec = tx.put_json(put.spec, put.now)?;
    tx.execute(UPDATE_SPEC, params![spec, put.now, row.controller_resource_id])?;
    queue::enqueue(tx, &row.controller_resource_id, put.now, put.now)?;
    let payload = format!(r#"{{"generation":{}}}"#, row.generation + 1);
    control_event(tx, row, "resource.spec_updated", &payload, put.now)
}

fn control_event(tx: &Write<'_>, row: &ResourceRow, kind: &str, payload: &str, now: i64) -> Result<()> {
    let event = NewEvent { resource_id: &row.resource_id, kind, actor: Actor::CONTROL, generation: None, payload, now };
    events::append(tx, row.revision, &event)?;
    Ok(())
}

fn replace_finalizers(tx: &Write<'_>, controller_resource_id: &str, finalizers: &[String]) -> Result<()> {
    let unique: HashSet<&String> = finalizers.iter().collect();
    if unique.len() != finalizers.len() {
        return Err(Refusal::FinalizersNotUnique.into());
    }
    tx.execute(DELETE_FINALIZERS, [controller_resource_id])?;
    for (position, finalizer) in (0_i64..).zip(finalizers) {
        tx.execute(INSERT_FINALIZER, params![controller_resource_id, finalizer, position])?;
    }
    Ok(())
}

fn has_finalizers(connection: &Connection, controller_resource_id: &str) -> Result<bool> {
    let found = find(connection, HAS_FINALIZERS, [controller_resource_id], |row| Ok::<_, Error>(row.get(0)?))?;
    Ok(found == Some(true))
}

fn record_by_id(connection: &Connection, controller_resource_id: &str) -> Result<String> {
    find(connection, RECORD_BY_ID, [controller_resource_id], record)?
        .ok_or_else(|| Refusal::UidNotFound(controller_resource_id.to_owned()).into())
}

fn record(row: &Row<'_>) -> Result<String> {
    records::one(|out| push_record(out, row))
}

/// Writes a row of `select_record!` as a `ControllerResource`.
fn push_record(out: &mut String, row: &Row<'_>) -> Result<()> {
    let mut resource = Object::begin(out);
    let mut metadata = Object::begin(resource.key("metadata"));
    metadata.string("uid", text(row, 0)?);
    metadata.string("controller", text(row, 1)?);
    metadata.string("key", text(row, 2)?);
    metadata.integer("resourceVersion", row.get(3)?);
    metadata.integer("generation", row.get(4)?);
    metadata.optional_time("deletionTimestamp", row.get(5)?);
    metadata.raw("finalizers", optional_text(row, 6)?.unwrap_or("[]"));
    metadata.end();
    resource.raw("spec", json_column(row, 7)?);
    resource.raw("status", json_column(row, 8)?);
    resource.end();
    Ok(())
}

/// The status that a new resource starts with, as canonical JSON around the controller's own part of it.
#[must_use]
pub fn initial_status(controller_status: &str) -> String {
    format!(r#"{{"conditions":[],"controllerStatus":{controller_status},"observedGeneration":0}}"#)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, json};
    use super::*;

    #[test]
    fn the_same_spec_again_changes_nothing_and_takes_no_lock() {
        let mut world = World::new();
        let first = world.put("a", r#"{"v":1}"#, 1);
        let mut rival = world.rival();
        rival
            .write(|_| {
                // a writer is at work: an unchanged put does not wait for it
                assert_eq!(world.put("a", r#"{"v":1}"#, 2), first);
                Ok::<_, Error>(())
            })
            .unwrap();
        assert_eq!(world.count("events"), 1);
    }

    #[test]
    fn a_changed_spec_makes_a_generation_and_a_version() {
        let mut world = World::new();
        world.put("a", r#"{"v":1}"#, 1);
        let second = world.put("a", r#"{"v":2}"#, 2);
        assert_eq!(
            (second["metadata"]["generation"].as_i64(), second["metadata"]["resourceVersion"].as_i64()),
            (Some(2), Some(2))
        );
        assert_eq!(world.count("events"), 2);
    }

    #[test]
    fn a_key_that_is_used_again_goes_on_counting() {
        let mut world = World::new();
        let first = world.put("a", "1", 1);
        world.store.request_deletion(&mut world.state, "jobs", "a", 2).unwrap();
        let claim = world.claim("w", 3, 10).unwrap();
        assert!(world.store.delete_resource(&mut world.state, "jobs", "a", 3, &claim, 3).unwrap());
        assert_eq!(world.store.get_resource(&world.state, "jobs", "a").unwrap(), None);
        let second = world.put("a", "1", 4);
        assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
        assert_eq!(second["metadata"]["resourceVersion"], 5);
        assert_eq!(world.claim("w", 4, 10).unwrap().generation, claim.generation + 1);
    }

    #[test]
    fn a_refused_status_leaves_nothing_behind() {
        let mut world = World::new();
        world.put("a", "1", 1);
        let claim = world.claim("w", 1, 10).unwrap();
        let before = (world.count("blobs"), world.count("events"));
        let mut update = UpdateStatus {
            controller: "jobs",
            key: "a",
            expected_version: 2,
            claim: &claim,
            status: r#""unseen""#,
            finalizers: Some(&["x".to_owned(), "x".to_owned()]),
            now: 2,
        };
        let refused = world.store.update_status(&mut world.state, &update);
        assert!(matches!(refused, Err(Error::Refused(Refusal::FinalizersNotUnique))));
        update.now = 11;
        let lapsed = world.store.update_status(&mut world.state, &update);
        assert!(matches!(lapsed, Err(Error::Refused(Refusal::ClaimStale))));
        assert_eq!((world.count("blobs"), world.count("events")), before);
    }

    #[test]
    fn finalizers_keep_their_order_and_hold_back_a_deletion() {
        let mut world = World::new();
        world.put("a", "1", 1);
        let names = ["z".to_owned(), "\u{e9}\"".to_owned()];
        let resource = json(world.store.update_finalizers(&mut world.state, "jobs", "a", 1, &names, 2));
        assert_eq!(resource["metadata"]["finalizers"], serde_json::json!(names));
        world.store.request_deletion(&mut world.state, "jobs", "a", 3).unwrap();
        let claim = world.claim("w", 3, 10).unwrap();
        assert!(!world.store.delete_resource(&mut world.state, "jobs", "a", 4, &claim, 3).unwrap());
    }
}
