//! `PodTopologyLabels`: a pod has the zone and region of its node as labels, so that its containers can read them
//! without rights on nodes.
//!
//! Owns the copy, into a binding and into a pod that is created on a node. Labels that are there already stay. A node
//! that does not exist holds up nothing.

use orch_rules::Action;
use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Ruling, View, rule};

/// The labels of nodes, behind `topology.` and the domain.
const COPIED: [&str; 2] = ["zone", "region"];

#[derive(Debug)]
pub(super) struct PodTopologyLabels;

impl Plugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("pods", &[Operation::Create])
            || attributes.action == Action::Binding && attributes.operation == Operation::Create
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(object) = object else { return rule(Ok(())) };
        let name = match attributes.action {
            Action::Binding if object.at("target").text("kind") == "Node" => object.at("target").text("name"),
            Action::Binding => "",
            _ => object.at("spec").text("nodeName"),
        };
        // Most pods have no node when they are created.
        let node = Some(name).filter(|name| !name.is_empty()).and_then(|name| view.find("nodes", "", name));
        let Some(node) = node else { return rule(Ok(())) };
        let of_node = node.at("metadata").at("labels");
        for label in COPIED {
            let key = format!("topology.{}", attributes.brand.label(label));
            if of_node.has(&key) && !object.at("metadata").at("labels").has(&key) {
                set(child_mut(child_mut(object, "metadata"), "labels"), &key, of_node.at(&key).clone());
            }
        }
        rule(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::admission::testing::{Objects, attributes, mutate};

    #[test]
    fn pods_and_bindings_get_the_topology_of_their_node() {
        let mut objects = Objects::default();
        let labels =
            json!({"topology.orch.io/zone": "z", "topology.orch.io/region": "r", "orch.io/hostname": "h"});
        objects.0.insert(
            ("nodes".to_owned(), String::new(), "n".to_owned()),
            json!({"metadata": {"labels": labels}}),
        );
        let both = json!({"topology.orch.io/zone": "z", "topology.orch.io/region": "r"});
        let own = json!({"topology.orch.io/zone": "own", "topology.orch.io/region": "r"});
        let binding = |kind: &str| json!({"metadata": {"name": "p"}, "target": {"kind": kind, "name": "n"}});
        let pod = |labels: Value, node: &str| json!({"metadata": {"labels": labels}, "spec": {"nodeName": node, "containers": []}});
        let zone = json!({"topology.orch.io/zone": "own"});
        for (action, mut object, expected) in [
            (Action::Object, pod(json!({}), "n"), both.clone()),
            (Action::Object, pod(zone.clone(), "n"), own),
            (Action::Object, pod(zone.clone(), ""), zone.clone()),
            (Action::Object, pod(zone.clone(), "gone"), zone),
            (Action::Binding, binding("Node"), both),
            (Action::Binding, binding(""), Value::Null),
        ] {
            let attributes = Attributes { action, ..attributes("pods", Operation::Create) };
            mutate(&attributes, &mut object, &objects).unwrap();
            assert_eq!(*object.at("metadata").at("labels"), expected, "{object}");
        }
    }
}
