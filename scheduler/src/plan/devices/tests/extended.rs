//! Extended resources that devices stand for. The class `c` offers `x.com/gpu`.

use super::*;
use crate::api::core::v1::{Container, ContainerExtendedResourceRequest, ResourceRequirements};
use crate::api::meta::v1::Time;
use crate::plan::decision::NewClaim;

const GPU: &str = "x.com/gpu";

/// How long a container lives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Init,
    Sidecar,
    Main,
}

use Kind::{Init, Main, Sidecar};

/// A container and its requests.
type Asking<'a> = (Kind, &'a [(&'a str, &'a str)]);

fn offering(name: &str, resource: Option<&str>, created: i64) -> api::DeviceClass {
    let mut metadata = metadata("", name);
    metadata.as_mut().unwrap().creation_timestamp = Some(Time { seconds: created, nanos: 0 });
    let spec = api::DeviceClassSpec {
        extended_resource_name: resource.map(str::to_owned),
        ..api::DeviceClassSpec::default()
    };
    api::DeviceClass { metadata, spec: Some(spec) }
}

/// A cluster whose node `a` has so many devices.
pub(super) fn cluster(devices: &[&str]) -> Cluster {
    let mut cluster = Cluster::new(vec![slice("a", "pa", plain(devices))]);
    cluster.devices.upsert_class(&offering("c", Some(GPU), 0));
    cluster
}

/// A pod with these containers, named by their places, each with its requests.
fn asking(name: &str, containers: &[Asking<'_>]) -> Pod {
    let container = |(at, (kind, requests)): (usize, &Asking<'_>)| Container {
        name: format!("c{at}"),
        restart_policy: (*kind == Sidecar).then(|| "Always".to_owned()),
        resources: Some(ResourceRequirements {
            requests: requests.iter().map(|(name, amount)| ((*name).to_owned(), quantity(amount))).collect(),
            ..ResourceRequirements::default()
        }),
        ..Container::default()
    };
    let all = || containers.iter().enumerate();
    let spec = PodSpec {
        init_containers: all().filter(|(_, (kind, _))| *kind != Main).map(container).collect(),
        containers: all().filter(|(_, (kind, _))| *kind == Main).map(container).collect(),
        ..PodSpec::default()
    };
    Pod { metadata: metadata("ns", name), spec: Some(spec), status: None }
}

pub(super) fn gpus(name: &str, amount: &str) -> Pod {
    asking(name, &[(Main, &[(GPU, amount)])])
}

/// Results of the plugin for a pod on the node `a`, which lists these resources, and after it.
pub(super) fn answer(cluster: &Cluster, pod: &Pod, listed: &[(&str, i64)]) -> (Filter, PostFilter) {
    let pod = PodClaims::new(pod);
    match cluster.devices.pre_filter(pod.as_ref(), cluster.limits) {
        PreFilter::Skip => (Filter::Error("skip".to_owned()), PostFilter::without_claims()),
        PreFilter::Unschedulable(reason) => (Filter::Error(reason), PostFilter::without_claims()),
        PreFilter::Ready(mut devices) => {
            let allocatable =
                |name: &str| listed.iter().find(|(other, _)| *other == name).map(|(_, amount)| *amount);
            let said = devices.filter(NodeOf { name: "a", labels: &labels_of("a") }, &allocatable);
            (said, devices.post_filter())
        }
    }
}

pub(super) fn filter(cluster: &Cluster, pod: &Pod, listed: &[(&str, i64)]) -> Filter {
    answer(cluster, pod, listed).0
}

pub(super) fn fits(cluster: &Cluster, pod: &Pod) -> NodeAllocation {
    match filter(cluster, pod, &[]) {
        Filter::Fits(allocation) => allocation,
        other => panic!("{other:?}"),
    }
}

pub(super) fn no(reason: &str) -> Filter {
    Filter::Unschedulable(reason.to_owned())
}

/// The requests of a new claim as `name: class*count`, and its mappings as `container resource -> request`.
fn told(new: &NewClaim) -> (Vec<String>, Vec<String>) {
    let devices = new.object.spec.as_ref().unwrap().devices.as_ref().unwrap();
    let requests = devices.requests.iter().map(|request| {
        let exactly = request.exactly.as_ref().unwrap();
        assert_eq!(exactly.allocation_mode, "ExactCount");
        format!("{}: {}*{}", request.name, exactly.device_class_name, exactly.count)
    });
    let mapping = |one: &ContainerExtendedResourceRequest| {
        format!("{} {} -> {}", one.container_name, one.resource_name, one.request_name)
    };
    (requests.collect(), new.mappings.iter().map(mapping).collect())
}

/// Checks the claim of a pod with these containers, with devices for any number of them.
fn check(containers: &[Asking<'_>], requests: &[&str], mappings: &[&str]) {
    let names: Vec<String> = (0..20).map(|index| format!("d{index:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let allocation = fits(&cluster(&names), &asking("pod", containers));
    let (asked, mapped) = told(allocation.new.as_ref().unwrap());
    assert_eq!((asked, mapped), (owned(requests), owned(mappings)));
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_class_offers_what_it_names_and_what_is_named_after_it() {
    let cluster = cluster(&[]);
    assert!(cluster.devices.offers(GPU) && cluster.devices.offers("deviceclass.resource.orch.io/c"));
    assert!(!cluster.devices.offers("x.com/other"));
    assert!(!cluster.devices.offers("deviceclass.resource.orch.io/d"));
}

#[test]
fn of_classes_that_name_the_same_the_newest_offers_it_and_then_the_first_by_name() {
    let class = |cluster: &Cluster| {
        let allocation = fits(cluster, &gpus("pod", "1"));
        told(allocation.new.as_ref().unwrap()).0.remove(0)
    };
    let mut cluster = cluster(&["d0"]);
    cluster.devices.upsert_class(&offering("b", Some(GPU), 0));
    assert_eq!(class(&cluster), "container-0-request-0: b*1");
    cluster.devices.upsert_class(&offering("d", Some(GPU), 1));
    assert_eq!(class(&cluster), "container-0-request-0: d*1");
    cluster.devices.remove_class("d");
    cluster.devices.upsert_class(&offering("b", None, 0));
    assert_eq!(class(&cluster), "container-0-request-0: c*1");
}

#[test]
fn only_other_offers_have_another_version() {
    let mut cluster = cluster(&[]);
    let version = cluster.devices.offers_version();
    cluster.devices.upsert_class(&offering("c", Some(GPU), 0));
    assert_eq!(cluster.devices.offers_version(), version);
    cluster.devices.upsert_class(&offering("c", None, 0));
    assert_ne!(cluster.devices.offers_version(), version);
    assert!(!cluster.devices.offers(GPU));
}

#[test]
fn a_pod_without_such_resources_is_none_of_this() {
    let cluster = cluster(&["d0"]);
    assert_eq!(PodClaims::new(&asking("pod", &[(Main, &[("cpu", "1")])])), None);
    assert_eq!(PodClaims::new(&gpus("pod", "0")), None);
    let other = asking("pod", &[(Main, &[("x.com/other", "1")])]);
    assert_eq!(filter(&cluster, &other, &[]), Filter::Error("skip".to_owned()));
}

#[test]
fn the_new_claim_belongs_to_its_pod() {
    let allocation = fits(&cluster(&["d0"]), &gpus("pod", "1"));
    let metadata = allocation.new.as_ref().unwrap().object.metadata.clone().unwrap();
    assert_eq!((&*metadata.name, &*metadata.generate_name), ("", "pod-extended-resources-"));
    assert_eq!((&*metadata.namespace, &*metadata.uid), ("ns", ""));
    assert_eq!(metadata.annotations["resource.orch.io/extended-resource-claim"], "true");
    let owner = &metadata.owner_references[0];
    let of = (&*owner.api_version, &*owner.kind, &*owner.name, &*owner.uid, owner.controller);
    assert_eq!(of, ("v1", "Pod", "pod", "uid-pod", Some(true)));
    let (uid, result) = &allocation.results[0];
    assert_eq!(uid, "uid-pod/extended-resources");
    let device = &result.devices.as_ref().unwrap().results[0];
    assert_eq!((&*device.request, &*device.device), ("container-0-request-0", "d0"));
}

#[test]
fn containers_beside_each_other_have_requests_of_their_own() {
    check(
        &[(Sidecar, &[(GPU, "1")]), (Main, &[("cpu", "1"), (GPU, "2")]), (Main, &[("cpu", "1")])],
        &["container-0-request-0: c*1", "container-1-request-1: c*2"],
        &["c0 x.com/gpu -> container-0-request-0", "c1 x.com/gpu -> container-1-request-1"],
    );
}

#[test]
fn resources_of_one_class_by_two_names_are_asked_for_apart() {
    let implicit = "deviceclass.resource.orch.io/c";
    check(
        &[(Main, &[(GPU, "1"), (implicit, "2")])],
        &["container-0-request-0: c*2", "container-0-request-1: c*1"],
        &[
            "c0 deviceclass.resource.orch.io/c -> container-0-request-0",
            "c0 x.com/gpu -> container-0-request-1",
        ],
    );
}

#[test]
fn init_containers_use_the_devices_of_those_that_come_after_them() {
    check(
        &[(Init, &[(GPU, "2")]), (Main, &[(GPU, "1")]), (Main, &[(GPU, "1")])],
        &["container-1-request-0: c*1", "container-2-request-0: c*1"],
        &[
            "c1 x.com/gpu -> container-1-request-0",
            "c2 x.com/gpu -> container-2-request-0",
            "c0 x.com/gpu -> container-1-request-0",
            "c0 x.com/gpu -> container-2-request-0",
        ],
    );
    // The sidecar runs on while the init container after it does.
    check(
        &[(Sidecar, &[(GPU, "3")]), (Init, &[(GPU, "1")])],
        &["container-0-request-0: c*3", "container-1-request-0: c*1"],
        &["c0 x.com/gpu -> container-0-request-0", "c1 x.com/gpu -> container-1-request-0"],
    );
}

#[test]
fn amounts_of_init_containers_beyond_the_others_are_asked_for_once() {
    check(
        &[(Init, &[(GPU, "3")]), (Init, &[(GPU, "5")]), (Main, &[(GPU, "2")])],
        &["container-1-request-0: c*3", "container-2-request-0: c*2"],
        &[
            "c2 x.com/gpu -> container-2-request-0",
            "c0 x.com/gpu -> container-2-request-0",
            "c0 x.com/gpu -> container-1-request-0",
            "c1 x.com/gpu -> container-2-request-0",
            "c1 x.com/gpu -> container-1-request-0",
        ],
    );
}

#[test]
fn a_node_that_offers_the_resource_needs_no_devices() {
    let cluster = cluster(&["d0"]);
    assert_eq!(filter(&cluster, &gpus("pod", "9"), &[(GPU, 1)]), Filter::Fits(NodeAllocation::default()));
    let Filter::Fits(allocation) = filter(&cluster, &gpus("pod", "1"), &[(GPU, 0)]) else {
        panic!("a node that lists nothing of it has devices")
    };
    assert!(allocation.new.is_some());
    assert_eq!(filter(&cluster, &gpus("pod", "2"), &[]), no(CANNOT));
}

#[test]
fn each_resource_comes_from_the_node_or_from_devices() {
    let mut cluster = cluster(&["d0", "d1"]);
    cluster.devices.upsert_class(&offering("n", Some("x.com/nic"), 0));
    let pod = asking("pod", &[(Main, &[(GPU, "1"), ("x.com/nic", "1")])]);
    let names = |filter: Filter| match filter {
        Filter::Fits(allocation) => told(allocation.new.as_ref().unwrap()).0,
        other => panic!("{other:?}"),
    };
    assert_eq!(names(filter(&cluster, &pod, &[("x.com/nic", 4)])), ["container-0-request-0: c*1"]);
    assert_eq!(names(filter(&cluster, &pod, &[(GPU, 4)])), ["container-0-request-1: n*1"]);
    assert_eq!(
        names(filter(&cluster, &pod, &[])),
        ["container-0-request-0: c*1", "container-0-request-1: n*1"]
    );
}

#[test]
fn a_resource_of_nobody_does_not_fit() {
    let cluster = cluster(&["d0"]);
    let pod = asking("pod", &[(Main, &[(GPU, "1"), ("y.com/nic", "1")])]);
    assert_eq!(filter(&cluster, &pod, &[]), no("cannot fit resource"));
    assert!(matches!(filter(&cluster, &pod, &[("y.com/nic", 1)]), Filter::Fits(_)));
    let native = asking("pod", &[(Main, &[(GPU, "1"), ("x.orch.io/nic", "1")])]);
    assert!(matches!(filter(&cluster, &native, &[]), Filter::Fits(_)), "that is another plugin's");
}

#[test]
fn claims_that_the_pod_names_share_no_device_with_the_new_one() {
    let mut cluster = cluster(&["d0", "d1"]);
    cluster.add(claim("x", vec![one("r", &[])]));
    let mut pod = gpus("pod", "1");
    pod.spec.as_mut().unwrap().resource_claims = pod_with(&["x"]).spec.unwrap().resource_claims;
    let allocation = fits(&cluster, &pod);
    let uids: Vec<&str> = allocation.results.iter().map(|(uid, _)| uid.as_str()).collect();
    assert_eq!(uids, ["uid-x", "uid-pod/extended-resources"]);
    let device = |at: usize| &allocation.results[at].1.devices.as_ref().unwrap().results[0].device;
    assert_eq!((device(0).as_str(), device(1).as_str()), ("d0", "d1"));
    let Filter::Fits(allocation) = filter(&cluster, &pod, &[(GPU, 1)]) else { panic!("the node has both") };
    assert_eq!((allocation.results.len(), allocation.new), (1, None));
}

#[test]
fn more_devices_than_a_claim_may_have_are_an_error() {
    let told = filter(&cluster(&["d0"]), &gpus("pod", "33"), &[]);
    let expected =
        "claim ns/<extended-resources>: number of requested devices 33 exceeds the claim limit of 32";
    assert_eq!(told, Filter::Error(expected.to_owned()));
}

/// A class whose evaluation takes more than the steps of a plan is known after some plans.
#[test]
fn amounts_that_a_plan_could_not_count_are_counted_by_later_ones() {
    let hundred = format!("[{}]", vec!["1"; 100].join(","));
    let costly = |number: usize| format!("{hundred}.all(a, {hundred}.all(b, a + b < {number}))");
    let expressions: Vec<String> = (10..30).map(costly).collect();
    let expressions: Vec<&str> = expressions.iter().map(String::as_str).collect();
    let mut cluster = cluster(&["d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"]);
    let mut class = offering("c", Some(GPU), 0);
    class.spec.as_mut().unwrap().selectors = selectors(&expressions);
    cluster.devices.upsert_class(&class);
    let counts = || cluster.devices.counts(GPU, NodeOf { name: "a", labels: &labels_of("a") });
    let mut versions = Vec::new();
    let plans = (0..20).take_while(|_| {
        cluster.devices.begin_plan();
        versions.push(cluster.devices.version());
        counts() == (0, 0)
    });
    let plans = plans.count();
    assert!((1..10).contains(&plans), "{plans}");
    assert!(versions.is_sorted_by(|one, next| one < next), "each is judged anew: {versions:?}");
    cluster.devices.begin_plan();
    cluster.devices.begin_plan();
    assert_eq!(Some(&cluster.devices.version()), versions.last(), "until nothing is missing");
    assert_eq!(counts(), (8, 0));
}

#[test]
fn a_class_that_fails_is_evaluated_once() {
    let mut cluster = cluster(&["d0"]);
    let mut class = offering("c", Some(GPU), 0);
    class.spec.as_mut().unwrap().selectors = selectors(&["device.attributes['d.io'].none == 1"]);
    cluster.devices.upsert_class(&class);
    let version = cluster.devices.version();
    for _ in 0..3 {
        cluster.devices.begin_plan();
        assert_eq!(cluster.devices.counts(GPU, NodeOf { name: "a", labels: &labels_of("a") }), (0, 0));
        assert_eq!(cluster.devices.version(), version, "another plan would find the same");
    }
}
