//! Compiling the schema of a version.

use std::sync::Arc;

use orch_schema::value::Value;
use orch_schema::{Field, ObjectType, Schema, ValueType};

/// The tables of a version.
pub(super) struct Compiled {
    pub(super) schema: Arc<Schema>,
}

pub(super) fn compile(_definition: &Value, _version: &Value, base: &Arc<Schema>) -> Compiled {
    let meta = ValueType::Object(base.find_type("meta.v1.ObjectMeta").expect("built in"));
    let mut field = Field::new("metadata", 1, meta);
    field.emit_empty = true;
    let mut root = ObjectType::new("Root", vec![field]);
    root.head = true;
    root.preserve_unknown = true;
    Compiled { schema: Arc::new(Schema::over(base.clone(), vec![root])) }
}
