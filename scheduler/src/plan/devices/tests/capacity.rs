//! Counters that devices share, and devices that claims share.

use super::*;

fn counters(pairs: &[(&str, &str)]) -> BTreeMap<String, api::Counter> {
    let pairs = pairs.iter();
    pairs.map(|(name, value)| ((*name).to_owned(), api::Counter { value: Some(quantity(value)) })).collect()
}

fn partition(name: &str, memory: &str) -> api::Device {
    let consumes = api::DeviceCounterConsumption {
        counter_set: "card".to_owned(),
        counters: counters(&[("memory", memory)]),
    };
    api::Device { consumes_counters: vec![consumes], ..device(name, &[]) }
}

/// A pool whose devices are parts of a card with so much memory.
fn card(memory: &str, devices: Vec<api::Device>) -> api::ResourceSlice {
    changed(slice("a", "pa", devices), |spec| {
        spec.shared_counters =
            vec![api::CounterSet { name: "card".to_owned(), counters: counters(&[("memory", memory)]) }];
    })
}

#[test]
fn parts_of_a_card_take_no_more_than_it_has() {
    let parts = || vec![partition("whole", "10Gi"), partition("p0", "5Gi"), partition("p1", "5Gi")];
    let mut cluster = Cluster::new(vec![card("10Gi", parts())]);
    assert_eq!(cluster.one(claim("x", vec![one("r", &[])]), "a"), devices(&["r=whole"]));
    assert_eq!(cluster.one(claim("x", vec![many("r", 2)]), "a"), devices(&["r=p0", "r=p1"]));
    assert_eq!(cluster.one(claim("x", vec![many("r", 3)]), "a"), refused(CANNOT));
}

#[test]
fn parts_that_are_held_leave_less() {
    let parts = || vec![partition("p0", "5Gi"), partition("whole", "10Gi"), partition("p1", "5Gi")];
    let mut cluster = Cluster::new(vec![card("10Gi", parts())]);
    cluster.hold(claim("held", vec![one("r", &[])]), "a");
    assert_eq!(cluster.one(claim("x", vec![one("r", &[])]), "a"), devices(&["r=p1"]));
    assert_eq!(cluster.one(claim("x", vec![many("r", 2)]), "a"), refused(CANNOT));
}

#[test]
fn counters_that_do_not_exist_make_a_pool_invalid() {
    let mut cluster = Cluster::new(vec![slice("a", "pa", vec![partition("p0", "5Gi")])]);
    assert_eq!(
        cluster.one(claim("x", vec![one("r", &[])]), "a"),
        refused("invalid resource pools were encountered")
    );
}

/// A device that claims share, with so much bandwidth.
fn shared(name: &str, bandwidth: &str, policy: Option<api::CapacityRequestPolicy>) -> api::Device {
    let mut device = with_capacity(device(name, &[]), "bandwidth", bandwidth);
    device.allow_multiple_allocations = Some(true);
    device.capacity.get_mut("bandwidth").unwrap().request_policy = policy;
    device
}

/// A claim for so much bandwidth of one device.
fn wants(name: &str, capacity: &str, amount: &str) -> api::ResourceClaim {
    let requests = [(capacity.to_owned(), quantity(amount))].into();
    let exact = api::ExactDeviceRequest {
        capacity: Some(api::CapacityRequirements { requests }),
        ..exactly("c", 1, &[])
    };
    claim(name, vec![request("r", exact)])
}

fn consumed(cluster: &mut Cluster, claim: api::ResourceClaim) -> Option<String> {
    let name = claim.metadata.as_ref().unwrap().name.clone();
    cluster.add(claim);
    let Filter::Fits(allocation) = cluster.filter(&[&name], "a") else { return None };
    let results = allocation.results[0].1.devices.as_ref().unwrap().results.clone();
    let consumed =
        results[0].consumed_capacity.iter().map(|(name, amount)| format!("{name}={}", amount.string));
    Some(consumed.collect::<Vec<_>>().join(","))
}

fn link(bandwidth: &str, policy: Option<api::CapacityRequestPolicy>) -> Cluster {
    Cluster::new(vec![slice("a", "pa", vec![shared("d0", bandwidth, policy)])])
}

#[test]
fn claims_share_a_device_until_it_is_full() {
    let mut cluster = link("10", None);
    cluster.hold(wants("u", "bandwidth", "4"), "a");
    cluster.hold(wants("v", "d.io/bandwidth", "4"), "a");
    assert_eq!(cluster.one(wants("x", "bandwidth", "3"), "a"), refused(CANNOT));
    assert_eq!(cluster.one(wants("x", "bandwidth", "2"), "a"), devices(&["r=d0"]));
    cluster.devices.remove_claim("ns", "u");
    assert_eq!(cluster.one(wants("x", "bandwidth", "6"), "a"), devices(&["r=d0"]));
}

#[test]
fn a_claim_that_names_no_amount_takes_the_whole_or_the_default() {
    let whole = |cluster: &mut Cluster| consumed(cluster, claim("x", vec![one("r", &[])]));
    assert_eq!(whole(&mut link("10", None)).as_deref(), Some("bandwidth=10"));
    let default = || api::CapacityRequestPolicy { default: Some(quantity("2")), ..Default::default() };
    assert_eq!(whole(&mut link("10", Some(default()))).as_deref(), Some("bandwidth=2"));
}

#[test]
fn requests_of_a_pod_share_a_device_too() {
    let mut cluster = link("10", None);
    cluster.add(wants("x", "bandwidth", "5")).add(wants("y", "bandwidth", "5"));
    assert!(cluster.allocate(&["x", "y"], "a").is_ok());
    cluster.add(wants("y", "bandwidth", "6"));
    assert_eq!(cluster.allocate(&["x", "y"], "a"), refused(CANNOT));
}

#[test]
fn amounts_are_rounded_up_to_steps_and_valid_values() {
    let range = |max: Option<&str>| api::CapacityRequestPolicy {
        valid_range: Some(api::CapacityRequestPolicyRange {
            min: Some(quantity("2")),
            max: max.map(quantity),
            step: Some(quantity("3")),
        }),
        ..Default::default()
    };
    let values = || api::CapacityRequestPolicy {
        valid_values: vec![quantity("2"), quantity("4"), quantity("8")],
        ..Default::default()
    };
    let amount =
        |policy, wanted: &str| consumed(&mut link("10", Some(policy)), wants("x", "bandwidth", wanted));
    assert_eq!(amount(range(None), "1").as_deref(), Some("bandwidth=2"));
    assert_eq!(amount(range(None), "3").as_deref(), Some("bandwidth=5"));
    assert_eq!(amount(range(None), "5").as_deref(), Some("bandwidth=5"));
    assert_eq!(amount(range(Some("6")), "6"), None, "eight is more than the range has");
    assert_eq!(amount(values(), "3").as_deref(), Some("bandwidth=4"));
    assert_eq!(amount(values(), "8").as_deref(), Some("bandwidth=8"));
    assert_eq!(amount(values(), "9"), None);
}

#[test]
fn capacities_that_a_device_lacks_are_not_to_be_had() {
    assert_eq!(link("10", None).one(wants("x", "memory", "1"), "a"), refused(CANNOT));
    assert_eq!(link("10", None).one(wants("x", "other.io/bandwidth", "1"), "a"), refused(CANNOT));
}

#[test]
fn a_device_for_one_claim_has_to_have_what_is_wanted() {
    let mut cluster =
        Cluster::new(vec![slice("a", "pa", vec![with_capacity(device("d0", &[]), "bandwidth", "10")])]);
    assert_eq!(cluster.one(wants("x", "bandwidth", "11"), "a"), refused(CANNOT));
    assert_eq!(cluster.one(wants("x", "bandwidth", "10"), "a"), devices(&["r=d0"]));
    assert_eq!(consumed(&mut cluster, wants("x", "bandwidth", "10")).as_deref(), Some(""));
    cluster.hold(wants("held", "bandwidth", "1"), "a");
    assert_eq!(cluster.one(wants("x", "bandwidth", "1"), "a"), refused(CANNOT));
}

#[test]
fn shares_have_ids_of_their_own() {
    let mut cluster = link("10", None);
    let requests = [("bandwidth".to_owned(), quantity("1"))].into();
    let exact = api::ExactDeviceRequest {
        capacity: Some(api::CapacityRequirements { requests }),
        ..exactly("c", 1, &[])
    };
    cluster.add(claim("x", vec![request("r", exact.clone()), request("s", exact)]));
    cluster.add(wants("y", "bandwidth", "1"));
    let Filter::Fits(allocation) = cluster.filter(&["x", "y"], "a") else { panic!("it fits") };
    let results = allocation.results.iter().flat_map(|(_, result)| &result.devices.as_ref().unwrap().results);
    let ids: std::collections::BTreeSet<_> = results.map(|result| result.share_id.clone().unwrap()).collect();
    assert_eq!(ids.len(), 3);
    for id in ids {
        let groups: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12], "{id}");
        assert_eq!(&id[14..15], "8", "{id}");
        assert!("89ab".contains(&id[19..20]), "{id}");
    }
}

#[test]
fn a_shared_device_takes_its_counters_once() {
    let mut device = shared("d0", "10", None);
    device.consumes_counters = partition("", "10Gi").consumes_counters;
    let mut cluster = Cluster::new(vec![card("10Gi", vec![device, partition("p0", "1Gi")])]);
    cluster.hold(wants("held", "bandwidth", "1"), "a");
    cluster.add(wants("x", "bandwidth", "1")).add(wants("y", "bandwidth", "1"));
    assert!(cluster.allocate(&["x", "y"], "a").is_ok());
    assert_eq!(
        cluster.one(claim("z", vec![one("r", &["!device.allowMultipleAllocations"])]), "a"),
        refused(CANNOT)
    );
}

#[test]
fn counters_are_given_back_by_choices_that_lead_nowhere() {
    let parts = vec![partition("p0", "6Gi"), partition("p1", "4Gi"), partition("p2", "6Gi")];
    let mut cluster = Cluster::new(vec![card("10Gi", parts)]);
    let picky = one("s", &["device.attributes['d.io'].?last.orValue(false)"]);
    let told = cluster.one(claim("x", vec![one("r", &[]), picky]), "a");
    assert_eq!(told, refused(CANNOT));
    let mut last = partition("p2", "6Gi");
    last.attributes = device("", &[("last", "true")]).attributes;
    let parts = vec![partition("p0", "6Gi"), partition("p1", "4Gi"), last];
    let mut cluster = Cluster::new(vec![card("10Gi", parts)]);
    let picky = one("s", &["device.attributes['d.io'].?last.orValue(false)"]);
    assert_eq!(cluster.one(claim("x", vec![one("r", &[]), picky]), "a"), devices(&["r=p1", "s=p2"]));
}
