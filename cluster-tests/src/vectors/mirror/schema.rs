//! Definitions of custom kinds whose schemas are those that the server publishes for built-in kinds.
//!
//! Owns the way from a published schema to a structural one, and the defaults that a schema can say. Knows nothing of scenarios.

use orch_proto::brand::ORCH;
use serde_json::{Map, Value, json};

use super::{GROUP, Kind};

/// The keys of a published schema that a definition takes over as they are.
const KEPT: [&str; 5] = ["type", "format", "enum", "required", "nullable"];

/// The same among the extensions, without their prefix.
const KEPT_EXTENSIONS: [&str; 4] = ["list-type", "list-map-keys", "map-type", "preserve-unknown-fields"];

/// The key of an extension.
fn extension(name: &str) -> String {
    format!("{}{name}", ORCH.extension_prefix)
}

/// Defaults of deployments that the server makes by rules of its own and publishes in no schema. A path leads through properties, and
/// through the entries of lists.
const DEFAULTS: [(&str, &str); 15] = [
    ("spec.replicas", "1"),
    ("spec.revisionHistoryLimit", "10"),
    ("spec.progressDeadlineSeconds", "600"),
    (
        "spec.strategy",
        r#"{"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}"#,
    ),
    ("spec.template.spec.restartPolicy", r#""Always""#),
    ("spec.template.spec.dnsPolicy", r#""ClusterFirst""#),
    ("spec.template.spec.schedulerName", r#""default-scheduler""#),
    ("spec.template.spec.securityContext", "{}"),
    ("spec.template.spec.terminationGracePeriodSeconds", "30"),
    ("spec.template.spec.containers.terminationMessagePath", r#""/dev/termination-log""#),
    ("spec.template.spec.containers.terminationMessagePolicy", r#""File""#),
    ("spec.template.spec.containers.imagePullPolicy", r#""IfNotPresent""#),
    ("spec.template.spec.containers.resources", "{}"),
    ("spec.template.spec.containers.ports.protocol", r#""TCP""#),
    ("spec.template.spec.initContainers.ports.protocol", r#""TCP""#),
];

/// The definition that mirrors `kind`, from the OpenAPI v3 document of its group and version.
pub(super) fn definition(kind: &Kind, document: &Value) -> Value {
    let schemas = &document["components"]["schemas"];
    let is_meant = |schema: &&Value| {
        let named = schema[extension("group-version-kind")].as_array();
        named.into_iter().flatten().any(|named| {
            let group = named["group"].as_str().unwrap_or_default();
            let version = named["version"].as_str().unwrap_or_default();
            let own = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
            named["kind"] == kind.name && own == kind.api_version
        })
    };
    let published = schemas.as_object().into_iter().flat_map(Map::values).find(is_meant);
    let mut schema = structural(published.expect("the kind is published"), schemas, &[]);
    schema["properties"]["metadata"] = json!({"type": "object"});
    if kind.has_status {
        for (path, default) in DEFAULTS {
            let place = place(&mut schema, path);
            place["default"] = serde_json::from_str(default).expect("the default is JSON");
        }
    }
    let mut version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    if kind.has_status {
        version["subresources"] = json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas"}});
    }
    json!({"apiVersion": format!("{}/v1", ORCH.group("apiextensions")), "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{GROUP}", kind.plural)},
        "spec": {"group": GROUP, "scope": "Namespaced", "versions": [version],
            "names": {"plural": kind.plural, "singular": kind.name.to_lowercase(), "kind": kind.name}}})
}

/// The schema at `path`, which exists.
fn place<'v>(schema: &'v mut Value, path: &str) -> &'v mut Value {
    path.split('.').fold(schema, |schema, name| {
        let holder = if schema.get("items").is_some() { &mut schema["items"] } else { schema };
        holder["properties"].get_mut(name).expect("the property is published")
    })
}

/// The structural form of `given`, whose references lead to `schemas`. `keys` are the properties that are keys of the list around.
fn structural(given: &Value, schemas: &Value, keys: &[&str]) -> Value {
    let mut out = match reference(given) {
        Some(name) => structural(&schemas[name], schemas, keys),
        None => json!({}),
    };
    let kept = KEPT.map(str::to_owned).into_iter().chain(KEPT_EXTENSIONS.map(extension));
    for key in kept {
        if let Some(value) = given.get(&key) {
            out[key] = value.clone();
        }
    }
    if given["oneOf"].is_array() {
        // Quantities, and numbers or texts: the field has one way to say both.
        return json!({extension("int-or-string"): true});
    }
    if let Some(properties) = given["properties"].as_object() {
        let required = texts(&given["required"]);
        let property = |(name, given): (&String, &Value)| {
            let mut property = structural(given, schemas, &[]);
            // Keys of a list are required or have a default; other published defaults are the zero values of their types.
            // few: keys of a list and required fields of a type.
            let is_optional_key = keys.contains(&name.as_str()) && !required.contains(&name.as_str());
            if let Some(default) = given.get("default").filter(|_| is_optional_key) {
                property["default"] = default.clone();
            }
            (name.clone(), property)
        };
        out["properties"] = Value::Object(properties.iter().map(property).collect());
    }
    if given["items"].is_object() {
        let keys = texts(&given[extension("list-map-keys")]);
        out["items"] = structural(&given["items"], schemas, &keys);
    }
    if given["additionalProperties"].is_object() {
        out["additionalProperties"] = structural(&given["additionalProperties"], schemas, &[]);
    }
    if out["type"] == "object" && out.get("properties").is_none() && out.get("additionalProperties").is_none()
    {
        out[extension("preserve-unknown-fields")] = json!(true);
    }
    out
}

/// The texts of a list; none of what is no list.
fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The name of the schema that `given` refers to.
fn reference(given: &Value) -> Option<&str> {
    let target = given["$ref"].as_str().or_else(|| given["allOf"][0]["$ref"].as_str());
    target?.strip_prefix("#/components/schemas/")
}
