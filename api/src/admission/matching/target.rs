//! The type of the objects that policies and webhooks change.
//!
//! Owns what a changed object passes before anything else reads it: the decoder of its kind, and its defaults.

use orch_rules::kinds::Context;
use orch_schema::value::Value;
use orch_schema::{Decoded, Limits, TypeId, apply_defaults, decode_json};

use super::rules::Version;
use super::versions::Names;
use crate::admission::{Attributes, Operation};
use crate::registry::Resource;
use crate::request::Verb;

/// The type of the objects that are changed.
pub(in crate::admission) struct Target<'a> {
    attributes: &'a Attributes<'a>,
    pub(in crate::admission) resource: &'a Resource,
    /// `None` of a connection without options.
    pub(in crate::admission) type_id: Option<TypeId>,
    pub(in crate::admission) names: &'a Names,
}

impl<'a> Target<'a> {
    pub(in crate::admission) fn of(
        attributes: &'a Attributes<'a>,
        version: &Version<'a>,
        names: &'a Names,
    ) -> Target<'a> {
        let resource: &Resource = match version {
            Version::Own => attributes.resource,
            Version::Other(_, _, resource) => resource,
        };
        let type_id = match attributes.operation {
            Operation::Connect => resource.request_type(attributes.action, Verb::Create),
            Operation::Create | Operation::Update | Operation::Delete => Some(resource.type_id),
        };
        Target { attributes, resource, type_id, names }
    }

    /// A changed object in canonical form.
    ///
    /// # Errors
    /// It is no object of the type.
    pub(in crate::admission) fn decoded(&self, type_id: TypeId, value: &Value) -> Result<Decoded, String> {
        let text = value.to_string();
        let decoded = decode_json(&self.resource.schema, type_id, text.as_bytes(), Limits::patched());
        decoded.map_err(|error| error.to_string())
    }

    /// Adds the defaults of a changed object.
    pub(in crate::admission) fn default(&self, type_id: TypeId, value: &mut Value) {
        apply_defaults(&self.resource.schema, type_id, value);
        if self.attributes.operation != Operation::Connect {
            let now = self.attributes.now.seconds_text();
            self.resource.strategy.default(&self.context(&now), value);
        }
    }

    fn context<'c>(&'c self, now: &'c str) -> Context<'c> {
        Context {
            brand: self.attributes.brand,
            group: &self.names.group,
            version: &self.names.version,
            namespace: self.attributes.namespace,
            action: self.attributes.action,
            user: self.attributes.user.requester(),
            now,
            labels_given: true,
        }
    }
}
