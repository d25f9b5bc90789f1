//! Number of pods that there should be, by what controls them.
//!
//! Owns the sum of the replicas of the objects that control some pods, each object once. Replicas are found by the
//! sub-resource `scale` of a kind; a replica set of a deployment counts as the deployment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orch_raft::State;
use orch_rules::Action;
use orch_rules::kinds::scale::field_at;
use orch_rules::validate::tree::Tree;
use orch_schema::ScalePaths;
use orch_schema::value::Value;

use crate::registry::{Registry, Resource};

/// A controlling object that was found.
struct Controller {
    uid: String,
    replicas: i64,
}

/// Paths of the numbers of replicas of a kind that can be scaled.
pub(super) fn scale_paths(resource: &Resource) -> Option<&ScalePaths> {
    resource.subresource(Action::Scale.subresource())?.scale.as_ref()
}

/// The replicas of everything that controls `pods`, which are of one namespace. Pods that nothing controls are left out.
///
/// # Errors
/// The reason why they cannot be counted.
pub(super) fn controlling(
    registry: &Registry,
    state: &State,
    namespace: &str,
    pods: &[Value],
) -> Result<i64, String> {
    let lookup = Lookup { registry, state, namespace };
    let (mut seen, mut replicas) = (BTreeSet::new(), BTreeMap::new());
    for pod in pods {
        let Some(reference) = controller_of(pod) else { continue };
        if !seen.insert(reference.text("uid")) {
            continue;
        }
        let Some(found) = lookup.find(reference)? else {
            return Err(format!("found no controllers for pod {:?}", pod.at("metadata").text("name")));
        };
        replicas.insert(found.uid, found.replicas);
    }
    Ok(replicas.values().fold(0, |sum: i64, replicas| sum.saturating_add(*replicas)))
}

/// The owner reference of the object's controller.
fn controller_of(object: &Value) -> Option<&Value> {
    // few: the owners of one object.
    object.at("metadata").items("ownerReferences").iter().find(|owner| owner.flag("controller"))
}

struct Lookup<'a> {
    registry: &'a Registry,
    state: &'a State,
    namespace: &'a str,
}

impl Lookup<'_> {
    /// The controller that `reference` names. `None`: there is no such object.
    fn find(&self, reference: &Value) -> Result<Option<Controller>, String> {
        let Some(resource) = self.resource(reference) else { return Ok(None) };
        let Some(paths) = scale_paths(resource) else {
            let group =
                if resource.group.is_empty() { String::new() } else { format!(".{}", resource.group) };
            return Err(format!("{}{group} does not implement the scale subresource", resource.plural));
        };
        let Some(object) = self.object(resource, reference) else { return Ok(None) };
        let deployment = controller_of(&object).filter(|owner| owner.text("kind") == "Deployment");
        if let Some(found) = deployment.and_then(|owner| self.find(owner).ok().flatten()) {
            return Ok(Some(found));
        }
        let replicas = field_at(&object, &paths.spec_replicas).as_i64().unwrap_or(0);
        Ok(Some(Controller { uid: reference.text("uid").to_owned(), replicas }))
    }

    fn resource(&self, reference: &Value) -> Option<&Arc<Resource>> {
        let version = reference.text("apiVersion");
        let group = version.split_once('/').map_or("", |(group, _)| group);
        self.registry.find_stored_kind(group, reference.text("kind"))
    }

    fn object(&self, resource: &Resource, reference: &Value) -> Option<Value> {
        let path = format!("{}/{}", self.namespace, reference.text("name"));
        let collection = self.state.collection(&resource.storage);
        let found = collection.get(&path).filter(|found| found.index.uid == reference.text("uid"))?;
        serde_json::from_slice(&found.json).ok()
    }
}
