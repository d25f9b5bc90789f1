//! Bootstrap objects: default roles, in `roles`; flow schemas and priority levels, in `flow_control`; system namespaces and priority classes, created at the start and again after a removal.
//!
//! Owns the list of objects. They are created as a client would create them, so they get labels, finalizers and
//! defaults from the rules of their kind; an object that exists is left as it is.

mod flow_control;
mod roles;

use std::convert::Infallible;
use std::sync::Arc;

use orch_proto::Brand;
use orch_raft::{State, Store};
use orch_schema::json;
use orch_schema::value::Value;

pub(crate) use self::flow_control::are_there as has_flow_control;
pub(crate) use self::roles::are_there as has_roles;
use super::client::{Client, is_overtaken};
use super::turns::{Pace, any_changed};
use crate::error::ApiError;

const NAMESPACES: &str = "namespaces";
const PRIORITY_CLASSES: &str = "priorityclasses.scheduling";

/// Name, value and description of the priority classes that every cluster has.
const CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

/// An object that must exist.
#[derive(Debug)]
struct Wanted {
    storage: &'static str,
    name: &'static str,
    object: Value,
}

/// Keeps all bootstrap objects. `aggregator` completes the aggregated default roles; `None` where an operator has left
/// aggregation out. Completes only with an error.
pub(super) async fn run<S: Store>(
    client: &Client<S>,
    aggregator: Option<&Client<S>>,
) -> Result<Infallible, ApiError> {
    let objects = Box::pin(keep_objects(client, aggregator));
    let flow_control = Box::pin(flow_control::run(client));
    futures::future::select(objects, flow_control).await.factor_first().0
}

/// Creates absent objects, now and whenever one is removed. Completes only with an error.
async fn keep_objects<S: Store>(
    client: &Client<S>,
    aggregator: Option<&Client<S>>,
) -> Result<Infallible, ApiError> {
    let store = client.store();
    let mut changed = [NAMESPACES, PRIORITY_CLASSES].map(|storage| store.subscribe(&Arc::from(storage)));
    let wanted = wanted(client.registry().brand);
    let mut state = client.most_recent().await?;
    let mut are_roles_reconciled = false;
    let mut pace = Pace::new();
    loop {
        for object in wanted.iter().filter(|wanted| is_absent(&state, wanted)) {
            create(client, object).await?;
        }
        if !are_roles_reconciled {
            roles::reconcile(client, aggregator).await?;
            are_roles_reconciled = true;
        }
        any_changed(&mut changed).await;
        pace.turn(store).await;
        state = store.state();
    }
}

/// Whether the cluster has its namespaces.
pub(crate) fn has_namespaces(brand: &Brand, state: &State) -> bool {
    let namespaces = state.collection(NAMESPACES);
    system_namespaces(brand).iter().all(|name| namespaces.get(name).is_some())
}

/// Whether the cluster has its priority classes.
pub(crate) fn has_priority_classes(_: &Brand, state: &State) -> bool {
    let classes = state.collection(PRIORITY_CLASSES);
    CLASSES.iter().all(|(name, ..)| classes.get(name).is_some())
}

/// Names of the namespaces that every cluster has.
fn system_namespaces(brand: &Brand) -> [&'static str; 4] {
    ["default", brand.system_namespace, brand.public_namespace, brand.node_lease_namespace]
}

fn is_absent(state: &State, wanted: &Wanted) -> bool {
    state.collection(wanted.storage).get(wanted.name).is_none()
}

async fn create<S: Store>(client: &Client<S>, wanted: &Wanted) -> Result<(), ApiError> {
    let Some(resource) = client.stored_resource(wanted.storage) else { return Ok(()) };
    match client.create(&resource, "", &wanted.object).await {
        Err(error) if !is_overtaken(&error) => Err(error),
        _ => Ok(()),
    }
}

fn wanted(brand: &'static Brand) -> Vec<Wanted> {
    let namespace = |name| Wanted { storage: NAMESPACES, name, object: json!({"metadata": {"name": name}}) };
    let class = |(name, value, description)| Wanted {
        storage: PRIORITY_CLASSES,
        name,
        object: json!({"metadata": {"name": name}, "value": value, "description": description}),
    };
    system_namespaces(brand).into_iter().map(namespace).chain(CLASSES.into_iter().map(class)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::testing::Fixture;
    use crate::request::Verb;

    #[tokio::test(start_paused = true)]
    async fn a_cluster_has_its_namespaces_and_priority_classes() {
        let fixture = Fixture::new();
        fixture.while_running(run(&fixture.client(), None), 1).await;
        for name in ["default", "orch-system", "orch-public", "orch-node-lease"] {
            let namespace = fixture.read(NAMESPACES, name);
            assert_eq!(namespace["metadata"]["labels"], json!({"orch.io/metadata.name": name}));
            assert_eq!(namespace["status"]["phase"], "Active");
            assert_eq!(namespace["spec"]["finalizers"], json!(["orch"]));
        }
        let class = fixture.read(PRIORITY_CLASSES, "system-node-critical");
        assert_eq!((&class["value"], &class["metadata"]["generation"]), (&json!(2_000_001_000), &json!(1)));
        assert_eq!(class["preemptionPolicy"], "PreemptLowerPriority");
        assert_eq!(fixture.state().collection(PRIORITY_CLASSES).len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn objects_that_are_there_are_left_alone() {
        let fixture = Fixture::new();
        fixture.while_running(run(&fixture.client(), None), 1).await;
        let before = fixture.state().applied();
        fixture.while_running(run(&fixture.client(), None), 5).await;
        assert_eq!(fixture.state().applied(), before);
    }

    #[tokio::test(start_paused = true)]
    async fn objects_that_a_cluster_cannot_be_without_are_not_deleted() {
        let fixture = Fixture::new();
        fixture.while_running(run(&fixture.client(), None), 1).await;
        let cases = [
            (NAMESPACES, "default", "namespaces \"default\" is forbidden: this namespace may not be deleted"),
            (
                NAMESPACES,
                "orch-public",
                "namespaces \"orch-public\" is forbidden: this namespace may not be deleted",
            ),
            (
                PRIORITY_CLASSES,
                "system-node-critical",
                "priorityclasses.scheduling.orch.io \"system-node-critical\" is forbidden: this is a system priority class and cannot be deleted",
            ),
        ];
        for (storage, name, expected) in cases {
            let sent = fixture.send(Verb::Delete, storage, name, "", &json!({})).await;
            assert_eq!(sent.err().map(|error| error.to_string()).as_deref(), Some(expected));
        }
        fixture.delete(NAMESPACES, "orch-node-lease", json!({})).await;
    }

    #[tokio::test(start_paused = true)]
    async fn removed_objects_come_back() {
        let fixture = Fixture::new();
        fixture.while_running(run(&fixture.client(), None), 1).await;
        fixture.remove_by_force(NAMESPACES, "orch-node-lease").await;
        fixture.while_running(run(&fixture.client(), None), 5).await;
        assert!(fixture.exists(NAMESPACES, "orch-node-lease"));
    }
}
