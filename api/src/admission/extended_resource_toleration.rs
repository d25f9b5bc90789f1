//! `ExtendedResourceToleration`: pods that ask for devices tolerate the taint of the nodes that keep themselves for such
//! pods, whose key is the resource's name.

use std::collections::{BTreeSet, HashSet};

use orch_proto::Brand;
use orch_rules::kinds::pod::is_extended;
use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_schema::json;
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Ruling, View, rule};

#[derive(Debug)]
pub(super) struct ExtendedResourceToleration;

impl Plugin for ExtendedResourceToleration {
    fn name(&self) -> &'static str {
        "ExtendedResourceToleration"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("pods", &[Operation::Create, Operation::Update])
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: Option<&'a mut Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(pod) = pod else { return rule(Ok(())) };
        tolerate(attributes.brand, pod);
        rule(Ok(()))
    }
}

fn tolerate(brand: &Brand, pod: &mut Value) {
    let spec = child_mut(pod, "spec");
    let containers = ["containers", "initContainers"].into_iter().flat_map(|list| spec.items(list));
    let requests = containers.flat_map(|container| container.at("resources").entries("requests"));
    let devices: BTreeSet<String> =
        requests.map(|(name, _)| name).filter(|name| is_extended(brand, name)).map(str::to_owned).collect();
    let mut tolerations = spec.items("tolerations").to_vec();
    let tolerates = |one: &Value| {
        one.text("operator") == "Exists" && one.text("effect") == "NoSchedule" && one.text("value").is_empty()
    };
    let known: HashSet<&str> =
        spec.items("tolerations").iter().filter(|one| tolerates(one)).map(|one| one.text("key")).collect();
    let given = tolerations.len();
    // set: `known` is one.
    for device in devices.iter().filter(|device| !known.contains(device.as_str())) {
        tolerations.push(json!({"key": device.as_str(), "operator": "Exists", "effect": "NoSchedule"}));
    }
    if tolerations.len() > given {
        set(spec, "tolerations", tolerations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_tolerated_once_and_in_order() {
        let requests = json!({"example.com/gpu": "1", "example.com/dpu": "1", "cpu": "1", "orch.io/x": "1"});
        let mut pod = json!({"spec": {
            "containers": [{"resources": {"requests": requests}}],
            "initContainers": [{"resources": {"requests": {"example.org/a": "1"}}}],
            "tolerations": [{"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        }});
        for _ in 0..2 {
            tolerate(&orch_proto::brand::ORCH, &mut pod);
            let keys: Vec<&str> =
                pod["spec"].items("tolerations").iter().map(|one| one.text("key")).collect();
            assert_eq!(keys, ["example.com/gpu", "example.com/dpu", "example.org/a"]);
        }
    }
}
