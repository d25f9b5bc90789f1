//! Every definition beside what the reference publishes of it.
//!
//! `definitions.txt` holds the facts of the interface, one message after the other: its required members, ownership and
//! unions, and below it each field with its number, JSON name, type, list type with keys, ownership, patch directives
//! with the merge key, values, and published default. The compiled tables are written in the same form and compared
//! line by line, in both directions. A message that stands inline in others is compared where it is defined, and the
//! place that takes it in is compared too.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::testing::orch;
use super::*;
use crate::value::Value;

const FACTS: &str = include_str!("definitions.txt");

/// Messages of the facts whose JSON form is not an object of their fields, so that they have no table, and messages of
/// the wire alone.
const WITHOUT_TABLE: [&str; 21] = [
    "apiextensions.v1.JSON",
    "apiextensions.v1.JSONSchemaPropsOrArray",
    "apiextensions.v1.JSONSchemaPropsOrBool",
    "apiextensions.v1.JSONSchemaPropsOrStringArray",
    "authentication.v1.ExtraValue",
    "authorization.v1.ExtraValue",
    "certificates.v1.ExtraValue",
    "intstr.IntOrString",
    "meta.v1.Duration",
    "meta.v1.FieldsV1",
    "meta.v1.MicroTime",
    "meta.v1.Patch",
    "meta.v1.Time",
    "meta.v1.Timestamp",
    "meta.v1.TypeMeta",
    "meta.v1.Verbs",
    "resource.Quantity",
    "resource.QuantityValue",
    "runtime.RawExtension",
    "runtime.TypeMeta",
    "runtime.Unknown",
];

/// Messages of which the reference publishes no definition, or one that takes these fields from elsewhere: the facts
/// have no defaults for them.
const WITHOUT_DEFAULTS: [&str; 31] = [
    "admission.v1.AdmissionRequest",
    "admission.v1.AdmissionResponse",
    "admissionregistration.v1.Validation",
    "admissionregistration.v1.Variable",
    "apidiscovery.v2.APIResourceDiscovery",
    "apidiscovery.v2.APISubresourceDiscovery",
    "apidiscovery.v2.APIVersionDiscovery",
    "apiextensions.v1.ConversionRequest",
    "apiextensions.v1.ConversionResponse",
    "audit.v1.Event",
    "audit.v1.PolicyRule",
    "autoscaling.v1.ContainerResourceMetricSource",
    "autoscaling.v1.ContainerResourceMetricStatus",
    "autoscaling.v1.ExternalMetricSource",
    "autoscaling.v1.ExternalMetricStatus",
    "autoscaling.v1.HorizontalPodAutoscalerCondition",
    "autoscaling.v1.MetricSpec",
    "autoscaling.v1.MetricStatus",
    "autoscaling.v1.ObjectMetricSource",
    "autoscaling.v1.ObjectMetricStatus",
    "autoscaling.v1.PodsMetricSource",
    "autoscaling.v1.PodsMetricStatus",
    "autoscaling.v1.ResourceMetricSource",
    "autoscaling.v1.ResourceMetricStatus",
    "core.v1.RangeAllocation",
    "meta.v1.ApplyOptions",
    "meta.v1.GroupKind",
    "meta.v1.GroupResource",
    "meta.v1.GroupVersion",
    "meta.v1.GroupVersionKind",
    "meta.v1.GroupVersionResource",
];

/// Differences that are meant, each with its reason.
const MEANT: [(&str, &str); 4] = [
    ("audit.v1.Event: facts  11 requestObject runtime.Unknown", OBJECT_OF_AUDIT),
    ("audit.v1.Event: facts  12 responseObject runtime.Unknown", OBJECT_OF_AUDIT),
    ("audit.v1.Event: ours   11 requestObject runtime.RawExtension", OBJECT_OF_AUDIT),
    ("audit.v1.Event: ours   12 responseObject runtime.RawExtension", OBJECT_OF_AUDIT),
];
const OBJECT_OF_AUDIT: &str = "audit events are written as JSON alone, in which both are the object itself";

/// The lines of the facts: each message's own line, and the lines of its fields by number.
fn facts() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut message = "";
    for line in FACTS.lines() {
        if !line.starts_with(' ') {
            message = line.split(' ').next().unwrap();
        }
        found.entry(message).or_default().push(line);
    }
    found
}

/// The same lines of a table.
fn lines(schema: &Schema, table: &ObjectType) -> Vec<String> {
    let mut head = table.name.to_string();
    let mut required: Vec<&str> =
        table.fields.iter().filter(|field| field.required).map(|field| field.name.as_str()).collect();
    required.sort_unstable();
    if !required.is_empty() {
        write!(head, " required={}", required.join(",")).unwrap();
    }
    if table.atomic {
        head.push_str(" ownership=atomic");
    }
    for union in &table.unions {
        let mut members: Vec<_> =
            union.members.iter().map(|(field, value)| format!("{field}={value}")).collect();
        members.sort_unstable();
        let discriminator = union.discriminator.as_deref().unwrap_or_default();
        write!(head, " union={discriminator}:{}", members.join(",")).unwrap();
    }
    let mut fields: BTreeMap<u32, String> = BTreeMap::new();
    for field in &table.fields {
        match field.inlined_in().first() {
            None => fields.insert(field.number, line(schema, field)),
            Some(number) => fields.insert(*number, format!("  {number} inline")),
        };
    }
    std::iter::once(head).chain(fields.into_values()).collect()
}

fn line(schema: &Schema, field: &Field) -> String {
    let mut line = format!("  {} {} {}", field.number, field.name, type_name(schema, field, &field.value));
    match &field.value {
        ValueType::List { topology, .. } if field.topology_declared => match topology {
            ListTopology::Atomic => line.push_str(" list=atomic"),
            ListTopology::Set => line.push_str(" list=set"),
            ListTopology::Map(keys) => write!(line, " list=map:{}", keys.join(",")).unwrap(),
        },
        // Bytes are a list to the reference.
        ValueType::Scalar(Scalar::Bytes) if field.topology_declared => line.push_str(" list=atomic"),
        _ => {}
    }
    if let Some(atomic) = field.atomic {
        line.push_str(if atomic { " ownership=atomic" } else { " ownership=granular" });
    }
    let patch = field.patch();
    let directives = [(patch.merge, "merge"), (patch.replace, "replace"), (patch.retain_keys, "retainKeys")];
    let given: Vec<_> = directives.iter().filter(|(is_given, _)| *is_given).map(|(_, name)| *name).collect();
    if !given.is_empty() {
        write!(line, " patch={}", given.join(",")).unwrap();
    }
    if let Some(key) = &patch.merge_key {
        write!(line, ":{key}").unwrap();
    }
    if let Some(values) = values(&field.value) {
        write!(line, " enum={}", values.join(",")).unwrap();
    }
    if let Some(default) = published_default(field) {
        write!(line, " default={}", serde_json::to_string(&default).unwrap()).unwrap();
    }
    line
}

fn type_name(schema: &Schema, field: &Field, value: &ValueType) -> String {
    match value {
        ValueType::Scalar(scalar) => match scalar {
            Scalar::String(_) => "string",
            Scalar::Bool => "bool",
            Scalar::Int32 => "int32",
            Scalar::Int64 => "int64",
            Scalar::Double => "double",
            Scalar::Bytes => "bytes",
            Scalar::Time => "meta.v1.Time",
            Scalar::MicroTime => "meta.v1.MicroTime",
            Scalar::Quantity => "resource.Quantity",
            Scalar::IntOrString => "intstr.IntOrString",
        }
        .to_owned(),
        ValueType::Object(id) => schema.get(*id).name.to_string(),
        ValueType::List { item, .. } => format!("{}[]", type_name(schema, field, item)),
        ValueType::Map { value, .. } => format!("map<{}>", type_name(schema, field, value)),
        ValueType::Member(member) => type_name(schema, field, &member.value),
        ValueType::Untyped => field.untyped_name().unwrap_or("untyped").to_owned(),
    }
}

fn values(value: &ValueType) -> Option<&[Box<str>]> {
    match value {
        ValueType::Scalar(Scalar::String(values)) => values.as_deref(),
        ValueType::List { item, .. } => values(item),
        _ => None,
    }
}

/// A field that is always written has its zero value as default. The facts do not repeat that of objects.
fn published_default(field: &Field) -> Option<Value> {
    match (&field.default, &field.value) {
        (Some(default), _) => Some((**default).clone()),
        (
            None,
            ValueType::Scalar(
                scalar @ (Scalar::String(_) | Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Double),
            ),
        ) if field.emit_empty && !field.presence => Some(scalar.zero_value()),
        _ => None,
    }
}

#[test]
fn every_definition_is_that_of_the_facts() {
    let schema = orch();
    let mut wrong = Vec::new();
    let facts = facts();
    assert!(facts.len() > 650, "the facts were cut short");
    for (message, expected) in &facts {
        let Some(id) = schema.find_type(message) else {
            if !WITHOUT_TABLE.contains(message) {
                wrong.push(format!("{message}: no such message"));
            }
            continue;
        };
        let mut found = lines(schema, schema.get(id));
        if WITHOUT_DEFAULTS.contains(message) {
            for line in &mut found {
                let end = line.find(" default=").unwrap_or(line.len());
                line.truncate(end);
            }
        }
        let expected: Vec<_> = expected.iter().map(|line| without_inlined_type(line)).collect();
        for line in expected.iter().filter(|line| !found.contains(line)) {
            wrong.push(format!("{message}: facts{}{line}", if line.starts_with(' ') { "" } else { "  " }));
        }
        for line in found.iter().filter(|line| !expected.contains(line)) {
            wrong.push(format!("{message}: ours {}{line}", if line.starts_with(' ') { "" } else { "  " }));
        }
    }
    let tables = (0..schema.len()).map(|at| schema.get(TypeId(u32::try_from(at).unwrap())));
    let unknown = tables.filter(|table| !facts.contains_key(&*table.name));
    wrong.extend(unknown.map(|table| format!("{}: no such message in the facts", table.name)));
    wrong.retain(|line| !MEANT.iter().any(|(meant, _)| line == meant));
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

/// The line of an inlined message names its type in the facts; the tables only know its number.
fn without_inlined_type(line: &str) -> String {
    match line.split_once(" inline ") {
        Some((number, _)) => format!("{number} inline"),
        None => line.to_owned(),
    }
}

/// The facts have no options for the fields that a message takes in from one that stands in no other: an ephemeral
/// container's are those of a container.
#[test]
fn ephemeral_containers_merge_and_are_checked_like_containers() {
    let schema = orch();
    let table = |name: &str| schema.get(schema.find_type(name).unwrap());
    let ephemeral = table("core.v1.EphemeralContainer");
    for field in &table("core.v1.Container").fields {
        let found = ephemeral.field(&field.name).unwrap_or_else(|| panic!("{} is missing", field.name));
        assert_eq!(line(schema, found), line(schema, field));
        assert_eq!(found.required, field.required, "{}", field.name);
        assert_eq!(found.inlined_in(), [1], "{}", field.name);
    }
    assert_eq!(ephemeral.fields.len(), table("core.v1.Container").fields.len() + 1);
}

const RESOURCES: &str = include_str!("resources.txt");

/// The lines of a resource in the form of `resources.txt`: its own, those of its sub-resources, those of its columns.
fn resource_lines(resource: &ResourceType) -> Vec<String> {
    let sorted = |verbs: &[String]| {
        let mut verbs = verbs.to_vec();
        verbs.sort_unstable();
        verbs.join(",")
    };
    let mut head = format!(
        "{} {} singular={} kind={} namespaced={} verbs={}",
        resource.api_version(),
        resource.plural,
        resource.singular,
        resource.kind,
        resource.namespaced,
        sorted(&resource.verbs)
    );
    for (label, names) in [("short", &resource.short_names), ("categories", &resource.categories)] {
        if !names.is_empty() {
            write!(head, " {label}={}", names.join(",")).unwrap();
        }
    }
    let subresources = resource
        .subresources
        .iter()
        .map(|sub| format!("  /{} kind={} verbs={}", sub.name, sub.kind, sorted(&sub.verbs)));
    let columns = resource
        .columns
        .iter()
        .map(|column| format!("  {}|{}|{}|{}", column.name, column.kind, column.format, column.priority));
    std::iter::once(head).chain(subresources).chain(columns).collect()
}

/// Names, verbs, sub-resources and table columns of each resource are those of the facts, columns in their order.
#[test]
fn every_resource_is_that_of_the_facts() {
    let mut facts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut resource = String::new();
    for line in RESOURCES.lines() {
        if !line.starts_with(' ') {
            resource = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        }
        facts.entry(resource.clone()).or_default().push(line);
    }
    let mut wrong = Vec::new();
    for resource in orch().resources() {
        let name = format!("{} {}", resource.api_version(), resource.plural);
        let Some(mut expected) = facts.remove(&name) else {
            wrong.push(format!("{name}: no such resource in the facts"));
            continue;
        };
        let mut found = resource_lines(resource);
        let columns = |lines: &[&str]| {
            lines.iter().filter(|line| line.contains('|')).map(|line| (*line).to_owned()).collect::<Vec<_>>()
        };
        let own: Vec<&str> = found.iter().map(String::as_str).collect();
        if columns(&own) != columns(&expected) {
            wrong.push(format!("{name}: columns {:?}, in the facts {:?}", columns(&own), columns(&expected)));
        }
        found.retain(|line| !line.contains('|'));
        expected.retain(|line| !line.contains('|'));
        wrong.extend(
            found
                .iter()
                .filter(|line| !expected.contains(&line.as_str()))
                .map(|line| format!("{name}: ours {line}")),
        );
        wrong.extend(
            expected
                .iter()
                .filter(|line| !found.iter().any(|own| own == *line))
                .map(|line| format!("{name}: facts{line}")),
        );
    }
    wrong.extend(facts.keys().map(|name| format!("{name}: only in the facts")));
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}
