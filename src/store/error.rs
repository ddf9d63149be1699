//! What the store refuses.

use thiserror::Error;

use crate::state;

/// A result of the store.
pub type Result<T> = std::result::Result<T, Error>;

/// A refusal or failure of a store method. The variants carry facts; `Display` makes the sentence.
#[derive(Debug, Error)]
pub enum Error {
    /// The database underneath.
    #[error(transparent)]
    State(#[from] state::Error),
    /// Somebody else changed the resource in between.
    #[error("Controller resource {controller}/{key} changed during reconciliation")]
    ResourceConflict {
        /// The controller's name.
        controller: String,
        /// The resource's key.
        key: String,
    },
    /// There is no such resource in this project.
    #[error("Controller resource not found: {controller}/{key}")]
    ResourceNotFound {
        /// The controller's name.
        controller: String,
        /// The resource's key.
        key: String,
    },
    /// An idempotency key came back with another request.
    #[error("Effect key {} was reused with a different request", quoted(key))]
    EffectRequestConflict {
        /// The idempotency key.
        key: String,
    },
    /// A request key came back with another workflow or input.
    #[error("Workflow request key {} was reused with different input", quoted(key))]
    WorkflowRequestConflict {
        /// The request key.
        key: String,
    },
    /// Anything else that is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// The refusals that have no error class of their own.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// A read-only store met a project that no writer has registered.
    #[error("Controller project is not registered in the state database")]
    ProjectNotRegistered,
    /// The claim names another resource than the call.
    #[error("Controller claim targets another resource")]
    ClaimElsewhere,
    /// The claim is not the one that holds the resource now.
    #[error("Controller claim is stale")]
    ClaimStale,
    /// The same finalizer twice.
    #[error("Controller finalizers must be unique")]
    FinalizersNotUnique,
    /// No resource has this uid.
    #[error("Controller resource not found: {0}")]
    UidNotFound(String),
    /// A claimed resource has no queue row.
    #[error("Controller queue item is missing")]
    QueueItemMissing,
    /// A resource is not at the version that was read.
    #[error("Resource revision conflict")]
    RevisionConflict,
    /// There is no such effect.
    #[error("Effect record not found: {uid}/{key}")]
    EffectNotFound {
        /// The uid of the resource.
        uid: String,
        /// The idempotency key.
        key: String,
    },
    /// There is no such child workflow request.
    #[error("Workflow request not found: {0}")]
    WorkflowRequestNotFound(String),
    /// A completion that completes nothing.
    #[error("Scheduler completion must report a settled child state")]
    CompletionNotSettled,
    /// A completion of some other run.
    #[error("Scheduler completion run ID does not match the reserved child run")]
    CompletionOfAnotherRun,
    /// There is no such run.
    #[error("Workflow run not found: {0}")]
    RunNotFound(String),
    /// The id is taken.
    #[error("Workflow run already reserved: {0}")]
    RunAlreadyReserved(String),
    /// A run that was to be enqueued and claimed is somebody else's, or has ended.
    #[error("Workflow run could not be claimed: {0}")]
    RunNotClaimable(String),
    /// A run's row points to no state projection.
    #[error("Workflow run {0} has no state projection")]
    RunWithoutState(String),
    /// A run's state projection is no JSON object.
    #[error("Workflow run {0} state is invalid")]
    RunStateInvalid(String),
    /// Something else than 64 hex digits.
    #[error("Expected a SHA-256 digest")]
    DigestExpected,
    /// Neither a builtin or file, nor a root with mounted sources.
    #[error("Stored workflow source identity is invalid")]
    SourceInvalid,
    /// A run can only be continued in its own session.
    #[error("Continuation parent belongs to another Pi session")]
    ParentOfAnotherSession,
    /// A run can only be continued when nobody owns it.
    #[error("Continuation parent still has an active owner")]
    ParentOwned,
    /// A run can be continued once.
    #[error("Continuation parent already has a reserved continuation")]
    ParentContinued,
    /// A run can only be continued while it is parked.
    #[error("Continuation parent queue is {0}")]
    ParentNotParked(&'static str),
    /// There is no such turn intent.
    #[error("Workflow turn intent not found: {0}")]
    TurnIntentNotFound(String),
    /// A notification vanished while it was stored: its attempt is not there.
    #[error("Workflow notification was not stored")]
    NotificationNotStored,
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Self::State(error.into())
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    state::json::push_string(&mut out, text);
    out
}
