//! Parts of an allocation beside the devices: nodes, configurations, conditions.

use super::*;
use crate::api::resource::v1::DeviceAllocationConfiguration;

fn result_of(cluster: &Cluster, claims: &[&str], node: &str) -> AllocationResult {
    match cluster.filter(claims, node) {
        Filter::Fits(allocation) => allocation.results[0].1.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_local_device_is_for_its_node() {
    let mut cluster = Cluster::new(vec![slice("a", "pa", plain(&["d0"]))]);
    cluster.add(claim("x", vec![one("r", &[])]));
    let name =
        NodeSelectorTerm { match_fields: vec![requirement("metadata.name", &["a"])], ..Default::default() };
    let expected = NodeSelector { node_selector_terms: vec![name] };
    assert_eq!(result_of(&cluster, &["x"], "a").node_selector, Some(expected));
}

fn for_nodes(pool: &str, selector: Option<NodeSelector>) -> api::ResourceSlice {
    changed(slice("", pool, plain(&[pool])), |spec| {
        spec.node_name = None;
        spec.all_nodes = selector.is_none().then_some(true);
        spec.node_selector = selector;
    })
}

#[test]
fn a_device_for_all_nodes_is_for_all_nodes() {
    let mut cluster = Cluster::new(vec![for_nodes("p", None)]);
    cluster.add(claim("x", vec![one("r", &[])]));
    assert_eq!(result_of(&cluster, &["x"], "a").node_selector, None);
}

#[test]
fn requirements_of_devices_add_up_each_once() {
    let zone = || requirement("zone", &["z"]);
    let node = || requirement("node", &["a", "b"]);
    let slices = vec![
        for_nodes("p0", Some(nodes_with(zone()))),
        for_nodes("p1", Some(nodes_with(node()))),
        for_nodes("p2", Some(nodes_with(zone()))),
        for_nodes("p3", None),
    ];
    let mut cluster = Cluster::new(slices);
    cluster.add(claim("x", vec![many("r", 4)]));
    let term = NodeSelectorTerm { match_expressions: vec![zone(), node()], match_fields: Vec::new() };
    let expected = NodeSelector { node_selector_terms: vec![term] };
    assert_eq!(result_of(&cluster, &["x"], "a").node_selector, Some(expected));
}

#[test]
fn a_device_that_binds_to_its_node_is_for_that_node() {
    let mut slice = for_nodes("p", None);
    slice.spec.as_mut().unwrap().devices[0].binds_to_node = Some(true);
    let mut cluster = Cluster::new(vec![slice]);
    cluster.add(claim("x", vec![one("r", &[])]));
    let selector = result_of(&cluster, &["x"], "b").node_selector.unwrap();
    assert_eq!(selector.node_selector_terms[0].match_fields, [requirement("metadata.name", &["b"])]);
}

#[test]
fn results_repeat_what_was_asked_and_what_has_to_happen() {
    let bound = api::Device {
        binding_conditions: vec!["ready".to_owned()],
        binding_failure_conditions: vec!["failed".to_owned()],
        ..device("d0", &[])
    };
    let toleration =
        api::DeviceToleration { key: "k".to_owned(), operator: "Exists".to_owned(), ..Default::default() };
    let exact = api::ExactDeviceRequest {
        admin_access: Some(true),
        tolerations: vec![toleration.clone()],
        ..exactly("c", 1, &[])
    };
    let mut cluster = Cluster::new(vec![slice("a", "pa", vec![bound])]);
    cluster.add(claim("x", vec![request("r", exact)]));
    let result = result_of(&cluster, &["x"], "a").devices.unwrap().results.remove(0);
    assert_eq!((result.driver.as_str(), result.pool.as_str(), result.device.as_str()), ("d.io", "pa", "d0"));
    assert_eq!(result.admin_access, Some(true));
    assert_eq!(result.tolerations, [toleration]);
    assert_eq!(
        (result.binding_conditions, result.binding_failure_conditions),
        (vec!["ready".to_owned()], vec!["failed".to_owned()])
    );
    assert_eq!(result.share_id, None);
}

fn opaque(driver: &str) -> Option<api::DeviceConfiguration> {
    let opaque = api::OpaqueDeviceConfiguration { driver: driver.to_owned(), parameters: None };
    Some(api::DeviceConfiguration { opaque: Some(opaque) })
}

fn class_with(name: &str, configs: &[&str]) -> api::DeviceClass {
    let config =
        configs.iter().map(|driver| api::DeviceClassConfiguration { device_configuration: opaque(driver) });
    let spec = api::DeviceClassSpec { config: config.collect(), ..Default::default() };
    api::DeviceClass { metadata: metadata("", name), spec: Some(spec) }
}

fn with_config(mut claim: api::ResourceClaim, configs: &[(&str, &[&str])]) -> api::ResourceClaim {
    let config = configs.iter().map(|(driver, requests)| api::DeviceClaimConfiguration {
        requests: requests.iter().map(|name| (*name).to_owned()).collect(),
        device_configuration: opaque(driver),
    });
    claim.spec.as_mut().unwrap().devices.as_mut().unwrap().config = config.collect();
    claim
}

/// Source, requests and driver of each configuration.
fn told(config: &[DeviceAllocationConfiguration]) -> Vec<String> {
    let driver = |one: &DeviceAllocationConfiguration| {
        one.device_configuration.as_ref().unwrap().opaque.as_ref().unwrap().driver.clone()
    };
    config.iter().map(|one| format!("{} [{}] {}", one.source, one.requests.join(" "), driver(one))).collect()
}

fn config_of(claim: api::ResourceClaim) -> Vec<String> {
    let mut cluster = Cluster::new(vec![slice("a", "pa", plain(&["d0", "d1", "d2"]))]);
    cluster.devices.upsert_class(&class_with("k", &["k1", "k2"]));
    cluster.devices.upsert_class(&class_with("l", &["l1"]));
    cluster.add(claim);
    told(&result_of(&cluster, &["x"], "a").devices.unwrap().config)
}

#[test]
fn configurations_of_classes_come_before_those_of_the_claim() {
    let requests = vec![request("r", exactly("k", 1, &[])), request("s", exactly("l", 1, &[]))];
    let claim = with_config(claim("x", requests), &[("own", &["s"])]);
    assert_eq!(
        config_of(claim),
        ["FromClass [r] k1", "FromClass [r] k2", "FromClass [s] l1", "FromClaim [s] own"]
    );
}

#[test]
fn a_class_of_several_requests_is_configured_once() {
    let requests =
        ["r", "s", "t"].map(|name| request(name, exactly(if name == "s" { "l" } else { "k" }, 1, &[])));
    let told = config_of(claim("x", requests.to_vec()));
    assert_eq!(told, ["FromClass [r t] k1", "FromClass [r t] k2", "FromClass [s] l1"]);
}

#[test]
fn a_configuration_for_all_requests_names_none() {
    let requests = vec![request("r", exactly("k", 1, &[])), request("s", exactly("k", 1, &[]))];
    let claim = with_config(claim("x", requests), &[("all", &[]), ("both", &["r", "s"]), ("one", &["r"])]);
    let told = config_of(claim);
    assert_eq!(
        told,
        ["FromClass [] k1", "FromClass [] k2", "FromClaim [] all", "FromClaim [] both", "FromClaim [r] one"]
    );
}

#[test]
fn configurations_follow_the_chosen_alternative() {
    let of_class = |name: &str, class: &str, count| api::DeviceSubRequest {
        device_class_name: class.to_owned(),
        ..alternative(name, count, &[])
    };
    let list = first_of("r", vec![of_class("big", "l", 9), of_class("small", "k", 1)]);
    let requests = vec![list, request("s", exactly("l", 1, &[]))];
    let claim =
        with_config(claim("x", requests), &[("big", &["r/big"]), ("small", &["r/small"]), ("r", &["r"])]);
    assert_eq!(
        config_of(claim),
        [
            "FromClass [r/small] k1",
            "FromClass [r/small] k2",
            "FromClass [s] l1",
            "FromClaim [r/small] small",
            "FromClaim [r] r"
        ]
    );
}

#[test]
fn the_same_state_gives_the_same_result() {
    let mut cluster = Cluster::new(vec![slice("a", "pa", plain(&["d0", "d1", "d2"]))]);
    cluster.add(claim("x", vec![many("r", 2)]));
    assert_eq!(cluster.filter(&["x"], "a"), cluster.filter(&["x"], "a"));
}
