//! `StateDatabase`, as far as it is native.

use std::path::PathBuf;
use std::rc::Rc;

use napi::Task;
use napi::bindgen_prelude::{AsyncTask, Buffer, BufferSlice, Env};
use napi_derive::napi;

use super::answer::{Answer, Failure, Maybe, Text};
use super::shared::Shared;
use super::statement::Statement;
use crate::state::{self, Error, HostSchema, JSON, Mode, Options, Schema, State, TEXT, read_blob};

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

    /// Prepares a statement.
    #[napi(catch_unwind)]
    pub fn prepare(&self, sql: String) -> Answer<Statement> {
        Statement::prepare(self.shared(), &sql).into()
    }

    /// Runs all statements of a text.
    #[napi(catch_unwind)]
    pub fn exec(&self, sql: String) -> Answer<()> {
        self.shared.write(|state| Ok::<_, Error>(state.connection().execute_batch(&sql)?)).into()
    }

    /// Begins, ends or undoes a transaction. Unlike `exec` it may while an iterator is under way: otherwise a
    /// transaction whose function has left one behind could not end.
    #[napi(catch_unwind)]
    pub fn control(&self, sql: String) -> Answer<()> {
        self.shared.read(|state| Ok::<_, Error>(state.connection().execute_batch(&sql)?)).into()
    }

    /// Whether a transaction is open.
    #[napi(catch_unwind)]
    pub fn in_transaction(&self) -> bool {
        self.shared.read(|state| Ok::<_, Error>(!state.connection().is_autocommit())).unwrap_or(false)
    }

    /// Stores a value; gives its key.
    #[napi(catch_unwind)]
    pub fn put_blob(&self, content: BufferSlice<'_>, media_type: String, now: i64) -> Answer<Buffer> {
        self.shared
            .write(|state| state.write(|tx| tx.put_for_later(&content, &media_type, now)))
            .map(|digest| digest.0.to_vec())
            .into()
    }

    /// Stores a text, JSON or plain; gives its key.
    #[napi(catch_unwind)]
    pub fn put_text(&self, text: String, is_json: bool, now: i64) -> Answer<Buffer> {
        self.shared
            .write(|state| state.write(|tx| tx.put_for_later(text.as_bytes(), if is_json { JSON } else { TEXT }, now)))
            .map(|digest| digest.0.to_vec())
            .into()
    }

    /// The media type of what is stored under a key; `undefined` where nothing is.
    #[napi(catch_unwind)]
    pub fn blob_type(&self, hash: BufferSlice<'_>) -> Answer<Maybe<Text>> {
        self.shared
            .read(|state| Ok::<_, Error>(read_blob(state.connection(), &hash)?.map(|blob| blob.media_type)))
            .into()
    }

    /// The content of what is stored under a key; `undefined` where nothing is.
    #[napi(catch_unwind)]
    pub fn blob_content(&self, hash: BufferSlice<'_>) -> Answer<Maybe<Buffer>> {
        self.shared.read(|state| Ok::<_, Error>(read_blob(state.connection(), &hash)?.map(|blob| blob.content))).into()
    }

    /// What is wrong with the database; an empty text where nothing is.
    #[napi(catch_unwind)]
    pub fn integrity_problems(&self) -> Answer<Text> {
        self.shared.read(State::integrity_problems).into()
    }

    /// Backs the database up, on a thread of its own.
    #[napi(catch_unwind)]
    pub fn backup(&self, destination: String) -> AsyncTask<BackUp> {
        let live = self.shared.read(|state| Ok::<_, Error>(state.path().to_owned()));
        AsyncTask::new(BackUp { live: live.map_err(Into::into), destination: PathBuf::from(destination) })
    }

    /// Removes the blobs that nothing points to; gives their number.
    #[napi(catch_unwind)]
    pub fn prune(&self) -> Answer<i64> {
        self.shared.write(State::prune).into()
    }

    /// Whether it is open.
    #[napi(catch_unwind)]
    pub fn is_open(&self) -> bool {
        self.shared.is_open()
    }
}

/// A backup under way.
#[derive(Debug)]
pub struct BackUp {
    live: Result<PathBuf, Failure>,
    destination: PathBuf,
}

impl Task for BackUp {
    type JsValue = Answer<()>;
    type Output = Result<(), Failure>;

    fn compute(&mut self) -> napi::Result<Self::Output> {
        Ok(match &self.live {
            Ok(live) => guarded(|| state::backup(live, &self.destination).map_err(Into::into)),
            Err(failure) => Err(failure.clone()),
        })
    }

    fn resolve(&mut self, _env: Env, output: Self::Output) -> napi::Result<Self::JsValue> {
        Ok(output.into())
    }
}

/// A panic on another thread than JavaScript's would end the process.
fn guarded<T>(run: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err(Failure::new("error", "the native library failed; please report this")))
}
