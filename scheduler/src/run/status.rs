//! Writes of the status of a pod without a node.
//!
//! Owns their conditions. A request may arrive long after its sender has given it up: behind the binding of the
//! pod, by this process, the next leader or another scheduler. So each patch names the pod's UID and the version that it was
//! made from; where another write was first, the pod is read, and the patch sent again only while the pod has no node.

use serde_json::{Value, json};

use crate::api::core::v1::Pod;
use crate::client::{Client, Created, Error, PatchType, Reason};
#[cfg(test)]
use crate::simulation::plant::{self, Plant};

use super::binding::PodRef;

/// Attempts against other writers of the same pod. A pod without a node has few other writers.
const ATTEMPTS_MAX: u32 = 5;

/// Patches the status of `pod`. `None`: the pod is gone, another pod has its name, or it has a node; no patch is due.
///
/// # Errors
/// Those of [`Client::patch`], and the last conflict where others write the pod all the time.
pub(super) async fn patch_unbound(
    client: &Client,
    pod: &PodRef,
    mut patch: Value,
) -> Result<Option<Created<Pod>>, Error> {
    let (namespace, name) = (&*pod.namespace, &*pod.name);
    let mut version = pod.version.to_string();
    let mut attempt = 1;
    loop {
        patch["metadata"] = condition(&pod.uid, &version);
        let patched = client.patch::<Pod>(namespace, name, "status", PatchType::Strategic, &patch).await;
        match patched {
            Ok(patched) => return Ok(Some(patched)),
            Err(error) if error.is(Reason::NotFound) => return Ok(None),
            Err(error) if !error.is(Reason::Conflict) || attempt == ATTEMPTS_MAX => return Err(error),
            Err(_) => attempt += 1,
        }
        match client.get::<Pod>(namespace, name).await {
            Ok(found) => match version_without_node(found, &pod.uid) {
                Some(found) => version = found,
                None => return Ok(None),
            },
            Err(error) if error.is(Reason::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// The members of a patch that are its conditions. An unknown version is left out.
fn condition(uid: &str, version: &str) -> Value {
    #[cfg(test)]
    if plant::is(Plant::PatchesLate) || plant::is(Plant::PatchesBesideBinding) {
        return json!({ "uid": uid });
    }
    match version {
        "" => json!({ "uid": uid }),
        version => json!({ "uid": uid, "resourceVersion": version }),
    }
}

/// The version of the pod; `None` if it has a node or another UID.
fn version_without_node(found: Pod, uid: &str) -> Option<String> {
    let metadata = found.metadata.filter(|metadata| metadata.uid == uid)?;
    let has_node = found.spec.is_some_and(|spec| !spec.node_name.is_empty());
    (!has_node).then_some(metadata.resource_version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing::{FakeApi, pod};

    fn told() -> Value {
        json!({ "status": { "conditions": [{ "type": "PodScheduled", "status": "False" }] } })
    }

    fn reference(stored: &Value) -> PodRef {
        let text = |name: &str| stored["metadata"][name].as_str().unwrap().into();
        PodRef {
            namespace: "default".into(),
            name: "p".into(),
            uid: text("uid"),
            version: text("resourceVersion"),
        }
    }

    fn conditions(api: &FakeApi) -> Value {
        api.store().get("pods", "default", "p").unwrap()["status"]["conditions"].clone()
    }

    #[tokio::test]
    async fn a_pod_that_others_wrote_is_patched_all_the_same() {
        let api = FakeApi::start().await;
        let before = reference(&api.store().put("pods", pod("p")));
        api.store().put("pods", pod("p"));
        assert!(patch_unbound(&api.client(), &before, told()).await.unwrap().is_some());
        assert_eq!(conditions(&api)[0]["status"], "False");
        assert_eq!((api.count("PATCH"), api.count("GET")), (2, 1));
    }

    #[tokio::test]
    async fn a_patch_that_comes_behind_the_binding_changes_nothing() {
        let api = FakeApi::start().await;
        let before = reference(&api.store().put("pods", pod("p")));
        let mut bound = pod("p");
        bound["spec"]["nodeName"] = "n".into();
        bound["status"] = json!({ "conditions": [{ "type": "PodScheduled", "status": "True" }] });
        api.store().put("pods", bound);
        assert!(patch_unbound(&api.client(), &before, told()).await.unwrap().is_none());
        assert_eq!(conditions(&api)[0]["status"], "True");
    }

    #[tokio::test]
    async fn a_pod_that_is_gone_or_came_later_is_left_alone() {
        let api = FakeApi::start().await;
        let before = reference(&api.store().put("pods", pod("p")));
        api.store().remove("pods", "default", "p");
        assert!(patch_unbound(&api.client(), &before, told()).await.unwrap().is_none());
        api.store().put("pods", pod("p"));
        assert!(patch_unbound(&api.client(), &before, told()).await.unwrap().is_none());
        assert!(conditions(&api).is_null(), "{:?}", conditions(&api));
    }
}
