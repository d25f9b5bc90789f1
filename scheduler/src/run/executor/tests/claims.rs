//! Claims of devices that are given up or given back.

use super::super::super::binding::{BindOutcome, PodRef, Why, Written};
use super::super::super::input::Effect;
use super::{Bench, on_node, pod};
use crate::plan::decision::{Allocation, ClaimName, ClaimWrite, UnusableClaim};
use crate::plan::profile::Plugin;

fn name() -> ClaimName {
    ClaimName { namespace: "default".to_owned(), name: "c".to_owned() }
}

fn write() -> ClaimWrite {
    let allocation = Allocation::Held(Default::default());
    ClaimWrite { claim: name(), uid: "claim-uid".to_owned(), allocation, new: None }
}

#[test]
fn a_claim_that_helps_nobody_is_given_up() {
    let mut bench = Bench::with(&[("a", 0)]);
    let unusable = UnusableClaim::Delete { claim: name(), uid: "claim-uid".to_owned() };
    bench.executor.planning.unusable = Some(unusable.clone());
    bench.upsert(&pod("p"));
    assert!(bench.step());
    let given_up = bench.take(|effect| match effect {
        Effect::GiveUp { claim, pod } => Ok((claim, pod)),
        other => Err(Box::new(other)),
    });
    let of =
        PodRef { namespace: "default".into(), name: "p".into(), uid: "uid-p".into(), version: "".into() };
    assert_eq!(given_up, [(unusable, of)]);
    assert_eq!(bench.place("p"), Some("unschedulable"), "it waits until the claim is gone");
}

#[test]
fn the_devices_of_a_pod_that_is_elsewhere_are_given_back_when_its_job_ends() {
    let mut bench = Bench::with(&[("a", 1), ("b", 1)]);
    bench.executor.planning.claims = vec![write()];
    bench.upsert(&pod("p"));
    bench.step();
    let job = bench.job();
    let elsewhere = if &*job.node == "a" { "b" } else { "a" };
    bench.upsert(&on_node("p", elsewhere));
    assert!(bench.executor.planning().freed_claims.is_empty(), "the job may go on");
    bench.finish(job, BindOutcome::NotBound(Why::Taken(elsewhere.to_owned())));
    assert_eq!(bench.executor.planning().freed_claims, ["claim-uid"]);
}

#[test]
fn the_devices_of_a_pod_that_is_gone_are_given_back_when_its_job_ends() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.executor.planning.claims = vec![write()];
    bench.upsert(&pod("p"));
    bench.step();
    let mut job = bench.job();
    bench.delete("p");
    assert_eq!(bench.taken("a"), 0, "its room needs no wait: a binding of it is refused");
    assert!(bench.executor.planning().freed_claims.is_empty(), "the claim may be written yet");
    job.written = vec![Written { claim: name(), uid: "claim-uid".to_owned(), version: "7".to_owned() }];
    bench.finish(job, BindOutcome::NotBound(Why::Gone));
    assert_eq!(bench.executor.planning().settled_claims, ["claim-uid"]);
    assert_eq!(bench.executor.planning().freed_claims, ["claim-uid"]);
}

#[test]
fn a_pod_that_found_a_claim_held_by_a_job_is_woken_by_the_end_of_the_job() {
    for (freed, place) in [(Vec::new(), "unschedulable"), (vec![name()], "backoff")] {
        let mut bench = Bench::with(&[("a", 1)]);
        bench.executor.planning.claims = vec![write()];
        bench.upsert(&pod("p"));
        bench.step();
        let job = bench.job();
        bench.executor.planning.refusing = Some(Plugin::DynamicResources);
        bench.upsert(&pod("q"));
        bench.step();
        bench.executor.planning.freed_by_settling = freed;
        bench.finish(job, BindOutcome::NotBound(Why::Gone));
        assert_eq!(bench.place("q"), Some(place));
    }
}
