//! The canonical JSON of an object that is stored, and the place of its revision.
//!
//! Owns the assertion that the revision has a place which is found without parsing: an object begins with its metadata, and
//! only texts stand there before `resourceVersion`. So no text of a client is mistaken for it, whatever the schema is.

use memchr::memchr2;

use super::encode::encode_json;
use crate::budget::count_step;
use crate::types::{Schema, TypeId};
use crate::value::Value;

/// The beginning of every stored object.
const OPEN: &[u8] = b"{\"metadata\":{";

/// The member that holds the revision, up to its value.
const REVISION: &[u8] = b"\"resourceVersion\":\"";

/// Appends the canonical JSON of `value`, as [`encode_json`] does, to `out`, which is empty. Returns the byte behind the
/// opening quote of `metadata.resourceVersion`, which `value` has and is not empty; `None` where the request was stopped: what
/// was written is not whole then.
///
/// # Panics
/// Where the schema does not put the revision into its place.
pub fn encode_stored(schema: &Schema, type_id: TypeId, value: &Value, out: &mut Vec<u8>) -> Option<usize> {
    assert!(out.is_empty(), "an object that is stored stands alone");
    encode_json(schema, type_id, value, out);
    // In a stopped request every loop of the encoder has ended early.
    count_step().then(|| place_of_revision(out))
}

/// The byte at which the revision in `json` begins.
fn place_of_revision(json: &[u8]) -> usize {
    assert!(json.starts_with(OPEN), "a stored object begins with its metadata");
    let mut at = OPEN.len();
    while !json[at..].starts_with(REVISION) {
        let name_end = end_of_text(json, at);
        assert_eq!(json.get(name_end), Some(&b':'), "a member has a name");
        let value_end = end_of_text(json, name_end + 1);
        assert_eq!(json.get(value_end), Some(&b','), "the metadata of a stored object has a revision");
        at = value_end + 1;
    }
    at + REVISION.len()
}

/// The byte behind the text that begins at `at`.
fn end_of_text(json: &[u8], at: usize) -> usize {
    assert_eq!(json.get(at), Some(&b'"'), "only texts stand before the revision of a stored object");
    let mut next = at + 1;
    loop {
        let found = memchr2(b'"', b'\\', &json[next..]).expect("the encoder closes every text");
        next += found + 1;
        if json[next - 1] == b'"' {
            return next;
        }
        // The byte behind a backslash belongs to it.
        next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::testing::orch;

    fn place(metadata: Value) -> (Vec<u8>, usize) {
        let type_id = orch().find_type("core.v1.ConfigMap").unwrap();
        let mut out = Vec::new();
        let at = encode_stored(orch(), type_id, &json!({"metadata": metadata}), &mut out).unwrap();
        (out, at)
    }

    #[test]
    fn the_revision_stands_behind_every_text_that_looks_like_it() {
        let hostile = "\"resourceVersion\":\"0\"";
        let metadata = json!({
            "name": hostile, "generateName": "\\", "selfLink": "\\\"", "resourceVersion": "77",
            "labels": {"resourceVersion": "0"}, "annotations": {"resourceVersion": "0"},
        });
        let (json, at) = place(metadata);
        assert!(json[at..].starts_with(b"77\""), "{}", String::from_utf8_lossy(&json));
        let parsed: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(parsed["metadata"]["name"], hostile);
    }

    #[test]
    fn every_kind_has_a_place_for_its_revision() {
        for resource in orch().resources() {
            let mut out = Vec::new();
            let value = json!({"metadata": {"name": "n", "resourceVersion": "0"}});
            let ty = orch().get(resource.type_id);
            if ty.field("metadata").is_some() {
                let at = encode_stored(orch(), resource.type_id, &value, &mut out).unwrap();
                assert!(out[at..].starts_with(b"0\""), "{}", resource.kind);
            }
        }
    }

    #[test]
    #[should_panic(expected = "the metadata of a stored object has a revision")]
    fn an_object_without_a_revision_is_not_stored() {
        place(json!({"name": "a"}));
    }
}
