//! `PodResizeValidator`: refuses a resize that the pod's node can never carry out, at once instead of by a condition
//! that its kubelet sets later.
//!
//! Owns the comparison with what the node can give in all; whether that is free now is the kubelet's to say.

use orch_proto::Brand;
use orch_rules::Action;
use orch_rules::quota::pod::{Extent, sum};
use orch_rules::quota::{Amounts, amounts};
use orch_rules::validate::tree::Tree;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, forbidden, rule};
use crate::error::ApiError;

/// Reason of the Status cause by which autoscalers tell that the node is too small.
const NODE_CAPACITY: &str = "NodeCapacity";

/// The same for a node whose kubelet resizes nothing.
const UNSUPPORTED_PLATFORM: &str = "UnsupportedPlatform";

#[derive(Debug)]
pub(super) struct PodResizeValidator;

impl Plugin for PodResizeValidator {
    fn name(&self) -> &'static str {
        "PodResizeValidator"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.action == Action::Resize && attributes.operation == Operation::Update
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: Option<&'a Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(pod) = pod else { return rule(Ok(())) };
        let name = pod.at("spec").text("nodeName");
        // It rises with each change of the spec, but not where an amount is only written in another way.
        let generation = |pod: &Value| pod.at("metadata").int("generation");
        let is_unchanged = attributes.old.is_some_and(|old| generation(old) == generation(pod));
        if name.is_empty() || is_unchanged {
            return rule(Ok(()));
        }
        let Some(node) = view.find("nodes", "", name) else {
            return rule(Err(Refusal::Forbidden(format!("node {} not found", quoted(name)))));
        };
        rule(match obstacle(attributes.brand, pod, &node) {
            None => Ok(()),
            Some((reason, message)) => Err(with_cause(attributes, reason, message)),
        })
    }
}

/// Why `node` can never give what `pod` asks for: the reason of the cause, and the message.
fn obstacle(brand: &Brand, pod: &Value, node: &Value) -> Option<(&'static str, String)> {
    let requests = sum(pod, "requests", Extent::Allotted);
    let of_node = amounts(node.at("status"), "allocatable");
    let mut lacking = Vec::new();
    for resource in ["cpu", "memory"] {
        let of = |amounts: &Amounts| {
            let quantity = amounts.get(resource).map(|amount| amount.quantity()).unwrap_or_default();
            let number = if resource == "cpu" { quantity.milli_units() } else { quantity.units() };
            number.unwrap_or(i64::MAX)
        };
        let (requested, allocatable) = (of(&requests), of(&of_node));
        if requested > allocatable {
            lacking.push(format!("{resource}, requested: {requested}, allocatable: {allocatable}"));
        }
    }
    if !lacking.is_empty() {
        let message = format!("Node didn't have enough allocatable resources: {}", lacking.join("; "));
        return Some((NODE_CAPACITY, message));
    }
    let metadata = node.at("metadata");
    let system = metadata.at("labels").text(&brand.label("os"));
    let message = || {
        format!(
            "pod resize is only supported on linux nodes, node {} is {}",
            quoted(metadata.text("name")),
            quoted(system)
        )
    };
    (system != "linux").then(|| (UNSUPPORTED_PLATFORM, message()))
}

fn with_cause(attributes: &Attributes<'_>, reason: &'static str, message: String) -> Refusal {
    match forbidden(attributes.subject(), &message) {
        ApiError::Forbidden { subject, message: whole, .. } => Refusal::Error(ApiError::Forbidden {
            subject,
            message: whole,
            cause: Some((reason, message, "")),
        }),
        error => Refusal::Error(error),
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::admission::testing::{Objects, attributes, validate};
    use crate::status::Status;

    fn pod(cpu: &str, memory: &str) -> Value {
        let resources = json!({"requests": {"cpu": cpu, "memory": memory}});
        let spec = json!({"nodeName": "n", "containers": [{"name": "c", "resources": resources}]});
        json!({"metadata": {"generation": 2}, "spec": spec})
    }

    #[test]
    fn a_resize_fits_the_node_and_its_system() {
        let node = |system: &str| {
            json!({
                "metadata": {"name": "n", "labels": {"orch.io/os": system}},
                "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}
            })
        };
        let too_large = "pods \"n\" is forbidden: Node didn't have enough allocatable resources: cpu, requested: 2500, \
                         allocatable: 2000; memory, requested: 2147483648, allocatable: 1073741824";
        let windows =
            "pods \"n\" is forbidden: pod resize is only supported on linux nodes, node \"n\" is \"windows\"";
        for (node, pod, expected) in [
            (Some(node("linux")), pod("2", "1Gi"), None),
            (Some(node("linux")), pod("2500m", "2Gi"), Some((too_large, Some("NodeCapacity")))),
            (Some(node("windows")), pod("1", "1"), Some((windows, Some("UnsupportedPlatform")))),
            (None, pod("1", "1"), Some(("pods \"n\" is forbidden: node \"n\" not found", None))),
        ] {
            let mut objects = Objects::default();
            if let Some(node) = node {
                objects.0.insert(("nodes".to_owned(), String::new(), "n".to_owned()), node);
            }
            let mut old = pod.clone();
            old["spec"]["containers"][0]["resources"] = json!({});
            old["metadata"]["generation"] = json!(1);
            let attributes = Attributes {
                action: Action::Resize,
                old: Some(&old),
                ..attributes("pods", Operation::Update)
            };
            let refused =
                validate(&attributes, &pod, &objects).err().map(|error| Status::of(&error, attributes.brand));
            let found = refused.as_ref().map(|status| {
                let causes = status.details.iter().flat_map(|details| &details.causes);
                (&*status.message, causes.map(|(reason, ..)| &**reason).next())
            });
            assert_eq!(found, expected);
            let same = Attributes { old: Some(&pod), ..attributes };
            assert!(validate(&same, &pod, &objects).is_ok(), "nothing of the spec changes");
            // `1Gi` for `1073741824`: the generation stays.
            let mut same_generation = old.clone();
            same_generation["metadata"]["generation"] = json!(2);
            let alike = Attributes { old: Some(&same_generation), ..attributes };
            assert!(validate(&alike, &pod, &objects).is_ok(), "it says the same");
        }
    }
}
