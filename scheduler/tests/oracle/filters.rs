//! The filters, each straight from its definition, over all pods and nodes as they are.

use std::collections::{BTreeMap, BTreeSet};

use orch_proto::brand::ORCH;
use orch_scheduler::api::core::v1;
use orch_scheduler::api::meta::v1::LabelSelector;

/// Everything there is.
#[derive(Clone, Default)]
pub(crate) struct State {
    /// Nodes by name.
    pub(crate) nodes: BTreeMap<String, v1::Node>,
    /// Pods on nodes, by uid.
    pub(crate) pods: BTreeMap<String, v1::Pod>,
    /// Labels of namespaces.
    pub(crate) namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// How many devices nodes have, by name.
    pub(crate) devices: BTreeMap<String, usize>,
    /// Whether a class has the devices stand for the extended resource.
    pub(crate) has_class: bool,
    /// Devices that pods hold, by uid: node and device.
    pub(crate) held: BTreeMap<String, BTreeSet<(String, String)>>,
}

/// The extended resource of these clusters.
pub(crate) const GPU: &str = "x.com/gpu";

/// How many devices stand for the extended resources of a pod on a node that does not offer them.
pub(crate) fn devices_for(pod: &v1::Pod) -> usize {
    usize::try_from(request(pod, GPU, 0) / 1000).unwrap()
}

/// The labels of an object.
pub(crate) fn labels(meta: &Option<orch_scheduler::api::meta::v1::ObjectMeta>) -> &BTreeMap<String, String> {
    &meta.as_ref().unwrap().labels
}

/// The namespace of a pod.
pub(crate) fn namespace(pod: &v1::Pod) -> &str {
    &pod.metadata.as_ref().unwrap().namespace
}

/// The spec of a pod.
pub(crate) fn spec(pod: &v1::Pod) -> &v1::PodSpec {
    pod.spec.as_ref().unwrap()
}

/// Amount of a resource in millis.
pub(crate) fn millis(text: &str) -> i64 {
    for (suffix, factor) in [("Mi", 1000 << 20), ("m", 1)] {
        if let Some(number) = text.strip_suffix(suffix) {
            return number.parse::<i64>().unwrap() * factor;
        }
    }
    text.parse::<i64>().unwrap() * 1000
}

/// A pod's request for a resource, in millis; `missing` for containers without a request.
pub(crate) fn request(pod: &v1::Pod, name: &str, missing: i64) -> i64 {
    let of = |container: &v1::Container| {
        let requests = &container.resources.as_ref().unwrap().requests;
        requests.get(name).map_or(missing, |amount| millis(&amount.string))
    };
    let main: i64 = spec(pod).containers.iter().map(of).sum();
    let (mut sidecars, mut peak) = (0, 0);
    for container in &spec(pod).init_containers {
        if container.restart_policy.is_some() {
            sidecars += of(container);
            peak = peak.max(sidecars);
        } else {
            peak = peak.max(sidecars + of(container));
        }
    }
    peak.max(main + sidecars)
}

/// The amount of a resource on a node, in millis.
pub(crate) fn allocatable(node: &v1::Node, name: &str) -> i64 {
    node.status.as_ref().unwrap().allocatable.get(name).map_or(0, |amount| millis(&amount.string))
}

impl State {
    /// The pods on a node.
    pub(crate) fn on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a v1::Pod> {
        self.pods.values().filter(move |pod| spec(pod).node_name == node)
    }

    fn sum(&self, node: &str, name: &str) -> i64 {
        self.on(node).map(|pod| request(pod, name, 0)).sum()
    }

    /// The reasons of the first filter that refuses a node; empty if it fits.
    pub(crate) fn reasons(&self, pod: &v1::Pod, name: &str) -> Vec<String> {
        let node = &self.nodes[name];
        let refuse = |refuses: bool, reason: &str| if refuses { vec![reason.to_owned()] } else { Vec::new() };
        let filters: [&dyn Fn() -> Vec<String>; 8] = [
            &|| refuse(unschedulable(pod, node), "node(s) were unschedulable"),
            &|| refuse(!tolerates(pod, node), "node(s) had untolerated taint(s)"),
            &|| refuse(!required_node(pod, node), "node(s) didn't match Pod's node affinity/selector"),
            &|| {
                refuse(
                    self.ports_taken(pod, name),
                    "node(s) didn't have free ports for the requested pod ports",
                )
            },
            &|| self.too_large(pod, name),
            &|| self.skewed(pod, name),
            &|| self.in_bad_company(pod, name),
            &|| refuse(self.lacks_devices(pod, name), "cannot allocate all claims"),
        ];
        filters.iter().map(|filter| filter()).find(|reasons| !reasons.is_empty()).unwrap_or_default()
    }

    fn ports_taken(&self, pod: &v1::Pod, node: &str) -> bool {
        let wanted = ports(pod);
        self.on(node).flat_map(ports).any(|(ip, protocol)| {
            wanted.iter().any(|(i, p)| *p == protocol && (*i == ip || *i == "0.0.0.0" || ip == "0.0.0.0"))
        })
    }

    fn too_large(&self, pod: &v1::Pod, name: &str) -> Vec<String> {
        let node = &self.nodes[name];
        let mut reasons = Vec::new();
        if i64::try_from(self.on(name).count()).unwrap() * 1000 >= allocatable(node, "pods") {
            reasons.push("Too many pods".to_owned());
        }
        for resource in ["cpu", "memory", GPU] {
            if resource == GPU && self.uses_devices(pod, name) {
                continue;
            }
            let asked = request(pod, resource, 0);
            if asked > 0 && asked > allocatable(node, resource) - self.sum(name, resource) {
                reasons.push(format!("Insufficient {resource}"));
            }
        }
        reasons
    }

    /// Whether devices stand for the extended resources of a pod on a node.
    pub(crate) fn uses_devices(&self, pod: &v1::Pod, name: &str) -> bool {
        self.has_class && devices_for(pod) > 0 && allocatable(&self.nodes[name], GPU) == 0
    }

    fn lacks_devices(&self, pod: &v1::Pod, name: &str) -> bool {
        let all = (0..self.devices.get(name).copied().unwrap_or(0)).map(|index| format!("d{index}"));
        let is_held = |device: &String| {
            self.held.values().any(|held| held.contains(&(name.to_owned(), device.clone())))
        };
        self.uses_devices(pod, name) && all.filter(|device| !is_held(device)).count() < devices_for(pod)
    }

    /// Nodes whose pods count for a constraint.
    fn counted_nodes<'a>(
        &'a self,
        pod: &'a v1::Pod,
        constraint: &'a v1::TopologySpreadConstraint,
    ) -> impl Iterator<Item = (&'a String, &'a v1::Node)> {
        let all = spec(pod).topology_spread_constraints.iter();
        let hard: Vec<_> = all.filter(|c| c.when_unsatisfiable == constraint.when_unsatisfiable).collect();
        self.nodes.iter().filter(move |(_, node)| {
            hard.iter().all(|c| labels(&node.metadata).contains_key(&c.topology_key))
                && lets_in(pod, node, constraint)
        })
    }

    /// Pods that a constraint counts on a node.
    pub(crate) fn counted_pods(
        &self,
        pod: &v1::Pod,
        constraint: &v1::TopologySpreadConstraint,
        node: &str,
    ) -> i64 {
        if asks_for_nothing(pod, constraint) {
            return 0;
        }
        let counted = self.on(node).filter(|other| {
            namespace(other) == namespace(pod)
                && other.metadata.as_ref().unwrap().deletion_timestamp.is_none()
                && constraint_selects(pod, constraint, other)
        });
        i64::try_from(counted.count()).unwrap()
    }

    fn skewed(&self, pod: &v1::Pod, name: &str) -> Vec<String> {
        let own = labels(&self.nodes[name].metadata);
        let all = spec(pod).topology_spread_constraints.iter();
        for constraint in all.filter(|c| c.when_unsatisfiable == "DoNotSchedule") {
            let Some(domain) = own.get(&constraint.topology_key) else {
                return vec![
                    "node(s) didn't match pod topology spread constraints (missing required label)".into(),
                ];
            };
            let mut counts: BTreeMap<&String, i64> = BTreeMap::new();
            for (other, node) in self.counted_nodes(pod, constraint) {
                let domain = &labels(&node.metadata)[&constraint.topology_key];
                *counts.entry(domain).or_default() += self.counted_pods(pod, constraint, other);
            }
            let mut smallest = counts.values().min().copied().unwrap_or(i64::from(i32::MAX));
            if counts.len() < usize::try_from(constraint.min_domains.unwrap_or(1)).unwrap() {
                smallest = 0;
            }
            let own = i64::from(constraint_selects(pod, constraint, pod));
            let count = counts.get(domain).copied().unwrap_or(0);
            if count + own - smallest > i64::from(constraint.max_skew) {
                return vec!["node(s) didn't match pod topology spread constraints".into()];
            }
        }
        Vec::new()
    }

    /// Whether a term of `holder` selects `other`.
    pub(crate) fn selects(&self, holder: &v1::Pod, term: &v1::PodAffinityTerm, other: &v1::Pod) -> bool {
        let empty = BTreeMap::new();
        let of_namespace = self.namespaces.get(namespace(other)).unwrap_or(&empty);
        let default = term.namespaces.is_empty() && term.namespace_selector.is_none();
        let in_namespace = term.namespaces.iter().any(|name| name == namespace(other))
            || (default && namespace(holder) == namespace(other))
            || term.namespace_selector.as_ref().is_some_and(|selector| matches(selector, of_namespace));
        in_namespace && term.label_selector.as_ref().is_some_and(|s| matches(s, labels(&other.metadata)))
    }

    /// The value of a label of the node that a pod is on.
    pub(crate) fn domain_of(&self, pod: &v1::Pod, key: &str) -> Option<&String> {
        labels(&self.nodes.get(&spec(pod).node_name)?.metadata).get(key)
    }

    fn in_bad_company(&self, pod: &v1::Pod, name: &str) -> Vec<String> {
        let own = labels(&self.nodes[name].metadata);
        let (near, apart) = required(pod);
        let chosen: Vec<_> =
            self.pods.values().filter(|o| near.iter().all(|t| self.selects(pod, t, o))).collect();
        let is_near = |term: &&v1::PodAffinityTerm| {
            own.get(&term.topology_key).is_some_and(|domain| {
                chosen.iter().any(|other| self.domain_of(other, &term.topology_key) == Some(domain))
            })
        };
        let has_keys = near.iter().all(|term| own.contains_key(&term.topology_key));
        let nobody = near.iter().all(|t| chosen.iter().all(|o| self.domain_of(o, &t.topology_key).is_none()));
        let alone = nobody && near.iter().all(|term| self.selects(pod, term, pod));
        if !near.is_empty() && !(has_keys && (near.iter().all(is_near) || alone)) {
            return vec!["node(s) didn't match pod affinity rules".into()];
        }
        let together = |other: &v1::Pod, key: &str| {
            own.get(key).is_some_and(|domain| self.domain_of(other, key) == Some(domain))
        };
        let conflict = |term: &&v1::PodAffinityTerm| {
            self.pods
                .values()
                .any(|other| self.selects(pod, term, other) && together(other, &term.topology_key))
        };
        if apart.iter().any(conflict) {
            return vec!["node(s) didn't match pod anti-affinity rules".into()];
        }
        let forbids = |other: &v1::Pod| {
            let (_, apart) = required(other);
            apart.iter().any(|term| self.selects(other, term, pod) && together(other, &term.topology_key))
        };
        if self.pods.values().any(forbids) {
            return vec!["node(s) didn't satisfy existing pods anti-affinity rules".into()];
        }
        Vec::new()
    }
}

/// Required terms of affinity and of anti-affinity.
pub(crate) fn required(pod: &v1::Pod) -> (Vec<&v1::PodAffinityTerm>, Vec<&v1::PodAffinityTerm>) {
    let affinity = spec(pod).affinity.as_ref();
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    (
        near.iter().flat_map(|n| &n.required_during_scheduling_ignored_during_execution).collect(),
        apart.iter().flat_map(|a| &a.required_during_scheduling_ignored_during_execution).collect(),
    )
}

fn ports(pod: &v1::Pod) -> BTreeSet<(&str, &str)> {
    let sidecars = spec(pod).init_containers.iter().filter(|container| container.restart_policy.is_some());
    let ports = spec(pod).containers.iter().chain(sidecars).flat_map(|container| &container.ports);
    let or = |text: &'static str, given: &'static str| if given.is_empty() { text } else { given };
    let ports: BTreeSet<(String, String)> = ports
        .map(|port| {
            (or("0.0.0.0", leak(&port.host_ip)).to_owned(), or("TCP", leak(&port.protocol)).to_owned())
        })
        .collect();
    ports.into_iter().map(|(ip, protocol)| (leak(&ip), leak(&protocol))).collect()
}

/// Texts of a handful of ports.
fn leak(text: &str) -> &'static str {
    ["", "0.0.0.0", "1.1.1.1", "2.2.2.2", "TCP", "UDP"].into_iter().find(|known| *known == text).unwrap()
}

fn unschedulable(pod: &v1::Pod, node: &v1::Node) -> bool {
    let taint = v1::Taint {
        key: format!("node.{}", ORCH.label("unschedulable")),
        effect: "NoSchedule".into(),
        ..Default::default()
    };
    node.spec.as_ref().unwrap().unschedulable && !tolerated(pod, &taint)
}

/// Whether a pod tolerates a taint.
pub(crate) fn tolerated(pod: &v1::Pod, taint: &v1::Taint) -> bool {
    spec(pod).tolerations.iter().any(|toleration| {
        (toleration.effect.is_empty() || toleration.effect == taint.effect)
            && (toleration.key.is_empty() || toleration.key == taint.key)
            && (toleration.operator == "Exists" || toleration.value == taint.value)
    })
}

fn tolerates(pod: &v1::Pod, node: &v1::Node) -> bool {
    let taints = node.spec.as_ref().unwrap().taints.iter();
    taints.filter(|taint| taint.effect != "PreferNoSchedule").all(|taint| tolerated(pod, taint))
}

/// Whether a term of a node selector matches.
pub(crate) fn node_term(term: &v1::NodeSelectorTerm, node: &v1::Node) -> bool {
    term.match_expressions.iter().all(|expression| {
        let value = labels(&node.metadata).get(&expression.key);
        let number = value.and_then(|value| value.parse::<i64>().ok());
        let bound = expression.values.first().and_then(|bound| bound.parse::<i64>().ok());
        match expression.operator.as_str() {
            "Gt" => number.is_some_and(|number| number > bound.unwrap()),
            "Lt" => number.is_some_and(|number| number < bound.unwrap()),
            operator => requirement(operator, &expression.values, value),
        }
    })
}

fn required_node(pod: &v1::Pod, node: &v1::Node) -> bool {
    let affinity = spec(pod).affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    spec(pod).node_selector.iter().all(|(key, value)| labels(&node.metadata).get(key) == Some(value))
        && required
            .is_none_or(|required| required.node_selector_terms.iter().any(|term| node_term(term, node)))
}

/// Whether the policies of a constraint let a node in.
pub(crate) fn lets_in(pod: &v1::Pod, node: &v1::Node, constraint: &v1::TopologySpreadConstraint) -> bool {
    (constraint.node_affinity_policy.as_deref() == Some("Ignore") || required_node(pod, node))
        && (constraint.node_taints_policy.as_deref() != Some("Honor") || tolerates(pod, node))
}

/// Whether the selector of a constraint is there and empty, together with what `matchLabelKeys` adds to it.
fn asks_for_nothing(pod: &v1::Pod, constraint: &v1::TopologySpreadConstraint) -> bool {
    constraint.label_selector.as_ref().is_some_and(|selector| {
        selector.match_labels.is_empty()
            && selector.match_expressions.is_empty()
            && constraint.match_label_keys.iter().all(|key| !labels(&pod.metadata).contains_key(key))
    })
}

/// Whether a constraint of `pod` selects `other`.
pub(crate) fn constraint_selects(
    pod: &v1::Pod,
    constraint: &v1::TopologySpreadConstraint,
    other: &v1::Pod,
) -> bool {
    let (own, others) = (labels(&pod.metadata), labels(&other.metadata));
    constraint.label_selector.as_ref().is_some_and(|selector| matches(selector, others))
        && constraint
            .match_label_keys
            .iter()
            .all(|key| !own.contains_key(key) || own.get(key) == others.get(key))
}

fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions.iter().all(|e| requirement(&e.operator, &e.values, labels.get(&e.key)))
}

fn requirement(operator: &str, values: &[String], value: Option<&String>) -> bool {
    match operator {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        other => panic!("operator {other}"),
    }
}
