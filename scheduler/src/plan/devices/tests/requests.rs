//! Requests: counts, all devices, alternatives, selectors, access of administrators, taints.

use super::*;

fn two() -> Cluster {
    Cluster::new(vec![slice("a", "pa", plain(&["d0", "d1"]))])
}

#[test]
fn the_first_device_in_order_is_taken() {
    assert_eq!(two().one(claim("x", vec![one("r", &[])]), "a"), devices(&["r=d0"]));
}

#[test]
fn devices_of_other_nodes_are_out_of_reach() {
    assert_eq!(two().one(claim("x", vec![one("r", &[])]), "b"), refused(CANNOT));
}

#[test]
fn a_claim_without_requests_needs_nothing() {
    assert_eq!(two().one(claim("x", Vec::new()), "b"), devices(&[]));
}

#[test]
fn counts_are_met_or_nothing_is_given() {
    assert_eq!(two().one(claim("x", vec![many("r", 2)]), "a"), devices(&["r=d0", "r=d1"]));
    assert_eq!(two().one(claim("x", vec![many("r", 3)]), "a"), refused(CANNOT));
}

#[test]
fn a_count_that_is_left_out_is_one() {
    let mut exact = exactly("c", 0, &[]);
    exact.allocation_mode = String::new();
    assert_eq!(two().one(claim("x", vec![request("r", exact)]), "a"), devices(&["r=d0"]));
}

#[test]
fn requests_of_a_claim_get_different_devices() {
    let both = claim("x", vec![one("r", &[]), one("s", &[])]);
    assert_eq!(two().one(both, "a"), devices(&["r=d0", "s=d1"]));
}

#[test]
fn claims_of_a_pod_get_different_devices() {
    let mut cluster = two();
    cluster.add(claim("x", vec![one("r", &[])])).add(claim("y", vec![one("r", &[])]));
    let both = cluster.allocate(&["x", "y"], "a").unwrap();
    assert_eq!(
        (both["x"].as_slice(), both["y"].as_slice()),
        (["r=d0".to_owned()].as_slice(), ["r=d1".to_owned()].as_slice())
    );
    cluster.add(claim("z", vec![one("r", &[])]));
    assert_eq!(cluster.allocate(&["x", "y", "z"], "a"), refused(CANNOT));
}

#[test]
fn devices_that_claims_hold_are_not_given_again() {
    let mut cluster = two();
    cluster.hold(claim("held", vec![one("r", &[])]), "a");
    assert_eq!(cluster.one(claim("x", vec![one("r", &[])]), "a"), devices(&["r=d1"]));
    cluster.hold(claim("more", vec![one("r", &[])]), "a");
    assert_eq!(cluster.one(claim("x", vec![one("r", &[])]), "a"), refused(CANNOT));
    cluster.devices.remove_claim("ns", "held");
    assert_eq!(cluster.one(claim("x", vec![one("r", &[])]), "a"), devices(&["r=d0"]));
}

#[test]
fn a_claim_that_is_deallocated_gives_its_devices_back() {
    let mut cluster = two();
    cluster.hold(claim("held", vec![many("r", 2)]), "a");
    assert_eq!(cluster.one(claim("x", vec![one("r", &[])]), "a"), refused(CANNOT));
    cluster.add(claim("held", vec![many("r", 2)]));
    assert_eq!(cluster.one(claim("x", vec![one("r", &[])]), "a"), devices(&["r=d0"]));
}

#[test]
fn assumed_devices_are_held_until_they_are_forgotten() {
    let mut cluster = two();
    cluster.add(claim("x", vec![one("r", &[])])).add(claim("y", vec![one("r", &[])]));
    let Filter::Fits(allocation) = cluster.filter(&["x"], "a") else { panic!("it fits") };
    cluster.devices.assume(&"uid-pod".into(), &allocation.results);
    assert_eq!(cluster.allocate(&["y"], "a").unwrap()["y"], ["r=d1"]);
    assert_eq!(
        cluster.allocate(&["x"], "a"),
        refused("error: pre-filter: resource claim ns/x is in the process of being allocated")
    );
    cluster.devices.forget("uid-another", "uid-x");
    assert_eq!(cluster.allocate(&["y"], "a").unwrap()["y"], ["r=d1"], "that is another pod's");
    cluster.devices.forget("uid-pod", "uid-x");
    assert_eq!(cluster.allocate(&["y"], "a").unwrap()["y"], ["r=d0"]);
}

/// The claim `x` at a version, with a device.
fn told(version: &str, result: Option<&api::AllocationResult>) -> api::ResourceClaim {
    let mut told = claim("x", vec![one("r", &[])]);
    told.metadata.get_or_insert_default().resource_version = version.to_owned();
    let status = |result: &api::AllocationResult| api::ResourceClaimStatus {
        allocation: Some(result.clone()),
        ..Default::default()
    };
    told.status = result.map(status);
    told
}

#[test]
fn assumed_devices_are_held_until_the_claim_is_told_as_it_was_written() {
    let mut cluster = two();
    cluster.add(told("1", None)).add(claim("y", vec![one("r", &[])]));
    let Filter::Fits(allocation) = cluster.filter(&["x"], "a") else { panic!("it fits") };
    let result = &allocation.results[0].1;
    let x = ClaimName { namespace: "ns".to_owned(), name: "x".to_owned() };
    for (is_late, [second, third, written, last]) in
        [(false, ["2", "3", "5", "6"]), (true, ["7", "8", "10", "11"])]
    {
        cluster.devices.assume(&"uid-pod".into(), &allocation.results);
        if is_late {
            assert!(!cluster.devices.settle_claim("uid-pod", &x, "uid-x", written), "it is held on");
        }
        // The watch tells of an attempt before, which gave the claim the same device.
        cluster.add(told(second, Some(result)));
        assert_eq!(cluster.allocate(&["y"], "a").unwrap()["y"], ["r=d1"]);
        cluster.add(told(third, None));
        assert_eq!(cluster.allocate(&["y"], "a").unwrap()["y"], ["r=d1"], "d0 is promised to x all the same");
        cluster.devices.settle_claim("uid-pod", &x, "uid-x", written);
        cluster.devices.forget("uid-pod", "uid-x");
        cluster.devices.forget_pod("uid-pod");
        assert_eq!(cluster.allocate(&["y"], "a").unwrap()["y"], ["r=d1"], "it was written");
        cluster.add(told(written, Some(result)));
        assert_eq!(cluster.allocate(&["y"], "a").unwrap()["y"], ["r=d1"], "the claim itself holds it now");
        cluster.add(told(last, None));
        assert_eq!(cluster.allocate(&["y"], "a").unwrap()["y"], ["r=d0"]);
    }
    cluster.devices.assume(&"uid-pod".into(), &allocation.results);
    assert!(cluster.devices.settle_claim("uid-pod", &x, "uid-x", "11"), "the claim was given back since");
    assert_eq!(cluster.allocate(&["y"], "a").unwrap()["y"], ["r=d0"], "it was told already");
}

#[test]
fn a_claim_with_other_devices_than_it_is_promised_waits() {
    let mut cluster = two();
    cluster.add(told("1", None)).add(claim("y", vec![one("r", &[])]));
    let Filter::Fits(allocation) = cluster.filter(&["x"], "a") else { panic!("it fits") };
    cluster.devices.assume(&"uid-pod".into(), &allocation.results);
    let mut before = allocation.results[0].1.clone();
    before.devices.as_mut().unwrap().results[0].device = "d1".to_owned();
    cluster.add(told("2", Some(&before)));
    let waits = refused("error: pre-filter: resource claim ns/x is in the process of being allocated");
    assert_eq!(cluster.allocate(&["x"], "a"), waits);
    cluster.add(told("3", None));
    assert_eq!(cluster.allocate(&["y"], "a").unwrap()["y"], ["r=d1"], "d0 is still promised to x");
    // Another claim of the name is none that the job writes.
    let mut another = told("4", None);
    another.metadata.as_mut().unwrap().uid = "uid-z".to_owned();
    cluster.add(another);
    assert_eq!(cluster.allocate(&["y"], "a").unwrap()["y"], ["r=d0"]);
}

#[test]
fn assumed_devices_of_a_claim_that_goes_are_free() {
    let mut cluster = two();
    cluster.add(claim("x", vec![many("r", 2)]));
    let Filter::Fits(allocation) = cluster.filter(&["x"], "a") else { panic!("it fits") };
    cluster.devices.assume(&"uid-pod".into(), &allocation.results);
    cluster.devices.remove_claim("ns", "x");
    assert_eq!(cluster.one(claim("y", vec![many("r", 2)]), "a"), devices(&["r=d0", "r=d1"]));
}

#[test]
fn class_and_request_both_select() {
    let attributes = |model| [("model", model), ("size", "5")];
    let mut cluster = Cluster::new(vec![slice(
        "a",
        "pa",
        vec![device("d0", &attributes("x")), device("d1", &attributes("y"))],
    )]);
    cluster.class("ys", &["device.attributes['d.io'].model == 'y'"]);
    let of =
        |class: &str, expressions: &[&str]| claim("x", vec![request("r", exactly(class, 1, expressions))]);
    assert_eq!(cluster.one(of("ys", &[]), "a"), devices(&["r=d1"]));
    assert_eq!(cluster.one(of("c", &["device.attributes['d.io'].model == 'y'"]), "a"), devices(&["r=d1"]));
    assert_eq!(cluster.one(of("ys", &["device.attributes['d.io'].size == 5"]), "a"), devices(&["r=d1"]));
    assert_eq!(cluster.one(of("ys", &["device.attributes['d.io'].size > 5"]), "a"), refused(CANNOT));
}

#[test]
fn selectors_that_fail_end_the_attempt() {
    let mut cluster = two();
    let told = cluster.one(claim("x", vec![one("r", &["device.attributes['d.io'].model == 'y'"])]), "a");
    assert_eq!(told.unwrap_err(), "error: claim ns/x: selector #0: CEL runtime error: no such key: model");
    let told = cluster.one(claim("x", vec![one("r", &["device."])]), "a").unwrap_err();
    assert!(told.starts_with("error: claim ns/x: selector #0: CEL compile error: "), "{told}");
    cluster.class("bad", &["true", "device.driver"]);
    let told = cluster.one(claim("x", vec![request("r", exactly("bad", 1, &[]))]), "a").unwrap_err();
    assert_eq!(
        told,
        "error: class bad: selector #1: CEL runtime error: CEL result of type string could not be converted to bool: unsupported native conversion from string to 'bool'"
    );
}

#[test]
fn selectors_of_an_unknown_kind_end_the_attempt() {
    let mut exact = exactly("c", 1, &[]);
    exact.selectors.push(api::DeviceSelector { cel: None });
    let told = two().one(claim("x", vec![request("r", exact)]), "a").unwrap_err();
    assert_eq!(told, "error: claim ns/x: selector #0: CEL expression empty (unsupported selector type?)");
}

#[test]
fn all_devices_are_given_or_none() {
    let mut cluster = two();
    cluster.add(claim("x", vec![request("r", all_of("c"))]));
    assert_eq!(cluster.allocate(&["x"], "a").unwrap()["x"], ["r=d0", "r=d1"]);
    assert_eq!(cluster.allocate(&["x"], "b"), refused(CANNOT), "at least one is wanted");
    cluster.hold(claim("held", vec![one("r", &[])]), "a");
    assert_eq!(cluster.allocate(&["x"], "a"), refused(CANNOT));
}

#[test]
fn all_devices_of_a_pool_that_changes_are_not_known() {
    let partial = |generation| {
        changed(slice("a", "pa", plain(&["d0"])), |spec| {
            spec.pool =
                Some(api::ResourcePool { name: "pa".to_owned(), generation, resource_slice_count: 2 });
        })
    };
    let told = Cluster::new(vec![partial(1)]).one(claim("x", vec![request("r", all_of("c"))]), "a");
    let expected = "error: claim ns/x, request r: asks for all devices, but resource pool d.io/pa is currently being updated";
    assert_eq!(told, refused(expected));
}

#[test]
fn an_unknown_count_mode_ends_the_attempt() {
    let exact = api::ExactDeviceRequest { allocation_mode: "Half".to_owned(), ..exactly("c", 1, &[]) };
    let told = two().one(claim("x", vec![request("r", exact)]), "a");
    assert_eq!(told, refused("error: claim ns/x, request r: unsupported count mode Half"));
    let half = api::DeviceSubRequest { allocation_mode: "Half".to_owned(), ..alternative("s", 1, &[]) };
    let told = two().one(claim("x", vec![first_of("r", vec![half])]), "a");
    assert_eq!(
        told,
        refused("error: claim ns/x, request s: unsupported count mode Half"),
        "the alternative's own name"
    );
}

#[test]
fn a_claim_has_thirty_two_devices_at_most() {
    let names: Vec<String> = (0..40).map(|number| format!("d{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut cluster = Cluster::new(vec![slice("a", "pa", plain(&names))]);
    assert_eq!(cluster.one(claim("x", vec![many("r", 32)]), "a").map(|devices| devices.len()), Ok(32));
    let told = cluster.one(claim("x", vec![many("r", 20), many("s", 13)]), "a");
    assert_eq!(
        told,
        refused("error: claim ns/x: number of requested devices 33 exceeds the claim limit of 32")
    );
    let fewer = first_of("s", vec![alternative("big", 13, &[]), alternative("small", 12, &[])]);
    let told = cluster.one(claim("x", vec![many("r", 20), fewer]), "a").unwrap();
    assert_eq!((told.len(), told[31].as_str()), (32, "s/small=d31"));
}

#[test]
fn the_first_alternative_that_fits_is_taken() {
    let big = || alternative("big", 1, &["device.attributes['d.io'].size == 'big'"]);
    let small = || alternative("small", 2, &["device.attributes['d.io'].size == 'small'"]);
    let of = |size| [("size", size)];
    let smalls = || vec![device("s0", &of("small")), device("s1", &of("small"))];
    let mut both = smalls();
    both.push(device("b0", &of("big")));
    let mut cluster = Cluster::new(vec![slice("a", "pa", both), slice("b", "pb", smalls())]);
    cluster.add(claim("x", vec![first_of("r", vec![big(), small()])]));
    assert_eq!(cluster.allocate(&["x"], "a").unwrap()["x"], ["r/big=b0"]);
    assert_eq!(cluster.allocate(&["x"], "b").unwrap()["x"], ["r/small=s0", "r/small=s1"]);
    let score = |node| match cluster.filter(&["x"], node) {
        Filter::Fits(allocation) => allocation.score,
        _ => panic!("it fits"),
    };
    assert_eq!((score("a"), score("b")), (8, 7));
}

#[test]
fn a_later_request_may_force_a_later_alternative() {
    let any = |name| alternative(name, 1, &[]);
    let mut cluster = two();
    let first = first_of("r", vec![alternative("two", 2, &[]), any("one")]);
    assert_eq!(cluster.one(claim("x", vec![first, one("s", &[])]), "a"), devices(&["r/one=d0", "s=d1"]));
}

#[test]
fn a_choice_that_leads_nowhere_is_taken_back() {
    let of = |model| [("model", model)];
    let mut cluster =
        Cluster::new(vec![slice("a", "pa", vec![device("d0", &of("x")), device("d1", &of("y"))])]);
    let picky = one("s", &["device.attributes['d.io'].model == 'x'"]);
    assert_eq!(cluster.one(claim("x", vec![one("r", &[]), picky]), "a"), devices(&["r=d1", "s=d0"]));
}

#[test]
fn administrators_use_devices_beside_others() {
    let admin = || api::ExactDeviceRequest { admin_access: Some(true), ..exactly("c", 2, &[]) };
    let mut cluster = two();
    cluster.hold(claim("held", vec![many("r", 2)]), "a");
    assert_eq!(cluster.one(claim("x", vec![request("r", admin())]), "a"), devices(&["r=d0", "r=d1"]));
    let thrice = api::ExactDeviceRequest { count: 3, ..admin() };
    assert_eq!(
        cluster.one(claim("y", vec![request("r", thrice)]), "a"),
        refused(CANNOT),
        "not twice in a claim"
    );
    cluster.hold(claim("watch", vec![request("r", admin())]), "a");
    cluster.devices.remove_claim("ns", "held");
    assert_eq!(cluster.one(claim("z", vec![many("r", 2)]), "a"), devices(&["r=d0", "r=d1"]), "it holds none");
}

#[test]
fn taints_keep_requests_away_that_do_not_tolerate_them() {
    let tainted = |effect: &str| {
        let taint = api::DeviceTaint {
            key: "k".to_owned(),
            value: "v".to_owned(),
            effect: effect.to_owned(),
            time_added: None,
        };
        Cluster::new(vec![slice("a", "pa", vec![api::Device { taints: vec![taint], ..device("d0", &[]) }])])
    };
    let tolerating = |key: &str, operator: &str, value: &str, effect: &str| {
        let toleration = api::DeviceToleration {
            key: key.to_owned(),
            operator: operator.to_owned(),
            value: value.to_owned(),
            effect: effect.to_owned(),
            toleration_seconds: None,
        };
        let exact = api::ExactDeviceRequest { tolerations: vec![toleration], ..exactly("c", 1, &[]) };
        claim("x", vec![request("r", exact)])
    };
    let plain = || claim("x", vec![one("r", &[])]);
    assert_eq!(tainted("NoSchedule").one(plain(), "a"), refused(CANNOT));
    assert_eq!(tainted("NoExecute").one(plain(), "a"), refused(CANNOT));
    assert_eq!(tainted("None").one(plain(), "a"), devices(&["r=d0"]));
    let cases = [
        (("k", "Equal", "v", "NoSchedule"), true),
        (("k", "Equal", "w", ""), false),
        (("k", "Exists", "", ""), true),
        (("", "Exists", "", ""), true),
        (("l", "Exists", "", ""), false),
        (("k", "Exists", "", "NoExecute"), false),
        (("k", "", "v", ""), true),
        (("k", "Later", "v", ""), false),
    ];
    for ((key, operator, value, effect), expected) in cases {
        let found = tainted("NoSchedule").one(tolerating(key, operator, value, effect), "a");
        assert_eq!(found.is_ok(), expected, "{key} {operator} {value} {effect}");
    }
}
