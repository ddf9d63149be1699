//! What the tests of several files here share.

use std::path::Path;

use super::{Mode, Options, Schema, State};

/// A database with the built-in schema, created where it is new.
pub(crate) fn open(path: &Path) -> State {
    State::open(Options { path: path.to_owned(), mode: Mode::ReadWrite, leftovers_home: None, schema: Schema::BuiltIn })
        .unwrap()
}
