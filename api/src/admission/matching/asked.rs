//! A write as policies and webhooks see it.
//!
//! Owns the names by which rules match it, and the document behind the variable `request`.

use orch_rules::validate::tree::{Tree, set};
use orch_schema::json;
use orch_schema::value::Value;

use super::rules::Version;
use super::versions::Names;
use crate::admission::{Attributes, Operation};
use crate::authz::review::user_info;
use crate::registry::Resource;

/// Names of a write.
#[derive(Clone, Copy, Debug)]
pub(in crate::admission) struct Asked<'a> {
    pub(in crate::admission) attributes: &'a Attributes<'a>,
    pub(in crate::admission) operation: &'static str,
    pub(in crate::admission) group: &'a str,
    pub(in crate::admission) version: &'a str,
    /// The plural.
    pub(in crate::admission) resource: &'a str,
    pub(in crate::admission) subresource: &'static str,
    /// The namespace; of a namespace, its own name.
    pub(in crate::admission) namespace: &'a str,
    /// Empty where the request names no object, or the name is drawn.
    pub(in crate::admission) name: &'a str,
    pub(in crate::admission) is_namespace: bool,
}

impl<'a> Asked<'a> {
    pub(in crate::admission) fn of(attributes: &'a Attributes<'a>) -> Asked<'a> {
        let resource = attributes.resource;
        let is_namespace = resource.path_group.is_empty() && resource.plural == "namespaces";
        let is_create = attributes.operation == Operation::Create;
        let name = match (attributes.path_name, is_create && !attributes.draws_name) {
            ("", true) => attributes.name,
            (name, _) => name,
        };
        Asked {
            attributes,
            operation: match attributes.operation {
                Operation::Create => "CREATE",
                Operation::Update => "UPDATE",
                Operation::Delete => "DELETE",
                Operation::Connect => "CONNECT",
            },
            group: &resource.path_group,
            version: attributes.path_version,
            resource: &resource.plural,
            subresource: attributes.action.subresource(),
            namespace: if is_namespace { name } else { attributes.namespace },
            name,
            is_namespace,
        }
    }

    /// Whether the object is in a namespace; a namespace itself is not.
    pub(in crate::admission) fn is_namespaced(&self) -> bool {
        !self.is_namespace && !self.namespace.is_empty()
    }

    /// The other versions of the resource that have the sub-resource, too.
    pub(in crate::admission) fn others(&self) -> impl Iterator<Item = (&'a str, &'a str, &'a Resource)> {
        let (attributes, subresource, plural) = (self.attributes, self.subresource, self.resource);
        let own = attributes.registry.find(self.group, self.version, plural);
        let others = own.into_iter().flat_map(|own| own.others.iter());
        others.filter_map(move |other| {
            let (group, version) = other.api_version.split_once('/').unwrap_or(("", &other.api_version));
            let found = attributes.registry.find(group, version, plural)?;
            let is_served = subresource.is_empty() || found.subresource(subresource).is_some();
            is_served.then_some((group, version, &**found))
        })
    }

    /// The documents behind the variable `request`, where the objects are shown as `shown`.
    pub(in crate::admission) fn requests(&self, shown: &Names) -> Requests {
        let own = Names::of(self, &Version::Own);
        Requests {
            of_matched: self.document((shown, shown), &own),
            of_conditions: (*shown != own).then(|| self.document((shown, &own), &own)),
        }
    }

    /// The document of a request, and of a review, for one who is shown the objects as `shown`, and the resource as `matched`.
    pub(in crate::admission) fn document(&self, (shown, matched): (&Names, &Names), own: &Names) -> Value {
        let kind = |shown: &Names| {
            let (group, version) = shown.api_version.split_once('/').unwrap_or(("", &shown.api_version));
            json!({"group": group, "version": version, "kind": &*shown.kind})
        };
        let resource = |shown: &Names| json!({"group": &*shown.group, "version": &*shown.version, "resource": self.resource});
        let mut request = json!({
            "kind": kind(shown),
            "resource": resource(matched),
            "requestKind": kind(own),
            "requestResource": resource(own),
            "operation": self.operation,
            "userInfo": user_info(self.attributes.user),
            "dryRun": self.attributes.dry_run,
            "options": self.attributes.options().unwrap_or(Value::Null),
        });
        for (field, text) in [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", self.namespace),
        ] {
            if !text.is_empty() {
                set(&mut request, field, text);
            }
        }
        request
    }
}

/// The documents of one request.
#[derive(Debug)]
pub(in crate::admission) struct Requests {
    /// With the resource that was matched.
    pub(in crate::admission) of_matched: Value,
    /// With the resource of the request, where it is another.
    of_conditions: Option<Value>,
}

impl Requests {
    /// As match conditions see it: the resource is that of the request, whatever version of it was matched.
    pub(in crate::admission) fn of_conditions(&self) -> &Value {
        self.of_conditions.as_ref().unwrap_or(&self.of_matched)
    }
}

/// The namespace as the variable `namespaceObject` shows it.
pub(in crate::admission) fn namespace_document(stored: &Value) -> Value {
    let part = |of: &Value, names: &[&str]| {
        let mut part = json!({});
        for name in names {
            if of.has(name) {
                set(&mut part, name, of.at(name).clone());
            }
        }
        part
    };
    let metadata = [
        "name",
        "generateName",
        "namespace",
        "labels",
        "annotations",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
        "finalizers",
    ];
    json!({
        "metadata": part(stored.at("metadata"), &metadata),
        "spec": part(stored.at("spec"), &["finalizers"]),
        "status": part(stored.at("status"), &["conditions", "phase"]),
    })
}
