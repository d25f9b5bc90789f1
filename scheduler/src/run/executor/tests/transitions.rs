//! States of a pod, and the inputs that change them.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use tracing_subscriber::layer::SubscriberExt;

use super::super::super::binding::{BindOutcome, Why};
use super::super::super::event::Severity;
use super::super::super::input::{Input, Patching};
use super::super::super::stored::{Followed, Stored};
use super::{Bench, gated, node, on_node, pod, uid};
use crate::api::core::v1::PodCondition;
use crate::api::meta::v1::Time;

#[test]
fn a_pod_is_planned_assumed_bound_and_confirmed() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.upsert(&pod("p"));
    assert!(bench.step());
    let job = bench.job();
    assert_eq!((&*job.node, &*job.pod.name, job.attempts), ("a", "p", 1));
    assert_eq!(bench.taken("a"), 1, "assumed at once");
    bench.finish(job, BindOutcome::Bound);
    let reports = bench.reports();
    assert_eq!((reports[0].reason, reports[0].action), ("Scheduled", "Binding"));
    assert_eq!(reports[0].note, "Successfully assigned default/p to a");
    assert_eq!(reports[0].severity, Severity::Normal);
    assert_eq!(bench.taken("a"), 1, "until the watch confirms it");
    bench.upsert(&on_node("p", "a"));
    assert_eq!(bench.taken("a"), 1);
    assert!(!bench.executor.planning().is_assumed("uid-p"));
    assert!(!bench.step());
}

#[test]
fn the_watch_may_confirm_before_the_job_ends() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.upsert(&pod("p"));
    bench.step();
    let job = bench.job();
    bench.upsert(&on_node("p", "a"));
    bench.finish(job, BindOutcome::Bound);
    assert_eq!(bench.taken("a"), 1);
    assert!(!bench.step());
    assert_eq!(bench.executor.bindings(), 0);
}

#[test]
fn an_old_state_that_the_watch_tells_late_does_not_bring_a_bound_pod_back() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.upsert(&pod("p"));
    bench.step();
    let job = bench.job();
    bench.finish(job, BindOutcome::Bound);
    let mut old = pod("p");
    old.metadata.as_mut().unwrap().labels.insert("x".to_owned(), "y".to_owned());
    bench.upsert(&old);
    assert!(!bench.step());
    assert_eq!(bench.taken("a"), 1);
}

#[test]
fn a_room_that_is_assumed_is_not_given_twice() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.upsert(&pod("p"));
    bench.upsert(&pod("q"));
    bench.step();
    bench.step();
    assert_eq!(bench.jobs().len(), 1);
    assert_eq!(bench.place("q"), Some("unschedulable"));
}

#[test]
fn a_refused_binding_gives_the_room_back_and_the_pod_to_the_queue() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.upsert(&pod("p"));
    bench.step();
    let job = bench.job();
    bench.finish(job, BindOutcome::NotBound(Why::Refused("no".to_owned())));
    assert_eq!(bench.taken("a"), 0);
    assert_eq!(bench.place("p"), Some("backoff"));
    let patches = bench.patches();
    assert_eq!(patches[0].1["status"]["conditions"][0]["reason"], "SchedulerError");
    assert_eq!(bench.reports()[0].reason, "FailedScheduling");
    bench.pass(20);
    bench.step();
    assert_eq!(bench.job().attempts, 2);
}

#[test]
fn a_freed_room_wakes_a_pod_that_had_none() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.upsert(&pod("p"));
    bench.upsert(&pod("q"));
    bench.step();
    bench.step();
    let job = bench.job();
    bench.delete("p");
    assert_eq!(bench.taken("a"), 0);
    bench.pass(20);
    bench.step();
    assert_eq!(&*bench.job().pod.name, "q");
    bench.finish(job, BindOutcome::NotBound(Why::Gone));
    assert_eq!(bench.taken("a"), 1);
}

#[test]
fn a_pod_that_is_deleted_while_it_is_bound_leaves_nothing() {
    for outcome in
        [BindOutcome::Bound, BindOutcome::NotBound(Why::Gone), BindOutcome::NotBound(Why::NotLeading)]
    {
        let mut bench = Bench::with(&[("a", 1)]);
        bench.upsert(&pod("p"));
        bench.step();
        let job = bench.job();
        bench.delete("p");
        bench.finish(job, outcome.clone());
        assert_eq!((bench.taken("a"), bench.executor.bindings()), (0, 0), "{outcome:?}");
        bench.pass(20);
        assert!(!bench.step(), "{outcome:?}");
    }
}

#[test]
fn a_pod_that_is_gone_before_the_watch_tells_leaves_nothing() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.upsert(&pod("p"));
    bench.step();
    let job = bench.job();
    bench.finish(job, BindOutcome::NotBound(Why::Gone));
    bench.delete("p");
    assert_eq!(bench.taken("a"), 0);
    bench.pass(20);
    assert!(!bench.step());
}

#[test]
fn a_pod_that_another_scheduler_bound_is_counted_where_it_is() {
    let mut bench = Bench::with(&[("a", 1), ("b", 1)]);
    bench.upsert(&pod("p"));
    bench.step();
    let job = bench.job();
    bench.upsert(&on_node("p", "b"));
    assert_eq!((bench.taken("a"), bench.taken("b")), (0, 1));
    bench.finish(job, BindOutcome::NotBound(Why::Taken("b".to_owned())));
    assert_eq!((bench.taken("a"), bench.taken("b")), (0, 1));
    bench.pass(20);
    assert!(!bench.step());
}

#[test]
fn the_job_may_see_before_the_watch_that_another_bound_the_pod() {
    let mut bench = Bench::with(&[("a", 1), ("b", 1)]);
    bench.upsert(&pod("p"));
    bench.step();
    let job = bench.job();
    bench.finish(job, BindOutcome::NotBound(Why::Taken("b".to_owned())));
    assert_eq!(bench.taken("a"), 0);
    bench.upsert(&on_node("p", "b"));
    assert_eq!((bench.taken("a"), bench.taken("b")), (0, 1));
}

#[test]
fn a_queued_pod_that_another_scheduler_binds_is_not_planned() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.upsert(&pod("p"));
    bench.upsert(&on_node("p", "a"));
    assert!(!bench.step());
    assert_eq!(bench.taken("a"), 1);
}

#[test]
fn a_node_that_vanishes_takes_no_new_pod_and_keeps_the_old_ones_in_mind() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.upsert(&on_node("old", "a"));
    let key = crate::client::ObjectKey::new("", "a");
    bench.tell(Input::Delete(Stored::Node(Box::new(node("a", 2))), key));
    bench.upsert(&pod("p"));
    bench.step();
    assert!(bench.jobs().is_empty());
    bench.tell(Input::Upsert(Stored::Node(Box::new(node("a", 2)))));
    assert_eq!(bench.taken("a"), 1);
    bench.pass(20);
    bench.step();
    assert_eq!(&*bench.job().node, "a");
}

#[test]
fn a_name_that_comes_back_is_another_pod() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.upsert(&pod("p"));
    bench.step();
    let job = bench.job();
    let mut second = pod("p");
    second.metadata.as_mut().unwrap().uid = "uid-second".to_owned();
    // The watch missed the deletion: only the new incarnation is told.
    bench.upsert(&second);
    assert_eq!(bench.taken("a"), 0);
    bench.finish(job, BindOutcome::NotBound(Why::Gone));
    bench.step();
    assert_eq!(&*bench.job().pod.uid, "uid-second");
}

#[test]
fn pods_of_other_schedulers_are_left_alone_until_they_have_a_node() {
    let mut bench = Bench::with(&[("a", 1)]);
    let mut other = pod("p");
    other.spec.as_mut().unwrap().scheduler_name = "other".to_owned();
    bench.upsert(&other);
    assert!(!bench.step());
    other.spec.as_mut().unwrap().node_name = "a".to_owned();
    bench.upsert(&other);
    assert_eq!(bench.taken("a"), 1);
}

#[test]
fn each_profile_plans_its_pods_and_signs_its_events() {
    let mut bench = Bench::with(&[("a", 1)]);
    let mut second = pod("p");
    second.spec.as_mut().unwrap().scheduler_name = "second".to_owned();
    bench.upsert(&second);
    bench.step();
    let job = bench.job();
    assert_eq!(job.profile, 1);
    bench.finish(job, BindOutcome::Bound);
    assert_eq!(&*bench.reports()[0].controller, "second");
}

#[test]
fn finished_pods_free_their_room() {
    for phase in ["Succeeded", "Failed"] {
        let mut bench = Bench::with(&[("a", 1)]);
        let mut done = on_node("p", "a");
        bench.upsert(&done);
        done.status.as_mut().unwrap().phase = phase.to_owned();
        bench.upsert(&done);
        assert_eq!(bench.taken("a"), 0);
        bench.delete("p");
    }
}

#[test]
fn a_pod_that_is_being_deleted_needs_no_node() {
    let mut bench = Bench::with(&[("a", 1)]);
    let mut ending = pod("p");
    bench.upsert(&ending);
    ending.metadata.as_mut().unwrap().deletion_timestamp = Some(Time { seconds: 1, nanos: 0 });
    bench.upsert(&ending);
    assert!(!bench.step());
}

#[test]
fn a_pod_without_a_node_is_reported_once() {
    let mut bench = Bench::with(&[("a", 0)]);
    bench.upsert(&pod("p"));
    bench.step();
    let patches = bench.patches();
    let condition = &patches[0].1["status"]["conditions"][0];
    assert_eq!(condition["reason"], "Unschedulable");
    assert_eq!(condition["message"], "0/1 nodes are available");
    assert_eq!(bench.reports()[0].reason, "FailedScheduling");
    bench.pass(301);
    bench.step();
    assert_eq!(bench.patches(), [], "the watch has not told it yet, but it is written");
    assert_eq!(bench.reports().len(), 1, "events become a series");
}

#[test]
fn a_condition_that_the_status_has_already_is_not_written() {
    let mut bench = Bench::with(&[("a", 0)]);
    let mut told = pod("p");
    told.status.as_mut().unwrap().conditions.push(PodCondition {
        r#type: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: "Unschedulable".to_owned(),
        message: "0/1 nodes are available".to_owned(),
        ..PodCondition::default()
    });
    bench.upsert(&told);
    bench.step();
    assert_eq!(bench.patches(), []);
}

#[test]
fn a_patch_that_failed_is_written_again() {
    let mut bench = Bench::with(&[("a", 0)]);
    bench.upsert(&pod("p"));
    bench.step();
    assert_eq!(bench.patches().len(), 1);
    bench.tell(Input::Patched { uid: uid("p").0, outcome: Patching::NotLeading });
    assert_eq!(bench.patches(), [], "the next leader tells");
    bench.pass(301);
    bench.step();
    assert_eq!(bench.patches().len(), 1);
    bench.tell(Input::Patched { uid: uid("p").0, outcome: Patching::Failed });
    assert_eq!(bench.patches().len(), 1, "at once: the pod may not be planned for long");
    bench.tell(Input::Patched { uid: uid("p").0, outcome: Patching::Done });
    assert_eq!(bench.patches(), []);
}

#[test]
fn a_gated_pod_is_never_planned_and_says_so() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.upsert(&gated(pod("p")));
    assert!(!bench.step());
    assert_eq!(bench.place("p"), Some("gated"));
    let patches = bench.patches();
    assert_eq!(patches[0].1["status"]["conditions"][0]["reason"], json!("SchedulingGated"));
    bench.upsert(&pod("p"));
    bench.step();
    assert_eq!(&*bench.job().node, "a");
}

#[test]
fn an_error_of_the_planner_leads_to_backoff() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.executor.planning.fails = true;
    bench.upsert(&pod("p"));
    bench.step();
    assert_eq!(bench.place("p"), Some("backoff"));
    let patches = bench.patches();
    let condition = &patches[0].1["status"]["conditions"][0];
    assert_eq!(condition["message"], "running \"NodePorts\" filter plugin: broken");
}

/// Log lines of a test.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn planning_that_fails_for_every_pod_is_logged_once_in_ten_seconds_and_names_a_pod() {
    let lines = Lines::default();
    let written = lines.clone();
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || written.clone());
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        let mut bench = Bench::with(&[("a", 1)]);
        bench.executor.planning.fails = true;
        for name in ["p", "q", "r"] {
            bench.upsert(&pod(name));
        }
        for _ in 0..3 {
            bench.step();
        }
        bench.pass(20);
        bench.step();
    });
    let text = String::from_utf8(lines.0.lock().clone()).unwrap();
    let failed: Vec<&str> = text.lines().filter(|line| line.contains("planning failed")).collect();
    assert_eq!(failed.len(), 2, "{text}");
    assert!(failed[0].contains("namespace=\"default\" name=\"p\""), "{text}");
    assert!(failed[1].contains("left_out=2"), "{text}");
}

/// A pod that the API says is nominated to `a`.
fn nominated(name: &str) -> crate::api::core::v1::Pod {
    let mut pod = pod(name);
    pod.status.as_mut().unwrap().nominated_node_name = "a".to_owned();
    pod
}

/// The nomination of `p` was taken back: in the plan, in the queue and in the API.
fn assert_nomination_is_cleared(bench: &mut Bench) {
    assert_eq!(bench.executor.planning().nominated("uid-p"), None);
    assert_eq!(bench.executor.queue().nominator().node_of(&uid("p")), None);
    let patches = bench.patches();
    let status = patches[0].1["status"].as_object().unwrap();
    assert!(status.get("nominatedNodeName").is_some_and(serde_json::Value::is_null), "{status:?}");
}

#[test]
fn an_error_of_the_planner_takes_a_nomination_back() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.executor.planning.fails = true;
    bench.upsert(&nominated("p"));
    assert_eq!(bench.executor.planning().nominated("uid-p"), Some("a"));
    bench.step();
    assert_nomination_is_cleared(&mut bench);
}

#[test]
fn a_refused_binding_takes_a_nomination_back_and_lost_leadership_does_not() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.upsert(&nominated("p"));
    bench.step();
    let job = bench.job();
    bench.finish(job, BindOutcome::NotBound(Why::NotLeading));
    assert_eq!(bench.executor.planning().nominated("uid-p"), Some("a"));
    assert!(bench.patches()[0].1["status"].get("nominatedNodeName").is_none());
    bench.pass(20);
    bench.step();
    let job = bench.job();
    bench.finish(job, BindOutcome::NotBound(Why::Refused("no".to_owned())));
    assert_nomination_is_cleared(&mut bench);
}

#[test]
fn a_nomination_that_its_job_wrote_is_taken_back_and_one_that_it_could_not_write_is_none() {
    for is_written in [true, false] {
        let mut bench = Bench::with(&[("a", 1)]);
        bench.executor.planning.provisions = true;
        bench.upsert(&pod("p"));
        bench.step();
        let mut job = bench.job();
        assert!(job.nominates);
        job.nominates = is_written;
        bench.finish(job, BindOutcome::NotBound(Why::Refused("no".to_owned())));
        let patches = bench.patches();
        let status = patches[0].1["status"].as_object().unwrap();
        assert_eq!(status.contains_key("nominatedNodeName"), is_written, "{status:?}");
    }
}

#[test]
fn the_room_for_jobs_is_bounded() {
    let many = u32::try_from(super::super::BINDINGS_MAX).unwrap() + 1;
    let mut bench = Bench::with(&[("a", many)]);
    for index in 0..many {
        bench.upsert(&pod(&format!("p{index}")));
    }
    while bench.executor.has_room() {
        assert!(bench.step());
    }
    let mut jobs = bench.jobs();
    assert_eq!(jobs.len(), super::super::BINDINGS_MAX);
    let first = jobs.remove(0);
    bench.finish(first, BindOutcome::Bound);
    assert!(bench.executor.has_room());
}

#[test]
fn a_view_that_is_distrusted_counts_again_once_every_kind_was_listed_since() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.executor.distrust(2);
    for kind in Followed::ALL {
        // A list that began before the request proves nothing.
        bench.tell(Input::Synced(*kind, 1));
        assert!(!bench.executor.is_synced());
    }
    for kind in Followed::ALL {
        assert!(!bench.executor.is_synced());
        bench.tell(Input::Synced(*kind, 2));
    }
    assert!(bench.executor.is_synced());
}

#[test]
fn a_pod_that_extenders_refused_waits_for_any_event() {
    let mut bench = Bench::with(&[("a", 0)]);
    bench.executor.planning.has_extenders = true;
    bench.upsert(&pod("p"));
    assert!(bench.step());
    assert_eq!(bench.place("p"), Some("unschedulable"), "time alone does not help it");
    bench.pass(60);
    assert_eq!(bench.place("p"), Some("unschedulable"));
    // Nobody knows what extenders look at.
    bench.tell(Input::Upsert(Stored::Node(Box::new(node("b", 0)))));
    assert_eq!(bench.place("p"), Some("active"));
}

#[test]
fn a_pod_that_is_being_deleted_does_not_come_back_from_its_job() {
    for why in [Why::Refused("no".to_owned()), Why::NotLeading] {
        let mut bench = Bench::with(&[("a", 1)]);
        bench.upsert(&pod("p"));
        bench.step();
        let job = bench.job();
        let mut ending = pod("p");
        ending.metadata.as_mut().unwrap().deletion_timestamp = Some(Time::default());
        bench.upsert(&ending);
        bench.finish(job, BindOutcome::NotBound(why.clone()));
        assert_eq!((bench.taken("a"), bench.place("p")), (0, None), "{why:?}");
        bench.pass(20);
        assert!(!bench.step(), "{why:?}");
    }
}

#[test]
fn room_that_was_assumed_in_vain_wakes_those_who_wait_for_it() {
    // The watch and the job tell in either order that another scheduler bound the pod elsewhere.
    for watch_is_first in [true, false] {
        let mut bench = Bench::with(&[("a", 1), ("b", 1)]);
        bench.upsert(&pod("p"));
        bench.step();
        let job = bench.job();
        assert_eq!(&*job.node, "a");
        bench.tell(Input::Upsert(Stored::Node(Box::new(node("b", 0)))));
        bench.upsert(&pod("q"));
        bench.step();
        assert_eq!(bench.place("q"), Some("unschedulable"));
        let taken = BindOutcome::NotBound(Why::Taken("b".to_owned()));
        if watch_is_first {
            bench.upsert(&on_node("p", "b"));
            bench.finish(job, taken);
        } else {
            bench.finish(job, taken);
            bench.upsert(&on_node("p", "b"));
        }
        bench.pass(20);
        assert_eq!(bench.place("q"), Some("active"), "{watch_is_first}");
    }
}

#[test]
fn jobs_that_wait_for_volumes_do_not_hold_up_others() {
    let many = u32::try_from(super::super::BINDINGS_MAX).unwrap() + 1;
    let mut bench = Bench::with(&[("a", many)]);
    bench.executor.planning.provisions = true;
    for index in 0..super::super::BINDINGS_MAX {
        bench.upsert(&pod(&format!("p{index}")));
        assert!(bench.step());
    }
    assert!(bench.executor.has_room(), "a slow provisioner does not stop the scheduler");
    bench.executor.planning.provisions = false;
    bench.upsert(&pod("quick"));
    assert!(bench.step());
    let jobs = bench.jobs();
    assert_eq!(bench.executor.bindings(), jobs.len());
    for job in jobs {
        bench.finish(job, BindOutcome::Bound);
    }
    assert_eq!(bench.executor.bindings(), 0);
}
