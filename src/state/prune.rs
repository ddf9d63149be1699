//! Pruning: removing the blobs that nothing points to any more.
//!
//! Every status update and event leaves a value behind that has been replaced. One pass over the tables collects what is
//! still pointed to, one over the index of the blobs finds the rest, and the rest is deleted in batches: time linear in
//! the file. Deleting under enforced foreign keys would instead search every referring column again for each blob.
//!
//! So foreign keys are not enforced here, on a connection that does nothing else (the switch is one of a whole connection,
//! and does nothing inside a transaction). What keeps a reference from being left dangling:
//!
//! 1. A batch is deleted in a write transaction of its own, in which no other connection can write.
//! 2. `PRAGMA data_version`, read inside it, says whether anybody else has committed since the references were last
//!    collected. Where nobody has, what was found unreferenced still is.
//! 3. Where somebody has, the references are collected anew: without the lock as long as that works out, at last with it.
//!
//! It does not depend on how the others write, be it this package, the TypeScript modules or SQLite's own shell. Only how
//! long a value without references is left alone does: see `own_blobs`.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use super::error::{Error, Result};
use super::own_blobs::{GRACE, OwnBlobs};
use super::query::{execute, for_each};
use super::time::wall_clock_ms;
use super::transaction::write;
use super::{BUSY_TIMEOUT_MS, CACHE_KIB, Mode, connect};

/// Every column that points to a blob, in whichever schema the file has.
const REFERENCES: &str = "SELECT m.name, f.\"from\" FROM sqlite_schema m JOIN pragma_foreign_key_list(m.name) f
  WHERE m.type = 'table' AND f.\"table\" = 'blobs' COLLATE NOCASE";

const BLOBS: &str = "SELECT rowid, blob_hash FROM blobs";

const DELETE: &str = "DELETE FROM blobs WHERE rowid = ?1 AND blob_hash = ?2 AND (created_at <= ?3 OR created_at = ?4)";

/// So that others know that they need not.
const MARK: &str = "UPDATE schema_meta SET updated_at = ? WHERE id = 1";

/// After so many deletions the clock is read.
const DELETIONS_PER_LOOK: usize = 32;

/// How to share the file with whoever else writes to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manners {
    /// How long a batch may hold the write lock, apart from collecting the references.
    pub(super) hold: Duration,
    /// How long to stay away afterwards, as a multiple of how long the lock was held. A rival that waits looks again only
    /// every now and then: SQLite's busy handler sleeps up to 100 ms between two looks.
    pub(super) pause_factor: f64,
    /// How often to collect the references again without the lock, before it is done with it.
    pub(super) patience: u32,
    /// How long to wait for a lock.
    pub(super) busy_timeout: Duration,
    /// How much of the file to keep in memory.
    pub(super) cache_kib: i64,
    /// The caller waits for it and wants everything gone.
    pub(super) at_once: bool,
}

/// A call waits: get done, but let others in between.
///
/// Every deletion changes a page of the index that lies anywhere: a batch that is large beside the index writes each of its
/// pages once, a small one for every blob. At a million blobs (bench/prune.mjs) 40 ms make 28 µs a blob, 250 ms 7, 500 ms 6
/// and one transaction for all 5; a rival gives up after 5 s. For the same reason the cache holds that index.
const AT_ONCE: Manners = Manners {
    hold: Duration::from_millis(500),
    pause_factor: 0.4,
    patience: 0,
    busy_timeout: Duration::from_millis(BUSY_TIMEOUT_MS),
    cache_kib: 4 * CACHE_KIB,
    at_once: true,
};

/// Nobody waits: a writer should not notice. And closing has to wait no longer than this waits for a lock.
pub(super) const IN_THE_BACKGROUND: Manners = Manners {
    hold: Duration::from_millis(5),
    pause_factor: 10.0,
    patience: 5,
    busy_timeout: Duration::from_millis(200),
    cache_kib: CACHE_KIB,
    at_once: false,
};

/// A value that nothing pointed to when it was last looked at.
struct Candidate {
    rowid: i64,
    digest: [u8; 32],
}

/// One pruning, on a connection of its own.
pub(super) struct Pruning<'a> {
    connection: Connection,
    own: &'a OwnBlobs,
    manners: Manners,
    candidates: Vec<Candidate>,
    /// As of when they were found.
    version: i64,
}

impl<'a> Pruning<'a> {
    /// Opens the connection. Where another kind of file has taken the place of the one that was opened, nothing is done.
    pub(super) fn open(identity: Identity, path: &Path, own: &'a OwnBlobs, manners: Manners) -> Result<Self> {
        let connection = connect(path, Mode::ReadWrite, false)?;
        if Identity::read(&connection)? != identity {
            return Err(Error::Damaged("another database has taken its place".to_owned()));
        }
        connection.busy_timeout(manners.busy_timeout)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", false)?;
        connection.pragma_update(None, "cache_size", -manners.cache_kib)?;
        Ok(Self { connection, own, manners, candidates: Vec::new(), version: 0 })
    }

    /// The connection, for whoever wants to interrupt it.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Removes everything that may go; gives its number. `pause` waits, and tells whether to go on.
    pub(super) fn run(mut self, mut pause: impl FnMut(Duration) -> bool) -> Result<i64> {
        self.collect()?;
        let (mut removed, mut attempts) = (0, 0);
        while !self.candidates.is_empty() {
            let started = Instant::now();
            let batch = self.batch(attempts >= self.manners.patience)?;
            let held = started.elapsed();
            attempts = if batch.is_some() { 0 } else { attempts + 1 };
            removed += batch.unwrap_or(0);
            if !self.candidates.is_empty() && !pause(held.mul_f64(self.manners.pause_factor)) {
                return Ok(removed);
            }
            if batch.is_none() {
                self.collect()?;
            }
        }
        if !self.manners.at_once {
            // where that fails, somebody else will look sooner than need be
            let _ = write(&self.connection, |tx| tx.execute(MARK, [wall_clock_ms()]));
        }
        Ok(removed)
    }

    /// Finds what nothing points to, in one snapshot and without a lock.
    fn collect(&mut self) -> Result<()> {
        let snapshot = self.connection.unchecked_transaction()?;
        let version = data_version(&snapshot)?;
        let referenced = referenced(&snapshot)?;
        let mut candidates = Vec::new();
        for_each::<Error>(&snapshot, BLOBS, [], |row| {
            let rowid = row.get(0)?;
            // another length is none of ours, and stays
            if let Ok(digest) = row.get::<_, [u8; 32]>(1)
                && !referenced.contains(&prefix(&digest))
            {
                candidates.push(Candidate { rowid, digest });
            }
            Ok(())
        })?;
        snapshot.commit()?;
        // in the order of the table, whose rows are larger than those of the index: taken from the end
        candidates.sort_unstable_by_key(|candidate| std::cmp::Reverse(candidate.rowid));
        (self.candidates, self.version) = (candidates, version);
        Ok(())
    }

    /// Removes some of what was found, in one write transaction. `None`: others have written since, and `may_look` does not
    /// allow to look again while they have to wait.
    fn batch(&mut self, may_look: bool) -> Result<Option<i64>> {
        let until = wall_clock_ms() - i64::try_from(GRACE.as_millis()).unwrap_or(i64::MAX);
        let (own, manners) = (self.own, self.manners);
        let (candidates, known_version) = (&mut self.candidates, self.version);
        let (removed, version) = write(&self.connection, |tx| {
            let started = Instant::now();
            let version = data_version(tx)?;
            if version != known_version {
                if !may_look {
                    return Ok::<_, Error>((None, known_version));
                }
                let referenced = referenced(tx)?;
                candidates.retain(|candidate| !referenced.contains(&prefix(&candidate.digest)));
            }
            // as long again as it took to look: then looking again for each batch at most doubles the time of them all
            let hold = manners.hold.max(started.elapsed()) + started.elapsed();
            let mut removed = Vec::new();
            while let Some(Candidate { rowid, digest }) = candidates.pop() {
                let may_go = own.removable(&digest, until, manners.at_once);
                if execute(tx, DELETE, params![rowid, digest, may_go.until, may_go.exactly])? > 0 {
                    removed.push(digest);
                }
                if candidates.len() % DELETIONS_PER_LOOK == 0 && started.elapsed() >= hold {
                    break;
                }
            }
            Ok((Some(removed), version))
        })?;
        self.version = version;
        Ok(removed.map(|removed| {
            removed.iter().for_each(|digest| own.forget_one(digest));
            i64::try_from(removed.len()).unwrap_or(i64::MAX)
        }))
    }
}

/// What makes a file the one that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    application_id: i64,
    user_version: i64,
}

impl Identity {
    pub(super) fn read(connection: &Connection) -> Result<Self> {
        let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get(0));
        Ok(Self { application_id: number("application_id")?, user_version: number("user_version")? })
    }
}

/// Removes all blobs that nothing points to and that may go; gives their number.
pub(super) fn all(connection: &Connection, path: &Path, own: &OwnBlobs) -> Result<i64> {
    if !connection.is_autocommit() {
        return Err(Error::Sqlite {
            code: "SQLITE_BUSY",
            message: "blobs cannot be pruned inside a transaction".to_owned(),
        });
    }
    if connection.is_readonly("main")? {
        return Err(Error::Sqlite {
            code: "SQLITE_READONLY",
            message: "attempt to write a readonly database".to_owned(),
        });
    }
    Pruning::open(Identity::read(connection)?, path, own, AT_ONCE)?.run(|pause| {
        std::thread::sleep(pause);
        true
    })
}

/// Changes when another connection has committed (<https://sqlite.org/pragma.html#pragma_data_version>).
fn data_version(connection: &Connection) -> Result<i64> {
    Ok(connection.pragma_query_value(None, "data_version", |row| row.get(0))?)
}

/// The digests that something points to, by their first eight bytes: a quarter of the memory. Two digests with the same
/// ones do not happen, and would keep a blob too many.
fn referenced(connection: &Connection) -> Result<HashSet<u64, BuildHasherDefault<AsItIs>>> {
    let mut columns: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for_each::<Error>(connection, REFERENCES, [], |row| {
        columns.entry(row.get(0)?).or_default().push(quoted(&row.get::<_, String>(1)?));
        Ok(())
    })?;
    let mut found = HashSet::default();
    for (table, columns) in columns {
        let sql = format!("SELECT {} FROM main.{}", columns.join(", "), quoted(&table));
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns.len() {
                if let Ok(digest) = row.get_ref(column)?.as_blob() {
                    found.insert(prefix(digest));
                }
            }
        }
    }
    Ok(found)
}

fn prefix(digest: &[u8]) -> u64 {
    digest.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// A digest is as evenly spread as any hash of it would be.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = prefix(bytes);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// An identifier of somebody else's schema, safe inside SQL.
fn quoted(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use crate::state::State;
    use crate::state::testing::open;

    fn blobs(state: &State) -> i64 {
        state.connection().query_row("SELECT count(*) FROM blobs", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn what_is_pointed_to_and_what_others_have_just_stored_survives() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state.sqlite");
        let (mut ours, mut theirs) = (open(&path), open(&path));
        let now = super::wall_clock_ms();
        ours.write(|tx| {
            let kept = tx.put_json("{}", now)?;
            tx.put_text("written by a method", now)?;
            tx.execute("INSERT INTO workflow_definitions VALUES (?, 'w', ?, 0)", rusqlite::params![kept, kept])
        })
        .unwrap();
        ours.put(b"ours, for later use", "text/plain", now).unwrap();
        for (content, at) in [(&b"theirs, young"[..], now), (b"theirs, old", 0), (b"theirs and ours", now)] {
            theirs.put(content, "text/plain", at).unwrap();
        }
        ours.put(b"theirs and ours", "text/plain", now).unwrap();
        assert_eq!(ours.prune().unwrap(), 3);
        assert_eq!(blobs(&ours), 3);
        assert_eq!(theirs.prune().unwrap(), 1, "what both have stored is neither's alone");
        assert_eq!(ours.integrity_problems().unwrap(), "");
    }

    #[test]
    fn nothing_is_pruned_inside_a_transaction() {
        let root = tempfile::tempdir().unwrap();
        let mut state = open(&root.path().join("state.sqlite"));
        state.connection().execute_batch("BEGIN").unwrap();
        assert!(state.prune().unwrap_err().to_string().contains("inside a transaction"));
    }

    #[test]
    fn an_old_value_that_is_stored_again_survives_the_others() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state.sqlite");
        let (mut ours, mut theirs) = (open(&path), open(&path));
        ours.put(b"x", "text/plain", 0).unwrap();
        theirs.put(b"x", "text/plain", super::wall_clock_ms()).unwrap();
        assert_eq!(ours.prune().unwrap(), 0);
    }

    #[test]
    fn references_that_come_while_it_prunes_are_respected() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state.sqlite");
        let mut state = open(&path);
        let digest = state.put(b"{}", "application/json", 0).unwrap();
        state.put(b"nobody's", "text/plain", 0).unwrap();
        let identity = super::Identity::read(state.connection()).unwrap();
        for manners in [super::AT_ONCE, super::IN_THE_BACKGROUND] {
            let own = super::OwnBlobs::default();
            let mut pruning = super::Pruning::open(identity, &path, &own, manners).unwrap();
            pruning.collect().unwrap();
            state
                .write(|tx| {
                    tx.execute("DELETE FROM workflow_definitions", [])?;
                    tx.execute("INSERT INTO workflow_definitions VALUES (?1, 'w', ?1, 0)", [digest])
                })
                .unwrap();
            // found unreferenced, and referenced since: a batch either looks again or does nothing
            assert_eq!(pruning.batch(false).unwrap(), None);
            pruning.batch(true).unwrap();
            assert_eq!(state.integrity_problems().unwrap(), "");
            assert_eq!(blobs(&state), 1);
        }
    }

    #[test]
    fn references_are_found_whatever_the_host_calls_them() {
        let root = tempfile::tempdir().unwrap();
        let mut state = open(&root.path().join("state.sqlite"));
        let digest = state.put(b"x", "text/plain", 0).unwrap();
        state
            .connection()
            .execute_batch("CREATE TABLE \"a \"\"table\"(\"its \"\"hash\" BLOB REFERENCES BLOBS) STRICT")
            .unwrap();
        state.write(|tx| tx.execute("INSERT INTO \"a \"\"table\" VALUES (?)", [digest])).unwrap();
        assert_eq!(state.prune().unwrap(), 0);
    }
}
