//! The one connection of a database, shared by its stores and statements in this thread.

use std::cell::{Cell, RefCell};

use crate::state::{Error, State};

/// An open database, until somebody closes it.
#[derive(Debug)]
pub(super) struct Shared {
    state: RefCell<Option<State>>,
    /// How many iterators are under way. While one is, nothing may be written: better-sqlite3's rule.
    pub(super) cursors: Cell<usize>,
}

impl Shared {
    pub(super) fn new(state: State) -> Self {
        Self { state: RefCell::new(Some(state)), cursors: Cell::new(0) }
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
        if self.cursors.get() > 0 {
            return Err(Error::Busy.into());
        }
        run(state)
    }

    /// Closes the connection; a closed one stays closed.
    pub(super) fn close(&self) -> Result<(), Error> {
        if self.cursors.get() > 0 {
            return Err(Error::Busy);
        }
        let state = self.state.try_borrow_mut().map_err(|_| Error::Busy)?.take();
        drop(state);
        Ok(())
    }

    pub(super) fn is_open(&self) -> bool {
        self.state.try_borrow().is_ok_and(|slot| slot.is_some())
    }
}
