//! The schema that OpenAPI publishes of a declared version, read from its definition when a document is made.
//!
//! Owns nothing but the definition's stored bytes, which the state holds anyway: before its first document a version costs no
//! memory for its schema. The documents are made of this JSON and not of the type tables, which are not made for them.

use bytes::Bytes;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

/// The source of the published schema of one version.
#[derive(Clone, Debug)]
pub struct Published {
    /// JSON of the definition.
    definition: Bytes,
    version: String,
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
}
