//! The Protobuf codec: the wire format walked by hand, along the tables.
//!
//! Owns the translation between messages and objects in canonical form. The encoding is deterministic: fields in the
//! order of their numbers, map keys sorted, no field whose absence means the same. It needs no generated code, so that
//! a kind is a message and nothing else.

mod decode;
mod encode;
mod envelope;
mod wire;

pub use decode::decode_protobuf;
pub use encode::{encode_protobuf, write_message_field};
pub use envelope::{
    ENVELOPE_END, Envelope, PREFIX, decode_protobuf_object, read_envelope, write_envelope,
    write_envelope_head,
};
pub use wire::{message_field_end, varint_len, write_field_open};

#[cfg(test)]
mod tests;
