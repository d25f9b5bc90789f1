//! The record of a definition: an object of the store beside the definition's own, written in the same transactions.
//!
//! Owns what it says: its revision is that of the last write which changed what objects of the kind may be, and it tells since
//! which revision the schema of each version is as it is. A status leaves it alone, so that a write of the kind depends on the
//! record and not on the definition.
//!
//! It decides nothing: `pipeline::definitions` adds it to a transaction.

use std::collections::BTreeMap;

use orch_raft::{Index, Key, Object, Put, Revision};
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::RECORDS;

/// The key of the record of the definition called `name`; `None`: no object can have the name.
pub(crate) fn record_key(name: &str) -> Option<Key> {
    Key::new(&RECORDS.into(), "", name).ok()
}

/// A stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DefinitionRecord {
    /// Its revision.
    pub(crate) revision: Revision,
    /// Since when the schema of a version is as it is, where that is not [`DefinitionRecord::revision`].
    since: BTreeMap<String, Revision>,
}

impl DefinitionRecord {
    /// The record that `object` is.
    pub(crate) fn of(object: &Object) -> DefinitionRecord {
        let value: Value = serde_json::from_slice(&object.json).unwrap_or_default();
        let since = value.at("since").as_object().into_iter().flatten();
        let since = since.filter_map(|(version, at)| Some((version.to_string(), Revision(at.as_u64()?))));
        DefinitionRecord { revision: object.revision, since: since.collect() }
    }

    /// The revision from which on the schema of `version` is as it is.
    pub(crate) fn since(&self, version: &str) -> Revision {
        self.since.get(version).copied().unwrap_or(self.revision)
    }
}

/// The first record of a definition.
pub(crate) fn first(key: Key) -> Put {
    put(key, &BTreeMap::new())
}

/// The record after `old`, a definition, becomes `new`, or is marked as being deleted where that is `None`. `None`: what objects of
/// the kind may be stays as it was, and so does the record.
pub(crate) fn renewed(key: Key, before: &DefinitionRecord, old: &Value, new: Option<&Value>) -> Option<Put> {
    let is_deleted = |definition: &Value| definition.at("metadata").has("deletionTimestamp");
    let after = new.unwrap_or(old);
    let is_marked = new.is_none_or(is_deleted) && !is_deleted(old);
    if !is_marked && old.at("spec") == after.at("spec") {
        return None;
    }
    let same = versions(after).filter(|(name, schema)| {
        keeps_unknown(old) == keeps_unknown(after) && schema_of(old, name) == Some(*schema)
    });
    Some(put(key, &same.map(|(name, _)| (name, before.since(name))).collect()))
}

/// The versions of a definition with their schemas.
fn versions(definition: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let versions = definition.at("spec").items("versions").iter();
    versions.map(|version| (version.text("name"), version.at("schema")))
}

fn schema_of<'a>(definition: &'a Value, name: &str) -> Option<&'a Value> {
    // few: a definition has a bounded number of versions, and is seldom changed.
    versions(definition).find(|(of, _)| *of == name).map(|(_, schema)| schema)
}

fn keeps_unknown(definition: &Value) -> bool {
    definition.at("spec").flag("preserveUnknownFields")
}

fn put(key: Key, since: &BTreeMap<&str, Revision>) -> Put {
    const HEAD: &str = r#"{"metadata":{"resourceVersion":""#;
    let mut told = json!({});
    for (version, at) in since {
        told[*version] = json!(at.0);
    }
    let json = format!("{HEAD}\"}},\"since\":{told}}}");
    let revision_at = u32::try_from(HEAD.len()).unwrap_or_default();
    Put { key, json: json.into(), revision_at, index: Index::default() }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    fn definition(versions: &[(&str, &str)]) -> Value {
        let version = |(name, field): &(&str, &str)| json!({"name": name, "schema": {"openAPIV3Schema": {"properties": {*field: {}}}}});
        json!({"spec": {"versions": versions.iter().map(version).collect::<Vec<_>>()}})
    }

    /// The record that the store makes of `put` at `revision`.
    fn stored(put: Put, revision: u64) -> DefinitionRecord {
        let (head, tail) = put.json.split_at(put.revision_at as usize);
        let json = [head, revision.to_string().as_bytes(), tail].concat();
        DefinitionRecord::of(&Object {
            revision: Revision(revision),
            created: Revision(revision),
            written_ms: 0,
            json: json.into(),
            revision_at: put.revision_at,
            index: put.index,
            protobuf: OnceLock::new(),
        })
    }

    #[test]
    fn a_record_tells_since_when_each_schema_is_as_it_is() {
        let key = || record_key("widgets.example.com").unwrap();
        let first = stored(first(key()), 7);
        assert_eq!((first.since("v1"), first.since("v2")), (Revision(7), Revision(7)));
        let old = definition(&[("v1", "a"), ("v2", "a")]);
        let new = definition(&[("v1", "a"), ("v2", "b")]);
        let second = stored(renewed(key(), &first, &old, Some(&new)).unwrap(), 9);
        assert_eq!((second.since("v1"), second.since("v2")), (Revision(7), Revision(9)));
        let third = stored(renewed(key(), &second, &new, None).unwrap(), 12);
        assert_eq!(
            (third.since("v1"), third.since("v2")),
            (Revision(7), Revision(9)),
            "deletion changes no schema"
        );
    }

    #[test]
    fn a_status_and_a_second_deletion_leave_the_record_alone() {
        let key = || record_key("widgets.example.com").unwrap();
        let first = stored(first(key()), 7);
        let old = definition(&[("v1", "a")]);
        let mut new = old.clone();
        new["status"] = json!({"storedVersions": ["v1"]});
        assert!(renewed(key(), &first, &old, Some(&new)).is_none());
        let mut deleted = old.clone();
        deleted["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert!(renewed(key(), &first, &old, Some(&deleted)).is_some());
        assert!(renewed(key(), &first, &deleted, None).is_none());
        let mut keeping = old.clone();
        keeping["spec"]["preserveUnknownFields"] = json!(true);
        let changed = stored(renewed(key(), &first, &old, Some(&keeping)).unwrap(), 8);
        assert_eq!(changed.since("v1"), Revision(8));
    }
}
