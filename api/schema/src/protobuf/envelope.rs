//! The head of the Protobuf representation: four bytes, then the object's type and its message.

use bytes::{BufMut, Bytes};
use orch_proto::envelope::Unknown;
use prost::Message as _;

use super::decode::decode_protobuf;
use super::wire::{write_bytes, write_nested};
use crate::excerpt::{quoted, summary};
use crate::json::{DecodeError, Decoded, EnvelopeError, Head, Limits};
use crate::types::{Schema, TypeId};

/// The first bytes of every object in Protobuf.
pub const PREFIX: [u8; 4] = [0x6b, 0x38, 0x73, 0x00];

/// An envelope; its message is not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// `apiVersion` and `kind` of the object.
    pub head: Head,
    /// The object: a Protobuf message, or content of the type `content_type`.
    pub raw: Bytes,
    /// Media type of `raw`; empty for Protobuf.
    pub content_type: String,
    /// Encoding of `raw`; empty for none.
    pub content_encoding: String,
}

/// Reads the envelope; nothing is copied.
pub fn read_envelope(mut body: Bytes) -> Result<Envelope, EnvelopeError> {
    if !body.starts_with(&PREFIX) {
        return Err(EnvelopeError::Prefix);
    }
    let unknown = Unknown::decode(body.split_off(PREFIX.len()))
        .map_err(|error| EnvelopeError::Message(error.to_string()))?;
    let meta = unknown.type_meta.unwrap_or_default();
    Ok(Envelope {
        head: Head { api_version: meta.api_version, kind: meta.kind },
        raw: unknown.raw,
        content_type: unknown.content_type,
        content_encoding: unknown.content_encoding,
    })
}

/// Reads an object of type `type_id` in its envelope. Unknown fields are skipped, so that `strict` is empty.
///
/// # Errors
/// [`DecodeError::Envelope`] where the envelope itself cannot be read, and those of [`decode_protobuf`].
pub fn decode_protobuf_object(
    schema: &Schema,
    type_id: TypeId,
    body: &[u8],
    limits: Limits,
) -> Result<Decoded, DecodeError> {
    let envelope = read_envelope(Bytes::copy_from_slice(body))
        .and_then(plain)
        .map_err(|problem| DecodeError::Envelope { problem, summary: summary(body) })?;
    let value = decode_protobuf(schema, type_id, &envelope.raw, limits)?;
    Ok(Decoded { value, head: envelope.head, strict: Vec::new() })
}

/// Refuses an envelope whose message has a content encoding.
fn plain(envelope: Envelope) -> Result<Envelope, EnvelopeError> {
    match envelope.content_encoding.as_str() {
        "" | "identity" => Ok(envelope),
        other => Err(EnvelopeError::Encoded(quoted(other))),
    }
}

/// The end of an envelope: content encoding and content type, both empty, as the reference writes them.
pub const ENVELOPE_END: &[u8] = &[3 << 3 | 2, 0, 4 << 3 | 2, 0];

/// Appends the envelope with `message` in it.
pub fn write_envelope(api_version: &str, kind: &str, message: &[u8], out: &mut Vec<u8>) {
    write_envelope_head(api_version, kind, out);
    write_bytes(2, message, out);
    out.put_slice(ENVELOPE_END);
}

/// Appends the prefix and the object's type. The message follows as field 2, then [`ENVELOPE_END`].
pub fn write_envelope_head(api_version: &str, kind: &str, out: &mut Vec<u8>) {
    out.put_slice(&PREFIX);
    write_nested(1, out, |out| {
        write_bytes(1, api_version.as_bytes(), out);
        write_bytes(2, kind.as_bytes(), out);
    });
}
