//! The differences between the two versions of the format.
//!
//! Owns references, scalars with a definition of their own, and the features that only one version has. The schemas
//! themselves are written once, for both.

use orch_schema::Scalar;
use orch_schema::json;
use orch_schema::value::{Map, Value};

/// A version of the OpenAPI format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// 2.0: one document for everything.
    V2,
    /// 3.0: a document for each group and version.
    V3,
}

impl Dialect {
    /// Prefix of references to definitions.
    pub(super) fn definitions(self) -> &'static str {
        match self {
            Dialect::V2 => "#/definitions/",
            Dialect::V3 => "#/components/schemas/",
        }
    }

    /// Whether documents have defaults. The reference's version 2 omits them, because older clients fill them in.
    pub(super) fn has_defaults(self) -> bool {
        self == Dialect::V3
    }

    /// `schema` with the members `more`. In version 3 a reference must stand alone, so that it is wrapped in `allOf`.
    pub(super) fn beside(self, schema: Value, more: Map) -> Value {
        if more.is_empty() {
            return schema;
        }
        let mut all = match schema {
            Value::Object(reference) if self == Dialect::V3 && reference.contains_key("$ref") => {
                let mut wrapped = Map::new();
                wrapped.insert("allOf".to_owned(), Value::Array(vec![Value::Object(reference)]));
                wrapped
            }
            Value::Object(schema) => schema,
            _ => Map::new(),
        };
        all.extend(more);
        Value::Object(all)
    }

    /// Name and schema of a scalar's definition; `None` for scalars that are described in place.
    pub(super) fn leaf(self, scalar: &Scalar) -> Option<(&'static str, Value)> {
        Some(match (scalar, self) {
            (Scalar::Time, _) => ("meta.v1.Time", json!({"type": "string", "format": "date-time"})),
            (Scalar::MicroTime, _) => ("meta.v1.MicroTime", json!({"type": "string", "format": "date-time"})),
            (Scalar::Quantity, Dialect::V2) => ("resource.Quantity", json!({"type": "string"})),
            (Scalar::Quantity, Dialect::V3) => {
                ("resource.Quantity", json!({"oneOf": [{"type": "string"}, {"type": "number"}]}))
            }
            (Scalar::IntOrString, Dialect::V2) => {
                ("intstr.IntOrString", json!({"type": "string", "format": "int-or-string"}))
            }
            (Scalar::IntOrString, Dialect::V3) => (
                "intstr.IntOrString",
                json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
            ),
            (
                Scalar::String(_)
                | Scalar::Bool
                | Scalar::Int32
                | Scalar::Int64
                | Scalar::Double
                | Scalar::Bytes,
                _,
            ) => return None,
        })
    }
}

/// The schema of a scalar that is described in place.
pub(super) fn plain(scalar: &Scalar) -> Value {
    match scalar {
        Scalar::String(None) | Scalar::Time | Scalar::MicroTime | Scalar::Quantity | Scalar::IntOrString => {
            json!({"type": "string"})
        }
        Scalar::String(Some(values)) => json!({"type": "string", "enum": values}),
        Scalar::Bool => json!({"type": "boolean"}),
        Scalar::Int32 => json!({"type": "integer", "format": "int32"}),
        Scalar::Int64 => json!({"type": "integer", "format": "int64"}),
        Scalar::Double => json!({"type": "number", "format": "double"}),
        Scalar::Bytes => json!({"type": "string", "format": "byte"}),
    }
}
