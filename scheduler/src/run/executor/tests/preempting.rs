//! Preemption: nominations, the two steps of an eviction, and its failures.

use super::super::super::binding::{BindOutcome, Why};
use super::super::super::input::{Evicting, EvictionStep, Input};
use super::{Bench, on_node, pod, uid, with_priority};
use crate::api::core::v1::Pod;

/// A node that pods of priority 0 fill, and a pod of priority 10 that was just refused.
fn refused(victims: &[&str]) -> Bench {
    let slots = u32::try_from(victims.len()).unwrap();
    let mut bench = Bench::with(&[("a", slots)]);
    bench.executor.planning.preempts = true;
    for victim in victims {
        bench.upsert(&on_node(victim, "a"));
    }
    bench.upsert(&important("p"));
    bench.step();
    bench
}

fn important(name: &str) -> Pod {
    with_priority(pod(name), 10)
}

#[test]
fn a_single_victim_is_evicted_at_once_and_its_end_wakes_the_pod() {
    let mut bench = refused(&["v"]);
    let eviction = bench.evictions().remove(0);
    assert_eq!((eviction.step, &*eviction.node, &*eviction.victims[0].name), (EvictionStep::Last, "a", "v"));
    assert_eq!(bench.executor.planning().nominated("uid-p"), Some("a"));
    let patches = bench.patches();
    assert_eq!(patches[0].1["status"]["nominatedNodeName"], "a");
    let victim = eviction.victims[0].clone();
    bench.tell(Input::Evicted(eviction, vec![Evicting::Deleted(victim)]));
    let reports = bench.reports();
    let preempted = reports.iter().find(|report| report.reason == "Preempted").unwrap();
    assert_eq!(preempted.note, "Preempted by pod uid-p on node a");
    assert_eq!((preempted.regarding.name.as_str(), preempted.action), ("v", "Preempting"));
    assert_eq!(preempted.related.as_ref().unwrap().name, "p");
    bench.delete("v");
    bench.pass(20);
    bench.step();
    assert_eq!(&*bench.job().node, "a");
    assert_eq!(bench.executor.planning().nominated("uid-p"), None, "its room is its own now");
}

#[test]
fn of_several_victims_the_last_is_evicted_when_the_pod_may_be_woken() {
    let mut bench = refused(&["v", "w"]);
    let first = bench.evictions().remove(0);
    assert_eq!((first.step, first.victims.len()), (EvictionStep::First, 1));
    let victim = first.victims[0].clone();
    bench.delete(&victim.name);
    bench.pass(20);
    assert!(!bench.step(), "held back while victims are evicted");
    bench.tell(Input::Evicted(first, vec![Evicting::Deleted(victim)]));
    let last = bench.evictions().remove(0);
    assert_eq!((last.step, last.victims.len()), (EvictionStep::Last, 1));
    let victim = last.victims[0].clone();
    bench.tell(Input::Evicted(last, vec![Evicting::Deleted(victim.clone())]));
    bench.delete(&victim.name);
    bench.pass(20);
    bench.step();
    assert_eq!(&*bench.job().pod.name, "p");
}

#[test]
fn a_failed_eviction_makes_the_pod_active_again() {
    let mut bench = refused(&["v", "w"]);
    let first = bench.evictions().remove(0);
    let victim = first.victims[0].clone();
    bench.tell(Input::Evicted(first, vec![Evicting::Failed(victim, "no".to_owned())]));
    assert!(bench.evictions().is_empty(), "the last victim stays");
    assert_eq!(bench.place("p"), Some("active"));
}

#[test]
fn a_victim_that_was_gone_already_wakes_nobody_so_the_pod_is_made_active() {
    let mut bench = refused(&["v"]);
    let eviction = bench.evictions().remove(0);
    let victim = eviction.victims[0].clone();
    bench.tell(Input::Evicted(eviction, vec![Evicting::Gone(victim)]));
    assert_eq!(bench.place("p"), Some("active"));
    assert!(!bench.reports().iter().any(|report| report.reason == "Preempted"));
}

#[test]
fn a_pod_that_is_gone_lets_its_last_victim_live() {
    let mut bench = refused(&["v", "w"]);
    let first = bench.evictions().remove(0);
    bench.delete("p");
    let victim = first.victims[0].clone();
    bench.tell(Input::Evicted(first, vec![Evicting::Deleted(victim)]));
    assert!(bench.evictions().is_empty());
    assert_eq!(bench.executor.planning().nominated("uid-p"), None);
}

#[test]
fn room_for_a_nominated_pod_is_kept_from_lesser_ones() {
    let mut bench = refused(&["v"]);
    bench.delete("v");
    bench.upsert(&pod("lesser"));
    bench.pass(0);
    // The nominated pod comes first by its priority, the other finds its room taken.
    while bench.step() && bench.executor.bindings() == 0 {}
    assert_eq!(&*bench.job().pod.name, "p");
}

#[test]
fn a_nomination_that_the_api_tells_is_kept_after_a_restart() {
    let mut bench = Bench::with(&[("a", 1)]);
    let mut nominated = important("p");
    nominated.status.as_mut().unwrap().nominated_node_name = "a".to_owned();
    bench.upsert(&nominated);
    assert_eq!(bench.executor.planning().nominated("uid-p"), Some("a"));
    assert_eq!(bench.executor.queue().nominator().node_of(&uid("p")), Some("a"));
}

#[test]
fn a_nomination_that_helps_no_more_is_taken_back() {
    let mut bench = Bench::with(&[("a", 0)]);
    let mut nominated = important("p");
    nominated.status.as_mut().unwrap().nominated_node_name = "a".to_owned();
    bench.upsert(&nominated);
    bench.step();
    let patches = bench.patches();
    assert!(patches[0].1["status"]["nominatedNodeName"].is_null());
    assert!(patches[0].1["status"].as_object().unwrap().contains_key("nominatedNodeName"));
    assert_eq!(bench.executor.planning().nominated("uid-p"), None);
}

#[test]
fn a_pod_that_another_scheduler_bound_lets_its_last_victim_live() {
    let mut bench = refused(&["v", "w"]);
    let eviction = bench.evictions().remove(0);
    bench.upsert(&on_node("p", "b"));
    let outcomes = eviction.victims.iter().cloned().map(Evicting::Deleted).collect();
    bench.tell(Input::Evicted(eviction, outcomes));
    assert!(bench.evictions().is_empty());
}

#[test]
fn a_victim_that_waits_for_its_volume_gives_way_and_is_not_deleted() {
    for is_too_late in [false, true] {
        let mut bench = Bench::with(&[("a", 1)]);
        bench.executor.planning.preempts = true;
        bench.executor.planning.provisions = true;
        bench.upsert(&pod("v"));
        bench.step();
        let waiting = bench.job();
        assert!(waiting.prepares() && !waiting.cancelled.is_cancelled());
        assert!(waiting.nominates, "it is expected there");
        bench.upsert(&important("p"));
        bench.step();
        bench.cancel();
        assert!(waiting.cancelled.is_cancelled());
        assert!(bench.evictions().is_empty());
        assert!(bench.reports().iter().any(|report| report.reason == "Preempted"));
        let outcome = match is_too_late {
            false => BindOutcome::NotBound(Why::Cancelled),
            true => BindOutcome::Bound,
        };
        bench.finish(waiting, outcome);
        bench.pass(20);
        bench.step();
        if is_too_late {
            assert_eq!(&*bench.evictions().remove(0).victims[0].name, "v", "it is bound, and has to go");
        } else {
            assert_eq!(&*bench.job().pod.name, "p");
            let told = bench.reports().iter().any(|report| {
                report.reason == "FailedScheduling"
                    && report.note.starts_with("preempted by a pod of higher priority")
            });
            assert!(told, "users are told why");
        }
    }
}
