//! How an outcome crosses to JavaScript: as a value, or as a failure that the face throws.
//!
//! Nothing is thrown here. An error made by native code belongs to another realm than the caller's inside Jest and
//! vitest, and costs twice as much as a returned one that the face turns into an error of its own.

use std::ptr;

use napi::bindgen_prelude::{Env, Object, ToNapiValue, TypeName};
use napi::{JsValue as _, ValueType, check_status, sys};

use crate::{state, store};

/// A text for JavaScript.
#[derive(Debug)]
pub struct Text(pub(super) String);

impl ToNapiValue for Text {
    unsafe fn to_napi_value(env: sys::napi_env, val: Self) -> napi::Result<sys::napi_value> {
        // SAFETY: `env` is what we were called with.
        unsafe { make_text(env, val.0.as_bytes()) }
    }
}

/// Makes a string of a text's bytes; what is not UTF-8 becomes U+FFFD.
///
/// # Safety
///
/// `env` is that of the call under way.
pub(super) unsafe fn make_text(env: sys::napi_env, text: &[u8]) -> napi::Result<sys::napi_value> {
    // no slice is longer
    let length = isize::try_from(text.len()).unwrap_or(isize::MAX);
    let mut value = ptr::null_mut();
    // ASCII, which most records are, goes over as Latin-1: no decoding, half the memory
    let create = if text.is_ascii() { sys::napi_create_string_latin1 } else { sys::napi_create_string_utf8 };
    // SAFETY: the pointer and the length describe `text`, which N-API copies.
    check_status!(unsafe { create(env, text.as_ptr().cast(), length, &mut value) })?;
    Ok(value)
}

/// A value, or the failure that the face throws. A failure is the only plain object that these functions return.
#[derive(Debug)]
pub enum Answer<T> {
    Value(T),
    Failure(Failure),
}

impl<T: ToNapiValue> ToNapiValue for Answer<T> {
    unsafe fn to_napi_value(env: sys::napi_env, val: Self) -> napi::Result<sys::napi_value> {
        // SAFETY: `env` is what we were called with.
        unsafe {
            match val {
                Self::Value(value) => T::to_napi_value(env, value),
                Self::Failure(failure) => failure.into_object(env),
            }
        }
    }
}

impl<T> TypeName for Answer<T> {
    fn type_name() -> &'static str {
        "Answer"
    }

    fn value_type() -> ValueType {
        ValueType::Unknown
    }
}

impl<T, U: Into<T>, E: Into<Failure>> From<Result<U, E>> for Answer<T> {
    fn from(result: Result<U, E>) -> Self {
        match result {
            Ok(value) => Self::Value(value.into()),
            Err(error) => Self::Failure(error.into()),
        }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// `undefined` where there is nothing: `Option::None` would become `null`.
#[derive(Debug)]
pub struct Maybe<T>(pub(super) Option<T>);

impl<T: ToNapiValue> ToNapiValue for Maybe<T> {
    unsafe fn to_napi_value(env: sys::napi_env, val: Self) -> napi::Result<sys::napi_value> {
        // SAFETY: `env` is what we were called with.
        unsafe {
            match val.0 {
                Some(value) => T::to_napi_value(env, value),
                None => <()>::to_napi_value(env, ()),
            }
        }
    }
}

impl<T, U: Into<T>> From<Option<U>> for Maybe<T> {
    fn from(value: Option<U>) -> Self {
        Self(value.map(Into::into))
    }
}

/// What the face makes an error of: its class, and the class's facts.
#[derive(Clone, Debug)]
pub struct Failure {
    kind: &'static str,
    /// The message; for the classes that make their own, the first of their arguments.
    message: String,
    /// The code of a `SqliteError`, or the second argument.
    detail: Option<String>,
}

impl Failure {
    pub(super) fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), detail: None }
    }

    fn detailed(kind: &'static str, message: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind, message: message.into(), detail: Some(detail.into()) }
    }

    fn into_object(self, env: sys::napi_env) -> napi::Result<sys::napi_value> {
        let env = Env::from_raw(env);
        let mut object = Object::new(&env)?;
        object.set("kind", self.kind)?;
        object.set("message", self.message)?;
        object.set("detail", self.detail)?;
        Ok(object.raw())
    }
}

impl From<napi::Error> for Failure {
    fn from(error: napi::Error) -> Self {
        Self::new("error", error.reason.to_string())
    }
}

impl From<state::Error> for Failure {
    fn from(error: state::Error) -> Self {
        match error {
            state::Error::Sqlite { code, message } => Self::detailed("sqlite", message, code),
            state::Error::Closed | state::Error::Busy => Self::new("type", error.to_string()),
            other => Self::new("error", other.to_string()),
        }
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::State(error) => error.into(),
            store::Error::ResourceConflict { controller, key } => Self::detailed("resourceConflict", controller, key),
            store::Error::ResourceNotFound { controller, key } => Self::detailed("resourceNotFound", controller, key),
            store::Error::EffectRequestConflict { key } => Self::new("effectRequestConflict", key),
            store::Error::WorkflowRequestConflict { key } => Self::new("workflowRequestConflict", key),
            other => Self::new("error", other.to_string()),
        }
    }
}
