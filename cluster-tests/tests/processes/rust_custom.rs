//! kube, the ecosystem's Rust client, with a kind that it derives from a type: its definition, its objects, and a controller
//! that acts on them.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::Controller;
use kube::runtime::controller::Action;
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::Config;
use kube::{Api, CustomResource, CustomResourceExt, ResourceExt};
use orch_cluster_tests::cluster::{Cluster, Options};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::rust_client::Transport;

/// Timeout of everything here, which takes a second or two.
const PATIENCE: Duration = Duration::from_secs(40);

/// The kind, as its author declares it.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "rust.example.com",
    version = "v1",
    kind = "Robot",
    namespaced,
    status = "RobotStatus",
    shortname = "rb",
    selectable = ".spec.colour",
    printcolumn = r#"{"name":"Arms","type":"integer","jsonPath":".spec.arms"}"#
)]
struct RobotSpec {
    arms: u32,
    #[serde(default = "grey")]
    colour: String,
}

fn grey() -> String {
    "grey".to_owned()
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct RobotStatus {
    arms: u32,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rust_client_declares_a_kind_and_controls_its_objects() {
    let cluster = Cluster::start(Options { brand: "kubernetes", ..Options::nodes(1) }).await.unwrap();
    let client = kube::Client::new(Transport(cluster.client(0).unwrap()), "default");
    tokio::time::timeout(PATIENCE, use_robots(client)).await.expect("it takes a second or two");
}

async fn use_robots(client: kube::Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let applied = PatchParams::apply("tests").force();
    let name = Robot::crd_name();
    definitions.patch(name, &applied, &Patch::Apply(Robot::crd())).await.unwrap();
    await_condition(definitions.clone(), name, conditions::is_crd_established()).await.unwrap();

    let robots: Api<Robot> = Api::namespaced(client, "default");
    let controlled = tokio::spawn(control(robots.clone()));
    let made = robots.create(&PostParams::default(), &robot("a", 2)).await.unwrap();
    assert_eq!((made.spec.colour.as_str(), made.metadata.generation), ("grey", Some(1)));
    let is_done = |robot: Option<&Robot>| {
        robot.is_some_and(|robot| robot.status.as_ref().is_some_and(|status| status.arms == robot.spec.arms))
    };
    await_condition(robots.clone(), "a", is_done).await.unwrap();
    let change = json!({"spec": {"arms": 4, "colour": "red"}});
    robots.patch("a", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    await_condition(robots.clone(), "a", move |robot: Option<&Robot>| {
        is_done(robot) && robot.is_some_and(|robot| robot.spec.arms == 4)
    })
    .await
    .unwrap();
    controlled.abort();

    let red = ListParams::default().fields("spec.colour=red");
    assert_eq!(robots.list(&red).await.unwrap().items.len(), 1);
    assert!(robots.list(&ListParams::default().fields("spec.colour=grey")).await.unwrap().items.is_empty());
    let bad = robots.patch("a", &PatchParams::default(), &Patch::Merge(&json!({"spec": {"arms": -1}}))).await;
    assert!(matches!(bad, Err(kube::Error::Api(status)) if status.code == 422 && status.reason == "Invalid"));
    robots.delete("a", &DeleteParams::default()).await.unwrap();
    definitions.delete(name, &DeleteParams::default()).await.unwrap();
    let gone = |found: Option<&CustomResourceDefinition>| found.is_none();
    await_condition(definitions, name, gone).await.unwrap();
}

fn robot(name: &str, arms: u32) -> Robot {
    let mut robot = Robot::new(name, RobotSpec { arms, colour: grey() });
    robot.metadata.labels = Some([("made".to_owned(), "here".to_owned())].into());
    robot
}

/// A controller that writes into the status what the spec wants.
async fn control(robots: Api<Robot>) {
    let reconcile = |robot: Arc<Robot>, robots: Arc<Api<Robot>>| async move {
        let status = json!({"status": {"arms": robot.spec.arms}});
        robots.patch_status(&robot.name_any(), &PatchParams::default(), &Patch::Merge(&status)).await?;
        Ok::<_, kube::Error>(Action::await_change())
    };
    let again = |_: Arc<Robot>, _: &kube::Error, _| Action::requeue(Duration::from_millis(100));
    let controller = Controller::new(robots.clone(), Config::default());
    controller.run(reconcile, again, Arc::new(robots)).for_each(|_| async {}).await;
}
