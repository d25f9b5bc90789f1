//! The cost of a plan: pods per second for the shapes of the reference's benchmark, every node considered.
//!
//! Nodes, the pods that are there before and all objects are made before the clock starts. Rates are by the processor
//! time of the planning thread (`clock`). An argument chooses shapes by a part of their name, `NODES=100000` changes the
//! size of the cluster. Without either, pods of the first shape are planned on 100,000 nodes, too.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark"
)]

mod clock;
mod gated;
mod objects;
mod world;

use std::time::Duration;

use orch_scheduler::api::core::v1;

use clock::{Clock, Elapsed};
use objects::Make;
use world::{Outcome, World};

/// A shape takes at most this long.
const LONGEST: Duration = Duration::from_secs(20);

/// The reference creates these pods five times a second beside the measured ones.
#[derive(Clone, Copy)]
struct Churn {
    make: Make,
    /// So many measured pods come between two of them, at the rate of the reference's floor.
    every: usize,
    expected: Outcome,
}

/// A shape of the reference's benchmark.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    /// The least that the reference must reach on its own machine, in pods per second.
    floor: f64,
    zones: usize,
    /// Pods that are there before, for five nodes.
    before: usize,
    make_before: Make,
    pods: usize,
    make: Make,
    expected: Outcome,
    churn: Option<Churn>,
}

fn shapes() -> Vec<Shape> {
    let plain = Shape {
        name: "basic",
        floor: 270.0,
        zones: 1,
        before: 1,
        make_before: objects::basic,
        pods: 10_000,
        make: objects::basic,
        expected: Outcome::Bound,
        churn: None,
    };
    let (affine, near, apart) = (objects::node_affinity, objects::pod_affinity, objects::pod_anti_affinity);
    let mut shapes = vec![
        plain,
        Shape { name: "node affinity", floor: 220.0, before: 5, make_before: affine, make: affine, ..plain },
        Shape {
            name: "topology spreading",
            floor: 85.0,
            zones: 3,
            before: 5,
            pods: 5_000,
            make: objects::spreading,
            ..plain
        },
        Shape {
            name: "required affinity",
            floor: 35.0,
            before: 5,
            make_before: near,
            pods: 5_000,
            make: near,
            ..plain
        },
        Shape {
            name: "required anti-affinity",
            floor: 60.0,
            make_before: apart,
            pods: 2_000,
            make: apart,
            ..plain
        },
    ];
    shapes.extend(shapes_without_room(plain));
    shapes
}

/// Shapes in which some pods, or all, find no room.
fn shapes_without_room(plain: Shape) -> [Shape; 4] {
    let (low, high, large) = (objects::low_priority, objects::high_priority, objects::too_large);
    let preempting = Churn { make: high, every: 160 / 5, expected: Outcome::Preempts };
    let parked = Churn { make: large, every: 140 / 5, expected: Outcome::Refused };
    [
        Shape {
            name: "preemption beside",
            floor: 160.0,
            before: 20,
            make_before: low,
            pods: 5_000,
            churn: Some(preempting),
            ..plain
        },
        Shape {
            name: "preemption, every pod",
            floor: 160.0,
            before: 20,
            make_before: low,
            pods: 4_000,
            make: high,
            expected: Outcome::Preempts,
            ..plain
        },
        Shape { name: "unschedulable beside", floor: 140.0, before: 20, churn: Some(parked), ..plain },
        Shape {
            name: "unschedulable, every pod",
            floor: 140.0,
            before: 20,
            make: large,
            expected: Outcome::Refused,
            ..plain
        },
    ]
}

fn run(shape: &Shape, nodes: usize) {
    let mut world = World::new(nodes, shape.zones);
    for index in 0..nodes * shape.before / 5 {
        assert_eq!(world.schedule(&(shape.make_before)("sched-0", index)), Outcome::Bound);
    }
    let made: Vec<(v1::Pod, Outcome)> = (0..shape.pods)
        .flat_map(|index| {
            let churn = shape.churn.as_ref().filter(|churn| index % churn.every == 0);
            let churn = churn.map(|churn| ((churn.make)("churn", index), churn.expected));
            churn.into_iter().chain([((shape.make)("sched-1", index), shape.expected)])
        })
        .collect();
    let clock = Clock::start();
    let mut planned = 0;
    for (pod, expected) in &made {
        assert_eq!(world.schedule(pod), *expected, "{}: pod {planned} of {}", shape.name, made.len());
        planned += 1;
        if planned % 256 == 0 && clock.elapsed().wall > LONGEST {
            break;
        }
    }
    report(shape.name, nodes, planned, clock.elapsed(), shape.floor);
}

/// Prints a line.
fn report(name: &str, nodes: usize, pods: usize, elapsed: Elapsed, floor: f64) {
    let rate = pods as f64 / elapsed.cpu.as_secs_f64();
    let wall = pods as f64 / elapsed.wall.as_secs_f64();
    println!(
        "{name:<26} {nodes:>6} nodes {pods:>6} pods {:>8.1} us CPU {rate:>8.0} pods/s ({wall:>7.0} by the clock) {:>6.1} x floor",
        1e6 / rate,
        rate / floor
    );
}

fn main() {
    let nodes = std::env::var("NODES").ok().map(|nodes| nodes.parse().unwrap());
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    let shapes = shapes();
    for shape in shapes.iter().filter(|shape| is_wanted(shape.name)) {
        run(shape, nodes.unwrap_or(5_000));
    }
    if is_wanted(gated::NAME) {
        gated::run(nodes.unwrap_or(5_000));
    }
    if wanted.is_empty() && nodes.is_none() {
        run(&shapes[0], 100_000);
    }
}
