//! Feeds arbitrary bytes to every decoder, as an object of an arbitrary kind. What decodes must be encoded and decoded
//! again without a difference.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use orch_api::schema::{
    Limits, Schema, TypeId, decode_json, decode_protobuf, decode_protobuf_object, decode_yaml, encode_json,
    encode_protobuf,
};
use orch_proto::brand::ORCH;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::builtin(&ORCH));

fuzz_target!(|input: (u16, &[u8])| {
    let (kind, bytes) = input;
    let type_id = TypeId(u32::from(kind) % u32::try_from(SCHEMA.len()).expect("some hundred types"));
    let limits = Limits::default();
    let json = decode_json(&SCHEMA, type_id, bytes, limits).map(|decoded| decoded.value);
    let yaml = decode_yaml(&SCHEMA, type_id, bytes, limits).map(|decoded| decoded.value);
    let message = decode_protobuf(&SCHEMA, type_id, bytes, limits);
    let _ = decode_protobuf_object(&SCHEMA, type_id, bytes, limits);
    for value in [json, yaml, message].into_iter().flatten() {
        let (mut text, mut message) = (Vec::new(), Vec::new());
        encode_json(&SCHEMA, type_id, &value, &mut text);
        encode_protobuf(&SCHEMA, type_id, &value, &mut message);
        let again = decode_json(&SCHEMA, type_id, &text, limits).expect("what was encoded decodes");
        assert_eq!(value, again.value);
        decode_protobuf(&SCHEMA, type_id, &message, limits).expect("what was encoded decodes");
    }
});
