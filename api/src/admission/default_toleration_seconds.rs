//! `DefaultTolerationSeconds`: pods tolerate a node that is not ready or unreachable for five minutes, unless they have
//! a toleration for it.

use orch_proto::Brand;
use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_schema::json;
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Ruling, TolerationSeconds, View, rule};

#[derive(Debug, Default)]
pub(super) struct DefaultTolerationSeconds {
    pub(super) seconds: TolerationSeconds,
}

impl Plugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
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
        add_tolerations(attributes.brand, self.seconds, pod);
        rule(Ok(()))
    }
}

fn add_tolerations(brand: &Brand, seconds: TolerationSeconds, pod: &mut Value) {
    let spec = child_mut(pod, "spec");
    let mut tolerations = spec.items("tolerations").to_vec();
    let given = tolerations.len();
    for (condition, seconds) in [("not-ready", seconds.not_ready), ("unreachable", seconds.unreachable)] {
        let key = format!("node.{}", brand.label(condition));
        let fits = |value: &str, wanted: &str| value.is_empty() || value == wanted;
        let tolerates = |t: &Value| fits(t.text("key"), &key) && fits(t.text("effect"), "NoExecute");
        // few: asked about two taints.
        if !tolerations.iter().any(tolerates) {
            tolerations.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}),
            );
        }
    }
    if tolerations.len() > given {
        set(spec, "tolerations", tolerations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_are_added_once() {
        let mut pod =
            json!({"spec": {"tolerations": [{"key": "node.orch.io/not-ready", "operator": "Exists"}]}});
        add_tolerations(&orch_proto::brand::ORCH, TolerationSeconds::default(), &mut pod);
        let expected = json!([
            {"key": "node.orch.io/not-ready", "operator": "Exists"},
            {"key": "node.orch.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        ]);
        assert_eq!(pod["spec"]["tolerations"], expected);
        add_tolerations(&orch_proto::brand::ORCH, TolerationSeconds::default(), &mut pod);
        assert_eq!(pod["spec"]["tolerations"], expected);
        let mut pod = json!({"spec": {}});
        let seconds = TolerationSeconds { not_ready: 5, unreachable: 7 };
        add_tolerations(&orch_proto::brand::ORCH, seconds, &mut pod);
        let given = [0, 1].map(|at| pod["spec"]["tolerations"][at]["tolerationSeconds"].as_i64());
        assert_eq!(given, [Some(5), Some(7)]);
    }
}
