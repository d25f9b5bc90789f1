//! The Protobuf envelope of a response, decoded as far as the interface fixes it: prefix, type, encoding, and presence
//! of content.

use serde_json::{Map, Value, json};

/// Magic bytes before every message.
const PREFIX: &[u8] = b"k8s\0";

/// A description of the envelope as JSON, for comparison.
pub(super) fn describe(bytes: &[u8]) -> Value {
    let Some(message) = bytes.strip_prefix(PREFIX) else {
        return json!({"$protobuf": "no envelope"});
    };
    let mut out = Map::new();
    out.insert("prefix".into(), json!("6b387300"));
    for (number, content) in Fields(message) {
        match (number, content) {
            (1, content) => drop(out.insert("typeMeta".into(), type_meta(content))),
            (2, content) => {
                drop(out.insert("raw".into(), json!(if content.is_empty() { "" } else { "<bytes>" })))
            }
            (3, content) if !content.is_empty() => drop(out.insert("contentEncoding".into(), text(content))),
            (4, content) if !content.is_empty() => drop(out.insert("contentType".into(), text(content))),
            _ => {}
        }
    }
    json!({"$protobuf": out})
}

fn type_meta(message: &[u8]) -> Value {
    let mut out = Map::new();
    for (number, content) in Fields(message) {
        match number {
            1 => drop(out.insert("apiVersion".into(), text(content))),
            2 => drop(out.insert("kind".into(), text(content))),
            _ => {}
        }
    }
    Value::Object(out)
}

fn text(bytes: &[u8]) -> Value {
    json!(String::from_utf8_lossy(bytes))
}

/// The length-delimited fields of a message, up to the first malformed byte.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let tag = self.varint()?;
            match tag & 7 {
                0 => drop(self.varint()?),
                2 => {
                    let length = usize::try_from(self.varint()?).ok()?;
                    let (content, rest) = self.0.split_at_checked(length)?;
                    self.0 = rest;
                    return Some((tag >> 3, content));
                }
                _ => return None,
            }
        }
    }
}

impl Fields<'_> {
    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for place in 0..10 {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << (7 * place);
            if *byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_is_described() {
        let bytes = b"k8s\0\x0a\x0a\x0a\x02v1\x12\x04Role\x12\x01x\x1a\x00\x22\x00";
        let want = json!({"$protobuf": {"prefix": "6b387300", "typeMeta": {"apiVersion": "v1", "kind": "Role"},
            "raw": "<bytes>"}});
        assert_eq!(describe(bytes), want);
    }

    #[test]
    fn anything_else_is_no_envelope_and_no_panic() {
        assert_eq!(describe(b"{}"), json!({"$protobuf": "no envelope"}));
        for bytes in
            [&b"k8s\0\xff"[..], b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"k8s\0\x0a\x7f"]
        {
            assert_eq!(describe(bytes), json!({"$protobuf": {"prefix": "6b387300"}}));
        }
    }
}
