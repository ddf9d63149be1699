//! The domain: what the store does with the tables, one file per subject.
//!
//! Plain Rust over [`crate::state`]: `cargo test --no-default-features` runs it without Node. Records come out as JSON
//! text, written straight from the rows; values come in as canonical JSON that the caller has made. Every method that
//! writes is one transaction.

mod child_workflows;
mod effects;
mod error;
mod events;
mod identities;
mod leases;
mod projects;
mod queue;
mod resources;

pub use child_workflows::{ReserveWorkflow, WorkflowUpdate};
pub use effects::{ReserveEffect, UpdateEffect};
pub use error::{Error, Refusal, Result};
pub use events::RecordEvent;
pub use leases::Claim;
pub use queue::{ClaimNext, Requeue};
pub use resources::{PutResource, UpdateStatus, initial_status};

/// The store of one project. It holds no connection: several stores share a [`crate::state::State`].
#[derive(Clone, Debug)]
pub struct Store {
    /// The project's id; `None` for a store that only reads and whose project nobody has registered.
    project: Option<String>,
}
