//! Recovery and restore in real data directories; clusters that live on from them are in `member::tests::reseeding`.

use std::io;

use bytes::Bytes;
use openraft::EntryPayload;
use openraft::entry::RaftEntry;
use prost::Message;

use super::survivor::records;
use super::*;
use crate::disk::{Disk, LogRecord, MetaKey, completed};
use crate::encoding::{ProposalId, encode_transaction};
use crate::key::{Key, Revision};
use crate::member::codec::entry_to_wire;
use crate::member::consensus::{Command, Entry, Membership, Place, log_id};
use crate::member::identity::{first_transaction, node_id};
use crate::object::Index;
use crate::state::State;
use crate::transaction::{Operation, Put, Transaction};

const NOW_MS: u64 = 1_700_000_000_000;

fn peer(name: &str) -> Peer {
    Peer { id: node_id(name), name: name.into(), address: format!("{name}:1").into() }
}

fn seed(cluster: &str) -> ClusterSeed {
    ClusterSeed { cluster: cluster.into(), brand: "orch".into(), token_key: [7; 32] }
}

pub(super) fn anew(cluster: &str, beginning: u64) -> NewCluster {
    NewCluster {
        member: peer("a"),
        seed: seed(cluster),
        directory: format!("disk of {cluster}"),
        now_ms: NOW_MS,
        beginning,
    }
}

fn put(name: &str) -> Transaction {
    put_at(name, NOW_MS - 1000)
}

fn put_at(name: &str, proposed_ms: u64) -> Transaction {
    let key = Key::new(&Arc::from("pods"), "ns", name).unwrap();
    let put = Put { key, json: Bytes::from_static(br#"{"v":""}"#), revision_at: 6, index: Index::default() };
    Transaction { proposed_ms, conditions: vec![], operations: vec![Operation::Put(put)] }
}

/// The state of a cluster called `one` with some pods, one of them written by a clock that was an hour ahead.
fn state() -> State {
    let mut state = State::default();
    state.apply(Revision(2), &first_transaction(&seed("one"), &Default::default(), 5));
    state.apply(Revision(3), &put("x"));
    state.apply(Revision(4), &put_at("y", NOW_MS + 3_600_000));
    state.apply(Revision(5), &put("z"));
    state
}

pub(super) fn origin(cluster: &str, revision: u64) -> Origin {
    Origin { cluster: cluster.into(), revision, time_ms: NOW_MS - 1000 }
}

pub(super) fn records_of_state() -> Vec<Record> {
    records(&state()).collect()
}

fn sound(records: impl Iterator<Item = Record>) -> impl Iterator<Item = io::Result<Record>> {
    records.map(Ok)
}

/// A restore whose keys are known before it.
fn restore<E: Into<Box<dyn Error + Send + Sync>>>(
    data_dir: &Path,
    keys: Option<Arc<dyn RecordCipher>>,
    origin: &Origin,
    new: &NewCluster,
    records: impl Iterator<Item = Result<Record, E>>,
) -> Result<Made, ReseedError> {
    super::restore(data_dir, || Ok::<_, io::Error>(keys), origin, new, records)
}

/// Restores `state` as the cluster `two`, which begins at 1000.
fn restored(data_dir: &Path) -> Made {
    restore(data_dir, None, &origin("one", 5), &anew("two", 1000), sound(records(&state()))).unwrap()
}

/// Appends entries to the store in `data_dir`, whose log begins behind 1000: b and c become members, and a pod is written three
/// times, by a clock that is an hour ahead, by one that is right, and by none.
fn grow(data_dir: &Path) {
    let disk = RocksDisk::open(&data_dir.join("store")).unwrap();
    let places = ["a", "b", "c"].map(|name| (peer(name).id.0, Place::of(&peer(name))));
    let places = std::collections::BTreeMap::from(places);
    let membership = Membership::new(vec![places.keys().copied().collect()], places).unwrap();
    let pod = |sequence, proposed_ms| {
        let id = ProposalId { node: 9, incarnation: 9, sequence };
        EntryPayload::Normal(Command(encode_transaction(id, &put_at("late", proposed_ms), 1)))
    };
    let entries = [
        Entry::new(log_id(4, 1001), EntryPayload::Membership(membership)),
        Entry::new(log_id(4, 1002), pod(1, NOW_MS + 3_600_000)),
        Entry::new(log_id(4, 1003), pod(2, NOW_MS + 5000)),
        Entry::new(log_id(4, 1004), pod(3, 0)),
    ];
    let records = entries.iter().map(|entry| LogRecord {
        index: entry.log_id.index,
        bytes: entry_to_wire(entry, 1).encode_to_vec().into(),
    });
    block_on(completed("append", |done| disk.append(records.collect(), done))).unwrap();
}

#[test]
fn revisions_begin_beyond_what_the_earlier_cluster_can_have_given_out() {
    let origin = origin("one", 500);
    assert_eq!(beginning(&origin, origin.time_ms, 0), 1_000_500);
    assert_eq!(beginning(&origin, origin.time_ms + 3000, 0), 1_300_500, "three seconds at the highest rate");
    assert_eq!(beginning(&origin, origin.time_ms - 9000, 0), 1_000_500, "clocks that differ by a little");
    assert_eq!(beginning(&origin, origin.time_ms, 7_000_000), 7_000_000);
    assert_eq!(beginning(&origin, u64::MAX, u64::MAX), BEGINNING_MAX);
    let long_ago = 100_000_000_000_000;
    for now_ms in [0, origin.time_ms - 11_000, origin.time_ms / 2] {
        assert!(
            beginning(&origin, now_ms, 0) > long_ago,
            "the clock is behind, or that of the last write was ahead"
        );
    }
    let unknown = Origin { time_ms: 0, ..origin };
    for now_ms in [NOW_MS, 0] {
        assert!(beginning(&unknown, now_ms, 0) > long_ago, "as if it was taken long ago");
    }
    assert_eq!(elapsed_ms(5000, 6000), Some(1000));
    assert_eq!((elapsed_ms(0, 6000), elapsed_ms(16_001, 6000)), (None, None));
}

#[test]
fn a_restored_store_is_that_of_a_cluster_of_one() {
    let root = tempfile::tempdir().unwrap();
    let made = restored(root.path());
    assert_eq!((&*made.cluster, &*made.brand, made.objects, made.kept), ("two", "orch", 6, None));
    let disk = RocksDisk::open(&root.path().join("store")).unwrap();
    assert_eq!(disk.log_bounds().unwrap(), None);
    assert!(disk.meta(MetaKey::Identity).unwrap().is_some() && disk.meta(MetaKey::Vote).unwrap().is_some());
    let last_ms = crate::member::machine::replay(&disk).unwrap().last_ms;
    assert_eq!(last_ms, NOW_MS, "the time of the restore, and not that of an object that it has");
    drop(disk);
    let refused = examine(root.path(), None).err().unwrap();
    assert!(matches!(refused, ReseedError::NotNeeded(_)), "{refused}");
    let again = restore(root.path(), None, &origin("one", 5), &anew("two", 1000), sound(records(&state())));
    assert!(again.unwrap_err().to_string().contains("has a store already"));
}

#[test]
fn a_survivor_is_recovered_with_the_whole_of_its_log() {
    let root = tempfile::tempdir().unwrap();
    restored(root.path());
    grow(root.path());
    let examined = examine(root.path(), None).unwrap();
    let found = examined.found().clone();
    assert_eq!((&*found.cluster, &*found.name, found.member), ("two", "a", Some(peer("a"))));
    assert_eq!((found.revision, found.term, found.committed), (1004, 4, 0));
    assert_eq!((found.time_ms, found.objects), (NOW_MS + 5000, 7), "the last time, and not the highest");
    let mut others: Vec<&str> = found.others.iter().map(|peer| &*peer.name).collect();
    others.sort_unstable();
    assert_eq!(others, ["b", "c"]);
    let in_use = examine(root.path(), None).err().unwrap();
    assert!(matches!(in_use, ReseedError::Open(OpenError::InUse { .. })), "{in_use}");

    let same = recover(root.path(), None, examined, &anew("two", 5000)).unwrap_err();
    assert!(matches!(same, ReseedError::SameCluster(_)), "{same}");
    Remaking::require_whole(root.path()).unwrap();
    let examined = examine(root.path(), None).unwrap();
    let made = recover(root.path(), None, examined, &anew("three", 5000)).unwrap();
    assert_eq!(made.kept, Some(root.path().join("store.before")));
    let disk = RocksDisk::open(&root.path().join("store")).unwrap();
    let replayed = crate::member::machine::replay(&disk).unwrap();
    assert_eq!(replayed.mark.log_id, Some(log_id(5, 5000)), "the term is beyond the old one");
    assert_eq!(replayed.mark.membership.membership().voter_ids().collect::<Vec<_>>(), [peer("a").id.0]);
    let pods = replayed.state.collection("pods");
    let paths: Vec<&str> = pods.range_from("").map(|(path, _)| &**path).collect();
    assert_eq!(paths, ["ns/late", "ns/x", "ns/y", "ns/z"]);
    assert_eq!(pods.get("ns/x").unwrap().json.as_ref(), br#"{"v":"5000"}"#);
    let identity = crate::ClusterIdentity::read(&replayed.state).unwrap();
    assert_eq!((&*identity.cluster, identity.earlier_token_keys), ("three", vec![[7; 32]; 2]));
}

#[test]
fn nothing_is_left_of_a_restore_that_fails() {
    let root = tempfile::tempdir().unwrap();
    let whole = records_of_state();
    let torn = whole.iter().take(2).cloned().map(Ok).chain([Err(io::Error::other("torn"))]);
    let error = restore(root.path(), None, &origin("one", 5), &anew("two", 1000), torn).unwrap_err();
    assert!(matches!(error, ReseedError::Source(_)), "{error}");
    let without = whole.iter().filter(|one| &*one.path != "identity").cloned();
    let error =
        restore(root.path(), None, &origin("one", 5), &anew("two", 1000), sound(without)).unwrap_err();
    assert!(matches!(error, ReseedError::NoCluster), "{error}");
    let early = restore(root.path(), None, &origin("one", 5), &anew("two", 5), sound(records(&state())));
    assert!(matches!(early, Err(ReseedError::BeginsTooEarly { .. })));
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    restored(root.path());
}

#[test]
fn a_restore_is_prepared_in_a_directory_that_is_its_own() {
    let root = tempfile::tempdir().unwrap();
    let (origin, new) = (origin("one", 5), anew("two", 1000));
    let restore_with = |prepare: &dyn Fn() -> io::Result<()>| {
        let prepare = || prepare().map(|()| None);
        super::restore(root.path(), prepare, &origin, &new, sound(records(&state())))
    };
    let failing = || {
        let second = restore(root.path(), None, &origin, &anew("three", 1000), sound(records(&state())));
        assert!(second.unwrap_err().to_string().contains("another process makes a store"));
        assert!(Remaking::require_whole(root.path()).is_err(), "no node starts meanwhile");
        Err(io::Error::other("no keys"))
    };
    let told = restore_with(&failing).unwrap_err();
    assert!(matches!(told, ReseedError::Unprepared(_)), "{told}");
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0, "nothing is left of it");
    restore_with(&|| Ok(())).unwrap();
    let never = || panic!("prepared for a directory with a store");
    assert!(restore_with(&never).unwrap_err().to_string().contains("has a store already"));
}

#[test]
fn a_store_of_a_newer_program_is_refused_before_anything_is_decided() {
    let level = |level: u32| {
        let put = crate::member::feature::level_put(level);
        Transaction { proposed_ms: NOW_MS, conditions: vec![], operations: vec![Operation::Put(put)] }
    };
    let newer = |told: ReseedError, expected: &str| {
        assert!(matches!(told, ReseedError::NewerProgram { .. }), "{told}");
        assert!(told.to_string().contains(expected) && told.to_string().contains("later one"), "{told}");
    };
    // In the log of a survivor, behind all that it knows to be committed.
    let root = tempfile::tempdir().unwrap();
    restored(root.path());
    grow(root.path());
    let disk = RocksDisk::open(&root.path().join("store")).unwrap();
    let id = ProposalId { node: 9, incarnation: 9, sequence: 4 };
    let raise = encode_transaction(id, &level(FEATURE_LEVEL_MAX + 1), FEATURE_LEVEL_MAX);
    let entry = Entry::new(log_id(4, 1005), EntryPayload::Normal(Command(raise)));
    let bytes = entry_to_wire(&entry, 1).encode_to_vec().into();
    block_on(completed("append", |done| disk.append(vec![LogRecord { index: 1005, bytes }], done))).unwrap();
    drop(disk);
    newer(examine(root.path(), None).err().unwrap(), &format!("feature level {}", FEATURE_LEVEL_MAX + 1));

    // In the identity of the member.
    let root = tempfile::tempdir().unwrap();
    restored(root.path());
    grow(root.path());
    let disk = RocksDisk::open(&root.path().join("store")).unwrap();
    let identity = crate::member::log::read_meta(&disk, MetaKey::Identity, "identity").unwrap().unwrap();
    let identity = orch_proto::store::Identity { format: FEATURE_LEVEL_MAX + 1, ..identity };
    block_on(crate::member::identity::save(&disk, &identity)).unwrap();
    drop(disk);
    newer(examine(root.path(), None).err().unwrap(), "cannot decode identity");

    // In the objects of a snapshot, whatever its header says.
    let root = tempfile::tempdir().unwrap();
    let mut state = state();
    state.apply(Revision(6), &level(FEATURE_LEVEL_MAX + 1));
    let told = restore(root.path(), None, &origin("one", 6), &anew("two", 1000), sound(records(&state)));
    newer(told.unwrap_err(), "feature level");
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}
