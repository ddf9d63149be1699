//! A world for each test: a database of its own in a folder of its own, and shorthands for what many tests do.

use serde_json::Value;
use tempfile::TempDir;

use super::{Claim, ClaimNext, PutResource, ReserveRun, Result, RunClaim, Store, initial_status};
use crate::state::State;
use crate::state::ids::Digest;

pub(super) const DIGEST: &str = "5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f";

pub(super) struct World {
    pub(super) state: State,
    pub(super) store: Store,
    folder: TempDir,
}

impl World {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut state = open(&folder);
        let store = Store::register(&mut state, "/project", 0).unwrap();
        Self { state, store, folder }
    }

    /// Another connection to the same file.
    pub(super) fn rival(&self) -> State {
        open(&self.folder)
    }

    pub(super) fn put(&mut self, key: &str, spec: &str, now: i64) -> Value {
        let status = initial_status("null");
        let put = PutResource { controller: "jobs", key, spec, status: &status, now };
        json(self.store.put_resource(&mut self.state, &put))
    }

    pub(super) fn claim(&mut self, owner_id: &str, now: i64, lease_ms: i64) -> Option<Claim> {
        let options = ClaimNext { controllers: r#"["jobs"]"#, owner_id, now, expires_at: now + lease_ms };
        let claim: Value = serde_json::from_str(&self.store.claim_next(&mut self.state, &options).unwrap()?).unwrap();
        Some(Claim {
            controller: text(&claim, "controller"),
            key: text(&claim, "key"),
            owner_id: owner_id.to_owned(),
            token: Digest::of(text(&claim, "token")),
            generation: claim["generation"].as_i64().unwrap(),
            queue_version: claim["queueVersion"].as_i64().unwrap(),
        })
    }

    pub(super) fn reserve(&mut self, run_id: &str, session: &str, now: i64) -> Result<String> {
        self.store.reserve_run(&mut self.state, &run(run_id, session, now))
    }

    pub(super) fn claim_run(&mut self, run_id: &str, runner_id: &str, token: &str, now: i64) -> Option<Value> {
        let claim = RunClaim { runner_id, token, now, expires_at: now + 10 };
        self.store.claim_run(&mut self.state, run_id, &claim).unwrap().map(|text| serde_json::from_str(&text).unwrap())
    }

    pub(super) fn count(&self, from: &str) -> i64 {
        self.state.connection().query_row(&format!("SELECT count(*) FROM {from}"), [], |row| row.get(0)).unwrap()
    }
}

pub(super) fn run<'a>(run_id: &'a str, session: &'a str, now: i64) -> ReserveRun<'a> {
    ReserveRun {
        run_id,
        workflow_name: "echo",
        workflow_ref: "builtin:echo",
        source: r#"{"id":"echo","kind":"builtin"}"#,
        definition_digest: DIGEST,
        definition: "{}",
        input: "{}",
        launch_options: "{}",
        runner_id: session,
        origin_session_id: session,
        parent_run_id: None,
        now,
    }
}

pub(super) fn json(result: Result<String>) -> Value {
    serde_json::from_str(&result.unwrap()).unwrap()
}

pub(super) fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap().to_owned()
}

fn open(folder: &TempDir) -> State {
    crate::state::testing::open(&folder.path().join("state.sqlite"))
}
