//! `LimitPodHardAntiAffinityTopology`: pods keep others away from their own node, not from a whole zone.

use orch_rules::validate::tree::Tree;
use orch_schema::excerpt::part;
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};

#[derive(Debug)]
pub(super) struct LimitPodHardAntiAffinityTopology;

impl Plugin for LimitPodHardAntiAffinityTopology {
    fn name(&self) -> &'static str {
        "LimitPodHardAntiAffinityTopology"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("pods", &[Operation::Create, Operation::Update])
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: Option<&'a Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        rule(pod.map_or(Ok(()), |pod| check(pod, &attributes.brand.label("hostname"))))
    }
}

/// Refuses required terms with another topology than `allowed`.
fn check(pod: &Value, allowed: &str) -> Result<(), Refusal> {
    let terms = pod.at("spec").at("affinity").at("podAntiAffinity");
    let mut keys = terms.items("requiredDuringSchedulingIgnoredDuringExecution").iter();
    // once: one pass over the terms.
    match keys.find(|term| term.text("topologyKey") != allowed) {
        None => Ok(()),
        Some(term) => Err(Refusal::Forbidden(format!(
            "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {} but only key {allowed} is allowed",
            part(term.text("topologyKey"))
        ))),
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn required_terms_are_about_nodes() {
        let pod = |kind: &str, key: &str| json!({"spec": {"affinity": {"podAntiAffinity": {kind: [{"topologyKey": key}]}}}});
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        assert_eq!(check(&pod(required, "orch.io/hostname"), "orch.io/hostname"), Ok(()));
        assert_eq!(check(&pod("preferred", "zone"), "orch.io/hostname"), Ok(()));
        let expected = "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key \
            orch.io/hostname is allowed";
        let told = check(&pod(required, "zone"), "orch.io/hostname");
        assert_eq!(told, Err(Refusal::Forbidden(expected.to_owned())));
    }
}
