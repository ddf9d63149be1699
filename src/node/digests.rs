//! The functions that need no database.

use napi::bindgen_prelude::Buffer;
use napi_derive::napi;

use super::answer::Text;
use crate::state::ids::{self, Digest};

/// The version of this library, by which a face knows whether it fits.
#[napi(catch_unwind)]
pub fn library_version() -> Text {
    Text(env!("CARGO_PKG_VERSION").to_owned())
}

/// `resourceIdFor`
#[napi(catch_unwind)]
pub fn resource_id(resource_type: String, aggregate_key: String) -> Text {
    Text(ids::resource_id(&resource_type, &aggregate_key))
}

/// `tokenHash`
#[napi(catch_unwind)]
pub fn digest(text: String) -> Buffer {
    Digest::of(text).0.to_vec().into()
}

/// `jsonFingerprint`, of a text that is canonical already.
#[napi(catch_unwind)]
pub fn digest_hex(text: String) -> Text {
    Text(Digest::of(text).hex())
}
