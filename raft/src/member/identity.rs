//! Identities of the cluster, the member and the disk.
//!
//! Owns the three identities and their checks. The cluster's identity is an object that its first leader writes in the
//! first transaction. A member's identity is on its disk from the first start. A disk is registered in the cluster's state
//! with the number of its newest start. This detects a member that comes back under its old name with an empty disk or an
//! older copy of it: that disk lacks votes and entries that others count on (see enrolment and returning).

use std::sync::Arc;

use bytes::Bytes;
use orch_proto::store as wire;
use prost::Message;
use sha2::{Digest as _, Sha256};

use crate::disk::{Disk, DiskError, MetaKey, completed};
use crate::encoding::{FEATURE_LEVEL_MAX, check_format};
use crate::fields::Fields;
use crate::key::Key;
use crate::member::log::{LogError, read_meta};
use crate::member::options::{ClusterSeed, Options, StartError};
use crate::object::{Index, Object};
pub use crate::state::CLUSTER_RESOURCE;
use crate::state::{BEGINNING_FIELD, ORIGIN, State};
use crate::transaction::{Condition, Operation, Put, Transaction};
use crate::transport::NodeId;

const IDENTITY: &str = "identity";

/// The field with the key of continue tokens: of the cluster's identity, and of the origin for those of the cluster before.
const TOKEN_KEY_FIELD: &str = "tokenKey";

/// The field of the origin with the key of the cluster before the one before, if there is one. Two restores may follow each
/// other within the life of a token, a third one hardly.
const EARLIER_TOKEN_KEY_FIELD: &str = "earlierTokenKey";

/// The field of the cluster's identity that names the founders' disks.
const FOUNDERS_FIELD: &str = "founders";

/// The start of the names of members' objects.
const MEMBER_PREFIX: &str = "member-";

/// The field of a member's object that names its data directory.
const DIRECTORY_FIELD: &str = "directory";

/// The identity of a cluster: written with its first transaction, never changed.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterIdentity {
    /// The cluster's random name.
    pub cluster: Arc<str>,
    /// The name of the cluster's brand.
    pub brand: Arc<str>,
    /// The key that authenticates continue tokens, and recalls among members.
    pub token_key: [u8; 32],
    /// Those of the clusters which this one was made from, one of the other (see [`crate::member::reseed`]), the last one first: at
    /// most two. They tell the tokens of these clusters from forged ones, and authenticate nothing.
    pub earlier_token_keys: Vec<[u8; 32]>,
}

impl ClusterIdentity {
    /// The identity in `state`, once the first leader has written it.
    pub fn read(state: &State) -> Option<Self> {
        let object = state.object(&cluster_key(IDENTITY))?;
        let fields = &object.index.fields;
        let origin = state.object(&cluster_key(ORIGIN));
        let earlier = |field, position| from_hex(origin?.index.fields.value(field, position));
        Some(ClusterIdentity {
            cluster: Arc::from(fields.value("cluster", 0)),
            brand: Arc::from(fields.value("brand", 1)),
            token_key: from_hex(fields.value(TOKEN_KEY_FIELD, 2))?,
            earlier_token_keys: [earlier(TOKEN_KEY_FIELD, 1), earlier(EARLIER_TOKEN_KEY_FIELD, 3)]
                .into_iter()
                .flatten()
                .collect(),
        })
    }
}

/// The member and the cluster that a data directory belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskIdentity {
    /// The member's name.
    pub name: Arc<str>,
    /// The cluster's name; `None` until this member has learnt it.
    pub cluster: Option<Arc<str>>,
    /// The brand's name; `None` as above.
    pub brand: Option<Arc<str>>,
}

impl DiskIdentity {
    /// The identity that `encoded`, the value of [`MetaKey::Identity`], holds.
    ///
    /// # Errors
    /// The value is not an identity.
    pub fn decode(encoded: Bytes) -> Result<DiskIdentity, DiskError> {
        let decoded = wire::Identity::decode(encoded);
        let unreadable =
            |error: prost::DecodeError| DiskError { operation: "read identity", reason: error.to_string() };
        Ok(DiskIdentity::of(decoded.map_err(unreadable)?))
    }

    /// The same as `identity`.
    pub(crate) fn of(identity: wire::Identity) -> DiskIdentity {
        let known = |text: String| Some(Arc::from(text)).filter(|text: &Arc<str>| !text.is_empty());
        DiskIdentity {
            name: Arc::from(identity.name),
            cluster: known(identity.cluster),
            brand: known(identity.brand),
        }
    }
}

/// The id of the member called `name`: a hash, the same on every member and different for every other name. A name is
/// never used again for another member, so neither is an id.
pub fn node_id(name: &str) -> NodeId {
    let hash: [u8; 32] = Sha256::digest(name.as_bytes()).into();
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    // 0 is no member's id.
    NodeId(u64::from_be_bytes(first).max(1))
}

/// A member's registration in the cluster's state: its disk, and the newest start of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// The id of its data directory; the same for ever.
    pub(crate) directory: String,
    /// Starts counted on that disk.
    pub(crate) starts: u64,
    /// The random number of the newest start, so that two copies of one disk do not pass for each other.
    pub(crate) incarnation: u64,
}

impl Registration {
    /// The registration in an object.
    pub(crate) fn of(object: &Object) -> Self {
        let fields = &object.index.fields;
        // A registration of an earlier format counts no starts.
        let number = |name, position| fields.value(name, position).parse().unwrap_or(0);
        Registration {
            directory: fields.value(DIRECTORY_FIELD, 0).to_owned(),
            starts: number("starts", 1),
            incarnation: number("incarnation", 2),
        }
    }

    fn put(&self, node: NodeId) -> Operation {
        let (starts, incarnation) = (self.starts.to_string(), self.incarnation.to_string());
        let fields =
            [(DIRECTORY_FIELD, &*self.directory), ("starts", &*starts), ("incarnation", &*incarnation)];
        Operation::Put(cluster_put(&member_name(node), &fields))
    }
}

/// The first transaction of a cluster, done once: its identity, with the disk of each founder in it.
pub(crate) fn first_transaction(seed: &ClusterSeed, founding: &wire::Founding, now_ms: u64) -> Transaction {
    Transaction {
        proposed_ms: now_ms,
        conditions: vec![Condition::Absent(cluster_key(IDENTITY))],
        operations: vec![Operation::Put(identity_put(seed, founding))],
    }
}

/// The object with the identity of the cluster of `founding`.
pub(crate) fn identity_put(seed: &ClusterSeed, founding: &wire::Founding) -> Put {
    let cluster = if founding.cluster.is_empty() { &*seed.cluster } else { &*founding.cluster };
    let token_key = to_hex(&seed.token_key);
    let disks = founders_to_text(founding);
    // A new cluster is at level 0, where fields are stored by position alone.
    let fields = [
        ("cluster", cluster),
        ("brand", &*seed.brand),
        (TOKEN_KEY_FIELD, &*token_key),
        (FOUNDERS_FIELD, &*disks),
    ];
    cluster_put(IDENTITY, &fields)
}

/// The object that tells where a cluster comes from: it begins at `beginning`, with objects of the cluster `earlier`.
pub(crate) fn origin_put(beginning: u64, earlier: &ClusterIdentity) -> Put {
    let (beginning, token_key) = (beginning.to_string(), to_hex(&earlier.token_key));
    let mut fields =
        vec![(BEGINNING_FIELD, &*beginning), (TOKEN_KEY_FIELD, &*token_key), ("cluster", &*earlier.cluster)];
    let before = earlier.earlier_token_keys.first().map(|key| to_hex(key));
    // No disk keeps an empty field.
    fields.extend(before.iter().map(|before| (EARLIER_TOKEN_KEY_FIELD, &**before)));
    cluster_put(ORIGIN, &fields)
}

/// Whether the store's own object at `path` tells of one cluster alone: its identity, its origin, and the starts of its
/// members. A cluster that is made from another one's objects has its own.
pub(crate) fn is_of_one_cluster(path: &str) -> bool {
    path == IDENTITY || path == ORIGIN || path.starts_with(MEMBER_PREFIX)
}

/// The transaction that registers a start of `node`, replacing the registration in `state`.
pub(crate) fn registration(
    state: &State,
    node: NodeId,
    registration: &Registration,
    now_ms: u64,
) -> Transaction {
    let key = cluster_key(&member_name(node));
    let condition = match state.object(&key) {
        Some(object) => Condition::AtRevision(key, object.revision),
        None => Condition::Absent(key),
    };
    let operations = vec![registration.put(node)];
    Transaction { proposed_ms: now_ms, conditions: vec![condition], operations }
}

/// The transaction that registers `node` without a disk, so that its name is never used again: for a member that is
/// removed before its first start. `None` if it is registered.
pub(crate) fn used_up(state: &State, node: NodeId, now_ms: u64) -> Option<Transaction> {
    if registered(state, node).is_some() {
        return None;
    }
    let nothing = Registration { directory: String::new(), starts: 0, incarnation: 0 };
    Some(registration(state, node, &nothing, now_ms))
}

/// The registration of `node` in `state`: of its newest start, or, without one, with the disk that the founding names.
pub(crate) fn registered(state: &State, node: NodeId) -> Option<Registration> {
    if let Some(object) = state.object(&cluster_key(&member_name(node))) {
        return Some(Registration::of(object));
    }
    let identity = state.object(&cluster_key(IDENTITY))?;
    let directory = founder_directory(identity.index.fields.value(FOUNDERS_FIELD, 3), node)?;
    Some(Registration { directory: directory.to_owned(), starts: 0, incarnation: 0 })
}

/// Whether `node` was among the first voters of the cluster, which every log and every state begins with.
pub(crate) fn is_founder(state: &State, node: NodeId) -> bool {
    let identity = state.object(&cluster_key(IDENTITY));
    let founders = identity.map(|identity| identity.index.fields.value(FOUNDERS_FIELD, 3));
    founders.is_some_and(|founders| founder_directory(founders, node).is_some())
}

/// The data directory that `founding` names for `node`.
pub(crate) fn founding_disk(founding: Option<&wire::Founding>, node: NodeId) -> Option<&str> {
    let is_node =
        |founder: &&wire::Founder| founder.member.as_ref().is_some_and(|member| member.id == node.0);
    founding?.founders.iter().find(is_node).map(|founder| founder.directory.as_str())
}

/// The founders' disks in the form of [`FOUNDERS_FIELD`]: `<id>=<directory>`, separated by commas.
fn founders_to_text(founding: &wire::Founding) -> String {
    let of = |founder: &wire::Founder| {
        let member = founder.member.as_ref()?;
        Some(format!("{:016x}={}", member.id, founder.directory))
    };
    founding.founders.iter().filter_map(of).collect::<Vec<_>>().join(",")
}

fn founder_directory(founders: &str, node: NodeId) -> Option<&str> {
    let id = format!("{:016x}", node.0);
    founders
        .split(',')
        .filter_map(|founder| founder.split_once('='))
        .find(|(of, _)| *of == id)
        .map(|(_, at)| at)
}

fn member_name(node: NodeId) -> String {
    format!("{MEMBER_PREFIX}{:016x}", node.0)
}

/// The key of the store's own object called `name`.
pub(crate) fn cluster_key(name: &str) -> Key {
    Key::from_stored(Arc::from(CLUSTER_RESOURCE), Arc::from(name))
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

/// Reads the identity on the disk, or makes one if the disk has none. Counts this start, unless the start before was never
/// announced to the cluster. Durable when this returns, before this member answers any request. The flag: it was made.
pub(crate) async fn claim(disk: &impl Disk, options: &Options) -> Result<(wire::Identity, bool), StartError> {
    let found = read_meta::<wire::Identity>(disk, MetaKey::Identity, "identity").map_err(unreadable)?;
    let Some(found) = found else {
        let directory = format!("{:016x}", options.incarnation);
        let name = options.node.name.to_string();
        let node = options.id().0;
        let identity = wire::Identity {
            node,
            name,
            directory,
            starts: 1,
            unannounced: true,
            ..wire::Identity::default()
        };
        save(disk, &identity).await.map_err(|error| unreadable(error.into()))?;
        return Ok((identity, true));
    };
    check_format("identity", found.format, FEATURE_LEVEL_MAX).map_err(|error| unreadable(error.into()))?;
    if found.node != options.id().0 || *found.name != *options.node.name {
        let of = |name: &str, id: NodeId| format!("{name} ({id})");
        let expected = of(&options.node.name, options.id());
        return Err(StartError::WrongNode { found: of(&found.name, NodeId(found.node)), expected });
    }
    if !found.older_copy.is_empty() {
        return Err(StartError::RolledBack { name: found.name, reason: found.older_copy });
    }
    match &options.expected_cluster {
        Some(expected) if !found.cluster.is_empty() && *found.cluster != **expected => {
            Err(StartError::WrongCluster { found: found.cluster, expected: expected.to_string() })
        }
        _ => {
            if found.unannounced {
                return Ok((found, false));
            }
            let starts = found.starts.saturating_add(1);
            let identity = wire::Identity { starts, unannounced: true, ..found };
            save(disk, &identity).await.map_err(|error| unreadable(error.into()))?;
            Ok((identity, false))
        }
    }
}

/// Writes the identity and waits until it is durable.
pub(crate) async fn save(disk: &impl Disk, identity: &wire::Identity) -> Result<(), DiskError> {
    let bytes = Bytes::from(identity.encode_to_vec());
    completed("save identity", |done| disk.save_meta(MetaKey::Identity, bytes, Some(done))).await
}

fn unreadable(error: LogError) -> StartError {
    StartError::Disk { reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{ProposalId, decode_transaction, encode_transaction};
    use crate::key::Revision;
    use crate::transaction::Outcome;

    fn founded(founders: &[(&str, &str)]) -> wire::Founding {
        let founder = |(name, directory): &(&str, &str)| wire::Founder {
            member: Some(wire::Member { id: node_id(name).0, ..wire::Member::default() }),
            directory: (*directory).into(),
        };
        wire::Founding { cluster: "one".into(), founders: founders.iter().map(founder).collect() }
    }

    #[test]
    fn a_cluster_is_founded_once_and_knows_its_founders_disks_from_then_on() {
        let seed =
            |name: &str| ClusterSeed { cluster: name.into(), brand: "orch".into(), token_key: [0xa5; 32] };
        let mut state = State::default();
        assert!(ClusterIdentity::read(&state).is_none());
        let founding = founded(&[("a", "disk a"), ("b", "disk b")]);
        state.apply(Revision(2), &first_transaction(&seed("two"), &founding, 5));
        let again = first_transaction(&seed("two"), &wire::Founding::default(), 6);
        assert!(matches!(state.apply(Revision(3), &again), Outcome::Refused { .. }));
        let identity = ClusterIdentity::read(&state).unwrap();
        assert_eq!((&*identity.cluster, &*identity.brand, identity.token_key), ("one", "orch", [0xa5; 32]));
        assert_eq!(registered(&state, node_id("b")).unwrap().directory, "disk b");
        assert_eq!(registered(&state, node_id("c")), None);
        let kept = state.collection(CLUSTER_RESOURCE);
        let json = &kept.get("identity").unwrap().json;
        assert_eq!(json, "{\"metadata\":{\"resourceVersion\":\"2\"},\"name\":\"identity\"}");
    }

    #[test]
    fn the_last_two_earlier_keys_are_known() {
        let mut earlier = ClusterIdentity {
            cluster: "c-0".into(),
            brand: "orch".into(),
            token_key: [0; 32],
            earlier_token_keys: Vec::new(),
        };
        for made in 1..4 {
            let mut state = State::default();
            let name = format!("c-{made}").into();
            let seed = ClusterSeed { cluster: name, brand: "orch".into(), token_key: [made; 32] };
            let puts = [identity_put(&seed, &wire::Founding::default()), origin_put(70, &earlier)];
            let operations = puts.map(Operation::Put).to_vec();
            state.apply(Revision(70), &Transaction { operations, ..Transaction::default() });
            earlier = ClusterIdentity::read(&state).unwrap();
        }
        assert_eq!((earlier.token_key, earlier.earlier_token_keys), ([3; 32], vec![[2; 32], [1; 32]]));
    }

    #[test]
    fn founders_disks_are_known_at_every_feature_level() {
        let seed = ClusterSeed { cluster: "one".into(), brand: "orch".into(), token_key: [0xa5; 32] };
        let founding = founded(&[("a", "disk a"), ("b", "disk b")]);
        for level in 0..=FEATURE_LEVEL_MAX {
            let id = ProposalId { node: 1, incarnation: 1, sequence: 1 };
            let encoded = encode_transaction(id, &first_transaction(&seed, &founding, 5), level);
            let (_, decoded) = decode_transaction(encoded).unwrap();
            let mut state = State::default();
            state.apply(Revision(2), &decoded);
            assert_eq!(registered(&state, node_id("b")).unwrap().directory, "disk b", "level {level}");
            assert_eq!(registered(&state, node_id("c")), None);
        }
    }

    #[test]
    fn a_registration_replaces_only_the_one_it_found() {
        let (mut state, node) = (State::default(), node_id("a"));
        let start = |starts| Registration { directory: "d".into(), starts, incarnation: 7 };
        assert_eq!(registered(&state, node), None);
        let late = registration(&state, node, &start(9), 5);
        state.apply(Revision(2), &registration(&state.clone(), node, &start(1), 5));
        assert!(matches!(state.apply(Revision(3), &late), Outcome::Refused { .. }));
        let before = state.clone();
        state.apply(Revision(4), &registration(&before, node, &start(2), 5));
        state.apply(Revision(5), &registration(&before, node, &start(3), 5));
        assert_eq!(registered(&state, node), Some(start(2)));
    }

    #[test]
    fn ids_follow_from_names() {
        // Ids are stored on disks and in states of clusters: with another hash no member would be known.
        assert_eq!(node_id("a"), NodeId(0xca97_8112_ca1b_bdca));
        assert_ne!(node_id("a"), node_id("b"));
    }
}
