//! The content of a namespace that aggregated servers keep.
//!
//! Owns asking them to delete it, and what is left. A server that is away, or says nothing of its resources, is an obstacle that the
//! namespace's conditions name; the content that this server keeps is deleted meanwhile.

use std::sync::Arc;

use http::Method;
use orch_raft::Store;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

use super::conditions::Findings;
use crate::aggregation::Remote;
use crate::aggregation::described::Description;
use crate::controllers::api_services::asking::{Answer, ask};
use crate::controllers::client::{Client, for_each};

/// Servers that are asked at the same time for one namespace.
const AT_ONCE: usize = 8;

/// Deletes the content of `namespace` at aggregated servers, and adds what is left, and who could not be asked, to `findings`.
/// Whether there is any of that: no change shows when it is gone.
pub(super) async fn empty<S: Store>(client: &Client<S>, namespace: &str, findings: &mut Findings) -> bool {
    let applied = client.applied();
    let registry = client.registry();
    let mut remotes = client.aggregation().all(&applied).await;
    // once: each is looked up by hash.
    remotes.retain(|remote| !registry.is_built_in(&remote.group, &remote.version));
    let found = for_each(remotes, AT_ONCE, |remote| empty_one(client, remote, namespace)).await;
    let is_empty = found.iter().all(Findings::is_clear);
    for of_one in found {
        findings.unserved.extend(of_one.unserved);
        findings.failures.extend(of_one.failures);
        findings.remaining.extend(of_one.remaining);
    }
    findings.unserved.sort();
    !is_empty
}

async fn empty_one<S: Store>(client: &Client<S>, remote: Arc<Remote>, namespace: &str) -> Findings {
    let mut findings = Findings::default();
    let Some(Description::Current(resources)) = client.aggregation().descriptions().find(&remote.name) else {
        findings.unserved.push(stale(&remote));
        return findings;
    };
    for resource in resources.iter().filter(|resource| is_deletable(resource)) {
        let name = resource.text("resource");
        let path = remote.collection(namespace, name);
        let json = "application/json";
        let deleted = ask(client, &remote, (Method::DELETE, &path), json).await;
        let left = ask(client, &remote, (Method::GET, &path), json).await;
        match (deleted, left) {
            (Some(deleted), Some(Answer { code: 200, document: Some(list), .. })) => {
                let count = list.items("items").len();
                if count > 0 {
                    findings.remaining.insert(format!("{name}.{}", remote.group), count);
                }
                if count > 0 && !deleted.is_success() {
                    findings.failures.push(failure(&remote, name, deleted.code));
                }
            }
            (_, Some(Answer { code, .. })) => findings.failures.push(failure(&remote, name, code)),
            (_, None) => {
                findings.unserved.push(stale(&remote));
                return findings;
            }
        }
    }
    findings
}

/// Whether objects of a resource, an item of aggregated discovery, are in namespaces and can be deleted and listed there.
fn is_deletable(resource: &Value) -> bool {
    let verbs = resource.texts("verbs");
    // few: the verbs of one resource, of a document of bounded size.
    let has = |verb: &str| verbs.contains(&verb);
    resource.text("scope") == "Namespaced" && has("deletecollection") && has("list")
}

/// The words of the reference's client for a group and version whose server does not answer.
fn stale(remote: &Remote) -> String {
    let version = format!("{}/{}", remote.group, remote.version);
    format!(
        "unable to retrieve the complete list of server APIs: {version}: stale GroupVersion discovery: {version}"
    )
}

fn failure(remote: &Remote, resource: &str, code: u16) -> String {
    format!("the server of {} answered {code} for {resource}", remote.path())
}
