//! Documents of other servers: the part of one that is about a group and version, and what is made of such parts.
//!
//! Owns the part itself (its paths, with shared parameters put in place, and the definitions that these lead to), the merging of
//! parts into this server's document of version 2. It asks no server.
//!
//! Invariant: every reference in a part, and in what is made of one, leads to a definition in it.
//! Invariant: time and memory grow with the documents, whatever refers to what in them.

mod version3;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

use orch_proto::Brand;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::{Map, Value};

use super::binary::{Binary, VERSION_2};
use crate::document::{Document, Text};

pub(crate) use version3::version3_forms;

const DEFINITION: &str = "#/definitions/";
const PARAMETER: &str = "#/parameters/";

/// The members of a path item that are operations.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// The part of `document`, of version 2, about the paths at and below `path` (`/apis/GROUP/VERSION`); `None`: it has none.
pub(crate) fn part(document: &Value, path: &str) -> Option<Value> {
    if document.text("swagger") != "2.0" {
        return None;
    }
    let shared = document.at("parameters");
    let mut paths = Map::new();
    for (name, item) in document.at("paths").as_object()? {
        let rest = name.strip_prefix(path);
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) && item.is_object() {
            paths.insert(name.clone(), with_own_parameters(item, shared));
        }
    }
    if paths.is_empty() {
        return None;
    }
    let paths = Value::Object(paths);
    let mut definitions = Map::new();
    let mut wanted: Vec<&str> = Vec::new();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    each_reference(&paths, &mut |name| wanted.push(name));
    while let Some(name) = wanted.pop() {
        if known.insert(name) {
            let definition = document.at("definitions").at(name);
            each_reference(definition, &mut |name| wanted.push(name));
            let definition = if definition.is_object() { definition.clone() } else { json!({}) };
            definitions.insert(name, definition);
        }
    }
    definitions.sort_keys();
    Some(json!({"paths": paths, "definitions": definitions}))
}

/// A path item without references to the `shared` parameters of its document.
fn with_own_parameters(item: &Value, shared: &Value) -> Value {
    let mut item = item.clone();
    put_parameters(&mut item, shared);
    for method in METHODS {
        if let Some(operation) = item.get_mut(method) {
            put_parameters(operation, shared);
        }
    }
    item
}

fn put_parameters(of: &mut Value, shared: &Value) {
    let Some(parameters) = of.get_mut("parameters").and_then(Value::as_array_mut) else { return };
    for parameter in parameters.iter_mut() {
        if let Some(name) = parameter.text("$ref").strip_prefix(PARAMETER) {
            *parameter = shared.at(name).clone();
        }
    }
    parameters.retain(Value::is_object);
}

/// Calls `found` with the names of the definitions that `value` refers to.
fn each_reference<'v>(value: &'v Value, found: &mut impl FnMut(&'v str)) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member
                    .as_str()
                    .filter(|_| name == "$ref")
                    .and_then(|text| text.strip_prefix(DEFINITION))
                {
                    Some(name) => found(name),
                    None => each_reference(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| each_reference(item, found)),
        _ => {}
    }
}

/// Replaces references to definitions by what `of` says.
fn replace_references(value: &mut Value, of: &impl Fn(&str) -> Option<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                let known = member.as_str().filter(|_| name == "$ref");
                match known.and_then(|text| text.strip_prefix(DEFINITION)) {
                    Some(name) => {
                        if let Some(new) = of(name) {
                            *member = Value::from(new);
                        }
                    }
                    None => replace_references(member, of),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_references(item, of)),
        _ => {}
    }
}

/// The document of version 2 over `own`, this server's, and `parts`, in JSON.
///
/// # Errors
/// A document cannot be read or compressed, which only a fault of this program causes.
pub(crate) fn merged(own: &Document, parts: &[Value]) -> io::Result<Document> {
    let mut all: Value = serde_json::from_slice(&own.text()?)?;
    for part in apart(&all, parts) {
        for member in ["paths", "definitions"] {
            if let (Some(all), Some(more)) = (all[member].as_object_mut(), part.at(member).as_object()) {
                all.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
        }
    }
    let mut text = Text::new();
    write!(text, "{all}")?;
    text.finish()
}

/// The Protobuf form of [`merged`]: `binary` is that of `own`, and messages add up. Parts with members that the form here has no
/// field for are left out.
///
/// # Errors
/// As of [`merged`].
pub(crate) fn merged_binary(
    own: &Document,
    binary: &Document,
    parts: &[Value],
    brand: &'static Brand,
) -> io::Result<Document> {
    let all: Value = serde_json::from_slice(&own.text()?)?;
    let mut text = Text::new();
    text.write_all(&binary.text()?)?;
    for part in apart(&all, parts) {
        match encoded(&part, brand) {
            Ok(bytes) => text.write_all(&bytes)?,
            Err(error) => tracing::debug!(%error, "a document of an aggregated server has no Protobuf form"),
        }
    }
    text.finish()
}

fn encoded(part: &Value, brand: &'static Brand) -> io::Result<Vec<u8>> {
    let mut binary = Binary::new(&VERSION_2, brand);
    for member in ["paths", "definitions"] {
        let entries = part.at(member).as_object().into_iter().flatten();
        let entries = entries.map(|(name, value)| Ok((name.to_string(), known_extensions(value, brand))));
        binary.entries(member, entries)?;
    }
    Ok(binary.finish())
}

/// `value` without extensions of other products, which the Protobuf form has no place for.
fn known_extensions(value: &Value, brand: &Brand) -> Value {
    match value {
        Value::Object(members) => {
            let is_known = |name: &str| !name.starts_with("x-") || name.starts_with(brand.extension_prefix);
            let known = members.iter().filter(|(name, _)| is_known(name));
            Value::Object(known.map(|(name, value)| (name.clone(), known_extensions(value, brand))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| known_extensions(item, brand)).collect()),
        other => other.clone(),
    }
}

/// `parts` with definitions of their own names, where they differ from those of `own` or of a part before them.
fn apart(own: &Value, parts: &[Value]) -> Vec<Value> {
    let mut taken: HashMap<String, &Value> = HashMap::new();
    for (name, definition) in own.at("definitions").as_object().into_iter().flatten() {
        taken.insert(name.to_string(), definition);
    }
    parts.iter().map(|part| one_apart(&mut taken, part)).collect()
}

/// `part` beside the definitions that are `taken`, to which its own are added.
fn one_apart<'v>(taken: &mut HashMap<String, &'v Value>, part: &'v Value) -> Value {
    let definitions: Vec<(&str, &Value)> = part
        .at("definitions")
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, definition)| (name.as_str(), definition))
        .collect();
    let mut referrers: HashMap<&str, Vec<&str>> = HashMap::new();
    for &(name, definition) in &definitions {
        each_reference(definition, &mut |to| referrers.entry(to).or_default().push(name));
    }
    let mut differing: Vec<&str> = definitions
        .iter()
        .filter(|(name, definition)| taken.get(*name).is_some_and(|known| known != definition))
        .map(|(name, _)| *name)
        .collect();
    // A definition that refers to one of another name is another definition, too.
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    while let Some(name) = differing.pop() {
        if reached.insert(name) {
            differing.extend(referrers.get(name).into_iter().flatten());
        }
    }
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    for name in reached.iter().filter(|name| taken.contains_key(**name)) {
        names.insert(name, free_name(name, taken, part.at("definitions")));
    }
    let mut own = Map::new();
    for (name, definition) in definitions {
        match names.get(name) {
            Some(new) => {
                own.insert(new.clone(), definition.clone());
                taken.insert(new.clone(), definition);
            }
            None if !taken.contains_key(name) => {
                own.insert(name, definition.clone());
                taken.insert(name.to_owned(), definition);
            }
            // The same is there already.
            None => {}
        }
    }
    let mut apart = json!({"paths": part.at("paths").clone(), "definitions": own});
    replace_references(&mut apart, &|name: &str| names.get(name).map(|new| format!("{DEFINITION}{new}")));
    apart
}

/// `name` with the first number that makes it none of the names that are `taken`, nor one of the `own` of its document, from 2 on.
fn free_name(name: &str, taken: &HashMap<String, &Value>, own: &Value) -> String {
    // few: the servers that have another definition of the name.
    let mut numbers = 2_u32..;
    let free = numbers.find_map(|number| {
        let numbered = format!("{name}_v{number}");
        let is_free = !taken.contains_key(&numbered) && own.at(&numbered).is_null();
        is_free.then_some(numbered)
    });
    free.expect("there are more numbers than names")
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;
    use crate::document::whole;

    fn foreign() -> Value {
        let body = json!({"in": "body", "name": "body", "required": true, "schema": {"$ref": "#/definitions/a.Thing"}});
        let answer = json!({"200": {"description": "OK", "schema": {"$ref": "#/definitions/a.Thing"}}});
        let post = json!({
            "operationId": "createThing", "consumes": ["*/*"], "produces": ["application/json", "application/yaml"],
            "parameters": [body, {"$ref": "#/parameters/dryRun"}, {"$ref": "#/parameters/gone"}], "responses": answer,
        });
        json!({
            "swagger": "2.0",
            "paths": {
                "/apis/a/v1/": {"get": {"responses": {"200": {"description": "OK"}}}},
                "/apis/a/v1/things": {"post": post, "parameters": [{"name": "ns", "in": "path", "type": "string", "required": true}]},
                "/apis/a/v10/others": {"get": {"responses": {}}},
                "/apis/b/v1/things": {"get": {"responses": {}}},
            },
            "parameters": {"dryRun": {"name": "dryRun", "in": "query", "type": "string", "uniqueItems": true}},
            "definitions": {
                "a.Thing": {"type": "object", "properties": {"m": {"$ref": "#/definitions/Meta", "description": "Its own."}, "g": {"$ref": "#/definitions/Gone"}}},
                "Meta": {"type": "object", "description": "another"},
                "Unused": {"type": "string"},
            },
        })
    }

    #[test]
    fn a_part_has_its_paths_and_what_they_lead_to() {
        let part = part(&foreign(), "/apis/a/v1").unwrap();
        let names = |of: &str| -> Vec<String> {
            part.at(of).as_object().unwrap().keys().map(|name| name.to_string()).collect()
        };
        assert_eq!(names("paths"), ["/apis/a/v1/", "/apis/a/v1/things"]);
        assert_eq!(names("definitions"), ["Gone", "Meta", "a.Thing"]);
        let parameters = part["paths"]["/apis/a/v1/things"]["post"]["parameters"].clone();
        assert_eq!(parameters[1]["uniqueItems"], true);
        assert_eq!(parameters.as_array().unwrap().len(), 2);
        assert_eq!(super::part(&foreign(), "/apis/c/v1"), None);
        assert_eq!(super::part(&json!({"swagger": "3.0", "paths": {}}), "/apis/a/v1"), None);
    }

    #[test]
    fn definitions_that_differ_get_names_of_their_own_and_equal_ones_are_shared() {
        let own =
            json!({"swagger": "2.0", "paths": {}, "definitions": {"Meta": {"type": "object"}, "Gone": {}}});
        let own = whole(&own.to_string()).unwrap();
        let part = part(&foreign(), "/apis/a/v1").unwrap();
        let text = merged(&own, &[part.clone(), part.clone()]).unwrap().text().unwrap();
        let all: Value = serde_json::from_slice(&text).unwrap();
        let names: BTreeSet<String> =
            all["definitions"].as_object().unwrap().keys().map(|name| name.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // The second part is the same as the first, whose names are taken by then.
        assert_eq!(names, ["Gone", "Meta", "Meta_v2", "Meta_v3", "a.Thing", "a.Thing_v2"]);
        assert_eq!(all["definitions"]["a.Thing"]["properties"]["m"]["$ref"], "#/definitions/Meta_v2");
        assert_eq!(all["paths"].as_object().unwrap().len(), 2);
        let empty = Document::clone(&whole("").unwrap());
        let binary = merged_binary(&own, &empty, &[part], &ORCH).unwrap();
        assert!(!binary.text().unwrap().is_empty());
    }

    #[test]
    fn version_3_is_made_of_a_part() {
        let part = part(&foreign(), "/apis/a/v1").unwrap();
        let made = version3::version3(&part, "A");
        let post = &made["paths"]["/apis/a/v1/things"]["post"];
        assert_eq!(
            post["requestBody"],
            json!({"content": {"application/json": {"schema": {"$ref": "#/components/schemas/a.Thing"}}}, "required": true})
        );
        let dry_run =
            json!({"name": "dryRun", "in": "query", "schema": {"type": "string", "uniqueItems": true}});
        assert_eq!(post["parameters"], json!([dry_run]));
        let answer = post["responses"]["200"]["content"].clone();
        assert!(answer["application/yaml"].is_object() && answer["application/json"].is_object());
        let meta = made["components"]["schemas"]["a.Thing"]["properties"]["m"].clone();
        assert_eq!(
            meta,
            json!({"description": "Its own.", "allOf": [{"$ref": "#/components/schemas/Meta"}]})
        );
        let (document, binary) = version3_forms(&part, "A", &ORCH).unwrap();
        assert!(binary.is_none_or(|binary| binary.hash == document.hash));
    }
}
