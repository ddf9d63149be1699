//! SQLite's values in JavaScript, as better-sqlite3 converts them.

use std::ptr;

use napi::bindgen_prelude::{BigInt, FromNapiValue, Null, ToNapiValue};
use napi::{ValueType, check_status, sys};
use rusqlite::Row;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};

use super::answer::{Failure, make_text};
use super::statement::Prepare;
use crate::state::Error;

/// What a statement is to bind: an array that the face has put into the order of the statement's parameters, or nothing
/// where the parameters were bound for good.
///
/// Nothing is read before [`bind`](Self::bind), so that a value goes to SQLite without a stop in between.
#[derive(Debug)]
pub struct Parameters {
    env: sys::napi_env,
    array: Option<sys::napi_value>,
}

impl FromNapiValue for Parameters {
    unsafe fn from_napi_value(env: sys::napi_env, value: sys::napi_value) -> napi::Result<Self> {
        // SAFETY: `env` and `value` are what we were called with.
        let kind = unsafe { kind_of(env, value)? };
        Ok(Self { env, array: (kind == ValueType::Object).then_some(value) })
    }
}

impl Parameters {
    /// Whether there is anything to bind, and hence to clear afterwards.
    pub(super) fn are_given(&self) -> bool {
        self.array.is_some()
    }

    /// Binds every parameter, or none. SQLite keeps a copy of its own.
    pub(super) fn bind(&self, statement: &mut Prepare<'_>) -> Result<(), Failure> {
        let bound = self.bind_each(statement);
        if bound.is_err() {
            statement.clear_bindings();
        }
        bound
    }

    fn bind_each(&self, statement: &mut Prepare<'_>) -> Result<(), Failure> {
        let (env, Some(array)) = (self.env, self.array) else {
            return Ok(());
        };
        for index in 0..statement.parameter_count() {
            let mut value = ptr::null_mut();
            let element = u32::try_from(index).unwrap_or(u32::MAX);
            // SAFETY: the call that gave us `env` and `array` is still under way, and `value` is an element of it.
            unsafe {
                check_status!(sys::napi_get_element(env, array, element, &mut value))?;
                bind_one(env, value, statement, index + 1)?;
            }
        }
        Ok(())
    }
}

unsafe fn bind_one(
    env: sys::napi_env,
    value: sys::napi_value,
    statement: &mut Prepare<'_>,
    place: usize,
) -> Result<(), Failure> {
    // SAFETY: `env` and `value` belong to the call that is under way, here and below.
    unsafe {
        let output = match kind_of(env, value)? {
            ValueType::Null | ValueType::Undefined => ToSqlOutput::Owned(Value::Null),
            ValueType::Number => ToSqlOutput::Owned(Value::Real(f64::from_napi_value(env, value)?)),
            ValueType::String => ToSqlOutput::Owned(Value::Text(String::from_napi_value(env, value)?)),
            ValueType::BigInt => match BigInt::from_napi_value(env, value)?.get_i64() {
                (integer, true) => ToSqlOutput::Owned(Value::Integer(integer)),
                (_, false) => return Err(too_big()),
            },
            _ => ToSqlOutput::Borrowed(ValueRef::Blob(bytes(env, value)?)),
        };
        statement.raw_bind_parameter(place, output).map_err(|error| match Error::from(error) {
            Error::Sqlite { code: "SQLITE_TOOBIG", .. } => too_big(),
            other => other.into(),
        })
    }
}

unsafe fn kind_of(env: sys::napi_env, value: sys::napi_value) -> napi::Result<ValueType> {
    let mut kind = 0;
    // SAFETY: the caller's `env` and `value`.
    check_status!(unsafe { sys::napi_typeof(env, value, &mut kind) })?;
    Ok(ValueType::from(kind))
}

/// The bytes of a buffer or typed array. They are good for as long as no JavaScript runs.
unsafe fn bytes<'call>(env: sys::napi_env, value: sys::napi_value) -> Result<&'call [u8], Failure> {
    let mut is_buffer = false;
    // SAFETY: the caller's `env` and `value`. The pointer is used where N-API says that it leads to `length` bytes.
    unsafe {
        check_status!(sys::napi_is_buffer(env, value, &mut is_buffer))?;
        if !is_buffer {
            return Err(Failure::new("type", "SQLite3 can only bind numbers, strings, bigints, buffers, and null"));
        }
        let (mut data, mut length) = (ptr::null_mut(), 0);
        check_status!(sys::napi_get_buffer_info(env, value, &mut data, &mut length))?;
        if length == 0 || data.is_null() {
            return Ok(&[]);
        }
        Ok(std::slice::from_raw_parts(data.cast::<u8>(), length))
    }
}

fn too_big() -> Failure {
    Failure::new("range", "The bound string, buffer, or bigint is too big")
}

/// A value of JavaScript that native code has made already.
#[derive(Debug)]
pub struct Made(sys::napi_value);

impl ToNapiValue for Made {
    unsafe fn to_napi_value(_env: sys::napi_env, made: Self) -> napi::Result<sys::napi_value> {
        Ok(made.0)
    }
}

/// How the face wants its rows: bits of the number that it passes along.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape(u32);

impl From<u32> for Shape {
    fn from(bits: u32) -> Self {
        Self(bits)
    }
}

impl Shape {
    pub(super) fn safe_integers(self) -> bool {
        self.0 & 1 != 0
    }

    /// Only the first column, and no array around it where there is only one row.
    pub(super) fn is_pluck(self) -> bool {
        self.0 & 2 != 0
    }

    /// How many cells a row of so many columns has.
    pub(super) fn width(self, columns: usize) -> usize {
        if self.is_pluck() { columns.min(1) } else { columns }
    }
}

/// Makes the value of a column.
pub(super) fn cell(env: sys::napi_env, row: &Row<'_>, column: usize, shape: Shape) -> Result<Made, Failure> {
    let value = row.get_ref(column).map_err(Error::from)?;
    // SAFETY: `env` is that of the call under way; the pointers describe bytes that live as long as the row, and N-API
    // copies them.
    let made = unsafe {
        match value {
            ValueRef::Null => Null::to_napi_value(env, Null)?,
            ValueRef::Integer(value) => integer(env, value, shape)?,
            ValueRef::Real(value) => f64::to_napi_value(env, value)?,
            ValueRef::Text(text) => make_text(env, text)?,
            ValueRef::Blob(bytes) => {
                let mut made = ptr::null_mut();
                let data = bytes.as_ptr().cast();
                check_status!(sys::napi_create_buffer_copy(env, bytes.len(), data, ptr::null_mut(), &mut made))?;
                made
            }
        }
    };
    Ok(Made(made))
}

/// An integer: beyond 2^53 the nearest double, which is better-sqlite3's default, or a bigint.
pub(super) fn integer(env: sys::napi_env, value: i64, shape: Shape) -> napi::Result<sys::napi_value> {
    // SAFETY: `env` is that of the call under way.
    unsafe {
        if shape.safe_integers() {
            BigInt::to_napi_value(env, value.into())
        } else {
            #[allow(clippy::cast_precision_loss, reason = "the nearest double is what is asked for")]
            f64::to_napi_value(env, value as f64)
        }
    }
}

/// A flat array that the face takes apart: rows made here would belong to another realm than the caller's.
pub(super) struct Cells {
    env: sys::napi_env,
    array: sys::napi_value,
    next: u32,
}

impl Cells {
    pub(super) fn new(env: sys::napi_env, length: usize) -> napi::Result<Self> {
        let mut array = ptr::null_mut();
        // SAFETY: `env` is that of the call under way.
        check_status!(unsafe { sys::napi_create_array_with_length(env, length, &mut array) })?;
        Ok(Self { env, array, next: 0 })
    }

    pub(super) fn push(&mut self, value: sys::napi_value) -> napi::Result<()> {
        // SAFETY: both values were made in the call under way.
        check_status!(unsafe { sys::napi_set_element(self.env, self.array, self.next, value) })?;
        // an array has no room for more elements either
        self.next = self.next.saturating_add(1);
        Ok(())
    }

    /// Adds the cells of a row.
    pub(super) fn push_row(&mut self, row: &Row<'_>, width: usize, shape: Shape) -> Result<(), Failure> {
        for column in 0..width {
            self.push(cell(self.env, row, column, shape)?.0)?;
        }
        Ok(())
    }

    /// Adds the cells of a row, and leaves only the array to the call: a long list would otherwise keep a handle for
    /// each of its cells until the end.
    pub(super) fn push_row_of_many(&mut self, row: &Row<'_>, width: usize, shape: Shape) -> Result<(), Failure> {
        let mut scope = ptr::null_mut();
        // SAFETY: `env` is that of the call under way; the scope is closed once, before any other is opened.
        check_status!(unsafe { sys::napi_open_handle_scope(self.env, &mut scope) })?;
        let pushed = self.push_row(row, width, shape);
        check_status!(unsafe { sys::napi_close_handle_scope(self.env, scope) })?;
        pushed
    }

    pub(super) fn finish(self) -> Made {
        Made(self.array)
    }
}
