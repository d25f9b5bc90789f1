//! Claims for extended resources before a binding, and after one that failed.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::{BindOutcome, Why};
use super::bench;
use super::claims::{allocation, unready};
use crate::api::core::v1::ContainerExtendedResourceRequest;
use crate::api::meta::v1::ObjectMeta;
use crate::api::resource::v1::{AllocationResult, ResourceClaim};
use crate::client::testing::{FakeApi, Fault, eventually};
use crate::plan::decision::{Allocation, ClaimName, ClaimWrite, NewClaim, UnusableClaim};

fn write(allocation: AllocationResult) -> ClaimWrite {
    let metadata = ObjectMeta {
        namespace: "default".to_owned(),
        generate_name: "p-extended-resources-".to_owned(),
        ..ObjectMeta::default()
    };
    let mapping = ContainerExtendedResourceRequest {
        container_name: "c".to_owned(),
        resource_name: "x.com/gpu".to_owned(),
        request_name: "container-0-request-0".to_owned(),
    };
    let object = ResourceClaim { metadata: Some(metadata), ..ResourceClaim::default() };
    ClaimWrite {
        claim: ClaimName { namespace: "default".to_owned(), name: String::new() },
        uid: "u/extended-resources".to_owned(),
        allocation: Allocation::Chosen(allocation),
        new: Some(Arc::new(NewClaim { object, mappings: vec![mapping] })),
    }
}

/// The claims that are there.
fn claims(api: &FakeApi) -> Vec<Value> {
    api.store().list("resourceclaims").1.into_iter().map(|(_, claim)| claim).collect()
}

fn claim(api: &FakeApi) -> Value {
    let [claim] = claims(api).try_into().expect("there is one claim");
    claim
}

fn finalizer() -> String {
    format!("resource.{}", FakeApi::brand().label("delete-protection"))
}

#[tokio::test]
async fn a_claim_is_made_reserved_and_named_before_its_pod_is_bound() {
    let (api, binder, mut job) = bench().await;
    job.claims = vec![write(allocation())];
    assert_eq!(binder.run(&job, &mut Vec::new()).await, BindOutcome::Bound);
    let claim = claim(&api);
    let name = claim["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("p-extended-resources-"), "{name}");
    assert_eq!(claim["metadata"]["finalizers"], json!([finalizer()]));
    assert!(claim["status"]["allocation"].is_object());
    assert_eq!(claim["status"]["reservedFor"][0]["uid"], json!(&*job.pod.uid));
    let mapping = json!({
        "containerName": "c", "resourceName": "x.com/gpu", "requestName": "container-0-request-0",
    });
    let pod = api.store().get("pods", "default", "p").unwrap();
    let status = json!({ "resourceClaimName": name, "requestMappings": [mapping] });
    assert_eq!(pod["status"]["extendedResourceClaimStatus"], status);
    let writes: Vec<String> = api.log().into_iter().filter(|line| !line.starts_with("GET")).collect();
    let expected = [
        ("POST", "/resourceclaims"),
        ("PUT", name),
        ("PUT", "/status"),
        ("PATCH", "/pods/p/status"),
        ("POST", "/pods/p/binding"),
    ];
    assert_eq!(writes.len(), expected.len(), "{writes:?}");
    for (line, (method, end)) in writes.iter().zip(expected) {
        assert!(line.starts_with(method) && line.ends_with(end), "{line} is not {method} {end}");
    }
}

#[tokio::test]
async fn the_claim_of_a_pod_that_is_not_bound_is_deleted() {
    for (method, path) in
        [("PUT", "/resourceclaims/p-extended"), ("PATCH", "/pods/p/status"), ("POST", "/pods/p/binding")]
    {
        let (api, binder, mut job) = bench().await;
        api.plant(method, path, 1, Fault::Status(403, 0));
        job.claims = vec![write(allocation())];
        let outcome = binder.run(&job, &mut Vec::new()).await;
        assert!(matches!(outcome, BindOutcome::NotBound(Why::Refused(_))), "{method} {path}: {outcome:?}");
        assert_eq!(claims(&api), Vec::<Value>::new(), "{method} {path}");
        assert_eq!(super::node_of(&api), None);
    }
}

#[tokio::test]
async fn a_claim_that_is_refused_is_no_claim() {
    let (api, binder, mut job) = bench().await;
    api.plant("POST", "/resourceclaims", 1, Fault::Status(403, 0));
    job.claims = vec![write(allocation())];
    assert!(matches!(binder.run(&job, &mut Vec::new()).await, BindOutcome::NotBound(Why::Refused(_))));
    assert_eq!(api.log().len(), 1, "nothing follows: {:?}", api.log());
}

#[tokio::test]
async fn a_claim_whose_making_was_not_answered_is_left_to_the_next_plan() {
    let (api, binder, mut job) = bench().await;
    api.plant("POST", "/resourceclaims", 1, Fault::LostAfter);
    job.claims = vec![write(allocation())];
    assert!(matches!(binder.run(&job, &mut Vec::new()).await, BindOutcome::NotBound(Why::Refused(_))));
    assert_eq!((claims(&api).len(), api.count("POST")), (1, 1), "it is not made twice");
}

#[tokio::test]
async fn other_writers_of_the_claim_are_met_by_looking_again() {
    let (api, binder, mut job) = bench().await;
    api.plant("PUT", "/resourceclaims", 1, Fault::Status(409, 0));
    api.plant("PUT", "/status", 1, Fault::LostAfter);
    job.claims = vec![write(allocation())];
    assert_eq!(binder.run(&job, &mut Vec::new()).await, BindOutcome::Bound);
    assert_eq!(claims(&api).len(), 1);
}

#[tokio::test]
async fn a_pod_that_goes_takes_its_claim_along() {
    let (api, binder, mut job) = bench().await;
    api.store().remove("pods", "default", "p");
    job.claims = vec![write(allocation())];
    assert_eq!(binder.run(&job, &mut Vec::new()).await, BindOutcome::NotBound(Why::Gone));
    assert_eq!(claims(&api), Vec::<Value>::new());
}

#[tokio::test]
async fn the_pod_waits_for_the_devices_of_the_new_claim() {
    let (api, binder, mut job) = bench().await;
    job.claims = vec![write(unready())];
    let running = tokio::spawn({
        let (binder, job) = (binder.clone(), job.clone());
        async move { binder.run(&job, &mut Vec::new()).await }
    });
    let is_allocated = || claims(&api).first().is_some_and(|claim| claim["status"]["allocation"].is_object());
    eventually("the claim is allocated", is_allocated).await;
    assert_eq!(super::node_of(&api), None);
    let mut told = claim(&api);
    let condition = json!({ "type": "broken", "status": "True" });
    told["status"]["devices"] =
        json!([{ "driver": "d.io", "pool": "p", "device": "d", "conditions": [condition] }]);
    api.store().put("resourceclaims", told);
    let outcome = running.await.unwrap();
    assert!(matches!(outcome, BindOutcome::NotBound(Why::Refused(_))), "{outcome:?}");
    assert_eq!(claims(&api), Vec::<Value>::new());
}

/// A claim that is left of an earlier attempt, and what is to be done about it.
fn left(api: &FakeApi) -> UnusableClaim {
    api.store().put(
        "resourceclaims",
        json!({ "metadata": {
            "name": "m", "namespace": "default", "uid": "claim-uid", "finalizers": [finalizer(), "another"],
        } }),
    );
    let claim = ClaimName { namespace: "default".to_owned(), name: "m".to_owned() };
    UnusableClaim::Delete { claim, uid: "claim-uid".to_owned() }
}

#[tokio::test]
async fn a_claim_that_is_left_loses_the_finalizer_and_is_deleted() {
    let (api, binder, job) = bench().await;
    let unusable = left(&api);
    // The finalizer may keep it: what is seen of the deletion is the claim before it.
    api.plant("DELETE", "/resourceclaims/m", 1, Fault::Status(403, 0));
    binder.give_up(&unusable, &job.pod).await;
    assert_eq!(claim(&api)["metadata"]["finalizers"], json!(["another"]));
    binder.give_up(&unusable, &job.pod).await;
    assert_eq!(claims(&api), Vec::<Value>::new());
    binder.give_up(&unusable, &job.pod).await;
    assert_eq!(api.count("DELETE"), 2, "there is nothing left to delete");
}

#[tokio::test]
async fn a_deletion_meets_other_writers_by_looking_again() {
    let (api, binder, job) = bench().await;
    let unusable = left(&api);
    api.plant("PUT", "/resourceclaims/m", 1, Fault::Status(409, 0));
    api.plant("PUT", "/resourceclaims/m", 1, Fault::LostAfter);
    api.plant("DELETE", "/resourceclaims/m", 1, Fault::LostAfter);
    binder.give_up(&unusable, &job.pod).await;
    assert_eq!(claims(&api), Vec::<Value>::new());
}

#[tokio::test]
async fn another_claim_of_the_name_is_left_alone() {
    let (api, binder, job) = bench().await;
    let UnusableClaim::Delete { claim, .. } = left(&api) else { unreachable!("it is to be deleted") };
    binder.give_up(&UnusableClaim::Delete { claim, uid: "old-uid".to_owned() }, &job.pod).await;
    assert_eq!(claims(&api).len(), 1);
}
