//! `OwnerReferencesPermissionEnforcement`: nobody has objects deleted by an owner, or keeps an owner from going, without
//! the rights for it.
//!
//! A change of owner references takes the right to delete the object. A reference with `blockOwnerDeletion` takes the
//! right to update the owner's finalizers.

use std::collections::{BTreeSet, HashMap};

use futures::future::{Either, FutureExt};
use orch_rules::Action;
use orch_rules::validate::tree::{Tree, is_unchanged};
use orch_schema::excerpt::part;
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};
use crate::authz::{Attributes as Asked, ResourceAttributes};
use crate::registry::Resource;

#[derive(Debug)]
pub(super) struct OwnerReferencesPermissionEnforcement;

impl Plugin for OwnerReferencesPermissionEnforcement {
    fn name(&self) -> &'static str {
        "OwnerReferencesPermissionEnforcement"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        // Writes of a pod's status cannot change its owners, and old kubelets send wrong ones.
        let is_pod_status = *attributes.resource.storage == *"pods" && attributes.action == Action::Status;
        matches!(attributes.operation, Operation::Create | Operation::Update) && !is_pod_status
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        match object.filter(|object| changes_owners(attributes.old, object)) {
            Some(object) => Either::Right(check(attributes, object, view).boxed()),
            None => rule(Ok(())),
        }
    }
}

fn owners(object: &Value) -> &[Value] {
    object.at("metadata").items("ownerReferences")
}

fn changes_owners(old: Option<&Value>, object: &Value) -> bool {
    let (before, now) = (old.map_or(&[][..], owners), owners(object));
    // once: one pass over both lists.
    before.len() != now.len() || before.iter().zip(now).any(|(before, now)| !is_unchanged(before, now))
}

/// The references that block the deletion of their owner and did not before, each by version, kind and name.
fn newly_blocking<'o>(old: Option<&'o Value>, object: &'o Value) -> BTreeSet<(&'o str, &'o str, &'o str)> {
    let before: HashMap<&str, bool> = old
        .map_or(&[][..], owners)
        .iter()
        .map(|owner| (owner.text("uid"), owner.flag("blockOwnerDeletion")))
        .collect();
    let is_new = |owner: &&Value| before.get(owner.text("uid")) != Some(&true);
    let blocking = owners(object).iter().filter(|owner| owner.flag("blockOwnerDeletion")).filter(is_new);
    blocking.map(|owner| (owner.text("apiVersion"), owner.text("kind"), owner.text("name"))).collect()
}

async fn check(attributes: &Attributes<'_>, object: &Value, view: &View) -> Result<(), Refusal> {
    let resource = attributes.resource;
    if attributes.operation == Operation::Update {
        let asked = ResourceAttributes {
            verb: "delete",
            group: &resource.group,
            version: &resource.version,
            resource: &resource.plural,
            subresource: attributes.action.subresource(),
            namespace: attributes.namespace,
            name: attributes.name,
            ..ResourceAttributes::default()
        };
        may(attributes, asked, view, "cannot set an ownerRef on a resource you can't delete").await?;
    }
    for (api_version, kind, name) in newly_blocking(attributes.old, object) {
        let Some(owner) = owner_resource(attributes, api_version, kind) else {
            return Err(Refusal::Forbidden(format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {} Kind {}",
                part(api_version),
                part(kind)
            )));
        };
        let asked = ResourceAttributes {
            verb: "update",
            group: &owner.group,
            version: &owner.version,
            resource: &owner.plural,
            subresource: "finalizers",
            // An owner of a cluster's scope has no namespace; any other is in that of the object.
            namespace: if owner.namespaced { attributes.namespace } else { "" },
            name,
            ..ResourceAttributes::default()
        };
        let refused = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on";
        may(attributes, asked, view, refused).await?;
    }
    Ok(())
}

/// The resource of a kind, as its own version or another serves it.
fn owner_resource<'a>(attributes: &Attributes<'a>, api_version: &str, kind: &str) -> Option<&'a Resource> {
    attributes.registry.find_named(api_version, kind).map(|resource| &**resource)
}

async fn may(
    attributes: &Attributes<'_>,
    asked: ResourceAttributes<'_>,
    view: &View,
    refusal: &str,
) -> Result<(), Refusal> {
    let ruling = attributes.gate.rule(attributes.user, Asked::Resource(asked), view.applied()).await;
    if ruling.is_allowed() { Ok(()) } else { Err(Refusal::Forbidden(refusal.to_owned())) }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::admission::testing::{Objects, attributes};
    use crate::authn::User;
    use crate::authz::rbac::{ROLE_BINDINGS, ROLES};

    /// The outcome of a write by a user with `rules` in the namespace.
    fn written(rules: Value, old: Option<&Value>, new: &Value) -> Result<(), Refusal> {
        let user = User { name: "ann".to_owned(), ..User::default() };
        let gate = crate::testing::gate();
        let binding = json!({
            "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "ann"}],
        });
        let at = |storage: &str, object| ((storage.to_owned(), "ns".to_owned(), "r".to_owned()), object);
        let objects = [at(ROLES, json!({"rules": rules})), at(ROLE_BINDINGS, binding)];
        let view = Objects(objects.into_iter().collect()).view("ns");
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let asked = Attributes { user: &user, gate: &gate, old, ..attributes("pods", operation) };
        let mut additions = Additions::default();
        let ruling = OwnerReferencesPermissionEnforcement.validate(&asked, Some(new), &view, &mut additions);
        ruling.now_or_never().expect("nobody else is asked")
    }

    #[test]
    fn owners_take_rights() {
        let object = |owners: Value| json!({"metadata": {"name": "n", "ownerReferences": owners}});
        let owner = |kind: &str, blocks: bool| {
            let version = if kind == "ReplicaSet" { "apps/v1" } else { "v1" };
            json!({"apiVersion": version, "kind": kind, "name": "o", "uid": "u", "blockOwnerDeletion": blocks})
        };
        let (none, plain, blocking) = (
            object(json!([])),
            object(json!([owner("ReplicaSet", false)])),
            object(json!([owner("ReplicaSet", true)])),
        );
        let odd = object(json!([owner("Nonesuch", true)]));
        let delete = json!([{"verbs": ["delete"], "apiGroups": [""], "resources": ["pods"]}]);
        let both = json!([
            {"verbs": ["delete"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["update"], "apiGroups": ["apps"], "resources": ["replicasets/finalizers"]},
        ]);
        let (cannot_delete, cannot_block, unknown) = (
            "cannot set an ownerRef on a resource you can't delete",
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on",
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion v1 Kind Nonesuch",
        );
        for (rules, old, new, expected) in [
            (json!([]), Some(&plain), &plain, ""),
            (json!([]), None, &plain, ""),
            (json!([]), Some(&none), &plain, cannot_delete),
            (delete.clone(), Some(&none), &plain, ""),
            (delete.clone(), Some(&plain), &blocking, cannot_block),
            (both.clone(), Some(&plain), &blocking, ""),
            (json!([]), None, &blocking, cannot_block),
            (both.clone(), None, &odd, unknown),
            (delete, Some(&blocking), &none, ""),
        ] {
            let told = match written(rules, old, new) {
                Ok(()) => String::new(),
                Err(Refusal::Forbidden(reason)) => reason,
                Err(other) => panic!("{other:?}"),
            };
            assert_eq!(told, expected, "{old:?} {new}");
        }
    }
}
