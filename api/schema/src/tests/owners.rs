//! Schemas over a base: types are referred to, not copied, and freed with the schema that owns them.

use std::sync::{Arc, LazyLock, Weak};

use orch_proto::brand::ORCH;

use super::*;
use crate::json;
use crate::value::Value;

static BASE: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(Schema::builtin(&ORCH)));

/// A kind whose metadata, quantities and a list of containers are types of the base, and whose spec is its own.
fn widget(base: &Arc<Schema>) -> Schema {
    let id = |name: &str| base.find_type(name).unwrap();
    let own = |at: usize| TypeId(u32::try_from(base.len() + at).unwrap());
    let containers = ValueType::List {
        item: Box::new(ValueType::Object(id("core.v1.Container"))),
        topology: ListTopology::Atomic,
    };
    let spec = ObjectType::new(
        "widgets.v1.WidgetSpec",
        vec![
            Field::new("size", 1, ValueType::Scalar(Scalar::Int64)),
            Field::new("containers", 2, containers),
            Field::new("part", 3, ValueType::Object(own(1))),
        ],
    );
    let mut meta = Field::new("metadata", 1, ValueType::Object(id("meta.v1.ObjectMeta")));
    meta.emit_empty = true;
    let mut widget =
        ObjectType::new("widgets.v1.Widget", vec![meta, Field::new("spec", 2, ValueType::Object(own(0)))]);
    widget.head = true;
    Schema::over(base.clone(), vec![spec, widget])
}

#[test]
fn an_object_of_own_types_holds_objects_of_the_base() {
    let schema = widget(&BASE);
    let root = schema.find_type("widgets.v1.Widget").unwrap();
    assert_eq!(schema.len(), BASE.len() + 2);
    assert!(std::ptr::eq(schema.get(TypeId(0)), BASE.get(TypeId(0))), "types of the base are the base's own");
    assert_eq!(schema.find_type("core.v1.Pod"), BASE.find_type("core.v1.Pod"));
    assert_eq!(BASE.find_type("widgets.v1.Widget"), None);
    let body = br#"{"spec":{"nope":1,"size":2,"containers":[{"name":"c","nope":1}],"part":{"metadata":{"name":"p"}}},
        "metadata":{"name":"w","creationTimestamp":null},"kind":"Widget","apiVersion":"widgets/v1"}"#;
    let decoded = decode_json(&schema, root, body, Limits::default()).unwrap();
    assert_eq!(decoded.value["spec"]["containers"][0], json!({"name": "c"}));
    assert_eq!(decoded.value["spec"]["part"]["metadata"]["name"], "p");
    let told: Vec<String> = decoded.strict.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    let mut text = Vec::new();
    encode_json(&schema, root, &decoded.value, &mut text);
    let again: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(again["spec"]["size"], 2);
}

#[test]
fn amounts_of_the_base_are_found_below_own_types() {
    let schema = widget(&BASE);
    let object = |memory: &str| json!({"spec": {"part": {"spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": memory}}}]}}}});
    let root = schema.find_type("widgets.v1.Widget").unwrap();
    let (old, new) = (object("1Gi"), object("1073741824"));
    assert_eq!(written_alike(&schema, root, &old, &new), Some(new.clone()));
}

#[test]
fn a_schema_frees_its_types_and_leaves_those_of_its_base() {
    let base = Arc::new(Schema::new(vec![ObjectType::new("a.A", Vec::new())]));
    let of = |name: &str| Schema::over(base.clone(), vec![ObjectType::new(name, Vec::new())]);
    let (one, other) = (Arc::new(of("b.B")), of("c.C"));
    let weak: Weak<Schema> = Arc::downgrade(&one);
    drop(one);
    assert!(weak.upgrade().is_none());
    assert_eq!((&*other.get(TypeId(0)).name, &*other.get(TypeId(1)).name), ("a.A", "c.C"));
    assert_eq!((other.find_type("b.B"), other.find_type("c.C")), (None, Some(TypeId(1))));
}
