//! The schema that OpenAPI publishes of a declared version, read from its definition when a document is made.
//!
//! Owns nothing but the definition's stored bytes, which the state holds anyway: before its first document a version costs no
//! memory for its schema. The documents are made of this JSON and not of the type tables, which are not made for them.

use bytes::Bytes;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use serde::Deserialize;

/// The source of the published schema of one version.
#[derive(Clone, Debug)]
pub struct Published {
    /// JSON of the definition.
    definition: Bytes,
    version: String,
}

/// A definition without its schemas.
#[derive(Deserialize)]
struct Outline {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    #[serde(default)]
    name: String,
    #[serde(default)]
    selectable_fields: Value,
}

impl Published {
    /// That of `version` in the definition whose stored JSON is `definition`.
    pub fn new(definition: Bytes, version: &str) -> Published {
        Published { definition, version: version.to_owned() }
    }

    /// The version's JSON schema (`openAPIV3Schema`); null where it has none, or the definition keeps unknown fields everywhere,
    /// so that none is in force.
    ///
    /// # Errors
    /// The stored bytes are no JSON, which only a fault of this program causes.
    pub fn schema(&self) -> serde_json::Result<Value> {
        let mut definition: Value = serde_json::from_slice(&self.definition)?;
        if definition.at("spec").flag("preserveUnknownFields") {
            return Ok(Value::Null);
        }
        let versions = definition.get_mut("spec").and_then(|spec| spec.get_mut("versions"));
        let versions = versions.and_then(Value::as_array_mut).into_iter().flatten();
        // few: the versions of one definition.
        let own = versions.into_iter().find(|version| version.text("name") == self.version);
        let schema = own.and_then(|own| own.get_mut("schema")?.get_mut("openAPIV3Schema"));
        Ok(schema.map(Value::take).unwrap_or_default())
    }

    /// The selectable fields of the version in the order of its definition, without the dots at their beginnings.
    ///
    /// # Errors
    /// As of [`Published::schema`].
    pub fn selectable_fields(&self) -> serde_json::Result<Vec<String>> {
        let Outline { spec } = serde_json::from_slice(&self.definition)?;
        // few: the versions of one definition.
        let own = spec.versions.iter().find(|version| version.name == self.version);
        let fields = own.and_then(|own| own.selectable_fields.as_array()).into_iter().flatten();
        let paths = fields.map(|field| field.text("jsonPath"));
        Ok(paths.map(|path| path.strip_prefix('.').unwrap_or(path).to_owned()).collect())
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn the_schema_is_that_of_the_version_and_none_where_unknown_fields_are_kept() {
        let of = |spec: Value, version: &str| {
            Published::new(json!({ "spec": spec }).to_string().into(), version).schema().unwrap()
        };
        let versions = json!([
            {"name": "v1", "schema": {"openAPIV3Schema": {"type": "object"}}}, {"name": "v2"},
        ]);
        assert_eq!(of(json!({"versions": versions}), "v1"), json!({"type": "object"}));
        assert_eq!(of(json!({"versions": versions}), "v2"), Value::Null);
        assert_eq!(of(json!({"versions": versions, "preserveUnknownFields": true}), "v1"), Value::Null);
    }

    #[test]
    fn selectable_fields_are_those_of_the_version_in_its_order() {
        let fields = json!([{"jsonPath": ".spec.size"}, {"jsonPath": ".spec.color"}]);
        let versions = json!([{"name": "v1", "selectableFields": fields}, {"name": "v2"}]);
        let definition = json!({"spec": {"preserveUnknownFields": true, "versions": versions}}).to_string();
        let of =
            |version: &str| Published::new(definition.clone().into(), version).selectable_fields().unwrap();
        assert_eq!((of("v1"), of("v2")), (vec!["spec.size".to_owned(), "spec.color".to_owned()], Vec::new()));
    }
}
