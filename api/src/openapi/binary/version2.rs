//! Field numbers of OpenAPI version 2.
//!
//! Owns the tables alone. The parent module encodes by them.

use orch_schema::value::Value;

use super::{Message, Shape, TEXTS};

const OPERATION: Shape = Shape::Message(&OPERATION_MESSAGE);
static SCHEMA: Shape = Shape::Message(&SCHEMA_MESSAGE);
const PARAMETER: Shape = Shape::Either(parameter);
const PARAMETERS: Shape = Shape::Each(&Shape::Either(parameters_item));
const RESPONSES: Shape = Shape::Named(1, &Shape::Within(1, &Shape::Message(&RESPONSE)));

pub(in crate::openapi) static DOCUMENT: Message = Message {
    members: &[
        ("swagger", 1, Shape::Text),
        ("info", 2, Shape::Message(&INFO)),
        ("paths", 8, Shape::Named(2, &Shape::Message(&PATH_ITEM))),
        ("definitions", 9, Shape::Named(1, &SCHEMA)),
        ("parameters", 10, Shape::Named(1, &PARAMETER)),
        ("security", 12, Shape::Each(&Shape::Named(1, &Shape::Within(1, &TEXTS)))),
        ("securityDefinitions", 13, Shape::Named(1, &Shape::Within(2, &Shape::Message(&API_KEY)))),
    ],
    extensions: 16,
};

static INFO: Message =
    Message { members: &[("title", 1, Shape::Text), ("version", 2, Shape::Text)], extensions: 7 };

static API_KEY: Message = Message {
    members: &[
        ("type", 1, Shape::Text),
        ("name", 2, Shape::Text),
        ("in", 3, Shape::Text),
        ("description", 4, Shape::Text),
    ],
    extensions: 5,
};

static PATH_ITEM: Message = Message {
    members: &[
        ("get", 2, OPERATION),
        ("put", 3, OPERATION),
        ("post", 4, OPERATION),
        ("delete", 5, OPERATION),
        ("options", 6, OPERATION),
        ("head", 7, OPERATION),
        ("patch", 8, OPERATION),
        ("parameters", 9, PARAMETERS),
    ],
    extensions: 10,
};

static OPERATION_MESSAGE: Message = Message {
    members: &[
        ("tags", 1, TEXTS),
        ("description", 3, Shape::Text),
        ("operationId", 5, Shape::Text),
        ("produces", 6, TEXTS),
        ("consumes", 7, TEXTS),
        ("parameters", 8, PARAMETERS),
        ("responses", 9, RESPONSES),
        ("schemes", 10, TEXTS),
    ],
    extensions: 13,
};

static RESPONSE: Message = Message {
    members: &[("description", 1, Shape::Text), ("schema", 2, Shape::Within(1, &SCHEMA))],
    extensions: 5,
};

static REFERENCE: Message = Message { members: &[("$ref", 1, Shape::Text)], extensions: 0 };

static BODY: Message = Message {
    members: &[
        ("description", 1, Shape::Text),
        ("name", 2, Shape::Text),
        ("in", 3, Shape::Text),
        ("required", 4, Shape::Flag),
        ("schema", 5, Shape::Message(&SCHEMA_MESSAGE)),
    ],
    extensions: 6,
};

static IN_QUERY: Message = Message {
    members: &[
        ("required", 1, Shape::Flag),
        ("in", 2, Shape::Text),
        ("description", 3, Shape::Text),
        ("name", 4, Shape::Text),
        ("type", 6, Shape::Text),
        ("uniqueItems", 20, Shape::Flag),
    ],
    extensions: 23,
};

static IN_PATH: Message = Message {
    members: &[
        ("required", 1, Shape::Flag),
        ("in", 2, Shape::Text),
        ("description", 3, Shape::Text),
        ("name", 4, Shape::Text),
        ("type", 5, Shape::Text),
        ("uniqueItems", 19, Shape::Flag),
    ],
    extensions: 22,
};

static EXTERNAL_DOCS: Message =
    Message { members: &[("description", 1, Shape::Text), ("url", 2, Shape::Text)], extensions: 3 };

static SCHEMA_MESSAGE: Message = Message {
    members: &[
        ("$ref", 1, Shape::Text),
        ("format", 2, Shape::Text),
        ("title", 3, Shape::Text),
        ("description", 4, Shape::Text),
        ("default", 5, Shape::Any),
        ("multipleOf", 6, Shape::Number),
        ("maximum", 7, Shape::Number),
        ("exclusiveMaximum", 8, Shape::Flag),
        ("minimum", 9, Shape::Number),
        ("exclusiveMinimum", 10, Shape::Flag),
        ("maxLength", 11, Shape::Integer),
        ("minLength", 12, Shape::Integer),
        ("pattern", 13, Shape::Text),
        ("maxItems", 14, Shape::Integer),
        ("minItems", 15, Shape::Integer),
        ("uniqueItems", 16, Shape::Flag),
        ("maxProperties", 17, Shape::Integer),
        ("minProperties", 18, Shape::Integer),
        ("required", 19, TEXTS),
        ("enum", 20, Shape::Each(&Shape::Any)),
        ("additionalProperties", 21, Shape::Either(additional)),
        ("type", 22, Shape::Within(1, &Shape::Text)),
        ("items", 23, Shape::Within(1, &SCHEMA)),
        ("properties", 25, Shape::Named(1, &SCHEMA)),
        ("externalDocs", 29, Shape::Message(&EXTERNAL_DOCS)),
    ],
    extensions: 31,
};

static ADDITIONAL_SCHEMA: Shape = Shape::Within(1, &SCHEMA);
static ADDITIONAL_FLAG: Shape = Shape::Within(2, &Shape::Flag);
static A_REFERENCE: Shape = Shape::Within(2, &Shape::Message(&REFERENCE));
static A_PARAMETER: Shape = Shape::Within(1, &PARAMETER);
static A_BODY: Shape = Shape::Within(1, &Shape::Message(&BODY));
static A_PART_OF_THE_PATH: Shape = Shape::Within(2, &Shape::Within(4, &Shape::Message(&IN_PATH)));
static A_PART_OF_THE_QUERY: Shape = Shape::Within(2, &Shape::Within(3, &Shape::Message(&IN_QUERY)));

/// The shape of the values of a map: a schema, or whether there may be any.
fn additional(value: &Value) -> Shape {
    if value.is_boolean() { ADDITIONAL_FLAG } else { ADDITIONAL_SCHEMA }
}

fn parameters_item(value: &Value) -> Shape {
    if value.get("$ref").is_some() { A_REFERENCE } else { A_PARAMETER }
}

fn parameter(value: &Value) -> Shape {
    match value.get("in").and_then(Value::as_str) {
        Some("body") => A_BODY,
        Some("path") => A_PART_OF_THE_PATH,
        _ => A_PART_OF_THE_QUERY,
    }
}
