//! Resource claims before a binding.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::super::claims::{Change, deallocation, release, reservation};
use super::super::{BindOutcome, Binder, PodRef, Why};
use super::bench;
use crate::api::meta::v1::ObjectMeta;
use crate::api::resource::v1::{
    AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult, ResourceClaim,
    ResourceClaimConsumerReference, ResourceClaimStatus,
};
use crate::client::testing::{FakeApi, Fault, eventually};
use crate::election::Leadership;
use crate::plan::decision::{Allocation, ClaimName, ClaimWrite};
use crate::plan::devices::RESERVED_FOR_MAX;

/// The devices that the claim had already.
fn held() -> Allocation {
    Allocation::Held(allocation())
}

fn write(allocation: Allocation) -> ClaimWrite {
    let claim = ClaimName { namespace: "default".to_owned(), name: "c".to_owned() };
    ClaimWrite { claim, uid: "claim-uid".to_owned(), allocation, new: None }
}

pub(super) fn allocation() -> AllocationResult {
    AllocationResult { devices: Some(DeviceAllocationResult::default()), ..AllocationResult::default() }
}

fn claim(api: &FakeApi) -> Value {
    api.store().get("resourceclaims", "default", "c").unwrap()
}

fn put_claim(api: &FakeApi) {
    api.store().put(
        "resourceclaims",
        json!({ "metadata": { "name": "c", "namespace": "default", "uid": "claim-uid" } }),
    );
}

#[tokio::test]
async fn a_claim_gets_finalizer_allocation_and_reservation() {
    let (api, binder, mut job) = bench().await;
    put_claim(&api);
    job.claims = vec![write(Allocation::Chosen(allocation()))];
    assert_eq!(binder.run(&job, &mut Vec::new()).await, BindOutcome::Bound);
    let claim = claim(&api);
    let finalizer = format!("resource.{}", FakeApi::brand().label("delete-protection"));
    assert_eq!(claim["metadata"]["finalizers"], json!([finalizer]));
    let status = &claim["status"];
    assert!(status["allocation"].is_object());
    assert_eq!(status["reservedFor"][0]["name"], "p");
    assert_eq!(status["reservedFor"][0]["uid"], json!(&*job.pod.uid));
}

#[tokio::test]
async fn another_writer_of_the_claim_is_met_by_looking_again() {
    let (api, binder, mut job) = bench().await;
    put_claim(&api);
    api.plant("PUT", "/resourceclaims", 1, Fault::Status(409, 0));
    api.plant("PUT", "/resourceclaims/c/status", 1, Fault::LostAfter);
    job.claims = vec![write(Allocation::Chosen(allocation()))];
    assert_eq!(binder.run(&job, &mut Vec::new()).await, BindOutcome::Bound);
}

#[tokio::test]
async fn reservations_are_given_back_when_the_pod_is_not_bound() {
    let (api, binder, mut job) = bench().await;
    put_claim(&api);
    api.plant("POST", "/binding", 1, Fault::Status(403, 0));
    job.claims = vec![write(Allocation::Chosen(allocation()))];
    assert!(matches!(binder.run(&job, &mut Vec::new()).await, BindOutcome::NotBound(Why::Refused(_))));
    let status = &claim(&api)["status"];
    assert!(status["allocation"].is_null() && status["reservedFor"].is_null(), "{status}");
}

#[tokio::test]
async fn no_claim_is_written_again_after_the_lease() {
    let (api, _, mut job) = bench().await;
    put_claim(&api);
    api.plant("PUT", "/resourceclaims", 1, Fault::Status(429, 1));
    job.claims = vec![write(Allocation::Chosen(allocation()))];
    let lasting = Instant::now() + Duration::from_secs(3_600);
    let (lease, until) = watch::channel(Some(lasting));
    let binder = Binder::new(api.client(), Leadership::until(until), Arc::new(|_| ()), Arc::new(|_| ()));
    let running = tokio::spawn(async move { binder.run(&job, &mut Vec::new()).await });
    eventually("the write is refused", || api.count("PUT") == 1).await;
    lease.send_replace(None);
    assert_eq!(running.await.unwrap(), BindOutcome::NotBound(Why::NotLeading));
    assert_eq!(api.count("PUT"), 1);
}

#[tokio::test]
async fn a_claim_that_is_gone_ends_the_job() {
    let (_api, binder, mut job) = bench().await;
    job.claims = vec![write(held())];
    assert!(matches!(binder.run(&job, &mut Vec::new()).await, BindOutcome::NotBound(Why::Refused(_))));
}

fn pod() -> PodRef {
    PodRef { namespace: "default".into(), name: "p".into(), uid: "u".into(), version: "".into() }
}

fn held_by(uids: &[&str], allocation: Option<AllocationResult>) -> ResourceClaim {
    let holder = |uid: &&str| ResourceClaimConsumerReference {
        uid: (*uid).to_owned(),
        ..ResourceClaimConsumerReference::default()
    };
    let status = ResourceClaimStatus {
        allocation,
        reserved_for: uids.iter().map(holder).collect(),
        ..ResourceClaimStatus::default()
    };
    ResourceClaim {
        metadata: Some(ObjectMeta {
            uid: "claim-uid".to_owned(),
            finalizers: vec!["f".to_owned()],
            ..ObjectMeta::default()
        }),
        status: Some(status),
        ..ResourceClaim::default()
    }
}

#[test]
fn a_reservation_needs_a_claim_that_is_as_it_was_planned() {
    let reserve = |claim, wanted| reservation(claim, &pod(), &write(wanted), "f");
    assert_eq!(reserve(held_by(&["u"], Some(allocation())), held()), Ok(Change::None));
    assert!(reserve(held_by(&["u"], None), held()).is_err(), "a reservation alone is no device");
    let mut other = allocation();
    other.devices.as_mut().unwrap().results.push(DeviceRequestAllocationResult::default());
    let of_before = reserve(held_by(&["u"], Some(other.clone())), Allocation::Chosen(allocation()));
    assert!(of_before.is_err(), "a plan before reserved others");
    let Ok(Change::Status(shared)) = reserve(held_by(&["v"], Some(allocation())), held()) else {
        panic!("a claim that others use can be reserved")
    };
    let shared = shared.status.unwrap();
    assert_eq!(shared.allocation, Some(allocation()), "it stays allocated");
    let holders = shared.reserved_for.iter().map(|holder| (&*holder.resource, &*holder.name, &*holder.uid));
    assert_eq!(holders.collect::<Vec<_>>(), [("", "", "v"), ("pods", "p", "u")]);
    assert!(reserve(held_by(&[], None), held()).unwrap_err().contains("not allocated any more"));
    let anew = reserve(held_by(&["u"], Some(other.clone())), held()).unwrap_err();
    assert!(anew.contains("allocated anew"), "the plan's node may not have these devices: {anew}");
    let elsewhere = reserve(held_by(&[], Some(other)), Allocation::Chosen(allocation())).unwrap_err();
    assert!(elsewhere.contains("allocated elsewhere"), "{elsewhere}");
    let many: Vec<String> = (0..RESERVED_FOR_MAX).map(|index| format!("v{index}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(reserve(held_by(&many, Some(allocation())), held()).unwrap_err().contains("256 pods"));
    let mut ending = held_by(&[], Some(allocation()));
    ending.metadata.as_mut().unwrap().deletion_timestamp = Some(Default::default());
    assert!(reserve(ending, Allocation::Chosen(allocation())).unwrap_err().contains("being deleted"));
    let mut another = held_by(&[], Some(allocation()));
    another.metadata.as_mut().unwrap().uid = "another".to_owned();
    assert!(reserve(another, Allocation::Chosen(allocation())).unwrap_err().contains("made anew"));
}

#[test]
fn the_finalizer_comes_before_the_allocation() {
    let change =
        reservation(held_by(&[], None), &pod(), &write(Allocation::Chosen(allocation())), "other").unwrap();
    let Change::Finalizer(claim) = change else { panic!("{change:?}") };
    assert_eq!(claim.metadata.unwrap().finalizers, ["f", "other"]);
    assert_eq!(claim.status.unwrap().allocation, None);
    let change =
        reservation(held_by(&[], None), &pod(), &write(Allocation::Chosen(allocation())), "f").unwrap();
    let Change::Status(claim) = change else { panic!("the finalizer is there: {change:?}") };
    assert_eq!(claim.metadata.unwrap().finalizers, ["f"]);
    assert_eq!(claim.status.unwrap().allocation, Some(allocation()));
}

#[test]
fn a_release_keeps_an_allocation_that_others_use() {
    assert_eq!(
        release(held_by(&["v"], Some(allocation())), "u", &write(Allocation::Chosen(allocation()))),
        None
    );
    let shared =
        release(held_by(&["u", "v"], Some(allocation())), "u", &write(Allocation::Chosen(allocation())))
            .unwrap();
    assert!(shared.status.unwrap().allocation.is_some());
    let last =
        release(held_by(&["u"], Some(allocation())), "u", &write(Allocation::Chosen(allocation()))).unwrap();
    assert_eq!(last.status.unwrap().allocation, None);
    let found = release(held_by(&["u"], Some(allocation())), "u", &write(held())).unwrap();
    assert!(found.status.unwrap().allocation.is_some(), "the pod did not bring it");
}

#[test]
fn only_an_unused_claim_is_deallocated() {
    assert_eq!(deallocation(held_by(&["v"], Some(allocation())), "u"), None);
    assert_eq!(deallocation(held_by(&[], None), "u"), None);
    let freed = deallocation(held_by(&["u"], Some(allocation())), "u").unwrap().status.unwrap();
    assert_eq!((freed.allocation, freed.reserved_for.len()), (None, 0));
}

/// An allocation of a device that somebody has to make ready.
pub(super) fn unready() -> AllocationResult {
    let result = DeviceRequestAllocationResult {
        request: "r".to_owned(),
        driver: "d.io".to_owned(),
        pool: "p".to_owned(),
        device: "d".to_owned(),
        binding_conditions: vec!["ready".to_owned()],
        binding_failure_conditions: vec!["broken".to_owned()],
        ..DeviceRequestAllocationResult::default()
    };
    let devices = DeviceAllocationResult { results: vec![result], ..DeviceAllocationResult::default() };
    AllocationResult { devices: Some(devices), ..AllocationResult::default() }
}

/// Has the driver say that `condition` of the device holds.
fn tell_condition(api: &FakeApi, condition: &str) {
    let mut claim = claim(api);
    let condition = json!({ "type": condition, "status": "True", "reason": "Lost", "message": "it is gone" });
    claim["status"]["devices"] =
        json!([{ "driver": "d.io", "pool": "p", "device": "d", "conditions": [condition] }]);
    api.store().put("resourceclaims", claim);
}

#[tokio::test]
async fn a_job_waits_for_devices_until_they_fail_or_take_too_long() {
    for (condition, expected) in [
        (Some("ready"), Ok(())),
        (Some("broken"), Err("claim c binding failed: reason=Lost, message=\"it is gone\"")),
        (None, Err("device binding timeout")),
    ] {
        let (api, binder, mut job) = bench().await;
        put_claim(&api);
        job.claims = vec![write(Allocation::Chosen(unready()))];
        if condition.is_none() {
            job.device_timeout = Duration::from_millis(50);
        }
        let running = {
            let (binder, job) = (binder.clone(), job.clone());
            tokio::spawn(async move { binder.run(&job, &mut Vec::new()).await })
        };
        if let Some(condition) = condition {
            eventually("the claim is allocated", || !claim(&api)["status"]["allocation"].is_null()).await;
            assert!(!claim(&api)["status"]["allocation"]["allocationTimestamp"].is_null());
            assert_eq!(super::node_of(&api), None, "the pod waits");
            tell_condition(&api, condition);
        }
        let outcome = running.await.unwrap();
        match expected {
            Ok(()) => assert_eq!(outcome, BindOutcome::Bound),
            Err(problem) => {
                let told = format!("running PreBind plugin \"DynamicResources\": {problem}");
                assert_eq!(outcome, BindOutcome::NotBound(Why::Refused(told)));
                let status = &claim(&api)["status"];
                assert!(status["allocation"].is_null() && status["reservedFor"].is_null(), "{status}");
            }
        }
    }
}

#[tokio::test]
async fn devices_that_need_nothing_get_no_time() {
    let (api, binder, mut job, told) = super::telling().await;
    put_claim(&api);
    job.claims = vec![write(Allocation::Chosen(allocation()))];
    assert_eq!(binder.run(&job, &mut Vec::new()).await, BindOutcome::Bound);
    assert!(claim(&api)["status"]["allocation"]["allocationTimestamp"].is_null());
    assert_eq!(*told.lock(), [], "there is nothing to wait for");
}

#[tokio::test]
async fn users_are_told_once_that_a_pod_waits_for_devices() {
    let (api, binder, mut job, told) = super::telling().await;
    put_claim(&api);
    job.claims = vec![write(Allocation::Chosen(unready()))];
    job.device_timeout = Duration::from_millis(700);
    assert!(matches!(binder.run(&job, &mut Vec::new()).await, BindOutcome::NotBound(Why::Refused(_))));
    let told = told.lock();
    let [report] = told.as_slice() else { panic!("several looks, one event: {told:?}") };
    assert_eq!((report.reason, report.action), ("BindingConditionsPending", "Scheduling"));
    assert_eq!(report.note, "waiting for binding conditions for device on node n");
    assert_eq!((&*report.regarding.name, &*report.controller), ("p", "s"));
    assert!(api.count("GET") > 3, "it looked several times: {:?}", api.log());
}
