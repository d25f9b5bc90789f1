//! Spreading: constraints of pods that have none.

use super::*;

/// A profile with one default constraint, whose members are `constraint`.
fn spreading(constraint: &str) -> String {
    let list = format!("{{defaultingType: List, defaultConstraints: [{{{constraint}}}]}}");
    args("PodTopologySpread", &list)
}

#[test]
fn default_constraints_spread_pods() {
    let mut world = World {
        nodes: vec![node("a", &[("zone", "z")], &[]), node("b", &[("zone", "z")], &[])],
        pods: vec![pod("u", "b", &[]), pod("other", "a", &[("cpu", "5")])],
        services: services(),
        pod: pod("p", "", &[("cpu", "1")]),
    };
    world.pods[1].metadata.as_mut().unwrap().labels.clear();
    let none = args("PodTopologySpread", "{defaultingType: List}");
    let constraint = |skew: i32, key: &str, action: &str| {
        spreading(&format!("maxSkew: {skew}, topologyKey: {key}, whenUnsatisfiable: {action}"))
    };
    let strict = constraint(1, "host", "DoNotSchedule");
    world.check((&none, "b"), (&strict, "a"));
    world.check((&strict, "a"), (&constraint(2, "host", "DoNotSchedule"), "b"));
    world.check((&strict, "a"), (&constraint(1, "zone", "DoNotSchedule"), "b"));
    // The other node counts as a domain, and has no room.
    let mut full = node("c", &[("zone", "z")], &[]);
    full.status.as_mut().unwrap().allocatable.extend(amounts(&[("cpu", "0")]));
    world.nodes[0] = full;
    let refused = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread";
    world.check((&strict, refused), (&constraint(1, "host", "ScheduleAnyway"), "b"));
}

#[test]
fn default_constraints_count_domains_as_configured() {
    let strict = "maxSkew: 1, topologyKey: host, whenUnsatisfiable: DoNotSchedule";
    let with = |more: &str| spreading(&format!("{strict}{more}"));
    let mut world = World {
        nodes: vec![node("a", &[], &[]), node("b", &[], &[])],
        pods: vec![pod("u", "a", &[]), pod("v", "b", &[("cpu", "5")])],
        services: services(),
        pod: pod("p", "", &[("cpu", "1")]),
    };
    world.check((&with(""), "a"), (&with(", minDomains: 3"), "0/2 nodes are available"));
    // A third node that the pod does not want, and then one that it does not tolerate.
    world.nodes.push(node("c", &[("out", "yes")], &[]));
    world.nodes[0].metadata.as_mut().unwrap().labels.insert("in".to_owned(), "yes".to_owned());
    world.nodes[1].metadata.as_mut().unwrap().labels.insert("in".to_owned(), "yes".to_owned());
    let mut choosy = world.clone();
    choosy.pod.spec.as_mut().unwrap().node_selector = texts(&[("in", "yes")]);
    choosy.check((&with(""), "a"), (&with(", nodeAffinityPolicy: Ignore"), "0/3 nodes are available"));
    let taint = Taint { key: "t".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    world.nodes[2].spec = Some(NodeSpec { taints: vec![taint], ..NodeSpec::default() });
    world.check((&with(""), "0/3 nodes are available"), (&with(", nodeTaintsPolicy: Honor"), "a"));
}
