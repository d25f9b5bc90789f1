//! Writes of a kubelet to Node objects: its own only, without taints, owners and labels by which it could draw
//! pods to itself.

use std::collections::{BTreeMap, BTreeSet};

use orch_proto::Brand;
use orch_rules::validate::tree::{Tree, is_unchanged};
use orch_schema::excerpt::{part, quoted};
use orch_schema::value::Value;

use super::{Operation, Refusal, Write, forbidden, refuse_unless};

/// Labels that a kubelet sets on its node, by what stands before the brand's domain in their prefix.
const KUBELET_LABELS: [(&str, &str); 11] = [
    ("", "arch"),
    ("", "hostname"),
    ("", "os"),
    ("beta.", "arch"),
    ("beta.", "instance-type"),
    ("beta.", "os"),
    ("failure-domain.beta.", "region"),
    ("failure-domain.beta.", "zone"),
    ("node.", "instance-type"),
    ("topology.", "region"),
    ("topology.", "zone"),
];

pub(super) fn check(write: Write<'_>) -> Result<(), Refusal> {
    let (node, name) = (quoted(write.node), write.name());
    refuse_unless(name == write.node, || {
        format!("node {node} is not allowed to modify node {}", quoted(name))
    })?;
    match (write.attributes.operation, write.object, write.attributes.old) {
        (Operation::Create, Some(new), _) => check_new(write.attributes.brand, &node, new),
        (Operation::Update, Some(new), Some(old)) => check_change(write.attributes.brand, &node, old, new),
        _ => Ok(()),
    }
}

fn check_new(brand: &Brand, node: &str, new: &Value) -> Result<(), Refusal> {
    refuse_unless(!new.at("spec").has("configSource"), || {
        format!("node {node} is not allowed to create pods with a non-nil configSource")
    })?;
    let labels = withheld_labels(brand, &Value::Null, new.at("metadata").at("labels"));
    refuse_unless(labels.is_empty(), || {
        format!("node {node} is not allowed to set the following labels: {}", shown(&labels))
    })
}

fn check_change(brand: &Brand, node: &str, old: &Value, new: &Value) -> Result<(), Refusal> {
    let (before, after) = (old.at("spec"), new.at("spec"));
    let source = after.at("configSource");
    if !source.is_null() && !is_unchanged(source, before.at("configSource")) {
        return Err(forbidden(format!(
            "node {node} is not allowed to update configSource to a new non-nil configSource"
        )));
    }
    refuse_unless(is_unchanged(before.at("taints"), after.at("taints")), || {
        format!("node {node} is not allowed to modify taints")
    })?;
    let (before, after) = (old.at("metadata"), new.at("metadata"));
    refuse_unless(is_unchanged(before.at("ownerReferences"), after.at("ownerReferences")), || {
        format!("node {node} is not allowed to modify ownerReferences")
    })?;
    let labels = withheld_labels(brand, before.at("labels"), after.at("labels"));
    refuse_unless(labels.is_empty(), || format!("is not allowed to modify labels: {}", shown(&labels)))
}

/// Labels that differ and that nodes may not write, sorted.
fn withheld_labels<'a>(brand: &Brand, before: &'a Value, after: &'a Value) -> BTreeSet<&'a str> {
    let members = |labels: &'a Value| -> BTreeMap<&'a str, &'a Value> {
        labels.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value)).collect()
    };
    let (before, after) = (members(before), members(after));
    let keys = before.keys().chain(after.keys()).copied();
    keys.filter(|key| before.get(key) != after.get(key) && is_withheld(brand, key)).collect()
}

/// Whether the label is one of the brand that is not the kubelet's.
fn is_withheld(brand: &Brand, label: &str) -> bool {
    let Some((prefix, name)) = label.split_once('/') else { return false };
    let below = |domain: &str| within(prefix, domain);
    if below(&format!("node-restriction.{}", brand.label_domain)) {
        return true;
    }
    let is_of_brand = below(brand.label_domain) || below(brand.group_domain);
    is_of_brand && !is_of_kubelet(brand, prefix, name)
}

fn is_of_kubelet(brand: &Brand, prefix: &str, name: &str) -> bool {
    let domain = brand.label_domain;
    let is_own = |stem: &str| within(prefix, &format!("{stem}.{domain}"));
    let stem = prefix.strip_suffix(domain);
    // few: the labels of kubelets.
    is_own("kubelet") || is_own("node") || stem.is_some_and(|stem| KUBELET_LABELS.contains(&(stem, name)))
}

/// Whether `name` is `domain` or below it.
fn within(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn shown(labels: &BTreeSet<&str>) -> String {
    part(&labels.iter().copied().collect::<Vec<_>>().join(", ")).into_owned()
}
