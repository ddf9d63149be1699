//! `SqliteControllerStore`, the run half: runs, turn intents, notifications.

use napi_derive::napi;

use super::answer::{Answer, Maybe, Text};
use super::store::Store;
use crate::state::ids::Digest;
use crate::store::{
    DeliveryClaim, EndRun, EnqueueNotification, EnsureIntent, IntentFilter, RecordRunEvent, ReserveRun, ResolveIntent,
    RunClaim,
};

/// A run that somebody wants to start.
#[napi(object)]
#[derive(Debug)]
pub struct RunRequest {
    /// The run's id.
    pub run_id: String,
    /// The workflow's name.
    pub workflow_name: String,
    /// How the workflow is referred to.
    pub workflow_ref: String,
    /// Canonical JSON.
    pub source: String,
    /// The digest of the definition.
    pub definition_digest: String,
    /// Canonical JSON.
    pub definition: String,
    /// Canonical JSON.
    pub input: String,
    /// Canonical JSON.
    pub launch_options: String,
    /// Who should run it first.
    pub runner_id: String,
    /// The session that it reports to.
    pub origin_session_id: String,
    /// The run that it continues.
    pub parent_run_id: Option<String>,
    /// The time.
    pub now: i64,
}

impl RunRequest {
    fn as_reserve(&self) -> ReserveRun<'_> {
        ReserveRun {
            run_id: &self.run_id,
            workflow_name: &self.workflow_name,
            workflow_ref: &self.workflow_ref,
            source: &self.source,
            definition_digest: &self.definition_digest,
            definition: &self.definition,
            input: &self.input,
            launch_options: &self.launch_options,
            runner_id: &self.runner_id,
            origin_session_id: &self.origin_session_id,
            parent_run_id: self.parent_run_id.as_deref(),
            now: self.now,
        }
    }
}

/// A turn that a session is to take.
#[napi(object)]
#[derive(Debug)]
pub struct IntentRequest {
    /// The intent's id.
    pub intent_id: String,
    /// The event that it comes from.
    pub source_event_id: String,
    /// The run.
    pub run_id: String,
    /// The workflow.
    pub workflow_ref: String,
    /// The session.
    pub target_session_id: String,
    /// Why.
    pub cause: String,
    /// The node that caused it.
    pub node_id: Option<String>,
    /// The attempt that caused it.
    pub attempt_id: Option<String>,
    /// Canonical JSON.
    pub facts: String,
    /// Whether it can be delivered at once.
    pub eligible: bool,
    /// The time.
    pub now: i64,
}

#[napi]
impl Store {
    /// `reserveWorkflowRun`
    #[napi(catch_unwind)]
    pub fn reserve_run(&self, request: RunRequest) -> Answer<Text> {
        self.shared.write(|state| self.inner.reserve_run(state, &request.as_reserve())).into()
    }

    /// `enqueueWorkflowRun`
    #[napi(catch_unwind)]
    pub fn enqueue_run(&self, request: RunRequest, token: String, expires_at: i64) -> Answer<Text> {
        let claim = RunClaim { runner_id: &request.runner_id, token: &token, now: request.now, expires_at };
        self.shared.write(|state| self.inner.enqueue_run(state, &request.as_reserve(), &claim)).into()
    }

    /// `getWorkflowRun`
    #[napi(catch_unwind)]
    pub fn get_run(&self, run_id: String) -> Answer<Maybe<Text>> {
        self.shared.read(|state| self.inner.get_run(state, &run_id)).into()
    }

    /// `listWorkflowRuns`; `statuses` and `exclude` are JSON arrays.
    #[napi(catch_unwind)]
    pub fn list_runs(&self, statuses: String, exclude: String, limit: i64) -> Answer<Text> {
        self.shared.read(|state| self.inner.list_runs(state, &statuses, &exclude, limit)).into()
    }

    /// `findSessionReservation`
    #[napi(catch_unwind)]
    pub fn find_session_reservation(&self, session_id: String) -> Answer<Maybe<Text>> {
        self.shared.read(|state| self.inner.find_session_reservation(state, &session_id)).into()
    }

    /// `claimWorkflowRun`
    #[napi(catch_unwind)]
    pub fn claim_run(
        &self,
        run_id: String,
        runner_id: String,
        token: String,
        now: i64,
        expires_at: i64,
    ) -> Answer<Maybe<Text>> {
        let claim = RunClaim { runner_id: &runner_id, token: &token, now, expires_at };
        self.shared.write(|state| self.inner.claim_run(state, &run_id, &claim)).into()
    }

    /// `claimNextWorkflowRun`; `exclude` is a JSON array.
    #[napi(catch_unwind)]
    pub fn claim_next_run(
        &self,
        runner_id: String,
        session_id: Option<String>,
        token: String,
        exclude: String,
        now: i64,
        expires_at: i64,
    ) -> Answer<Maybe<Text>> {
        let claim = RunClaim { runner_id: &runner_id, token: &token, now, expires_at };
        self.shared.write(|state| self.inner.claim_next_run(state, session_id.as_deref(), &exclude, &claim)).into()
    }

    /// `markWorkflowRunRunning`
    #[napi(catch_unwind)]
    pub fn mark_run_running(&self, run_id: String, token: String, now: i64) -> Answer<bool> {
        self.shared.write(|state| self.inner.mark_run_running(state, &run_id, &Digest::of(token), now)).into()
    }

    /// `renewWorkflowRunClaim`
    #[napi(catch_unwind)]
    pub fn renew_run_claim(&self, run_id: String, token: String, now: i64, expires_at: i64) -> Answer<bool> {
        self.shared
            .write(|state| self.inner.renew_run_claim(state, &run_id, &Digest::of(token), now, expires_at))
            .into()
    }

    /// `verifyWorkflowRunClaim`
    #[napi(catch_unwind)]
    pub fn verify_run_claim(&self, run_id: String, token: String, now: i64) -> Answer<bool> {
        self.shared.read(|state| self.inner.verify_run_claim(state, &run_id, &Digest::of(token), now)).into()
    }

    /// `workflowRunAuthority`
    #[napi(catch_unwind)]
    pub fn run_authority(&self, run_id: String, token: String, now: i64) -> Answer<Maybe<Text>> {
        self.shared.read(|state| self.inner.run_authority(state, &run_id, &token, now)).into()
    }

    /// `parkWorkflowRun`
    #[napi(catch_unwind)]
    pub fn park_run(&self, run_id: String, token: String, now: i64) -> Answer<bool> {
        self.shared.write(|state| self.inner.park_run(state, &run_id, &Digest::of(token), now)).into()
    }

    /// `completeWorkflowRun`
    #[napi(catch_unwind)]
    pub fn complete_run(&self, run_id: String, token: String, now: i64) -> Answer<bool> {
        self.shared.write(|state| self.inner.complete_run(state, &run_id, &Digest::of(token), now)).into()
    }

    /// `failWorkflowRun`; `error_json` is `error` as a JSON string.
    #[napi(catch_unwind)]
    pub fn fail_run(
        &self,
        run_id: String,
        token: Option<String>,
        code: String,
        error: String,
        error_json: String,
        now: i64,
    ) -> Answer<bool> {
        let end = EndRun { token: token.map(Digest::of), code: &code, error: &error, error_json: &error_json, now };
        self.shared.write(|state| self.inner.fail_run(state, &run_id, &end)).into()
    }

    /// `cancelWorkflowRun`
    #[napi(catch_unwind)]
    pub fn cancel_run(&self, run_id: String, token: Option<String>, now: i64) -> Answer<bool> {
        self.shared.write(|state| self.inner.cancel_run(state, &run_id, token.map(Digest::of), now)).into()
    }

    /// `deleteWorkflowRun`
    #[napi(catch_unwind)]
    pub fn delete_run(&self, run_id: String, token: String, now: i64) -> Answer<bool> {
        self.shared.write(|state| self.inner.delete_run(state, &run_id, &Digest::of(token), now)).into()
    }

    /// `setWorkflowRunOriginSession`
    #[napi(catch_unwind)]
    pub fn set_run_origin_session(&self, run_id: String, session_id: String, now: i64) -> Answer<bool> {
        self.shared.write(|state| self.inner.set_run_origin_session(state, &run_id, &session_id, now)).into()
    }

    /// `recordRunEvent`
    #[napi(catch_unwind)]
    pub fn record_run_event(
        &self,
        run_id: String,
        workflow_ref: String,
        kind: String,
        payload: String,
        runner_id: Option<String>,
        now: i64,
    ) -> Answer<Text> {
        let event = RecordRunEvent {
            run_id: &run_id,
            workflow_ref: &workflow_ref,
            kind: &kind,
            payload: &payload,
            runner_id: runner_id.as_deref(),
            now,
        };
        self.shared.write(|state| self.inner.record_run_event(state, &event)).into()
    }

    /// `listRunEventsAfter`
    #[napi(catch_unwind)]
    pub fn list_run_events_after(&self, seq: i64, limit: i64) -> Answer<Text> {
        self.shared.read(|state| self.inner.list_run_events_after(state, seq, limit)).into()
    }

    /// `settleRunEffect`
    #[napi(catch_unwind)]
    pub fn settle_run_effect(&self, run_id: String, effect_type: String, now: i64) -> Answer<()> {
        self.shared.write(|state| self.inner.settle_run_effect(state, &run_id, &effect_type, now)).into()
    }

    /// `ensureWorkflowTurnIntent`
    #[napi(catch_unwind)]
    pub fn ensure_turn_intent(&self, request: IntentRequest) -> Answer<Text> {
        let intent = EnsureIntent {
            intent_id: &request.intent_id,
            source_event_id: &request.source_event_id,
            run_id: &request.run_id,
            workflow_ref: &request.workflow_ref,
            target_session_id: &request.target_session_id,
            cause: &request.cause,
            node_id: request.node_id.as_deref(),
            attempt_id: request.attempt_id.as_deref(),
            facts: &request.facts,
            eligible: request.eligible,
            now: request.now,
        };
        self.shared.write(|state| self.inner.ensure_turn_intent(state, &intent)).into()
    }

    /// `getWorkflowTurnIntent`
    #[napi(catch_unwind)]
    pub fn get_turn_intent(&self, intent_id: String) -> Answer<Maybe<Text>> {
        self.shared.read(|state| self.inner.get_turn_intent(state, &intent_id)).into()
    }

    /// `findPendingWorkflowTurnIntent`
    #[napi(catch_unwind)]
    pub fn find_pending_turn_intent(&self, run_id: String, session_id: String) -> Answer<Maybe<Text>> {
        self.shared.read(|state| self.inner.find_pending_turn_intent(state, &run_id, &session_id)).into()
    }

    /// `claimWorkflowTurnIntent`
    #[napi(catch_unwind)]
    pub fn claim_turn_intent(
        &self,
        intent_id: String,
        session_id: String,
        token: String,
        now: i64,
        expires_at: i64,
    ) -> Answer<Maybe<Text>> {
        let claim = DeliveryClaim { target_session_id: &session_id, token: Digest::of(token), now, expires_at };
        self.shared.write(|state| self.inner.claim_turn_intent(state, &intent_id, &claim)).into()
    }

    /// `claimEligibleWorkflowTurnIntents`
    #[napi(catch_unwind)]
    pub fn claim_eligible_turn_intents(
        &self,
        session_id: String,
        token: String,
        limit: i64,
        now: i64,
        expires_at: i64,
    ) -> Answer<Text> {
        let claim = DeliveryClaim { target_session_id: &session_id, token: Digest::of(token), now, expires_at };
        self.shared.write(|state| self.inner.claim_eligible_turn_intents(state, &claim, limit)).into()
    }

    /// `makeWorkflowTurnIntentEligible`
    #[napi(catch_unwind)]
    pub fn make_turn_intent_eligible(&self, intent_id: String, facts: String, eligible_at: i64) -> Answer<bool> {
        self.shared.write(|state| self.inner.make_turn_intent_eligible(state, &intent_id, &facts, eligible_at)).into()
    }

    /// `resolveWorkflowTurnIntent`
    #[napi(catch_unwind)]
    pub fn resolve_turn_intent(
        &self,
        intent_id: String,
        session_id: String,
        token: String,
        resolution: String,
        message_id: Option<String>,
        now: i64,
    ) -> Answer<bool> {
        let resolve = ResolveIntent {
            intent_id: &intent_id,
            target_session_id: &session_id,
            token: Digest::of(token),
            resolution: &resolution,
            message_id: message_id.as_deref(),
            now,
        };
        self.shared.write(|state| self.inner.resolve_turn_intent(state, &resolve)).into()
    }

    /// `releaseWorkflowTurnIntentClaim`
    #[napi(catch_unwind)]
    pub fn release_turn_intent_claim(&self, intent_id: String, session_id: String, token: String) -> Answer<bool> {
        self.shared
            .write(|state| self.inner.release_turn_intent_claim(state, &intent_id, &session_id, &Digest::of(token)))
            .into()
    }

    /// `listWorkflowTurnIntents`
    #[napi(catch_unwind)]
    pub fn list_turn_intents(
        &self,
        run_id: Option<String>,
        session_id: Option<String>,
        unresolved_only: bool,
        limit: i64,
    ) -> Answer<Text> {
        let filter = IntentFilter {
            run_id: run_id.as_deref(),
            target_session_id: session_id.as_deref(),
            unresolved_only,
            limit,
        };
        self.shared.read(|state| self.inner.list_turn_intents(state, &filter)).into()
    }

    /// `enqueueWorkflowNotification`
    #[napi(catch_unwind)]
    #[allow(clippy::too_many_arguments, reason = "one crossing, no object to take apart")]
    pub fn enqueue_notification(
        &self,
        run_id: String,
        attempt_id: String,
        index: i64,
        session_id: String,
        kind: String,
        content: String,
        now: i64,
    ) -> Answer<Text> {
        let notification = EnqueueNotification {
            run_id: &run_id,
            attempt_id: &attempt_id,
            index,
            target_session_id: &session_id,
            kind: &kind,
            content: &content,
            now,
        };
        self.shared.write(|state| self.inner.enqueue_notification(state, &notification)).into()
    }

    /// `claimPendingWorkflowNotifications`
    #[napi(catch_unwind)]
    pub fn claim_pending_notifications(
        &self,
        session_id: String,
        token: String,
        limit: i64,
        now: i64,
        expires_at: i64,
    ) -> Answer<Text> {
        let claim = DeliveryClaim { target_session_id: &session_id, token: Digest::of(token), now, expires_at };
        self.shared.write(|state| self.inner.claim_pending_notifications(state, &claim, limit)).into()
    }

    /// `markWorkflowNotificationDelivered`
    #[napi(catch_unwind)]
    pub fn mark_notification_delivered(
        &self,
        notification_id: String,
        session_id: String,
        token: String,
        now: i64,
    ) -> Answer<bool> {
        self.shared
            .write(|state| {
                self.inner.mark_notification_delivered(state, &notification_id, &session_id, &Digest::of(token), now)
            })
            .into()
    }
}
