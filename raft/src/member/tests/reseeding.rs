//! Clusters made anew: from a survivor's disk after the quorum is lost, and from the objects of an earlier point.
//!
//! Owns two judgements, each of which a planted bug must fail: members of the earlier cluster neither lead nor vote nor follow in
//! the new one, which its name keeps them out of; and no client that held a revision of the earlier one goes on from it, nor meets it again.

use std::collections::BTreeMap;

use orch_proto::store as wire;

use super::casts::{converge, known_everywhere, write_many};
use super::*;
use crate::disk::MetaKey;
use crate::encoding::LEVEL_BEGINNING;
use crate::member::log::read_meta;
use crate::member::reseed::{self, NewCluster, Origin, Survivor, check, fill, fill_as};
use crate::{ClusterIdentity, Runtime};

/// The clock of the operator who makes the cluster: a minute after the members' clocks began.
const NOW_MS: u64 = 1_060_000;

/// The new cluster's name; the members of `Cluster` found "c".
const ANEW: &str = "anew";

fn anew(n: usize, beginning: u64) -> NewCluster {
    let seed = ClusterSeed { cluster: ANEW.into(), brand: "unused".into(), token_key: [9; 32] };
    NewCluster { member: peer(n), seed, directory: "new disk".into(), now_ms: NOW_MS, beginning }
}

/// The name that a recovery gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    /// Another one than before.
    Another,
    /// The planted bug: that of before, with the rest of what members know a cluster and a disk by.
    Kept,
}

/// Makes a cluster of one from the disk of member `n`, which is stopped, and starts it. Returns the last entry that was kept,
/// and the beginning.
async fn recover(cluster: &mut Cluster, n: usize, name: Name) -> (u64, u64) {
    let survivor = Survivor::read(&*cluster.disks[n]).unwrap();
    let (origin, term) = (survivor.origin(), survivor.next_term());
    let new = anew(n, reseed::beginning(&origin, NOW_MS, 0));
    let (disk, records) = (MemoryDisk::default(), survivor.records());
    let filled = match name {
        Name::Another => fill(&disk, &origin, &new, term, records).await.unwrap(),
        Name::Kept => {
            let identity = read_meta::<wire::Identity>(&*cluster.disks[n], MetaKey::Identity, "identity");
            let new = NewCluster { directory: identity.unwrap().unwrap().directory, ..new.clone() };
            let kept = |earlier: &ClusterIdentity, _: &NewCluster| {
                let (cluster, brand) = (earlier.cluster.clone(), earlier.brand.clone());
                Ok(ClusterSeed { cluster, brand, token_key: earlier.token_key })
            };
            fill_as(&disk, &origin, &new, term, records, kept).await.unwrap()
        }
    };
    check(&disk, &filled).unwrap();
    let expected = if name == Name::Kept { "c" } else { ANEW };
    assert_eq!((&*filled.made.cluster, &*filled.made.brand), (expected, "orch"));
    cluster.disks[n] = Arc::new(disk);
    cluster.restart(n).await.unwrap();
    assert_eq!(cluster.leader_among(&[n]).await, n);
    cluster.handle(n).wait_cluster().await.unwrap();
    (origin.revision, new.beginning)
}

/// A cluster whose members all have `kept0` to `kept19`; its leader and another one have more, and member `n` may lag behind.
async fn without_quorum(seed: u64, n: usize) -> Cluster {
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    known_everywhere(&cluster).await;
    write_many(&cluster, leader, "kept", 20).await;
    converge(&cluster).await;
    if seed % 2 == 1 {
        cluster.network.isolate(peer(n).id, (0..3).map(|m| peer(m).id));
        let others: Vec<usize> = (0..3).filter(|m| *m != n).collect();
        let leader = cluster.leader_among(&others).await;
        write_many(&cluster, leader, "unseen", 10).await;
    }
    for m in 0..3 {
        cluster.kill(m).await;
    }
    cluster.network.heal();
    cluster
}

/// Interval of looks at a cluster: an election takes longer.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Number of looks: five seconds, which are many election timeouts.
const LOOKS: usize = 250;

/// Looks at the new cluster of member `n` for a while in which `old` members run. An error tells what they take part in: its
/// leader or its term changes, one of them hears of its leader, or has its state.
async fn take_no_part(cluster: &Cluster, n: usize, old: &[usize], beginning: u64) -> Result<(), String> {
    let term = cluster.handle(n).status().term;
    for _ in 0..LOOKS {
        let status = cluster.handle(n).status();
        let leader = status.leader.map(|leader| leader.id);
        let members: Vec<_> = status.members.iter().map(|member| member.peer.id).collect();
        if leader != Some(peer(n).id) || members != [peer(n).id] {
            return Err(format!("the cluster of one is led by {leader:?} and has {members:?}"));
        }
        if status.term != term {
            return Err(format!(
                "its term went from {term} to {}, for a vote that is not its own",
                status.term
            ));
        }
        for m in old {
            let status = cluster.handle(*m).status();
            if status.leader.is_some_and(|leader| leader.id == peer(n).id) || status.applied.0 >= beginning {
                return Err(format!("old member {m} follows the cluster of one, at {}", status.applied));
            }
        }
        SimRuntime::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// Has member `n`, which leads, add an `old` member, whose data directory was not emptied. An error where that one gets the new
/// state: then it can be promoted, and of the two voters both are needed for the next leader, so that the old member votes.
async fn is_not_let_in_with_its_old_disk(
    cluster: &mut Cluster,
    n: usize,
    old: &[usize],
) -> Result<(), String> {
    let (m, others) = (old[0], &old[1..]);
    for other in others {
        cluster.kill(*other).await;
    }
    cluster.handle(n).add_learner(&peer(m)).await.map_err(|error| error.to_string())?;
    let beginning = cluster.handle(n).state().beginning();
    for _ in 0..LOOKS {
        SimRuntime::sleep(LOOK_EVERY).await;
    }
    if cluster.handle(m).state().applied() < beginning {
        for other in others {
            cluster.restart(*other).await.unwrap();
        }
        return Ok(());
    }
    cluster.kill(m).await;
    // It registers its disk in the new state once it starts on it, without which it is not promoted.
    cluster.restart(m).await.unwrap();
    let promoted = cluster.handle(n).promote(peer(m).id).await;
    promoted.map_err(|error| format!("old member {m} was added, and not promoted: {error}"))?;
    cluster.kill(n).await;
    cluster.restart(n).await.unwrap();
    let leader = cluster.leader_among(&[n, m]).await;
    Err(format!("member {leader} leads with the vote of old member {m}"))
}

/// Recovers one of three members under a name, then starts the others with their disks. An error tells how they took part in
/// the new cluster.
async fn old_members_are_kept_out(seed: u64, name: Name) -> Result<(), String> {
    let n = usize::try_from(seed % 3).unwrap();
    let mut cluster = without_quorum(seed, n).await;
    let (last, beginning) = recover(&mut cluster, n, name).await;
    for i in 0..20 {
        assert_eq!(value(&cluster.handle(n), &format!("kept{i}")).as_deref(), Some("1"), "kept{i} is lost");
    }
    assert!(last < beginning && cluster.handle(n).state().beginning().0 == beginning);

    let old: Vec<usize> = (0..3).filter(|m| *m != n).collect();
    for m in &old {
        cluster.restart(*m).await.unwrap();
    }
    take_no_part(&cluster, n, &old, beginning).await?;
    // Both are a majority of their own cluster, which the new one has nothing to do with.
    cluster.leader_among(&old).await;
    take_no_part(&cluster, n, &old, beginning).await?;
    is_not_let_in_with_its_old_disk(&mut cluster, n, &old).await?;
    for m in &old {
        if !cluster.network.refused_cluster(peer(*m).id, peer(n).id) {
            return Err(format!("member {m} was not refused for its cluster"));
        }
    }
    let revision = revision_of(cluster.handle(n).propose(put("after", "1")).await);
    if revision.0 <= beginning {
        return Err(format!("revision {revision} is not beyond the beginning"));
    }

    // With empty disks the others join like new members, under their old names. Both are stopped first: an
    // old member that still ran would know the other one by its earlier disk.
    for m in &old {
        cluster.kill(*m).await;
    }
    for m in old {
        cluster.disks[m] = Arc::default();
        cluster.restart(m).await.unwrap();
        cluster.handle(n).add_learner(&peer(m)).await.unwrap();
        eventually("the new member is registered", || cluster.handle(m).0.is_registered().then_some(()))
            .await;
        cluster.handle(n).promote(peer(m).id).await.unwrap();
    }
    converge(&cluster).await;
    SimRuntime::sleep(Duration::from_secs(5)).await;
    for handle in cluster.handles() {
        handle.may_serve().unwrap();
        assert_eq!(handle.state().beginning().0, beginning);
        assert_eq!(value(&handle, "after").as_deref(), Some("1"));
    }
    Ok(())
}

#[test]
fn old_members_take_no_part_in_a_recovered_cluster() {
    for seed in 0..6 {
        let kept_out = simulate(seed, old_members_are_kept_out(seed, Name::Another));
        kept_out.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// As long as the new cluster has one member, the name has nothing to keep out: that member takes the old ones for strangers,
/// since its log has no other member, and needs no vote but its own. Once one of them is added, its vote is asked for.
#[test]
fn a_recovery_that_keeps_the_cluster_s_name_is_found() {
    for seed in 0..6 {
        let found = simulate(seed, old_members_are_kept_out(seed, Name::Kept));
        let error = found.expect_err("old members took part in it and it was not found");
        assert!(error.contains("with the vote of old member"), "seed {seed}: {error}");
    }
}

#[test]
fn an_entry_that_only_the_survivor_has_is_kept() {
    simulate(3, async {
        let mut cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        write_many(&cluster, leader, "kept", 3).await;
        converge(&cluster).await;
        cluster.network.isolate(peer(leader).id, (0..3).map(|m| peer(m).id));
        let lonely = cluster.handle(leader);
        let proposed =
            SimRuntime::timeout(Duration::from_millis(200), lonely.propose(put("last", "1"))).await;
        assert!(proposed.is_err(), "it was acknowledged without a majority");
        drop(lonely);
        for m in 0..3 {
            cluster.kill(m).await;
        }
        let (_, beginning) = recover(&mut cluster, leader, Name::Another).await;
        assert_eq!(value(&cluster.handle(leader), "last").as_deref(), Some("1"));
        let state = cluster.handle(leader).state();
        let object = state.object(&key("last")).unwrap();
        assert_eq!(object.revision.0, beginning, "the version of an object does not go back either");
    });
}

/// A cluster of an older program, whose objects say nothing of the level at which the beginning is known.
#[test]
fn a_program_that_does_not_know_the_beginning_refuses_a_cluster_made_anew() {
    simulate(6, async {
        let mut cluster = Cluster::new(1);
        let level = |cluster: &Cluster| cluster.handle(0).status().feature_level;
        cluster.programs = BTreeMap::from([(0, LEVEL_BEGINNING - 1)]);
        cluster.start_and_found().await;
        cluster.leader().await;
        eventually("its level", || (level(&cluster) == LEVEL_BEGINNING - 1).then_some(())).await;
        write_many(&cluster, 0, "a", 3).await;
        let state = cluster.handle(0).state();
        let origin = Origin { cluster: "c".into(), revision: state.applied().0, time_ms: NOW_MS };
        cluster.kill(0).await;

        let (disk, records) = (MemoryDisk::default(), reseed::records(&state).map(Ok));
        let filled = fill(&disk, &origin, &anew(0, 1_000_000), 1, records).await.unwrap();
        check(&disk, &filled).unwrap();
        cluster.disks[0] = Arc::new(disk);
        for _ in 0..2 {
            let refused = cluster.restart(0).await.unwrap_err().to_string();
            assert!(refused.contains("too old") && refused.contains("upgrade it"), "{refused}");
        }
        cluster.programs.clear();
        cluster.restart(0).await.unwrap();
        cluster.leader_among(&[0]).await;
        assert!(level(&cluster) >= LEVEL_BEGINNING);
        assert_eq!(value(&cluster.handle(0), "a2").as_deref(), Some("1"));
    });
}

/// The state of an object in one revision: its JSON, `None` if it is deleted there.
type Meaning = Option<String>;

/// The knowledge of a client that lives through a restore: the objects of each revision that it saw, by path, and the place
/// of its watch.
#[derive(Default)]
struct Client {
    seen: BTreeMap<Revision, BTreeMap<String, Meaning>>,
    /// [`Client::seen`] of before the client began anew.
    before: BTreeMap<Revision, BTreeMap<String, Meaning>>,
    cursor: Revision,
}

impl Client {
    /// An error where the revision means another thing than before.
    fn see(&mut self, revision: Revision, path: &str, meaning: Meaning) -> Result<(), String> {
        if let Some(before) = self.before.get(&revision)
            && before.get(path) != Some(&meaning)
        {
            return Err(format!("revision {revision} was {before:?}, and is {path} {meaning:?}"));
        }
        let seen = self.seen.entry(revision).or_default();
        match seen.insert(path.to_owned(), meaning.clone()) {
            Some(earlier) if earlier != meaning => {
                Err(format!("revision {revision} of {path} was {earlier:?}, and is {meaning:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Reads every object, as a list does. The watch stays where it is.
    fn list(&mut self, handle: &SimHandle) -> Result<(), String> {
        let collection = handle.state().collection("configmaps");
        for (path, object) in collection.range_from("") {
            self.see(object.revision, path, Some(String::from_utf8_lossy(&object.json).into_owned()))?;
        }
        Ok(())
    }

    /// Lists after an answer that the watch's revision is too old, and watches from there on. Everything seen until now is of
    /// before.
    fn begin_anew(&mut self, handle: &SimHandle) -> Result<(), String> {
        self.before.append(&mut self.seen);
        self.cursor = handle.state().applied();
        self.list(handle)
    }

    /// Reads what is behind the cursor. `Ok(false)`: the revision is compacted. An error where a revision means another thing
    /// than before.
    fn watch(&mut self, handle: &SimHandle) -> Result<bool, String> {
        let state = handle.state();
        let collection = state.collection("configmaps");
        let Ok(changes) = collection.changes_after(self.cursor) else { return Ok(false) };
        for change in changes {
            let text = change.new.as_ref().map(|object| String::from_utf8_lossy(&object.json).into_owned());
            self.see(change.revision, &change.path, text)?;
        }
        self.cursor = self.cursor.max(state.applied());
        Ok(true)
    }
}

/// The way in which a client learned of changes after the restored point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saw {
    /// By its watch, which is at the end.
    Watching,
    /// By a list; its watch is at the restored point.
    Listing,
}

/// Restores the objects of an early point of a cluster that went on, and lets a client that saw all of it go on. An error where
/// it is not told to begin again, or meets a revision a second time.
async fn clients_begin_again(saw: Saw, beginning: impl Fn(&Origin) -> u64) -> Result<(), String> {
    let mut cluster = Cluster::start(1).await;
    let leader = cluster.leader().await;
    known_everywhere(&cluster).await;
    write_many(&cluster, leader, "a", 10).await;
    let mut client = Client::default();
    assert_eq!(client.watch(&cluster.handle(leader)), Ok(true));
    let state = cluster.handle(leader).state();
    let origin = Origin { cluster: "c".into(), revision: state.applied().0, time_ms: NOW_MS };
    write_many(&cluster, leader, "b", 40).await;
    match saw {
        Saw::Watching => assert_eq!(client.watch(&cluster.handle(leader)), Ok(true)),
        Saw::Listing => assert_eq!(client.list(&cluster.handle(leader)), Ok(())),
    }
    cluster.kill(leader).await;

    let new = anew(leader, beginning(&origin));
    let disk = MemoryDisk::default();
    let records = reseed::records(&state).map(Ok);
    let filled = fill(&disk, &origin, &new, 1, records).await.unwrap();
    check(&disk, &filled).unwrap();
    cluster.disks[leader] = Arc::new(disk);
    cluster.restart(leader).await.unwrap();
    cluster.leader_among(&[leader]).await;
    write_many(&cluster, leader, "c", 80).await;
    let handle = cluster.handle(leader);
    if client.watch(&handle)? {
        return Err("a watch went on over the restore".to_owned());
    }
    // A resource that had no object at that point, and may have had some since.
    if handle.state().collection("secrets").changes_after(client.cursor).is_ok() {
        return Err("a watch of another resource went on over the restore".to_owned());
    }
    client.begin_anew(&handle)?;
    let relisted = handle.state().collection("configmaps");
    assert!(relisted.get("ns/a9").is_some() && relisted.get("ns/b0").is_none());
    write_many(&cluster, leader, "d", 5).await;
    if !client.watch(&handle)? {
        return Err("a watch from a revision of the new cluster is refused".to_owned());
    }
    Ok(())
}

#[test]
fn clients_begin_again_once_after_a_restore() {
    for saw in [Saw::Watching, Saw::Listing] {
        let begun = simulate(5, clients_begin_again(saw, |origin| reseed::beginning(origin, NOW_MS, 0)));
        assert_eq!(begun, Ok(()), "{saw:?}");
    }
}

#[test]
fn a_restore_that_gives_out_revisions_again_is_found() {
    let error = simulate(5, clients_begin_again(Saw::Watching, |origin| origin.revision + 1)).unwrap_err();
    assert!(error.contains("went on") || error.contains("and is"), "{error}");
}

/// The watch is told to begin anew, as it should be, and the list then has revisions that the client knows.
#[test]
fn a_restore_that_gives_out_revisions_again_is_found_where_the_watch_is_refused() {
    let error = simulate(5, clients_begin_again(Saw::Listing, |origin| origin.revision + 1)).unwrap_err();
    assert!(error.contains("and is ns/"), "{error}");
}
