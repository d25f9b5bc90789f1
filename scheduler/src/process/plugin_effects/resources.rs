//! Resources: which are filtered and scored by, and how.

use super::*;

#[test]
fn ignored_resources_and_groups_are_not_filtered_by() {
    let world = World {
        nodes: vec![node("a", &[], &[])],
        pod: pod("p", "", &[("example.com/gpu", "1")]),
        ..World::default()
    };
    let refused = "0/1 nodes are available: 1 Insufficient example.com/gpu";
    for ignored in ["{ignoredResources: [example.com/gpu]}", "{ignoredResourceGroups: [example.com]}"] {
        world.check(("", refused), (&args("NodeResourcesFit", ignored), "a"));
    }
}

#[test]
fn the_scoring_strategy_its_resources_and_its_curve_choose_the_node() {
    let world = World {
        nodes: vec![node("a", &[], &[]), node("b", &[], &[])],
        pods: vec![pod("u", "a", &[("cpu", "1"), ("memory", "8G")]), pod("v", "b", &[("cpu", "6")])],
        pod: pod("p", "", &[("cpu", "1"), ("memory", "1G")]),
        ..World::default()
    };
    let strategy = |kind: &str, cpu: i32, memory: i32, more: &str| {
        let resources = format!("[{{name: cpu, weight: {cpu}}}, {{name: memory, weight: {memory}}}]");
        let args = format!("{{scoringStrategy: {{type: {kind}, resources: {resources}{more}}}}}");
        scoring("NodeResourcesFit", "", &args)
    };
    let least = |cpu, memory| strategy("LeastAllocated", cpu, memory, "");
    world.check((&least(9, 1), "a"), (&least(1, 9), "b"));
    world.check((&least(9, 1), "a"), (&strategy("MostAllocated", 9, 1, ""), "b"));
    let only_cpu = "{scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 1}]}}";
    let only_memory = "{scoringStrategy: {type: LeastAllocated, resources: [{name: memory, weight: 1}]}}";
    world.check(
        (&scoring("NodeResourcesFit", "", only_cpu), "a"),
        (&scoring("NodeResourcesFit", "", only_memory), "b"),
    );
    let curve = |empty: i32, full: i32| {
        let shape = format!("[{{utilization: 0, score: {empty}}}, {{utilization: 100, score: {full}}}]");
        let more = format!(", requestedToCapacityRatio: {{shape: {shape}}}");
        strategy("RequestedToCapacityRatio", 9, 1, &more)
    };
    world.check((&curve(10, 0), "a"), (&curve(0, 10), "b"));
    // CPU of the two nodes stands at 20 and at 70 percent: a curve that is flat up to there does not tell them apart.
    let flat = |utilization: i32| {
        let shape = format!("[{{utilization: {utilization}, score: 0}}, {{utilization: 100, score: 10}}]");
        let more = format!(", requestedToCapacityRatio: {{shape: {shape}}}");
        strategy("RequestedToCapacityRatio", 9, 0, &more).replace(", {name: memory, weight: 0}", "")
    };
    world.check((&flat(0), "b"), (&flat(70), "a or b"));
}

#[test]
fn the_balanced_resources_choose_the_node() {
    let gpus = [("example.com/gpu", "10")];
    let world = World {
        nodes: vec![node("a", &[], &gpus), node("b", &[], &gpus)],
        pods: vec![
            pod("u", "a", &[("cpu", "4"), ("memory", "4G")]),
            pod("v", "b", &[("cpu", "4"), ("example.com/gpu", "4")]),
        ],
        pod: pod("p", "", &[("cpu", "1"), ("memory", "3G"), ("example.com/gpu", "4")]),
        ..World::default()
    };
    // The node wins on which the pod makes up for what others left uneven.
    let balanced = |other: &str| {
        let args = format!("{{resources: [{{name: cpu, weight: 1}}, {{name: {other}, weight: 1}}]}}");
        scoring("NodeResourcesBalancedAllocation", "", &args)
    };
    world.check((&balanced("memory"), "b"), (&balanced("example.com/gpu"), "a"));
}
