//! Tests of the queue. [`Cluster`] drives it by names, so that each case is a few lines.

mod events;
mod facts;
mod model;
mod scenarios;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::pod::HostPort;
use super::*;

/// A queue with a clock, whose pods are called by their names.
struct Cluster {
    queue: Queue,
    now: Duration,
    /// Pods that `DynamicResources` refuses before they are planned.
    refused: RefCell<BTreeSet<String>>,
}

/// One plugin as a set.
fn only(rejector: impl Into<Rejector>) -> Rejectors {
    Rejectors::NONE.with(rejector)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A pod of a shape, called `name` and with that uid.
fn pod(name: &str, priority: i32, shape: &Arc<PodShape>) -> PodFacts {
    PodFacts {
        uid: Uid::new(name),
        name: name.into(),
        priority,
        node_name: "".into(),
        nominated_node_name: "".into(),
        shape: shape.clone(),
    }
}

fn plain() -> Arc<PodShape> {
    Arc::new(PodShape { namespace: "ns".to_owned(), ..Default::default() })
}

fn gated(gates: &[&str]) -> Arc<PodShape> {
    let gates = gates.iter().map(|gate| (*gate).to_owned()).collect();
    Arc::new(PodShape { namespace: "ns".to_owned(), gates, ..Default::default() })
}

/// A shape that takes a port of its node.
fn with_port(port: i32) -> Arc<PodShape> {
    let port = HostPort { address: String::new(), protocol: "TCP".to_owned(), port };
    Arc::new(PodShape { namespace: "ns".to_owned(), host_ports: vec![port], ..Default::default() })
}

/// A bound pod of `shape` is gone.
fn pod_gone(shape: &Arc<PodShape>) -> ClusterEvent {
    let gone = PodFacts { node_name: "n".into(), ..pod("gone", 0, shape) };
    ClusterEvent::assigned_pod_deleted(Arc::new(gone))
}

impl Cluster {
    fn new() -> Cluster {
        Cluster::with(QueueOptions::default())
    }

    fn with(options: QueueOptions) -> Cluster {
        Cluster { queue: Queue::new(options), now: seconds(1000), refused: RefCell::default() }
    }

    /// Calls the queue at the present time.
    fn at<T>(&mut self, call: impl FnOnce(&mut Queue, At<'_>) -> T) -> T {
        let refused = &self.refused;
        let check =
            |pod: &PodFacts| refused.borrow().contains(&*pod.name).then_some(Plugin::DynamicResources);
        call(&mut self.queue, At { now: self.now, pre_enqueue: &check })
    }

    fn add(&mut self, name: &str, priority: i32) {
        self.add_shaped(name, priority, &plain());
    }

    fn add_shaped(&mut self, name: &str, priority: i32, shape: &Arc<PodShape>) {
        let facts = Arc::new(pod(name, priority, shape));
        self.at(|queue, at| queue.add(at, facts, 0));
    }

    fn update(&mut self, facts: PodFacts) {
        self.at(|queue, at| queue.update(at, Arc::new(facts), 0));
    }

    fn delete(&mut self, name: &str) {
        self.at(|queue, at| queue.delete(at, &Uid::new(name)));
    }

    /// The name of the next pod.
    fn pop(&mut self) -> Option<String> {
        let now = self.now;
        self.queue.pop(now).map(|popped| popped.facts.name.to_string())
    }

    fn requeue(&mut self, name: &str, rejection: Rejection) -> Option<QueueName> {
        self.at(|queue, at| queue.requeue(at, &Uid::new(name), rejection))
    }

    /// Brings a popped pod back that one plugin rejected.
    fn reject(&mut self, name: &str, plugin: Plugin) -> Option<QueueName> {
        self.requeue(name, Rejection { unschedulable: only(plugin), pending: Rejectors::NONE })
    }

    /// Brings a popped pod back after an error.
    fn fail(&mut self, name: &str) -> Option<QueueName> {
        self.requeue(name, Rejection::default())
    }

    /// Adds, pops and rejects.
    fn rejected(&mut self, name: &str, plugin: Plugin, shape: &Arc<PodShape>) {
        self.add_shaped(name, 0, shape);
        assert_eq!(self.pop().as_deref(), Some(name));
        assert_eq!(self.reject(name, plugin), Some(QueueName::Unschedulable));
    }

    fn event(&mut self, event: &ClusterEvent) {
        self.at(|queue, at| queue.event(at, event));
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.at(|queue, at| queue.tick(at));
    }

    fn place(&self, name: &str) -> Option<QueueName> {
        self.queue.place_of(&Uid::new(name))
    }
}
