//! The Node half: the only place that names `napi`, and the only one that may be unsafe.
//!
//! Arguments arrive as texts, numbers and buffers that the face has checked. Nothing of a JavaScript realm is kept.
#![allow(unsafe_code)]
// napi's macros export what is `pub`, wherever it is
#![allow(unreachable_pub)]
// N-API hands over owned values
#![allow(clippy::needless_pass_by_value)]

mod answer;
mod connection;
mod database;
mod digests;
mod runs;
mod shared;
mod statement;
mod store;
mod value;
