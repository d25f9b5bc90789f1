//! Field numbers of OpenAPI version 3.
//!
//! Owns the tables alone. The parent module encodes by them.

use orch_schema::value::Value;

use super::{Message, Shape, TEXTS};

const OPERATION: Shape = Shape::Message(&OPERATION_MESSAGE);
const PARAMETERS: Shape = Shape::Each(&Shape::Within(1, &Shape::Message(&PARAMETER)));
static SCHEMA: Shape = Shape::Either(schema);
const CONTENT: Shape = Shape::Named(1, &Shape::Message(&MEDIA_TYPE));
const RESPONSES: Shape = Shape::Named(2, &Shape::Within(1, &Shape::Message(&RESPONSE)));

pub(in crate::openapi) static DOCUMENT: Message = Message {
    members: &[
        ("openapi", 1, Shape::Text),
        ("info", 2, Shape::Message(&INFO)),
        ("paths", 4, Shape::Named(1, &Shape::Message(&PATH_ITEM))),
        ("components", 5, Shape::Message(&COMPONENTS)),
    ],
    extensions: 9,
};

static INFO: Message =
    Message { members: &[("title", 1, Shape::Text), ("version", 6, Shape::Text)], extensions: 7 };

static COMPONENTS: Message = Message {
    members: &[
        ("schemas", 1, Shape::Named(1, &SCHEMA)),
        ("securitySchemes", 7, Shape::Named(1, &Shape::Within(1, &Shape::Message(&SECURITY_SCHEME)))),
    ],
    extensions: 10,
};

static SECURITY_SCHEME: Message = Message {
    members: &[
        ("type", 1, Shape::Text),
        ("description", 2, Shape::Text),
        ("name", 3, Shape::Text),
        ("in", 4, Shape::Text),
    ],
    extensions: 9,
};

static PATH_ITEM: Message = Message {
    members: &[
        ("get", 4, OPERATION),
        ("put", 5, OPERATION),
        ("post", 6, OPERATION),
        ("delete", 7, OPERATION),
        ("options", 8, OPERATION),
        ("head", 9, OPERATION),
        ("patch", 10, OPERATION),
        ("parameters", 13, PARAMETERS),
    ],
    extensions: 14,
};

static OPERATION_MESSAGE: Message = Message {
    members: &[
        ("tags", 1, TEXTS),
        ("description", 3, Shape::Text),
        ("operationId", 5, Shape::Text),
        ("parameters", 6, PARAMETERS),
        ("requestBody", 7, Shape::Within(1, &Shape::Message(&REQUEST_BODY))),
        ("responses", 8, RESPONSES),
    ],
    extensions: 13,
};

static REQUEST_BODY: Message =
    Message { members: &[("content", 2, CONTENT), ("required", 3, Shape::Flag)], extensions: 4 };

static RESPONSE: Message =
    Message { members: &[("description", 1, Shape::Text), ("content", 3, CONTENT)], extensions: 5 };

static MEDIA_TYPE: Message = Message { members: &[("schema", 1, Shape::Either(schema))], extensions: 5 };

static PARAMETER: Message = Message {
    members: &[
        ("name", 1, Shape::Text),
        ("in", 2, Shape::Text),
        ("description", 3, Shape::Text),
        ("required", 4, Shape::Flag),
        ("schema", 10, Shape::Either(schema)),
    ],
    extensions: 14,
};

static REFERENCE: Message = Message { members: &[("$ref", 1, Shape::Text)], extensions: 0 };

static EXTERNAL_DOCS: Message =
    Message { members: &[("description", 1, Shape::Text), ("url", 2, Shape::Text)], extensions: 3 };

static SCHEMA_MESSAGE: Message = Message {
    members: &[
        ("nullable", 1, Shape::Flag),
        ("externalDocs", 6, Shape::Message(&EXTERNAL_DOCS)),
        ("title", 9, Shape::Text),
        ("multipleOf", 10, Shape::Number),
        ("maximum", 11, Shape::Number),
        ("exclusiveMaximum", 12, Shape::Flag),
        ("minimum", 13, Shape::Number),
        ("exclusiveMinimum", 14, Shape::Flag),
        ("maxLength", 15, Shape::Integer),
        ("minLength", 16, Shape::Integer),
        ("pattern", 17, Shape::Text),
        ("maxItems", 18, Shape::Integer),
        ("minItems", 19, Shape::Integer),
        ("uniqueItems", 20, Shape::Flag),
        ("maxProperties", 21, Shape::Integer),
        ("minProperties", 22, Shape::Integer),
        ("required", 23, TEXTS),
        ("enum", 24, Shape::Each(&Shape::Any)),
        ("type", 25, Shape::Text),
        ("allOf", 26, Shape::Each(&Shape::Either(schema))),
        ("oneOf", 27, Shape::Each(&Shape::Either(schema))),
        ("anyOf", 28, Shape::Each(&Shape::Either(schema))),
        ("not", 29, Shape::Message(&SCHEMA_MESSAGE)),
        ("items", 30, Shape::Within(1, &SCHEMA)),
        ("properties", 31, Shape::Named(1, &SCHEMA)),
        ("additionalProperties", 32, Shape::Either(additional)),
        ("default", 33, Shape::Either(default)),
        ("description", 34, Shape::Text),
        ("format", 35, Shape::Text),
    ],
    extensions: 36,
};

static ADDITIONAL_SCHEMA: Shape = Shape::Within(1, &SCHEMA);
static ADDITIONAL_FLAG: Shape = Shape::Within(2, &Shape::Flag);
static A_REFERENCE: Shape = Shape::Within(2, &Shape::Message(&REFERENCE));
static A_SCHEMA: Shape = Shape::Within(1, &Shape::Message(&SCHEMA_MESSAGE));

/// The shape of the values of a map: a schema, or whether there may be any.
fn additional(value: &Value) -> Shape {
    if value.is_boolean() { ADDITIONAL_FLAG } else { ADDITIONAL_SCHEMA }
}

/// The shape of a schema or of a reference, inside the message that holds either.
fn schema(value: &Value) -> Shape {
    if value.get("$ref").is_some() { A_REFERENCE } else { A_SCHEMA }
}

/// The shape of a default: one field each for numbers, booleans and strings. Lists and objects have no field: they are an empty
/// message, as in the reference.
fn default(value: &Value) -> Shape {
    match value {
        Value::Number(_) => Shape::Within(1, &Shape::Number),
        Value::Bool(_) => Shape::Within(2, &Shape::Flag),
        Value::String(_) => Shape::Within(3, &Shape::Text),
        Value::Null | Value::Array(_) | Value::Object(_) => Shape::Nothing,
    }
}
