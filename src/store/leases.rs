//! Leases: who holds a resource until when, fenced by a generation that only grows.

use rusqlite::{Row, params};

use super::error::{Refusal, Result};
use super::events::Actor;
use super::sets::OwnerType;
use crate::state::ids::Digest;
use crate::state::{self, Write, ids, optional_bytes, optional_text};

/// What is held, by whom: `lease!("l")` are the columns that [`Lease::read`] takes.
macro_rules! lease_columns {
    ($alias:literal) => {
        concat!(
            $alias,
            ".generation, ",
            $alias,
            ".owner_type, ",
            $alias,
            ".owner_id, ",
            $alias,
            ".token_hash, ",
            $alias,
            ".expires_at"
        )
    };
}
pub(super) use lease_columns;

/// Creates the lease of a new resource. One that is there keeps its generation, and is free afterwards.
const CREATE: &str = "INSERT INTO leases(resource_id, generation) VALUES (?, 0)
  ON CONFLICT(resource_id) DO UPDATE SET owner_type = NULL, owner_id = NULL, token_hash = NULL,
    acquired_at = NULL, heartbeat_at = NULL, expires_at = NULL";

/// Takes a lease that was read at `generation`. The fence is here: a rival's claim has moved the generation on.
const TAKE: &str = "UPDATE leases SET generation = generation + 1, owner_type = ?, owner_id = ?, token_hash = ?,
    acquired_at = ?, heartbeat_at = ?, expires_at = ?
  WHERE resource_id = ? AND generation = ?";

const RENEW: &str = "UPDATE leases SET heartbeat_at = ?, expires_at = ?
  WHERE resource_id = ? AND generation = ? AND expires_at > ?";

const RELEASE: &str = "UPDATE leases SET owner_type = NULL, owner_id = NULL, token_hash = NULL,
    acquired_at = NULL, heartbeat_at = NULL, expires_at = NULL
  WHERE resource_id = ? AND generation = ? AND owner_id IS NOT NULL";

/// A controller's claim on a resource, as the caller holds it. Of the token only its digest gets this far.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The controller's name.
    pub controller: String,
    /// The resource's key.
    pub key: String,
    /// Who claimed it.
    pub owner_id: String,
    /// The digest of the claim's token.
    pub token: Digest,
    /// The fencing generation of the claim.
    pub generation: i64,
    /// The version of the queue item that was claimed.
    pub queue_version: i64,
}

/// A lease as it stands.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) generation: i64,
    pub(super) held: Option<Held>,
}

/// A hold on a lease, be it expired or not.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) owner_type: OwnerType,
    pub(super) owner_id: String,
    token_hash: Vec<u8>,
    expires_at: i64,
}

impl Held {
    /// Whether it is still going on at `now`. A lease ends at the millisecond of its expiry.
    pub(super) fn is_live(&self, now: i64) -> bool {
        self.expires_at > now
    }

    /// Whether this token's digest is the one that took it.
    pub(super) fn has_token(&self, token: &Digest) -> bool {
        token.equals(&self.token_hash)
    }

    /// Its owner, as the actor of an event.
    pub(super) fn actor(&self) -> Actor<'_> {
        Actor { kind: self.owner_type.into(), id: Some(&self.owner_id) }
    }
}

impl Lease {
    /// Reads [`lease_columns`], of which the first is `column`.
    pub(super) fn read(row: &Row<'_>, column: usize) -> Result<Self> {
        let held = match (
            optional_text(row, column + 1)?,
            optional_text(row, column + 2)?,
            optional_bytes(row, column + 3)?,
        ) {
            (Some(owner_type), Some(owner_id), Some(token_hash)) => Some(Held {
                owner_type: OwnerType::parse(owner_type)
                    .ok_or_else(|| state::Error::Damaged(format!("a lease is held by a {owner_type}")))?,
                owner_id: owner_id.to_owned(),
                token_hash: token_hash.to_owned(),
                expires_at: row.get(column + 4)?,
            }),
            _ => None,
        };
        Ok(Self { generation: row.get(column)?, held })
    }

    /// Whether this claim is the one that holds the lease, be it expired or not.
    pub(super) fn is_held_by(&self, claim: &Claim) -> bool {
        self.held.as_ref().is_some_and(|held| {
            held.owner_type == OwnerType::Controller
                && held.owner_id == claim.owner_id
                && self.generation == claim.generation
                && held.has_token(&claim.token)
        })
    }

    /// Whoever holds it at `now`.
    pub(super) fn live(&self, now: i64) -> Option<&Held> {
        self.held.as_ref().filter(|held| held.is_live(now))
    }

    /// Whoever holds it at `now` with this token.
    pub(super) fn live_with_token(&self, token: &Digest, now: i64) -> Option<&Held> {
        self.live(now).filter(|held| held.has_token(token))
    }

    /// The fencing generation for an event; an identity that was never claimed has none.
    pub(super) fn event_generation(&self) -> Option<i64> {
        Some(self.generation).filter(|generation| *generation > 0)
    }
}

/// A new hold on a lease.
#[derive(Debug)]
pub(super) struct Grant<'a> {
    pub(super) owner_type: OwnerType,
    pub(super) owner_id: &'a str,
    pub(super) token: Digest,
    pub(super) now: i64,
    pub(super) expires_at: i64,
}

/// Gives a new resource its lease, free.
pub(super) fn create(tx: &Write<'_>, resource_id: &str) -> Result<()> {
    tx.execute(CREATE, [resource_id])?;
    Ok(())
}

/// Takes a lease that stands at `generation`; gives the generation of the new claim.
pub(super) fn take(tx: &Write<'_>, resource_id: &str, generation: i64, grant: &Grant<'_>) -> Result<i64> {
    let Grant { owner_type, owner_id, token, now, expires_at } = *grant;
    let taken =
        tx.execute(TAKE, params![owner_type, owner_id, token, now, now, expires_at, resource_id, generation])?;
    if taken == 1 { Ok(generation + 1) } else { Err(Refusal::RevisionConflict.into()) }
}

/// Extends a lease that is still live; `false` where it is not, or where the generation has moved on.
pub(super) fn renew(tx: &Write<'_>, resource_id: &str, generation: i64, now: i64, expires_at: i64) -> Result<bool> {
    Ok(tx.execute(RENEW, params![now, expires_at, resource_id, generation, now])? == 1)
}

/// Frees a lease that is held at `generation`; `false` where it is not.
pub(super) fn release(tx: &Write<'_>, resource_id: &str, generation: i64) -> Result<bool> {
    Ok(tx.execute(RELEASE, params![resource_id, generation])? == 1)
}

/// A token and its digest for a new claim.
pub(super) fn new_token() -> Result<(String, Digest)> {
    let token = ids::random_token()?;
    let digest = Digest::of(&token);
    Ok((token, digest))
}
