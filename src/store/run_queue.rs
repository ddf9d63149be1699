//! The queue of runs: claiming one, starting, renewing, parking and ending it.
//!
//! `docs/run-queue.md` draws the states and the methods that lead from one to the next.

use rusqlite::{Connection, params};

use super::Store;
use super::error::{Error, Refusal, Result};
use super::events::{self, Actor, NewEvent};
use super::leases::{self, Grant, Held};
use super::run_state::{self, Ended};
use super::runs::{self, ReserveRun, RunRow};
use super::sets::{OwnerType, QueueStatus};
use crate::state::ids::Digest;
use crate::state::json::{object, push_string};
use crate::state::{State, Write, find, json_column, optional_bytes};

macro_rules! select_next {
    ($whose:literal) => {
        concat!(
            "SELECT q.run_id
             FROM run_queue q
             JOIN runs r ON r.run_id = q.run_id
             JOIN leases l ON l.resource_id = r.resource_id
             LEFT JOIN run_bindings b ON b.run_id = q.run_id
             WHERE q.status IN ('queued', 'starting', 'running', 'parked')
               AND q.available_at <= ?2
               AND r.project_id = ?1
               AND (l.owner_id IS NULL OR l.expires_at <= ?2 OR l.owner_id = ?3)
               AND (q.affinity_runner_id IS NULL OR q.affinity_runner_id = ?3 OR q.status <> 'queued')
               AND r.run_id NOT IN (SELECT value FROM json_each(?4))
               AND (q.status <> 'parked' OR NOT EXISTS (
                 SELECT 1 FROM run_queue busy
                 WHERE busy.origin_session_id = q.origin_session_id
                   AND busy.status IN ('queued', 'starting', 'running')))
               AND ",
            $whose,
            " ORDER BY q.available_at, q.created_at LIMIT 1"
        )
    };
}

/// The next run of a session.
const NEXT_OF_SESSION: &str = select_next!("b.origin_session_id = ?5");

/// The next run that needs no session: a headless one, or one that was started before.
const NEXT_OF_ANYBODY: &str = select_next!("(b.execution_mode = 'headless' OR q.status <> 'queued') AND ?5 IS NULL");

const START: &str = "UPDATE run_queue SET status = 'starting', updated_at = ? WHERE run_id = ?";

const RUN: &str = "UPDATE run_queue SET status = 'running', started_at = COALESCE(started_at, ?1), updated_at = ?1
  WHERE run_id = ?2";

const LEAVE: &str = "UPDATE run_queue SET status = ?, updated_at = ?, finished_at = ? WHERE run_id = ?";

const END: &str =
    "UPDATE run_queue SET status = ?1, error_code = ?2, error_hash = ?3, updated_at = ?4, finished_at = ?4
  WHERE run_id = ?5";

const END_RUN: &str =
    "UPDATE runs SET status = ?1, output_hash = ?2, error_hash = ?3, updated_at = ?4, finished_at = ?4
  WHERE run_id = ?5";

const PROJECTION: &str = "SELECT r.output_hash, state.content FROM runs r
  LEFT JOIN blobs state ON state.blob_hash = r.output_hash AND state.media_type = 'application/json'
  WHERE r.run_id = ?";

/// What a cancelled run says of itself; needs no escapes in JSON.
const CANCELLED_MESSAGE: &str = "Workflow run cancelled";

/// What somebody needs to claim a run.
#[derive(Debug)]
pub struct RunClaim<'a> {
    /// Who claims.
    pub runner_id: &'a str,
    /// The token by which the claim is known from now on.
    pub token: &'a str,
    /// The time.
    pub now: i64,
    /// When the claim lapses.
    pub expires_at: i64,
}

/// How a run ends without having been completed.
#[derive(Debug)]
pub struct EndRun<'a> {
    /// The token of the claim; `None` for a run that nobody owns.
    pub token: Option<Digest>,
    /// A code for programs.
    pub code: &'a str,
    /// A message for people.
    pub error: &'a str,
    /// The message as a JSON string.
    pub error_json: &'a str,
    /// The time.
    pub now: i64,
}

impl Store {
    /// Claims a run, which is starting then. `None` where it does not exist, has ended, or somebody else holds it.
    ///
    /// Whoever holds it already claims it anew, under a new token.
    pub fn claim_run(&self, state: &mut State, run_id: &str, claim: &RunClaim<'_>) -> Result<Option<String>> {
        state.write(|tx| claim_one(tx, run_id, claim))
    }

    /// Reserves a run where it is new, and claims it.
    pub fn enqueue_run(&self, state: &mut State, run: &ReserveRun<'_>, claim: &RunClaim<'_>) -> Result<String> {
        state.write(|tx| {
            if runs::by_id(tx, run.run_id)?.is_none() {
                self.reserve(tx, run)?;
            }
            claim_one(tx, run.run_id, claim)?.ok_or_else(|| Refusal::RunNotClaimable(run.run_id.to_owned()).into())
        })
    }

    /// Claims the run that is due first: of a session, or, without one, any that is headless or was started before.
    ///
    /// A run whose session has another one queued, starting or running is passed over. `exclude` is a JSON array of ids.
    pub fn claim_next_run(
        &self,
        state: &mut State,
        session_id: Option<&str>,
        exclude: &str,
        claim: &RunClaim<'_>,
    ) -> Result<Option<String>> {
        let sql = if session_id.is_some() { NEXT_OF_SESSION } else { NEXT_OF_ANYBODY };
        state.write(|tx| {
            let project = self.require_project()?;
            let params = params![project, claim.now, claim.runner_id, exclude, session_id];
            match find(tx, sql, params, |row| Ok::<_, Error>(row.get::<_, String>(0)?))? {
                Some(run_id) => claim_one(tx, &run_id, claim),
                None => Ok(None),
            }
        })
    }

    /// Marks a claimed run as running; `false` where the token does not hold it.
    pub fn mark_run_running(&self, state: &mut State, run_id: &str, token: &Digest, now: i64) -> Result<bool> {
        state.write(|tx| {
            let Some(row) = runs::by_id(tx, run_id)? else { return Ok(false) };
            let Some(held) = row.lease.live_with_token(token, now) else { return Ok(false) };
            tx.execute(RUN, params![now, run_id])?;
            queue_event(tx, &row, Some(held), QueueStatus::Running, now)?;
            Ok(true)
        })
    }

    /// Extends the claim on a run; `false` where the token does not hold it any more.
    pub fn renew_run_claim(
        &self,
        state: &mut State,
        run_id: &str,
        token: &Digest,
        now: i64,
        expires_at: i64,
    ) -> Result<bool> {
        state.write(|tx| match runs::by_id(tx, run_id)? {
            Some(row) if row.lease.live_with_token(token, now).is_some() => {
                leases::renew(tx, &row.resource_id, row.lease.generation, now, expires_at)
            }
            _ => Ok(false),
        })
    }

    /// Whether the token holds a run at `now`.
    pub fn verify_run_claim(&self, state: &State, run_id: &str, token: &Digest, now: i64) -> Result<bool> {
        let row = runs::by_id(state.connection(), run_id)?;
        Ok(row.is_some_and(|row| row.lease.live_with_token(token, now).is_some()))
    }

    /// In whose name the holder of the token may act; `None` where the token does not hold the run.
    pub fn run_authority(&self, state: &State, run_id: &str, token: &str, now: i64) -> Result<Option<String>> {
        let Some(row) = runs::by_id(state.connection(), run_id)? else { return Ok(None) };
        let Some(held) = row.lease.live_with_token(&Digest::of(token), now) else { return Ok(None) };
        let owner_type = OwnerType::of_runner(&held.owner_id).as_str();
        Ok(Some(object(|authority| {
            let actor = object(|actor| {
                actor.string("type", owner_type);
                actor.string("id", &held.owner_id);
            });
            authority.raw("actor", &actor);
            authority.string("ownerType", owner_type);
            authority.string("ownerId", &held.owner_id);
            authority.string("token", token);
            authority.integer("generation", row.lease.generation);
        })))
    }

    /// Puts a claimed run aside, free for whoever claims it next; `false` where the token does not hold it.
    pub fn park_run(&self, state: &mut State, run_id: &str, token: &Digest, now: i64) -> Result<bool> {
        leave(state, run_id, token, QueueStatus::Parked, now)
    }

    /// Ends a claimed run as done; `false` where the token does not hold it.
    pub fn complete_run(&self, state: &mut State, run_id: &str, token: &Digest, now: i64) -> Result<bool> {
        leave(state, run_id, token, QueueStatus::Done, now)
    }

    /// Ends a run as failed; `false` where it has ended, where the token does not hold it, or, without one, where
    /// somebody holds it or it was started before.
    pub fn fail_run(&self, state: &mut State, run_id: &str, end: &EndRun<'_>) -> Result<bool> {
        self.end_run(state, run_id, QueueStatus::Failed, end)
    }

    /// Ends a run as cancelled; `false` as in [`Self::fail_run`].
    pub fn cancel_run(&self, state: &mut State, run_id: &str, token: Option<Digest>, now: i64) -> Result<bool> {
        let error_json = format!("\"{CANCELLED_MESSAGE}\"");
        let end = EndRun { token, code: "cancelled", error: CANCELLED_MESSAGE, error_json: &error_json, now };
        self.end_run(state, run_id, QueueStatus::Cancelled, &end)
    }

    fn end_run(&self, state: &mut State, run_id: &str, status: QueueStatus, end: &EndRun<'_>) -> Result<bool> {
        state.write(|tx| {
            let Some(row) = runs::by_id(tx, run_id)?.filter(|row| !row.status.is_terminal()) else { return Ok(false) };
            if !may_end(&row, end) {
                return Ok(false);
            }
            let (error, now) = (tx.put_text(end.error, end.now)?, end.now);
            let ended = Ended { status: status.as_str(), error: end.error_json, revision: row.revision + 1, now };
            let projection = tx.put_json(&run_state::ended(run_id, &projection(tx, run_id)?, &ended)?, now)?;
            tx.execute(END, params![status, end.code, error, now, run_id])?;
            if end.token.is_some() {
                leases::release(tx, &row.resource_id, row.lease.generation)?;
            }
            tx.execute(END_RUN, params![status, projection, error, now, run_id])?;
            // in canonical order
            let payload = object(|payload| {
                payload.string("code", end.code);
                payload.raw("error", end.error_json);
                payload.string("status", status.as_str());
            });
            status_event(tx, &row, row.lease.held.as_ref(), status, &payload, now)?;
            Ok(true)
        })
    }
}

/// Claims a run that nobody else holds.
fn claim_one(tx: &Write<'_>, run_id: &str, claim: &RunClaim<'_>) -> Result<Option<String>> {
    let RunClaim { runner_id, token, now, expires_at } = *claim;
    let Some(row) = runs::by_id(tx, run_id)?.filter(|row| !row.status.is_terminal()) else { return Ok(None) };
    if row.lease.live(now).is_some_and(|held| held.owner_id != runner_id) {
        return Ok(None);
    }
    let owner_type = OwnerType::of_runner(runner_id);
    let grant = Grant { owner_type, owner_id: runner_id, token: Digest::of(token), now, expires_at };
    let generation = leases::take(tx, &row.resource_id, row.lease.generation, &grant)?;
    tx.execute(START, params![now, run_id])?;
    let event = NewEvent {
        resource_id: &row.resource_id,
        kind: "lease.claimed",
        actor: Actor::runner(Some(runner_id)),
        generation: Some(generation),
        payload: &format!(r#"{{"expiresAt":{expires_at}}}"#),
        now,
    };
    events::append(tx, row.revision, &event)?;
    runs::require_record(tx, run_id, Some(token)).map(Some)
}

/// Gives up the claim on a run, which is parked or done then.
fn leave(state: &mut State, run_id: &str, token: &Digest, status: QueueStatus, now: i64) -> Result<bool> {
    state.write(|tx| {
        let Some(row) = runs::by_id(tx, run_id)? else { return Ok(false) };
        let Some(held) = row.lease.live_with_token(token, now) else { return Ok(false) };
        tx.execute(LEAVE, params![status, now, status.is_terminal().then_some(now), run_id])?;
        leases::release(tx, &row.resource_id, row.lease.generation)?;
        queue_event(tx, &row, Some(held), status, now)?;
        Ok(true)
    })
}

/// With a token, its holder may; without one, anybody, as long as nobody owns the run and it was never started.
fn may_end(row: &RunRow, end: &EndRun<'_>) -> bool {
    match &end.token {
        Some(token) => row.lease.live_with_token(token, end.now).is_some(),
        None => matches!(row.status, QueueStatus::Queued | QueueStatus::Starting) && row.lease.held.is_none(),
    }
}

fn projection(connection: &Connection, run_id: &str) -> Result<String> {
    let found = find(connection, PROJECTION, [run_id], |row| {
        if optional_bytes(row, 0)?.is_none() {
            return Ok(None);
        }
        Ok::<_, Error>(Some(json_column(row, 1)?.to_owned()))
    })?;
    found.flatten().ok_or_else(|| Refusal::RunWithoutState(run_id.to_owned()).into())
}

fn queue_event(tx: &Write<'_>, row: &RunRow, held: Option<&Held>, status: QueueStatus, now: i64) -> Result<()> {
    let payload = object(|payload| push_string(payload.key("status"), status.as_str()));
    status_event(tx, row, held, status, &payload, now)
}

/// The event of a run that has moved to another status, in the name of whoever held it.
fn status_event(
    tx: &Write<'_>,
    row: &RunRow,
    held: Option<&Held>,
    status: QueueStatus,
    payload: &str,
    now: i64,
) -> Result<()> {
    let event = NewEvent {
        resource_id: &row.resource_id,
        kind: &format!("run.queue_{}", status.as_str()),
        actor: held.map_or(Actor::SYSTEM, Held::actor),
        generation: row.lease.event_generation(),
        payload,
        now,
    };
    events::append(tx, row.revision, &event)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::World;
    use super::*;

    fn next(world: &mut World, runner_id: &str, session: Option<&str>, now: i64) -> Option<String> {
        let claim = RunClaim { runner_id, token: runner_id, now, expires_at: now + 10 };
        let record = world.store.claim_next_run(&mut world.state, session, "[]", &claim).unwrap()?;
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        Some(record["runId"].as_str().unwrap().to_owned())
    }

    #[test]
    fn a_run_has_one_live_owner_and_the_next_one_a_higher_generation() {
        let mut world = World::new();
        world.reserve("r", "s", 0).unwrap();
        let first = world.claim_run("r", "s", "t1", 1).unwrap();
        assert!(world.claim_run("r", "host-1", "t2", 10).is_none());
        let second = world.claim_run("r", "host-1", "t2", 11).unwrap();
        assert!(second["claimGeneration"].as_i64() > first["claimGeneration"].as_i64());
        let (old, new) = (Digest::of("t1"), Digest::of("t2"));
        assert!(!world.store.renew_run_claim(&mut world.state, "r", &old, 12, 99).unwrap());
        assert!(!world.store.complete_run(&mut world.state, "r", &old, 12).unwrap());
        assert!(world.store.complete_run(&mut world.state, "r", &new, 12).unwrap());
        assert!(world.claim_run("r", "s", "t3", 50).is_none(), "it has ended");
    }

    #[test]
    fn a_busy_session_does_not_hold_up_the_queue() {
        let mut world = World::new();
        for (run, session) in [("parked", "a"), ("other", "b")] {
            world.reserve(run, session, 0).unwrap();
            world.claim_run(run, session, "t", 1).unwrap();
            assert!(world.store.park_run(&mut world.state, run, &Digest::of("t"), 2).unwrap());
        }
        world.reserve("active", "a", 3).unwrap();
        assert_eq!(next(&mut world, "host-1", None, 4), Some("other".to_owned()));
        assert_eq!(next(&mut world, "host-2", None, 4), None);
    }

    #[test]
    fn a_new_run_waits_for_its_session() {
        let mut world = World::new();
        world.reserve("r", "a", 0).unwrap();
        assert_eq!(next(&mut world, "b", Some("b"), 1), None);
        assert_eq!(next(&mut world, "host-1", None, 1), None);
        assert_eq!(next(&mut world, "a", Some("a"), 1), Some("r".to_owned()));
        assert_eq!(
            next(&mut world, "host-1", None, 11),
            Some("r".to_owned()),
            "it was started, and its lease has lapsed"
        );
    }

    #[test]
    fn a_deleted_run_leaves_its_identity_and_lets_go_of_what_points_to_it() {
        let mut world = World::new();
        world.reserve("r", "a", 0).unwrap();
        world.claim_run("r", "a", "t", 1).unwrap();
        assert!(!world.store.delete_run(&mut world.state, "r", &Digest::of("other"), 2).unwrap());
        assert!(world.store.delete_run(&mut world.state, "r", &Digest::of("t"), 2).unwrap());
        assert_eq!(world.count("runs") + world.count("run_queue") + world.count("run_bindings"), 0);
        assert_eq!(world.count("leases WHERE owner_id IS NOT NULL"), 0);
        world.reserve("r", "a", 3).unwrap();
        let again = world.claim_run("r", "a", "t", 4).unwrap();
        assert_eq!(again["claimGeneration"], 2);
        assert_eq!(world.state.integrity_problems().unwrap(), "");
    }
}
