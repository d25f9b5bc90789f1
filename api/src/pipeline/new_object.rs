//! A new object before it is stored: its system fields, a generated name, defaults, the fields that its writer owns.
//!
//! Owns what each stage of a create sets and checks in the object; `create` owns their order.

use orch_raft::Store;
use orch_rules::Action;
use orch_rules::kinds::Context;
use orch_rules::validate::tree::{Tree, child_mut, set, unset};
use orch_rules::validate::{FieldError, Path, validate_object_meta};
use orch_schema::value::Value;
use orch_schema::{apply_defaults, order_members};

use super::incoming::check_readable;
use super::options::Options;
use super::stored::check_size;
use super::update::track;
use super::{Pipeline, Request};
use crate::ambient::{SUFFIX_LENGTH, suffix_text, uuid_text};
use crate::error::{ApiError, Subject};
use crate::fields::Writer;
use crate::registry::Resource;

/// Longest prefix of a generated name: names end at 63 where they must be labels.
const GENERATED_PREFIX_MAX: usize = 63 - SUFFIX_LENGTH;

/// Source of a new value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A body or a patched object: its managed fields are still to be computed.
    Sent,
    /// The result of an apply, which already has its managed fields.
    Applied,
}

impl<S: Store> Pipeline<S> {
    /// Sets uid, creation time and a generated name; clears the other fields of the system, which plugins may have set.
    pub(super) fn set_system_fields(&self, value: &mut Value, now: &str) {
        clear_system_fields(value);
        let metadata = child_mut(value, "metadata");
        set(metadata, "uid", uuid_text(self.ambient.random()));
        set(metadata, "creationTimestamp", now);
        if is_name_to_be_drawn(value) {
            let metadata = child_mut(value, "metadata");
            let prefix = metadata.text("generateName");
            let mut end = prefix.len().min(GENERATED_PREFIX_MAX);
            while !prefix.is_char_boundary(end) {
                end -= 1;
            }
            let name = format!("{}{}", &prefix[..end], suffix_text(self.ambient.random()));
            set(metadata, "name", name);
        }
    }

    /// Sets defaults and managed fields. `value` is in the form of the kind's rules afterwards, also if it is too large: that
    /// error is returned after those of mutating admission.
    pub(super) fn default_new(
        &self,
        request: Request<'_>,
        options: &Options,
        value: &mut Value,
        context: &Context<'_>,
        origin: Origin,
    ) -> Result<(), ApiError> {
        let resource = request.resource;
        check_readable(request, value)?;
        apply_defaults(&resource.schema, resource.type_id, value);
        resource.strategy.default(context, value);
        let mut size = Ok(());
        if origin == Origin::Sent {
            size = check_size(request, value);
        }
        if origin == Origin::Sent && size.is_ok() {
            let api_version = resource.api_version();
            let writer = Writer {
                manager: &options.manager,
                api_version: &api_version,
                subresource: Action::Object.subresource(),
                now: context.now,
                reset: resource.resets(Action::Object),
                others: &resource.others,
            };
            if let Err(error) = track(resource, None, value, &writer) {
                tracing::debug!(%error, "ownership of a new object is not tracked");
            }
        }
        *value = resource.to_rules(value.take());
        size
    }

    /// Checks the rules of metadata and of the kind. `unmet` is the error of a namespace without a label that the object needs.
    pub(super) fn validate_new(
        &self,
        request: Request<'_>,
        value: &Value,
        now: &str,
        unmet: Option<FieldError>,
    ) -> Result<(), ApiError> {
        let resource = request.resource;
        let validate = |value: &Value| {
            let path = Path::new("metadata");
            let metadata = value.at("metadata");
            let mut errors = validate_object_meta(metadata, resource.namespaced, resource.rules.names, &path);
            errors.extend(unmet.clone());
            errors.extend(resource.strategy.validate_create(&self.context(request, now), value));
            errors
        };
        let errors = validate(value);
        if errors.is_empty() {
            return Ok(());
        }
        let ordered = validate(&in_order(resource, value));
        let errors = if ordered.is_empty() { errors } else { ordered };
        let name = value.at("metadata").text("name");
        Err(ApiError::Invalid { subject: Subject::kind(resource, name), errors })
    }
}

/// Fills in the defaults of what the rules of the kind have taken away or brought back, such as a status that only its
/// sub-resource writes. The reference does so when it reads what it stored; here stored bytes are what clients get. Built-in
/// kinds have no such defaults.
pub(super) fn fill_prepared(resource: &Resource, value: &mut Value) {
    if resource.staged().is_some() {
        apply_defaults(&resource.schema, resource.type_id, value);
    }
}

/// Clears the fields of the system: in a new object, values of the client for them count for nothing.
pub(super) fn clear_system_fields(value: &mut Value) {
    let metadata = child_mut(value, "metadata");
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        unset(metadata, field);
    }
}

/// Whether the name of a new object is to be drawn behind its `generateName`.
pub(super) fn is_name_to_be_drawn(value: &Value) -> bool {
    let metadata = value.at("metadata");
    metadata.text("name").is_empty() && !metadata.text("generateName").is_empty()
}

/// A copy of a refused object, with its members in the order in which it would be stored: so the messages show them.
pub(super) fn in_order(resource: &Resource, value: &Value) -> Value {
    let mut ordered = value.clone();
    // The tables are those of the request's version.
    if resource.direct().is_none() {
        order_members(&resource.schema, resource.type_id, &mut ordered);
    }
    ordered
}

/// The name or else the `generateName`, for messages of admission.
pub(super) fn known_name(value: &Value) -> &str {
    let metadata = value.at("metadata");
    match metadata.text("name") {
        "" => metadata.text("generateName"),
        name => name,
    }
}
