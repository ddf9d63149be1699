//! What can go wrong below the domain: SQLite itself, the file, a closed database.

use std::path::PathBuf;

use rusqlite::ffi;
use thiserror::Error;

use super::codes::code_name;

/// A result of the state layer.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the state layer. The variants carry facts; `Display` makes the sentence.
#[derive(Debug, Error)]
pub enum Error {
    /// SQLite refused or failed; `code` is its extended result name, such as `SQLITE_CONSTRAINT_UNIQUE`.
    #[error("{message}")]
    Sqlite {
        /// The extended result name.
        code: &'static str,
        /// SQLite's own message.
        message: String,
    },
    /// The file holds something else, or an older or newer state. This is the reset instruction.
    #[error(
        "The workflow state at {} is incompatible with this version: {found}. \
         Stop every pi session, move or remove it, and start again",
        path.display()
    )]
    Incompatible {
        /// The file or folder that has to go.
        path: PathBuf,
        /// What was found there.
        found: String,
    },
    /// A read-only database must exist.
    #[error("The workflow state does not exist: {}", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The database was closed. The wording is better-sqlite3's, which callers may compare.
    #[error("The database connection is not open")]
    Closed,
    /// Something still iterates over a statement of this connection. The wording is better-sqlite3's.
    #[error("This database connection is busy executing a query")]
    Busy,
    /// The same bytes are stored under another media type.
    #[error("Content-addressed blob conflict")]
    BlobConflict,
    /// A row points to a value that is not there, or that is no JSON.
    #[error("JSON blob is missing or has the wrong media type")]
    NotJson,
    /// A backup cannot replace what it is made of.
    #[error("The backup must differ from the live database: {}", .0.display())]
    BackupOntoItself(PathBuf),
    /// A backup cannot replace a file that somebody has open.
    #[error("The backup cannot replace a database that is open: {}", .0.display())]
    BackupInUse(PathBuf),
    /// A file operation beside SQLite failed: creating the directory, narrowing a mode.
    #[error("Cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The database holds a value that the schema does not allow.
    #[error("The workflow state is damaged: {0}")]
    Damaged(String),
    /// The operating system gave no random bytes.
    #[error("The operating system gave no random bytes: {0}")]
    Random(getrandom::Error),
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::SqliteFailure(code, message) => Self::from_code(code, message),
            rusqlite::Error::SqlInputError { error, msg, .. } => Self::from_code(error, Some(msg)),
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl Error {
    fn from_code(code: ffi::Error, message: Option<String>) -> Self {
        Self::Sqlite { code: code_name(code.extended_code), message: message.unwrap_or_else(|| code.to_string()) }
    }

    /// Whether another connection held a lock that this call needed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Sqlite { code, .. } if code.starts_with("SQLITE_BUSY"))
    }
}
