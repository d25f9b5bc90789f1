//! Claims that ask for more than a search can try: it ends, and with it the attempt on all nodes.

use super::*;

const TIMED_OUT: &str = "error: node a: timed out trying to allocate devices";

fn names(prefix: &str, number: usize) -> Vec<String> {
    (0..number).map(|index| format!("{prefix}{index}")).collect()
}

/// A node with devices, each with its number as the attribute `n`.
fn numbered(node: &str, number: i64) -> api::ResourceSlice {
    let devices = (0..number).map(|n| device(&format!("{node}{n}"), &[("n", &n.to_string())]));
    slice(node, &format!("p{node}"), devices.collect())
}

/// Two requests that only the last of very many sets of devices could satisfy, and one more that nothing does.
fn hopeless() -> api::ResourceClaim {
    claim("x", vec![many("r", 10), many("s", 10), one("t", &["false"])])
}

#[test]
fn sets_of_devices_are_not_tried_for_ever() {
    let mut cluster = Cluster::new(vec![numbered("a", 24)]);
    cluster.add(hopeless());
    assert_eq!(cluster.allocate(&["x"], "a"), refused(TIMED_OUT));
}

#[test]
fn alternatives_that_take_all_devices_are_not_tried_for_ever() {
    let all = |n: i64| {
        let alternatives = (0..8).map(|number| api::DeviceSubRequest {
            allocation_mode: "All".to_owned(),
            count: 0,
            ..alternative(&format!("s{number}"), 0, &[&format!("device.attributes['d.io'].n == {n}")])
        });
        first_of(&format!("r{n}"), alternatives.collect())
    };
    let none = request("last", api::ExactDeviceRequest { selectors: selectors(&["false"]), ..all_of("c") });
    let mut cluster = Cluster::new(vec![numbered("a", 16)]);
    cluster.add(claim("x", (0..15).map(all).chain([none]).collect()));
    assert_eq!(cluster.allocate(&["x"], "a"), refused(TIMED_OUT));
}

#[test]
fn alternatives_are_not_tried_for_ever() {
    let none = |n: usize| {
        let alternatives = (0..8).map(|number| alternative(&format!("s{number}"), 0, &[]));
        first_of(&format!("r{n}"), alternatives.collect())
    };
    let mut cluster = Cluster::new(vec![numbered("a", 31)]);
    cluster.add(claim("x", (0..31).map(none).chain([one("last", &["false"])]).collect()));
    assert_eq!(cluster.allocate(&["x"], "a"), refused(TIMED_OUT));
}

#[test]
fn all_nodes_together_have_one_budget() {
    let mut cluster = Cluster::new(vec![numbered("a", 24), numbered("b", 2)]);
    cluster.add(hopeless());
    let pod = PodClaims::new(&pod_with(&["x"]));
    let PreFilter::Ready(mut devices) = cluster.devices.pre_filter(pod.as_ref(), LIMITS) else {
        panic!("it is ready")
    };
    let mut filter = |name| devices.filter(NodeOf { name, labels: &labels_of(name) }, &|_| None);
    assert_eq!(filter("b"), Filter::Unschedulable(CANNOT.to_owned()));
    assert!(matches!(filter("a"), Filter::Error(_)));
    let reason = "node b: timed out trying to allocate devices".to_owned();
    assert_eq!(filter("b"), Filter::Error(reason), "nothing is left for it");
}

#[test]
fn costly_selectors_take_from_the_budget() {
    let hundred = format!("[{}]", vec!["1"; 100].join(","));
    let costly = |number: usize| format!("{hundred}.all(a, {hundred}.all(b, a + b < {number}))");
    let expressions =
        names("", 32).iter().map(|n| costly(n.parse::<usize>().unwrap() + 10)).collect::<Vec<_>>();
    let expressions: Vec<&str> = expressions.iter().map(String::as_str).collect();
    let mut cluster = Cluster::new(vec![numbered("a", 16)]);
    cluster.add(claim("x", vec![one("r", &expressions)]));
    assert!(cluster.allocate(&["x"], "a").is_ok(), "for the first device they are evaluated within it");
    cluster.add(claim("y", vec![one("r", &[&expressions[..], &["false"]].concat())]));
    assert_eq!(cluster.allocate(&["y"], "a"), refused(TIMED_OUT));
}

#[test]
fn compiling_takes_from_the_budget_before_it_begins() {
    // Each pattern folds all characters when it is compiled, which takes a hundredth of a second.
    let pattern = |number: usize| format!("device.driver.matches('(?i)[x\\\\W]{{{number}}}')");
    let costly = |number: usize| (1..200).map(|at| pattern(number * 200 + at)).collect::<Vec<_>>().join("||");
    let expressions: Vec<String> = (0..32).map(costly).collect();
    let expressions: Vec<&str> = expressions.iter().map(String::as_str).collect();
    let mut cluster = Cluster::new(vec![numbered("a", 16)]);
    cluster.limits = DeviceLimits { filter_timeout_ms: 50, ..LIMITS };
    cluster.add(claim("x", vec![one("r", &expressions)]));
    assert_eq!(cluster.allocate(&["x"], "a"), refused(TIMED_OUT));
    assert!(cluster.devices.claim_steps() > 400_000, "{}", cluster.devices.claim_steps());
    cluster.add(claim("y", vec![one("r", &[])]));
    assert!(cluster.allocate(&["y"], "a").is_ok());
    assert!(cluster.devices.claim_steps() < 10_000, "{}", cluster.devices.claim_steps());
}

#[test]
fn a_selector_that_costs_too_much_fails_alone() {
    let hundred = format!("[{}]", vec!["1"; 100].join(","));
    let costly = format!("{hundred}.all(a, {hundred}.all(b, {hundred}.all(c, a + b + c > 0)))");
    let mut cluster = Cluster::new(vec![numbered("a", 1)]);
    cluster.add(claim("x", vec![one("r", &[&costly])])).add(claim("y", vec![one("r", &[])]));
    let reason = "error: claim ns/x: selector #0: CEL runtime error: \
                  operation cancelled: actual cost limit exceeded";
    assert_eq!(cluster.allocate(&["x"], "a"), refused(reason));
    assert!(cluster.allocate(&["y"], "a").is_ok());
}

#[test]
fn usual_claims_fit_into_the_budget_on_thousands_of_nodes() {
    let slices = (0..1000).map(|node| numbered(&format!("n{node}"), 8));
    let mut cluster = Cluster::new(slices.collect());
    cluster.add(claim("x", vec![one("r", &["device.attributes['d.io'].n == 7 && device.driver == 'd.io'"])]));
    let pod = PodClaims::new(&pod_with(&["x"]));
    let PreFilter::Ready(mut devices) = cluster.devices.pre_filter(pod.as_ref(), LIMITS) else {
        panic!("it is ready")
    };
    for node in names("n", 1000) {
        let filter = devices.filter(NodeOf { name: &node, labels: &labels_of(&node) }, &|_| None);
        assert!(matches!(filter, Filter::Fits(_)), "{node}: {filter:?}");
    }
}

#[test]
fn a_pod_with_thousands_of_claims_is_refused() {
    let mut cluster = Cluster::new(vec![numbered("a", 1)]);
    let few = names("few", 340);
    let many = names("many", 5000);
    for name in few.iter().chain(&many) {
        cluster.add(claim(
            name,
            vec![request("r", api::ExactDeviceRequest { admin_access: Some(true), ..exactly("c", 1, &[]) })],
        ));
    }
    let few: Vec<&str> = few.iter().map(String::as_str).collect();
    assert!(cluster.allocate(&few, "a").is_ok(), "they fit into the stack");
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let refused = cluster.allocate(&many, "a").unwrap_err();
    assert!(refused.contains("the claims of the pod have too many requests and devices"), "{refused}");
}
