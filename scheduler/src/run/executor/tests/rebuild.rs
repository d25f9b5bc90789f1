//! A rebuild loses no pod and binds none twice.

use super::super::super::binding::{BindOutcome, Why};
use super::super::super::input::Input;
use super::super::super::stored::{Followed, Stored};
use super::{Bench, Wear, node, on_node, pod};

/// The tables that only grow take so much.
fn wear(bench: &mut Bench, bytes: usize) {
    bench.executor.planning.worn = bytes;
}

fn sync(bench: &mut Bench, request: u64) {
    for kind in Followed::ALL {
        bench.tell(Input::Synced(*kind, request));
    }
}

#[test]
fn it_is_due_when_what_only_grows_outweighs_what_is_there() {
    let mut bench = Bench::new();
    let mut at = |bytes: usize| {
        wear(&mut bench, bytes);
        bench.executor.wear()
    };
    assert_eq!([3, 4, 12, 13].map(&mut at), [Wear::Light, Wear::Worn, Wear::Worn, Wear::Heavy]);
    bench.executor.rebuild(1);
    assert_eq!(bench.executor.wear(), Wear::Light);
    wear(&mut bench, 10);
    assert_eq!(bench.executor.wear(), Wear::Light, "as long as it is not known how much is there");
    sync(&mut bench, 0);
    assert!(!bench.executor.is_synced(), "lists that began before say nothing");
    sync(&mut bench, 1);
    assert!(bench.executor.is_synced());
    wear(&mut bench, 20);
    assert_eq!(bench.executor.wear(), Wear::Light, "twice what is there");
    wear(&mut bench, 21);
    assert_eq!(bench.executor.wear(), Wear::Worn);
    // A take-over lists again, which is no measure of what is there: nothing was forgotten.
    bench.executor.distrust(2);
    sync(&mut bench, 2);
    assert_eq!(bench.executor.wear(), Wear::Worn);
}

#[test]
fn counters_go_on() {
    let incoming =
        |bench: &Bench| bench.executor.queue().incoming().iter().map(|(.., count)| count).sum::<u64>();
    let mut bench = Bench::with(&[("a", 1)]);
    bench.upsert(&pod("p"));
    let before = incoming(&bench);
    assert!(before > 0);
    bench.executor.rebuild(1);
    assert_eq!(incoming(&bench), before);
}

#[test]
fn the_job_of_a_pod_that_is_gone_or_elsewhere_does_not_wait() {
    for is_deleted in [true, false] {
        let mut bench = Bench::with(&[("a", 1), ("b", 1)]);
        bench.executor.planning.provisions = true;
        bench.upsert(&pod("p"));
        bench.step();
        let job = bench.job();
        match is_deleted {
            true => bench.delete("p"),
            false => bench.upsert(&on_node("p", "b")),
        }
        bench.cancel();
        assert!(job.cancelled.is_cancelled(), "deleted: {is_deleted}");
        assert_eq!(bench.executor.preparing(), 1);
        bench.finish(job, BindOutcome::NotBound(Why::Cancelled));
        assert_eq!(bench.executor.preparing(), 0);
        assert!(bench.reports().is_empty(), "nobody is told of a pod that needs no node");
        bench.executor.rebuild(1);
    }
}

#[test]
fn pods_known_before_are_forgotten_and_pods_told_again_are_planned() {
    let mut bench = Bench::with(&[("a", 2), ("gone", 1)]);
    bench.upsert(&on_node("old", "a"));
    for name in ["p", "q", "r"] {
        bench.upsert(&pod(name));
    }
    while bench.step() {}
    for job in bench.jobs() {
        bench.finish(job, BindOutcome::Bound);
    }
    assert_eq!((bench.taken("a"), bench.place("r")), (2, Some("unschedulable")));
    bench.executor.rebuild(1);
    assert_eq!((bench.taken("a"), bench.place("r")), (0, None));
    assert!(!bench.executor.is_synced());
    // What a watch told before the list may be old, and is told before it.
    bench.upsert(&pod("p"));
    bench.tell(Input::Upsert(Stored::Node(Box::new(node("a", 2)))));
    bench.upsert(&on_node("p", "a"));
    bench.upsert(&pod("r"));
    bench.delete("never told");
    sync(&mut bench, 1);
    assert!(bench.step(), "r has room: the other pod is gone");
    let job = bench.job();
    assert_eq!((&*job.pod.name, &*job.node, bench.taken("a")), ("r", "a", 2));
    assert!(!bench.step());
}

#[test]
fn jobs_that_still_wait_are_told_to_end_once() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.executor.planning.provisions = true;
    bench.upsert(&pod("p"));
    bench.step();
    let job = bench.job();
    let (mut effects, token) = (Vec::new(), job.cancelled.clone());
    bench.executor.cancel_preparing(&mut effects);
    bench.executor.cancel_preparing(&mut effects);
    assert_eq!(effects.len(), 1);
    bench.effects.append(&mut effects);
    bench.cancel();
    assert!(token.is_cancelled());
    bench.finish(job, BindOutcome::NotBound(Why::Cancelled));
    assert_eq!((bench.executor.bindings(), bench.taken("a")), (0, 0));
    let reports = bench.reports();
    let report = reports.iter().find(|report| report.reason == "FailedScheduling").expect("users are told");
    assert!(report.note.contains("was interrupted"), "{}", report.note);
    bench.executor.rebuild(1);
}

#[test]
#[should_panic(expected = "would find its pod unknown")]
fn a_job_under_way_is_never_forgotten() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.upsert(&pod("p"));
    bench.step();
    bench.executor.rebuild(1);
}
