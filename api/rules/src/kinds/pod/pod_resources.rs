//! Requests and limits of a pod as a whole, against those of its containers.

use std::collections::BTreeMap;

use orch_proto::Brand;
use orch_schema::budget::Numbered;
use orch_schema::quantity::Amount;
use orch_schema::value::Value;

use crate::kinds::pod::resources::{HUGE_PAGES, validate_amounts, validate_resource_name};
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path};

/// Amounts by the name of their resource.
pub(super) type Amounts<'a> = BTreeMap<&'a str, Amount>;

/// Whether a pod may ask for the resource as a whole.
pub(super) fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

/// Rules for `resources` of a pod spec.
pub(super) fn validate_pod_resources(brand: &Brand, spec: &Value, path: &Path) -> FieldErrors {
    let resources = spec.at("resources");
    if resources.is_null() {
        return FieldErrors::new();
    }
    if spec.at("os").text("name") == "windows" {
        return FieldErrors::from(FieldError::forbidden(path.clone(), "may not be set for a windows pod"));
    }
    let mut errors = FieldErrors::new();
    if !resources.items("claims").is_empty() {
        let detail = "claims may not be set for Resources at pod-level";
        errors.push(FieldError::forbidden(path.child("claims"), detail));
    }
    errors.extend(validate_amounts(brand, resources, validate_pod_resource_name, path));
    errors.extend(validate_sums(spec, path));
    errors.extend(validate_limits_of_containers(spec, path));
    errors
}

/// The amounts in `list`, requests or limits, of a pod's containers together: the regular ones and the sidecars at once,
/// or an init container and the sidecars before it.
pub(super) fn taken_together<'a>(spec: &'a Value, list: &str) -> Amounts<'a> {
    let mut at_once = Amounts::new();
    for container in spec.items("containers") {
        add(&mut at_once, &amounts_of(container, list));
    }
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in spec.items("initContainers") {
        let mut own = amounts_of(container, list);
        if container.text("restartPolicy") == "Always" {
            add(&mut at_once, &own);
            add(&mut sidecars, &own);
            own.clone_from(&sidecars);
        } else {
            add(&mut own, &sidecars);
        }
        raise(&mut starting, &own);
    }
    raise(&mut at_once, &starting);
    at_once
}

fn amounts_of<'a>(holder: &'a Value, list: &str) -> Amounts<'a> {
    let entries = holder.at("resources").entries(list).into_iter();
    entries.filter_map(|(name, amount)| Some((name, Amount::parse(amount.as_str()?)?))).collect()
}

fn add<'a>(sum: &mut Amounts<'a>, other: &Amounts<'a>) {
    for (name, amount) in other {
        let whole = sum.get(name).map_or(*amount, |sum| sum.plus(*amount));
        sum.insert(name, whole);
    }
}

fn raise<'a>(largest: &mut Amounts<'a>, other: &Amounts<'a>) {
    for (name, amount) in other {
        let whole = largest.get(name).map_or(*amount, |largest| largest.max(*amount));
        largest.insert(name, whole);
    }
}

fn validate_pod_resource_name(_: &Brand, name: &str, path: &Path) -> FieldErrors {
    let mut errors = validate_resource_name(name, path);
    if !is_of_pods(name) {
        errors.push(FieldError::not_supported(path.clone(), name, &["cpu", HUGE_PAGES, "memory"]));
    }
    errors
}

/// A pod asks for no less than its containers together, and of huge pages it gets what they may use together.
fn validate_sums(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for list in ["requests", "limits"] {
        let (of_pod, path) = (amounts_of(spec, list), path.child(list));
        let of_containers = taken_together(spec, list);
        let compared =
            of_containers.iter().filter(|(name, _)| list == "requests" || name.starts_with(HUGE_PAGES));
        for (name, together) in compared {
            let short = of_pod.get(name).filter(|amount| together.quantity() > amount.quantity());
            let detail = format!("must be greater than or equal to aggregate container {list} of {together}");
            errors.extend(
                short.map(|amount| FieldError::invalid_str(path.key(name), &amount.to_string(), &detail)),
            );
        }
    }
    errors
}

/// No container may use more than its pod.
fn validate_limits_of_containers(spec: &Value, path: &Path) -> FieldErrors {
    let of_pod = amounts_of(spec, "limits");
    let mut errors = FieldErrors::new();
    for (at, container) in spec.items("containers").iter().numbered() {
        for (name, limit) in amounts_of(container, "limits") {
            let Some(whole) = of_pod.get(name).filter(|whole| limit.quantity() > whole.quantity()) else {
                continue;
            };
            let path = path.child("containers").index(at).key(name).child("limits");
            let detail = format!("must be less than or equal to pod limits of {whole}");
            errors.push(FieldError::invalid_str(path, &limit.to_string(), &detail));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn check(spec: Value, expected: &[&str]) {
        let errors = validate_pod_resources(&orch_proto::brand::ORCH, &spec, &Path::new("r"));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected, "{spec}");
    }

    fn asking(requests: Value) -> Value {
        json!({"resources": {"requests": requests}})
    }

    #[test]
    fn a_pod_asks_for_cpu_memory_and_huge_pages() {
        check(json!({}), &[]);
        check(
            json!({"os": {"name": "windows"}, "resources": {"requests": {"x": "1"}}}),
            &["r: Forbidden: may not be set for a windows pod"],
        );
        check(
            json!({"resources": {
                "claims": [{"name": "a"}], "requests": {"cpu": "2", "storage": "1"}, "limits": {"cpu": "1", "storage": "1"}
            }}),
            &[
                "r.claims: Forbidden: claims may not be set for Resources at pod-level",
                "r.limits[storage]: Unsupported value: \"storage\": supported values: \"cpu\", \"hugepages-\", \"memory\"",
                "r.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
                "r.requests[storage]: Unsupported value: \"storage\": supported values: \"cpu\", \"hugepages-\", \
                 \"memory\"",
            ],
        );
    }

    #[test]
    fn a_pod_asks_for_as_much_as_its_containers_together() {
        let mut sidecar = asking(json!({"cpu": "1"}));
        crate::validate::tree::set(&mut sidecar, "restartPolicy", "Always");
        let spec = json!({
            "containers": [asking(json!({"cpu": "1", "memory": "1Mi"})), asking(json!({"memory": "1Mi"}))],
            "initContainers": [sidecar, asking(json!({"cpu": "1500m"}))],
            "resources": {"requests": {"cpu": "2", "memory": "2Mi"}}
        });
        check(
            spec,
            &[
                "r.requests[cpu]: Invalid value: \"2\": must be greater than or equal to aggregate container requests of \
               2500m",
            ],
        );
        check(
            json!({
                "containers": [
                    {"resources": {"limits": {"cpu": "3", "hugepages-2Mi": "2Mi"}}},
                    {"resources": {"limits": {"hugepages-2Mi": "2Mi"}}}
                ],
                "resources": {"limits": {"cpu": "2", "hugepages-2Mi": "2Mi"}}
            }),
            &[
                "r.limits[hugepages-2Mi]: Invalid value: \"2Mi\": must be greater than or equal to aggregate container \
                 limits of 4Mi",
                "r.containers[0][cpu].limits: Invalid value: \"3\": must be less than or equal to pod limits of 2",
            ],
        );
    }
}
