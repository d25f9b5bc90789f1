//! core/v1 Node: taints, resources, and fields that are immutable once they are set.

use orch_proto::brand::{KUBERNETES, ORCH};
use orch_schema::budget::Numbered;
use orch_schema::json;
use orch_schema::value::Value;

use crate::Action;
use crate::kinds::pod::resources::validate_quantity;
use crate::kinds::pod::scheduling::validate_effect;
use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta, value_at};
use crate::validate::address::validate_cidr;
use crate::validate::metadata::validate_label_name;
use crate::validate::tree::{Tree, existing_mut, set, shown, unset};
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

/// The rules of nodes.
#[derive(Debug)]
pub struct Node;

impl Strategy for Node {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        if let Some(spec) = existing_mut(new, "spec") {
            unify_pod_cidrs(spec);
        }
        if let Some(status) = existing_mut(new, "status")
            && status.has("capacity")
            && !status.has("allocatable")
        {
            set(status, "allocatable", status.at("capacity").clone());
        }
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        drop_configuration(&Value::Null, new);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::separate_status(context, old, new, &["spec"]);
        drop_configuration(old, new);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_node(context, &Value::Null, new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        if context.action == Action::Object {
            errors.extend(object_meta::whole(context, new, false, NameRule::Dns1123Subdomain));
            errors.extend(validate_node(context, old, new));
        }
        errors.extend(validate_resources(context, new));
        errors.extend(validate_addresses(new));
        errors.extend(validate_kept(old, new));
        errors.extend(validate_taints(new.at("spec").items("taints")));
        errors
    }

    fn warnings(&self, context: &Context<'_>, _old: Option<&Value>, new: &Value) -> Vec<String> {
        let spec = new.at("spec");
        let mut warnings = Vec::new();
        if context.action == Action::Object && spec.has("configSource") {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if context.action == Action::Object && !spec.text("externalID").is_empty() {
            warnings.push("spec.externalID: this field is deprecated, and is unused by Orch".to_owned());
        }
        warnings
    }

    fn field_value(&self, object: &Value, name: &str) -> String {
        match name {
            "spec.unschedulable" => object.at("spec").flag("unschedulable").to_string(),
            name => value_at(object, name),
        }
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let info = object.at("status").at("nodeInfo");
        let or = |text: &str, none: &str| json!(if text.is_empty() { none } else { text });
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(state(object)),
            or(&roles(object), "<none>"),
            json!(age::age(object, now)),
            json!(info.text("kubeletVersion")),
            or(address(object, "InternalIP"), "<none>"),
            or(address(object, "ExternalIP"), "<none>"),
            or(info.text("osImage"), "<unknown>"),
            or(&kernel(info), "<unknown>"),
            or(info.text("containerRuntimeVersion"), "<unknown>"),
        ])
    }
}

/// Drops the configuration of a node and its state, a removed feature, where `old` has none. `old` is null for a new node.
fn drop_configuration(old: &Value, new: &mut Value) {
    for (part, field) in [("spec", "configSource"), ("status", "config")] {
        if !old.at(part).has(field)
            && let Some(part) = existing_mut(new, part).filter(|part| part.get(field).is_some())
        {
            unset(part, field);
        }
    }
}

/// The kernel's version with the architecture, as far as they are known.
fn kernel(info: &Value) -> String {
    match (info.text("kernelVersion"), info.text("architecture")) {
        ("", _) => String::new(),
        (version, "") => version.to_owned(),
        (version, architecture) => format!("{version} ({architecture})"),
    }
}

// `podCIDR` is the first of `podCIDRs`. Where they differ `podCIDR` wins: its client may not know the list.
fn unify_pod_cidrs(spec: &mut Value) {
    let single = spec.text("podCIDR").to_owned();
    let first = spec.texts("podCIDRs").first().map(|&cidr| cidr.to_owned());
    match first {
        Some(first) if single.is_empty() => set(spec, "podCIDR", first),
        Some(first) if first == single => {}
        _ if single.is_empty() => {}
        _ => set(spec, "podCIDRs", json!([single])),
    }
}

/// Rules for a whole node. `old` is null for a new one: ranges that a node has may have a form that is refused by now.
fn validate_node(context: &Context<'_>, old: &Value, node: &Value) -> FieldErrors {
    let mut errors = validate_taints(node.at("spec").items("taints"));
    errors.extend(validate_resources(context, node));
    let path = Path::new("spec").child("podCIDRs");
    let cidrs = node.at("spec").texts("podCIDRs");
    let kept: Distinct<&str> = old.at("spec").texts("podCIDRs").into_iter().collect();
    let changed = cidrs.iter().numbered().filter(|(_, cidr)| !kept.has(cidr));
    errors.extend(changed.filter_map(|(at, cidr)| validate_cidr(&path.index(at), cidr)));
    if cidrs.len() > 1 {
        let of_six = cidrs.iter().filter(|cidr| cidr.contains(':')).count();
        if cidrs.len() > 2 || of_six != 1 {
            let detail = "may specify no more than one CIDR for each IP family";
            errors.push(FieldError::invalid(path, &shown(node.at("spec").at("podCIDRs")), detail));
        }
    }
    errors
}

// The reference reports the taints of the spec under the metadata.
fn validate_taints(taints: &[Value]) -> FieldErrors {
    let path = Path::new("metadata").child("taints");
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for (at, taint) in taints.iter().numbered() {
        let path = path.index(at);
        let (key, value, effect) = (taint.text("key"), taint.text("value"), taint.text("effect"));
        errors.extend(validate_label_name(key, &path.child("key")));
        let messages = names::label_value(value);
        if !messages.is_empty() {
            errors.push(FieldError::invalid_str(path.child("value"), value, &messages.join(";")));
        }
        if effect.is_empty() {
            errors.push(FieldError::required(path.child("effect"), ""));
        } else {
            errors.extend(validate_effect(effect, path.child("effect")));
        }
        if seen.is_repeated((key, effect)) {
            let mut error = FieldError::duplicate(path, &shown(taint));
            error.message.push_str(": taints must be unique by key and effect pair");
            errors.push(error);
        }
    }
    errors
}

fn validate_resources(context: &Context<'_>, node: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for list in ["capacity", "allocatable"] {
        let path = Path::new("status").child(list);
        for (name, amount) in node.at("status").entries(list) {
            errors.extend(validate_quantity(context.brand, name, amount, &path.child(name)));
        }
    }
    errors
}

fn validate_addresses(node: &Value) -> FieldErrors {
    let path = Path::new("status").child("addresses");
    let addresses = node.at("status").items("addresses");
    let mut seen = Distinct::new();
    let repeated = addresses.iter().numbered().filter(|(_, address)| seen.is_repeated(*address));
    repeated.map(|(at, address)| FieldError::duplicate(path.index(at), &shown(address))).collect()
}

fn validate_kept(old: &Value, new: &Value) -> FieldErrors {
    let path = Path::new("spec");
    let (before, after) = (old.at("spec"), new.at("spec"));
    let mut errors = FieldErrors::new();
    let (old_cidrs, new_cidrs) = (before.texts("podCIDRs"), after.texts("podCIDRs"));
    if !old_cidrs.is_empty() {
        let changed = if old_cidrs.len() == new_cidrs.len() {
            old_cidrs.iter().zip(&new_cidrs).filter(|(old, new)| old != new).count()
        } else {
            1
        };
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.extend((0..changed).map(|_| FieldError::forbidden(path.child("podCIDRs"), detail)));
    }
    let provider = before.text("providerID");
    if !provider.is_empty() && provider != after.text("providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden(path.child("providerID"), detail));
    }
    if before.text("externalID") != after.text("externalID") {
        errors.push(FieldError::forbidden(path.child("externalID"), "may not be updated"));
    }
    errors
}

fn state(node: &Value) -> String {
    let conditions = node.at("status").items("conditions");
    // once: one condition is looked for.
    let ready = conditions.iter().find(|condition| condition.text("type") == "Ready");
    let mut state = match ready.map(|condition| condition.text("status")) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    }
    .to_owned();
    if node.at("spec").flag("unschedulable") {
        state.push_str(",SchedulingDisabled");
    }
    state
}

// Table rows are made without a brand, so the role labels of every brand count.
fn roles(node: &Value) -> String {
    let mut roles: Vec<&str> = Vec::new();
    for (key, value) in node.at("metadata").entries("labels") {
        for brand in [&ORCH, &KUBERNETES] {
            let prefix = format!("node-role.{}/", brand.label_domain);
            if let Some(role) = key.strip_prefix(&prefix).filter(|role| !role.is_empty()) {
                roles.push(role);
            } else if key == brand.label("role") {
                roles.extend(value.as_str().filter(|role| !role.is_empty()));
            }
        }
    }
    roles.sort_unstable();
    roles.dedup();
    roles.join(",")
}

fn address<'a>(node: &'a Value, kind: &str) -> &'a str {
    let addresses = node.at("status").items("addresses");
    addresses
        .iter()
        // once: one address is looked for.
        .find(|address| address.text("type") == kind)
        .map_or("", |address| address.text("address"))
}

#[cfg(test)]
mod tests;
