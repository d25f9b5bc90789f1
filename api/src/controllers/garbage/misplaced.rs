//! Owner references into another namespace: found, and reported in an event about the dependent.
//!
//! An owner must be in the dependent's own namespace, or cluster-scoped. A client that names an owner elsewhere loses
//! the dependent, or has one that is never collected, and sees nothing wrong with either object; hence the event. The
//! event's name is derived from the uids of dependent and owner, so that a retry or a new leader writes no second
//! event.

use std::sync::Arc;

use orch_bounded::WarningLimit;
use orch_raft::Store;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;
use sha2::{Digest, Sha256};

use super::decide::View;
use super::graph::ObjectRef;
use crate::controllers::client::{Client, Moment, is_overtaken};
use crate::registry::Resource;

/// Limits warnings of references that could not be reported: clients write them.
static UNREPORTED: WarningLimit<Moment> = WarningLimit::new();

/// Namespaces searched for the owner: bounds the cost of a decision on one object.
const NAMESPACES_MAX: usize = 1024;

/// References of one object that are searched for; further ones mostly have the same cause.
const REFERENCES_MAX: usize = 4;

/// Source component of the events, as in the reference.
const REPORTER: &str = "garbage-collector-controller";

/// A dependent, and its reference to an owner in another namespace.
#[derive(Debug)]
pub(super) struct CrossNamespaceOwner {
    dependent: ObjectRef,
    uid: String,
    reference: Value,
}

impl View<'_> {
    /// The first of `references`, all without an owner in the right namespace, whose owner is in another namespace.
    pub(super) fn misplaced<'r>(
        &self,
        dependent: &ObjectRef,
        uid: &str,
        references: impl Iterator<Item = &'r Value>,
    ) -> Option<CrossNamespaceOwner> {
        let mut looked_into = references.take(REFERENCES_MAX);
        // few: bounded by the constant.
        let found = looked_into.find(|reference| self.is_elsewhere(dependent, reference))?;
        Some(CrossNamespaceOwner {
            dependent: dependent.clone(),
            uid: uid.to_owned(),
            reference: found.clone(),
        })
    }

    fn is_elsewhere(&self, dependent: &ObjectRef, reference: &Value) -> bool {
        let (uid, name) = (reference.text("uid"), reference.text("name"));
        if self.owners.server(reference).is_some() {
            return false;
        }
        let Some(resource) = self.resource(reference).filter(|resource| resource.namespaced) else {
            return false;
        };
        let owners = self.state.collection(&resource.storage);
        let namespaces = self.state.collection("namespaces");
        namespaces
            .range_from("")
            .take(NAMESPACES_MAX)
            .filter(|(namespace, _)| &***namespace != dependent.namespace())
            // few: bounded by the constant.
            .any(|(namespace, _)| {
                owners.get(&format!("{namespace}/{name}")).is_some_and(|owner| owner.index.uid == uid)
            })
    }
}

/// Writes an event. Failures are logged: the namespace may be terminating.
pub(super) async fn report<S: Store>(client: &Client<S>, misplaced: &CrossNamespaceOwner) {
    let Some(events) = client.stored_resource("events") else { return };
    let Some(resource) = client.stored_resource(&misplaced.dependent.storage) else { return };
    let (namespace, event) = event(misplaced, &resource, &client.now_text());
    if let Err(error) = client.create(&events, namespace, &event).await
        && !is_overtaken(&error)
        && let Some(left_out) = UNREPORTED.pass_at(client.moment())
    {
        tracing::warn!(%error, left_out, "an owner reference into another namespace could not be reported");
    }
}

/// The event and its namespace.
fn event<'a>(misplaced: &'a CrossNamespaceOwner, resource: &Arc<Resource>, now: &str) -> (&'a str, Value) {
    let CrossNamespaceOwner { dependent, uid, reference } = misplaced;
    let namespace = dependent.namespace();
    let name = dependent.path.rsplit('/').next().unwrap_or_default();
    let owner_uid = reference.text("uid");
    let digest = Sha256::digest(format!("{uid}/{owner_uid}"));
    let suffix: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let (version, kind, owner) =
        (reference.text("apiVersion"), reference.text("kind"), reference.text("name"));
    let message = format!(
        "ownerRef [{version}/{kind}, namespace: {namespace}, name: {owner}, uid: {owner_uid}] \
         does not exist in namespace \"{namespace}\""
    );
    let mut event = json!({
        "metadata": {"name": format!("{name}.{suffix}")},
        "involvedObject": {
            "kind": resource.kind, "name": name, "uid": uid, "apiVersion": resource.api_version(),
        },
        "reason": "OwnerRefInvalidNamespace", "message": message, "type": "Warning",
        "source": {"component": REPORTER}, "reportingComponent": REPORTER,
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    });
    if namespace.is_empty() {
        return ("default", event);
    }
    event["involvedObject"]["namespace"] = json!(namespace);
    (namespace, event)
}
