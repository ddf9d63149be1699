//! The connection's half of the database, in the shape of better-sqlite3.

use std::rc::Rc;

use napi_derive::napi;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::{Batch, Connection};

use super::answer::{Answer, Failure};
use super::database::Database;
use super::statement::Statement;
use crate::state::{self, Begin, Error};

#[napi]
impl Database {
    /// Prepares a statement. A pragma may change the connection, so that none is prepared while something iterates.
    #[napi(catch_unwind)]
    pub fn prepare(&self, sql: String, is_pragma: bool) -> Answer<Statement> {
        let may = self.shared.read(|_| if is_pragma { self.shared.assert_no_cursors() } else { Ok(()) });
        may.map_err(Failure::from).and_then(|()| Statement::prepare(Rc::clone(&self.shared), &sql)).into()
    }

    /// Runs all statements of a text.
    #[napi(catch_unwind)]
    pub fn exec(&self, sql: String) -> Answer<()> {
        self.shared.write(|state| run_all(state.connection(), &sql)).into()
    }

    /// Begins a transaction, or a savepoint inside one; tells whether it is a savepoint.
    #[napi(catch_unwind)]
    pub fn begin(&self, kind: String) -> Answer<bool> {
        let kind = match kind.as_str() {
            "immediate" => Begin::Immediate,
            "exclusive" => Begin::Exclusive,
            _ => Begin::Deferred,
        };
        self.shared.write(|state| state::begin(state.connection(), kind)).into()
    }

    /// Commits what `begin` has begun. It may while an iterator is under way: a transaction whose function has left one
    /// behind could not end otherwise.
    #[napi(catch_unwind)]
    pub fn commit(&self, is_nested: bool) -> Answer<()> {
        self.shared.read(|state| state::commit(state.connection(), is_nested)).into()
    }

    /// Undoes what `begin` has begun, unless SQLite has done so by itself.
    #[napi(catch_unwind)]
    pub fn undo(&self, is_nested: bool) {
        // closed in the meantime: then there is nothing left to undo
        let _ = self.shared.read(|state| {
            state.undo(is_nested);
            Ok::<_, Error>(())
        });
    }

    /// Whether a transaction is open.
    #[napi(catch_unwind)]
    pub fn in_transaction(&self) -> bool {
        self.shared.read(|state| Ok::<_, Error>(!state.connection().is_autocommit())).unwrap_or(false)
    }

    /// Whether it is open.
    #[napi(catch_unwind)]
    pub fn is_open(&self) -> bool {
        self.shared.is_open()
    }
}

/// Runs every statement to its last row: an error may come late.
fn run_all(connection: &Connection, sql: &str) -> Result<(), Error> {
    let mut batch = Batch::new(connection, sql);
    while let Some(mut statement) = batch.next()? {
        let mut rows = statement.raw_query();
        while rows.next()?.is_some() {}
    }
    Ok(())
}
