//! Random programs against a simple model: no two live owners, generations only grow, every revision has its event,
//! nothing is lost.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use super::testing::{World, run};
use super::{Claim, EndRun, Error, Refusal, Requeue, RunClaim};
use crate::state::ids::Digest;

const KEYS: [&str; 3] = ["a", "b", "c"];
const WORKERS: [&str; 3] = ["w1", "w2", "w3"];
const RUNS: [&str; 3] = ["r1", "r2", "r3"];
const SESSIONS: [&str; 2] = ["s1", "s2"];
const RUNNERS: [&str; 3] = ["s1", "s2", "host-1"];

/// One call. Indexes choose a name; `slot` chooses among all claims that were ever given, stale ones included.
#[derive(Clone, Debug)]
enum Step {
    Tick { by: i64 },
    Put { key: usize, spec: i64 },
    Enqueue { key: usize, delay: i64 },
    Delete { key: usize },
    Claim { worker: usize, lease: i64 },
    Renew { slot: usize, lease: i64 },
    Settle { slot: usize },
    Requeue { slot: usize, delay: i64 },
    Reserve { run: usize, session: usize },
    ClaimRun { run: usize, runner: usize, lease: i64 },
    NextRun { runner: usize, lease: i64 },
    RenewRun { slot: usize, lease: i64 },
    Start { slot: usize },
    Park { slot: usize },
    Complete { slot: usize },
    Fail { slot: usize },
    DeleteRun { slot: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let (lease, delay, slot) = (1..12_i64, 0..6_i64, 0..40_usize);
    prop_oneof![
        3 => (1..6_i64).prop_map(|by| Step::Tick { by }),
        2 => (0..3_usize, 0..3_i64).prop_map(|(key, spec)| Step::Put { key, spec }),
        1 => (0..3_usize, delay.clone()).prop_map(|(key, delay)| Step::Enqueue { key, delay }),
        1 => (0..3_usize).prop_map(|key| Step::Delete { key }),
        3 => (0..3_usize, lease.clone()).prop_map(|(worker, lease)| Step::Claim { worker, lease }),
        1 => (slot.clone(), lease.clone()).prop_map(|(slot, lease)| Step::Renew { slot, lease }),
        1 => slot.clone().prop_map(|slot| Step::Settle { slot }),
        1 => (slot.clone(), delay).prop_map(|(slot, delay)| Step::Requeue { slot, delay }),
        3 => (0..3_usize, 0..2_usize).prop_map(|(run, session)| Step::Reserve { run, session }),
        2 => (0..3_usize, 0..3_usize, lease.clone()).prop_map(|(run, runner, lease)| Step::ClaimRun { run, runner, lease }),
        2 => (0..3_usize, lease.clone()).prop_map(|(runner, lease)| Step::NextRun { runner, lease }),
        1 => (slot.clone(), lease).prop_map(|(slot, lease)| Step::RenewRun { slot, lease }),
        1 => slot.clone().prop_map(|slot| Step::Start { slot }),
        2 => slot.clone().prop_map(|slot| Step::Park { slot }),
        1 => slot.clone().prop_map(|slot| Step::Complete { slot }),
        1 => slot.clone().prop_map(|slot| Step::Fail { slot }),
        1 => slot.prop_map(|slot| Step::DeleteRun { slot }),
    ]
}

#[derive(Debug)]
struct Item {
    spec: i64,
    queued_from: Option<i64>,
    queue_version: i64,
    /// Generation, expiry.
    held: Option<(i64, i64)>,
}

#[derive(Debug)]
struct RunModel {
    session: &'static str,
    status: &'static str,
    available: i64,
    /// Token, owner, expiry.
    held: Option<(String, &'static str, i64)>,
}

#[derive(Default)]
struct Model {
    now: i64,
    items: BTreeMap<&'static str, Item>,
    runs: BTreeMap<&'static str, RunModel>,
    /// The highest generation that was ever given for a name; the claims that were.
    generations: BTreeMap<String, i64>,
    claims: Vec<Claim>,
    run_claims: Vec<(&'static str, String)>,
}

impl Model {
    fn grows(&mut self, name: &str, generation: i64) {
        let highest = self.generations.entry(name.to_owned()).or_default();
        assert!(generation > *highest, "{name}: {generation} after {highest}");
        *highest = generation;
    }

    /// Whether a session has a run that is queued, starting or running.
    fn is_busy(&self, session: &str) -> bool {
        self.runs.values().any(|run| run.session == session && matches!(run.status, "queued" | "starting" | "running"))
    }

    fn holds(&self, slot: usize) -> Option<(&'static str, String, bool)> {
        let (name, token) = self.run_claims.get(slot % self.run_claims.len().max(1))?.clone();
        let now = self.now;
        let live = self
            .runs
            .get(name)
            .and_then(|run| run.held.as_ref())
            .is_some_and(|(held, _, expires)| *held == token && *expires > now);
        Some((name, token, live))
    }
}

struct Test {
    world: World,
    model: Model,
}

impl Test {
    fn controllers(&mut self, step: &Step) {
        let (now, world, model) = (self.model.now, &mut self.world, &mut self.model);
        match *step {
            Step::Put { key, spec } => {
                let key = KEYS[key];
                world.put(key, &spec.to_string(), now);
                let item = model.items.entry(key).or_insert(Item {
                    spec: -1,
                    queued_from: None,
                    queue_version: 0,
                    held: None,
                });
                if item.spec != spec {
                    item.spec = spec;
                    queue(item, now);
                }
            }
            Step::Enqueue { key, delay } => {
                let found = world.store.enqueue(&mut world.state, "jobs", KEYS[key], now + delay, now);
                match model.items.get_mut(KEYS[key]) {
                    Some(item) => {
                        found.unwrap();
                        queue(item, now + delay);
                    }
                    None => assert!(matches!(found, Err(Error::ResourceNotFound { .. }))),
                }
            }
            Step::Claim { worker, lease } => {
                let expected = model
                    .items
                    .iter()
                    .filter(|(_, item)| item.held.is_none_or(|(_, expires)| expires <= now))
                    .filter_map(|(key, item)| Some((item.queued_from?, *key)))
                    .filter(|(from, _)| *from <= now)
                    .min();
                let claim = world.claim(WORKERS[worker], now, lease);
                assert_eq!(claim.as_ref().map(|claim| claim.key.as_str()), expected.map(|(_, key)| key));
                if let (Some(claim), Some((_, key))) = (claim, expected) {
                    model.grows(key, claim.generation);
                    let item = model.items.get_mut(key).unwrap();
                    assert_eq!(claim.queue_version, item.queue_version);
                    item.held = Some((claim.generation, now + lease));
                    model.claims.push(claim);
                }
            }
            _ => self.claims(step),
        }
    }

    /// What is done under a claim, which may be stale.
    fn claims(&mut self, step: &Step) {
        let (now, world, model) = (self.model.now, &mut self.world, &mut self.model);
        let slot = match *step {
            Step::Renew { slot, .. } | Step::Settle { slot } | Step::Requeue { slot, .. } => slot,
            Step::Delete { key } => return self.delete(KEYS[key]),
            _ => return,
        };
        let Some(claim) = model.claims.get(slot % model.claims.len().max(1)).cloned() else { return };
        let held = model
            .items
            .get_mut(claim.key.as_str())
            .filter(|item| item.held.is_some_and(|(held, _)| held == claim.generation));
        let live = held.as_ref().is_some_and(|item| item.held.is_some_and(|(_, expires)| expires > now));
        match *step {
            Step::Renew { lease, .. } => {
                assert_eq!(world.store.renew_claim(&mut world.state, &claim, now, now + lease).unwrap(), live);
                if let (true, Some(item)) = (live, held) {
                    item.held = Some((claim.generation, now + lease));
                }
            }
            Step::Settle { .. } => {
                assert_eq!(world.store.settle_claim(&mut world.state, &claim, now).unwrap().is_some(), held.is_some());
                if let Some(item) = held {
                    item.held = None;
                    if item.queue_version == claim.queue_version {
                        item.queued_from = None;
                        item.queue_version = 0;
                    }
                }
            }
            Step::Requeue { delay, .. } => {
                let requeue = Requeue { available_at: now + delay, error: None };
                let done = world.store.requeue_claim(&mut world.state, &claim, &requeue, now).unwrap();
                assert_eq!(done.is_some(), held.is_some());
                if let Some(item) = held {
                    item.held = None;
                    item.queued_from = Some(now + delay);
                    item.queue_version += 1;
                }
            }
            _ => {}
        }
    }

    /// Deletes a resource under whatever claim is live, if one is.
    fn delete(&mut self, key: &'static str) {
        let (now, world, model) = (self.model.now, &mut self.world, &mut self.model);
        let Some(item) = model.items.get_mut(key) else { return };
        let Some((generation, _)) = item.held.filter(|(_, expires)| *expires > now) else { return };
        let claim = model.claims.iter().find(|claim| claim.key == key && claim.generation == generation).unwrap();
        let marked = world.store.request_deletion(&mut world.state, "jobs", key, now).unwrap();
        let marked: Value = serde_json::from_str(&marked).unwrap();
        let version = marked["metadata"]["resourceVersion"].as_i64().unwrap();
        assert!(world.store.delete_resource(&mut world.state, "jobs", key, version, claim, now).unwrap());
        model.items.remove(key);
    }

    fn runs(&mut self, step: &Step) {
        let (now, world, model) = (self.model.now, &mut self.world, &mut self.model);
        match *step {
            Step::Reserve { run: name, session } => {
                let (name, session) = (RUNS[name], SESSIONS[session]);
                let reserved = world.store.reserve_run(&mut world.state, &run(name, session, now));
                if model.runs.contains_key(name) {
                    assert!(matches!(reserved, Err(Error::Refused(Refusal::RunAlreadyReserved(_)))));
                } else if model.is_busy(session) {
                    reserved.unwrap_err();
                } else {
                    reserved.unwrap();
                    model.runs.insert(name, RunModel { session, status: "queued", available: now, held: None });
                }
            }
            Step::ClaimRun { run: name, runner, lease } => {
                let (name, runner) = (RUNS[name], RUNNERS[runner]);
                let token = format!("t{}", model.run_claims.len());
                let claim = RunClaim { runner_id: runner, token: &token, now, expires_at: now + lease };
                let claimed = world.store.claim_run(&mut world.state, name, &claim);
                let busy = model.runs.get(name).is_some_and(|run| run.status == "parked" && model.is_busy(run.session));
                match model.runs.get_mut(name).filter(|run| is_free(run, runner, now)) {
                    None => assert_eq!(claimed.unwrap(), None),
                    Some(_) if busy => drop(claimed.unwrap_err()),
                    Some(_) => self.claimed(name, runner, token, now + lease, &claimed.unwrap().unwrap()),
                }
            }
            Step::NextRun { runner, lease } => {
                let runner = RUNNERS[runner];
                let session = SESSIONS.iter().find(|session| **session == runner).copied();
                let token = format!("t{}", model.run_claims.len());
                let claim = RunClaim { runner_id: runner, token: &token, now, expires_at: now + lease };
                let claimed = world.store.claim_next_run(&mut world.state, session, "[]", &claim).unwrap();
                let candidates: Vec<_> = model
                    .runs
                    .iter()
                    .filter(|(_, run)| is_free(run, runner, now))
                    .filter(|(_, run)| session.map_or(run.status != "queued", |session| run.session == session))
                    .filter(|(_, run)| run.status != "parked" || !model.is_busy(run.session))
                    .map(|(name, run)| (run.available, *name))
                    .collect();
                match claimed {
                    None => assert!(candidates.is_empty(), "{candidates:?}"),
                    Some(record) => {
                        let found: Value = serde_json::from_str(&record).unwrap();
                        let first = candidates.iter().map(|(available, _)| *available).min();
                        let (_, name) = *candidates
                            .iter()
                            .find(|(available, name)| Some(*available) == first && found["runId"] == *name)
                            .unwrap_or_else(|| panic!("{found} of {candidates:?}"));
                        self.claimed(name, runner, token, now + lease, &record);
                    }
                }
            }
            _ => self.run_claims(step),
        }
    }

    fn claimed(&mut self, name: &'static str, runner: &'static str, token: String, expires: i64, record: &str) {
        let record: Value = serde_json::from_str(record).unwrap();
        assert_eq!((&record["runId"], &record["runnerId"]), (&name.into(), &runner.into()));
        self.model.grows(name, record["claimGeneration"].as_i64().unwrap());
        let run = self.model.runs.get_mut(name).unwrap();
        run.status = "starting";
        run.held = Some((token.clone(), runner, expires));
        self.model.run_claims.push((name, token));
    }

    /// What is done under a run's claim, which may be stale.
    fn run_claims(&mut self, step: &Step) {
        let (now, world, model) = (self.model.now, &mut self.world, &mut self.model);
        let slot = match *step {
            Step::RenewRun { slot, .. }
            | Step::Start { slot }
            | Step::Park { slot }
            | Step::Complete { slot }
            | Step::Fail { slot }
            | Step::DeleteRun { slot } => slot,
            _ => return,
        };
        let Some((name, token, live)) = model.holds(slot) else { return };
        let digest = Digest::of(&token);
        assert_eq!(world.store.verify_run_claim(&world.state, name, &digest, now).unwrap(), live);
        let (done, status) = match *step {
            Step::RenewRun { lease, .. } => {
                let renewed = world.store.renew_run_claim(&mut world.state, name, &digest, now, now + lease).unwrap();
                if let Some((_, _, expires)) =
                    model.runs.get_mut(name).and_then(|run| run.held.as_mut()).filter(|_| live)
                {
                    *expires = now + lease;
                }
                (renewed, None)
            }
            Step::Start { .. } => {
                (world.store.mark_run_running(&mut world.state, name, &digest, now).unwrap(), Some("running"))
            }
            Step::Park { .. } => (world.store.park_run(&mut world.state, name, &digest, now).unwrap(), Some("parked")),
            Step::Complete { .. } => {
                (world.store.complete_run(&mut world.state, name, &digest, now).unwrap(), Some("done"))
            }
            Step::Fail { .. } => {
                let end = EndRun { token: Some(digest), code: "e", error: "m", error_json: "\"m\"", now };
                (world.store.fail_run(&mut world.state, name, &end).unwrap(), Some("failed"))
            }
            _ => (world.store.delete_run(&mut world.state, name, &digest, now).unwrap(), Some("gone")),
        };
        assert_eq!(done, live, "{step:?} of {name}");
        if let (true, Some(status)) = (live, status) {
            if status == "gone" {
                model.runs.remove(name);
            } else if let Some(run) = model.runs.get_mut(name) {
                run.status = status;
                if status != "running" {
                    run.held = None;
                }
            }
        }
    }

    /// What must hold after every call.
    fn check(&self) {
        let gaps = "resources r WHERE r.revision <> (SELECT count(*) FROM events e WHERE e.resource_id = r.resource_id)
            OR r.revision <> (SELECT max(e.resource_revision) FROM events e WHERE e.resource_id = r.resource_id)";
        assert_eq!(self.world.count(gaps), 0, "every revision has its event");
        let queued: Vec<_> =
            self.model.items.iter().filter(|(_, item)| item.queued_from.is_some()).map(|(key, _)| *key).collect();
        let list: Value = serde_json::from_str(&self.world.store.list_queue(&self.world.state).unwrap()).unwrap();
        let mut found: Vec<_> = list.as_array().unwrap().iter().map(|item| item["key"].as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, queued, "nothing is lost");
        for (name, run) in &self.model.runs {
            let record: Value =
                serde_json::from_str(&self.world.store.get_run(&self.world.state, name).unwrap().unwrap()).unwrap();
            assert_eq!(record["status"], run.status, "{name}");
            assert_eq!(record["runnerId"].is_string(), run.held.is_some(), "{name}");
        }
        assert_eq!(self.world.count("runs"), i64::try_from(self.model.runs.len()).unwrap());
    }
}

fn queue(item: &mut Item, from: i64) {
    item.queued_from = Some(item.queued_from.map_or(from, |earlier| earlier.min(from)));
    item.queue_version += 1;
}

/// Whether this runner could claim it: it has not ended, and nobody else holds it.
fn is_free(run: &RunModel, runner: &str, now: i64) -> bool {
    !matches!(run.status, "done" | "failed" | "cancelled")
        && run.held.as_ref().is_none_or(|(_, owner, expires)| *expires <= now || *owner == runner)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_agree_with_the_model(steps in prop::collection::vec(step(), 1..80)) {
        let mut test = Test { world: World::new(), model: Model::default() };
        for step in &steps {
            match step {
                Step::Tick { by } => test.model.now += by,
                step => {
                    test.controllers(step);
                    test.runs(step);
                }
            }
            test.check();
        }
        prop_assert_eq!(test.world.state.integrity_problems().unwrap(), "");
    }
}
