//! Objects as JSON, and the last step from JSON to bytes: a newline, indentation, or YAML.

use orch_schema::value::Value;
use orch_schema::write_value;
use orch_schema::{encode_json, write_yaml_to};
use serde::de::DeserializeOwned;

use super::pieces::Pieces;
use super::{Payload, Renderer, pretty};
use crate::error::ApiError;
use crate::negotiate::{Encoding, Representation};

impl Renderer {
    /// Appends the object with `kind` and `apiVersion`.
    pub(super) fn whole(&self, json: &[u8], out: &mut Vec<u8>) -> Result<(), ApiError> {
        out.extend_from_slice(&self.resource.head);
        if self.resource.direct().is_none() {
            out.extend_from_slice(json.get(1..).unwrap_or_default());
            return Ok(());
        }
        let mut converted = Vec::with_capacity(json.len());
        self.item(json, &mut converted)?;
        out.extend_from_slice(converted.get(1..).unwrap_or_default());
        Ok(())
    }

    /// Appends the object as a list item, without `kind` and `apiVersion`.
    pub(super) fn item(&self, json: &[u8], out: &mut Vec<u8>) -> Result<(), ApiError> {
        if self.resource.direct().is_none() {
            out.extend_from_slice(json);
        } else {
            let value = self.version_value(json)?;
            encode_json(&self.resource.schema, self.resource.type_id, &value, out);
        }
        Ok(())
    }

    /// The response whose JSON on one line is `document`.
    pub(super) fn finish(&self, document: Vec<u8>) -> Result<Payload, ApiError> {
        match self.representation {
            Representation { encoding: Encoding::Yaml, .. } => self.yaml(&document),
            representation => Ok(Payload::whole(lines(document, representation.pretty))),
        }
    }

    /// `document`, which is JSON, converted to YAML.
    pub(super) fn yaml(&self, document: &[u8]) -> Result<Payload, ApiError> {
        let value: Value = parsed(document)?;
        let mut pieces = Pieces::with_capacity(document.len() * 2);
        write_yaml_to(&value, &mut pieces);
        Ok(pieces.into_payload())
    }
}

/// Parses JSON that was written for a response.
pub(super) fn parsed<T: DeserializeOwned>(json: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(json)
        .map_err(|error| ApiError::Internal(format!("an answer is not JSON: {error}")))
}

/// Ends a JSON document like the reference: on one line with a newline, indented without.
pub(super) fn lines(mut document: Vec<u8>, is_pretty: bool) -> Vec<u8> {
    if !is_pretty {
        document.push(b'\n');
        return document;
    }
    let mut lines = Vec::with_capacity(pretty::indented_len(&document, 0));
    pretty::indent(&document, 0, &mut lines);
    lines
}

/// Appends a JSON string.
pub(super) fn write_text(text: &str, out: &mut Vec<u8>) {
    write_value(&Value::from(text), out);
}
