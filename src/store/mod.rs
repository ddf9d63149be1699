//! The domain: what the store does with the tables, one file per subject.
//!
//! Plain Rust over [`crate::state`]: `cargo test --no-default-features` runs it without Node. Records come out as JSON
//! text, written straight from the rows; values come in as canonical JSON that the caller has made. Every method that
//! writes is one transaction.

mod child_workflows;
mod deliveries;
mod effects;
mod error;
mod events;
mod identities;
mod leases;
#[cfg(test)]
mod model;
mod notifications;
mod projects;
mod queue;
mod records;
mod resources;
mod run_events;
mod run_queue;
mod run_state;
mod runs;
mod sets;
#[cfg(test)]
mod testing;
mod turn_intents;

pub use child_workflows::{ReserveWorkflow, WorkflowUpdate};
pub use deliveries::DeliveryClaim;
pub use effects::{ReserveEffect, UpdateEffect};
pub use error::{Error, Refusal, Result};
pub use events::RecordEvent;
pub use leases::Claim;
pub use notifications::EnqueueNotification;
pub use queue::{ClaimNext, Requeue};
pub use resources::{PutResource, UpdateStatus, initial_status};
pub use run_events::RecordRunEvent;
pub use run_queue::{EndRun, RunClaim};
pub use runs::ReserveRun;
pub use turn_intents::{EnsureIntent, IntentFilter, ResolveIntent};

/// The store of one project. It holds no connection: several stores share a [`crate::state::State`].
#[derive(Clone, Debug)]
pub struct Store {
    /// The project's id; `None` for a store that only reads and whose project nobody has registered.
    project: Option<String>,
}
