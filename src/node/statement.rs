//! Statements of the shared connection, in the shape of better-sqlite3.

use std::cell::{Cell, RefCell};
use std::mem;
use std::rc::{Rc, Weak};

use napi::bindgen_prelude::{Env, ToNapiValue};
use napi::sys;
use napi_derive::napi;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::{Batch, Connection, Row, StatementStatus};
use self_cell::self_cell;

use super::answer::{Answer, Failure, Maybe, Text};
use super::shared::Shared;
use super::value::{Cells, Made, Parameters, Shape, cell, integer};
use crate::state::Error;

self_cell!(
    /// A prepared statement that keeps its connection alive.
    pub(super) struct Prepared {
        owner: Rc<Connection>,

        #[covariant]
        dependent: Prepare,
    }
);

pub(super) type Prepare<'c> = rusqlite::Statement<'c>;

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
    iterating: Cell<bool>,
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
        let slot = Rc::new(RefCell::new(Some(prepared)));
        shared.track(Rc::downgrade(&slot));
        Ok(Self { shared, slot, iterating: Cell::new(false) })
    }

    /// Lends the statement, unless it iterates.
    fn with<T>(&self, run: impl FnOnce(&mut Prepare<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
        if self.iterating.get() {
            return Err(Failure::new("type", "This statement is busy executing a query"));
        }
        self.with_any(run)
    }

    fn with_any<T>(&self, run: impl FnOnce(&mut Prepare<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut slot = self.slot.try_borrow_mut().map_err(|_| Error::Busy)?;
        let prepared = slot.as_mut().ok_or(Error::Closed)?;
        prepared.with_dependent_mut(|_, statement| run(statement))
    }

    /// Binds, runs, puts the statement back to its beginning, so that it holds no lock, and forgets what was bound.
    fn execute<T>(
        &self,
        parameters: &Parameters,
        run: impl FnOnce(&mut Prepare<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.with(|statement| {
            let outcome = parameters.bind(statement).and_then(|()| run(statement));
            if parameters.are_given() {
                statement.clear_bindings();
            }
            outcome
        })
    }

    fn set_iterating(&self, iterating: bool) {
        if self.iterating.replace(iterating) != iterating {
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

/// Makes of a row what the face wants: one value, or an array of a stamp and the cells.
///
/// The stamp is how often SQLite has prepared the statement again: the face then asks anew for the names of the columns.
fn made(env: &Env, row: &Row<'_>, shape: Shape) -> Result<Made, Failure> {
    if shape.is_pluck() {
        return cell(env.raw(), row, 0, shape);
    }
    // not before the first step, which is what prepares the statement again where a table has changed its columns
    let width = row.as_ref().column_count();
    let mut cells = Cells::new(env.raw(), width + 1)?;
    cells.push(stamp(env, row.as_ref())?)?;
    cells.push_row(row, width, shape)?;
    Ok(cells.finish())
}

fn stamp(env: &Env, statement: &Prepare<'_>) -> napi::Result<sys::napi_value> {
    // SAFETY: `env` is that of the call under way.
    unsafe { i32::to_napi_value(env.raw(), statement.get_status(StatementStatus::RePrepare)) }
}

#[napi]
impl Statement {
    /// Whether it returns data, whether it changes nothing, and the names of its parameters, empty where one has none.
    #[napi(catch_unwind)]
    pub fn facts(&self, env: Env) -> Answer<Made> {
        self.with_any(|statement| {
            let count = statement.parameter_count();
            let mut facts = Cells::new(env.raw(), count + 2)?;
            // SAFETY: `env` is that of the call under way.
            unsafe {
                facts.push(bool::to_napi_value(env.raw(), statement.column_count() > 0)?)?;
                facts.push(bool::to_napi_value(env.raw(), statement.readonly())?)?;
                for index in 1..=count {
                    let name = statement.parameter_name(index).unwrap_or_default().to_owned();
                    facts.push(Text::to_napi_value(env.raw(), Text(name))?)?;
                }
            }
            Ok(facts.finish())
        })
        .into()
    }

    /// Whether it may run now: nothing where it may, otherwise why not.
    #[napi(catch_unwind)]
    pub fn check(&self, may_write: bool) -> Answer<()> {
        self.with(|_| Ok(()))
            .and_then(|()| if may_write { Ok(self.shared.assert_no_cursors()?) } else { Ok(()) })
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

    /// Binds its parameters for good.
    #[napi(catch_unwind)]
    pub fn bind(&self, parameters: Parameters) -> Answer<()> {
        self.with(|statement| parameters.bind(statement)).into()
    }

    /// Runs it to its first row, and gives `[changes, lastInsertRowid]`.
    #[napi(catch_unwind)]
    pub fn run(&self, env: Env, parameters: Parameters, shape: u32) -> Answer<Made> {
        self.run_once(&env, &parameters, shape.into()).into()
    }

    /// The first row; `undefined` where there is none.
    #[napi(catch_unwind)]
    pub fn get(&self, env: Env, parameters: Parameters, shape: u32) -> Answer<Maybe<Made>> {
        self.execute(&parameters, |statement| {
            let mut rows = statement.raw_query();
            let row = rows.next().map_err(Error::from)?;
            row.map(|row| made(&env, row, shape.into())).transpose()
        })
        .into()
    }

    /// A stamp and the cells of all rows, one row after the other.
    #[napi(catch_unwind)]
    pub fn all(&self, env: Env, parameters: Parameters, shape: u32) -> Answer<Made> {
        let shape = Shape::from(shape);
        self.execute(&parameters, |statement| {
            let mut cells = Cells::new(env.raw(), 1)?;
            let mut rows = statement.raw_query();
            let mut width = None;
            while let Some(row) = rows.next().map_err(Error::from)? {
                let columns = match width {
                    Some(columns) => columns,
                    // not before the first step: see `made`
                    None => {
                        cells.push(stamp(&env, row.as_ref())?)?;
                        *width.insert(shape.width(row.as_ref().column_count()))
                    }
                };
                cells.push_row_of_many(row, columns, shape)?;
            }
            Ok::<_, Failure>(cells.finish())
        })
        .into()
    }

    /// Begins an iteration: the connection is busy until it ends.
    #[napi(catch_unwind)]
    pub fn begin(&self, parameters: Parameters) -> Answer<()> {
        let begun = self.with(|statement| parameters.bind(statement));
        if begun.is_ok() {
            self.set_iterating(true);
        }
        begun.into()
    }

    /// The next row of an iteration; `undefined` ends it.
    #[napi(catch_unwind)]
    pub fn next_row(&self, env: Env, shape: u32) -> Answer<Maybe<Made>> {
        if !self.iterating.get() {
            return Answer::Value(Maybe(None));
        }
        let row = self.with_any(|statement| {
            let mut rows = statement.raw_query();
            let Some(row) = rows.next().map_err(Error::from)? else {
                return Ok(None);
            };
            let made = made(&env, row, shape.into())?;
            // dropping the rows would reset the statement to its beginning
            mem::forget(rows);
            Ok(Some(made))
        });
        if !matches!(row, Ok(Some(_))) {
            self.set_iterating(false);
        }
        row.into()
    }

    /// Ends an iteration where it stands. `clears` forgets its parameters, unless they are bound for good.
    #[napi(catch_unwind)]
    pub fn end(&self, clears: bool) -> Answer<()> {
        self.set_iterating(false);
        self.with_any(|statement| {
            drop(statement.raw_query());
            if clears {
                statement.clear_bindings();
            }
            Ok(())
        })
        .into()
    }
}

impl Statement {
    fn run_once(&self, env: &Env, parameters: &Parameters, shape: Shape) -> Result<Made, Failure> {
        let connection = self.shared.read(|state| Ok::<_, Error>(state.share_connection()))?;
        // better-sqlite3's order: first whether this statement iterates, then whether another does
        self.with(|_| Ok(self.shared.assert_no_cursors()?))?;
        self.execute(parameters, |statement| {
            let before = connection.total_changes();
            statement.raw_query().next().map_err(Error::from)?;
            // sqlite3_changes() still speaks of an earlier statement where this one has changed nothing
            let changes = if connection.total_changes() == before { 0 } else { connection.changes() };
            let mut result = Cells::new(env.raw(), 2)?;
            result.push(integer(env.raw(), i64::try_from(changes).unwrap_or(i64::MAX), Shape::from(0))?)?;
            result.push(integer(env.raw(), connection.last_insert_rowid(), shape)?)?;
            Ok(result.finish())
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
