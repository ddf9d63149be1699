//! What is to be delivered to a session: outbox effects of a run, claimed by a lease on the effect.

use rusqlite::{Row, params};

use super::error::Result;
use super::events::{self, Actor, NO_PAYLOAD, NewEvent};
use super::identities;
use super::leases::{self, Grant, Lease, lease_columns};
use super::runs::RunRow;
use super::sets::OwnerType;
use crate::state::ids::{self, Digest};
use crate::state::{Write, find, text};

const INSERT: &str = "INSERT INTO effects(effect_id, resource_id, source_resource_id, source_revision, effect_type,
    idempotency_key, payload_hash, owner_scope, status, attempt_count, created_at, updated_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'run', 'pending', 0, ?8, ?8)";

const ROW: &str = concat!(
    "SELECT e.resource_id, e.status, ",
    lease_columns!("l"),
    " FROM effects e JOIN leases l ON l.resource_id = e.resource_id WHERE e.effect_id = ?"
);

const APPLY: &str = "UPDATE effects SET status = 'applied', updated_at = ?1, settled_at = ?1 WHERE effect_id = ?2";

/// A claim on something to deliver.
#[derive(Debug)]
pub struct DeliveryClaim<'a> {
    /// The session that it goes to.
    pub target_session_id: &'a str,
    /// The digest of the claim's token.
    pub token: Digest,
    /// The time.
    pub now: i64,
    /// When the claim lapses.
    pub expires_at: i64,
}

/// Something in the outbox, and who is about to deliver it.
#[derive(Debug)]
pub(super) struct Delivery {
    resource_id: String,
    is_pending: bool,
    lease: Lease,
}

impl Delivery {
    fn read(row: &Row<'_>) -> Result<Self> {
        Ok(Self { resource_id: row.get(0)?, is_pending: text(row, 1)? == "pending", lease: Lease::read(row, 2)? })
    }

    fn find(tx: &Write<'_>, effect_id: &str) -> Result<Option<Self>> {
        find(tx, ROW, [effect_id], Self::read)
    }
}

/// Puts something into the outbox of a run; gives the effect's id.
pub(super) fn create(
    tx: &Write<'_>,
    run: &RunRow,
    effect_type: &str,
    key: &str,
    payload: Digest,
    now: i64,
) -> Result<String> {
    let effect_id = ids::random_id("effect")?;
    let resource_id = ids::resource_id("effect", &effect_id);
    let revision = identities::create(tx, &resource_id, "effect", &effect_id, now)?;
    tx.execute(INSERT, params![effect_id, resource_id, run.resource_id, run.revision, effect_type, key, payload, now])?;
    first_event(tx, &resource_id, revision, "effect.created", Actor::SYSTEM, now)?;
    Ok(effect_id)
}

/// Gives what is delivered an identity of its own, with its first event.
pub(super) fn identify(
    tx: &Write<'_>,
    resource_type: &str,
    id: &str,
    kind: &str,
    target_session_id: &str,
    now: i64,
    insert: impl FnOnce(&str) -> Result<()>,
) -> Result<()> {
    let resource_id = ids::resource_id(resource_type, id);
    let revision = identities::create(tx, &resource_id, resource_type, id, now)?;
    insert(&resource_id)?;
    first_event(tx, &resource_id, revision, kind, Actor::session(target_session_id), now)
}

fn first_event(tx: &Write<'_>, resource_id: &str, revision: i64, kind: &str, actor: Actor<'_>, now: i64) -> Result<()> {
    events::append_at(
        tx,
        revision,
        &NewEvent { resource_id, kind, actor, generation: None, payload: NO_PAYLOAD, now },
    )?;
    Ok(())
}

/// Claims something that is still to be delivered; `false` where it is not, or where somebody else is about to.
pub(super) fn claim(tx: &Write<'_>, effect_id: &str, claim: &DeliveryClaim<'_>) -> Result<bool> {
    let Some(delivery) = Delivery::find(tx, effect_id)?.filter(|delivery| delivery.is_pending) else {
        return Ok(false);
    };
    if delivery.lease.live(claim.now).is_some() {
        return Ok(false);
    }
    let grant = Grant {
        owner_type: OwnerType::Session,
        owner_id: claim.target_session_id,
        token: claim.token,
        now: claim.now,
        expires_at: claim.expires_at,
    };
    leases::take(tx, &delivery.resource_id, delivery.lease.generation, &grant)?;
    Ok(true)
}

/// What the token holds at `now`; `None` where it holds nothing.
pub(super) fn held(tx: &Write<'_>, effect_id: &str, token: &Digest, now: i64) -> Result<Option<Delivery>> {
    let delivery = Delivery::find(tx, effect_id)?;
    Ok(delivery.filter(|delivery| delivery.lease.live_with_token(token, now).is_some()))
}

/// Marks what is held as delivered, and frees its lease.
pub(super) fn complete(tx: &Write<'_>, effect_id: &str, delivery: &Delivery, now: i64) -> Result<bool> {
    tx.execute(APPLY, params![now, effect_id])?;
    leases::release(tx, &delivery.resource_id, delivery.lease.generation)
}

/// Gives up the claim, lapsed or not; `false` where the token does not hold it.
pub(super) fn release(tx: &Write<'_>, effect_id: &str, token: &Digest) -> Result<bool> {
    match Delivery::find(tx, effect_id)? {
        Some(Delivery { resource_id, lease, .. }) if lease.held.as_ref().is_some_and(|held| held.has_token(token)) => {
            leases::release(tx, &resource_id, lease.generation)
        }
        _ => Ok(false),
    }
}
