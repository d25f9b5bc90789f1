//! `RuntimeClass`: adds the class's overhead, node selector and tolerations to pods that name it.

use orch_rules::validate::tree::{Tree, child_mut, set, unset};
use orch_schema::excerpt::{part, quoted};
use orch_schema::quantity::Quantity;
use orch_schema::value::Value;

use super::tolerations::merge;
use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};

#[derive(Debug)]
pub(super) struct RuntimeClass;

impl Plugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("pods", &[Operation::Create])
    }

    fn mutate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        pod: Option<&'a mut Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(pod) = pod else { return rule(Ok(())) };
        rule(
            match class_of(pod, view) {
                Ok(Some(class)) => complete(pod, &class),
                Ok(None) => Ok(()),
                Err(reason) => Err(reason),
            }
            .map_err(Refusal::Forbidden),
        )
    }

    fn validate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        pod: Option<&'a Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(pod) = pod else { return rule(Ok(())) };
        let checked = class_of(pod, view).and_then(|class| check_overhead(pod, class.as_ref()));
        rule(checked.map_err(Refusal::Forbidden))
    }
}

/// The class that the pod names; `None` where it names none.
fn class_of(pod: &Value, view: &View) -> Result<Option<Value>, String> {
    let Some(name) = pod.at("spec").at("runtimeClassName").as_str() else { return Ok(None) };
    match view.find("runtimeclasses.node", "", name) {
        Some(class) => Ok(Some(class)),
        None => Err(format!("pod rejected: RuntimeClass {} not found", quoted(name))),
    }
}

/// Sets overhead, node selector and tolerations. A refusal leaves the pod as it was.
fn complete(pod: &mut Value, class: &Value) -> Result<(), String> {
    let spec = pod.at("spec");
    if class.has("overhead") && spec.has("overhead") {
        check_overhead(pod, Some(class))?;
    }
    let (scheduling, chosen) = (class.at("scheduling"), spec.at("nodeSelector"));
    let wanted = scheduling.entries("nodeSelector");
    for (key, value) in &wanted {
        if chosen.has(key) && chosen.at(key) != *value {
            let (key, value, chosen) =
                (part(key), value.as_str().unwrap_or_default(), part(chosen.text(key)));
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {chosen}"
            ));
        }
    }
    let tolerations = class
        .has("scheduling")
        .then(|| merge(spec.items("tolerations"), scheduling.items("tolerations")))
        .filter(|merged| !merged.is_empty());
    let spec = child_mut(pod, "spec");
    match class.at("overhead") {
        overhead if !overhead.is_empty_at("podFixed") => {
            set(spec, "overhead", overhead.at("podFixed").clone());
        }
        overhead if !overhead.is_null() => unset(spec, "overhead"),
        _ => {}
    }
    for (key, value) in wanted {
        set(child_mut(spec, "nodeSelector"), key, value.clone());
    }
    if let Some(tolerations) = tolerations {
        set(spec, "tolerations", tolerations);
    }
    Ok(())
}

/// Refuses a pod whose overhead is not that of its class.
fn check_overhead(pod: &Value, class: Option<&Value>) -> Result<(), String> {
    let spec = pod.at("spec");
    match class.map(|class| class.at("overhead")).filter(|overhead| !overhead.is_null()) {
        Some(overhead) if have_same_amounts(overhead.at("podFixed"), spec.at("overhead")) => Ok(()),
        Some(_) => {
            Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned())
        }
        None if spec.has("overhead") => {
            Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                .to_owned())
        }
        None => Ok(()),
    }
}

/// Whether both are the same amounts of the same resources, however they are written.
fn have_same_amounts(left: &Value, right: &Value) -> bool {
    let amounts = |of: &Value| of.as_object().map_or(0, |fields| fields.len());
    let amount = |of: &Value, name: &str| Quantity::parse(of.text(name));
    let names = left.as_object().into_iter().flat_map(|fields| fields.keys());
    amounts(left) == amounts(right)
        && names.into_iter().all(|name| right.has(name) && amount(left, name) == amount(right, name))
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn a_pod_gets_what_its_class_says() {
        let class = json!({
            "handler": "h", "overhead": {"podFixed": {"cpu": "100m", "memory": "10Mi"}},
            "scheduling": {"nodeSelector": {"k": "v"}, "tolerations": [{"key": "t", "operator": "Exists"}]},
        });
        let mut pod =
            json!({"spec": {"overhead": {"memory": "10240Ki", "cpu": "0.1"}, "nodeSelector": {"z": "y"}}});
        complete(&mut pod, &class).unwrap();
        assert_eq!(
            pod["spec"],
            json!({
                "overhead": {"cpu": "100m", "memory": "10Mi"}, "nodeSelector": {"z": "y", "k": "v"},
                "tolerations": [{"key": "t", "operator": "Exists"}],
            })
        );
        assert_eq!(check_overhead(&pod, Some(&class)), Ok(()));
        for (spec, expected) in [
            (json!({"overhead": {"cpu": "1m"}}), "pod rejected: Pod's Overhead doesn't match"),
            (
                json!({"nodeSelector": {"k": "other"}}),
                "conflict: runtimeClass.scheduling.nodeSelector[k] = v; pod.spec.nodeSelector[k] = other",
            ),
        ] {
            let mut pod = json!({"spec": spec});
            let before = pod.clone();
            let told = complete(&mut pod, &class).unwrap_err();
            assert!(told.starts_with(expected), "{told}");
            assert_eq!(pod, before, "a refusal changes nothing");
        }
        let plain = json!({"handler": "h"});
        let mut pod = json!({"spec": {"overhead": {"cpu": "1m"}}});
        complete(&mut pod, &plain).unwrap();
        let told = check_overhead(&pod, Some(&plain)).unwrap_err();
        assert_eq!(
            told,
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        );
    }
}
