//! `NodeRestriction`: limits what a kubelet writes to its own node, the pods that run there, and the objects that carry
//! its name.
//!
//! Owns the refusal of writes by nodes' users that the Node authorizer cannot judge, because they depend on the object:
//! labels and taints of a node, mirror pods, tokens, names of new objects. Writes of other users pass.
//!
//! As in the reference, it judges creates and updates before the kind prepares them, and deletions as they are validated.

mod certificate;
mod claim;
mod node;
mod pod;
mod token;

use futures::future::{Either, FutureExt};
use orch_raft::Key;
use orch_rules::Action;
use orch_rules::validate::tree::Tree;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::certificate_approval::REQUESTS;
use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};
use crate::error::{ApiError, Subject};

/// Restricts the writes of nodes' users.
pub(super) struct NodeRestriction;

/// A write of a node.
#[derive(Clone, Copy)]
struct Write<'a> {
    /// Name of the node that writes.
    node: &'a str,
    attributes: &'a Attributes<'a>,
    /// `None`: a deletion.
    object: Option<&'a Value>,
    view: &'a View,
}

impl Plugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation != Operation::Connect && attributes.user.node_name().is_some()
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        judge(attributes, object.map(|object| &*object), view)
    }
}

fn judge<'a>(attributes: &'a Attributes<'a>, object: Option<&'a Value>, view: &'a View) -> Ruling<'a> {
    let node = attributes.user.node_name().unwrap_or_default();
    if node.is_empty() {
        let reason = format!("could not determine node from user {}", quoted(&attributes.user.name));
        return rule(Err(Refusal::Forbidden(reason)));
    }
    let write = Write { node, attributes, object, view };
    if attributes.action == Action::Token {
        return Either::Right(token::check(write).boxed());
    }
    rule(check(write))
}

fn check(write: Write<'_>) -> Result<(), Refusal> {
    match (&*write.attributes.resource.storage, write.attributes.action) {
        ("pods", Action::Object) => pod::check(write),
        ("pods", Action::Status) => pod::check_status(write),
        (_, Action::Eviction) => pod::check_eviction(write),
        ("pods", other) | (_, other @ Action::Binding) => Err(forbidden(format!(
            "unexpected pod subresource {:?}, only 'status' and 'eviction' are allowed",
            other.subresource()
        ))),
        ("nodes", _) => node::check(write),
        ("persistentvolumeclaims", Action::Status) => claim::check_status(write),
        ("persistentvolumeclaims", _) => Err(forbidden("may only update PVC status".to_owned())),
        (REQUESTS, Action::Object) => certificate::check(write),
        ("leases.coordination", _) => check_lease(write),
        ("csinodes.storage", _) => {
            write.check_own_name("can only access CSINode with the same name as the requesting node")
        }
        ("resourceslices.resource", _) => check_slice(write),
        _ => Ok(()),
    }
}

fn check_lease(write: Write<'_>) -> Result<(), Refusal> {
    let own = write.attributes.brand.node_lease_namespace;
    if write.attributes.namespace != own {
        return Err(forbidden(format!("can only access leases in the {own:?} system namespace")));
    }
    write.check_own_name("can only access node lease with the same name as the requesting node")
}

/// The authorizer knows the node of a stored slice, but not that of a new one, nor of those of a collection.
fn check_slice(write: Write<'_>) -> Result<(), Refusal> {
    let (verb, slice) = match write.attributes.operation {
        Operation::Create => ("create", write.object),
        Operation::Delete => ("delete", write.attributes.old),
        Operation::Update | Operation::Connect => return Ok(()),
    };
    let is_own = slice.is_some_and(|slice| slice.at("spec").text("nodeName") == write.node);
    refuse_unless(is_own, || {
        format!("can only {verb} ResourceSlice with the same NodeName as the requesting node")
    })
}

fn forbidden(reason: String) -> Refusal {
    Refusal::Forbidden(reason)
}

fn refuse_unless(is_allowed: bool, reason: impl FnOnce() -> String) -> Result<(), Refusal> {
    if is_allowed { Ok(()) } else { Err(forbidden(reason())) }
}

impl<'a> Write<'a> {
    /// The object's name; empty where the server generates that of a new one.
    fn name(&self) -> &'a str {
        let given = self.attributes.name;
        match self.object {
            Some(new) if self.attributes.operation == Operation::Create => {
                let name = new.at("metadata").text("name");
                if name == given { name } else { "" }
            }
            _ => given,
        }
    }

    fn check_own_name(&self, reason: &str) -> Result<(), Refusal> {
        refuse_unless(self.name() == self.node, || reason.to_owned())
    }

    /// The stored object, or the error that it is not found. `kind` names it there, as the reference's caches do.
    fn find(&self, storage: &str, namespace: &str, name: &str, kind: &str) -> Result<Value, ApiError> {
        let key = Key::new(&storage.into(), namespace, name).ok();
        let object = key.and_then(|key| self.view.applied().state.object(&key).cloned());
        let value = object.and_then(|object| serde_json::from_slice(&object.json).ok());
        value.ok_or_else(|| {
            let (kind, stem) = kind.split_once('.').unwrap_or((kind, ""));
            let group = if stem.is_empty() { String::new() } else { self.attributes.brand.group(stem) };
            ApiError::NotFound(Subject { group, kind: kind.to_owned(), name: name.to_owned() })
        })
    }
}

#[cfg(test)]
mod tests;
