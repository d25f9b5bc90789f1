//! The cost of the scheduler's queue, with 100,000 pods.
//!
//! Prints one line for each figure, by the processor time of this thread. Run with `cargo bench -p orch-scheduler --bench queue`. Nothing is asserted: figures
//! of one machine and one moment.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark")]

#[path = "plan/clock.rs"]
mod clock;

use std::sync::Arc;
use std::time::Duration;

use orch_scheduler::plugin::Plugin;
use orch_scheduler::queue::event::ClusterEvent;
use orch_scheduler::queue::pod::HostPort;
use orch_scheduler::queue::{
    At, NodeFacts, PodFacts, PodShape, Queue, QueueOptions, Rejection, Rejectors, Shapes, Uid,
};

use clock::Clock;

const PODS: usize = 100_000;
/// Templates of the pods: groups of what is helped alike.
const SHAPES: usize = 1_000;

fn main() {
    let pods = pods();
    let mut queue = Queue::new(QueueOptions::default());
    measure("add, per pod", PODS, || {
        for pod in &pods {
            queue.add(at(0), pod.clone(), 0);
        }
    });
    let rejection =
        Rejection { unschedulable: Rejectors::NONE.with(Plugin::NodePorts), ..Default::default() };
    measure("pop and reject, per pod", PODS, || {
        while let Some(popped) = queue.pop(Duration::ZERO) {
            queue.requeue(at(0), &popped.facts.uid, rejection);
        }
    });
    let node = Arc::new(NodeFacts::default());
    measure("event that no plugin cares for", 1_000, || {
        for _ in 0..1_000 {
            queue.event(at(60), &ClusterEvent::node_deleted(node.clone()));
        }
    });
    let unrelated = gone(&pods[0], 1);
    measure("event that helps none of 100,000", 100, || {
        for _ in 0..100 {
            queue.event(at(60), &unrelated);
        }
    });
    let one_group = gone(&pods[0], port(0));
    measure("event that wakes 100 of 100,000", 1, || queue.event(at(60), &one_group));
    measure("time-out of all, per pod", PODS, || queue.tick(at(1_000)));
    measure("pop and done, per pod", PODS, || {
        while let Some(popped) = queue.pop(Duration::ZERO) {
            queue.done(&popped.facts.uid);
        }
    });
}

fn at(seconds: u64) -> At<'static> {
    At { now: Duration::from_secs(seconds), pre_enqueue: &|_| None }
}

fn port(shape: usize) -> i32 {
    i32::try_from(shape).expect("there are fewer shapes than ports") + 1_000
}

fn with_port(port: i32) -> PodShape {
    let port = HostPort { address: String::new(), protocol: "TCP".to_owned(), port };
    PodShape { namespace: "ns".to_owned(), host_ports: vec![port], ..Default::default() }
}

fn pods() -> Vec<Arc<PodFacts>> {
    let mut shapes = Shapes::default();
    let pod = |number: usize| {
        let name = format!("pod-{number}");
        Arc::new(PodFacts {
            uid: Uid::new(&name),
            name: name.as_str().into(),
            priority: 0,
            node_name: "".into(),
            nominated_node_name: "".into(),
            shape: shapes.intern(with_port(port(number % SHAPES))),
        })
    };
    (0..PODS).map(pod).collect()
}

/// A bound pod that had a port is gone.
fn gone(like: &PodFacts, port: i32) -> ClusterEvent {
    let gone = PodFacts { node_name: "n".into(), shape: Arc::new(with_port(port)), ..like.clone() };
    ClusterEvent::assigned_pod_deleted(Arc::new(gone))
}

fn measure(what: &str, times: usize, work: impl FnOnce()) {
    let clock = Clock::start();
    work();
    let elapsed = clock.elapsed();
    let each = |time: Duration| time.as_secs_f64() / times as f64 * 1e6;
    println!("{what:<40} {:>12.2} us CPU ({:.2} by the clock)", each(elapsed.cpu), each(elapsed.wall));
}
