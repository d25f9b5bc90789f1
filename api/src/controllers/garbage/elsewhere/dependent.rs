//! An object of an aggregated server that has owners, and the requests that change it.
//!
//! Owns reading it from a page of metadata. Each request has its uid and version as preconditions.

use http::Method;
use orch_raft::Store;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::super::ownership::{FOREGROUND, ORPHAN};
use crate::aggregation::Remote;
use crate::controllers::api_services::asking::ask_with;
use crate::controllers::client::{Client, Propagation};

/// An object of an aggregated server that has owners.
#[derive(Debug)]
pub(super) struct Dependent {
    /// Empty for cluster scope.
    pub(super) namespace: String,
    pub(super) name: String,
    uid: String,
    /// Empty: its server has no versions.
    version: String,
    pub(super) owners: Vec<Value>,
    pub(super) is_terminating: bool,
    /// The treatment of its own dependents, by its finalizers.
    pub(super) propagation: Propagation,
}

impl Dependent {
    /// The item of a list, if it has owners.
    pub(super) fn of(item: &Value) -> Option<Dependent> {
        let metadata = item.at("metadata");
        let owners = metadata.items("ownerReferences");
        if owners.is_empty() || metadata.text("name").is_empty() || metadata.text("uid").is_empty() {
            return None;
        }
        let finalizers = metadata.texts("finalizers");
        // few: the finalizers of one object, of a document of bounded size.
        let is_held = |finalizer: &str| finalizers.contains(&finalizer);
        Some(Dependent {
            namespace: metadata.text("namespace").to_owned(),
            name: metadata.text("name").to_owned(),
            uid: metadata.text("uid").to_owned(),
            version: metadata.text("resourceVersion").to_owned(),
            owners: owners.to_vec(),
            is_terminating: !metadata.is_empty_at("deletionTimestamp"),
            propagation: match (is_held(ORPHAN), is_held(FOREGROUND)) {
                (true, _) => Propagation::Orphan,
                (false, true) => Propagation::Foreground,
                (false, false) => Propagation::Background,
            },
        })
    }

    /// Has the server of `remote` delete the object, one of `resource`.
    pub(super) async fn delete<S: Store>(&self, client: &Client<S>, remote: &Remote, resource: &str) {
        let options = json!({
            "kind": "DeleteOptions", "apiVersion": "v1",
            "preconditions": self.preconditions(), "propagationPolicy": self.propagation.as_str(),
        });
        self.send(client, remote, (Method::DELETE, resource), ("application/json", &options)).await;
    }

    /// Has the server of `remote` replace the owner references of the object, one of `resource`, by `left`. Whether it has.
    pub(super) async fn set_owners<S: Store>(
        &self,
        client: &Client<S>,
        (remote, resource): (&Remote, &str),
        left: Vec<Value>,
    ) -> bool {
        let mut metadata = self.preconditions();
        metadata["ownerReferences"] = if left.is_empty() { Value::Null } else { json!(left) };
        let patch = json!({"metadata": metadata});
        let patch = ("application/merge-patch+json", &patch);
        self.send(client, remote, (Method::PATCH, resource), patch).await
    }

    fn preconditions(&self) -> Value {
        let mut preconditions = json!({"uid": self.uid.as_str()});
        if !self.version.is_empty() {
            preconditions["resourceVersion"] = json!(self.version.as_str());
        }
        preconditions
    }

    /// Whether the server has done what it was asked, or has the object no more. A failure is looked at again by the next look.
    async fn send<S: Store>(
        &self,
        client: &Client<S>,
        remote: &Remote,
        (method, resource): (Method, &str),
        document: (&str, &Value),
    ) -> bool {
        let path = remote.object(&self.namespace, resource, &self.name);
        let answer = ask_with(client, remote, (method, &path), document).await;
        let code = answer.map(|answer| answer.code);
        let is_done = code.is_some_and(|code| matches!(code, 200..300 | 404));
        if !is_done {
            tracing::debug!(server = %remote.name, path, ?code, "an aggregated server does not change a dependent");
        }
        is_done
    }
}
