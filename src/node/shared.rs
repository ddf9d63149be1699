//! The one connection of a database, shared by its stores and statements in this thread.

use std::cell::{Cell, RefCell};
use std::rc::Weak;

use super::statement::{Slot, finalize};
use crate::state::{Error, State};

/// After so many new statements the dead ones are swept out of the list.
const SWEEP_STATEMENTS: usize = 64;

/// An open database, until somebody closes it.
pub(super) struct Shared {
    state: RefCell<Option<State>>,
    /// How many iterators are under way. While one is, nothing may be written: better-sqlite3's rule.
    pub(super) cursors: Cell<usize>,
    /// Every statement that JavaScript has, so that closing can finalise it.
    statements: RefCell<Vec<Weak<Slot>>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Shared").field("state", &self.state).field("cursors", &self.cursors).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(state: State) -> Self {
        Self { state: RefCell::new(Some(state)), cursors: Cell::new(0), statements: RefCell::default() }
    }

    /// Runs something that only reads.
    pub(super) fn read<T, E: From<Error>>(&self, run: impl FnOnce(&State) -> Result<T, E>) -> Result<T, E> {
        let slot = self.state.try_borrow().map_err(|_| Error::Busy)?;
        run(slot.as_ref().ok_or(Error::Closed)?)
    }

    /// Runs something that writes.
    pub(super) fn write<T, E: From<Error>>(&self, run: impl FnOnce(&mut State) -> Result<T, E>) -> Result<T, E> {
        let mut slot = self.state.try_borrow_mut().map_err(|_| Error::Busy)?;
        let state = slot.as_mut().ok_or(Error::Closed)?;
        self.assert_no_cursors()?;
        run(state)
    }

    /// Refuses what must not happen while an iterator is under way.
    pub(super) fn assert_no_cursors(&self) -> Result<(), Error> {
        if self.cursors.get() > 0 { Err(Error::Busy) } else { Ok(()) }
    }

    /// Remembers a statement for as long as it lives.
    pub(super) fn track(&self, statement: Weak<Slot>) {
        if let Ok(mut statements) = self.statements.try_borrow_mut() {
            if statements.len() % SWEEP_STATEMENTS == SWEEP_STATEMENTS - 1 {
                statements.retain(|statement| statement.strong_count() > 0);
            }
            statements.push(statement);
        }
    }

    /// Closes the connection; a closed one stays closed.
    pub(super) fn close(&self) -> Result<(), Error> {
        self.assert_no_cursors()?;
        let state = self.state.try_borrow_mut().map_err(|_| Error::Busy)?.take();
        finalize(&mut *self.statements.try_borrow_mut().map_err(|_| Error::Busy)?);
        drop(state);
        Ok(())
    }

    pub(super) fn is_open(&self) -> bool {
        self.state.try_borrow().is_ok_and(|slot| slot.is_some())
    }
}
