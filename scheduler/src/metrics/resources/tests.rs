//! The page of what pods ask for and may take.

use std::collections::BTreeMap;
use std::sync::Arc;

use orch_proto::brand::{KUBERNETES, ORCH};

use super::*;
use crate::api::core::v1::{Container, Pod, PodSpec, PodStatus, ResourceRequirements};
use crate::api::meta::v1::ObjectMeta;
use crate::api::resource;
use crate::client::{Change, ObjectKey};

fn amounts(pairs: &[(&str, &str)]) -> BTreeMap<String, resource::Quantity> {
    let quantity = |text: &str| resource::Quantity { string: text.to_owned() };
    pairs.iter().map(|(name, text)| ((*name).to_owned(), quantity(text))).collect()
}

fn container(requests: &[(&str, &str)], limits: &[(&str, &str)]) -> Container {
    let resources = ResourceRequirements {
        requests: amounts(requests),
        limits: amounts(limits),
        ..ResourceRequirements::default()
    };
    Container { resources: Some(resources), ..Container::default() }
}

fn pod(name: &str, spec: PodSpec) -> Pod {
    let metadata = ObjectMeta { name: name.to_owned(), namespace: "n".to_owned(), ..ObjectMeta::default() };
    let spec = PodSpec { scheduler_name: "other".to_owned(), ..spec };
    Pod { metadata: Some(metadata), spec: Some(spec), status: Some(PodStatus::default()) }
}

fn told(pods: &[Pod]) -> Ledger {
    let ledger = Ledger::default();
    for pod in pods {
        ledger.apply(&Change::Upsert(Box::new(pod.clone())));
    }
    ledger
}

/// The series of the page, each with its value.
fn series(ledger: &Ledger) -> Vec<String> {
    let page = render(&KUBERNETES, ledger);
    page.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn each_resource_of_a_pod_is_a_series_with_its_unit() {
    let containers = vec![container(
        &[
            ("cpu", "500m"),
            ("memory", "1Gi"),
            ("ephemeral-storage", "1k"),
            ("hugepages-2Mi", "4Mi"),
            ("attachable-volumes-a", "2"),
            ("example.com/gpu", "3"),
            ("example.com/none", "0"),
        ],
        &[("cpu", "1")],
    )];
    let spec = PodSpec { containers, node_name: "a".to_owned(), priority: Some(-7), ..PodSpec::default() };
    let common = "namespace=\"n\",node=\"a\",pod=\"p\",priority=\"-7\"";
    let line = |kind: &str, resource: &str, unit: &str, value: &str| {
        format!(
            "kube_pod_resource_{kind}{{{common},resource=\"{resource}\",scheduler=\"other\",unit=\"{unit}\"}} {value}"
        )
    };
    assert_eq!(
        series(&told(&[pod("p", spec)])),
        [
            line("limit", "cpu", "cores", "1"),
            line("request", "attachable-volumes-a", "integer", "2"),
            line("request", "cpu", "cores", "0.5"),
            line("request", "ephemeral-storage", "bytes", "1000"),
            line("request", "example.com/gpu", "", "3"),
            line("request", "hugepages-2Mi", "bytes", "4194304"),
            line("request", "memory", "bytes", "1073741824"),
        ]
    );
}

#[test]
fn families_are_described_under_the_brands_name_where_they_have_a_series() {
    let requests = PodSpec { containers: vec![container(&[("cpu", "1")], &[])], ..PodSpec::default() };
    let page = render(&ORCH, &told(&[pod("p", requests)]));
    let head: Vec<_> = page.lines().take(2).collect();
    assert!(head[0].starts_with("# HELP orch_pod_resource_request [STABLE] "), "{page}");
    assert_eq!(head[1], "# TYPE orch_pod_resource_request gauge");
    assert!(!page.contains("orch_pod_resource_limit"), "{page}");
    assert_eq!(render(&ORCH, &Ledger::default()), "");
}

#[test]
fn overhead_adds_to_requests_and_to_the_limits_that_there_are() {
    let spec = PodSpec {
        containers: vec![container(&[("cpu", "1")], &[("cpu", "2")]), container(&[("memory", "8")], &[])],
        overhead: amounts(&[("cpu", "250m"), ("memory", "2")]),
        ..PodSpec::default()
    };
    let values: Vec<_> = series(&told(&[pod("p", spec)]))
        .iter()
        .map(|line| line.rsplit(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(values, ["2.25", "1.25", "10"]);
}

#[test]
fn pods_leave_the_page_when_they_end_or_are_deleted() {
    let spec = |node: &str| PodSpec {
        containers: vec![container(&[("cpu", "1")], &[])],
        node_name: node.to_owned(),
        ..PodSpec::default()
    };
    let ended = |name: &str, node: &str| {
        let mut pod = pod(name, spec(node));
        pod.status.as_mut().unwrap().phase = "Failed".to_owned();
        pod
    };
    let ledger = told(&[pod("a", spec("x")), pod("b", spec("")), pod("c", spec("x")), ended("d", "")]);
    assert_eq!(series(&ledger).len(), 4, "a pod without a node has not ended");
    ledger.apply(&Change::Upsert(Box::new(ended("a", "x"))));
    ledger.apply(&Change::Delete(ObjectKey::new("n", "c")));
    let left = ledger.pods();
    assert_eq!(left.iter().map(|pod| &*pod.name).collect::<Vec<_>>(), ["b", "d"]);
    assert!(Arc::ptr_eq(&left[0].demand, &left[1].demand), "pods of one template share their amounts");
}
