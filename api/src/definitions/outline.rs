//! The outline of a stored definition: all but its schemas, which take most of its bytes.
//!
//! Owns reading it in one pass that builds no tree of a schema, so that a node with thousands of definitions is soon ready.

use std::collections::BTreeMap;

use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::registry::Stage;

/// Versions of a definition that are served: each holds its way to each of the others.
const VERSIONS_MAX: usize = 100;

/// A definition without schemas, in its own form: of each version's schema the names of the properties at the root are left.
pub(super) struct Outline(pub(super) Value);

#[derive(Deserialize)]
struct Definition {
    #[serde(default)]
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    deletion_timestamp: Value,
    annotations: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    group: Value,
    names: Value,
    scope: Value,
    versions: Vec<Version>,
    #[serde(default)]
    conversion: Value,
    #[serde(default)]
    preserve_unknown_fields: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Version {
    name: Value,
    served: Value,
    storage: Value,
    deprecated: Value,
    deprecation_warning: Value,
    schema: Validation,
    subresources: Value,
    additional_printer_columns: Value,
    selectable_fields: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Validation {
    #[serde(rename = "openAPIV3Schema")]
    schema: Root,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Root {
    properties: BTreeMap<String, IgnoredAny>,
}

impl Version {
    fn into_value(self) -> Value {
        let Version { name, served, storage, deprecated, schema, .. } = self;
        let mut root = json!({});
        for name in schema.schema.properties.keys() {
            root[name.as_str()] = json!({});
        }
        json!({
            "name": name, "served": served, "storage": storage, "deprecated": deprecated,
            "deprecationWarning": self.deprecation_warning,
            "schema": {"openAPIV3Schema": {"properties": root}},
            "subresources": self.subresources,
            "additionalPrinterColumns": self.additional_printer_columns,
            "selectableFields": self.selectable_fields,
        })
    }
}

impl Outline {
    /// The outline of the definition whose stored bytes these are.
    ///
    /// # Errors
    /// They are no definition.
    pub(super) fn of(json: &[u8]) -> Result<Outline, serde_json::Error> {
        let Definition { metadata, spec, status } = serde_json::from_slice(json)?;
        let versions: Vec<Value> = spec.versions.into_iter().map(Version::into_value).collect();
        Ok(Outline(json!({
            "metadata": {"deletionTimestamp": metadata.deletion_timestamp, "annotations": metadata.annotations},
            "spec": {
                "group": spec.group, "names": spec.names, "scope": spec.scope, "versions": versions,
                "conversion": spec.conversion, "preserveUnknownFields": spec.preserve_unknown_fields,
            },
            "status": status,
        })))
    }

    /// How far the definition has come; `None`: its objects are not served.
    pub(super) fn stage(&self) -> Option<Stage> {
        let (is_accepted, is_established) = (self.is("NamesAccepted"), self.is("Established"));
        match (is_accepted || is_established, is_established) {
            (false, _) => None,
            _ if self.0.at("metadata").has("deletionTimestamp") => Some(Stage::Terminating),
            (true, true) => Some(Stage::Established),
            (true, false) => Some(Stage::Accepted),
        }
    }

    fn is(&self, condition: &str) -> bool {
        let conditions = self.0.at("status").items("conditions");
        // few: a definition has a handful of conditions, each asked for once in a look.
        conditions.iter().any(|found| found.text("type") == condition && found.text("status") == "True")
    }

    /// The plural name, under which its objects are stored whatever was accepted.
    pub(super) fn plural(&self) -> &str {
        self.0.at("spec").at("names").text("plural")
    }

    /// The group.
    pub(super) fn group(&self) -> &str {
        self.0.at("spec").text("group")
    }

    /// The versions that are served, of a hostile definition the first ones.
    pub(super) fn served(&self) -> impl Iterator<Item = &Value> {
        self.versions().filter(|version| version.flag("served")).take(VERSIONS_MAX)
    }

    /// The version in which objects are stored.
    pub(super) fn stored(&self) -> Option<&Value> {
        self.versions().find(|version| version.flag("storage"))
    }

    fn versions(&self) -> impl Iterator<Item = &Value> {
        self.0.at("spec").items("versions").iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(conditions: Value, deleted: bool) -> Option<Stage> {
        let mut definition = json!({"metadata": {}, "spec": {"group": "g", "names": {}, "scope": "", "versions": []},
            "status": {"conditions": conditions}});
        if deleted {
            definition["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        Outline::of(definition.to_string().as_bytes()).unwrap().stage()
    }

    #[test]
    fn a_definition_is_served_once_its_names_are_accepted_or_it_was_established() {
        let conditions = |names: &str, established: &str| json!([{"type": "NamesAccepted", "status": names}, {"type": "Established", "status": established}]);
        assert_eq!(with(json!([]), false), None);
        assert_eq!(with(conditions("False", "False"), false), None);
        assert_eq!(with(conditions("True", "False"), false), Some(Stage::Accepted));
        assert_eq!(with(conditions("True", "True"), false), Some(Stage::Established));
        assert_eq!(with(conditions("False", "True"), false), Some(Stage::Established));
        assert_eq!(with(conditions("True", "True"), true), Some(Stage::Terminating));
        assert_eq!(with(json!([]), true), None);
    }

    #[test]
    fn of_a_hostile_definition_the_first_versions_are_served() {
        let versions: Vec<Value> =
            (0..10_000).map(|number| json!({"name": format!("v{number}"), "served": true})).collect();
        let definition = json!({"spec": {"group": "g", "names": {}, "scope": "", "versions": versions}});
        let outline = Outline::of(definition.to_string().as_bytes()).unwrap();
        assert_eq!(outline.served().count(), VERSIONS_MAX);
    }

    #[test]
    fn of_a_schema_the_names_at_the_root_are_left() {
        let definition = json!({"spec": {"group": "g.example.com", "names": {"plural": "widgets"}, "scope": "Cluster",
            "versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"properties": {"deep": {}}}}}}}, {"name": "v2", "storage": true}]}});
        let outline = Outline::of(definition.to_string().as_bytes()).unwrap();
        let root = outline.served().next().unwrap().at("schema").at("openAPIV3Schema");
        assert_eq!(root, &json!({"properties": {"spec": {}}}));
        assert_eq!((outline.plural(), outline.group()), ("widgets", "g.example.com"));
        assert_eq!(outline.stored().unwrap().text("name"), "v2");
        assert!(Outline::of(b"{}").is_err() && Outline::of(b"nope").is_err());
    }
}
