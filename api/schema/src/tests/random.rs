//! Random objects made from the tables, and the properties that hold for all of them.

use proptest::prelude::*;

use super::*;
use crate::json;
use crate::testing::orch;
use crate::value::{Map, Value};

/// A small generator: proptest chooses the seed and prints it.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 29)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }
}

/// Objects deeper than this stay empty, so that recursive types end.
const DEPTH: usize = 6;

fn object(schema: &Schema, ty: &ObjectType, depth: usize, random: &mut Random) -> Value {
    let mut map = Map::new();
    if depth < DEPTH && !ty.fields.is_empty() {
        for _ in 0..random.below(2 * ty.fields.len().min(8) + 1) {
            let field = &ty.fields[random.below(ty.fields.len())];
            let value = field_value(schema, field, depth, random);
            // An empty list of such a field is kept while it is worked on, and never written.
            if !(field.retains_empty && value.as_array().is_some_and(Vec::is_empty)) {
                map.insert(field.name.to_string(), value);
            }
        }
    }
    Value::Object(map)
}

fn field_value(schema: &Schema, field: &Field, depth: usize, random: &mut Random) -> Value {
    match field.wire {
        _ if random.below(12) == 0 => Value::Null,
        Wire::Plain | Wire::Wrapped => value(schema, &field.value, depth, random),
        wire => match &field.value {
            ValueType::Map { .. } => json!({ random.one_of(&KEYS): either(schema, wire, depth, random) }),
            _ => either(schema, wire, depth, random),
        },
    }
}

fn either(schema: &Schema, wire: Wire, depth: usize, random: &mut Random) -> Value {
    let is_object = random.below(2) == 0;
    match wire {
        Wire::OrBool(id) | Wire::OrList(id) | Wire::OrStrings(id) if is_object => {
            object(schema, schema.get(id), depth + 1, random)
        }
        Wire::OrBool(_) => Value::Bool(random.below(2) == 0),
        Wire::OrList(id) => Value::Array(vec![object(schema, schema.get(id), depth + 1, random)]),
        Wire::OrStrings(_) | Wire::Plain | Wire::Wrapped => json!(["s"]),
    }
}

const KEYS: [&str; 4] = ["a", "b", "", "é<&\u{2028}"];

fn value(schema: &Schema, ty: &ValueType, depth: usize, random: &mut Random) -> Value {
    match ty {
        ValueType::Object(id) => object(schema, schema.get(*id), depth + 1, random),
        ValueType::Scalar(kind) => scalar(kind, random),
        ValueType::Member(member) => value(schema, &member.value, depth, random),
        ValueType::Untyped => untyped(depth, random),
        ValueType::List { item, .. } => {
            Value::Array((0..random.below(3)).map(|_| member(schema, item, depth, random)).collect())
        }
        ValueType::Map { value, .. } => {
            let entry =
                |random: &mut Random| (random.one_of(&KEYS).to_owned(), member(schema, value, depth, random));
            Value::Object((0..random.below(3)).map(|_| entry(random)).collect())
        }
    }
}

fn member(schema: &Schema, ty: &ValueType, depth: usize, random: &mut Random) -> Value {
    if random.below(12) == 0 { Value::Null } else { value(schema, ty, depth, random) }
}

fn untyped(depth: usize, random: &mut Random) -> Value {
    match random.below(if depth < DEPTH { 7 } else { 5 }) {
        0 => Value::Bool(true),
        1 => random.one_of(&[json!(0), json!(-7), json!(i64::MAX), json!(0.5), json!(1e300), json!(-1e-9)]),
        2 => Value::from(random.one_of(&KEYS)),
        3 => random.one_of(&[json!({}), json!([])]),
        4 => json!([null]),
        5 => Value::Array((0..random.below(3)).map(|_| untyped(depth + 1, random)).collect()),
        _ => json!({ random.one_of(&KEYS): untyped(depth + 1, random), "z": 1 }),
    }
}

fn scalar(scalar: &Scalar, random: &mut Random) -> Value {
    match scalar {
        Scalar::String(_) => random.one_of(&["", "a", "é\u{2028}\"\\\n<", "\u{0}"]).into(),
        Scalar::Bool => Value::Bool(random.below(2) == 0),
        Scalar::Int32 => random.one_of(&[0, 1, -1, i32::MAX, i32::MIN]).into(),
        Scalar::Int64 => random.one_of(&[0, 1, -1, i64::MAX, i64::MIN]).into(),
        Scalar::Double => random.one_of(&[0.0, 1.0, -0.5, 1e300, 1e-300, 9_007_199_254_740_993.0]).into(),
        Scalar::Bytes => random.one_of(&["", "AA==", "AAECAwQ=", "AB=="]).into(),
        Scalar::Time => {
            random.one_of(&["2026-01-02T03:04:05Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]).into()
        }
        Scalar::MicroTime => {
            random.one_of(&["2026-01-02T03:04:05.000001Z", "1969-12-31T23:59:59.999999Z"]).into()
        }
        Scalar::Quantity => random.one_of(&["0", "1", "0.5", "1024Mi", "-3e9", "100m"]).into(),
        Scalar::IntOrString => random.one_of(&[json!(0), json!(-5), json!("25%"), json!("")]),
    }
}

fn text(type_id: TypeId, value: &Value) -> String {
    let mut out = Vec::new();
    encode_json(orch(), type_id, value, &mut out);
    String::from_utf8(out).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn any_object_of_any_type_has_one_canonical_form(seed: u64) {
        let (type_id, given) = given(seed);
        let first = decode_json(orch(), type_id, given.to_string().as_bytes(), Limits::default()).unwrap();
        prop_assert_eq!(&first.strict, &[]);
        let canonical = text(type_id, &first.value);
        let second = decode_json(orch(), type_id, canonical.as_bytes(), Limits::default()).unwrap();
        prop_assert_eq!(&first.value, &second.value);
        prop_assert_eq!(&canonical, &text(type_id, &second.value));
    }

    #[test]
    fn any_object_of_any_type_survives_protobuf(seed: u64) {
        let (type_id, given) = given(seed);
        let value = decode_json(orch(), type_id, given.to_string().as_bytes(), Limits::default()).unwrap().value;
        let mut message = Vec::new();
        encode_protobuf(orch(), type_id, &value, &mut message);
        let again = decode_protobuf(orch(), type_id, &message, Limits::default()).unwrap();
        prop_assert_eq!(text(type_id, &value), text(type_id, &again));
        prop_assert_eq!(value, again);
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(seed: u64, noise in proptest::collection::vec(any::<(u16, u8)>(), 1..8)) {
        let (type_id, given) = given(seed);
        let value = decode_json(orch(), type_id, given.to_string().as_bytes(), Limits::default()).unwrap().value;
        let mut message = Vec::new();
        encode_protobuf(orch(), type_id, &value, &mut message);
        for mut bytes in [message, given.to_string().into_bytes()] {
            for &(at, byte) in &noise {
                let len = bytes.len().max(1);
                if let Some(place) = bytes.get_mut(usize::from(at) % len) {
                    *place = byte;
                }
            }
            bytes.truncate(bytes.len() - usize::from(noise[0].0) % (bytes.len() / 4 + 1));
            for input in [&bytes[..], &bytes[bytes.len() / 2..]] {
                drop(decode_json(orch(), type_id, input, Limits::default()));
                drop(decode_yaml(orch(), type_id, input, Limits::default()));
                drop(decode_protobuf(orch(), type_id, input, Limits::default()));
                drop(decode_protobuf_object(orch(), type_id, input, Limits::default()));
            }
        }
    }
}

/// An object as a client might send it.
fn given(seed: u64) -> (TypeId, Value) {
    let mut random = Random(seed);
    let types: Vec<TypeId> = (0..).map(TypeId).take(orch().len()).collect();
    let type_id = random.one_of(&types);
    (type_id, object(orch(), orch().get(type_id), 0, &mut random))
}
