//! `StateDatabase`, as far as it is native.

use std::path::PathBuf;
use std::rc::Rc;

use napi_derive::napi;

use super::answer::Answer;
use super::shared::Shared;
use crate::state::{HostSchema, Mode, Options, Schema, State};

/// One open database file and its connection.
#[napi]
#[derive(Debug)]
pub struct Database {
    shared: Rc<Shared>,
}

/// A schema of the host package.
#[napi(object)]
#[derive(Debug)]
pub struct SchemaOption {
    /// The statements that create it.
    pub sql: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// The `application_id` of the file.
    pub application_id: i32,
    /// The version of the host package.
    pub app_version: String,
}

/// Opens a database. `leftovers_home` asks for a look at the older layout; `schema` replaces the built-in one.
#[napi(catch_unwind)]
#[must_use]
pub fn open_database(
    path: String,
    read_only: bool,
    leftovers_home: Option<String>,
    schema: Option<SchemaOption>,
) -> Answer<Database> {
    State::open(Options {
        path: PathBuf::from(path),
        mode: if read_only { Mode::ReadOnly } else { Mode::ReadWrite },
        leftovers_home: leftovers_home.map(PathBuf::from),
        schema: schema.map_or(Schema::BuiltIn, |schema| {
            Schema::Host(HostSchema {
                sql: schema.sql,
                name: schema.name,
                version: schema.version,
                application_id: schema.application_id,
                app_version: schema.app_version,
            })
        }),
    })
    .map(|state| Database { shared: Rc::new(Shared::new(state)) })
    .into()
}

impl Database {
    pub(super) fn shared(&self) -> Rc<Shared> {
        Rc::clone(&self.shared)
    }
}

#[napi]
impl Database {
    /// Closes the connection.
    #[napi(catch_unwind)]
    pub fn close(&self) -> Answer<()> {
        self.shared.close().into()
    }

    /// Whether it is open.
    #[napi(catch_unwind)]
    pub fn is_open(&self) -> bool {
        self.shared.is_open()
    }
}
