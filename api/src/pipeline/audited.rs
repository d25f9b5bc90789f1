//! Documents of requests as audit events show them.
//!
//! Owns their form: an object or options as JSON with `kind` and `apiVersion`, a patch as it was sent. Nothing is copied
//! unless the audit policy asks for it.

use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use orch_schema::{encode_json, read_json, read_yaml};

use super::Request;
use super::patch_body::APPLY;
use crate::audit::{Document, with_head};

impl Request<'_> {
    /// Records the object of a create or an update, as decoded.
    pub(super) fn record_object(&self, object: &Value) {
        let Some(trail) = self.exchange.trail() else { return };
        let metadata = object.at("metadata");
        let (uid, version) = (metadata.text("uid"), metadata.text("resourceVersion"));
        trail.refer_to(metadata.text("name"), metadata.text("namespace"), uid, version);
        trail.record_request(|| {
            let resource = self.resource;
            let Some(type_id) = resource.request_type(self.action, self.verb) else {
                return Document::TooLong;
            };
            let mut body = Vec::new();
            encode_json(&resource.schema, type_id, object, &mut body);
            Document::Object(with_head(&resource.kind, &resource.api_version(), &body).into())
        });
    }

    /// Records the options of a deletion, as decoded.
    pub(super) fn record_options(&self, kind: &str, api_version: &str, options: &Value) {
        let Some(trail) = self.exchange.trail() else { return };
        trail.record_request(|| {
            let body = options.to_string();
            Document::Options(with_head(kind, api_version, body.as_bytes()).into())
        });
    }

    /// Records the patch in the body, which has been parsed as `format` before.
    pub(super) fn record_patch(&self, format: &str) {
        let Some(trail) = self.exchange.trail() else { return };
        trail.record_request(|| {
            let (schema, body) = (&self.registry.schema, self.body);
            let patch = match format {
                APPLY => read_yaml(schema, body).ok().map(|(patch, _)| patch),
                _ => read_json(schema, body, orch_schema::Limits::default()).ok().map(|(patch, _)| patch),
            };
            patch.map_or(Document::TooLong, Document::Value)
        });
    }
}
