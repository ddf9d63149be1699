//! Running statements. Each is prepared once per connection and kept in rusqlite's cache.

use rusqlite::{Connection, Params, Row};

use super::error::Error;

/// Room for every statement of the domain. A statement that falls out of the cache is prepared again at its next use.
pub(super) const CACHED_STATEMENTS: usize = 256;

/// Runs a query for its first row, if there is one.
pub fn find<T, E: From<Error>>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, E>,
) -> Result<Option<T>, E> {
    let mut statement = connection.prepare_cached(sql).map_err(Error::from)?;
    let mut rows = statement.query(params).map_err(Error::from)?;
    match rows.next().map_err(Error::from)? {
        Some(row) => read(row).map(Some),
        None => Ok(None),
    }
}

/// Runs a query and hands over each row.
pub fn for_each<E: From<Error>>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut statement = connection.prepare_cached(sql).map_err(Error::from)?;
    let mut rows = statement.query(params).map_err(Error::from)?;
    while let Some(row) = rows.next().map_err(Error::from)? {
        read(row)?;
    }
    Ok(())
}

/// Runs a statement that returns no rows; gives the number of rows it changed.
pub(super) fn execute(connection: &Connection, sql: &str, params: impl Params) -> Result<usize, Error> {
    Ok(connection.prepare_cached(sql)?.execute(params)?)
}

/// The text in a column, where it lies.
pub fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str, Error> {
    optional_text(row, column)?.ok_or_else(|| Error::Damaged(format!("a text is missing in column {column}")))
}

/// The text in a column that may be null.
pub fn optional_text<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r str>, Error> {
    row.get_ref(column)?.as_str_or_null().map_err(|error| Error::Damaged(error.to_string()))
}

/// The bytes in a column that may be null.
pub fn optional_bytes<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r [u8]>, Error> {
    row.get_ref(column)?.as_bytes_or_null().map_err(|error| Error::Damaged(error.to_string()))
}

/// The JSON text of a joined blob. The join leaves it null where there is none, or none of this media type.
pub fn json<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str, Error> {
    utf8(optional_bytes(row, column)?.ok_or(Error::NotJson)?)
}

/// The text of a joined blob; null where there is none.
pub fn optional_blob_text<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r str>, Error> {
    optional_bytes(row, column)?.map(utf8).transpose()
}

fn utf8(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|error| Error::Damaged(format!("a stored text is not UTF-8: {error}")))
}
