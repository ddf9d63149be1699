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
