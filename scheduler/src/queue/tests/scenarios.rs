//! The life of pods in the queue, case by case.

use super::*;

fn all(cluster: &mut Cluster) -> Vec<String> {
    std::iter::from_fn(|| cluster.pop()).collect()
}

#[test]
fn pods_are_popped_by_priority_and_then_by_age() {
    let mut cluster = Cluster::new();
    for (name, priority) in [("a", 0), ("b", 10), ("c", 0), ("d", 10), ("e", -5)] {
        cluster.add(name, priority);
        cluster.now += seconds(1);
    }
    assert_eq!(all(&mut cluster), ["b", "d", "a", "c", "e"]);
}

#[test]
fn pods_of_one_moment_are_popped_in_the_order_of_arrival() {
    let mut cluster = Cluster::new();
    for name in ["c", "a", "b"] {
        cluster.add(name, 0);
    }
    assert_eq!(all(&mut cluster), ["c", "a", "b"]);
}

#[test]
fn a_changed_priority_changes_the_order() {
    let mut cluster = Cluster::new();
    cluster.add("a", 0);
    cluster.add("b", 0);
    cluster.update(pod("b", 7, &plain()));
    assert_eq!(all(&mut cluster), ["b", "a"]);
}

#[test]
fn an_empty_queue_pops_nothing() {
    assert_eq!(Cluster::new().pop(), None);
}

#[test]
fn a_pod_is_popped_once() {
    let mut cluster = Cluster::new();
    cluster.add("a", 0);
    cluster.add("a", 0);
    assert_eq!(all(&mut cluster), ["a"]);
    cluster.add("a", 0);
    assert_eq!(cluster.pop(), None, "a pod in flight is not popped again");
}

#[test]
fn a_popped_pod_tells_its_attempts_and_times() {
    let mut cluster = Cluster::new();
    cluster.add("a", 0);
    let first = cluster.queue.pop(seconds(1001)).unwrap();
    assert_eq!((first.attempts, first.queued_at, first.first_active_at), (1, seconds(1000), seconds(1000)));
    cluster.now = seconds(1002);
    cluster.fail("a");
    let second = cluster.queue.pop(seconds(1002));
    assert!(second.is_none(), "errors are not tried again early");
    cluster.wait(seconds(3));
    let second = cluster.queue.pop(cluster.now).unwrap();
    assert_eq!(
        (second.attempts, second.queued_at, second.first_active_at),
        (2, seconds(1002), seconds(1000))
    );
}

#[test]
fn a_bound_pod_is_forgotten() {
    let mut cluster = Cluster::new();
    cluster.add("a", 0);
    cluster.pop();
    cluster.queue.done(&Uid::new("a"));
    assert!(cluster.queue.pod(&Uid::new("a")).is_none());
    assert_eq!(cluster.fail("a"), None);
    assert_eq!(cluster.queue.in_flight.len(), 0);
}

#[test]
fn done_leaves_pods_that_were_not_popped() {
    let mut cluster = Cluster::new();
    cluster.add("a", 0);
    cluster.queue.done(&Uid::new("a"));
    assert_eq!(cluster.pop().as_deref(), Some("a"));
}

#[test]
fn requeue_leaves_pods_that_were_not_popped() {
    let mut cluster = Cluster::new();
    cluster.add("a", 0);
    assert_eq!(cluster.fail("a"), None);
    assert_eq!(cluster.fail("unknown"), None);
    assert_eq!(cluster.place("a"), Some(QueueName::Active));
}

#[test]
fn deleted_pods_are_gone_wherever_they_were() {
    let mut cluster = Cluster::new();
    cluster.rejected("rejected", Plugin::NodeAffinity, &plain());
    cluster.add("failed", 0);
    cluster.pop();
    cluster.fail("failed");
    cluster.add_shaped("gated", 0, &gated(&["g"]));
    cluster.add("active", 0);
    for name in ["rejected", "failed", "gated", "active"] {
        assert!(cluster.place(name).is_some(), "{name}");
        cluster.delete(name);
        assert_eq!(cluster.place(name), None, "{name}");
    }
    assert_eq!(cluster.queue.pending(), Pending::default());
    cluster.wait(seconds(1000));
    assert_eq!(cluster.pop(), None);
}

#[test]
fn a_pod_that_is_deleted_in_flight_does_not_come_back() {
    let mut cluster = Cluster::new();
    cluster.add("a", 0);
    cluster.pop();
    cluster.delete("a");
    assert_eq!(cluster.reject("a", Plugin::NodeAffinity), None);
    assert_eq!(cluster.queue.pending(), Pending::default());
    assert_eq!(cluster.queue.in_flight.len(), 0);
    cluster.delete("a");
}

#[test]
fn rejected_pods_wait_for_an_event() {
    let mut cluster = Cluster::new();
    cluster.rejected("a", Plugin::NodePorts, &with_port(80));
    cluster.wait(seconds(100));
    assert_eq!(cluster.pop(), None);
    cluster.event(&pod_gone(&with_port(81)));
    assert_eq!(cluster.place("a"), Some(QueueName::Unschedulable));
    cluster.event(&pod_gone(&with_port(80)));
    assert_eq!(cluster.place("a"), Some(QueueName::Active));
}

#[test]
fn an_event_soon_after_the_attempt_leads_to_backoff() {
    let mut cluster = Cluster::new();
    cluster.rejected("a", Plugin::NodePorts, &with_port(80));
    cluster.event(&pod_gone(&with_port(80)));
    assert_eq!(cluster.place("a"), Some(QueueName::Backoff));
    cluster.wait(seconds(2));
    assert_eq!(cluster.place("a"), Some(QueueName::Active));
}

#[test]
fn errors_are_tried_again_after_their_backoff() {
    let mut cluster = Cluster::new();
    cluster.add("a", 0);
    cluster.pop();
    assert_eq!(cluster.fail("a"), Some(QueueName::Backoff));
    cluster.wait(Duration::from_millis(1900));
    assert_eq!(cluster.place("a"), Some(QueueName::Backoff));
    cluster.wait(Duration::from_millis(200));
    assert_eq!(cluster.place("a"), Some(QueueName::Active));
}

/// The seconds that `attempts` failed attempts take until the pod is active again.
fn backoff_after(attempts: u32, end: impl Fn(&mut Cluster)) -> u64 {
    let mut cluster = Cluster::new();
    cluster.add_shaped("a", 0, &with_port(80));
    let mut waited = 0;
    for _ in 0..attempts {
        assert_eq!(cluster.pop().as_deref(), Some("a"));
        end(&mut cluster);
        waited = 0;
        while cluster.place("a") == Some(QueueName::Backoff) {
            cluster.wait(seconds(1));
            waited += 1;
        }
    }
    waited
}

/// Ends the attempt of `a` with an error.
fn fail(cluster: &mut Cluster) {
    cluster.fail("a");
}

#[test]
fn backoff_doubles_with_errors_up_to_the_maximum() {
    // The window in which a backoff ends has to be over, too.
    let waited: Vec<_> = (1..=6).map(|n| backoff_after(n, fail)).collect();
    assert_eq!(waited, [2, 3, 5, 9, 11, 11]);
}

#[test]
fn backoff_doubles_with_rejections_up_to_the_maximum() {
    let reject = |cluster: &mut Cluster| {
        cluster.reject("a", Plugin::NodePorts);
        cluster.event(&pod_gone(&with_port(80)));
    };
    let waited: Vec<_> = (1..=6).map(|n| backoff_after(n, reject)).collect();
    assert_eq!(waited, [2, 3, 5, 9, 11, 11]);
}

#[test]
fn a_rejection_ends_a_row_of_errors() {
    let mut cluster = Cluster::new();
    cluster.add_shaped("a", 0, &with_port(80));
    for _ in 0..4 {
        cluster.pop();
        cluster.fail("a");
        cluster.wait(seconds(20));
    }
    cluster.pop();
    cluster.reject("a", Plugin::NodePorts);
    cluster.event(&pod_gone(&with_port(80)));
    cluster.wait(seconds(2));
    assert_eq!(cluster.place("a"), Some(QueueName::Active), "one rejection: one second, and its window");
}

#[test]
fn backoff_of_many_attempts_does_not_overflow() {
    assert_eq!(backoff_after(40, fail), 11);
}

#[test]
fn with_no_active_pod_the_soonest_in_backoff_is_popped() {
    let mut cluster = Cluster::new();
    cluster.rejected("a", Plugin::NodePorts, &with_port(80));
    cluster.event(&pod_gone(&with_port(80)));
    cluster.add("b", 0);
    assert_eq!(cluster.pop().as_deref(), Some("b"), "active pods come first");
    assert_eq!(cluster.pop().as_deref(), Some("a"));
    assert_eq!(cluster.queue.incoming().of(QueueName::Active, "PopFromBackoffQ"), 1);
}

#[test]
fn within_a_window_of_backoff_priority_decides() {
    let mut cluster = Cluster::new();
    for (name, priority) in [("low", 0), ("high", 9)] {
        cluster.add_shaped(name, priority, &with_port(80));
        cluster.pop();
        cluster.reject(name, Plugin::NodePorts);
        cluster.now += Duration::from_millis(10);
    }
    cluster.event(&pod_gone(&with_port(80)));
    assert_eq!(all(&mut cluster), ["high", "low"]);
}

#[test]
fn rejected_pods_are_tried_again_after_five_minutes() {
    let mut cluster = Cluster::new();
    cluster.rejected("a", Plugin::NodeAffinity, &plain());
    cluster.wait(seconds(300));
    assert_eq!(cluster.place("a"), Some(QueueName::Unschedulable));
    assert_eq!(cluster.queue.next_tick(), Some(cluster.now + Duration::from_nanos(1)));
    cluster.wait(seconds(1));
    assert_eq!(cluster.place("a"), Some(QueueName::Active));
    assert_eq!(cluster.queue.incoming().of(QueueName::Active, "UnschedulableTimeout"), 1);
}

#[test]
fn next_tick_names_the_end_of_the_first_window_of_backoff() {
    let mut cluster = Cluster::new();
    assert_eq!(cluster.queue.next_tick(), None);
    cluster.now += Duration::from_millis(300);
    cluster.add("a", 0);
    cluster.pop();
    cluster.fail("a");
    assert_eq!(cluster.queue.next_tick(), Some(seconds(1002)));
}

#[test]
fn gated_pods_wait_until_all_gates_are_gone() {
    let mut cluster = Cluster::new();
    cluster.add_shaped("a", 0, &gated(&["x", "y"]));
    assert_eq!(cluster.place("a"), Some(QueueName::Gated));
    cluster.wait(seconds(1000));
    cluster.event(&ClusterEvent::wildcard());
    cluster.update(pod("a", 0, &gated(&["y"])));
    assert_eq!((cluster.place("a"), cluster.pop()), (Some(QueueName::Gated), None));
    cluster.update(pod("a", 0, &plain()));
    assert_eq!(cluster.pop().as_deref(), Some("a"));
}

#[test]
fn gates_do_not_count_where_the_plugin_is_off() {
    let profiles = vec![only(Plugin::NodeResourcesFit)];
    let mut cluster = Cluster::with(QueueOptions { profiles, ..Default::default() });
    cluster.add_shaped("a", 0, &gated(&["x"]));
    assert_eq!(cluster.place("a"), Some(QueueName::Active));
}

#[test]
fn the_check_before_planning_gates_and_its_events_free() {
    let mut cluster = Cluster::new();
    cluster.refused.borrow_mut().insert("a".to_owned());
    cluster.add("a", 0);
    assert_eq!(cluster.place("a"), Some(QueueName::Gated));
    let class = crate::api::resource::v1::DeviceClass::default();
    let event = ClusterEvent::device_class(None, &class).unwrap();
    cluster.event(&event);
    assert_eq!(cluster.place("a"), Some(QueueName::Gated), "still refused");
    cluster.refused.borrow_mut().clear();
    cluster.event(&pod_gone(&plain()));
    assert_eq!(cluster.place("a"), Some(QueueName::Gated), "no event of that plugin");
    cluster.event(&event);
    assert_eq!(cluster.place("a"), Some(QueueName::Active));
}

#[test]
fn a_pod_may_be_gated_when_its_backoff_begins() {
    let mut cluster = Cluster::new();
    cluster.add("a", 0);
    cluster.pop();
    cluster.refused.borrow_mut().insert("a".to_owned());
    assert_eq!(cluster.fail("a"), Some(QueueName::Gated));
    cluster.refused.borrow_mut().clear();
    cluster.at(|queue, at| queue.activate(at, &Uid::new("a")));
    assert_eq!(cluster.place("a"), Some(QueueName::Active));
}

#[test]
fn a_pod_whose_victims_are_being_evicted_waits_for_that_and_for_an_event() {
    let mut cluster = Cluster::new();
    cluster.rejected("a", Plugin::NodePorts, &with_port(80));
    cluster.wait(seconds(60));
    let evicting = At { now: cluster.now, pre_enqueue: &|_| Some(Plugin::DefaultPreemption) };
    cluster.queue.event(evicting, &pod_gone(&with_port(80)));
    assert_eq!(cluster.place("a"), Some(QueueName::Gated));
    cluster.event(&pod_gone(&with_port(81)));
    assert_eq!(cluster.place("a"), Some(QueueName::Gated), "that pod was not in its way");
    cluster.queue.event(evicting, &pod_gone(&with_port(80)));
    assert_eq!(cluster.place("a"), Some(QueueName::Gated), "evictions go on");
    cluster.event(&pod_gone(&with_port(80)));
    assert_eq!(cluster.place("a"), Some(QueueName::Active));
}

#[test]
fn activation_needs_no_event() {
    let mut cluster = Cluster::new();
    cluster.rejected("rejected", Plugin::NodeAffinity, &plain());
    cluster.add("failed", 0);
    cluster.pop();
    cluster.fail("failed");
    for name in ["rejected", "failed", "unknown"] {
        cluster.at(|queue, at| queue.activate(at, &Uid::new(name)));
    }
    assert_eq!(cluster.queue.pending(), Pending { active: 2, ..Default::default() });
}

#[test]
fn activation_in_flight_is_remembered_for_that_pod_alone() {
    let mut cluster = Cluster::new();
    cluster.add("a", 0);
    cluster.add("b", 0);
    all(&mut cluster);
    cluster.at(|queue, at| queue.activate(at, &Uid::new("a")));
    assert_eq!(cluster.reject("b", Plugin::NodeAffinity), Some(QueueName::Unschedulable));
    assert_eq!(cluster.reject("a", Plugin::NodeAffinity), Some(QueueName::Backoff));
}

#[test]
fn an_event_in_flight_is_not_lost() {
    let mut cluster = Cluster::new();
    cluster.add_shaped("a", 0, &with_port(80));
    cluster.pop();
    cluster.event(&pod_gone(&with_port(80)));
    assert_eq!(cluster.reject("a", Plugin::NodePorts), Some(QueueName::Backoff));
}

#[test]
fn an_event_before_the_pop_was_seen_by_the_plan() {
    let mut cluster = Cluster::new();
    cluster.add_shaped("a", 0, &with_port(80));
    cluster.add("other", 5);
    cluster.pop();
    cluster.event(&pod_gone(&with_port(80)));
    cluster.pop();
    assert_eq!(cluster.reject("a", Plugin::NodePorts), Some(QueueName::Unschedulable));
}

#[test]
fn an_event_in_flight_that_cannot_help_leaves_the_pod_rejected() {
    let mut cluster = Cluster::new();
    cluster.add_shaped("a", 0, &with_port(80));
    cluster.pop();
    cluster.event(&pod_gone(&with_port(81)));
    assert_eq!(cluster.reject("a", Plugin::NodePorts), Some(QueueName::Unschedulable));
}

#[test]
fn an_update_in_flight_is_not_lost() {
    let mut cluster = Cluster::new();
    let labelled = |value: &str| {
        let labels = [("a".to_owned(), value.to_owned())].into();
        Arc::new(PodShape { namespace: "ns".to_owned(), labels, ..Default::default() })
    };
    cluster.add_shaped("a", 0, &labelled("1"));
    cluster.add_shaped("b", 0, &labelled("1"));
    all(&mut cluster);
    cluster.update(pod("a", 3, &labelled("2")));
    assert_eq!(cluster.reject("b", Plugin::InterPodAffinity), Some(QueueName::Unschedulable));
    assert_eq!(cluster.reject("a", Plugin::InterPodAffinity), Some(QueueName::Backoff));
    assert_eq!(cluster.queue.pod(&Uid::new("a")).map(|pod| pod.priority), Some(3));
}

#[test]
fn an_event_that_a_pending_plugin_waits_for_skips_the_backoff() {
    let mut cluster = Cluster::new();
    cluster.add_shaped("a", 0, &with_port(80));
    cluster.pop();
    let rejection = Rejection { unschedulable: only(Plugin::NodeAffinity), pending: only(Plugin::NodePorts) };
    assert_eq!(cluster.requeue("a", rejection), Some(QueueName::Unschedulable));
    cluster.event(&pod_gone(&with_port(80)));
    assert_eq!(cluster.place("a"), Some(QueueName::Active));
}

#[test]
fn events_that_a_pending_plugin_waits_for_count_in_flight_too() {
    let mut cluster = Cluster::new();
    cluster.add_shaped("a", 0, &with_port(80));
    cluster.pop();
    cluster.event(&pod_gone(&with_port(80)));
    let rejection = Rejection { unschedulable: Rejectors::NONE, pending: only(Plugin::NodePorts) };
    assert_eq!(cluster.requeue("a", rejection), Some(QueueName::Active));
}

#[test]
fn profiles_differ_in_what_helps() {
    let profiles = vec![Rejectors::all(), only(Plugin::NodeAffinity)];
    let mut cluster = Cluster::with(QueueOptions { profiles, ..Default::default() });
    for (name, profile) in [("a", 0), ("b", 1)] {
        let facts = Arc::new(pod(name, 0, &with_port(80)));
        cluster.at(|queue, at| queue.add(at, facts, profile));
        cluster.pop();
        cluster.reject(name, Plugin::NodePorts);
    }
    cluster.event(&pod_gone(&with_port(80)));
    assert_eq!(cluster.place("a"), Some(QueueName::Backoff));
    assert_eq!(cluster.place("b"), Some(QueueName::Unschedulable), "its profile does not have the plugin");
}

#[test]
fn deletion_of_a_nominated_pod_helps_pods_of_its_priority_at_most() {
    let mut cluster = Cluster::new();
    for (name, priority) in [("low", 1), ("high", 9)] {
        cluster.add_shaped(name, priority, &with_port(80));
        cluster.pop();
        cluster.reject(name, Plugin::NodePorts);
    }
    cluster.add_shaped("nominated", 5, &with_port(80));
    let nominated = cluster.queue.pod(&Uid::new("nominated")).unwrap().clone();
    cluster.queue.nominator_mut().nominate(nominated, "n");
    cluster.delete("nominated");
    assert!(cluster.queue.nominator().is_empty());
    assert_eq!(cluster.place("low"), Some(QueueName::Backoff));
    assert_eq!(cluster.place("high"), Some(QueueName::Unschedulable));
}

#[test]
fn a_pod_comes_in_with_the_nomination_of_its_status() {
    let mut cluster = Cluster::new();
    let facts = PodFacts { nominated_node_name: "n".into(), ..pod("a", 0, &plain()) };
    cluster.update(facts);
    assert_eq!(cluster.queue.nominator().node_of(&Uid::new("a")), Some("n"));
    cluster.pop();
    cluster.queue.done(&Uid::new("a"));
    assert!(cluster.queue.nominator().is_empty());
}

#[test]
fn counts_say_where_pods_are_and_how_they_came_there() {
    let mut cluster = Cluster::new();
    cluster.rejected("rejected", Plugin::NodeAffinity, &plain());
    cluster.rejected("another", Plugin::NodeAffinity, &with_port(80));
    cluster.add("failed", 0);
    cluster.pop();
    cluster.fail("failed");
    cluster.add_shaped("gated", 0, &gated(&["g"]));
    cluster.add("active", 0);
    let pending = Pending { active: 1, backoff: 1, unschedulable: 2, gated: 1 };
    assert_eq!(cluster.queue.pending(), pending);
    let rejected = cluster.queue.rejected();
    assert_eq!(rejected.get(&(0, Plugin::NodeAffinity.into())), Some(&2));
    assert_eq!(rejected.get(&(0, Plugin::SchedulingGates.into())), Some(&1));
    let incoming = cluster.queue.incoming();
    assert_eq!(incoming.of(QueueName::Active, "UnschedulablePodAdd"), 4);
    assert_eq!(incoming.of(QueueName::Unschedulable, "ScheduleAttemptFailure"), 2);
    assert_eq!(incoming.of(QueueName::Unschedulable, "UnschedulablePodAdd"), 1);
    assert_eq!(incoming.of(QueueName::Backoff, "ScheduleAttemptFailure"), 1);
}

#[test]
fn an_update_of_a_rejected_pod_may_regroup_it() {
    let mut cluster = Cluster::new();
    cluster.rejected("a", Plugin::NodePorts, &with_port(80));
    cluster.update(pod("a", 0, &with_port(81)));
    assert_eq!(cluster.place("a"), Some(QueueName::Unschedulable));
    cluster.event(&pod_gone(&with_port(80)));
    assert_eq!(cluster.place("a"), Some(QueueName::Unschedulable));
    cluster.event(&pod_gone(&with_port(81)));
    assert_eq!(cluster.place("a"), Some(QueueName::Backoff));
}

#[test]
fn waking_many_of_one_shape_keeps_their_order() {
    let mut cluster = Cluster::new();
    let shape = with_port(80);
    for number in 0..100 {
        cluster.rejected(&format!("p{number:03}"), Plugin::NodePorts, &shape);
    }
    cluster.wait(seconds(60));
    cluster.event(&pod_gone(&shape));
    let popped = all(&mut cluster);
    assert_eq!(popped.len(), 100);
    assert!(popped.is_sorted());
}

#[test]
fn a_pod_that_is_set_aside_is_not_popped_before_its_time() {
    let mut cluster = Cluster::new();
    cluster.add("a", 0);
    assert_eq!(cluster.pop().as_deref(), Some("a"));
    let until = cluster.now + seconds(4);
    let place = cluster.at(|queue, at| queue.set_aside(at, &Uid::new("a"), until));
    assert_eq!(place, Some(QueueName::Backoff));
    assert_eq!(cluster.pop(), None, "there is nothing better to do, but it waits");
    cluster.wait(seconds(3));
    assert_eq!(cluster.pop(), None);
    cluster.wait(seconds(2));
    let popped = cluster.queue.pop(cluster.now).unwrap();
    assert_eq!((&*popped.facts.name, popped.attempts), ("a", 1), "being set aside was no attempt");
    assert_eq!(cluster.fail("a"), Some(QueueName::Backoff));
    cluster.wait(seconds(2));
    let popped = cluster.queue.pop(cluster.now).unwrap();
    assert_eq!(&*popped.facts.name, "a", "its first backoff: being set aside was no failure");
    assert_eq!(popped.attempts, 2, "and no attempt");
}
