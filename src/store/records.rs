//! What the records of several subjects share.

use super::error::Result;
use crate::state::json::object;

/// The text of one record.
pub(super) fn one(push: impl FnOnce(&mut String) -> Result<()>) -> Result<String> {
    let mut out = String::new();
    push(&mut out)?;
    Ok(out)
}

/// A record, and whether this call has reserved it.
pub(super) fn reservation(record: &str, created: bool) -> String {
    object(|reservation| {
        reservation.raw("record", record);
        reservation.boolean("created", created);
    })
}
