//! Types as data: compiled tables and the codecs that walk them (DESIGN 5).
//!
//! Owns decoding (JSON, YAML, Protobuf), pruning, duplicate and unknown field reports, type errors, defaults and
//! canonical encoding, for every kind alike. It never knows a single kind's rules.

pub mod compile;
mod compile_resource;
mod fill;
mod index;
mod instant;
pub mod json;
pub mod protobuf;
pub mod quantity;
pub mod resource;
pub mod types;
mod yaml;

pub use compile::{CompileError, compile};
pub use fill::{apply_defaults, fill_empty, missing_required};
pub use json::{DecodeError, Decoded, Head, Limits, StrictError, decode_json, decode_value, encode_json};
pub use protobuf::{
    Envelope, EnvelopeError, decode_protobuf, decode_protobuf_object, encode_protobuf, read_envelope,
    write_envelope,
};
pub use resource::{Column, ResourceType, Subresource};
pub use types::{
    Field, ListTopology, ObjectType, PatchStrategy, Scalar, Schema, TypeId, Union, ValueType, Wire,
};

pub use yaml::{decode_yaml, yaml_value};

#[cfg(test)]
mod tests;
