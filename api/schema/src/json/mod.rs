//! The JSON codec: one pass over bytes, along the tables, without an intermediate tree.
//!
//! Owns the canonical form of an object: a decoded `Value` holds exactly the fields that encoding writes. Unknown
//! fields and empty fields (zero without presence, empty lists and maps, null) are dropped; fields that are written
//! even when empty are present.

mod any_form;
mod decode;
mod duplicates;
mod encode;
mod error;
mod leaf;
mod object;
mod reader;
mod scalar;
mod scan;
mod stored;
mod text;

pub use decode::read_json;
pub use decode::{Decoded, Head, Limits, decode_applied, decode_json};
pub(crate) use decode::{decode_untyped, read_json_by_line};
pub(crate) use duplicates::{DUPLICATES_MAX, already_set};
pub use encode::{encode_json, write_value};
pub use error::{DecodeError, EnvelopeError, Shape, StrictError};
pub use scalar::decode_base64;
pub(crate) use scalar::float;
pub use stored::encode_stored;

#[cfg(test)]
mod tests;
