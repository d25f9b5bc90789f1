//! Volumes before a binding.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::volumes::{ClaimState, claim_state};
use super::super::{BindOutcome, Why};
use super::{annotation, bench};
use crate::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus};
use crate::api::meta::v1::{ObjectMeta, Time};
use crate::client::testing::{FakeApi, eventually};
use crate::plan::decision::{BindVolume, ClaimName, VolumeWrites};

fn claim_name(name: &str) -> ClaimName {
    ClaimName { namespace: "default".to_owned(), name: name.to_owned() }
}

fn put_claim(api: &FakeApi, name: &str) {
    api.store()
        .put("persistentvolumeclaims", json!({ "metadata": { "name": name, "namespace": "default" } }));
}

/// Plays the controller: binds the claim.
fn bind_claim(api: &FakeApi, name: &str) {
    let mut claim = api.store().get("persistentvolumeclaims", "default", name).unwrap();
    claim["spec"]["volumeName"] = "v".into();
    claim["metadata"]["annotations"][annotation("pv", "bind-completed")] = "yes".into();
    api.store().put("persistentvolumeclaims", claim);
}

fn volume(api: &FakeApi) -> Value {
    api.store().get("persistentvolumes", "", "v").unwrap()
}

#[tokio::test]
async fn a_volume_is_reserved_for_its_claim_and_awaited() {
    let (api, binder, mut job) = bench().await;
    api.store().put("persistentvolumes", json!({ "metadata": { "name": "v" } }));
    put_claim(&api, "c");
    job.volumes.bind = vec![BindVolume { volume: "v".to_owned(), claim: claim_name("c") }];
    let running = tokio::spawn(async move { binder.run(&job, &mut Vec::new()).await });
    eventually("the volume is reserved", || volume(&api)["spec"]["claimRef"]["name"] == "c").await;
    let reserved = volume(&api);
    assert_eq!(reserved["metadata"]["annotations"][annotation("pv", "bound-by-controller")], "yes");
    assert_eq!(reserved["spec"]["claimRef"]["kind"], "PersistentVolumeClaim");
    assert!(reserved["spec"]["claimRef"]["uid"].is_string());
    assert_eq!(super::node_of(&api), None, "not before the claim is bound");
    bind_claim(&api, "c");
    assert_eq!(running.await.unwrap(), BindOutcome::Bound);
}

#[tokio::test]
async fn a_volume_of_another_claim_is_left_alone() {
    let (api, binder, mut job) = bench().await;
    let holder = json!({ "namespace": "default", "name": "other", "uid": "u" });
    api.store()
        .put("persistentvolumes", json!({ "metadata": { "name": "v" }, "spec": { "claimRef": holder } }));
    put_claim(&api, "c");
    job.volumes.bind = vec![BindVolume { volume: "v".to_owned(), claim: claim_name("c") }];
    let BindOutcome::NotBound(Why::Refused(message)) = binder.run(&job, &mut Vec::new()).await else {
        panic!("bound")
    };
    let expected = "binding volumes: volume v belongs to default/other";
    assert_eq!(message, format!("running PreBind plugin \"VolumeBinding\": {expected}"));
    assert_eq!(volume(&api)["spec"]["claimRef"]["name"], "other");
}

#[tokio::test]
async fn a_volume_is_made_for_the_node() {
    let (api, binder, mut job) = bench().await;
    api.store().put("persistentvolumes", json!({ "metadata": { "name": "v" } }));
    put_claim(&api, "c");
    job.volumes.provision = vec![claim_name("c")];
    let running = tokio::spawn(async move { binder.run(&job, &mut Vec::new()).await });
    let selected = annotation("volume", "selected-node");
    let claim = || api.store().get("persistentvolumeclaims", "default", "c").unwrap();
    eventually("the node is selected", || claim()["metadata"]["annotations"][&selected] == "n").await;
    bind_claim(&api, "c");
    assert_eq!(running.await.unwrap(), BindOutcome::Bound);
}

#[tokio::test]
async fn a_claim_that_is_never_bound_ends_the_job() {
    let (api, binder, mut job) = bench().await;
    put_claim(&api, "c");
    job.volumes = VolumeWrites { bind: Vec::new(), provision: vec![claim_name("c")] };
    job.volume_timeout = Duration::from_millis(50);
    let BindOutcome::NotBound(Why::Refused(message)) = binder.run(&job, &mut Vec::new()).await else {
        panic!("bound")
    };
    assert!(message.contains("not all claims are bound"), "{message}");
    assert_eq!(super::node_of(&api), None);
}

#[tokio::test]
async fn a_missing_claim_is_named() {
    let (_api, binder, mut job) = bench().await;
    job.volumes.provision = vec![claim_name("c")];
    let BindOutcome::NotBound(Why::Refused(message)) = binder.run(&job, &mut Vec::new()).await else {
        panic!("bound")
    };
    let expected = "running PreBind plugin \"VolumeBinding\": persistentvolumeclaim \"c\" not found";
    assert_eq!(message, expected);
}

/// A volume that is usable on the node `elsewhere` alone.
fn volume_elsewhere() -> Value {
    let term =
        json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["elsewhere"] }] });
    json!({
        "metadata": { "name": "v" },
        "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": [term] } } },
    })
}

#[tokio::test]
async fn a_claim_that_gets_another_volume_than_the_plan_chose_holds_its_pod_back() {
    for provision in [false, true] {
        let (api, binder, mut job) = bench().await;
        api.store().put("persistentvolumes", volume_elsewhere());
        api.store().put("persistentvolumes", json!({ "metadata": { "name": "w" } }));
        put_claim(&api, "c");
        match provision {
            true => job.volumes.provision = vec![claim_name("c")],
            false => job.volumes.bind = vec![BindVolume { volume: "w".to_owned(), claim: claim_name("c") }],
        }
        let running = tokio::spawn(async move { binder.run(&job, &mut Vec::new()).await });
        eventually("the claim or its volume is written", || api.count("PUT") + api.count("PATCH") == 1).await;
        bind_claim(&api, "c");
        let BindOutcome::NotBound(Why::Refused(message)) = running.await.unwrap() else { panic!("bound") };
        assert!(message.contains("pv \"v\" node affinity doesn't match node \"n\""), "{message}");
        assert_eq!(super::node_of(&api), None);
    }
}

#[tokio::test]
async fn a_reservation_that_is_taken_back_ends_the_job_before_its_time() {
    let (api, binder, mut job) = bench().await;
    api.store().put("persistentvolumes", json!({ "metadata": { "name": "v" } }));
    put_claim(&api, "c");
    job.volumes.bind = vec![BindVolume { volume: "v".to_owned(), claim: claim_name("c") }];
    let running = tokio::spawn(async move { binder.run(&job, &mut Vec::new()).await });
    eventually("the volume is reserved", || volume(&api)["spec"]["claimRef"]["name"] == "c").await;
    api.store().put("persistentvolumes", json!({ "metadata": { "name": "v" } }));
    let BindOutcome::NotBound(Why::Refused(message)) = running.await.unwrap() else { panic!("bound") };
    assert!(message.contains("ClaimRef got reset for pv \"v\""), "{message}");
}

#[test]
fn claims_are_bound_waiting_or_lost() {
    let claim = |annotations: &[(&str, &str)], volume: &str, phase: &str| PersistentVolumeClaim {
        metadata: Some(ObjectMeta {
            name: "c".to_owned(),
            annotations: annotations
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..ObjectMeta::default()
        }),
        spec: Some(PersistentVolumeClaimSpec { volume_name: volume.to_owned(), ..Default::default() }),
        status: Some(PersistentVolumeClaimStatus { phase: phase.to_owned(), ..Default::default() }),
    };
    let state = |claim: &PersistentVolumeClaim, made| claim_state(claim, "n", made, "selected", "completed");
    assert_eq!(state(&claim(&[("completed", "yes")], "v", ""), false), ClaimState::Bound);
    assert_eq!(state(&claim(&[], "v", ""), false), ClaimState::Waiting);
    assert_eq!(state(&claim(&[("completed", "yes")], "", ""), false), ClaimState::Waiting);
    assert_eq!(state(&claim(&[("selected", "n")], "", ""), true), ClaimState::Waiting);
    let failed = |what: &str| ClaimState::Failed(format!("{what} for PVC \"c\""));
    assert_eq!(state(&claim(&[("other", "x")], "", ""), true), failed("provisioning failed"));
    assert_eq!(state(&claim(&[], "", ""), true), failed("selectedNode annotation reset"));
    assert!(matches!(state(&claim(&[], "v", "Lost"), false), ClaimState::Failed(_)));
    let mut ending = claim(&[("completed", "yes")], "v", "");
    ending.metadata.as_mut().unwrap().deletion_timestamp = Some(Time::default());
    assert!(matches!(state(&ending, false), ClaimState::Failed(_)));
}
