//! `PodTolerationRestriction`: pods get the tolerations of their namespace, and have no others than it allows.
//!
//! Annotations of the namespace name both lists; where one is absent, that of the configuration counts.

use orch_rules::kinds::pod::qos_class;
use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_schema::json;
use orch_schema::value::Value;

use super::tolerations::{are_within, merge};
use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};

/// The configuration of `PodTolerationRestriction`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TolerationLists {
    /// Given to pods of namespaces that name none.
    pub default: Vec<Toleration>,
    /// Allowed in namespaces that name none; empty allows all.
    pub allowed: Vec<Toleration>,
}

/// A toleration of a configuration, with the fields of one in a pod; texts are empty where it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toleration {
    /// Key of the taint.
    pub key: String,
    /// `Exists` or `Equal`.
    pub operator: String,
    /// Value of the taint.
    pub value: String,
    /// Effect of the taint.
    pub effect: String,
    /// How long it is tolerated; for ever without one.
    pub seconds: Option<i64>,
}

impl Toleration {
    /// As a pod has it: without empty fields.
    fn in_pod(self) -> Value {
        let mut toleration = json!({});
        let texts =
            [("key", self.key), ("operator", self.operator), ("value", self.value), ("effect", self.effect)];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            set(&mut toleration, name, text);
        }
        if let Some(seconds) = self.seconds {
            set(&mut toleration, "tolerationSeconds", seconds);
        }
        toleration
    }
}

#[derive(Debug, Default)]
pub(super) struct PodTolerationRestriction {
    default: Vec<Value>,
    allowed: Vec<Value>,
}

impl Plugin for PodTolerationRestriction {
    fn name(&self) -> &'static str {
        "PodTolerationRestriction"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("pods", &[Operation::Create, Operation::Update])
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: Option<&'a mut Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(pod) = pod else { return rule(Ok(())) };
        rule(self.complete(attributes, pod, view).map_err(Refusal::Forbidden))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: Option<&'a Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let tolerations = pod.map_or(&[][..], |pod| pod.at("spec").items("tolerations"));
        rule(self.check(attributes, tolerations, view).map_err(Refusal::Forbidden))
    }
}

impl PodTolerationRestriction {
    pub(super) fn new(lists: TolerationLists) -> Self {
        let in_pods = |list: Vec<Toleration>| list.into_iter().map(Toleration::in_pod).collect();
        PodTolerationRestriction { default: in_pods(lists.default), allowed: in_pods(lists.allowed) }
    }

    fn complete(&self, attributes: &Attributes<'_>, pod: &mut Value, view: &View) -> Result<(), String> {
        let given = pod.at("spec").items("tolerations");
        let mut tolerations = match attributes.operation {
            Operation::Create => {
                let of_namespace = list(attributes, view, "defaultTolerations")?;
                merge(&of_namespace.unwrap_or_else(|| self.default.clone()), given)
            }
            Operation::Update | Operation::Delete | Operation::Connect => given.to_vec(),
        };
        if qos_class(pod.at("spec")) != "BestEffort" {
            let key = format!("node.{}", attributes.brand.label("memory-pressure"));
            let pressure = json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
            tolerations = merge(&tolerations, &[pressure]);
        }
        self.check(attributes, &tolerations, view)?;
        if !tolerations.is_empty() {
            set(child_mut(pod, "spec"), "tolerations", tolerations);
        }
        Ok(())
    }

    fn check(&self, attributes: &Attributes<'_>, tolerations: &[Value], view: &View) -> Result<(), String> {
        if tolerations.is_empty() {
            return Ok(());
        }
        let of_namespace = list(attributes, view, "tolerationsWhitelist")?;
        let allowed = of_namespace.as_deref().unwrap_or(&self.allowed);
        if allowed.is_empty() || are_within(tolerations, allowed) {
            return Ok(());
        }
        Err("pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist"
            .to_owned())
    }
}

/// The tolerations in an annotation of the write's namespace; `None` where it is absent or empty.
fn list(attributes: &Attributes<'_>, view: &View, name: &str) -> Result<Option<Vec<Value>>, String> {
    let annotation = format!("scheduler.alpha.{}", attributes.brand.label(name));
    let text = view.annotation_of(attributes.namespace, &annotation).filter(|text| !text.is_empty());
    let parsed = text.map(|text| serde_json::from_str::<Vec<Value>>(&text)).transpose();
    parsed.map_err(|error| format!("annotation {annotation} of namespace {}: {error}", attributes.namespace))
}

#[cfg(test)]
mod tests {
    use orch_raft::state::NAMESPACES;

    use super::*;
    use crate::admission::testing::{Objects, attributes};

    fn toleration(key: &str) -> Value {
        json!({"key": key, "operator": "Exists"})
    }

    fn written(annotations: Value, operation: Operation, spec: Value) -> Result<Value, String> {
        let namespace = json!({"metadata": {"name": "ns", "annotations": annotations}});
        let key = (NAMESPACES.to_owned(), String::new(), "ns".to_owned());
        let view = Objects([(key, namespace)].into_iter().collect()).view("ns");
        let configured = |key: &str| Toleration {
            key: key.to_owned(),
            operator: "Exists".to_owned(),
            ..Toleration::default()
        };
        let lists = TolerationLists {
            default: vec![configured("d")],
            allowed: vec![configured("d"), configured("e")],
        };
        let mut pod = json!({"spec": spec});
        let plugin = PodTolerationRestriction::new(lists);
        plugin
            .complete(&attributes("pods", operation), &mut pod, &view)
            .map(|()| pod["spec"]["tolerations"].clone())
    }

    #[test]
    fn tolerations_come_from_the_namespace_and_stay_within_it() {
        let conflict = "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace \
            whitelist";
        let with = |name: &str, list: &str| json!({format!("scheduler.alpha.orch.io/{name}"): list});
        let own = with("defaultTolerations", r#"[{"key": "e", "operator": "Exists"}]"#);
        let open = with("tolerationsWhitelist", r#"[{"operator": "Exists"}]"#);
        let busy = json!({"containers": [{"resources": {"requests": {"cpu": "1"}}}]});
        let pressure =
            json!({"key": "node.orch.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"});
        for (annotations, operation, spec, expected) in [
            (json!({}), Operation::Create, json!({}), Ok(json!([toleration("d")]))),
            (own, Operation::Create, json!({}), Ok(json!([toleration("e")]))),
            (json!({}), Operation::Update, json!({}), Ok(Value::Null)),
            (json!({}), Operation::Create, json!({"tolerations": [toleration("f")]}), Err(conflict)),
            (json!({}), Operation::Update, json!({"tolerations": [toleration("f")]}), Err(conflict)),
            (json!({}), Operation::Create, busy.clone(), Err(conflict)),
            (open, Operation::Create, busy, Ok(json!([toleration("d"), pressure]))),
        ] {
            let told = written(annotations.clone(), operation, spec.clone());
            assert_eq!(told, expected.map_err(str::to_owned), "{annotations} {spec}");
        }
        let broken =
            written(with("defaultTolerations", "no list"), Operation::Create, json!({})).unwrap_err();
        assert!(
            broken.starts_with("annotation scheduler.alpha.orch.io/defaultTolerations of namespace ns: ")
        );
    }
}
