//! `TaintNodesByCondition`: taints a new node as not ready, so that no pod is scheduled there until a controller has
//! seen it ready.

use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_schema::json;
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Ruling, View, rule};

#[derive(Debug)]
pub(super) struct TaintNodesByCondition;

impl Plugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("nodes", &[Operation::Create])
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        node: Option<&'a mut Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(node) = node else { return rule(Ok(())) };
        let key = format!("node.{}", attributes.brand.label("not-ready"));
        let spec = child_mut(node, "spec");
        let mut taints = spec.items("taints").to_vec();
        let is_not_ready = |taint: &Value| taint.text("key") == key && taint.text("effect") == "NoSchedule";
        // once: one taint is looked for.
        if !taints.iter().any(is_not_ready) {
            taints.push(json!({"key": key, "effect": "NoSchedule"}));
            set(spec, "taints", taints);
        }
        rule(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::testing::{Objects, attributes, mutate};

    #[test]
    fn a_new_node_is_not_ready() {
        let mut node = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
        let expected = json!([
            {"key": "k", "effect": "NoSchedule"},
            {"key": "node.orch.io/not-ready", "effect": "NoSchedule"}
        ]);
        for _ in 0..2 {
            mutate(&attributes("nodes", Operation::Create), &mut node, &Objects::default()).unwrap();
            assert_eq!(node["spec"]["taints"], expected);
        }
        let mut changed = json!({"spec": {}});
        mutate(&attributes("nodes", Operation::Update), &mut changed, &Objects::default()).unwrap();
        assert_eq!(changed, json!({"spec": {}}), "only a new one");
    }
}
