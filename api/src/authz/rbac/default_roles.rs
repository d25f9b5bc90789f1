//! The default roles and bindings: those of the reference, in `default_roles.json`.
//!
//! Owns their text with the words of the brand. The loop `bootstrap` writes them; the Node authorizer has the rules of one of them
//! built in.

use orch_proto::Brand;
use orch_rules::validate::tree::{Tree, child_mut, items_mut, set, unset};
use orch_schema::value::Value;

use super::{CLUSTER_ROLES, PolicyRule};
use crate::error::ApiError;

/// The roles and bindings, with placeholders for the words of the brand.
const TEMPLATE: &str = include_str!("default_roles.json");

/// A role or binding that every cluster has.
pub(crate) struct DefaultRole {
    /// The storage resource.
    pub(crate) storage: String,
    /// `namespace/name`, or `name`.
    pub(crate) path: String,
    /// In its stored form.
    pub(crate) object: Value,
}

/// The rules of the default cluster role `name`; empty where there is no such role.
pub(crate) fn default_rules(brand: &Brand, name: &str) -> Vec<PolicyRule> {
    let all = default_roles(brand).unwrap_or_default();
    // once: the roles are read when a node starts.
    let role = all.iter().find(|role| role.storage == CLUSTER_ROLES && role.path == name);
    role.into_iter().flat_map(|role| role.object.items("rules")).map(PolicyRule::of).collect()
}

/// The default roles and bindings of a cluster of `brand`.
///
/// # Errors
/// `Internal`: the program's list cannot be read.
pub(crate) fn default_roles(brand: &Brand) -> Result<Vec<DefaultRole>, ApiError> {
    let text = TEMPLATE
        .replace("{groups}", brand.group_domain)
        .replace("{labels}", brand.label_domain)
        .replace("{system}", brand.system_namespace)
        .replace("{public}", brand.public_namespace)
        .replace("{component}", brand.component_prefix);
    let objects: Vec<Value> = serde_json::from_str(&text)
        .map_err(|error| ApiError::Internal(format!("the default roles cannot be read: {error}")))?;
    Ok(objects.into_iter().map(|object| complete(brand, object)).collect())
}

/// The object in its stored form, with what all of them have.
fn complete(brand: &Brand, mut object: Value) -> DefaultRole {
    let group = brand.group("rbac.authorization");
    let storage = format!("{}.rbac.authorization", object.text("kind"));
    let metadata = object.at("metadata");
    let path = match metadata.text("namespace") {
        "" => metadata.text("name").to_owned(),
        namespace => format!("{namespace}/{}", metadata.text("name")),
    };
    let mut put = |place: &[&str], name: &str, value: Value| {
        let mut at = &mut object;
        for member in place {
            at = child_mut(at, member);
        }
        set(at, name, value);
    };
    let defaults = Value::from("rbac-defaults");
    put(&["metadata", "labels"], &brand.label("bootstrapping"), defaults);
    put(&["metadata", "annotations"], &autoupdate(brand), Value::from("true"));
    if object.get("roleRef").is_some() {
        let role = child_mut(&mut object, "roleRef");
        set(role, "apiGroup", group.as_str());
        for subject in items_mut(&mut object, "subjects") {
            if subject.text("kind") != "ServiceAccount" {
                set(subject, "apiGroup", group.as_str());
            }
        }
    }
    unset(&mut object, "kind");
    DefaultRole { storage, path, object }
}

/// The annotation that keeps a default role as it is where it is "false".
pub(crate) fn autoupdate(brand: &Brand) -> String {
    format!("rbac.authorization.{}/autoupdate", brand.label_domain)
}
