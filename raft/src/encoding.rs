//! The encoding of transactions and objects in log entries, on disk and in snapshots.
//!
//! Owns the conversions between the store's types and their Protobuf messages. Decoding never trusts its input: a
//! position or key that could not have been written is an error, never a panic. Object bytes that stay in memory are
//! copied out of the buffer they came in, so that one object never keeps a whole frame alive.
//!
//! Every message names the lowest feature level that can read it (docs/decisions/0012). A message of a later level is
//! an error that says so; it is never read with parts missing.

mod check;
mod resources;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use orch_proto::store as wire;
use prost::Message;

pub(crate) use self::check::check_transaction;
pub(crate) use self::resources::written_resources;
use crate::fields::Fields;
use crate::key::{Key, Revision};
use crate::object::{Index, Object, SharedObject, WrittenAs, holds_revision, takes_revision};
use crate::transaction::{Condition, Operation, Put, Transaction};

/// The highest feature level that this program reads and writes.
///
/// - 0: programs older than feature levels. A blank entry has no payload; selectable fields are stored by position.
/// - 1: a blank entry is marked as blank; selectable fields are stored by name; writes over the state's quota are
///   refused.
/// - 2: the beginning of a cluster that was made from another one's objects is the floor of every resource. No form differs
///   from those of level 1.
/// - 3: an object of a kind that a definition declares says under which version and revision of it it was written.
pub const FEATURE_LEVEL_MAX: u32 = 3;

/// The first level at which a blank entry is marked as blank.
pub(crate) const LEVEL_EXPLICIT_BLANK: u32 = 1;

/// The first level at which selectable fields are stored by name.
pub(crate) const LEVEL_NAMED_FIELDS: u32 = 1;

/// The first level at which every program enforces the quota of the state. Below it no quota is written: some members
/// would apply writes that others refuse.
pub(crate) const LEVEL_STATE_QUOTA: u32 = 1;

/// The first level at which every program knows the beginning of a cluster made anew. Such a cluster is at this level from its
/// first state on: a program below it would go on with watches from before the beginning.
pub(crate) const LEVEL_BEGINNING: u32 = 2;

/// The first level at which objects say which form they were written in. Below it the mark is not written, and an object
/// without one is of no known definition.
pub(crate) const LEVEL_WRITTEN_AS: u32 = 3;

/// Bytes that cannot be decoded: corruption, or the format of a newer version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot decode {what}: {reason}")]
pub(crate) struct DecodeError {
    /// The kind of message, for example `transaction`.
    pub(crate) what: &'static str,
    /// The defect found.
    pub(crate) reason: String,
    /// A newer program wrote the bytes: an upgrade of this one helps.
    pub(crate) newer: bool,
}

impl DecodeError {
    pub(crate) fn new(what: &'static str, reason: impl ToString) -> Self {
        DecodeError { what, reason: reason.to_string(), newer: false }
    }

    /// The error for a message in a format above `reads`, the highest that this program reads.
    pub(crate) fn newer_format(what: &'static str, format: u32, reads: u32) -> Self {
        let reason = format!(
            "written by a newer version: format {format}, this program reads up to {reads}; upgrade it"
        );
        DecodeError { what, reason, newer: true }
    }

    /// The error for a field number that this program does not know: a newer one wrote it.
    fn unknown_field(what: &'static str, number: u64) -> Self {
        let reason =
            format!("written by a newer version: this program does not know field {number}; upgrade it");
        DecodeError { what, reason, newer: true }
    }

    fn missing(what: &'static str, field: &str) -> Self {
        DecodeError::new(what, format!("no {field}"))
    }
}

/// Refuses a message whose format is above `reads`, the highest feature level that the program reads.
pub(crate) fn check_format(what: &'static str, format: u32, reads: u32) -> Result<(), DecodeError> {
    if format <= reads { Ok(()) } else { Err(DecodeError::newer_format(what, format, reads)) }
}

/// Decodes a message; `what` names it in the error.
pub(crate) fn decode<M: Message + Default>(what: &'static str, bytes: Bytes) -> Result<M, DecodeError> {
    M::decode(bytes).map_err(|error| DecodeError::new(what, error))
}

/// Identifies a proposal; unique for the life of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProposalId {
    /// The proposing member.
    pub(crate) node: u64,
    /// Incarnation: identifies the start of that member.
    pub(crate) incarnation: u64,
    /// Counts from 1 within the incarnation.
    pub(crate) sequence: u64,
}

/// Encodes a transaction for feature level `level`. Only the proposer encodes it; other members pass the bytes on.
pub(crate) fn encode_transaction(id: ProposalId, transaction: &Transaction, level: u32) -> Bytes {
    let operations: Vec<_> =
        transaction.operations.iter().map(|operation| operation_to_wire(operation, level)).collect();
    let message = wire::Transaction {
        id: Some(wire::ProposalId { node: id.node, incarnation: id.incarnation, sequence: id.sequence }),
        proposed_ms: transaction.proposed_ms,
        conditions: transaction.conditions.iter().map(condition_to_wire).collect(),
        format: operations.iter().map(format_of_operation).max().unwrap_or(0),
        operations,
    };
    Bytes::from(message.encode_to_vec())
}

/// Decodes a transaction that passed [`check_transaction`]. Object bytes are slices of `bytes`.
pub(crate) fn decode_transaction(bytes: Bytes) -> Result<(ProposalId, Transaction), DecodeError> {
    let message: wire::Transaction = decode("transaction", bytes)?;
    let id = message.id.unwrap_or_default();
    let id = ProposalId { node: id.node, incarnation: id.incarnation, sequence: id.sequence };
    let conditions = message.conditions.into_iter().map(condition_from_wire).collect::<Result<_, _>>()?;
    let operations = message.operations.into_iter().map(operation_from_wire).collect::<Result<_, _>>()?;
    Ok((id, Transaction { proposed_ms: message.proposed_ms, conditions, operations }))
}

fn key_to_wire(key: &Key) -> wire::Key {
    wire::Key { resource: key.resource().to_string(), path: key.path().to_string() }
}

fn key_from_wire(key: wire::Key) -> Key {
    Key::from_stored(Arc::from(key.resource), Arc::from(key.path))
}

fn condition_to_wire(condition: &Condition) -> wire::Condition {
    use wire::condition::Kind;
    let kind = match condition {
        Condition::Absent(key) => Kind::Absent(key_to_wire(key)),
        Condition::Exists(key) => Kind::Exists(key_to_wire(key)),
        Condition::AtRevision(key, revision) => {
            Kind::AtRevision(wire::KeyRevision { key: Some(key_to_wire(key)), revision: revision.0 })
        }
        Condition::NamespaceActive(namespace) => Kind::NamespaceActive(namespace.to_string()),
    };
    wire::Condition { kind: Some(kind) }
}

fn condition_from_wire(condition: wire::Condition) -> Result<Condition, DecodeError> {
    use wire::condition::Kind;
    match condition.kind.ok_or_else(|| DecodeError::missing("condition", "kind"))? {
        Kind::Absent(key) => Ok(Condition::Absent(key_from_wire(key))),
        Kind::Exists(key) => Ok(Condition::Exists(key_from_wire(key))),
        Kind::AtRevision(at) => {
            let key = at.key.ok_or_else(|| DecodeError::missing("condition", "key"))?;
            Ok(Condition::AtRevision(key_from_wire(key), Revision(at.revision)))
        }
        Kind::NamespaceActive(namespace) => Ok(Condition::NamespaceActive(Arc::from(namespace))),
    }
}

fn operation_to_wire(operation: &Operation, level: u32) -> wire::Operation {
    use wire::operation::Kind;
    let kind = match operation {
        Operation::Put(put) => Kind::Put(wire::Put {
            key: Some(key_to_wire(&put.key)),
            json: put.json.clone(),
            revision_at: put.revision_at,
            index: Some(index_to_wire(&put.index, level)),
        }),
        Operation::Delete(key) => Kind::Delete(key_to_wire(key)),
    };
    wire::Operation { kind: Some(kind) }
}

/// The lowest feature level that can read an operation.
fn format_of_operation(operation: &wire::Operation) -> u32 {
    match &operation.kind {
        Some(wire::operation::Kind::Put(put)) => put.index.as_ref().map_or(0, format_of_index),
        Some(wire::operation::Kind::Delete(_)) | None => 0,
    }
}

fn format_of_index(index: &wire::Index) -> u32 {
    match (&index.written_as, index.named_fields.is_empty()) {
        (Some(_), _) => LEVEL_WRITTEN_AS,
        (None, false) => LEVEL_NAMED_FIELDS,
        (None, true) => 0,
    }
}

fn operation_from_wire(operation: wire::Operation) -> Result<Operation, DecodeError> {
    use wire::operation::Kind;
    let put = match operation.kind.ok_or_else(|| DecodeError::missing("operation", "kind"))? {
        Kind::Delete(key) => return Ok(Operation::Delete(key_from_wire(key))),
        Kind::Put(put) => put,
    };
    if !takes_revision(&put.json, put.revision_at as usize) {
        return Err(misplaced_revision("put"));
    }
    let key = key_from_wire(put.key.ok_or_else(|| DecodeError::missing("put", "key"))?);
    let index = index_from_wire(put.index.unwrap_or_default());
    Ok(Operation::Put(Put { key, json: put.json, revision_at: put.revision_at, index }))
}

fn index_to_wire(index: &Index, level: u32) -> wire::Index {
    let label = |(key, value): (&str, &str)| wire::Label { key: key.to_owned(), value: value.to_owned() };
    let named = index.fields.are_named() && level >= LEVEL_NAMED_FIELDS;
    let by_name = index.fields.iter().filter(|(_, value)| named && !value.is_empty());
    let by_position = index.fields.iter().filter(|_| !named);
    let written_as = index.written_as.as_ref().filter(|_| level >= LEVEL_WRITTEN_AS);
    wire::Index {
        uid: index.uid.clone(),
        labels: index.labels.iter().map(label).collect(),
        fields: by_position.map(|(_, value)| value.to_owned()).collect(),
        named_fields: by_name
            .map(|(name, value)| wire::SelectableField { name: name.to_owned(), value: value.to_owned() })
            .collect(),
        owners: index.owners.clone(),
        terminating: index.terminating,
        written_as: written_as
            .map(|form| wire::WrittenAs { version: form.version.to_string(), definition: form.definition.0 }),
    }
}

fn index_from_wire(index: wire::Index) -> Index {
    let fields = match index.named_fields.is_empty() {
        true => Fields::new(index.fields.iter().map(|value| ("", value))),
        false => Fields::new(index.named_fields.iter().map(|field| (&field.name, &field.value))),
    };
    Index {
        uid: index.uid,
        labels: index.labels.iter().map(|label| (&label.key, &label.value)).collect(),
        fields,
        owners: index.owners,
        terminating: index.terminating,
        written_as: index.written_as.map(written_as_from_wire),
    }
}

fn written_as_from_wire(form: wire::WrittenAs) -> Arc<WrittenAs> {
    Arc::new(WrittenAs { version: form.version.into(), definition: Revision(form.definition) })
}

/// An object's message for disk and snapshots. Its fields stay named or positional, as in the transaction that wrote
/// it.
pub(crate) fn object_to_wire(object: &Object) -> wire::StoredObject {
    let index = index_to_wire(&object.index, FEATURE_LEVEL_MAX);
    wire::StoredObject {
        format: format_of_index(&index),
        revision: object.revision.0,
        created: object.created.0,
        written_ms: object.written_ms,
        json: object.json.clone(),
        revision_at: object.revision_at,
        index: Some(index),
    }
}

fn misplaced_revision(what: &'static str) -> DecodeError {
    DecodeError::new(what, "its revision does not stand between two quotes of the object")
}

/// Decodes an object, copying its bytes out of the buffer.
pub(crate) fn object_from_wire(object: wire::StoredObject) -> Result<SharedObject, DecodeError> {
    check_format("stored object", object.format, FEATURE_LEVEL_MAX)?;
    let revision = Revision(object.revision);
    if !holds_revision(&object.json, object.revision_at as usize, revision) {
        return Err(misplaced_revision("object"));
    }
    if object.created > object.revision {
        return Err(DecodeError::new("object", "it was written before it was created"));
    }
    Ok(Arc::new(Object {
        revision,
        created: Revision(object.created),
        written_ms: object.written_ms,
        json: Bytes::copy_from_slice(&object.json),
        revision_at: object.revision_at,
        index: index_from_wire(object.index.unwrap_or_default()),
        protobuf: OnceLock::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::Labels;

    fn form() -> Arc<WrittenAs> {
        Arc::new(WrittenAs { version: "v1beta1".into(), definition: Revision(7) })
    }

    fn transaction() -> Transaction {
        let key = |name| Key::new(&Arc::from("configmaps"), "ns", name).unwrap();
        let put = Put {
            key: key("a"),
            json: Bytes::from_static(b"{\"metadata\":{\"resourceVersion\":\"\"}}"),
            revision_at: 32,
            index: Index {
                uid: "u".into(),
                labels: Labels::new([("k", "v")]),
                fields: Fields::new([("spec.nodeName", "x")]),
                owners: vec!["o".into()],
                terminating: true,
                written_as: Some(form()),
            },
        };
        Transaction {
            proposed_ms: 7,
            conditions: vec![
                Condition::Absent(key("a")),
                Condition::Exists(key("b")),
                Condition::AtRevision(key("c"), Revision(9)),
                Condition::NamespaceActive(Arc::from("ns")),
            ],
            operations: vec![Operation::Put(put), Operation::Delete(key("d"))],
        }
    }

    #[test]
    fn a_transaction_survives_its_encoding() {
        let id = ProposalId { node: 1, incarnation: u64::MAX, sequence: 3 };
        let encoded = encode_transaction(id, &transaction(), FEATURE_LEVEL_MAX);
        assert_eq!(decode_transaction(encoded).unwrap(), (id, transaction()));
    }

    #[test]
    fn below_its_level_the_form_of_an_object_is_not_written() {
        let encoded = encode_transaction(ProposalId::default(), &transaction(), LEVEL_WRITTEN_AS - 1);
        check_transaction(&encoded, LEVEL_WRITTEN_AS - 1).unwrap();
        let (_, decoded) = decode_transaction(encoded).unwrap();
        let Operation::Put(put) = &decoded.operations[0] else { panic!("not a put") };
        assert_eq!(put.index.written_as, None);
    }

    #[test]
    fn an_object_survives_its_encoding_and_owns_its_bytes() {
        let object = Object {
            revision: Revision(9),
            created: Revision(4),
            written_ms: 5,
            json: Bytes::from_static(b"{\"v\":\"9\"}"),
            revision_at: 6,
            index: Index { uid: "u".into(), written_as: Some(form()), ..Index::default() },
            protobuf: OnceLock::new(),
        };
        let frame = Bytes::from(object_to_wire(&object).encode_to_vec());
        let back = object_from_wire(decode("object", frame.clone()).unwrap()).unwrap();
        assert_eq!((back.revision, back.created, back.written_ms), (Revision(9), Revision(4), 5));
        assert_eq!(back.revision_at, 6);
        assert_eq!((&back.json, &back.index), (&object.json, &object.index));
        assert!(!frame.as_ptr_range().contains(&back.json.as_ptr()), "a slice would keep the frame alive");
    }

    #[test]
    fn an_object_that_contradicts_itself_is_an_error() {
        let object = |revision, created, revision_at| {
            let json = Bytes::from_static(b"{\"v\":\"9\"}");
            object_from_wire(wire::StoredObject {
                revision,
                created,
                json,
                revision_at,
                ..Default::default()
            })
        };
        assert!(object(9, 9, 6).is_ok());
        for (revision, created, revision_at) in [(9, 10, 6), (8, 8, 6), (9, 9, 7), (9, 9, 99)] {
            let refused = object(revision, created, revision_at);
            assert!(refused.is_err(), "revision {revision}, created {created}, place {revision_at}");
        }
    }

    #[test]
    fn malformed_transactions_are_errors() {
        let key = Some(wire::Key::default());
        let outside = |revision_at| {
            let json = Bytes::from_static(b"{\"v\":\"\"}");
            wire::Put { key: key.clone(), json, revision_at, ..wire::Put::default() }
        };
        let put = |put| wire::Operation { kind: Some(wire::operation::Kind::Put(put)) };
        let of = |operations, conditions| {
            let message = wire::Transaction { operations, conditions, ..wire::Transaction::default() };
            decode_transaction(Bytes::from(message.encode_to_vec()))
        };
        assert!(of(vec![put(outside(6))], vec![]).is_ok());
        assert!(of(vec![put(outside(99))], vec![]).is_err());
        assert!(of(vec![put(outside(5))], vec![]).is_err(), "no quote before it");
        assert!(of(vec![put(outside(7))], vec![]).is_err(), "no quote behind it");
        assert!(of(vec![put(wire::Put::default())], vec![]).is_err(), "no key");
        assert!(of(vec![wire::Operation { kind: None }], vec![]).is_err());
        assert!(of(vec![], vec![wire::Condition { kind: None }]).is_err());
        assert!(decode_transaction(Bytes::from_static(b"\xff\xff")).is_err());
    }
}
