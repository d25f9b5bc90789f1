//! A transaction that passes the check decodes whole; any other bytes are refused.

use std::sync::Arc;

use bytes::Bytes;
use orch_proto::store as wire;
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::encoding::{FEATURE_LEVEL_MAX, ProposalId, decode_transaction, encode_transaction};
use crate::fields::Fields;
use crate::key::{Key, Revision};
use crate::labels::Labels;
use crate::object::{Index, WrittenAs};
use crate::transaction::{Condition, Operation, Put, Transaction};

fn transaction() -> Transaction {
    let key = |name| Key::new(&Arc::from("pods"), "ns", name).unwrap();
    let index = Index {
        uid: "u".into(),
        labels: Labels::new([("k", "v"), ("l", "")]),
        fields: Fields::new([("spec.nodeName", "n1"), ("status.phase", "")]),
        owners: vec!["o".into(), "p".into()],
        terminating: true,
        written_as: Some(Arc::new(WrittenAs { version: "v1".into(), definition: Revision(300) })),
    };
    // Long enough for lengths whose varint takes two bytes.
    let json = Bytes::from(format!("{}\"\"{}", "j".repeat(129), "j".repeat(69)));
    let put = |name| Put { key: key(name), json: json.clone(), revision_at: 130, index: index.clone() };
    Transaction {
        proposed_ms: u64::MAX,
        conditions: vec![
            Condition::Absent(key("a")),
            Condition::Exists(key("b")),
            Condition::AtRevision(key("c"), Revision(300)),
            Condition::NamespaceActive(Arc::from("")),
        ],
        operations: vec![Operation::Put(put("a")), Operation::Delete(key("d")), Operation::Put(put("e"))],
    }
}

fn encoded(level: u32) -> Vec<u8> {
    let id = ProposalId { node: u64::MAX, incarnation: 1 << 63, sequence: 3 };
    encode_transaction(id, &transaction(), level).to_vec()
}

#[test]
fn whatever_this_program_writes_passes() {
    for level in 0..=FEATURE_LEVEL_MAX {
        check_transaction(&encoded(level), level).unwrap();
    }
    check_transaction(&[], 0).unwrap();
}

#[test]
fn a_transaction_of_a_later_format_is_named_and_not_read() {
    let error = check_transaction(&encoded(1), 0).unwrap_err();
    assert!(error.newer, "{error}");
    assert!(error.to_string().contains("format 1, this program reads up to 0; upgrade it"), "{error}");
    let mut later = wire::Transaction::decode(encoded(1).as_slice()).unwrap();
    later.format = 9;
    let error = check_transaction(&later.encode_to_vec(), FEATURE_LEVEL_MAX).unwrap_err();
    assert!(error.newer && error.to_string().contains("format 9"), "{error}");
}

/// `message` with an unknown field behind all others.
fn with_field(message: &impl Message) -> Bytes {
    let mut bytes = message.encode_to_vec();
    // Field 99, length-delimited: "x".
    bytes.extend_from_slice(&[0x9a, 0x06, 0x01, b'x']);
    Bytes::from(bytes)
}

/// A message with one length-delimited field.
fn wrapped(number: u8, inner: &Bytes) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    prost::encoding::encode_varint(inner.len() as u64, &mut bytes);
    bytes.extend_from_slice(inner);
    bytes
}

#[test]
fn a_field_that_decoding_would_drop_is_refused_wherever_it_stands() {
    let key = wire::Key { resource: "r".into(), path: "p".into() };
    let json = Bytes::from_static(b"\"\"");
    let put = wire::Put { key: Some(key.clone()), json, revision_at: 1, index: None };
    let nest = |path: &[u8], innermost: Bytes| {
        path.iter().rev().fold(innermost, |inner, number| Bytes::from(wrapped(*number, &inner)))
    };
    let whole = [
        ("transaction", with_field(&wire::Transaction::default())),
        ("proposal id", nest(&[1], with_field(&wire::ProposalId::default()))),
        ("an unknown condition", nest(&[3], with_field(&wire::Condition::default()))),
        ("an unknown operation", nest(&[4], with_field(&wire::Operation::default()))),
        ("a condition's key", nest(&[3, 1], with_field(&key))),
        ("a removed key", nest(&[4, 2], with_field(&key))),
        ("put", nest(&[4, 1], with_field(&put))),
    ];
    for (what, bytes) in whole {
        let error = check_transaction(&bytes, FEATURE_LEVEL_MAX).expect_err(what);
        assert!(error.newer, "{what}: {error}");
    }
    // The index stands behind the key, which a put must have.
    let index = |inner: Bytes| nest(&[4, 1], Bytes::from([put.encode_to_vec(), wrapped(4, &inner)].concat()));
    check_transaction(&index(Bytes::new()), FEATURE_LEVEL_MAX).unwrap();
    assert!(check_transaction(&index(with_field(&wire::Index::default())), FEATURE_LEVEL_MAX).is_err());
    let label = Bytes::from(wrapped(2, &with_field(&wire::Label::default())));
    assert!(check_transaction(&index(label), FEATURE_LEVEL_MAX).is_err());
}

#[test]
fn halves_that_would_be_merged_are_refused() {
    let half = |json: &'static [u8], uid: &str| {
        let key = Some(wire::Key { resource: "r".into(), path: "p".into() });
        let index = Some(wire::Index { uid: uid.into(), ..wire::Index::default() });
        let put = wire::Put { key, json: Bytes::from_static(json), revision_at: 1, index };
        Bytes::from(wire::Operation { kind: Some(wire::operation::Kind::Put(put)) }.encode_to_vec())
    };
    let (one, other) = (half(b"\"\"", "u"), half(b"\"\",", ""));
    for alone in [&one, &other] {
        check_transaction(&wrapped(4, alone), FEATURE_LEVEL_MAX).unwrap();
    }
    let merged = wrapped(4, &Bytes::from([one, other].concat()));
    assert!(check_transaction(&merged, FEATURE_LEVEL_MAX).is_err());
    let (_, decoded) = decode_transaction(Bytes::from(merged)).unwrap();
    let Operation::Put(put) = &decoded.operations[0] else { panic!("two puts are one") };
    assert_eq!((&*put.json, &*put.index.uid), (b"\"\",".as_slice(), "u"), "neither half");
}

#[test]
fn a_missing_or_impossible_part_is_refused() {
    let of = |operations, conditions| {
        let message = wire::Transaction { operations, conditions, ..wire::Transaction::default() };
        check_transaction(&message.encode_to_vec(), FEATURE_LEVEL_MAX)
    };
    let put = |put| wire::Operation { kind: Some(wire::operation::Kind::Put(put)) };
    let key = Some(wire::Key::default());
    let at = |revision_at| {
        let json = Bytes::from_static(b"{\"v\":\"\"}");
        of(vec![put(wire::Put { key: key.clone(), json, revision_at, index: None })], vec![])
    };
    assert!(at(6).is_ok());
    for (elsewhere, what) in
        [(0, "the first byte"), (5, "no quote before"), (7, "none behind"), (99, "outside")]
    {
        assert!(at(elsewhere).is_err(), "{what}");
    }
    assert!(of(vec![put(wire::Put::default())], vec![]).is_err(), "no key");
    assert!(of(vec![wire::Operation { kind: None }], vec![]).is_err());
    assert!(of(vec![], vec![wire::Condition { kind: None }]).is_err());
    let at = wire::condition::Kind::AtRevision(wire::KeyRevision { key: None, revision: 1 });
    assert!(of(vec![], vec![wire::Condition { kind: Some(at) }]).is_err());
    assert!(check_transaction(b"\xff\xff", FEATURE_LEVEL_MAX).is_err());
    assert!(
        check_transaction(&[0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], 1).is_err()
    );
    let not_text = wrapped(3, &Bytes::from(wrapped(4, &Bytes::from_static(b"\xff"))));
    assert!(check_transaction(&not_text, 1).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Members apply transactions that passed the check: decoding must neither fail nor lose a part.
    #[test]
    fn entries_that_pass_the_check_decode_to_what_they_say(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
        level in 0..=FEATURE_LEVEL_MAX,
    ) {
        let mut bytes = encoded(level);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if check_transaction(&bytes, FEATURE_LEVEL_MAX).is_ok() {
            let (id, decoded) = decode_transaction(Bytes::from(bytes)).expect("it passed");
            // Encoding writes only the fields that were decoded.
            let again = encode_transaction(id, &decoded, FEATURE_LEVEL_MAX);
            check_transaction(&again, FEATURE_LEVEL_MAX).unwrap();
            prop_assert_eq!(decode_transaction(again).unwrap(), (id, decoded));
        }
    }

    #[test]
    fn arbitrary_bytes_are_an_error_or_a_transaction(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        if check_transaction(&bytes, FEATURE_LEVEL_MAX).is_ok() {
            prop_assert!(decode_transaction(Bytes::from(bytes)).is_ok());
        }
    }
}
