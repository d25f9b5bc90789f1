//! Types as data: compiled tables and the codecs that walk them (DESIGN 5).
//!
//! Owns decoding (JSON, YAML, Protobuf), pruning, duplicate and unknown field reports, type errors, defaults and
//! canonical encoding, for every kind alike. It never knows a single kind's rules.

pub mod types;

pub use types::{Field, ListTopology, ObjectType, PatchStrategy, Scalar, Schema, TypeId, ValueType};
