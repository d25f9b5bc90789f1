//! Statuses and other documents of the package `meta.v1`, in every encoding.

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

/// The body of a Status. No view applies to it: it is never a table and never cut to its metadata.
pub fn status(status: &Status, representation: Representation, schema: &Schema) -> Bytes {
    meta_document("Status", &status.to_value(), representation, schema)
}

/// The body of a document of the type `meta.v1.KIND`, to which no view applies.
pub fn meta_document(
    kind: &'static str,
    document: &Value,
    representation: Representation,
    schema: &Schema,
) -> Bytes {
    whole_document(&format!("meta.v1.{kind}"), document, representation, schema)
}

/// The body of a document of the built-in type `name` (`PACKAGE.MESSAGE`), which contains its `kind` and `apiVersion`.
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
