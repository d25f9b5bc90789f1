//! Statuses and other documents of the meta types in every encoding.

use bytes::Bytes;
use orch_rules::validate::tree::Tree;
use orch_schema::protobuf::write_envelope;
use orch_schema::value::Value;
use orch_schema::write_value;
use orch_schema::{Schema, write_yaml};

use super::json::lines;
use super::protobuf::encoded_message;
use crate::negotiate::{Encoding, Representation};
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
    whole_document(&format!("meta.v1.{kind}"), document, representation, schema)
}

/// A document of the built-in message `name` (`PACKAGE.MESSAGE`), which says its own kind and version.
pub fn whole_document(
    name: &str,
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
            let message = encoded_message(schema, name, document);
            write_envelope(document.text("apiVersion"), document.text("kind"), &message, &mut body);
        }
    }
    body.into()
}
