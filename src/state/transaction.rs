//! Write transactions: one per store method, joined to the caller's where one is open.

use std::cell::RefCell;
use std::ops::Deref;

use rusqlite::{Connection, Params};

use super::blobs;
use super::error::{Error, Result};
use super::ids::Digest;
use super::own_blobs::Stored;
use super::query;

/// Leave to write. Everything done through it is committed together, or not at all.
///
/// It also reads: it is a [`Connection`] to the functions that only look.
#[derive(Debug)]
pub struct Write<'c> {
    connection: &'c Connection,
    /// The values that are new, for pruning to know them as ours.
    stored: RefCell<Vec<Stored>>,
}

impl Deref for Write<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Write<'_> {
    /// Runs a statement that returns no rows; gives the number of rows it changed.
    pub fn execute(&self, sql: &str, params: impl Params) -> Result<usize> {
        query::execute(self.connection, sql, params)
    }

    /// Stores a value of any media type; the same bytes are stored once.
    pub fn put(&self, content: &[u8], media_type: &str, now: i64) -> Result<Digest> {
        let (digest, is_new) = blobs::put(self.connection, content, media_type, now)?;
        if is_new {
            self.stored.borrow_mut().push(Stored { digest, created_at: now });
        }
        Ok(digest)
    }

    /// Stores JSON that is canonical already; the same text is stored once.
    pub fn put_json(&self, canonical: &str, now: i64) -> Result<Digest> {
        self.put(canonical.as_bytes(), blobs::JSON, now)
    }

    /// Stores a text; the same text is stored once.
    pub fn put_text(&self, text: &str, now: i64) -> Result<Digest> {
        self.put(text.as_bytes(), blobs::TEXT, now)
    }
}

/// The two ways to start, end and undo: on our own, or inside the caller's transaction.
struct Frame {
    begin: &'static str,
    commit: &'static str,
    undo: &'static [&'static str],
}

/// IMMEDIATE, because a deferred transaction that reads first and then writes fails with SQLITE_BUSY_SNAPSHOT at once,
/// without waiting for the busy timeout, when a rival has written in between.
const OWN: Frame = Frame { begin: "BEGIN IMMEDIATE", commit: "COMMIT", undo: &["ROLLBACK"] };

const JOINED: Frame = Frame {
    begin: "SAVEPOINT store_method",
    commit: "RELEASE store_method",
    undo: &["ROLLBACK TO store_method", "RELEASE store_method"],
};

/// The transaction of a function of the caller's, inside another.
const NESTED: Frame = Frame {
    begin: "SAVEPOINT nested_transaction",
    commit: "RELEASE nested_transaction",
    undo: &["ROLLBACK TO nested_transaction", "RELEASE nested_transaction"],
};

/// Which locks a transaction takes when it begins (<https://sqlite.org/lang_transaction.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// None: SQLite's default.
    Deferred,
    /// The write lock.
    Immediate,
    /// The write lock; outside a write-ahead log readers, too, are kept out.
    Exclusive,
}

/// Begins a transaction that the caller ends with [`commit`] or [`undo`], a savepoint where one is open already. Tells
/// whether it is one.
pub fn begin(connection: &Connection, begin: Begin) -> Result<bool> {
    let is_nested = !connection.is_autocommit();
    let sql = match begin {
        _ if is_nested => NESTED.begin,
        Begin::Deferred => "BEGIN DEFERRED",
        Begin::Immediate => OWN.begin,
        Begin::Exclusive => "BEGIN EXCLUSIVE",
    };
    query::execute(connection, sql, [])?;
    Ok(is_nested)
}

/// Commits what [`begin`] has begun.
pub fn commit(connection: &Connection, is_nested: bool) -> Result<()> {
    query::execute(connection, frame(is_nested).commit, []).map(|_| ())
}

/// Undoes what [`begin`] has begun, as far as SQLite has not done so by itself.
pub(super) fn undo(connection: &Connection, is_nested: bool) {
    drop(Undo { connection, frame: frame(is_nested) });
}

fn frame(is_nested: bool) -> Frame {
    if is_nested { NESTED } else { OWN }
}

/// Runs `body` as one transaction: a savepoint where one is open already.
///
/// When it fails, everything is undone and its error passed on. Where SQLite has rolled back by itself (disk full, an
/// I/O error, a failed commit) there is nothing left to undo, and the error that the caller sees is the one that led there.
pub(super) fn write<T, E: From<Error>>(
    connection: &Connection,
    body: impl FnOnce(&Write<'_>) -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    write_and_tell(connection, body).map(|(value, _)| value)
}

/// The same; gives also the values that it has stored and that were not there before.
pub(super) fn write_and_tell<T, E: From<Error>>(
    connection: &Connection,
    body: impl FnOnce(&Write<'_>) -> std::result::Result<T, E>,
) -> std::result::Result<(T, Vec<Stored>), E> {
    let frame = if connection.is_autocommit() { OWN } else { JOINED };
    query::execute(connection, frame.begin, [])?;
    let undo = Undo { connection, frame };
    let tx = Write { connection, stored: RefCell::default() };
    let value = body(&tx)?;
    query::execute(connection, undo.frame.commit, [])?;
    std::mem::forget(undo);
    Ok((value, tx.stored.into_inner()))
}

/// Undoes the transaction when it is dropped: on an early return, and when `body` panics.
struct Undo<'c> {
    connection: &'c Connection,
    frame: Frame,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        for sql in self.frame.undo {
            if self.connection.is_autocommit() {
                return;
            }
            // the first error is the one to report; this one could only follow from it
            let _ = query::execute(self.connection, sql, []);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t(v UNIQUE)").unwrap();
        connection
    }

    fn values(connection: &Connection) -> Vec<i64> {
        let mut statement = connection.prepare("SELECT v FROM t ORDER BY v").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }

    fn insert(tx: &Write<'_>, value: i64) -> Result<usize> {
        tx.execute("INSERT INTO t VALUES (?)", [value])
    }

    #[test]
    fn commits_on_success_and_undoes_on_failure() {
        let connection = database();
        write(&connection, |tx| insert(tx, 1)).unwrap();
        let failed = write(&connection, |tx| insert(tx, 2).and_then(|_| insert(tx, 1)));
        assert!(matches!(failed, Err(Error::Sqlite { code: "SQLITE_CONSTRAINT_UNIQUE", .. })));
        assert!(connection.is_autocommit());
        assert_eq!(values(&connection), [1]);
    }

    #[test]
    fn joins_an_open_transaction_and_undoes_only_itself() {
        let connection = database();
        connection.execute_batch("BEGIN; INSERT INTO t VALUES (1)").unwrap();
        write(&connection, |tx| insert(tx, 2)).unwrap();
        write(&connection, |tx| insert(tx, 3).and_then(|_| insert(tx, 1))).unwrap_err();
        assert!(!connection.is_autocommit());
        assert_eq!(values(&connection), [1, 2]);
        connection.execute_batch("ROLLBACK").unwrap();
        assert!(values(&connection).is_empty());
    }

    #[test]
    fn undoes_when_the_body_panics() {
        let connection = database();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            write::<(), Error>(&connection, |tx| {
                insert(tx, 1)?;
                panic!("a fault of ours");
            })
        }));
        assert!(panicked.is_err());
        assert!(connection.is_autocommit());
        assert!(values(&connection).is_empty());
    }

    #[test]
    fn reports_the_error_that_made_sqlite_roll_back() {
        let connection = database();
        let result = write(&connection, |tx| {
            insert(tx, 1)?;
            tx.execute("INSERT OR ROLLBACK INTO t VALUES (?)", [1])
        });
        assert!(matches!(result, Err(Error::Sqlite { code: "SQLITE_CONSTRAINT_UNIQUE", .. })));
        write(&connection, |tx| insert(tx, 4)).unwrap();
        assert_eq!(values(&connection), [4]);
    }
}
