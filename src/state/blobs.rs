//! Content-addressed values: the SHA-256 of the content is its key, so the same bytes are stored once.

use rusqlite::{Connection, params};

use super::error::{Error, Result};
use super::ids::Digest;
use super::query::{execute, find};

/// The media type of canonical JSON.
pub const JSON: &str = "application/json";

/// The media type of plain text.
pub const TEXT: &str = "text/plain";

const MEDIA_TYPE: &str = "SELECT media_type FROM blobs WHERE blob_hash = ?";

const INSERT: &str =
    "INSERT INTO blobs(blob_hash, media_type, byte_length, content, created_at) VALUES (?, ?, ?, ?, ?)";

const READ: &str = "SELECT media_type, content FROM blobs WHERE blob_hash = ?";

/// A stored value.
#[derive(Debug, PartialEq, Eq)]
pub struct Blob {
    /// What kind of value it is, such as `application/json`.
    pub media_type: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// Stores `content`; gives its key, and whether it is new. Bytes that are stored already are left as they are; under another media type they
/// are refused.
pub(super) fn put(connection: &Connection, content: &[u8], media_type: &str, now: i64) -> Result<(Digest, bool)> {
    let digest = Digest::of(content);
    let same = find(connection, MEDIA_TYPE, [digest], |row| {
        Ok::<_, Error>(row.get_ref(0)?.as_bytes().ok() == Some(media_type.as_bytes()))
    })?;
    match same {
        Some(true) => Ok((digest, false)),
        Some(false) => Err(Error::BlobConflict),
        None => {
            let byte_length = i64::try_from(content.len()).unwrap_or(i64::MAX);
            execute(connection, INSERT, params![digest, media_type, byte_length, content, now])?;
            Ok((digest, true))
        }
    }
}

/// Reads what is stored under a key.
pub fn read(connection: &Connection, hash: &[u8]) -> Result<Option<Blob>> {
    find(connection, READ, [hash], |row| Ok(Blob { media_type: row.get(0)?, content: row.get(1)? }))
}
