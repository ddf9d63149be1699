//! Pruning: removing the blobs that nothing points to any more.
//!
//! Every status update and event leaves a value behind that has been replaced. One pass over the tables collects what is
//! still pointed to, a second over the blobs removes the rest: time linear in the file (times the logarithm of a lookup).
//! Deleting under enforced foreign keys would instead search every referring column again for each blob.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::error::{Error, Result};
use super::ids::Digest;
use super::query::{execute, for_each};
use super::time::wall_clock_ms;
use super::transaction::write;

/// Every column that points to a blob, in whichever schema the file has.
const REFERENCES: &str = "SELECT m.name, f.\"from\" FROM sqlite_schema m JOIN pragma_foreign_key_list(m.name) f
  WHERE m.type = 'table' AND f.\"table\" = 'blobs'";

/// How long pruning waits for a writer.
const BUSY_TIMEOUT_MS: u64 = 5_000;

/// How long a value that another connection has stored may stay without anything that points to it.
pub(super) const GRACE_MS: i64 = 600_000;
const GRACE: Duration = Duration::from_millis(GRACE_MS.unsigned_abs());

/// So many of our own values are remembered before the old ones among them are forgotten.
const SWEEP_OWN: usize = 1 << 16;

/// What this connection has stored of late. Nobody else is about to point to it.
#[derive(Debug, Default)]
pub(super) struct OwnBlobs {
    since: HashMap<[u8; 32], Instant>,
    sweep_at: usize,
}

impl OwnBlobs {
    pub(super) fn remember(&mut self, stored: Vec<Digest>) {
        if stored.is_empty() {
            return;
        }
        let now = Instant::now();
        self.since.extend(stored.into_iter().map(|digest| (digest.0, now)));
        if self.since.len() > self.sweep_at.max(SWEEP_OWN) {
            // after the grace they count as old anyway
            self.since.retain(|_, since| now.duration_since(*since) < GRACE);
            self.sweep_at = self.since.len() * 2;
        }
    }
}

/// Page cache while blobs are removed: hashes lie anywhere in their index, and a cache that does not hold the index writes
/// its pages again and again. A million blobs took 5.4 s with SQLite's 2 MB, and 2.9 s with this.
const CACHE_KIB: i64 = 128_000;

/// Removes all blobs that nothing points to; gives their number.
///
/// It works on a connection of its own, because foreign keys can only be switched off outside a transaction and only for
/// a whole connection. Switching them off is safe: what is deleted was found unreferenced inside the same write
/// transaction, so no other writer can have pointed to it in between.
pub(super) fn all(connection: &Connection, path: &Path, ours: &OwnBlobs) -> Result<i64> {
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
    let own = connect(path)?;
    own.execute_batch("CREATE TEMP TABLE ours(hash BLOB PRIMARY KEY) WITHOUT ROWID")?;
    write(&own, |tx| {
        for digest in ours.since.keys() {
            execute(tx, "INSERT INTO temp.ours VALUES (?)", [digest.as_slice()])?;
        }
        collect_referenced(tx)?;
        let young = wall_clock_ms() - GRACE_MS;
        let removed = tx.execute(
            "DELETE FROM main.blobs WHERE blob_hash NOT IN (SELECT hash FROM temp.referenced)
               AND (created_at <= ? OR blob_hash IN (SELECT hash FROM temp.ours))",
            [young],
        )?;
        Ok(i64::try_from(removed).unwrap_or(i64::MAX))
    })
}

/// A connection that removes blobs, with foreign keys off and room for what it collects.
pub(super) fn connect(path: &Path) -> Result<Connection> {
    let own = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    own.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
    own.pragma_update(None, "synchronous", "FULL")?;
    own.pragma_update(None, "foreign_keys", false)?;
    own.pragma_update(None, "temp_store", "MEMORY")?;
    own.pragma_update(None, "cache_size", -CACHE_KIB)?;
    own.execute_batch("CREATE TEMP TABLE referenced(hash BLOB PRIMARY KEY) WITHOUT ROWID")?;
    Ok(own)
}

/// Collects every hash that something points to.
pub(super) fn collect_referenced(connection: &Connection) -> Result<()> {
    for (table, column) in references(connection)? {
        let (table, column) = (quoted(&table), quoted(&column));
        connection.execute_batch(&format!(
            "INSERT OR IGNORE INTO temp.referenced SELECT {column} FROM main.{table} WHERE {column} IS NOT NULL"
        ))?;
    }
    Ok(())
}

/// Every table and column that points to a blob.
pub(super) fn references(connection: &Connection) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for_each::<Error>(connection, REFERENCES, [], |row| {
        found.push((row.get(0)?, row.get(1)?));
        Ok(())
    })?;
    Ok(found)
}

/// An identifier of somebody else's schema, safe inside SQL.
pub(super) fn quoted(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use crate::state::{Mode, Options, Schema, State};
    use std::path::Path;

    fn open(path: &Path) -> State {
        State::open(Options {
            path: path.to_owned(),
            mode: Mode::ReadWrite,
            leftovers_home: None,
            schema: Schema::BuiltIn,
        })
        .unwrap()
    }

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
            tx.put_text("ours", now)?;
            tx.execute("INSERT INTO workflow_definitions VALUES (?, 'w', ?, 0)", rusqlite::params![kept, kept])
        })
        .unwrap();
        theirs.write(|tx| tx.put_text("theirs, young", now).and_then(|_| tx.put_text("theirs, old", 0))).unwrap();
        assert_eq!(ours.prune().unwrap(), 2);
        assert_eq!(blobs(&ours), 2);
        assert_eq!(theirs.prune().unwrap(), 1);
        assert_eq!(ours.integrity_problems().unwrap(), "");
    }

    #[test]
    fn what_is_stored_again_for_later_is_young_again() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state.sqlite");
        let (mut ours, mut theirs) = (open(&path), open(&path));
        theirs.write(|tx| tx.put_text("value", 0)).unwrap();
        theirs.write(|tx| tx.put_for_later(b"value", "text/plain", 0)).unwrap();
        assert_eq!(ours.prune().unwrap(), 0);
    }

    #[test]
    fn nothing_is_pruned_inside_a_transaction() {
        let root = tempfile::tempdir().unwrap();
        let mut state = open(&root.path().join("state.sqlite"));
        state.connection().execute_batch("BEGIN").unwrap();
        assert!(state.prune().unwrap_err().to_string().contains("inside a transaction"));
    }
}
