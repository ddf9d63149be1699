//! `SqliteControllerStore`, the controller half: each method converts, calls the store once, and converts back.
//!
//! The face has checked the types of what arrives here, and made JSON canonical and times numbers.

use std::rc::Rc;

use napi_derive::napi;

use super::answer::{Answer, Maybe, Text};
use super::database::Database;
use super::shared::Shared;
use crate::state::ids::Digest;
use crate::store::{
    self, Claim, ClaimNext, PutResource, RecordEvent, Requeue, ReserveEffect, ReserveWorkflow, UpdateEffect,
    UpdateStatus, WorkflowUpdate, initial_status,
};

/// The store of one project on one database.
#[napi]
#[derive(Debug)]
pub struct Store {
    pub(super) shared: Rc<Shared>,
    pub(super) inner: store::Store,
}

/// A claim, as the caller holds it.
#[napi(object)]
#[derive(Debug)]
pub struct ClaimArgument {
    /// The controller's name.
    pub controller: String,
    /// The resource's key.
    pub key: String,
    /// Who claimed it.
    pub owner_id: String,
    /// The claim's token.
    pub token: String,
    /// The fencing generation.
    pub generation: i64,
    /// The version of the queue item.
    pub queue_version: i64,
}

impl From<ClaimArgument> for Claim {
    fn from(claim: ClaimArgument) -> Self {
        Self {
            controller: claim.controller,
            key: claim.key,
            owner_id: claim.owner_id,
            token: Digest::of(&claim.token),
            generation: claim.generation,
            queue_version: claim.queue_version,
        }
    }
}

/// Opens the store of a project: registers it, or only looks it up.
#[napi(catch_unwind)]
pub fn open_store(database: &Database, canonical_path: String, look_up: bool, now: i64) -> Answer<Store> {
    let shared = Rc::clone(&database.shared);
    let inner = if look_up {
        shared.read(|state| store::Store::look_up(state, &canonical_path))
    } else {
        shared.write(|state| store::Store::register(state, &canonical_path, now))
    };
    inner.map(|inner| Store { shared, inner }).into()
}

#[napi]
impl Store {
    /// `putResource`
    #[napi(catch_unwind)]
    pub fn put_resource(
        &self,
        controller: String,
        key: String,
        spec: String,
        status: String,
        now: i64,
    ) -> Answer<Text> {
        let put =
            PutResource { controller: &controller, key: &key, spec: &spec, status: &initial_status(&status), now };
        self.shared.write(|state| self.inner.put_resource(state, &put)).into()
    }

    /// `getResource`
    #[napi(catch_unwind)]
    pub fn get_resource(&self, controller: String, key: String) -> Answer<Maybe<Text>> {
        self.shared.read(|state| self.inner.get_resource(state, &controller, &key)).into()
    }

    /// `getResourceByUid`
    #[napi(catch_unwind)]
    pub fn get_resource_by_uid(&self, uid: String) -> Answer<Maybe<Text>> {
        self.shared.read(|state| self.inner.get_resource_by_uid(state, &uid)).into()
    }

    /// `listResources`
    #[napi(catch_unwind)]
    pub fn list_resources(&self, controller: Option<String>) -> Answer<Text> {
        self.shared.read(|state| self.inner.list_resources(state, controller.as_deref())).into()
    }

    /// `updateStatus`
    #[napi(catch_unwind)]
    #[allow(clippy::too_many_arguments, reason = "one crossing, no object to take apart")]
    pub fn update_status(
        &self,
        controller: String,
        key: String,
        expected_version: i64,
        claim: ClaimArgument,
        status: String,
        finalizers: Option<Vec<String>>,
        now: i64,
    ) -> Answer<Text> {
        let update = UpdateStatus {
            controller: &controller,
            key: &key,
            expected_version,
            claim: &claim.into(),
            status: &status,
            finalizers: finalizers.as_deref(),
            now,
        };
        self.shared.write(|state| self.inner.update_status(state, &update)).into()
    }

    /// `requestDeletion`
    #[napi(catch_unwind)]
    pub fn request_deletion(&self, controller: String, key: String, now: i64) -> Answer<Text> {
        self.shared.write(|state| self.inner.request_deletion(state, &controller, &key, now)).into()
    }

    /// `updateFinalizers`
    #[napi(catch_unwind)]
    pub fn update_finalizers(
        &self,
        controller: String,
        key: String,
        expected_version: i64,
        finalizers: Vec<String>,
        now: i64,
    ) -> Answer<Text> {
        self.shared
            .write(|state| self.inner.update_finalizers(state, &controller, &key, expected_version, &finalizers, now))
            .into()
    }

    /// `deleteResource`
    #[napi(catch_unwind)]
    pub fn delete_resource(
        &self,
        controller: String,
        key: String,
        expected_version: i64,
        claim: ClaimArgument,
        now: i64,
    ) -> Answer<bool> {
        let claim = claim.into();
        self.shared
            .write(|state| self.inner.delete_resource(state, &controller, &key, expected_version, &claim, now))
            .into()
    }

    /// `enqueue`
    #[napi(catch_unwind)]
    pub fn enqueue(&self, controller: String, key: String, available_at: i64, now: i64) -> Answer<()> {
        self.shared.write(|state| self.inner.enqueue(state, &controller, &key, available_at, now)).into()
    }

    /// `claimNext`; `controllers` is a JSON array.
    #[napi(catch_unwind)]
    pub fn claim_next(&self, controllers: String, owner_id: String, now: i64, expires_at: i64) -> Answer<Maybe<Text>> {
        let options = ClaimNext { controllers: &controllers, owner_id: &owner_id, now, expires_at };
        self.shared.write(|state| self.inner.claim_next(state, &options)).into()
    }

    /// `renewClaim`
    #[napi(catch_unwind)]
    pub fn renew_claim(&self, claim: ClaimArgument, now: i64, expires_at: i64) -> Answer<bool> {
        self.shared.write(|state| self.inner.renew_claim(state, &claim.into(), now, expires_at)).into()
    }

    /// `settleClaim`; gives the resource's new version.
    #[napi(catch_unwind)]
    pub fn settle_claim(&self, claim: ClaimArgument, now: i64) -> Answer<Maybe<i64>> {
        self.shared.write(|state| self.inner.settle_claim(state, &claim.into(), now)).into()
    }

    /// `requeueClaim`; gives the resource's new version.
    #[napi(catch_unwind)]
    pub fn requeue_claim(
        &self,
        claim: ClaimArgument,
        available_at: i64,
        error: Option<String>,
        now: i64,
    ) -> Answer<Maybe<i64>> {
        let requeue = Requeue { available_at, error: error.as_deref() };
        self.shared.write(|state| self.inner.requeue_claim(state, &claim.into(), &requeue, now)).into()
    }

    /// `listQueue`
    #[napi(catch_unwind)]
    pub fn list_queue(&self) -> Answer<Text> {
        self.shared.read(|state| self.inner.list_queue(state)).into()
    }

    /// `reserveEffect`
    #[napi(catch_unwind)]
    #[allow(clippy::too_many_arguments, reason = "one crossing, no object to take apart")]
    pub fn reserve_effect(
        &self,
        key: String,
        uid: String,
        claim: ClaimArgument,
        generation: i64,
        kind: String,
        request_fingerprint: String,
        now: i64,
    ) -> Answer<Text> {
        let request = ReserveEffect {
            key: &key,
            uid: &uid,
            claim: &claim.into(),
            generation,
            kind: &kind,
            request_fingerprint: &request_fingerprint,
            now,
        };
        self.shared.write(|state| self.inner.reserve_effect(state, &request)).into()
    }

    /// `getEffect`
    #[napi(catch_unwind)]
    pub fn get_effect(&self, uid: String, key: String) -> Answer<Maybe<Text>> {
        self.shared.read(|state| self.inner.get_effect(state, &uid, &key)).into()
    }

    /// `updateEffect`
    #[napi(catch_unwind)]
    #[allow(clippy::too_many_arguments, reason = "one crossing, no object to take apart")]
    pub fn update_effect(
        &self,
        uid: String,
        key: String,
        claim: ClaimArgument,
        state: String,
        external_ref: Option<String>,
        error: Option<String>,
        now: i64,
    ) -> Answer<Text> {
        let update = UpdateEffect {
            uid: &uid,
            key: &key,
            claim: &claim.into(),
            state: &state,
            external_ref: external_ref.as_deref(),
            error: error.as_deref(),
            now,
        };
        self.shared.write(|state| self.inner.update_effect(state, &update)).into()
    }

    /// `listEffects`
    #[napi(catch_unwind)]
    pub fn list_effects(&self, uid: String) -> Answer<Text> {
        self.shared.read(|state| self.inner.list_effects(state, &uid)).into()
    }

    /// `reserveWorkflow`
    #[napi(catch_unwind)]
    pub fn reserve_workflow(
        &self,
        uid: String,
        claim: ClaimArgument,
        request_key: String,
        workflow: String,
        input_fingerprint: String,
        now: i64,
    ) -> Answer<Text> {
        let request = ReserveWorkflow {
            uid: &uid,
            claim: &claim.into(),
            request_key: &request_key,
            workflow: &workflow,
            input_fingerprint: &input_fingerprint,
            now,
        };
        self.shared.write(|state| self.inner.reserve_workflow(state, &request)).into()
    }

    /// `getWorkflow`
    #[napi(catch_unwind)]
    pub fn get_workflow(&self, uid: String, request_key: String) -> Answer<Maybe<Text>> {
        self.shared.read(|state| self.inner.get_workflow(state, &uid, &request_key)).into()
    }

    /// `getWorkflowByRequestId`
    #[napi(catch_unwind)]
    pub fn get_workflow_by_request_id(&self, request_id: String) -> Answer<Maybe<Text>> {
        self.shared.read(|state| self.inner.get_workflow_by_request_id(state, &request_id)).into()
    }

    /// `updateWorkflow`
    #[napi(catch_unwind)]
    #[allow(clippy::too_many_arguments, reason = "one crossing, no object to take apart")]
    pub fn update_workflow(
        &self,
        request_id: String,
        run_id: Option<String>,
        status: String,
        attempt: Option<i64>,
        error: Option<String>,
        claim: ClaimArgument,
        now: i64,
    ) -> Answer<Text> {
        let update =
            WorkflowUpdate { run_id: Some(run_id.as_deref()), status: &status, attempt, error: error.as_deref(), now };
        self.shared.write(|state| self.inner.update_workflow(state, &request_id, &update, &claim.into())).into()
    }

    /// `completeWorkflow`; `says_run` tells a run that is `null` from one that is not mentioned.
    #[napi(catch_unwind)]
    #[allow(clippy::too_many_arguments, reason = "one crossing, no object to take apart")]
    pub fn complete_workflow(
        &self,
        request_id: String,
        says_run: bool,
        run_id: Option<String>,
        status: String,
        attempt: Option<i64>,
        error: Option<String>,
        now: i64,
    ) -> Answer<Text> {
        let run_id = says_run.then_some(run_id.as_deref());
        let update = WorkflowUpdate { run_id, status: &status, attempt, error: error.as_deref(), now };
        self.shared.write(|state| self.inner.complete_workflow(state, &request_id, &update)).into()
    }

    /// `listWorkflows`
    #[napi(catch_unwind)]
    pub fn list_workflows(&self, uid: String) -> Answer<Text> {
        self.shared.read(|state| self.inner.list_workflows(state, &uid)).into()
    }

    /// `recordEvent`; gives the event and the version that it made.
    #[napi(catch_unwind)]
    pub fn record_event(
        &self,
        controller: String,
        key: String,
        claim: Option<ClaimArgument>,
        kind: String,
        payload: String,
        now: i64,
    ) -> Answer<Text> {
        let claim = claim.map(Claim::from);
        let event = RecordEvent {
            controller: &controller,
            key: &key,
            claim: claim.as_ref(),
            kind: &kind,
            payload: &payload,
            now,
        };
        self.shared.write(|state| self.inner.record_event(state, &event)).into()
    }

    /// `listEvents`
    #[napi(catch_unwind)]
    pub fn list_events(&self, controller: Option<String>, key: Option<String>, limit: i64) -> Answer<Text> {
        self.shared.read(|state| self.inner.list_events(state, controller.as_deref(), key.as_deref(), limit)).into()
    }
}
