//! Objects with every field of their types, the same on every run.
//!
//! A type that occurs again inside an object has its scalar fields only: this ends recursion, and keeps a pod template
//! from being written out for each container list.

use orch_schema::json;
use orch_schema::value::{Map, Value};
use orch_schema::{Field, ObjectType, Scalar, Schema, TypeId, ValueType, Wire};

/// An object of the type, with every field.
pub(crate) fn object(schema: &Schema, type_id: TypeId) -> Value {
    Full { schema, seen: Vec::new() }.object(type_id)
}

struct Full<'a> {
    schema: &'a Schema,
    seen: Vec<TypeId>,
}

impl Full<'_> {
    fn object(&mut self, type_id: TypeId) -> Value {
        let ty: &ObjectType = self.schema.get(type_id);
        let first = !self.seen.contains(&type_id);
        self.seen.push(type_id);
        let fields = ty.fields.iter().filter(|field| first || matches!(field.value, ValueType::Scalar(_)));
        let entries: Map = fields.map(|field| (field.name.to_string(), self.field(field))).collect();
        Value::Object(entries)
    }

    fn field(&mut self, field: &Field) -> Value {
        match (field.wire, &field.value) {
            (Wire::Plain | Wire::Wrapped, value) => self.value(&field.name, value),
            (Wire::OrBool(id) | Wire::OrList(id) | Wire::OrStrings(id), ValueType::Map { .. }) => {
                json!({"key": self.object(id)})
            }
            (Wire::OrBool(id) | Wire::OrList(id) | Wire::OrStrings(id), _) => self.object(id),
        }
    }

    fn value(&mut self, name: &str, ty: &ValueType) -> Value {
        match ty {
            ValueType::Scalar(kind) => scalar(name, kind),
            ValueType::Object(id) => self.object(*id),
            ValueType::List { item, .. } => json!([self.value(name, item)]),
            ValueType::Map { value, .. } => json!({"key": self.value(name, value)}),
            ValueType::Member(member) => self.value(name, &member.value),
            ValueType::Untyped => json!({"f:any": {"k": [1, "two", null]}}),
        }
    }
}

fn scalar(name: &str, kind: &Scalar) -> Value {
    match kind {
        Scalar::String(_) => json!(format!("the {name}")),
        Scalar::Bool => json!(true),
        Scalar::Int32 => json!(-32),
        Scalar::Int64 => json!(1_i64 << 40),
        Scalar::Double => json!(0.5),
        Scalar::Bytes => json!("AAEC/w=="),
        Scalar::Time => json!("2026-01-02T03:04:05Z"),
        Scalar::MicroTime => json!("2026-01-02T03:04:05.000006Z"),
        Scalar::Quantity => json!("1500m"),
        Scalar::IntOrString => json!("25%"),
    }
}
