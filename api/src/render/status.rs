//! Statuses and other documents of the meta types in every encoding.

use bytes::Bytes;
use serde_json::Value;

use super::json::lines;
use super::protobuf::encoded_meta;
use crate::negotiate::{Encoding, Representation};
use crate::schema::json::write_value;
use crate::schema::protobuf::write_envelope;
use crate::schema::{Schema, write_yaml};
use crate::status::Status;

/// The body of an answer that is a Status. A Status is never shown as a table and never cut to its metadata.
pub fn status(status: &Status, representation: Representation, schema: &Schema) -> Bytes {
    meta_document("Status", &status.to_value(), representation, schema)
}

/// A document of the meta type `kind`, which is never shown as a table and never cut to its metadata.
pub fn meta_document(
    kind: &'static str,
    document: &Value,
    representation: Representation,
    schema: &Schema,
) -> Bytes {
    let mut body = Vec::new();
    match representation.encoding {
        Encoding::Json => {
            write_value(document, &mut body);
            body = lines(body, representation.pretty);
        }
        Encoding::Yaml => write_yaml(document, &mut body),
        Encoding::Protobuf => {
            write_envelope("v1", kind, &encoded_meta(schema, kind, document), &mut body);
        }
    }
    body.into()
}
