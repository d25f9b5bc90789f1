use std::time::Duration;

use orch_proto::brand::ORCH;

use super::*;
use crate::controllers::testing::Fixture;

/// The label that says who manages an object.
fn labelled(value: Value) -> Value {
    let mut labels = json!({});
    labels[ORCH.automanaged_label().as_str()] = value;
    labels
}

/// A server whose objects were made.
async fn started() -> Fixture {
    let fixture = Fixture::new();
    fixture.while_running(run(&fixture.client()), 1).await;
    fixture
}

#[tokio::test(start_paused = true)]
async fn every_built_in_group_is_registered_and_available() {
    let fixture = started().await;
    let core = fixture.read(API_SERVICES, "v1.");
    assert_eq!(core["metadata"]["labels"], labelled(json!("onstart")));
    assert_eq!(core["spec"], json!({"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}));
    assert_eq!(core["status"]["conditions"][0]["reason"], "Local");
    let scaling = fixture.read(API_SERVICES, "v2.autoscaling");
    assert_eq!(scaling["spec"]["versionPriority"], 30);
    assert!(!fixture.exists(API_SERVICES, "v1.apiregistration.orch.io"));
    let versions = fixture.client().registry().groups().map(|group| group.versions.len()).sum::<usize>();
    assert_eq!(fixture.state().collection(API_SERVICES).len(), versions - 1);
    let before = fixture.state().applied();
    fixture.while_running(run(&fixture.client()), 1).await;
    assert_eq!(fixture.state().applied(), before, "nothing is written without need");
}

#[tokio::test(start_paused = true)]
async fn a_leader_mends_built_in_ones_once_and_leaves_those_of_others_alone() {
    let fixture = started().await;
    fixture.merge(API_SERVICES, "v1.apps", json!({"spec": {"versionPriority": 7}})).await;
    let label = json!({"metadata": {"labels": labelled(json!(null))}, "spec": {"versionPriority": 8}});
    fixture.merge(API_SERVICES, "v1.batch", label).await;
    let service = json!({"spec": {"service": {"namespace": "ns", "name": "s"}}});
    fixture.merge(API_SERVICES, "v1.policy", service).await;
    let gone = json!({
        "metadata": {"name": "v1.gone", "labels": labelled(json!("onstart"))},
        "spec": {"group": "gone", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1},
    });
    fixture.create(API_SERVICES, "", gone).await;
    let deleted = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        fixture.delete(API_SERVICES, "v1.autoscaling", json!({})).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    };
    fixture.beside(run(&fixture.client()), deleted).await;
    let priority = |name: &str| fixture.read(API_SERVICES, name)["spec"]["versionPriority"].clone();
    assert_eq!((priority("v1.apps"), priority("v1.batch")), (json!(15), json!(8)));
    assert!(fixture.read(API_SERVICES, "v1.policy")["spec"]["service"].is_object());
    assert!(!fixture.exists(API_SERVICES, "v1.gone"));
    assert!(!fixture.exists(API_SERVICES, "v1.autoscaling"), "it stays away until the next leader");
    fixture.while_running(run(&fixture.client()), 1).await;
    assert!(fixture.exists(API_SERVICES, "v1.autoscaling"));
}
