//! Statuses in every encoding.

use bytes::Bytes;

use super::json::lines;
use super::protobuf::encoded_meta;
use crate::negotiate::{Encoding, Representation};
use crate::schema::json::write_value;
use crate::schema::protobuf::write_envelope;
use crate::schema::{Schema, write_yaml};
use crate::status::Status;

/// The body of an answer that is a Status. A Status is never shown as a table and never cut to its metadata.
pub fn status(status: &Status, representation: Representation, schema: &Schema) -> Bytes {
    let document = status.to_value();
    let mut body = Vec::new();
    match representation.encoding {
        Encoding::Json => {
            write_value(&document, &mut body);
            body = lines(body, representation.pretty);
        }
        Encoding::Yaml => write_yaml(&document, &mut body),
        Encoding::Protobuf => {
            write_envelope("v1", "Status", &encoded_meta(schema, "Status", &document), &mut body);
        }
    }
    body.into()
}
