//! The memory of tables (`docs/memory.md`).

use std::sync::Arc;

use super::*;

/// Bytes of the blocks that a value of the tables owns.
fn text(text: &str) -> usize {
    text.len()
}

fn value_type(ty: &ValueType) -> usize {
    match ty {
        ValueType::Scalar(Scalar::String(Some(values))) => {
            values.iter().map(|value| size_of::<Box<str>>() + text(value)).sum()
        }
        ValueType::Scalar(_) | ValueType::Object(_) | ValueType::Untyped => 0,
        ValueType::List { item, topology } => {
            let keys: &[Box<str>] = match topology {
                ListTopology::Map(keys) => keys,
                ListTopology::Atomic | ListTopology::Set => &[],
            };
            let keys: usize = keys.iter().map(|key| size_of::<Box<str>>() + text(key)).sum();
            size_of::<ValueType>() + value_type(item) + keys
        }
        ValueType::Map { value, .. } => size_of::<ValueType>() + value_type(value),
        ValueType::Member(member) => {
            let default = member.default.as_ref().map_or(0, |value| value.to_string().len());
            size_of::<Member>() + value_type(&member.value) + default
        }
    }
}

fn field(field: &Field) -> usize {
    let name = if field.name.is_heap_allocated() { text(&field.name) + 2 * size_of::<usize>() } else { 0 };
    let default = field.default.as_ref().map_or(0, |value| value.to_string().len());
    let texts = [field.patch().merge_key.as_deref(), field.untyped_name()].into_iter().flatten();
    let extra = field.extra.as_ref().map_or(0, |_| size_of::<Extra>());
    let inlined = extra + size_of_val(field.inlined_in());
    size_of::<Field>()
        + name
        + default
        + texts.map(|held| text(held)).sum::<usize>()
        + inlined
        + value_type(&field.value)
}

/// Bytes that the schema's own types hold.
fn own_bytes(schema: &Schema) -> usize {
    let of_type = |ty: &ObjectType| {
        let numbers = ty.numbers.as_ref().map_or(0, |of| size_of::<Numbers>() + size_of_val(&*of.fields));
        let indexes = ty.by_name.held_bytes() + size_of_val(&*ty.always) + numbers;
        // Its name stands in the schema's index, too, which has up to twice the places that it needs.
        let names = 2 * text(&ty.name) + 2 * (size_of::<(Box<str>, TypeId)>() + 1);
        size_of::<ObjectType>() + names + indexes + ty.fields.iter().map(field).sum::<usize>()
    };
    size_of::<Schema>() + schema.types.iter().map(of_type).sum::<usize>()
}

/// A schema of `count` properties over a base, ten to an object, with names of eleven letters: as large definitions have them.
fn large(count: usize) -> Schema {
    let base = Arc::new(Schema::new(vec![ObjectType::new("meta.v1.ObjectMeta", Vec::new())]));
    let types = count / 10;
    let field_of = |ty: usize, at: usize| {
        let value = match at {
            0 if ty + 1 < types => ValueType::Object(TypeId(u32::try_from(ty + 2).unwrap())),
            1 | 2 => ValueType::List {
                item: Box::new(ValueType::Scalar(Scalar::String(None))),
                topology: ListTopology::Atomic,
            },
            _ => ValueType::Scalar(Scalar::String(None)),
        };
        Field::new(format!("property{at:03}"), u32::try_from(at + 1).unwrap(), value)
    };
    let of_type =
        |ty| ObjectType::new(format!("example.v1.Type{ty}"), (0..10).map(|at| field_of(ty, at)).collect());
    Schema::over(base, (0..types).map(of_type).collect())
}

#[test]
fn a_schema_of_eleven_thousand_properties_holds_two_and_a_half_million_bytes_at_most() {
    let bytes = own_bytes(&large(11_000));
    println!("a field: {} bytes; 11,000 properties: {bytes} bytes", size_of::<Field>());
    assert!(size_of::<Field>() <= 104, "{}", size_of::<Field>());
    assert!(bytes <= 2_500_000, "{bytes}");
}
