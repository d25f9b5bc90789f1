//! The document of version 3 that is made of a part of version 2, for servers that have no other.
//!
//! Owns the other names and places of members: bodies beside parameters, media types above schemas, references that stand alone.

use std::io::{self, Write};

use orch_proto::Brand;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::{Map, Value};

use super::super::binary::{Binary, VERSION_3};
use super::{METHODS, known_extensions, replace_references};
use crate::document::{Document, Text, whole};

const SCHEMA: &str = "#/components/schemas/";

/// The media type of bodies of operations that name none.
const JSON: &str = "application/json";

/// The document of version 3 of a part, called `title`.
pub(super) fn version3(part: &Value, title: &str) -> Value {
    let items = part.at("paths").as_object().into_iter().flatten();
    let mut paths: Map = items.map(|(name, item)| (name.clone(), item3(item))).collect();
    let mut schemas = part.at("definitions").as_object().cloned().unwrap_or_default();
    let schema = |name: &str| Some(format!("{SCHEMA}{name}"));
    for value in paths.values_mut().chain(schemas.values_mut()) {
        replace_references(value, &schema);
        stand_alone(value);
    }
    json!({
        "openapi": "3.0.0", "info": {"title": title, "version": "unversioned"}, "paths": paths, "components": {"schemas": schemas},
    })
}

/// The two forms of the document of a part: JSON, and Protobuf where it has one.
///
/// # Errors
/// It cannot be compressed.
pub(crate) fn version3_forms(
    part: &Value,
    title: &str,
    brand: &'static Brand,
) -> io::Result<(Document, Option<Document>)> {
    let value = version3(part, title);
    let document = whole(&value.to_string())?;
    let binary = encoded3(&known_extensions(&value, brand), brand).ok();
    let binary = binary.map(|bytes| {
        let mut text = Text::new();
        text.write_all(&bytes)?;
        Ok::<_, io::Error>(text.finish()?.known_by(document.hash.clone()))
    });
    Ok((document, binary.transpose()?))
}

fn encoded3(value: &Value, brand: &'static Brand) -> io::Result<Vec<u8>> {
    let mut binary = Binary::new(&VERSION_3, brand);
    for (name, member) in value.as_object().into_iter().flatten() {
        binary.member(name, member)?;
    }
    Ok(binary.finish())
}

/// References stand alone in version 3: beside other members they are wrapped.
fn stand_alone(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let is_beside = members.len() > 1 && members.get("$ref").is_some_and(Value::is_string);
            if is_beside && let Some(reference) = members.shift_remove("$ref") {
                members.insert("allOf", json!([{"$ref": reference}]));
            }
            members.values_mut().for_each(stand_alone);
        }
        Value::Array(items) => items.iter_mut().for_each(stand_alone),
        _ => {}
    }
}

fn item3(item: &Value) -> Value {
    let members = item.as_object().into_iter().flatten();
    let known = members.filter_map(|(name, value)| {
        let name: &str = name;
        // few: the methods.
        match name {
            "parameters" => Some((name.to_owned(), parameters3(value))),
            _ if METHODS.contains(&name) => Some((name.to_owned(), operation3(value))),
            _ if name.starts_with("x-") => Some((name.to_owned(), value.clone())),
            _ => None,
        }
    });
    known.collect()
}

fn operation3(operation: &Value) -> Value {
    let mut out = Map::new();
    for (name, value) in operation.as_object().into_iter().flatten() {
        match name.as_str() {
            "parameters" => {
                out.insert("parameters", parameters3(value));
                if let Some(body) = body3(value, &media(operation, "consumes")) {
                    out.insert("requestBody", body);
                }
            }
            "responses" => {
                let produces = media(operation, "produces");
                let responses = value.as_object().into_iter().flatten();
                let responses = responses.map(|(code, of)| (code.to_string(), response3(of, &produces)));
                out.insert("responses", responses.collect());
            }
            "consumes" | "produces" | "schemes" => {}
            _ => {
                out.insert(name.clone(), value.clone());
            }
        }
    }
    Value::Object(out)
}

/// The media types of an operation's bodies.
fn media<'v>(operation: &'v Value, member: &str) -> Vec<&'v str> {
    let named = operation.texts(member);
    // A form that holds any type, as older servers write.
    let named: Vec<&str> = named.into_iter().filter(|name| *name != "*/*").collect();
    if named.is_empty() { vec![JSON] } else { named }
}

fn content(schema: &Value, media: &[&str]) -> Value {
    media.iter().map(|name| ((*name).to_owned(), json!({"schema": schema.clone()}))).collect()
}

fn response3(response: &Value, produces: &[&str]) -> Value {
    let mut out = json!({"description": response.text("description")});
    if !response.at("schema").is_null() {
        out["content"] = content(response.at("schema"), produces);
    }
    out
}

/// Parameters that are no body.
fn parameters3(parameters: &Value) -> Value {
    let all = parameters.as_array().into_iter().flatten();
    let beside = all.filter(|parameter| !matches!(parameter.text("in"), "body" | "formData"));
    let parameter = |parameter: &Value| {
        let (mut out, mut schema) = (Map::new(), Map::new());
        for (name, value) in parameter.as_object().into_iter().flatten() {
            match name.as_str() {
                "name" | "in" | "description" | "required" => out.insert(name.clone(), value.clone()),
                "collectionFormat" | "allowEmptyValue" => None,
                extension if extension.starts_with("x-") => out.insert(name.clone(), value.clone()),
                _ => schema.insert(name.clone(), value.clone()),
            };
        }
        out.insert("schema", Value::Object(schema));
        Value::Object(out)
    };
    beside.map(parameter).collect()
}

fn body3(parameters: &Value, consumes: &[&str]) -> Option<Value> {
    // few: the parameters of one operation.
    let body = parameters.as_array()?.iter().find(|parameter| parameter.text("in") == "body")?;
    let mut out = json!({"content": content(body.at("schema"), consumes)});
    if body.flag("required") {
        out["required"] = json!(true);
    }
    Some(out)
}
