//! Pools: which slices count, from which nodes, and in which order.

use super::*;

fn part(name: &str, generation: i64, count: i64, devices: Vec<api::Device>) -> api::ResourceSlice {
    let mut slice = changed(slice("a", "pa", devices), |spec| {
        spec.pool =
            Some(api::ResourcePool { name: "pa".to_owned(), generation, resource_slice_count: count });
    });
    slice.metadata = metadata("", name);
    slice
}

fn wide(pool: &str, devices: Vec<api::Device>) -> api::ResourceSlice {
    changed(slice("", pool, devices), |spec| {
        spec.node_name = None;
        spec.all_nodes = Some(true);
    })
}

fn take(cluster: &mut Cluster, node: &str) -> Result<Vec<String>, String> {
    cluster.one(claim("x", vec![one("r", &[])]), node)
}

#[test]
fn a_pool_counts_once_all_its_slices_are_there() {
    let mut cluster = Cluster::new(vec![part("s0", 1, 2, plain(&["d0"]))]);
    assert_eq!(take(&mut cluster, "a"), refused(CANNOT));
    cluster.devices.upsert_slice(&part("s1", 1, 2, plain(&["d1"])));
    assert_eq!(take(&mut cluster, "a"), devices(&["r=d0"]));
    cluster.devices.remove_slice("s0");
    assert_eq!(take(&mut cluster, "a"), refused(CANNOT));
}

#[test]
fn older_generations_are_being_replaced() {
    let mut cluster = Cluster::new(vec![part("s0", 1, 1, plain(&["d0"])), part("s1", 2, 1, plain(&["d1"]))]);
    assert_eq!(take(&mut cluster, "a"), devices(&["r=d1"]));
    cluster.devices.upsert_slice(&part("s1", 2, 2, plain(&["d1"])));
    assert_eq!(take(&mut cluster, "a"), refused(CANNOT), "the newer one is not complete");
}

#[test]
fn an_incomplete_pool_leaves_others_alone() {
    let mut cluster = Cluster::new(vec![part("s0", 1, 2, plain(&["d0"])), slice("a", "pz", plain(&["z0"]))]);
    assert_eq!(take(&mut cluster, "a"), devices(&["r=z0"]));
}

#[test]
fn a_pool_whose_names_are_not_unique_is_not_used() {
    let twice = || slice("a", "pa", plain(&["d0", "d0"]));
    let mut cluster = Cluster::new(vec![twice()]);
    assert_eq!(take(&mut cluster, "a"), refused("invalid resource pools were encountered"));
    let mut cluster = Cluster::new(vec![twice(), slice("a", "pz", plain(&["z0"]))]);
    assert_eq!(take(&mut cluster, "a"), devices(&["r=z0"]));
}

#[test]
fn names_are_unique_among_the_devices_of_a_node() {
    let of_b = changed(part("s1", 1, 2, plain(&["d0"])), |spec| spec.node_name = Some("b".to_owned()));
    let mut cluster = Cluster::new(vec![part("s0", 1, 2, plain(&["d0"])), of_b]);
    assert_eq!(take(&mut cluster, "a"), devices(&["r=d0"]));
}

#[test]
fn a_pool_is_judged_anew_when_its_slices_change() {
    let invalid = || refused("invalid resource pools were encountered");
    let twice = || part("s1", 1, 2, plain(&["d0"]));
    let mut cluster = Cluster::new(vec![part("s0", 1, 2, plain(&["d0"])), twice()]);
    assert_eq!(take(&mut cluster, "a"), invalid());
    cluster.devices.upsert_slice(&part("s1", 1, 2, plain(&["d1"])));
    assert_eq!(take(&mut cluster, "a"), devices(&["r=d0"]));
    cluster.devices.upsert_slice(&twice());
    assert_eq!(take(&mut cluster, "a"), invalid());
    cluster.devices.remove_slice("s1");
    cluster.devices.upsert_slice(&part("s0", 1, 1, plain(&["d0"])));
    assert_eq!(take(&mut cluster, "a"), devices(&["r=d0"]));
}

#[test]
fn pools_are_taken_in_the_order_of_their_names_and_slices_of_theirs() {
    let mut cluster = Cluster::new(vec![
        slice("a", "pz", plain(&["z0"])),
        part("s1", 1, 2, plain(&["d1"])),
        part("s0", 1, 2, plain(&["d0"])),
    ]);
    assert_eq!(cluster.one(claim("x", vec![many("r", 3)]), "a"), devices(&["r=d0", "r=d1", "r=z0"]));
}

#[test]
fn devices_that_have_to_be_bound_come_last() {
    let bound = api::Device { binding_conditions: vec!["ready".to_owned()], ..device("d0", &[]) };
    let mut cluster = Cluster::new(vec![slice("a", "pa", vec![bound]), slice("a", "pz", plain(&["z0"]))]);
    assert_eq!(take(&mut cluster, "a"), devices(&["r=z0"]));
    assert_eq!(cluster.one(claim("x", vec![many("r", 2)]), "a"), devices(&["r=z0", "r=d0"]));
}

#[test]
fn slices_are_for_one_node_all_nodes_or_those_with_labels() {
    let mut cluster = Cluster::new(vec![wide("p", plain(&["d0"]))]);
    assert!(take(&mut cluster, "a").is_ok() && take(&mut cluster, "b").is_ok());
    let selected = changed(slice("", "p", plain(&["d0"])), |spec| {
        spec.node_name = None;
        spec.node_selector = Some(nodes_with(requirement("node", &["b"])));
    });
    let mut cluster = Cluster::new(vec![selected]);
    assert!(take(&mut cluster, "a").is_err() && take(&mut cluster, "b").is_ok());
    let unknown = changed(slice("", "p", plain(&["d0"])), |spec| spec.node_name = None);
    let mut cluster = Cluster::new(vec![unknown]);
    assert!(take(&mut cluster, "a").is_err() && take(&mut cluster, "b").is_err());
}

#[test]
fn devices_of_a_slice_may_be_for_different_nodes() {
    let for_node =
        |name: &str, node: &str| api::Device { node_name: Some(node.to_owned()), ..device(name, &[]) };
    let everywhere = api::Device { all_nodes: Some(true), ..device("d2", &[]) };
    let selected =
        api::Device { node_selector: Some(nodes_with(requirement("node", &["a"]))), ..device("d3", &[]) };
    let nowhere = device("d4", &[]);
    let all = vec![for_node("d0", "a"), for_node("d1", "b"), everywhere, selected, nowhere];
    let each = changed(slice("", "p", all), |spec| {
        spec.node_name = None;
        spec.per_device_node_selection = Some(true);
    });
    let mut cluster = Cluster::new(vec![each]);
    cluster.add(claim("x", vec![request("r", all_of("c"))]));
    assert_eq!(cluster.allocate(&["x"], "a").unwrap()["x"], ["r=d0", "r=d2", "r=d3"]);
    assert_eq!(cluster.allocate(&["x"], "b").unwrap()["x"], ["r=d1", "r=d2"]);
}

#[test]
fn a_selector_that_fails_on_a_device_of_another_node_ends_the_attempt() {
    let for_node =
        |device: api::Device, node: &str| api::Device { node_name: Some(node.to_owned()), ..device };
    let all = vec![for_node(device("d0", &[]), "b"), for_node(device("d1", &[("model", "x")]), "a")];
    let each = changed(slice("", "p", all), |spec| {
        spec.node_name = None;
        spec.per_device_node_selection = Some(true);
    });
    let told = Cluster::new(vec![each])
        .one(claim("x", vec![one("r", &["device.attributes['d.io'].model == 'x'"])]), "a");
    assert_eq!(told.unwrap_err(), "error: claim ns/x: selector #0: CEL runtime error: no such key: model");
}

#[test]
fn a_slice_that_changes_its_node_leaves_the_old_one() {
    let mut cluster = Cluster::new(vec![slice("a", "p", plain(&["d0"]))]);
    cluster.devices.upsert_slice(&slice("b", "p", plain(&["d0"])));
    assert!(take(&mut cluster, "a").is_err() && take(&mut cluster, "b").is_ok());
    cluster.devices.upsert_slice(&wide("p", plain(&["d0"])));
    assert!(take(&mut cluster, "a").is_ok() && take(&mut cluster, "b").is_ok());
    cluster.devices.remove_slice("p");
    cluster.devices.remove_slice("p");
    assert!(take(&mut cluster, "a").is_err() && take(&mut cluster, "b").is_err());
}
