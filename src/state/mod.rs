//! The file: opening it, its schema, transactions, content-addressed values, identifiers, time.
//!
//! This is the only place that knows how a connection is opened and configured.

mod backup;
mod blobs;
mod codes;
mod error;
mod files;
pub mod ids;
pub mod json;
mod own_blobs;
mod prune;
mod pruner;
mod query;
mod schema;
#[cfg(test)]
pub(crate) mod testing;
pub mod time;
mod transaction;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

pub use backup::backup;
pub use blobs::{Blob, JSON, TEXT, read as read_blob};
pub use error::{Error, Result};
pub use query::{find, for_each, json as json_column, optional_blob_text, optional_bytes, optional_text, text};
#[cfg(test)]
pub(crate) use schema::SQL as SCHEMA_SQL;
pub use schema::{HostSchema, Schema};
pub use transaction::{Begin, Write, begin, commit};

use ids::Digest;
use own_blobs::OwnBlobs;
use prune::Identity;
use pruner::Pruner;
use schema::Header;

/// How long a statement waits for another connection's lock before it fails with `SQLITE_BUSY`.
const BUSY_TIMEOUT_MS: u64 = 5_000;

/// How long to wait between two attempts where SQLite itself does not wait.
const BUSY_PAUSE_MS: u64 = 5;

/// Page cache per connection: what better-sqlite3 is compiled with; SQLite's own default of 2 MB costs lists half their speed.
const CACHE_KIB: i64 = 16_000;

/// The log is cut back to this size after a checkpoint.
const JOURNAL_SIZE_LIMIT_BYTES: i64 = 64 << 20;

/// The log is moved into the database when it has this many pages.
const WAL_AUTOCHECKPOINT_PAGES: i64 = 1_000;

/// Whether a database may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Created where it does not exist.
    ReadWrite,
    /// It must exist; every write is refused.
    ReadOnly,
}

/// What to open.
#[derive(Debug)]
pub struct Options {
    /// The database file, absolute.
    pub path: PathBuf,
    /// Whether it may be written.
    pub mode: Mode,
    /// Where to look for leftovers of the older layout before a first start; `None` looks for none.
    pub leftovers_home: Option<PathBuf>,
    /// What a new file gets and an existing one must have.
    pub schema: Schema,
}

/// An open database: one connection, and every statement that was prepared on it.
#[derive(Debug)]
pub struct State {
    /// First, so that it ends before the connection does. None where nothing may be written.
    pruner: Option<Pruner>,
    connection: Rc<Connection>,
    path: PathBuf,
    mode: Mode,
    own: OwnBlobs,
}

impl State {
    /// Opens the database, creates it where it does not exist yet, and checks that it is one of ours.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] where a read-only database does not exist, [`Error::Incompatible`] where the file holds something
    /// else (it stays as it was), otherwise what SQLite or the file system said.
    pub fn open(options: Options) -> Result<Self> {
        let Options { path, mode, leftovers_home, schema } = options;
        let has_content = files::has_content(&path);
        match mode {
            Mode::ReadOnly if !path.exists() => return Err(Error::Missing { path }),
            Mode::ReadWrite if !has_content => {
                if let Some(home) = leftovers_home {
                    files::refuse_leftovers(&path, &home)?;
                }
                files::create_directory(path.parent().unwrap_or(&path))?;
            }
            _ => {}
        }
        let connection = connect(&path, mode, true)?;
        adopt(&connection, &path, mode, &schema).map_err(|error| match error {
            Error::Sqlite { code: "SQLITE_NOTADB", .. } => {
                Error::Incompatible { path: path.clone(), found: "it is not a SQLite database".to_owned() }
            }
            other => other,
        })?;
        let own = OwnBlobs::default();
        let pruner = match mode {
            Mode::ReadWrite => Some(Pruner::new(Identity::read(&connection)?, own.clone())),
            Mode::ReadOnly => None,
        };
        Ok(Self { pruner, connection: Rc::new(connection), path, mode, own })
    }

    /// The database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it may be written.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The connection, to read from.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The connection, for whoever keeps statements of their own on it.
    #[must_use]
    pub fn share_connection(&self) -> Rc<Connection> {
        Rc::clone(&self.connection)
    }

    /// What SQLite finds wrong with the database and its foreign keys, a line each; empty where nothing is.
    pub fn integrity_problems(&self) -> Result<String> {
        integrity_problems(&self.connection)
    }

    /// Removes the blobs that nothing points to; gives their number.
    ///
    /// What another connection has stored in the last ten minutes survives: it may be about to point to it.
    pub fn prune(&mut self) -> Result<i64> {
        prune::all(&self.connection, &self.path, &self.own)
    }

    /// Runs `body` as one transaction: its own, or a savepoint inside the caller's.
    pub fn write<T, E: From<Error>>(
        &mut self,
        body: impl FnOnce(&Write<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let (value, stored) = transaction::write_and_tell(&self.connection, body)?;
        self.own.remember(&stored);
        self.tell_pruner(stored.len());
        Ok(value)
    }

    fn tell_pruner(&mut self, stored: usize) {
        if let Some(pruner) = &mut self.pruner {
            pruner.stored(&self.connection, &self.path, stored);
        }
    }

    /// Stores a value that the caller will point to later; gives its key. Until then it is not pruned in the background,
    /// nor by others for ten minutes.
    pub fn put(&mut self, content: &[u8], media_type: &str, now: i64) -> Result<Digest> {
        let own = self.own.clone();
        let mut noted = None;
        let stored = self.write(|tx| {
            let (digest, is_new) = blobs::put(tx, content, media_type, now)?;
            noted = own_blobs::keep_young(tx, &own, digest, is_new, now)?.then_some(digest);
            Ok::<_, Error>((digest, is_new))
        });
        let (digest, is_new) = stored.inspect_err(|_| noted.iter().for_each(|digest| own.forget_one(&digest.0)))?;
        self.tell_pruner(usize::from(is_new));
        Ok(digest)
    }

    /// Undoes a transaction of the caller's: see [`undo`](transaction::undo).
    pub fn undo(&self, is_nested: bool) {
        transaction::undo(&self.connection, is_nested);
        self.own.forget();
    }
}

fn integrity_problems(connection: &Connection) -> Result<String> {
    let mut problems: Vec<String> = Vec::new();
    for_each::<Error>(connection, "PRAGMA integrity_check", [], |row| {
        problems.extend(Some(row.get::<_, String>(0)?).filter(|line| line != "ok"));
        Ok(())
    })?;
    for_each::<Error>(connection, "PRAGMA foreign_key_check", [], |row| {
        let (table, rowid, parent): (String, Option<i64>, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let rowid = rowid.map_or_else(String::new, |rowid| format!(" {rowid}"));
        problems.push(format!("{table}{rowid} points to nothing in {parent}"));
        Ok(())
    })?;
    Ok(problems.join("\n"))
}

/// Opens a connection and sets what belongs to the connection, not to the file. Nothing is read or written yet.
fn connect(path: &Path, mode: Mode, creates: bool) -> Result<Connection> {
    let access = match mode {
        Mode::ReadWrite if creates => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        Mode::ReadWrite => OpenFlags::SQLITE_OPEN_READ_WRITE,
        Mode::ReadOnly => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
    connection.set_prepared_statement_cache_capacity(query::CACHED_STATEMENTS);
    for (setting, on) in [
        // a cached statement stays prepared although rusqlite clears its bindings after each use
        (DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true),
        // what a hostile file could bring along: functions in its schema, a rewritten schema
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        // until the file is known to be ours, closing must not move somebody's log into their database
        (DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true),
    ] {
        connection.set_db_config(setting, on)?;
    }
    Ok(connection)
}

/// Makes sure that the file is one of ours, creates its schema where it is empty, and sets the rest.
fn adopt(connection: &Connection, path: &Path, mode: Mode, schema: &Schema) -> Result<()> {
    if mode == Mode::ReadWrite && Header::read(connection)?.is_empty() {
        files::make_private(path)?;
        use_wal(connection)?;
        schema.create(connection, time::wall_clock_ms())?;
    }
    schema.check(connection, path)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    match mode {
        Mode::ReadWrite => {
            files::make_private(path)?;
            use_wal(connection)?;
        }
        Mode::ReadOnly => connection.pragma_update(None, "query_only", true)?,
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    set(connection, "wal_autocheckpoint", WAL_AUTOCHECKPOINT_PAGES)?;
    set(connection, "journal_size_limit", JOURNAL_SIZE_LIMIT_BYTES)
}

/// Sets a pragma that answers with its new value.
fn set(connection: &Connection, pragma: &str, value: i64) -> Result<()> {
    Ok(connection.pragma_update_and_check(None, pragma, value, |_| Ok(()))?)
}

/// Switches the file to a write-ahead log, where it is not there yet.
///
/// SQLite does not wait for other connections here, whatever the busy timeout: several first openers would fail now and
/// then. So the mode is read first, and the switch tried again for as long as the timeout would have waited.
fn use_wal(connection: &Connection) -> Result<()> {
    for _ in 0..BUSY_TIMEOUT_MS / BUSY_PAUSE_MS {
        let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        if mode == "wal" {
            return Ok(());
        }
        match switch_to_wal(connection) {
            Err(error) if error.is_busy() => std::thread::sleep(Duration::from_millis(BUSY_PAUSE_MS)),
            other => return other,
        }
    }
    switch_to_wal(connection)
}

fn switch_to_wal(connection: &Connection) -> Result<()> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    match mode.as_str() {
        "wal" => Ok(()),
        other => Err(Error::Damaged(format!("its journal mode stays {other}, where a write-ahead log is needed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(path: &Path, mode: Mode) -> Options {
        Options { path: path.to_owned(), mode, leftovers_home: None, schema: Schema::BuiltIn }
    }

    #[test]
    fn a_new_database_has_the_settings_of_the_contract() {
        let root = tempfile::tempdir().unwrap();
        let state = State::open(options(&root.path().join("a/state.sqlite"), Mode::ReadWrite)).unwrap();
        let text = |pragma: &str| -> String {
            state
                .connection()
                .query_row(&format!("SELECT CAST({pragma} AS TEXT) FROM pragma_{pragma}"), [], |row| row.get(0))
                .unwrap()
        };
        for (pragma, value) in [
            ("journal_mode", "wal"),
            ("synchronous", "2"),
            ("foreign_keys", "1"),
            ("application_id", "1346983750"),
            ("user_version", "1"),
            ("trusted_schema", "0"),
        ] {
            assert_eq!(text(pragma), value, "{pragma}");
        }
        let number =
            |pragma: &str| -> i64 { state.connection().pragma_query_value(None, pragma, |row| row.get(0)).unwrap() };
        assert_eq!(number("busy_timeout"), 5_000);
        assert_eq!(number("wal_autocheckpoint"), 1_000);
        assert_eq!(number("journal_size_limit"), 67_108_864);
    }

    #[test]
    fn a_read_only_database_must_exist_and_refuses_writes() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state.sqlite");
        assert!(matches!(State::open(options(&path, Mode::ReadOnly)), Err(Error::Missing { .. })));
        drop(State::open(options(&path, Mode::ReadWrite)).unwrap());
        let mut reader = State::open(options(&path, Mode::ReadOnly)).unwrap();
        let refused = reader.write(|tx| tx.execute("DELETE FROM projects", []));
        assert!(matches!(refused, Err(Error::Sqlite { code: "SQLITE_READONLY", .. })));
    }

    #[test]
    fn a_foreign_database_stays_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state.sqlite");
        Connection::open(&path)
            .unwrap()
            .execute_batch("CREATE TABLE notes(x); INSERT INTO notes VALUES ('mine')")
            .unwrap();
        let before = std::fs::read(&path).unwrap();
        for mode in [Mode::ReadWrite, Mode::ReadOnly] {
            assert!(matches!(State::open(options(&path, mode)), Err(Error::Incompatible { .. })));
        }
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn statements_stay_prepared() {
        let root = tempfile::tempdir().unwrap();
        let state = State::open(options(&root.path().join("state.sqlite"), Mode::ReadWrite)).unwrap();
        let sql = "SELECT project_id FROM projects WHERE canonical_path = ?";
        for path in ["/a", "/b", "/c"] {
            find(state.connection(), sql, [path], |_| Ok::<_, Error>(())).unwrap();
        }
        let statement = state.connection().prepare_cached(sql).unwrap();
        assert_eq!(statement.get_status(rusqlite::StatementStatus::RePrepare), 0);
        assert_eq!(statement.get_status(rusqlite::StatementStatus::Run), 3);
    }
}
