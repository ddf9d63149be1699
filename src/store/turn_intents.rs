//! Turn intents: a turn that a session owes the outcome of a run, delivered once.

use rusqlite::{Connection, Row, params};

use super::deliveries::{self, DeliveryClaim};
use super::error::{Error, Refusal, Result};
use super::runs;
use super::{Store, records};
use crate::state::ids::Digest;
use crate::state::json::{Array, Object};
use crate::state::{State, Write, find, for_each, json_column, optional_text, text};

macro_rules! select_intents {
    ($clause:literal) => {
        concat!(
            "SELECT t.turn_intent_id, t.source_event_id, t.run_id, t.workflow_ref, t.target_session_id, t.cause,
               t.node_id, t.attempt_id, facts.content, t.requested_at, t.eligible_at, t.resolved_at,
               t.resolution_type, t.resolution_message_id, l.expires_at
             FROM turn_intents t
             JOIN effects e ON e.effect_id = t.effect_id
             JOIN leases l ON l.resource_id = e.resource_id
             LEFT JOIN blobs facts ON facts.blob_hash = t.facts_hash AND facts.media_type = 'application/json' ",
            $clause
        )
    };
}

const BY_ID: &str = select_intents!("WHERE t.turn_intent_id = ?");
const BY_SOURCE: &str = select_intents!("WHERE t.source_event_id = ?");
const PENDING: &str = select_intents!(
    "WHERE t.run_id = ? AND t.target_session_id = ? AND t.resolved_at IS NULL
     ORDER BY t.requested_at DESC, t.rowid LIMIT 1"
);

/// Newest first, by filter: (run?, session?, unresolved only?). A parameter that the filter does not use is not in the text.
const LIST: [&str; 8] = [
    select_intents!("ORDER BY t.requested_at DESC, t.rowid LIMIT ?3"),
    select_intents!("WHERE t.resolved_at IS NULL ORDER BY t.requested_at DESC, t.rowid LIMIT ?3"),
    select_intents!("WHERE t.target_session_id = ?2 ORDER BY t.requested_at DESC, t.rowid LIMIT ?3"),
    select_intents!(
        "WHERE t.target_session_id = ?2 AND t.resolved_at IS NULL ORDER BY t.requested_at DESC, t.rowid LIMIT ?3"
    ),
    select_intents!("WHERE t.run_id = ?1 ORDER BY t.requested_at DESC, t.rowid LIMIT ?3"),
    select_intents!("WHERE t.run_id = ?1 AND t.resolved_at IS NULL ORDER BY t.requested_at DESC, t.rowid LIMIT ?3"),
    select_intents!("WHERE t.run_id = ?1 AND t.target_session_id = ?2 ORDER BY t.requested_at DESC, t.rowid LIMIT ?3"),
    select_intents!(
        "WHERE t.run_id = ?1 AND t.target_session_id = ?2 AND t.resolved_at IS NULL
         ORDER BY t.requested_at DESC, t.rowid LIMIT ?3"
    ),
];

const ELIGIBLE: &str = "SELECT turn_intent_id, effect_id FROM turn_intents
  WHERE target_session_id = ? AND resolved_at IS NULL AND eligible_at IS NOT NULL AND eligible_at <= ?
  ORDER BY eligible_at LIMIT ?";

const DELIVERY: &str = "SELECT effect_id, target_session_id FROM turn_intents WHERE turn_intent_id = ?";

const INSERT: &str = "INSERT INTO turn_intents(turn_intent_id, resource_id, effect_id, source_event_id, run_id,
    workflow_ref, target_session_id, cause, node_id, attempt_id, facts_hash, requested_at, eligible_at, created_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?12)";

const MAKE_ELIGIBLE: &str =
    "UPDATE turn_intents SET eligible_at = ?, facts_hash = ? WHERE turn_intent_id = ? AND resolved_at IS NULL";

const RESOLVE: &str = "UPDATE turn_intents SET resolved_at = ?, resolution_type = ?, resolution_message_id = ?
  WHERE turn_intent_id = ? AND resolved_at IS NULL";

/// A turn that a session is to take.
#[derive(Debug)]
pub struct EnsureIntent<'a> {
    /// The intent's id.
    pub intent_id: &'a str,
    /// The event that it comes from; there is one intent for each.
    pub source_event_id: &'a str,
    /// The run.
    pub run_id: &'a str,
    /// The workflow, as the caller calls it.
    pub workflow_ref: &'a str,
    /// The session that is to take the turn.
    pub target_session_id: &'a str,
    /// Why.
    pub cause: &'a str,
    /// The node that caused it.
    pub node_id: Option<&'a str>,
    /// The attempt that caused it.
    pub attempt_id: Option<&'a str>,
    /// Canonical JSON: what to say where nothing better is known.
    pub facts: &'a str,
    /// Whether it can be delivered at once.
    pub eligible: bool,
    /// The time.
    pub now: i64,
}

/// Which intents to list.
#[derive(Debug)]
pub struct IntentFilter<'a> {
    /// Of one run.
    pub run_id: Option<&'a str>,
    /// For one session.
    pub target_session_id: Option<&'a str>,
    /// Only those that are still open.
    pub unresolved_only: bool,
    /// At the most so many.
    pub limit: i64,
}

/// How a turn was taken.
#[derive(Debug)]
pub struct ResolveIntent<'a> {
    /// The intent's id.
    pub intent_id: &'a str,
    /// The session that took it.
    pub target_session_id: &'a str,
    /// The digest of the claim's token.
    pub token: Digest,
    /// How.
    pub resolution: &'a str,
    /// By which message.
    pub message_id: Option<&'a str>,
    /// The time.
    pub now: i64,
}

impl Store {
    /// Stores a turn intent, once for each source event; gives the one that is there where there is one already.
    pub fn ensure_turn_intent(&self, state: &mut State, intent: &EnsureIntent<'_>) -> Result<String> {
        state.write(|tx| {
            if let Some(existing) = find(tx, BY_SOURCE, [intent.source_event_id], record)? {
                return Ok(existing);
            }
            insert(tx, intent)?;
            require(tx, intent.intent_id)
        })
    }

    /// A turn intent; `None` where there is none.
    pub fn get_turn_intent(&self, state: &State, intent_id: &str) -> Result<Option<String>> {
        find(state.connection(), BY_ID, [intent_id], record)
    }

    /// The newest open intent of a run for a session; `None` where there is none.
    pub fn find_pending_turn_intent(&self, state: &State, run_id: &str, session_id: &str) -> Result<Option<String>> {
        find(state.connection(), PENDING, [run_id, session_id], record)
    }

    /// Claims an intent for its session; `None` where it does not exist, is another session's, settled, or claimed.
    pub fn claim_turn_intent(
        &self,
        state: &mut State,
        intent_id: &str,
        claim: &DeliveryClaim<'_>,
    ) -> Result<Option<String>> {
        state.write(|tx| match delivery(tx, intent_id, claim.target_session_id)? {
            Some(effect_id) if deliveries::claim(tx, &effect_id, claim)? => require(tx, intent_id).map(Some),
            _ => Ok(None),
        })
    }

    /// Claims the eligible intents of a session, oldest first: of the first `limit`, those that nobody has claimed.
    pub fn claim_eligible_turn_intents(
        &self,
        state: &mut State,
        claim: &DeliveryClaim<'_>,
        limit: i64,
    ) -> Result<String> {
        state.write(|tx| {
            let mut eligible: Vec<(String, String)> = Vec::new();
            for_each(tx, ELIGIBLE, params![claim.target_session_id, claim.now, limit], |row| {
                eligible.push((row.get(0)?, row.get(1)?));
                Ok::<_, Error>(())
            })?;
            let mut list = Array::begin();
            for (intent_id, effect_id) in &eligible {
                if deliveries::claim(tx, effect_id, claim)? {
                    list.element().push_str(&require(tx, intent_id)?);
                }
            }
            Ok(list.end())
        })
    }

    /// Lets an open intent be delivered from the given time on, with new facts; `false` where it is not open.
    pub fn make_turn_intent_eligible(
        &self,
        state: &mut State,
        intent_id: &str,
        facts: &str,
        eligible_at: i64,
    ) -> Result<bool> {
        state.write(|tx| {
            let facts = tx.put_json(facts, eligible_at)?;
            Ok(tx.execute(MAKE_ELIGIBLE, params![eligible_at, facts, intent_id])? == 1)
        })
    }

    /// Settles a claimed intent; `false` where the token does not hold it for that session, or it is settled already.
    pub fn resolve_turn_intent(&self, state: &mut State, resolve: &ResolveIntent<'_>) -> Result<bool> {
        let ResolveIntent { intent_id, target_session_id, ref token, resolution, message_id, now } = *resolve;
        state.write(|tx| {
            let Some(effect_id) = delivery(tx, intent_id, target_session_id)? else { return Ok(false) };
            let Some(held) = deliveries::held(tx, &effect_id, token, now)? else { return Ok(false) };
            if tx.execute(RESOLVE, params![now, resolution, message_id, intent_id])? != 1 {
                return Ok(false);
            }
            deliveries::complete(tx, &effect_id, &held, now)
        })
    }

    /// Gives up the claim on an intent; `false` where the token does not hold it for that session.
    pub fn release_turn_intent_claim(
        &self,
        state: &mut State,
        intent_id: &str,
        target_session_id: &str,
        token: &Digest,
    ) -> Result<bool> {
        state.write(|tx| match delivery(tx, intent_id, target_session_id)? {
            Some(effect_id) => deliveries::release(tx, &effect_id, token),
            None => Ok(false),
        })
    }

    /// Turn intents, newest first.
    pub fn list_turn_intents(&self, state: &State, filter: &IntentFilter<'_>) -> Result<String> {
        let IntentFilter { run_id, target_session_id, unresolved_only, limit } = *filter;
        let index = usize::from(run_id.is_some()) << 2
            | usize::from(target_session_id.is_some()) << 1
            | usize::from(unresolved_only);
        let sql = LIST.get(index).copied().unwrap_or_default();
        let mut list = Array::begin();
        for_each(state.connection(), sql, params![run_id, target_session_id, limit], |row| {
            push_record(list.element(), row)
        })?;
        Ok(list.end())
    }
}

fn insert(tx: &Write<'_>, intent: &EnsureIntent<'_>) -> Result<()> {
    let now = intent.now;
    let run = runs::require(tx, intent.run_id)?;
    let facts = tx.put_json(intent.facts, now)?;
    let effect_id = deliveries::create(tx, &run, "turn.deliver", intent.intent_id, facts, now)?;
    deliveries::identify(
        tx,
        "turn_intent",
        intent.intent_id,
        "turn.requested",
        intent.target_session_id,
        now,
        |resource_id| {
            tx.execute(
                INSERT,
                params![
                    intent.intent_id,
                    resource_id,
                    effect_id,
                    intent.source_event_id,
                    intent.run_id,
                    intent.workflow_ref,
                    intent.target_session_id,
                    intent.cause,
                    intent.node_id,
                    intent.attempt_id,
                    facts,
                    now,
                    intent.eligible.then_some(now)
                ],
            )?;
            Ok(())
        },
    )
}

fn require(connection: &Connection, intent_id: &str) -> Result<String> {
    find(connection, BY_ID, [intent_id], record)?
        .ok_or_else(|| Refusal::TurnIntentNotFound(intent_id.to_owned()).into())
}

/// The effect that delivers an intent to this session; `None` where there is no such intent of this session's.
fn delivery(connection: &Connection, intent_id: &str, session_id: &str) -> Result<Option<String>> {
    find(connection, DELIVERY, [intent_id], |row| {
        Ok((text(row, 1)? == session_id).then(|| row.get::<_, String>(0)).transpose()?)
    })
    .map(Option::flatten)
}

fn record(row: &Row<'_>) -> Result<String> {
    records::one(|out| push_record(out, row))
}

/// Writes a row of `select_intents!` as a `WorkflowTurnIntentRecord`.
fn push_record(out: &mut String, row: &Row<'_>) -> Result<()> {
    let mut intent = Object::begin(out);
    intent.string("intentId", text(row, 0)?);
    intent.string("sourceEventId", text(row, 1)?);
    intent.string("runId", text(row, 2)?);
    intent.string("workflowRef", text(row, 3)?);
    intent.string("targetSessionId", text(row, 4)?);
    intent.string("cause", text(row, 5)?);
    intent.nullable_string("nodeId", optional_text(row, 6)?);
    intent.nullable_string("attemptId", optional_text(row, 7)?);
    intent.raw("fallbackFacts", json_column(row, 8)?);
    intent.time("requestedAt", row.get(9)?);
    intent.nullable_time("eligibleAt", row.get(10)?);
    intent.nullable_time("resolvedAt", row.get(11)?);
    intent.nullable_string("resolution", optional_text(row, 12)?);
    intent.nullable_string("resolutionMessageId", optional_text(row, 13)?);
    intent.nullable_time("deliveryClaimExpiresAt", row.get(14)?);
    intent.end();
    Ok(())
}
