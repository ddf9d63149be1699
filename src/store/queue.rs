//! The queue of the controllers: what is to be reconciled, from when on, and who has claimed it.

use rusqlite::{Connection, params};

use super::error::{Error, Refusal, Result};
use super::events::{self, Actor, NO_PAYLOAD, NewEvent};
use super::leases::{self, Claim, Grant};
use super::sets::OwnerType;
use super::{Store, resources};
use crate::state::json::{Array, Object, object};
use crate::state::{State, Write, find, for_each, text};

/// An item that is queued already keeps its earlier time, and its version tells the claim's holder that there is more to do.
const ENQUEUE: &str = "INSERT INTO controller_queue(controller_resource_id, available_at, queue_version,
    consecutive_errors, created_at, updated_at) VALUES (?1, ?2, 1, 0, ?3, ?3)
  ON CONFLICT(controller_resource_id) DO UPDATE SET
    available_at = min(available_at, excluded.available_at),
    queue_version = queue_version + 1,
    updated_at = excluded.updated_at";

const NEXT: &str = "SELECT c.resource_id, c.controller_name, c.resource_key, r.revision, l.generation,
    q.queue_version, q.consecutive_errors
  FROM controller_queue q
  JOIN controller_resources c ON c.controller_resource_id = q.controller_resource_id
  JOIN leases l ON l.resource_id = c.resource_id
  JOIN resources r ON r.resource_id = c.resource_id
  WHERE c.project_id = ?1
    AND c.controller_name IN (SELECT value FROM json_each(?2))
    AND q.available_at <= ?3
    AND (l.owner_id IS NULL OR l.expires_at <= ?3)
  ORDER BY q.available_at, c.controller_name, c.resource_key
  LIMIT 1";

const VERSION: &str = "SELECT queue_version FROM controller_queue WHERE controller_resource_id = ?";

const REMOVE: &str = "DELETE FROM controller_queue WHERE controller_resource_id = ?";

const REQUEUE: &str = "UPDATE controller_queue SET available_at = ?, queue_version = queue_version + 1,
    consecutive_errors = consecutive_errors + 1, last_error_hash = ?, updated_at = ?
  WHERE controller_resource_id = ?";

const LIST: &str = "SELECT c.controller_name, c.resource_key, q.available_at, q.consecutive_errors, l.expires_at
  FROM controller_queue q
  JOIN controller_resources c ON c.controller_resource_id = q.controller_resource_id
  JOIN leases l ON l.resource_id = c.resource_id
  WHERE c.project_id = ?
  ORDER BY q.available_at, c.controller_name, c.resource_key";

/// What to claim, for whom.
#[derive(Debug)]
pub struct ClaimNext<'a> {
    /// A JSON array of the controllers' names.
    pub controllers: &'a str,
    /// Who claims.
    pub owner_id: &'a str,
    /// The time.
    pub now: i64,
    /// When the claim lapses.
    pub expires_at: i64,
}

/// Puts an item back after a failure.
#[derive(Debug)]
pub struct Requeue<'a> {
    /// When it may be claimed again.
    pub available_at: i64,
    /// What went wrong.
    pub error: Option<&'a str>,
}

impl Store {
    /// Queues a resource, at once or at the given time.
    pub fn enqueue(&self, state: &mut State, controller: &str, key: &str, available_at: i64, now: i64) -> Result<()> {
        state.write(|tx| {
            let row = resources::require(tx, self.project.as_deref(), controller, key)?;
            enqueue(tx, &row.controller_resource_id, available_at, now)
        })
    }

    /// Claims what is due first and nobody holds; `None` where there is nothing.
    pub fn claim_next(&self, state: &mut State, options: &ClaimNext<'_>) -> Result<Option<String>> {
        let ClaimNext { controllers, owner_id, now, expires_at } = *options;
        state.write(|tx| {
            let project = self.require_project()?;
            let Some(due) = next(tx, project, controllers, now)? else { return Ok(None) };
            let (token, digest) = leases::new_token()?;
            let grant = Grant { owner_type: OwnerType::Controller, owner_id, token: digest, now, expires_at };
            let generation = leases::take(tx, &due.resource_id, due.generation, &grant)?;
            let event = NewEvent {
                resource_id: &due.resource_id,
                kind: "lease.claimed",
                actor: Actor::controller(owner_id),
                generation: Some(generation),
                payload: &format!(r#"{{"expiresAt":{expires_at}}}"#),
                now,
            };
            let appended = events::append(tx, due.revision, &event)?;
            Ok(Some(object(|claim| {
                claim.string("controller", &due.controller);
                claim.string("key", &due.key);
                claim.string("ownerId", owner_id);
                claim.string("token", &token);
                claim.integer("generation", generation);
                claim.integer("queueVersion", due.queue_version);
                claim.integer("resourceVersion", appended.revision);
                claim.integer("consecutiveErrors", due.consecutive_errors);
                claim.time("expiresAt", expires_at);
            })))
        })
    }

    /// Extends a claim that is still live; `false` where it has lapsed, was taken over, or its resource is gone.
    pub fn renew_claim(&self, state: &mut State, claim: &Claim, now: i64, expires_at: i64) -> Result<bool> {
        state.write(|tx| {
            let row = resources::by_key(tx, self.project.as_deref(), &claim.controller, &claim.key)?;
            match row {
                Some(row) if row.lease.is_held_by(claim) => {
                    leases::renew(tx, &row.resource_id, claim.generation, now, expires_at)
                }
                _ => Ok(false),
            }
        })
    }

    /// Ends a claim whose work is done. The item leaves the queue, unless it was queued again in the meantime.
    ///
    /// Gives the resource's new version; `None` where the claim no longer holds it. A lapsed claim that nobody has taken
    /// over still does.
    pub fn settle_claim(&self, state: &mut State, claim: &Claim, now: i64) -> Result<Option<i64>> {
        self.end_claim(state, claim, now, |tx, controller_resource_id, queue_version| {
            if queue_version == claim.queue_version {
                tx.execute(REMOVE, [controller_resource_id])?;
            }
            Ok(())
        })
    }

    /// Ends a claim whose work has failed: the item stays, counts one more error, and is available at the given time.
    ///
    /// Gives the resource's new version; `None` where the claim no longer holds it.
    pub fn requeue_claim(
        &self,
        state: &mut State,
        claim: &Claim,
        requeue: &Requeue<'_>,
        now: i64,
    ) -> Result<Option<i64>> {
        self.end_claim(state, claim, now, |tx, controller_resource_id, _| {
            let error = requeue.error.map(|error| tx.put_text(error, now)).transpose()?;
            tx.execute(REQUEUE, params![requeue.available_at, error, now, controller_resource_id])?;
            Ok(())
        })
    }

    fn end_claim(
        &self,
        state: &mut State,
        claim: &Claim,
        now: i64,
        change_queue: impl FnOnce(&Write<'_>, &str, i64) -> Result<()>,
    ) -> Result<Option<i64>> {
        state.write(|tx| {
            let row = match resources::by_key(tx, self.project.as_deref(), &claim.controller, &claim.key)? {
                Some(row) if row.assert_claim(claim).is_ok() => row,
                _ => return Ok(None),
            };
            change_queue(tx, &row.controller_resource_id, queue_version(tx, &row.controller_resource_id)?)?;
            leases::release(tx, &row.resource_id, claim.generation)?;
            let event = NewEvent {
                resource_id: &row.resource_id,
                kind: "lease.released",
                actor: Actor::controller(&claim.owner_id),
                generation: Some(claim.generation),
                payload: NO_PAYLOAD,
                now,
            };
            Ok(Some(events::append(tx, row.revision, &event)?.revision))
        })
    }

    /// The queue of the project, in the order in which it is claimed; claimed items included.
    pub fn list_queue(&self, state: &State) -> Result<String> {
        let mut list = Array::begin();
        for_each(state.connection(), LIST, [self.require_project()?], |row| {
            let mut item = Object::begin(list.element());
            item.string("controller", text(row, 0)?);
            item.string("key", text(row, 1)?);
            item.time("availableAt", row.get(2)?);
            item.integer("consecutiveErrors", row.get(3)?);
            item.optional_time("claimExpiresAt", row.get(4)?);
            item.end();
            Ok::<_, Error>(())
        })?;
        Ok(list.end())
    }
}

/// Queues a resource, or moves it forward in the queue.
pub(super) fn enqueue(tx: &Write<'_>, controller_resource_id: &str, available_at: i64, now: i64) -> Result<()> {
    tx.execute(ENQUEUE, params![controller_resource_id, available_at, now])?;
    Ok(())
}

struct Due {
    resource_id: String,
    controller: String,
    key: String,
    revision: i64,
    generation: i64,
    queue_version: i64,
    consecutive_errors: i64,
}

fn next(connection: &Connection, project: &str, controllers: &str, now: i64) -> Result<Option<Due>> {
    find(connection, NEXT, params![project, controllers, now], |row| {
        Ok(Due {
            resource_id: row.get(0)?,
            controller: row.get(1)?,
            key: row.get(2)?,
            revision: row.get(3)?,
            generation: row.get(4)?,
            queue_version: row.get(5)?,
            consecutive_errors: row.get(6)?,
        })
    })
}

fn queue_version(connection: &Connection, controller_resource_id: &str) -> Result<i64> {
    find(connection, VERSION, [controller_resource_id], |row| Ok::<_, Error>(row.get(0)?))?
        .ok_or_else(|| Refusal::QueueItemMissing.into())
}

#[cfg(test)]
mod tests {
    use super::super::testing::World;
    use super::*;

    #[test]
    fn what_is_due_first_is_claimed_first_and_once() {
        let mut world = World::new();
        for (key, now) in [("late", 9), ("b", 1), ("a", 1)] {
            world.put(key, "1", now);
        }
        let keys: Vec<_> = (0..3).map(|_| world.claim("w", 5, 100).map(|claim| claim.key)).collect();
        assert_eq!(keys, [Some("a".to_owned()), Some("b".to_owned()), None]);
    }

    #[test]
    fn a_lapsed_claim_is_taken_over_and_fenced_off() {
        let mut world = World::new();
        world.put("a", "1", 0);
        let old = world.claim("one", 0, 10).unwrap();
        assert!(world.store.renew_claim(&mut world.state, &old, 9, 20).unwrap());
        assert!(world.claim("two", 19, 10).is_none(), "renewed until 20");
        let new = world.claim("two", 20, 10).unwrap();
        assert!(new.generation > old.generation);
        assert!(!world.store.renew_claim(&mut world.state, &old, 21, 99).unwrap());
        assert_eq!(world.store.settle_claim(&mut world.state, &old, 21).unwrap(), None);
        assert!(world.store.settle_claim(&mut world.state, &new, 99).unwrap().is_some(), "lapsed, but not taken over");
        assert_eq!(world.count("controller_queue"), 0);
    }

    #[test]
    fn work_that_came_in_meanwhile_stays_queued() {
        let mut world = World::new();
        world.put("a", "1", 0);
        let claim = world.claim("w", 0, 10).unwrap();
        world.store.enqueue(&mut world.state, "jobs", "a", 1, 1).unwrap();
        assert!(world.store.settle_claim(&mut world.state, &claim, 2).unwrap().is_some());
        assert_eq!(world.count("controller_queue"), 1);
    }

    #[test]
    fn a_failure_counts_and_delays() {
        let mut world = World::new();
        world.put("a", "1", 0);
        let claim = world.claim("w", 0, 10).unwrap();
        let requeue = Requeue { available_at: 50, error: Some("no") };
        assert!(world.store.requeue_claim(&mut world.state, &claim, &requeue, 1).unwrap().is_some());
        assert!(world.claim("w", 49, 10).is_none());
        let again = world.claim("w", 50, 10).unwrap();
        assert_eq!(again.queue_version, 2);
        assert_eq!(world.count("controller_queue WHERE consecutive_errors = 1"), 1);
    }
}
