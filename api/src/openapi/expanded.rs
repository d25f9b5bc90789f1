//! The schema of one kind with every reference replaced by what it refers to, for those that walk a schema from its root.
//!
//! Owns the end of types that contain themselves: inside of itself such a type is an object of which nothing is known. The schema is
//! that of version 3 of the format without descriptions.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use orch_schema::json;
use orch_schema::value::{Map, Value};

use super::definitions::Definitions;
use super::descriptions::Descriptions;
use super::dialect::Dialect;
use super::names::Names;
use super::operation::Described;
use crate::registry::{Registry, Resource};

/// Schemas in one expanded schema, where each place of a type counts. The largest built-in kinds have some ten thousand; a definition
/// may embed the metadata of an object in each of its parts.
const SCHEMAS_MAX: usize = 100_000;

/// The members of a schema that hold one schema each.
const NESTED: [&str; 2] = ["items", "additionalProperties"];

/// The schema of the objects of `resource`, which `registry` serves. `None`: it is too large.
///
/// # Errors
/// A stored definition cannot be read, which only a fault of this program causes.
pub(crate) fn expanded(registry: &Registry, resource: &Arc<Resource>) -> io::Result<Option<Value>> {
    let (names, descriptions) = (Names::of(registry), Descriptions::default());
    let mut definitions = Definitions::new(&names, &descriptions, Dialect::V3);
    let root = if resource.published.is_some() {
        definitions.refer_to_declared(resource);
        definitions.refer(Described::Declared)
    } else {
        definitions.refer_to(resource.schema.schema());
        definitions.refer(Described::Type(resource.type_id))
    };
    let texts = definitions.finish()?;
    let mut parsed = BTreeMap::new();
    for (name, text) in &texts {
        let schema: Value = serde_json::from_str(text).map_err(io::Error::other)?;
        parsed.insert(format!("{}{name}", Dialect::V3.definitions()), schema);
    }
    Ok(Expansion { definitions: &parsed, open: Vec::new(), left: SCHEMAS_MAX }.schema(&root))
}

struct Expansion<'d> {
    definitions: &'d BTreeMap<String, Value>,
    /// The references around the schema that is expanded.
    open: Vec<&'d str>,
    left: usize,
}

impl<'d> Expansion<'d> {
    /// `schema` without references; `None`: too many schemas.
    fn schema(&mut self, schema: &'d Value) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        let Some(reference) = reference(schema) else { return self.members(schema) };
        // few: types that lie in one another.
        if self.open.contains(&reference) {
            return Some(json!({"type": "object"}));
        }
        let Some(referred) = self.definitions.get(reference) else { return Some(json!({})) };
        self.open.push(reference);
        let expanded = self.schema(referred);
        self.open.pop();
        expanded
    }

    fn members(&mut self, schema: &'d Value) -> Option<Value> {
        let Some(given) = schema.as_object() else { return Some(schema.clone()) };
        let mut members = Map::new();
        for (name, value) in given.iter() {
            let expanded = match (&**name, value) {
                ("properties", Value::Object(properties)) => {
                    let mut all = Map::new();
                    for (name, property) in properties.iter() {
                        all.insert(name.clone(), self.schema(property)?);
                    }
                    Value::Object(all)
                }
                // few: two names.
                (name, Value::Object(_)) if NESTED.contains(&name) => self.schema(value)?,
                _ => value.clone(),
            };
            members.insert(name.clone(), expanded);
        }
        Some(Value::Object(members))
    }
}

/// The reference that `schema` is. One with a description beside it is wrapped in `allOf`.
fn reference(schema: &Value) -> Option<&str> {
    let own = schema.get("$ref").and_then(Value::as_str);
    own.or_else(|| {
        let all = schema.get("allOf").and_then(Value::as_array)?;
        all.iter().find_map(|one| one.get("$ref").and_then(Value::as_str))
    })
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;

    #[test]
    fn a_schema_has_no_references_and_ends_inside_of_itself() {
        let registry = Registry::builtin(&ORCH);
        let of = |group: &str, version: &str, plural: &str| {
            expanded(&registry, registry.find(group, version, plural).unwrap()).unwrap().unwrap()
        };
        let pod = of("", "v1", "pods");
        let container = &pod["properties"]["spec"]["properties"]["containers"]["items"]["properties"];
        assert_eq!(container["image"]["type"], "string");
        assert_eq!(pod["properties"]["metadata"]["properties"]["name"]["type"], "string");
        let amount = &container["resources"]["properties"]["limits"]["additionalProperties"];
        assert!(amount.get("type").is_none() && amount.get("oneOf").is_some(), "{amount}");
        let definition =
            of(&format!("apiextensions.{}", ORCH.group_domain), "v1", "customresourcedefinitions");
        let version = &definition["properties"]["spec"]["properties"]["versions"]["items"]["properties"];
        let schema = &version["schema"]["properties"]["openAPIV3Schema"];
        assert_eq!(schema["properties"]["not"], json!({"type": "object"}));
        assert!(![pod, definition].iter().any(|schema| schema.to_string().contains("\"$ref\":\"#")));
    }
}
