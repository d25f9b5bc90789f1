//! Types as data: compiled tables and the codecs that walk them.
//!
//! Owns decoding (JSON, YAML, Protobuf), pruning, duplicate and unknown field reports, type errors, defaults and
//! canonical encoding, for every kind alike. It never knows a single kind's rules.
//!
//! The way of an object: [`Schema::builtin`] once at start; a [`ResourceType`] of [`Schema::resources`] names its table
//! ([`TypeId`]). A body becomes a `Value` by [`decode_json`], [`decode_yaml`] or [`decode_protobuf_object`]; its `kind`
//! and `apiVersion` are in [`Decoded::head`], its unknown and duplicate fields in [`Decoded::strict`]. A patched
//! document is decoded within [`Limits::patched`]. [`apply_defaults`] and the kind's strategy change the `Value`;
//! [`encode_json`] makes the bytes that are stored, with the fields that are written even when empty.
//!
//! Invariant: a `Value` in canonical form holds exactly what [`encode_json`] writes of it, and decoding those bytes,
//! or those of [`encode_protobuf`], gives the same `Value` again.

mod amounts;
pub mod budget;
pub mod compile;
mod compile_resource;
mod duration;
pub mod excerpt;
mod fill;
mod held;
mod index;
mod instant;
mod json;
pub mod names;
mod order;
pub mod protobuf;
pub mod quantity;
pub mod resource;
pub mod types;
pub mod value;
mod yaml;

pub use amounts::written_alike;
pub use compile::{CompileError, compile};
pub use compile_resource::default_columns;
pub use duration::{DurationFault, SignedDuration};
pub use fill::apply_defaults;
pub use held::check_held;
pub use instant::{Instant, Precision};
pub use json::decode_base64;
pub use json::encode_stored;
pub use json::{
    DecodeError, Decoded, EnvelopeError, Head, Limits, Shape, StrictError, decode_applied, decode_json,
    encode_json,
};
pub use json::{read_json, write_value};
pub use order::order_members;
pub use protobuf::{
    Envelope, decode_protobuf, decode_protobuf_object, encode_protobuf, read_envelope, write_envelope,
};
pub use resource::{
    Column, DefaultPropagation, NameRule, ResourceType, Rules, ScalePaths, Selectable, Subresource,
};
pub use types::{
    Applied, Extra, Field, ListTopology, Member, ObjectType, PatchStrategy, Scalar, Schema, TypeId, Union,
    ValueType, Wire,
};

pub use yaml::read_yaml;
pub use yaml::{YamlSink, write_yaml_list, write_yaml_to};
pub use yaml::{decode_yaml, write_yaml, yaml_value};

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
