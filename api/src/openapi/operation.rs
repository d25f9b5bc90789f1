//! One operation: a method of a path with its parameters, body and responses.
//!
//! Owns the form of an operation in each version of the format. [`super::paths`] chooses the operations of a resource.

use orch_schema::TypeId;
use orch_schema::json;
use orch_schema::value::{Map, Value};

use super::definitions::Definitions;
use super::dialect::Dialect;
use super::parameters::Parameter;

/// Media types of objects, without the brand's Protobuf.
const TEXTS: [&str; 2] = ["application/json", "application/yaml"];

/// Media type of the patches that declared kinds do not take.
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Media types of patches.
const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    STRATEGIC,
    "application/apply-patch+yaml",
];

/// A type that an operation reads or writes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Described {
    /// A type of the schema that the path belongs to.
    Type(TypeId),
    /// The objects of the declared kind that the path belongs to.
    Declared,
    /// Its lists.
    DeclaredList,
}

/// Encodings that a resource is served in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// All: text and Protobuf, and all forms of patches.
    All,
    /// Those of declared kinds: text, and no strategic merge patches.
    Text,
}

/// The request body of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body {
    /// An object of this type.
    Required(Described),
    /// Options of this type; the body may be absent.
    Optional(Described),
    /// A patch of any patch type.
    Patch,
}

/// The response of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answered {
    /// An object of this type, in every encoding.
    Object(Described),
    /// The version, in JSON alone.
    Version,
    /// Text or bytes of these media types.
    Text(&'static [&'static str]),
}

/// A method of a path.
pub(super) struct Operation {
    /// HTTP method in lower case: `get`.
    pub(super) method: &'static str,
    /// The extension `action`: `list`. Empty for discovery.
    pub(super) action: &'static str,
    /// `operationId`, unique in the document.
    pub(super) id: String,
    pub(super) description: String,
    pub(super) parameters: &'static [Parameter],
    pub(super) body: Option<Body>,
    /// Status codes of success.
    pub(super) codes: &'static [u16],
    /// The response.
    pub(super) answer: Answered,
    /// Encodings of bodies and responses.
    pub(super) offer: Offer,
    /// The response may be a stream of watch events.
    pub(super) streams: bool,
    /// The kind acted on, in the form of the extensions; null for discovery.
    pub(super) kind: Value,
    /// Group and version, by which clients sort operations: `apps_v1`.
    pub(super) tag: String,
}

impl Operation {
    /// The operation object in the version of `definitions`.
    pub(super) fn describe(&self, definitions: &mut Definitions<'_>) -> Value {
        let dialect = definitions.dialect;
        let prefix = definitions.names.brand.extension_prefix;
        let mut described = Map::new();
        let mut put = |name: &str, value: Value| described.insert(name.to_owned(), value);
        put("tags", json!([self.tag]));
        put("description", json!(self.description));
        put("operationId", json!(self.id));
        let mut parameters: Vec<Value> =
            self.parameters.iter().map(|parameter| parameter.in_operation(dialect)).collect();
        match (dialect, self.body) {
            (_, None) => {}
            (Dialect::V2, Some(body)) => parameters.push(self.body_v2(body, definitions)),
            (Dialect::V3, Some(body)) => {
                put("requestBody", self.body_v3(body, definitions));
            }
        }
        if !parameters.is_empty() {
            put("parameters", Value::Array(parameters));
        }
        if dialect == Dialect::V2 {
            let patches = matches!(self.body, Some(Body::Patch));
            put("consumes", if patches { json!(self.patches()) } else { json!(self.bodies()) });
            put("produces", json!(self.media_types(definitions)));
            put("schemes", json!(["https"]));
        }
        put("responses", self.responses(definitions));
        if !self.action.is_empty() {
            put(&format!("{prefix}action"), json!(self.action));
            put(&format!("{prefix}group-version-kind"), self.kind.clone());
        }
        Value::Object(described)
    }

    fn body_v2(&self, body: Body, definitions: &mut Definitions<'_>) -> Value {
        let mut parameter = json!({"in": "body", "name": "body", "schema": schema(body, definitions)});
        if !matches!(body, Body::Optional(_)) {
            parameter["required"] = json!(true);
        }
        parameter
    }

    fn body_v3(&self, body: Body, definitions: &mut Definitions<'_>) -> Value {
        let schema = schema(body, definitions);
        let types = if matches!(body, Body::Patch) { self.patches() } else { self.bodies() };
        let mut told = json!({"content": content(types.iter().map(|&name| name.to_owned()), &schema)});
        if !matches!(body, Body::Optional(_)) {
            told["required"] = json!(true);
        }
        told
    }

    fn responses(&self, definitions: &mut Definitions<'_>) -> Value {
        let schema = match self.answer {
            Answered::Text(_) => json!({"type": "string"}),
            Answered::Version => definitions.version_info(),
            Answered::Object(of) => definitions.refer(of),
        };
        let types = self.media_types(definitions);
        let mut responses = Map::new();
        for &code in self.codes {
            let description = reason(code);
            let response = match definitions.dialect {
                Dialect::V2 => json!({"description": description, "schema": schema}),
                Dialect::V3 => {
                    json!({"description": description, "content": content(types.iter().cloned(), &schema)})
                }
            };
            responses.insert(code.to_string(), response);
        }
        responses.insert("401".to_owned(), json!({"description": reason(401)}));
        Value::Object(responses)
    }

    /// Media types of a patch.
    fn patches(&self) -> Vec<&'static str> {
        PATCHES.into_iter().filter(|&name| self.offer == Offer::All || name != STRATEGIC).collect()
    }

    /// Media types of other bodies.
    fn bodies(&self) -> Vec<&'static str> {
        match self.offer {
            Offer::All => vec!["*/*"],
            Offer::Text => TEXTS.to_vec(),
        }
    }

    /// Media types of the response; those of a stream have `;stream=watch`.
    fn media_types(&self, definitions: &Definitions<'_>) -> Vec<String> {
        match self.answer {
            Answered::Text(types) => return types.iter().map(|&name| name.to_owned()).collect(),
            Answered::Version => return vec![TEXTS[0].to_owned()],
            Answered::Object(_) => {}
        }
        let protobuf = definitions.names.brand.protobuf_media_type;
        let mut types: Vec<String> = TEXTS.iter().map(|&name| name.to_owned()).collect();
        if self.offer == Offer::Text {
            return types;
        }
        types.push(protobuf.to_owned());
        if self.streams {
            types.extend([TEXTS[0], protobuf].map(|name| format!("{name};stream=watch")));
        }
        types
    }
}

fn schema(body: Body, definitions: &mut Definitions<'_>) -> Value {
    match body {
        Body::Required(of) | Body::Optional(of) => definitions.refer(of),
        Body::Patch => definitions.patch(),
    }
}

fn content(types: impl Iterator<Item = String>, schema: &Value) -> Value {
    Value::Object(types.map(|name| (name, json!({"schema": schema}))).collect())
}

/// The reason phrase of a status code.
fn reason(code: u16) -> &'static str {
    http::StatusCode::from_u16(code).ok().and_then(|code| code.canonical_reason()).unwrap_or_default()
}
