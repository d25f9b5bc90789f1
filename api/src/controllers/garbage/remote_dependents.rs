//! Dependents that aggregated servers keep.
//!
//! Owns looking for them once a minute, by lists of metadata, and asking their servers to delete those none of whose owners exists any
//! more. Resources count that discovery tells can be listed and deleted. The rules are those of [`super::decide`], but that
//! nothing waits for such a dependent: an owner that is deleted in the foreground goes first, and a dependent that still has an owner keeps
//! its references to others.
//!
//! Invariant: an owner is looked for in a state that is newer than the dependent, or asked for after it: an owner that is absent then is
//! gone for good.
//! Invariant: one server has at most 45 s, 100 pages a resource and 500 deletions in each look; up to 15 that hang delay no other. A
//! server is asked to delete only what it has listed itself, under its own group and version.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use http::Method;
use orch_raft::{State, Store};
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::graph::ObjectRef;
use super::ownership::{FOREGROUND, ORPHAN};
use super::remote_owners::{Answer, Asking, Question};
use crate::aggregation::Remote;
use crate::aggregation::described::Description;
use crate::controllers::api_services::asking::{ask, ask_with};
use crate::controllers::client::{Client, for_each};
use crate::error::ApiError;
use crate::registry::Registry;

/// Time between two looks. The reference hears of dependents by watches.
pub(super) const EVERY: Duration = Duration::from_secs(60);

/// Longest time for one server in a look: shorter than [`EVERY`], so that up to 16 servers that hang do not delay the next look.
const SERVER_TIME_MAX: Duration = Duration::from_secs(45);

/// Servers that are looked at at the same time.
const SERVERS_AT_ONCE: usize = 16;

/// Objects of one page: their metadata stays below the bytes of an answer that are read.
const PAGE_OBJECTS: usize = 500;

/// Pages of one resource in a look: 50,000 objects.
const PAGES_MAX: usize = 100;

/// Deletions at one server in a look. The rest follows in the next ones.
const DELETIONS_MAX: usize = 500;

/// Owners of one dependent. One that names more stays: each may be a question to another server.
const OWNERS_MAX: usize = 16;

/// Bytes of the token of the next page, which is sent back in a path.
const CONTINUE_BYTES_MAX: usize = 4096;

const JSON: &str = "application/json";

/// What the look at one dependent needs.
struct View<'a, S> {
    client: &'a Client<S>,
    asking: &'a Asking,
    registry: &'a Registry,
    /// By group and version, as `apiVersion` has them. Clients choose the names: keyed hashes.
    servers: &'a HashMap<String, Arc<Remote>>,
}

/// An object of an aggregated server that has owners and is not being deleted.
struct Dependent {
    namespace: String,
    name: String,
    uid: String,
    revision: String,
    owners: Vec<Value>,
    propagation: &'static str,
}

/// Collects dependents at aggregated servers. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let asking = Asking::new();
    loop {
        client.store().sleep(EVERY).await;
        let applied = client.newest().await?;
        client.follow_definitions().await;
        let registry = client.registry();
        let mut remotes = client.aggregation().all(&applied).await;
        // once: each is looked up by hash.
        remotes.retain(|remote| !registry.is_built_in(&remote.group, &remote.version));
        let servers: HashMap<String, Arc<Remote>> =
            remotes.iter().map(|of| (format!("{}/{}", of.group, of.version), of.clone())).collect();
        let view = View { client, asking: &asking, registry: &registry, servers: &servers };
        let looks = for_each(remotes, SERVERS_AT_ONCE, |remote| view.look_in_time(remote)).await;
        looks.into_iter().collect::<Result<(), ApiError>>()?;
    }
}

impl<S: Store> View<'_, S> {
    async fn look_in_time(&self, remote: Arc<Remote>) -> Result<(), ApiError> {
        if !remote.is_available {
            return Ok(());
        }
        let late = self.client.store().sleep(SERVER_TIME_MAX);
        match select(Box::pin(self.look(&remote)), Box::pin(late)).await {
            Either::Left((looked, _)) => looked,
            Either::Right(_) => {
                tracing::debug!(server = %remote.name, "the look for dependents at an aggregated server took too long");
                Ok(())
            }
        }
    }

    /// Collects what the server of `remote` keeps.
    ///
    /// # Errors
    /// The state of this server cannot be read.
    async fn look(&self, remote: &Remote) -> Result<(), ApiError> {
        let Some(Description::Current(resources)) =
            self.client.aggregation().descriptions().find(&remote.name)
        else {
            return Ok(());
        };
        let mut deletions_left = DELETIONS_MAX;
        for resource in resources.iter().filter(|resource| is_collected(resource)) {
            let mut next = String::new();
            for _ in 0..PAGES_MAX {
                let Some(list) = self.page(remote, resource, &next).await else { break };
                let dependents = list.items("items").iter().filter_map(Dependent::of).collect();
                self.collect((remote, resource), dependents, &mut deletions_left).await?;
                next = list.at("metadata").text("continue").to_owned();
                if next.is_empty() || next.len() > CONTINUE_BYTES_MAX || deletions_left == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The metadata of a page of `resource`; `None`: the server does not give it.
    async fn page(&self, remote: &Remote, resource: &Value, next: &str) -> Option<Value> {
        let meta = self.registry.brand.group("meta");
        let accept = format!("{JSON};as=PartialObjectMetadataList;g={meta};v=v1,{JSON}");
        let mut path =
            format!("{}/{}?limit={PAGE_OBJECTS}", remote.path(), encoded(resource.text("resource")));
        if !next.is_empty() {
            path.push_str(&format!("&continue={}", encoded(next)));
        }
        let answer = ask(self.client, remote, (Method::GET, &path), &accept).await?;
        answer.document.filter(|_| answer.code == 200)
    }

    /// Deletes those of `dependents`, which are objects of `resource`, that are garbage.
    async fn collect(
        &self,
        (remote, resource): (&Remote, &Value),
        dependents: Vec<Dependent>,
        deletions_left: &mut usize,
    ) -> Result<(), ApiError> {
        if dependents.is_empty() {
            return Ok(());
        }
        let applied = self.client.newest().await?;
        for dependent in dependents {
            if *deletions_left == 0 {
                return Ok(());
            }
            if self.is_garbage(&dependent, &applied.state).await {
                *deletions_left -= 1;
                self.delete(remote, resource, &dependent).await;
            }
        }
        Ok(())
    }

    /// Whether no owner of `dependent` exists, in `state` or at another server.
    async fn is_garbage(&self, dependent: &Dependent, state: &State) -> bool {
        for reference in &dependent.owners {
            if !self.is_absent(dependent, reference, state).await {
                return false;
            }
        }
        true
    }

    /// Whether the owner that `reference` names is known to be gone.
    async fn is_absent(&self, dependent: &Dependent, reference: &Value, state: &State) -> bool {
        let uid = reference.text("uid");
        if let Some(server) = self.servers.get(reference.text("apiVersion")) {
            let question = Question::of(server, reference, &dependent.namespace);
            return match self.asking.ask(self.client, server, &question).await {
                Answer::Missing => true,
                Answer::Found { uid: found, .. } => found != uid,
                Answer::Unknown => false,
            };
        }
        let named = self.registry.find_named(reference.text("apiVersion"), reference.text("kind"));
        let Some(resource) = named else { return false };
        let name = reference.text("name");
        let path = match (resource.namespaced, &*dependent.namespace) {
            (true, "") => return false,
            (true, namespace) => format!("{namespace}/{name}"),
            (false, _) => name.to_owned(),
        };
        let owner = ObjectRef { storage: resource.storage.clone(), path: path.into() };
        owner.find(state).is_none_or(|found| found.index.uid != uid)
    }

    /// Asks the server to delete `dependent`, if it is the one that was listed. A failure is looked at again by the next look.
    async fn delete(&self, remote: &Remote, resource: &Value, dependent: &Dependent) {
        let (plural, name) = (encoded(resource.text("resource")), encoded(&dependent.name));
        let path = match &*dependent.namespace {
            "" => format!("{}/{plural}/{name}", remote.path()),
            namespace => format!("{}/namespaces/{}/{plural}/{name}", remote.path(), encoded(namespace)),
        };
        let mut preconditions = json!({"uid": dependent.uid.as_str()});
        if !dependent.revision.is_empty() {
            preconditions["resourceVersion"] = json!(dependent.revision.as_str());
        }
        let options = json!({
            "kind": "DeleteOptions", "apiVersion": "v1",
            "preconditions": preconditions, "propagationPolicy": dependent.propagation,
        });
        let answer = ask_with(self.client, remote, (Method::DELETE, &path), &options).await;
        let code = answer.map(|answer| answer.code);
        if !code.is_some_and(|code| matches!(code, 200..300 | 404 | 409)) {
            tracing::debug!(server = %remote.name, path, ?code, "an aggregated server does not delete a dependent");
        }
    }
}

impl Dependent {
    /// The item of a list, if it has owners and its deletion has not begun.
    fn of(item: &Value) -> Option<Dependent> {
        let metadata = item.at("metadata");
        let (name, namespace) = (metadata.text("name"), metadata.text("namespace"));
        let owners = metadata.items("ownerReferences");
        let is_named = |text: &str| !text.contains('/') && !matches!(text, "." | "..");
        let is_one =
            !name.is_empty() && is_named(name) && is_named(namespace) && !metadata.text("uid").is_empty();
        let is_due = metadata.is_empty_at("deletionTimestamp") && (1..=OWNERS_MAX).contains(&owners.len());
        if !is_one || !is_due {
            return None;
        }
        let finalizers = metadata.texts("finalizers");
        // few: the finalizers of one object, of a document of bounded size.
        let is_held = |finalizer: &str| finalizers.contains(&finalizer);
        Some(Dependent {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: metadata.text("uid").to_owned(),
            revision: metadata.text("resourceVersion").to_owned(),
            owners: owners.to_vec(),
            propagation: if is_held(ORPHAN) {
                "Orphan"
            } else if is_held(FOREGROUND) {
                "Foreground"
            } else {
                "Background"
            },
        })
    }
}

/// Whether objects of a resource, an item of aggregated discovery, can be listed and deleted.
fn is_collected(resource: &Value) -> bool {
    let verbs = resource.texts("verbs");
    // few: the verbs of one resource, of a document of bounded size.
    verbs.contains(&"list") && verbs.contains(&"delete")
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
