//! What this connection knows about the values that it has stored itself: which of them nobody else can want.
//!
//! A value that nothing points to yet may belong to somebody who is about to point to it. Its `created_at` tells how old
//! it is, and pruning leaves the young ones alone. That would keep a busy process's own garbage for as long, so what it
//! has stored itself is remembered here, with the `created_at` that it has written. Another connection that stores the
//! same bytes again writes a later `created_at` (see [`keep_young`]): then they no longer match, and the value is shared.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use super::error::{Error, Result};
use super::ids::Digest;
use super::query::{execute, find};
use super::time::wall_clock_ms;

/// How long a value may stay without anything that points to it before others may prune it.
pub(super) const GRACE: Duration = Duration::from_secs(600);

/// A value that is stored again is made young again when so much of its grace may be over.
const REFRESH_AFTER_MS: i64 = 300_000;

/// So many values are remembered before the old ones among them are forgotten.
const SWEEP_AT: usize = 1 << 16;

const CREATED_AT: &str = "SELECT created_at FROM blobs WHERE blob_hash = ?";

const REFRESH: &str = "UPDATE blobs SET created_at = ? WHERE blob_hash = ?";

/// A value that was new to the database when this connection stored it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) digest: Digest,
    pub(super) created_at: i64,
}

#[derive(Clone, Copy, Debug)]
struct Own {
    since: Instant,
    created_at: i64,
    /// Nobody else had stored it when we did.
    is_ours_alone: bool,
    /// It was stored for a caller who will point to it later. What a method of the store writes is pointed to in the same
    /// transaction: found without, it is garbage.
    is_loose: bool,
}

/// Which values may be removed, by their `created_at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Removable {
    /// Those up to this time.
    pub(super) until: i64,
    /// And those of exactly this time.
    pub(super) exactly: Option<i64>,
}

/// The values that this connection has stored of late, shared with its pruning thread.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnBlobs(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    blobs: HashMap<[u8; 32], Own>,
    sweep_at: usize,
}

impl OwnBlobs {
    fn with<T>(&self, run: impl FnOnce(&mut Known) -> T) -> T {
        // nothing in here can be left half done
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Remembers what a committed transaction has stored, each pointed to already.
    pub(super) fn remember(&self, stored: &[Stored]) {
        if stored.is_empty() {
            return;
        }
        let since = Instant::now();
        self.with(|known| {
            for &Stored { digest, created_at } in stored {
                known.insert(digest, Own { since, created_at, is_ours_alone: true, is_loose: false });
            }
        });
    }

    /// Forgets everything, after a rollback: nothing of it may be there any more. What is forgotten has its grace.
    pub(super) fn forget(&self) {
        self.with(|known| *known = Known::default());
    }

    /// Forgets what was removed, or not stored after all.
    pub(super) fn forget_one(&self, digest: &[u8; 32]) {
        self.with(|known| known.blobs.remove(digest));
    }

    /// What of a value may be removed. `at_once` is for a caller who asks for it: then what this connection has stored for
    /// later use may go, too.
    pub(super) fn removable(&self, digest: &[u8; 32], until: i64, at_once: bool) -> Removable {
        self.with(|known| match known.blobs.get(digest) {
            None => Removable { until, exactly: None },
            Some(own) if own.is_loose && !at_once => {
                let is_waiting = own.since.elapsed() < GRACE;
                Removable { until: if is_waiting { i64::MIN } else { until }, exactly: None }
            }
            Some(own) => Removable { until, exactly: own.is_ours_alone.then_some(own.created_at) },
        })
    }
}

impl Known {
    fn insert(&mut self, digest: Digest, own: Own) {
        self.blobs.insert(digest.0, own);
        if self.blobs.len() > self.sweep_at.max(SWEEP_AT) {
            // after the grace they are no different from anybody's
            self.blobs.retain(|_, own| own.since.elapsed() < GRACE);
            self.sweep_at = self.blobs.len() * 2;
        }
    }
}

/// Keeps a value that is stored for later use from being pruned before that, also where it was there already, old and
/// pointed to by nothing.
///
/// Called inside the write transaction that stores it: whoever removes blobs holds the same lock, so the value is either
/// gone before or known to be wanted after. Tells whether it has noted a `created_at` that the transaction has written: if
/// that fails to commit, it has to be forgotten.
pub(super) fn keep_young(
    connection: &Connection,
    own: &OwnBlobs,
    digest: Digest,
    is_new: bool,
    now: i64,
) -> Result<bool> {
    let since = Instant::now();
    if is_new {
        own.with(|known| known.insert(digest, Own { since, created_at: now, is_ours_alone: true, is_loose: true }));
        return Ok(true);
    }
    let Some(created_at) = find(connection, CREATED_AT, [digest], |row| Ok::<i64, Error>(row.get(0)?))? else {
        return Ok(false);
    };
    let known = own.with(|known| {
        let own = known.blobs.get_mut(&digest.0).filter(|own| own.created_at == created_at)?;
        own.is_loose = true;
        Some(*own)
    });
    let clock = wall_clock_ms();
    // whoever stores it for the first time writes, so that whoever has stored it before learns of it; after that only a
    // value that may be pruned before long
    if known.is_some() && created_at > clock - REFRESH_AFTER_MS {
        return Ok(false);
    }
    // by the clock that pruning goes by, and in any case later than what was there: whoever stored it first must not take
    // it for theirs alone any more
    let created_at = clock.max(created_at.saturating_add(1));
    execute(connection, REFRESH, params![created_at, digest])?;
    let is_ours_alone = known.is_some_and(|own| own.is_ours_alone);
    own.with(|known| known.insert(digest, Own { since, created_at, is_ours_alone, is_loose: true }));
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: Digest = Digest([7; 32]);

    #[test]
    fn what_is_not_known_goes_when_it_is_old() {
        let own = OwnBlobs::default();
        assert_eq!(own.removable(&DIGEST.0, 9, true), Removable { until: 9, exactly: None });
    }

    #[test]
    fn what_a_method_has_written_goes_at_any_age() {
        let own = OwnBlobs::default();
        own.remember(&[Stored { digest: DIGEST, created_at: 100 }]);
        for at_once in [true, false] {
            assert_eq!(own.removable(&DIGEST.0, 9, at_once), Removable { until: 9, exactly: Some(100) });
        }
        own.forget();
        assert_eq!(own.removable(&DIGEST.0, 9, true), Removable { until: 9, exactly: None });
    }

    #[test]
    fn what_waits_for_its_caller_goes_only_when_asked_for() {
        let connection = Connection::open_in_memory().unwrap();
        let own = OwnBlobs::default();
        keep_young(&connection, &own, DIGEST, true, 5).unwrap();
        assert_eq!(own.removable(&DIGEST.0, 9, true), Removable { until: 9, exactly: Some(5) });
        assert_eq!(own.removable(&DIGEST.0, 9, false), Removable { until: i64::MIN, exactly: None });
    }

    #[test]
    fn an_old_value_is_young_again_when_it_is_stored_again_and_its_first_owner_shares_it() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE blobs(blob_hash BLOB PRIMARY KEY, created_at INTEGER)").unwrap();
        connection.execute("INSERT INTO blobs VALUES (?, 5)", [DIGEST]).unwrap();
        let created_at =
            || -> i64 { connection.query_row("SELECT created_at FROM blobs", [], |row| row.get(0)).unwrap() };
        let (first, second) = (OwnBlobs::default(), OwnBlobs::default());
        first.remember(&[Stored { digest: DIGEST, created_at: 5 }]);
        keep_young(&connection, &second, DIGEST, false, 5).unwrap();
        let refreshed = created_at();
        assert!(refreshed > 5);
        assert_eq!(first.removable(&DIGEST.0, 0, true).exactly, Some(5), "which is not there any more");
        assert_eq!(second.removable(&DIGEST.0, 0, true).exactly, None);
        // written once, not at every call
        keep_young(&connection, &second, DIGEST, false, 5).unwrap();
        assert_eq!(created_at(), refreshed);
    }
}
