//! Usage of pods: what their containers ask for, and whether a pod still counts.

use std::collections::{BTreeMap, BTreeSet};

use orch_proto::Brand;
use orch_schema::excerpt::beginning;
use orch_schema::quantity::Amount;
use orch_schema::value::Value;
use orch_schema::{Instant, Precision};

use super::{Amounts, Scope, amounts};
use crate::kinds::pod::qos::qos_class;
use crate::kinds::pod::resources::is_extended;
use crate::validate::tree::Tree;

const HUGE_PAGES: &str = "hugepages-";

/// Resources of which each container must state an amount where a quota limits them.
const STATED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Which amounts of a pod count: those of its spec only, or also its overhead and the resources allocated to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The spec alone, without the overhead of the pod's runtime.
    Spec,
    /// The overhead, too, and what containers have been given, where that is more than what they ask for.
    Allotted,
}

/// The sum of `requests` or `limits` of a pod: that of its containers that run side by side, or of an init container where
/// that is more. Amounts that the pod states as a whole replace sums.
pub fn sum(pod: &Value, field: &str, extent: Extent) -> Amounts {
    let spec = pod.at("spec");
    let allotments = Allotments::of(pod, field, extent);
    let mut total = Amounts::new();
    for container in spec.items("containers") {
        add(&mut total, allotments.of_container(container));
    }
    // Sidecars started so far, which run beside each later init container.
    let mut beside = Amounts::new();
    let mut starting = Amounts::new();
    for container in spec.items("initContainers") {
        if container.text("restartPolicy") == "Always" {
            let needs = allotments.of_container(container);
            add(&mut total, needs.clone());
            add(&mut beside, needs.clone());
            raise(&mut starting, needs.into_keys().filter_map(|name| beside.get_key_value(&name)));
            continue;
        }
        let needs = amounts(container.at("resources"), field);
        let sums = needs.iter().map(|(name, amount)| {
            (name, beside.get(name).map_or(*amount, |sidecars| sidecars.plus(*amount)))
        });
        for (name, sum) in sums {
            raise(&mut starting, [(name, &sum)]);
        }
    }
    raise(&mut total, &starting);
    let whole = amounts(spec.at("resources"), field).into_iter();
    total.extend(whole.filter(|(name, _)| is_of_whole_pod(name)));
    if extent == Extent::Allotted {
        for (name, overhead) in amounts(spec, "overhead") {
            match total.get_mut(&name) {
                Some(amount) => *amount = amount.plus(overhead),
                None if field == "requests" => drop(total.insert(name, overhead)),
                None => {}
            }
        }
    }
    total
}

/// The resources that containers have been given, where these count.
struct Allotments<'a> {
    field: &'a str,
    /// Statuses with resources, by the container's name.
    statuses: BTreeMap<&'a str, &'a Value>,
    /// The requests of the containers cannot be granted: only their allotted resources count.
    is_infeasible: bool,
}

impl<'a> Allotments<'a> {
    fn of(pod: &'a Value, field: &'a str, extent: Extent) -> Self {
        let status = pod.at("status");
        let all = status.items("containerStatuses").iter().chain(status.items("initContainerStatuses"));
        let counted = all.filter(|status| extent == Extent::Allotted && status.has("resources"));
        // once: the conditions of one pod.
        let is_infeasible = status.items("conditions").iter().any(|condition| {
            condition.text("type") == "PodResizePending" && condition.text("reason") == "Infeasible"
        });
        let statuses = counted.map(|status| (status.text("name"), status)).collect();
        Allotments { field, statuses, is_infeasible }
    }

    /// The larger one of what a container asks for and what it has been given.
    fn of_container(&self, container: &Value) -> Amounts {
        let asked = amounts(container.at("resources"), self.field);
        let Some(status) = self.statuses.get(container.text("name")) else { return asked };
        let mut given = if self.is_infeasible { Amounts::new() } else { asked };
        raise(&mut given, &amounts(status.at("resources"), self.field));
        if self.field == "requests" {
            raise(&mut given, &amounts(status, "allocatedResources"));
        }
        given
    }
}

fn add(total: &mut Amounts, more: Amounts) {
    for (name, amount) in more {
        total.entry(name).and_modify(|sum| *sum = sum.plus(amount)).or_insert(amount);
    }
}

fn raise<'a>(total: &mut Amounts, other: impl IntoIterator<Item = (&'a String, &'a Amount)>) {
    for (name, &amount) in other {
        total.entry(name.clone()).and_modify(|most| *most = most.max(amount)).or_insert(amount);
    }
}

/// Whether a pod as a whole may ask for the resource.
fn is_of_whole_pod(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with(HUGE_PAGES)
}

/// Whether a pod counts for more than its number of objects: it has not ended, and its node is not past the time that it
/// had to end it.
pub(super) fn is_active(pod: &Value, now: i64) -> bool {
    let metadata = pod.at("metadata");
    let is_overdue = || {
        let deleted = Instant::parse(metadata.text("deletionTimestamp"), Precision::Seconds)?;
        let grace = metadata.int("deletionGracePeriodSeconds")?;
        Some(now > deleted.seconds.saturating_add(grace))
    };
    let has_ended = matches!(pod.at("status").text("phase"), "Failed" | "Succeeded");
    !has_ended && !is_overdue().unwrap_or(false)
}

/// The usage of an active pod, besides the number of objects.
pub(super) fn usage(brand: &Brand, pod: &Value) -> Amounts {
    let sum = |field| sum(pod, field, Extent::Allotted);
    named(brand, &sum("requests"), &sum("limits"))
}

/// Requests and limits under their names in quotas.
fn named(brand: &Brand, requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), Amount::count(1))]);
    for (name, &amount) in requests {
        let is_plain =
            matches!(&**name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with(HUGE_PAGES);
        if is_plain {
            usage.insert(name.clone(), amount);
        }
        if is_plain || is_extended(brand, name) {
            usage.insert(format!("requests.{name}"), amount);
        }
    }
    for (name, &amount) in limits {
        if matches!(&**name, "cpu" | "memory" | "ephemeral-storage") {
            usage.insert(format!("limits.{name}"), amount);
        }
    }
    usage
}

/// Whether a pod is in a scope.
pub(super) fn is_in(scope: &Scope<'_>, pod: &Value) -> bool {
    let spec = pod.at("spec");
    let ends_by_itself = || spec.int("activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0);
    let is_best_effort = || match pod.at("status").text("qosClass") {
        "" => qos_class(spec) == "BestEffort",
        class => class == "BestEffort",
    };
    match scope.name {
        "Terminating" => ends_by_itself(),
        "NotTerminating" => !ends_by_itself(),
        "BestEffort" => is_best_effort(),
        "NotBestEffort" => !is_best_effort(),
        "PriorityClass" => match spec.text("priorityClassName") {
            "" => scope.selects(&[]),
            class => scope.selects(&[class]),
        },
        "CrossNamespacePodAffinity" => has_terms_of_other_namespaces(spec.at("affinity")),
        _ => false,
    }
}

fn has_terms_of_other_namespaces(affinity: &Value) -> bool {
    let names_others = |term: &Value| !term.items("namespaces").is_empty() || term.has("namespaceSelector");
    // few: two names.
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let terms = affinity.at(kind);
        let required = terms.items("requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = terms.items("preferredDuringSchedulingIgnoredDuringExecution");
        // once: each term is looked at one time.
        required.iter().any(names_others)
            // once: as above.
            || preferred.iter().any(|term| names_others(term.at("podAffinityTerm")))
    })
}

/// See [`super::Measure::check`].
pub(super) fn check<'a>(
    brand: &Brand,
    resources: impl Iterator<Item = &'a str>,
    pod: &Value,
) -> Result<(), String> {
    // few: six names.
    let required: Vec<&str> = resources.filter(|resource| STATED.contains(resource)).collect();
    let spec = pod.at("spec");
    let is_whole =
        // once: the amounts of one pod.
        |field: &str| spec.at("resources").entries(field).iter().any(|(name, _)| is_of_whole_pod(name));
    if required.is_empty() || is_whole("requests") || is_whole("limits") {
        return Ok(());
    }
    let mut lacking: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in spec.items("containers").iter().chain(spec.items("initContainers")) {
        let resources = container.at("resources");
        let stated = named(brand, &amounts(resources, "requests"), &amounts(resources, "limits"));
        for name in required.iter().filter(|name| !stated.contains_key(**name)) {
            lacking.entry(name).or_default().insert(container.text("name"));
        }
    }
    if lacking.is_empty() {
        return Ok(());
    }
    let texts = lacking.into_iter().map(|(resource, containers)| {
        let containers: Vec<&str> = containers.into_iter().collect();
        format!("{resource} for: {}", beginning(&containers.join(",")))
    });
    Err(format!("must specify {}", texts.collect::<Vec<_>>().join("; ")))
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::super::tests::{check as check_usage, measure};
    use super::*;

    fn container(requests: Value) -> Value {
        json!({"name": "c", "resources": {"requests": requests}})
    }

    #[test]
    fn a_pod_uses_what_its_containers_ask_for_at_one_time() {
        let spec = json!({
            "containers": [container(json!({"cpu": "300m", "memory": "100Mi"})), container(json!({"cpu": "100m"}))],
            "initContainers": [container(json!({"cpu": "600m", "example.com/gpu": "1"}))],
            "overhead": {"memory": "28Mi"},
        });
        check_usage(
            "pods",
            json!({"spec": spec}),
            &[
                ("count/pods", "1"),
                ("cpu", "600m"),
                ("memory", "128Mi"),
                ("pods", "1"),
                ("requests.cpu", "600m"),
                ("requests.example.com/gpu", "1"),
                ("requests.memory", "128Mi"),
            ],
        );
        let sidecar =
            json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}});
        let spec = json!({
            "containers": [container(json!({"cpu": "1"}))],
            "initContainers": [sidecar, container(json!({"cpu": "3"}))],
        });
        assert_eq!(sum(&json!({"spec": spec}), "requests", Extent::Spec)["cpu"].to_string(), "4");
    }

    #[test]
    fn amounts_of_the_whole_pod_and_given_ones_count() {
        let spec =
            json!({"containers": [container(json!({"cpu": "1"}))], "resources": {"requests": {"cpu": "5"}}});
        assert_eq!(sum(&json!({"spec": spec}), "requests", Extent::Spec)["cpu"].to_string(), "5");
        let pod = json!({
            "spec": {"containers": [container(json!({"cpu": "1"}))]},
            "status": {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
        });
        assert_eq!(sum(&pod, "requests", Extent::Allotted)["cpu"].to_string(), "2");
        assert_eq!(sum(&pod, "requests", Extent::Spec)["cpu"].to_string(), "1");
    }

    #[test]
    fn pods_that_have_ended_or_are_overdue_count_as_objects_only() {
        let only_object = [("count/pods", "1")];
        check_usage("pods", json!({"status": {"phase": "Succeeded"}}), &only_object);
        let metadata = json!({"deletionTimestamp": "1970-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30});
        let measure = measure("pods");
        let pod = json!({"metadata": metadata});
        assert!(measure.usage(&pod, 90).contains_key("pods"));
        assert!(!measure.usage(&pod, 91).contains_key("pods"));
    }

    #[test]
    fn scopes_of_pods() {
        let other = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"podAffinityTerm": {"namespaceSelector": {}}}]}});
        for (spec, name, expected) in [
            (json!({"activeDeadlineSeconds": 5}), "Terminating", true),
            (json!({"activeDeadlineSeconds": 5}), "NotTerminating", false),
            (json!({"containers": [{}]}), "BestEffort", true),
            (json!({"containers": [container(json!({"cpu": "1"}))]}), "NotBestEffort", true),
            (json!({"priorityClassName": "high"}), "PriorityClass", true),
            (json!({}), "PriorityClass", false),
            (json!({"affinity": other}), "CrossNamespacePodAffinity", true),
            (json!({"affinity": {"podAffinity": {}}}), "CrossNamespacePodAffinity", false),
            (json!({}), "VolumeAttributesClass", false),
        ] {
            let scope = Scope { name, operator: "Exists", values: &[] };
            assert_eq!(is_in(&scope, &json!({"spec": spec})), expected, "{name} {spec}");
        }
    }

    #[test]
    fn containers_must_state_what_is_limited() {
        let required = ["limits.cpu", "pods", "requests.cpu", "requests.ephemeral-storage"];
        let check = |pod: Value| measure("pods").check(required.into_iter(), &pod);
        let named = |name: &str, resources: Value| json!({"name": name, "resources": resources});
        let (full, half) =
            (json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}), json!({"requests": {"cpu": "1"}}));
        let spec = json!({"containers": [named("a", full), named("c", half)], "initContainers": [named("b", json!({}))]});
        assert_eq!(
            check(json!({"spec": spec})).unwrap_err(),
            "must specify limits.cpu for: b,c; requests.cpu for: b"
        );
        let spec = json!({"containers": [named("a", json!({}))], "resources": {"limits": {"cpu": "1"}}});
        assert_eq!(check(json!({"spec": spec})), Ok(()));
    }
}
