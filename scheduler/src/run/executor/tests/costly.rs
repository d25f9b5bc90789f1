//! Pods whose claims take long to plan: they are set aside, others go on.

use super::*;

fn in_namespace(name: &str, namespace: &str) -> Pod {
    let mut pod = pod(name);
    pod.metadata.as_mut().unwrap().namespace = namespace.to_owned();
    pod
}

impl Bench {
    /// Plans with pods whose claims take so many steps; none have claims otherwise.
    fn step_with(&mut self, claim_steps: Option<u64>) {
        self.executor.planning.claim_steps = claim_steps;
        assert!(self.step());
    }
}

#[test]
fn a_pod_waits_for_its_turn_behind_a_costly_one_of_its_namespace() {
    let mut bench = Bench::with(&[("a", 10)]);
    bench.pass(1);
    for (name, namespace) in [("one", "tenant"), ("two", "tenant"), ("three", "tenant")] {
        bench.upsert(&in_namespace(name, namespace));
    }
    bench.step_with(Some(10_000_000));
    assert_eq!(
        &*bench.job().pod.name,
        "one",
        "a second of planning: the next ones wait for it, and for four more"
    );
    bench.step_with(Some(0));
    bench.step_with(Some(0));
    assert!(bench.jobs().is_empty());
    assert_eq!((bench.place("two"), bench.place("three")), (Some("backoff"), Some("backoff")));
    let told = bench.reports();
    assert!(told.iter().all(|report| report.note.starts_with("set aside for a while")) && told.len() == 2);
    bench.upsert(&in_namespace("honest", "other"));
    bench.step_with(Some(100));
    assert_eq!(&*bench.job().pod.name, "honest");
    bench.pass(3);
    assert!(!bench.step(), "no event and no idle time brings them back earlier");
    bench.pass(3);
    bench.step_with(Some(10_000_000));
    assert_eq!(bench.jobs().len(), 1);
    bench.step_with(Some(0));
    assert!(bench.jobs().is_empty(), "the other one waits again");
    assert!(bench.reports().iter().all(|report| report.reason != "FailedScheduling"), "it was told before");
}

#[test]
fn pods_without_claims_never_wait_for_costly_ones() {
    let mut bench = Bench::with(&[("a", 10)]);
    bench.upsert(&in_namespace("one", "tenant"));
    bench.step_with(Some(10_000_000));
    bench.upsert(&in_namespace("two", "tenant"));
    bench.step_with(None);
    assert_eq!(bench.jobs().len(), 2);
}
