//! Statements of the shared connection, in the shape of better-sqlite3.

use std::cell::RefCell;
use std::mem;
use std::rc::{Rc, Weak};

use napi_derive::napi;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::{Batch, Connection, StatementStatus};
use self_cell::self_cell;

use super::answer::{Answer, Failure, Maybe, Text};
use super::shared::Shared;
use super::value::{Bound, Cell, Cells};
use crate::state::Error;

self_cell!(
    /// A prepared statement that keeps its connection alive.
    pub(super) struct Prepared {
        owner: Rc<Connection>,

        #[covariant]
        dependent: Prepare,
    }
);

type Prepare<'c> = rusqlite::Statement<'c>;

/// A statement as the database keeps track of it: closing the database takes it away from whoever still has it.
pub(super) type Slot = RefCell<Option<Prepared>>;

/// Why a text is not one statement.
enum NotOne {
    None,
    Several,
    Sql(rusqlite::Error),
}

/// One prepared statement.
#[napi]
pub struct Statement {
    shared: Rc<Shared>,
    slot: Rc<Slot>,
    iterating: RefCell<bool>,
    parameters: usize,
    returns_data: bool,
    is_readonly: bool,
}

impl Statement {
    pub(super) fn prepare(shared: Rc<Shared>, sql: &str) -> Result<Self, Failure> {
        let connection = shared.read(|state| Ok::<_, Error>(state.share_connection()))?;
        let prepared =
            Prepared::try_new(connection, |connection| one_statement(connection, sql)).map_err(
                |error| match error {
                    NotOne::None => Failure::new("range", "The supplied SQL string contains no statements"),
                    NotOne::Several => {
                        Failure::new("range", "The supplied SQL string contains more than one statement")
                    }
                    NotOne::Sql(error) => Error::from(error).into(),
                },
            )?;
        let (parameters, returns_data, is_readonly) = prepared.with_dependent(|_, statement| {
            (statement.parameter_count(), statement.column_count() > 0, statement.readonly())
        });
        let slot = Rc::new(RefCell::new(Some(prepared)));
        shared.track(Rc::downgrade(&slot));
        Ok(Self { shared, slot, iterating: RefCell::new(false), parameters, returns_data, is_readonly })
    }

    /// Runs something on the statement, which must not be iterating.
    fn with<T>(&self, run: impl FnOnce(&mut Prepare<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
        if self.is_iterating() {
            return Err(Failure::new("type", "This statement is busy executing a query"));
        }
        self.with_any(run)
    }

    fn with_any<T>(&self, run: impl FnOnce(&mut Prepare<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut slot = self.slot.try_borrow_mut().map_err(|_| Error::Busy)?;
        let prepared = slot.as_mut().ok_or(Error::Closed)?;
        prepared.with_dependent_mut(|_, statement| run(statement))
    }

    fn is_iterating(&self) -> bool {
        self.iterating.try_borrow().is_ok_and(|iterating| *iterating)
    }

    fn set_iterating(&self, iterating: bool) {
        if let Ok(mut flag) = self.iterating.try_borrow_mut()
            && *flag != iterating
        {
            *flag = iterating;
            let cursors = self.shared.cursors.get();
            self.shared.cursors.set(if iterating { cursors + 1 } else { cursors.saturating_sub(1) });
        }
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        // an iterator that nobody has finished must not block the connection for ever
        self.set_iterating(false);
    }
}

/// Prepares the one statement of a text. The rest of the text may hold white space and comments.
///
/// Not by rusqlite's own check, which calls itself for each further statement: a long script would exhaust the stack.
fn one_statement<'c>(connection: &'c Connection, sql: &str) -> Result<Prepare<'c>, NotOne> {
    let mut batch = Batch::new(connection, sql);
    let first = batch.next().map_err(NotOne::Sql)?.ok_or(NotOne::None)?;
    match batch.next() {
        Ok(None) => Ok(first),
        Ok(Some(_)) | Err(_) => Err(NotOne::Several),
    }
}

/// Binds the parameters anew. The face has put them in the order of the statement.
fn bind(statement: &mut Prepare<'_>, parameters: Vec<Bound>) -> Result<(), Failure> {
    statement.clear_bindings();
    for (index, bound) in (1..).zip(parameters) {
        let value = Result::from(bound)?;
        statement.raw_bind_parameter(index, value).map_err(Error::from)?;
    }
    Ok(())
}

/// Reads the next row; `None` where there is none. The statement stays where it is.
fn step(statement: &mut Prepare<'_>, safe_integers: bool) -> Result<Option<Vec<Cell>>, Failure> {
    let mut rows = statement.raw_query();
    let cells = match rows.next().map_err(Error::from)? {
        // counted now: SQLite may have prepared the statement again, for a table that has got a column
        Some(row) => (0..row.as_ref().column_count())
            .map(|column| Cell::read(row, column, safe_integers))
            .collect::<rusqlite::Result<Vec<_>>>()
            .map_err(Error::from)?,
        None => return Ok(None),
    };
    // dropping the rows would reset the statement to its beginning
    mem::forget(rows);
    Ok(Some(cells))
}

/// Puts a statement back to its beginning, so that it holds no lock.
fn reset(statement: &mut Prepare<'_>) {
    drop(statement.raw_query());
}

fn stamped(statement: &Prepare<'_>, cells: Vec<Cell>) -> Cells {
    Cells { prepared: statement.get_status(StatementStatus::RePrepare), cells }
}

#[napi]
impl Statement {
    /// How many parameters it has.
    #[napi(getter, catch_unwind)]
    pub fn parameter_count(&self) -> u32 {
        u32::try_from(self.parameters).unwrap_or(u32::MAX)
    }

    /// Whether it returns data.
    #[napi(getter, catch_unwind)]
    pub fn returns_data(&self) -> bool {
        self.returns_data
    }

    /// Whether it changes nothing.
    #[napi(getter, catch_unwind)]
    pub fn is_readonly(&self) -> bool {
        self.is_readonly
    }

    /// Whether an iterator is under way.
    #[napi(getter, catch_unwind)]
    pub fn is_busy(&self) -> bool {
        self.is_iterating()
    }

    /// The names of its parameters, in order; empty where one has none.
    #[napi(catch_unwind)]
    pub fn parameter_names(&self) -> Answer<Vec<String>> {
        self.with_any(|statement| {
            let names =
                (1..=self.parameters).map(|index| statement.parameter_name(index).unwrap_or_default().to_owned());
            Ok::<_, Failure>(names.collect::<Vec<_>>())
        })
        .into()
    }

    /// The names of its columns.
    #[napi(catch_unwind)]
    pub fn column_names(&self) -> Answer<Vec<String>> {
        self.with_any(|statement| Ok::<_, Failure>(statement.column_names().map(str::to_owned).collect::<Vec<_>>()))
            .into()
    }

    /// Name, column, table, database and declared type of each column, one after the other.
    #[napi(catch_unwind)]
    pub fn column_metadata(&self) -> Answer<Vec<Maybe<Text>>> {
        self.with_any(|statement| {
            let mut cells = Vec::new();
            let types: Vec<_> = statement.columns().map(|column| column.decl_type().map(str::to_owned)).collect();
            for (column, decl_type) in statement.columns_with_metadata().zip(types) {
                let own = |text: Option<&str>| Maybe(text.map(|text| Text(text.to_owned())));
                cells.push(own(Some(column.name())));
                cells.push(own(column.origin_name()));
                cells.push(own(column.table_name()));
                cells.push(own(column.database_name()));
                cells.push(own(decl_type.as_deref()));
            }
            Ok::<_, Failure>(cells)
        })
        .into()
    }

    /// Runs it to its first row, and gives `[, changes, lastInsertRowid]`.
    #[napi(catch_unwind)]
    pub fn run(&self, parameters: Vec<Bound>, safe_integers: bool) -> Answer<Cells> {
        self.run_once(parameters, safe_integers).into()
    }

    /// The first row; `undefined` where there is none.
    #[napi(catch_unwind)]
    pub fn get(&self, parameters: Vec<Bound>, safe_integers: bool) -> Answer<Maybe<Cells>> {
        self.with(|statement| {
            bind(statement, parameters)?;
            let found = step(statement, safe_integers);
            reset(statement);
            Ok(found?.map(|cells| stamped(statement, cells)))
        })
        .into()
    }

    /// The cells of all rows, one row after the other.
    #[napi(catch_unwind)]
    pub fn all(&self, parameters: Vec<Bound>, safe_integers: bool) -> Answer<Cells> {
        self.with(|statement| {
            bind(statement, parameters)?;
            let mut cells = Vec::new();
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next().map_err(Error::from)? {
                for column in 0..row.as_ref().column_count() {
                    cells.push(Cell::read(row, column, safe_integers).map_err(Error::from)?);
                }
            }
            drop(rows);
            Ok::<_, Failure>(stamped(statement, cells))
        })
        .into()
    }

    /// Begins an iteration: the connection is busy until it ends.
    #[napi(catch_unwind)]
    pub fn begin(&self, parameters: Vec<Bound>) -> Answer<()> {
        let begun = self.with(|statement| bind(statement, parameters));
        if begun.is_ok() {
            self.set_iterating(true);
        }
        begun.into()
    }

    /// The next row of an iteration; `undefined` ends it.
    #[napi(catch_unwind)]
    pub fn next_row(&self, safe_integers: bool) -> Answer<Maybe<Cells>> {
        if !self.is_iterating() {
            return Answer::Value(Maybe(None));
        }
        let row = self.with_any(|statement| Ok(step(statement, safe_integers)?.map(|cells| stamped(statement, cells))));
        if !matches!(row, Ok(Some(_))) {
            self.set_iterating(false);
        }
        row.into()
    }

    /// Ends an iteration where it stands.
    #[napi(catch_unwind)]
    pub fn end(&self) -> Answer<()> {
        if !self.is_iterating() {
            return Answer::Value(());
        }
        self.set_iterating(false);
        match self.with_any(|statement| {
            reset(statement);
            Ok(())
        }) {
            Ok(()) => Answer::Value(()),
            Err(failure) => Answer::Failure(failure),
        }
    }
}

impl Statement {
    fn run_once(&self, parameters: Vec<Bound>, safe_integers: bool) -> Result<Cells, Failure> {
        self.shared.assert_no_cursors()?;
        let connection = self.shared.read(|state| Ok::<_, Error>(state.share_connection()))?;
        self.with(|statement| {
            bind(statement, parameters)?;
            let before = connection.total_changes();
            let ran = step(statement, safe_integers);
            reset(statement);
            ran?;
            // sqlite3_changes() still speaks of an earlier statement where this one has changed nothing
            let changes = if connection.total_changes() == before { 0 } else { connection.changes() };
            let integer = if safe_integers { Cell::BigInteger } else { Cell::Integer };
            let cells =
                vec![integer(i64::try_from(changes).unwrap_or(i64::MAX)), integer(connection.last_insert_rowid())];
            Ok(stamped(statement, cells))
        })
    }
}

/// Takes the statements away from whoever still has them: the connection can close then.
pub(super) fn finalize(slots: &mut Vec<Weak<Slot>>) {
    for slot in slots.drain(..) {
        if let Some(slot) = slot.upgrade()
            && let Ok(mut prepared) = slot.try_borrow_mut()
        {
            prepared.take();
        }
    }
}
