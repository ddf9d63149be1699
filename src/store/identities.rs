//! Identities: the row of `resources` that carries a thing's version, and its lease.
//!
//! An identity outlives what it identifies. When the same key is used again it is adopted, and goes on counting: neither
//! a version nor a fencing generation ever repeats.

use rusqlite::params;

use super::error::{Error, Result};
use super::leases;
use crate::state::{self, Write, find};

const CREATE: &str =
    "INSERT INTO resources(resource_id, resource_type, aggregate_key, revision, created_at, updated_at)
  VALUES (?1, ?2, ?3, 1, ?4, ?4)
  ON CONFLICT(resource_id) DO UPDATE
    SET aggregate_key = excluded.aggregate_key, revision = revision + 1, updated_at = excluded.updated_at
  RETURNING revision";

/// Creates an identity at version 1 with a free lease, or adopts one that is there; gives the version.
pub(super) fn create(
    tx: &Write<'_>,
    resource_id: &str,
    resource_type: &str,
    aggregate_key: &str,
    now: i64,
) -> Result<i64> {
    let revision =
        find(tx, CREATE, params![resource_id, resource_type, aggregate_key, now], |row| Ok::<_, Error>(row.get(0)?))?
            .ok_or_else(|| state::Error::Damaged(format!("the identity {resource_id} was not stored")))?;
    leases::create(tx, resource_id)?;
    Ok(revision)
}
