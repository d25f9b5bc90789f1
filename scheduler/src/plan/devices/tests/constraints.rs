//! Constraints over attributes.

use super::*;

fn colours(pairs: &[(&str, &str)]) -> Cluster {
    let devices = pairs.iter().map(|(name, colour)| {
        if colour.is_empty() { device(name, &[]) } else { device(name, &[("colour", colour)]) }
    });
    Cluster::new(vec![slice("a", "pa", devices.collect())])
}

fn two_of(constraint: api::DeviceConstraint) -> api::ResourceClaim {
    constrained(claim("x", vec![one("r", &[]), one("s", &[])]), vec![constraint])
}

#[test]
fn devices_share_an_attribute() {
    let mut cluster = colours(&[("d0", "red"), ("d1", "blue"), ("d2", "red")]);
    assert_eq!(cluster.one(two_of(matching("d.io/colour", &[])), "a"), devices(&["r=d0", "s=d2"]));
    let mut cluster = colours(&[("d0", "red"), ("d1", "blue")]);
    assert_eq!(cluster.one(two_of(matching("d.io/colour", &[])), "a"), refused(CANNOT));
}

#[test]
fn the_first_device_may_have_to_be_another() {
    let mut cluster = colours(&[("d0", "red"), ("d1", "blue"), ("d2", "blue")]);
    assert_eq!(cluster.one(two_of(matching("d.io/colour", &[])), "a"), devices(&["r=d1", "s=d2"]));
}

#[test]
fn a_device_without_the_attribute_shares_nothing() {
    let mut cluster = colours(&[("d0", ""), ("d1", "red"), ("d2", "red")]);
    assert_eq!(cluster.one(two_of(matching("d.io/colour", &[])), "a"), devices(&["r=d1", "s=d2"]));
    let mut cluster = colours(&[("d0", ""), ("d1", "")]);
    assert_eq!(cluster.one(two_of(matching("d.io/colour", &[])), "a"), refused(CANNOT));
}

#[test]
fn attributes_may_be_named_with_their_domain() {
    let devices_of = |name: &str| vec![device("d0", &[(name, "x")]), device("d1", &[(name, "x")])];
    for (name, wanted, expected) in [
        ("other.io/colour", "other.io/colour", true),
        ("d.io/colour", "d.io/colour", true),
        ("colour", "other.io/colour", false),
    ] {
        let mut cluster = Cluster::new(vec![slice("a", "pa", devices_of(name))]);
        assert_eq!(cluster.one(two_of(matching(wanted, &[])), "a").is_ok(), expected, "{name} {wanted}");
    }
}

#[test]
fn values_of_different_types_are_different() {
    let text = api::DeviceAttribute { string: Some("1".to_owned()), ..Default::default() };
    let mut one = device("d0", &[("colour", "1")]);
    let mut other = device("d1", &[]);
    other.attributes.insert("colour".to_owned(), text);
    let mut cluster = Cluster::new(vec![slice("a", "pa", vec![one.clone(), other])]);
    assert_eq!(cluster.one(two_of(matching("d.io/colour", &[])), "a"), refused(CANNOT));
    one.name = "d2".to_owned();
    let mut cluster = Cluster::new(vec![slice("a", "pa", vec![device("d0", &[("colour", "1")]), one])]);
    assert_eq!(cluster.one(two_of(matching("d.io/colour", &[])), "a"), devices(&["r=d0", "s=d2"]));
}

#[test]
fn versions_and_truths_are_shared_too() {
    for (value, other, expected) in
        [("v1.2.3", "v1.2.3", true), ("v1.2.3", "v1.2.4", false), ("true", "false", false)]
    {
        let mut cluster = colours(&[("d0", value), ("d1", other)]);
        assert_eq!(
            cluster.one(two_of(matching("d.io/colour", &[])), "a").is_ok(),
            expected,
            "{value} {other}"
        );
    }
}

#[test]
fn lists_share_what_they_have_in_common() {
    let list = |name: &str, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let attribute = api::DeviceAttribute { strings: values, ..Default::default() };
        let mut device = device(name, &[]);
        device.attributes.insert("colour".to_owned(), attribute);
        device
    };
    let cluster = |second: &[&str]| {
        Cluster::new(vec![slice("a", "pa", vec![list("d0", &["red", "blue"]), list("d1", second)])])
    };
    assert!(cluster(&["blue", "green"]).one(two_of(matching("d.io/colour", &[])), "a").is_ok());
    assert!(cluster(&["green"]).one(two_of(matching("d.io/colour", &[])), "a").is_err());
}

#[test]
fn constraints_speak_of_the_requests_that_they_name() {
    let mut cluster = colours(&[("d0", "red"), ("d1", "blue"), ("d2", "red")]);
    let three = |constraint| {
        let requests = vec![one("r", &[]), one("s", &[]), one("t", &[])];
        constrained(claim("x", requests), vec![constraint])
    };
    let found = cluster.one(three(matching("d.io/colour", &["r", "t"])), "a");
    assert_eq!(found, devices(&["r=d0", "s=d1", "t=d2"]));
    assert_eq!(cluster.one(three(matching("d.io/colour", &[])), "a"), refused(CANNOT));
}

#[test]
fn constraints_may_name_alternatives() {
    let mut cluster = colours(&[("d0", "red"), ("d1", "blue")]);
    let list = || first_of("s", vec![alternative("x", 1, &[]), alternative("y", 1, &[])]);
    let claim_with = |names: &[&str]| {
        let constraints = vec![matching("d.io/colour", names)];
        constrained(claim("x", vec![one("r", &[]), list()]), constraints)
    };
    assert_eq!(cluster.one(claim_with(&["r", "s/x"]), "a"), devices(&["r=d0", "s/y=d1"]));
    assert_eq!(cluster.one(claim_with(&["r", "s"]), "a"), refused(CANNOT));
}

#[test]
fn devices_differ_by_an_attribute() {
    let mut cluster = colours(&[("d0", "red"), ("d1", "red"), ("d2", "blue")]);
    assert_eq!(cluster.one(two_of(distinct("d.io/colour")), "a"), devices(&["r=d0", "s=d2"]));
    let mut cluster = colours(&[("d0", "red"), ("d1", "red"), ("d2", "")]);
    assert_eq!(cluster.one(two_of(distinct("d.io/colour")), "a"), refused(CANNOT));
}

#[test]
fn several_constraints_hold_together() {
    let both = |name: &str, colour: &str, rack: &str| device(name, &[("colour", colour), ("rack", rack)]);
    let all =
        vec![both("d0", "red", "1"), both("d1", "red", "1"), both("d2", "red", "2"), both("d3", "blue", "2")];
    let mut cluster = Cluster::new(vec![slice("a", "pa", all)]);
    let constraints = vec![matching("d.io/colour", &[]), distinct("d.io/rack")];
    let found = cluster.one(constrained(claim("x", vec![many("r", 2)]), constraints), "a");
    assert_eq!(found, devices(&["r=d0", "r=d2"]));
}

#[test]
fn constraints_end_with_their_claim() {
    let mut cluster = colours(&[("d0", "red"), ("d1", "blue")]);
    let constraint = || vec![matching("d.io/colour", &[])];
    cluster.add(constrained(claim("x", vec![one("r", &[])]), constraint()));
    cluster.add(constrained(claim("y", vec![one("r", &[])]), constraint()));
    assert!(cluster.allocate(&["x", "y"], "a").is_ok());
}

#[test]
fn all_devices_under_a_constraint_that_they_break_end_the_attempt() {
    let mut cluster = colours(&[("d0", "red"), ("d1", "blue")]);
    let told = cluster.one(
        constrained(claim("x", vec![request("r", all_of("c"))]), vec![matching("d.io/colour", &[])]),
        "a",
    );
    let expected = "error: claim ns/x, request r: cannot add device d.io/pa/d1 because a claim constraint would not be satisfied";
    assert_eq!(told, refused(expected));
}

#[test]
fn an_empty_constraint_ends_the_attempt() {
    let told = colours(&[("d0", "red")]).one(two_of(api::DeviceConstraint::default()), "a");
    let expected = "error: claim ns/x, constraint #0: empty constraint (unsupported constraint type?)";
    assert_eq!(told, refused(expected));
}
