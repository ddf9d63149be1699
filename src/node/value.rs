//! SQLite's values in JavaScript, as better-sqlite3 converts them.

use std::ptr;

use napi::bindgen_prelude::{BigInt, BufferSlice, Env, FromNapiValue, Null, ToNapiValue};
use napi::{JsValue as _, ValueType, check_status, sys};
use rusqlite::Row;
use rusqlite::types::{Value as SqlValue, ValueRef};

use super::answer::{Failure, Text};

/// A value that JavaScript wants to bind.
#[derive(Debug)]
pub enum Bound {
    /// A value that SQLite knows.
    Value(SqlValue),
    /// A bigint that needs more than 64 bits.
    TooBig,
    /// Something that SQLite does not know.
    Unsupported,
}

impl FromNapiValue for Bound {
    unsafe fn from_napi_value(env: sys::napi_env, value: sys::napi_value) -> napi::Result<Self> {
        let mut kind = 0;
        // SAFETY: `env` and `value` are what we were called with, here and below.
        unsafe {
            check_status!(sys::napi_typeof(env, value, &mut kind))?;
            Ok(match ValueType::from(kind) {
                ValueType::Null | ValueType::Undefined => Self::Value(SqlValue::Null),
                ValueType::Number => Self::Value(SqlValue::Real(f64::from_napi_value(env, value)?)),
                ValueType::String => Self::Value(SqlValue::Text(String::from_napi_value(env, value)?)),
                ValueType::BigInt => match BigInt::from_napi_value(env, value)?.get_i64() {
                    (integer, true) => Self::Value(SqlValue::Integer(integer)),
                    (_, false) => Self::TooBig,
                },
                ValueType::Object => Self::bytes(env, value)?,
                _ => Self::Unsupported,
            })
        }
    }
}

impl Bound {
    /// The bytes of a buffer or typed array.
    unsafe fn bytes(env: sys::napi_env, value: sys::napi_value) -> napi::Result<Self> {
        let mut is_buffer = false;
        // SAFETY: `env` and `value` are what the caller was called with. The slice that N-API points to is copied at once.
        unsafe {
            check_status!(sys::napi_is_buffer(env, value, &mut is_buffer))?;
            if !is_buffer {
                return Ok(Self::Unsupported);
            }
            let (mut data, mut length) = (ptr::null_mut(), 0);
            check_status!(sys::napi_get_buffer_info(env, value, &mut data, &mut length))?;
            let bytes = if length == 0 || data.is_null() {
                Vec::new()
            } else {
                std::slice::from_raw_parts(data.cast::<u8>(), length).to_vec()
            };
            Ok(Self::Value(SqlValue::Blob(bytes)))
        }
    }
}

impl From<Bound> for Result<SqlValue, Failure> {
    fn from(bound: Bound) -> Self {
        match bound {
            Bound::Value(value) => Ok(value),
            Bound::TooBig => Err(Failure::new("range", "The bound string, buffer, or bigint is too big")),
            Bound::Unsupported => {
                Err(Failure::new("type", "SQLite3 can only bind numbers, strings, bigints, buffers, and null"))
            }
        }
    }
}

/// A value that SQLite gives.
#[derive(Debug)]
pub(super) enum Cell {
    Null,
    Integer(i64),
    BigInteger(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

impl Cell {
    /// Reads a column. Text that is not UTF-8 gets replacement characters, as better-sqlite3 reads it.
    pub(super) fn read(row: &Row<'_>, column: usize, safe_integers: bool) -> rusqlite::Result<Self> {
        Ok(match row.get_ref(column)? {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(value) if safe_integers => Self::BigInteger(value),
            ValueRef::Integer(value) => Self::Integer(value),
            ValueRef::Real(value) => Self::Real(value),
            ValueRef::Text(bytes) => Self::Text(String::from_utf8_lossy(bytes).into_owned()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_owned()),
        })
    }
}

impl ToNapiValue for Cell {
    unsafe fn to_napi_value(env: sys::napi_env, cell: Self) -> napi::Result<sys::napi_value> {
        // SAFETY: `env` is what we were called with.
        unsafe {
            match cell {
                Self::Null => Null::to_napi_value(env, Null),
                // beyond 2^53 the nearest double: better-sqlite3's default, which `safeIntegers` changes
                #[allow(clippy::cast_precision_loss, reason = "the nearest double is what is asked for")]
                Self::Integer(value) => f64::to_napi_value(env, value as f64),
                Self::BigInteger(value) => BigInt::to_napi_value(env, value.into()),
                Self::Real(value) => f64::to_napi_value(env, value),
                Self::Text(text) => Text::to_napi_value(env, Text(text)),
                Self::Blob(bytes) => Ok(BufferSlice::copy_from(&Env::from_raw(env), bytes)?.value().value),
            }
        }
    }
}

/// Cells for JavaScript, in one array that the face takes apart: rows made here would belong to another realm.
#[derive(Debug)]
pub struct Cells {
    /// How often SQLite has prepared the statement again; the names of its columns are known anew when this changes.
    pub(super) prepared: i32,
    pub(super) cells: Vec<Cell>,
}

impl ToNapiValue for Cells {
    unsafe fn to_napi_value(env: sys::napi_env, cells: Self) -> napi::Result<sys::napi_value> {
        // SAFETY: `env` is what we were called with; `array` was made by it.
        unsafe {
            let mut array = ptr::null_mut();
            check_status!(sys::napi_create_array_with_length(env, cells.cells.len() + 1, &mut array))?;
            let stamp = i32::to_napi_value(env, cells.prepared)?;
            check_status!(sys::napi_set_element(env, array, 0, stamp))?;
            for (index, cell) in (1..).zip(cells.cells) {
                let value = Cell::to_napi_value(env, cell)?;
                check_status!(sys::napi_set_element(env, array, index, value))?;
            }
            Ok(array)
        }
    }
}
