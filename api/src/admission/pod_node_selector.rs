//! `PodNodeSelector`: pods go to the nodes of their namespace.
//!
//! Owns the merge of a pod's node selector with that of its namespace, which an annotation names or else the
//! configuration's default, and the labels that the configuration allows in a namespace.

use std::collections::BTreeMap;

use orch_rules::validate::names;
use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_schema::excerpt::part;
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};

/// Labels of nodes, and their values.
pub type NodeLabels = BTreeMap<String, String>;

/// The configuration of `PodNodeSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSelectors {
    /// Selector of namespaces without an annotation.
    pub default: NodeLabels,
    /// By namespace, the labels that its pods may select; a namespace that is absent may select all.
    pub allowed: BTreeMap<String, NodeLabels>,
}

/// Reads `key=value,key=value`.
///
/// # Errors
/// It is written otherwise.
pub fn parse_node_labels(text: &str) -> Result<NodeLabels, String> {
    let mut labels = NodeLabels::new();
    for pair in text.split(',').filter(|_| !text.is_empty()) {
        let mut parts = pair.split('=').map(str::trim);
        let (Some(key), Some(value), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err(format!("invalid selector: {}", part(pair)));
        };
        let faults = [names::qualified_name(key), names::label_value(value)].concat();
        if let Some(fault) = faults.first() {
            return Err(format!("invalid selector: {}: {fault}", part(pair)));
        }
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(labels)
}

#[derive(Debug, Default)]
pub(super) struct PodNodeSelector {
    pub(super) selectors: NodeSelectors,
}

impl Plugin for PodNodeSelector {
    fn name(&self) -> &'static str {
        "PodNodeSelector"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("pods", &[Operation::Create])
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
        let Some(pod) = pod else { return rule(Ok(())) };
        rule(self.check(attributes, pod, view).map(|_| ()).map_err(Refusal::Forbidden))
    }
}

impl PodNodeSelector {
    fn complete(&self, attributes: &Attributes<'_>, pod: &mut Value, view: &View) -> Result<(), String> {
        let wanted = self.check(attributes, pod, view)?;
        self.check_allowed(
            attributes.namespace,
            wanted.iter().map(|(key, value)| (key.as_str(), value.as_str())),
        )?;
        if !wanted.is_empty() {
            let selector = child_mut(child_mut(pod, "spec"), "nodeSelector");
            wanted.into_iter().for_each(|(key, value)| set(selector, &key, value));
        }
        Ok(())
    }

    /// The selector of the pod's namespace, which that of the pod must not contradict.
    fn check(&self, attributes: &Attributes<'_>, pod: &Value, view: &View) -> Result<NodeLabels, String> {
        let annotation = format!("scheduler.alpha.{}", attributes.brand.label("node-selector"));
        let wanted = match view.annotation_of(attributes.namespace, &annotation) {
            Some(text) => parse_node_labels(&text)?,
            None => self.selectors.default.clone(),
        };
        let chosen = pod.at("spec").at("nodeSelector");
        // few: the labels of a namespace's selector.
        if wanted.iter().any(|(key, value)| chosen.has(key) && chosen.text(key) != value) {
            return Err("pod node label selector conflicts with its namespace node label selector".to_owned());
        }
        let entries = pod.at("spec").entries("nodeSelector").into_iter();
        let labels = entries.map(|(key, value)| (key, value.as_str().unwrap_or_default()));
        self.check_allowed(attributes.namespace, labels)?;
        Ok(wanted)
    }

    fn check_allowed<'l>(
        &self,
        namespace: &str,
        mut labels: impl Iterator<Item = (&'l str, &'l str)>,
    ) -> Result<(), String> {
        let Some(allowed) = self.selectors.allowed.get(namespace).filter(|allowed| !allowed.is_empty())
        else {
            return Ok(());
        };
        // set: `allowed` is a map.
        match labels.all(|(key, value)| allowed.get(key).is_some_and(|allowed| allowed == value)) {
            true => Ok(()),
            false => Err("pod node label selector labels conflict with its namespace whitelist".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use orch_raft::state::NAMESPACES;
    use orch_schema::json;

    use super::*;
    use crate::admission::testing::{Objects, attributes};

    #[test]
    fn pods_go_to_the_nodes_of_their_namespace() {
        let allowed = parse_node_labels("env=test,team=a").unwrap();
        let plugin = PodNodeSelector {
            selectors: NodeSelectors {
                default: parse_node_labels("env=prod").unwrap(),
                allowed: BTreeMap::from([("ns".to_owned(), allowed)]),
            },
        };
        let create = attributes("pods", Operation::Create);
        let told = |annotation: Option<&str>, selector: Value| {
            let annotations = json!({"scheduler.alpha.orch.io/node-selector": annotation});
            let namespace = json!({"metadata": {"name": "ns", "annotations": annotations}});
            let key = (NAMESPACES.to_owned(), String::new(), "ns".to_owned());
            let objects = Objects([(key, namespace)].into_iter().collect());
            let mut pod = json!({"spec": {"nodeSelector": selector}});
            let view = objects.view("ns");
            plugin.complete(&create, &mut pod, &view).map(|()| pod["spec"]["nodeSelector"].clone())
        };
        let whitelist = "pod node label selector labels conflict with its namespace whitelist";
        let conflict = "pod node label selector conflicts with its namespace node label selector";
        for (annotation, selector, expected) in [
            (Some("env=test"), json!({}), Ok(json!({"env": "test"}))),
            (Some("env=test"), json!({"team": "a"}), Ok(json!({"team": "a", "env": "test"}))),
            (Some(""), json!({}), Ok(json!({}))),
            (Some("env=test"), json!({"env": "prod"}), Err(conflict)),
            (Some("env=test"), json!({"zone": "z"}), Err(whitelist)),
            (None, json!({}), Err(whitelist)),
            (Some("env"), json!({}), Err("invalid selector: env")),
        ] {
            assert_eq!(
                told(annotation, selector.clone()),
                expected.map_err(str::to_owned),
                "{annotation:?} {selector}"
            );
        }
    }
}
