//! Notifications: what a node of a run tells a session, delivered once.

use rusqlite::{Row, params};

use super::Store;
use super::deliveries::{self, DeliveryClaim};
use super::error::{Error, Refusal, Result};
use super::runs;
use crate::state::ids::{self, Digest};
use crate::state::json::{Array, Object};
use crate::state::{State, Write, find, for_each, optional_blob_text, text};

macro_rules! select_notifications {
    ($clause:literal) => {
        concat!(
            "SELECT n.notification_id, n.run_id, a.node_id, n.attempt_id, n.notification_index, n.target_session_id,
               n.notification_type, content.content, n.created_at, l.expires_at, e.settled_at, n.effect_id
             FROM notifications n
             JOIN effects e ON e.effect_id = n.effect_id
             JOIN leases l ON l.resource_id = e.resource_id
             JOIN node_attempts a ON a.attempt_id = n.attempt_id
             LEFT JOIN blobs content ON content.blob_hash = n.content_hash ",
            $clause
        )
    };
}

const BY_INDEX: &str = select_notifications!("WHERE n.run_id = ? AND n.attempt_id = ? AND n.notification_index = ?");

const PENDING: &str = select_notifications!(
    "WHERE n.target_session_id = ? AND e.status = 'pending' ORDER BY n.created_at, n.rowid LIMIT ?"
);

const DELIVERY: &str = "SELECT effect_id FROM notifications WHERE notification_id = ? AND target_session_id = ?";

const INSERT: &str = "INSERT INTO notifications(notification_id, effect_id, run_id, attempt_id, notification_index,
    target_session_id, notification_type, content_hash, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// Something to tell a session.
#[derive(Debug)]
pub struct EnqueueNotification<'a> {
    /// The run.
    pub run_id: &'a str,
    /// The attempt of a node that has something to tell.
    pub attempt_id: &'a str,
    /// Which of the attempt's notifications it is; there is one for each number.
    pub index: i64,
    /// The session.
    pub target_session_id: &'a str,
    /// `progress` or `final`.
    pub kind: &'a str,
    /// What to tell.
    pub content: &'a str,
    /// The time.
    pub now: i64,
}

impl Store {
    /// Stores a notification, once for each attempt and index; gives the one that is there where there is one already.
    pub fn enqueue_notification(&self, state: &mut State, notification: &EnqueueNotification<'_>) -> Result<String> {
        let EnqueueNotification { run_id, attempt_id, index, .. } = *notification;
        state.write(|tx| {
            let by_index = || find(tx, BY_INDEX, params![run_id, attempt_id, index], record);
            if let Some(existing) = by_index()? {
                return Ok(existing);
            }
            insert(tx, notification)?;
            by_index()?.ok_or_else(|| Refusal::NotificationNotStored.into())
        })
    }

    /// Claims what is to be told to a session, oldest first: of the first `limit`, those that nobody has claimed.
    ///
    /// A record says when the claim before this one lapsed.
    pub fn claim_pending_notifications(
        &self,
        state: &mut State,
        claim: &DeliveryClaim<'_>,
        limit: i64,
    ) -> Result<String> {
        state.write(|tx| {
            let mut pending: Vec<(String, String)> = Vec::new();
            for_each(tx, PENDING, params![claim.target_session_id, limit], |row| {
                pending.push((row.get(11)?, record(row)?));
                Ok::<_, Error>(())
            })?;
            let mut list = Array::begin();
            for (effect_id, record) in &pending {
                if deliveries::claim(tx, effect_id, claim)? {
                    list.element().push_str(record);
                }
            }
            Ok(list.end())
        })
    }

    /// Marks a claimed notification as delivered; `false` where the token does not hold it for that session.
    pub fn mark_notification_delivered(
        &self,
        state: &mut State,
        notification_id: &str,
        target_session_id: &str,
        token: &Digest,
        now: i64,
    ) -> Result<bool> {
        state.write(|tx| {
            let effect_id = find(tx, DELIVERY, [notification_id, target_session_id], |row| {
                Ok::<_, Error>(row.get::<_, String>(0)?)
            })?;
            let Some(effect_id) = effect_id else { return Ok(false) };
            match deliveries::held(tx, &effect_id, token, now)? {
                Some(held) => deliveries::complete(tx, &effect_id, &held, now),
                None => Ok(false),
            }
        })
    }
}

fn insert(tx: &Write<'_>, notification: &EnqueueNotification<'_>) -> Result<()> {
    let EnqueueNotification { run_id, attempt_id, index, target_session_id, kind, content, now } = *notification;
    let run = runs::require(tx, run_id)?;
    let id = ids::random_id("notification")?;
    let content = tx.put_text(content, now)?;
    let effect_id = deliveries::create(tx, &run, "notification.deliver", &id, content, now)?;
    deliveries::identify(tx, "notification", &id, "notification.queued", target_session_id, now, |_| {
        tx.execute(INSERT, params![id, effect_id, run_id, attempt_id, index, target_session_id, kind, content, now])?;
        Ok(())
    })
}

fn record(row: &Row<'_>) -> Result<String> {
    let mut out = String::new();
    let mut notification = Object::begin(&mut out);
    notification.string("notificationId", text(row, 0)?);
    notification.string("runId", text(row, 1)?);
    notification.string("nodeId", text(row, 2)?);
    notification.string("attemptId", text(row, 3)?);
    notification.integer("notificationIndex", row.get(4)?);
    notification.string("targetSessionId", text(row, 5)?);
    notification.string("kind", text(row, 6)?);
    notification.string("content", optional_blob_text(row, 7)?.unwrap_or_default());
    notification.time("createdAt", row.get(8)?);
    notification.nullable_time("deliveryClaimExpiresAt", row.get(9)?);
    notification.nullable_time("deliveredAt", row.get(10)?);
    notification.end();
    Ok(out)
}
