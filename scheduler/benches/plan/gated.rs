//! Pods that are planned while 10,000 others wait behind their gates, and pods that ran before end.
//!
//! Owns the way through the queue: an end of a pod is an event that every waiting pod could be helped by, and costs
//! least if those behind gates are not asked.

use std::sync::Arc;
use std::time::Duration;

use orch_scheduler::api::core::v1;
use orch_scheduler::queue::{At, ClusterEvent, Queue, QueueOptions, Shapes};

use crate::clock::Clock;
use crate::objects;
use crate::world::{Outcome, World};

pub(crate) const NAME: &str = "gated";
const FLOOR: f64 = 130.0;
const GATED: usize = 10_000;
/// Pods that are there before, of which 50 a second end.
const ENDING: usize = 20_000;
const PODS: usize = 20_000;

pub(crate) fn run(nodes: usize) {
    let mut world = World::new(nodes, 1);
    let (mut queue, mut shapes) = (Queue::new(QueueOptions::default()), Shapes::default());
    let at = At { now: Duration::ZERO, pre_enqueue: &|_| None };
    (0..GATED).for_each(|index| {
        let facts = shapes.facts(&objects::gated("gated", index));
        queue.add(at, Arc::new(facts), 0);
    });
    assert_eq!(queue.pending().gated, GATED);
    let mut ending: Vec<v1::Pod> = (0..ENDING).map(|index| objects::light("ending", index)).collect();
    ending.iter().for_each(|pod| assert_eq!(world.schedule(pod), Outcome::Bound));
    let made: Vec<v1::Pod> = (0..PODS).map(|index| objects::light("measured", index)).collect();
    let clock = Clock::start();
    for (index, pod) in made.iter().enumerate() {
        queue.add(at, Arc::new(shapes.facts(pod)), 0);
        let queued = queue.pop(Duration::ZERO).expect("only the gated pods wait");
        assert_eq!(world.schedule(pod), Outcome::Bound);
        queue.done(&queued.facts.uid);
        queue.event(at, &ClusterEvent::assigned_pod_added(queued.facts));
        // At the floor's rate, 50 pods end while 130 are planned.
        if (index + 1) * 5 / 13 > index * 5 / 13 {
            let gone = ending.pop().expect("fewer end than there are");
            let facts = Arc::new(shapes.facts(&gone));
            world.end(gone.metadata.unwrap_or_default());
            queue.event(at, &ClusterEvent::assigned_pod_deleted(facts));
        }
    }
    crate::report(NAME, nodes, PODS, clock.elapsed(), FLOOR);
}
