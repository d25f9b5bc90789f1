//! `PartialObjectMetadata`: the metadata of an object alone.
//!
//! Owns cutting the metadata out of stored bytes: it is the first member of every stored object, and the first field
//! of every message. A converted version has the same metadata.

use bytes::Bytes;

use super::scan::object_end;
use super::{Renderer, unreadable};
use crate::error::ApiError;

/// The first bytes of every stored object.
const START: &[u8] = b"{\"metadata\":";

impl Renderer {
    /// Appends the `PartialObjectMetadata` of the object whose stored form is `json`.
    pub(super) fn partial(&self, json: &[u8], out: &mut Vec<u8>) -> Result<(), ApiError> {
        out.extend_from_slice(&self.partial_head());
        let end = self.metadata_end(json)?;
        out.extend_from_slice(&json[START.len()..end]);
        out.push(b'}');
        Ok(())
    }

    /// The bytes before the metadata.
    pub(super) fn partial_head(&self) -> Vec<u8> {
        let version = self.meta_version();
        format!("{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"{version}\",\"metadata\":")
            .into_bytes()
    }

    /// The metadata's slice of the stored bytes, not copied.
    pub(super) fn metadata_part(&self, json: &Bytes) -> Result<Bytes, ApiError> {
        let end = self.metadata_end(json)?;
        Ok(json.slice(START.len()..end))
    }

    /// `apiVersion` of `Table` and `PartialObjectMetadata`.
    pub(super) fn meta_version(&self) -> String {
        format!("{}/{}", self.brand.group("meta"), self.representation.meta_version.as_str())
    }

    fn metadata_end(&self, json: &[u8]) -> Result<usize, ApiError> {
        if json.starts_with(START) && json.get(START.len()) == Some(&b'{') {
            return Ok(object_end(json, START.len()));
        }
        Err(unreadable(&self.resource, &"it does not start with its metadata"))
    }
}
