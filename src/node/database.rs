//! `StateDatabase`, as far as it is native.

use std::path::PathBuf;
use std::rc::Rc;

use napi::Task;
use napi::bindgen_prelude::{AsyncTask, Buffer, BufferSlice, Env, ToNapiValue};
use napi_derive::napi;

use super::answer::{Answer, Failure, Maybe, Text};
use super::shared::Shared;
use super::value::{Cells, Made};
use crate::state::{self, Blob, Error, HostSchema, Mode, Options, Schema, State, read_blob};

/// One open database file and its connection.
#[napi]
#[derive(Debug)]
pub struct Database {
    pub(super) shared: Rc<Shared>,
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

#[napi]
impl Database {
    /// Closes the connection.
    #[napi(catch_unwind)]
    pub fn close(&self) -> Answer<()> {
        self.shared.close().into()
    }

    /// Stores a value; gives its key.
    #[napi(catch_unwind)]
    pub fn put_blob(&self, content: BufferSlice<'_>, media_type: String, now: i64) -> Answer<Buffer> {
        self.shared.write(|state| state.put(&content, &media_type, now)).map(|digest| digest.0.to_vec()).into()
    }

    /// Stores a text, JSON or plain; gives its key.
    #[napi(catch_unwind)]
    pub fn put_text(&self, text: String, is_json: bool, now: i64) -> Answer<Buffer> {
        self.shared
            .write(|state| state.put(text.as_bytes(), if is_json { state::JSON } else { state::TEXT }, now))
            .map(|digest| digest.0.to_vec())
            .into()
    }

    /// Media type and content of what is stored under a key; `undefined` where nothing is.
    #[napi(catch_unwind)]
    pub fn read_blob(&self, env: Env, hash: BufferSlice<'_>) -> Answer<Maybe<Made>> {
        self.shared
            .read(|state| read_blob(state.connection(), &hash).map_err(Failure::from))
            .and_then(|blob| blob.map(|blob| blob_cells(&env, blob)).transpose())
            .into()
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
}

fn blob_cells(env: &Env, blob: Blob) -> Result<Made, Failure> {
    let mut cells = Cells::new(env.raw(), 2)?;
    // SAFETY: `env` is that of the call under way.
    unsafe {
        cells.push(Text::to_napi_value(env.raw(), Text(blob.media_type))?)?;
        cells.push(Buffer::to_napi_value(env.raw(), blob.content.into())?)?;
    }
    Ok(cells.finish())
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
