//! The map of this crate.
#[cfg(feature = "node")]
mod node;
pub mod state;
pub mod store;
