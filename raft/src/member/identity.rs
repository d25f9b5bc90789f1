//! Which cluster, which member, which disk.
//!
//! Owns the three identities and their checks. The cluster's is the first thing its first leader writes, an object like
//! any other. A member's is on its disk from the first start. A disk's is known to the cluster, so that a member that
//! comes back under its old name with an empty disk is found out: it has forgotten votes and entries that others count
//! on (see admission).

use std::sync::Arc;

use bytes::Bytes;
use orch_proto::store as wire;
use prost::Message;
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

use crate::disk::{Disk, DiskError, MetaKey};
use crate::encoding::{FEATURE_LEVEL_MAX, check_format};
use crate::fields::Fields;
use crate::key::Key;
use crate::member::log::{LogError, read_meta};
use crate::member::options::{ClusterSeed, Options, StartError};
use crate::object::Index;
use crate::state::State;
use crate::transaction::{Condition, Operation, Put, Transaction};
use crate::transport::NodeId;

pub use crate::state::CLUSTER_RESOURCE;

const IDENTITY: &str = "identity";

/// The field of a member's object that names its data directory.
const DIRECTORY_FIELD: &str = "directory";

/// What a cluster is, from its first entry on and for ever.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterIdentity {
    /// Its random name.
    pub cluster: Arc<str>,
    /// Its brand's name.
    pub brand: Arc<str>,
    /// Bytes that authenticate continue tokens.
    pub token_key: [u8; 32],
}

impl ClusterIdentity {
    /// The identity in `state`, once the first leader has written it.
    pub fn read(state: &State) -> Option<Self> {
        let object = state.object(&cluster_key(IDENTITY))?;
        let fields = &object.index.fields;
        Some(ClusterIdentity {
            cluster: Arc::from(fields.value("cluster", 0)),
            brand: Arc::from(fields.value("brand", 1)),
            token_key: from_hex(fields.value("tokenKey", 2))?,
        })
    }
}

/// Whose a data directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskIdentity {
    /// The member's name.
    pub name: Arc<str>,
    /// The cluster's name, once it has told it.
    pub cluster: Option<Arc<str>>,
    /// The brand's name, likewise.
    pub brand: Option<Arc<str>>,
}

/// The id of the member called `name`: the same on every member, and another for every other name. A name is never
/// used again for another member, so neither is an id.
pub fn node_id(name: &str) -> NodeId {
    let hash: [u8; 32] = Sha256::digest(name.as_bytes()).into();
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    // 0 is nobody's.
    NodeId(u64::from_be_bytes(first).max(1))
}

/// The transaction that founds the cluster, once.
pub(crate) fn founding(seed: &ClusterSeed, now_ms: u64) -> Transaction {
    let token_key = to_hex(&seed.token_key);
    let fields = [("cluster", &*seed.cluster), ("brand", &*seed.brand), ("tokenKey", &*token_key)];
    write_once(IDENTITY, &fields, now_ms)
}

/// The transaction that makes a member's disk known, once.
pub(crate) fn registration(node: NodeId, directory: &str, now_ms: u64) -> Transaction {
    write_once(&member_name(node), &[(DIRECTORY_FIELD, directory)], now_ms)
}

/// What the cluster knows as the disk of `node`.
pub(crate) fn registered(state: &State, node: NodeId) -> Option<String> {
    let object = state.object(&cluster_key(&member_name(node)))?;
    Some(object.index.fields.value(DIRECTORY_FIELD, 0).to_owned())
}

fn member_name(node: NodeId) -> String {
    format!("member-{:016x}", node.0)
}

/// Where the store keeps the object called `name` of its own.
pub(crate) fn cluster_key(name: &str) -> Key {
    Key::from_stored(Arc::from(CLUSTER_RESOURCE), Arc::from(name))
}

/// Writes an object whose content is its fields, unless it exists.
fn write_once(name: &str, fields: &[(&str, &str)], now_ms: u64) -> Transaction {
    Transaction {
        proposed_ms: now_ms,
        conditions: vec![Condition::Absent(cluster_key(name))],
        operations: vec![Operation::Put(cluster_put(name, fields))],
    }
}

/// An object of the store's own, whose content is its fields.
pub(crate) fn cluster_put(name: &str, fields: &[(&str, &str)]) -> Put {
    const HEAD: &str = "{\"metadata\":{\"resourceVersion\":\"";
    let json = format!("{HEAD}\"}},\"name\":\"{name}\"}}");
    let index = Index { fields: Fields::new(fields.iter().copied()), ..Index::default() };
    #[expect(clippy::cast_possible_truncation, reason = "the length of a constant of 32 bytes")]
    let revision_at = HEAD.len() as u32;
    Put { key: cluster_key(name), json: Bytes::from(json), revision_at, index }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 2 * bytes.len() || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

/// The identity on the disk; written and synced if the disk has none.
pub(crate) async fn claim(disk: &impl Disk, options: &Options) -> Result<wire::Identity, StartError> {
    let found = read_meta::<wire::Identity>(disk, MetaKey::Identity, "identity").map_err(unreadable)?;
    let Some(found) = found else {
        let directory = format!("{:016x}", options.incarnation);
        let name = options.node.name.to_string();
        let identity = wire::Identity { node: options.id().0, name, directory, ..wire::Identity::default() };
        save(disk, &identity).await.map_err(|error| unreadable(error.into()))?;
        return Ok(identity);
    };
    check_format("identity", found.format, FEATURE_LEVEL_MAX).map_err(|error| unreadable(error.into()))?;
    if found.node != options.id().0 || *found.name != *options.node.name {
        let of = |name: &str, id: u64| format!("{name} ({id:016x})");
        let expected = of(&options.node.name, options.id().0);
        return Err(StartError::WrongNode { found: of(&found.name, found.node), expected });
    }
    match &options.expected_cluster {
        Some(expected) if !found.cluster.is_empty() && *found.cluster != **expected => {
            Err(StartError::WrongCluster { found: found.cluster, expected: expected.to_string() })
        }
        _ => Ok(found),
    }
}

/// Writes the identity and waits until it is durable.
pub(crate) async fn save(disk: &impl Disk, identity: &wire::Identity) -> Result<(), DiskError> {
    let (done, durable) = oneshot::channel();
    // The waiting side is gone only when the member is.
    let on_durable = Box::new(move |result| drop(done.send(result)));
    disk.save_meta(MetaKey::Identity, Bytes::from(identity.encode_to_vec()), Some(on_durable))?;
    let gone = || DiskError { operation: "save identity", reason: "the disk went away".to_owned() };
    durable.await.unwrap_or_else(|_| Err(gone()))
}

fn unreadable(error: LogError) -> StartError {
    StartError::Disk { reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Revision;
    use crate::transaction::Outcome;

    #[test]
    fn a_cluster_is_founded_once() {
        let seed =
            |name: &str| ClusterSeed { cluster: name.into(), brand: "orch".into(), token_key: [0xa5; 32] };
        let mut state = State::default();
        assert!(ClusterIdentity::read(&state).is_none());
        state.apply(Revision(2), &founding(&seed("one"), 5));
        assert!(matches!(state.apply(Revision(3), &founding(&seed("two"), 6)), Outcome::Refused { .. }));
        let identity = ClusterIdentity::read(&state).unwrap();
        assert_eq!((&*identity.cluster, &*identity.brand, identity.token_key), ("one", "orch", [0xa5; 32]));
        let kept = state.collection(CLUSTER_RESOURCE);
        let json = &kept.get("identity").unwrap().json;
        assert_eq!(json, "{\"metadata\":{\"resourceVersion\":\"2\"},\"name\":\"identity\"}");
    }

    #[test]
    fn a_member_has_one_directory_for_ever() {
        let (mut state, node) = (State::default(), node_id("a"));
        assert_eq!(registered(&state, node), None);
        state.apply(Revision(2), &registration(node, "first", 5));
        state.apply(Revision(3), &registration(node, "second", 5));
        assert_eq!(registered(&state, node).as_deref(), Some("first"));
        assert_eq!(registered(&state, node_id("b")), None);
    }

    #[test]
    fn ids_follow_from_names() {
        assert_eq!(node_id("a"), node_id("a"));
        assert_ne!(node_id("a"), node_id("b"));
    }
}
