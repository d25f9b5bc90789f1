//! Clusters made anew: from a survivor's disk after the quorum is lost, and from the objects of an earlier point.
//!
//! Owns two judgements, each of which a planted bug must fail: members of the earlier cluster are kept out of the new one, by
//! its name; and no client that held a revision of the earlier one goes on from it, nor meets it again.

use std::collections::BTreeMap;

use super::casts::{converge, known_everywhere, write_many};
use super::*;
use crate::Runtime;
use crate::member::reseed::{self, NewCluster, Origin, Survivor, fill};

/// The clock of the operator who makes the cluster: a minute after the members' clocks began.
const NOW_MS: u64 = 1_060_000;

/// The new cluster's name; the members of `Cluster` found "c".
const ANEW: &str = "anew";

fn anew(n: usize, beginning: u64) -> NewCluster {
    let seed = ClusterSeed { cluster: ANEW.into(), brand: "unused".into(), token_key: [9; 32] };
    NewCluster { member: peer(n), seed, directory: "new disk".into(), now_ms: NOW_MS, beginning }
}

/// Makes a cluster of one from the disk of member `n`, which is stopped, and starts it. Returns the last entry that was kept,
/// and the beginning.
async fn recover(cluster: &mut Cluster, n: usize) -> (u64, u64) {
    let survivor = Survivor::read(&*cluster.disks[n]).unwrap();
    let origin = survivor.origin();
    let new = anew(n, reseed::beginning(&origin, NOW_MS, 0));
    let disk = MemoryDisk::default();
    let records = survivor.records();
    let made = fill(&disk, &origin, &new, survivor.next_term(), records).await.unwrap();
    assert_eq!((&*made.cluster, &*made.brand), (ANEW, "orch"));
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

/// Recovers one of three members, then starts the others with their disks. An error tells how they were not kept out by the
/// name of their cluster. With `keeps_name` the recovered member goes by the old name, which is the planted bug.
async fn old_members_are_kept_out(seed: u64, keeps_name: bool) -> Result<(), String> {
    let n = usize::try_from(seed % 3).unwrap();
    let mut cluster = without_quorum(seed, n).await;
    let (last, beginning) = recover(&mut cluster, n).await;
    if keeps_name {
        cluster.network.pin(peer(n).id, Some("c".into()));
    }
    for i in 0..20 {
        assert_eq!(value(&cluster.handle(n), &format!("kept{i}")).as_deref(), Some("1"), "kept{i} is lost");
    }
    assert!(last < beginning && cluster.handle(n).state().beginning().0 == beginning);

    let old: Vec<usize> = (0..3).filter(|m| *m != n).collect();
    for m in &old {
        cluster.restart(*m).await.unwrap();
    }
    // Both are a majority of their own cluster, which the new one has nothing to do with.
    cluster.leader_among(&old).await;
    SimRuntime::sleep(Duration::from_secs(5)).await;
    for m in &old {
        if !cluster.network.refused_cluster(peer(*m).id, peer(n).id) {
            return Err(format!("member {m} was not refused for its cluster"));
        }
    }
    let status = cluster.handle(n).status();
    let members: Vec<_> = status.members.iter().map(|member| member.peer.id).collect();
    if members != [peer(n).id] || status.leader.map(|leader| leader.id) != Some(peer(n).id) {
        return Err(format!("the cluster of one has {members:?}"));
    }
    let revision = revision_of(cluster.handle(n).propose(put("after", "1")).await);
    if revision.0 <= beginning {
        return Err(format!("revision {revision} is not beyond the beginning"));
    }

    // Emptied, the others join like any new member, under their old names. One that ran with its old data would know the
    // other with another disk.
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
        let kept_out = simulate(seed, old_members_are_kept_out(seed, false));
        kept_out.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn a_recovery_that_keeps_the_cluster_s_name_is_found() {
    let error = simulate(0, old_members_are_kept_out(0, true)).unwrap_err();
    assert!(error.contains("not refused for its cluster"), "{error}");
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
        let (_, beginning) = recover(&mut cluster, leader).await;
        assert_eq!(value(&cluster.handle(leader), "last").as_deref(), Some("1"));
        let state = cluster.handle(leader).state();
        let object = state.object(&key("last")).unwrap();
        assert_eq!(object.revision.0, beginning, "the version of an object does not go back either");
    });
}

/// What a client that lives through a restore holds: the meaning of each revision that it saw, and where its watch is.
#[derive(Default)]
struct Client {
    seen: BTreeMap<Revision, String>,
    cursor: Revision,
}

impl Client {
    /// Reads what is behind the cursor. `Ok(false)`: the revision is compacted. An error where a revision means another thing
    /// than before.
    fn watch(&mut self, handle: &SimHandle) -> Result<bool, String> {
        let state = handle.state();
        let collection = state.collection("configmaps");
        let Ok(changes) = collection.changes_after(self.cursor) else { return Ok(false) };
        for change in changes {
            let text = change.new.as_ref().map(|object| String::from_utf8_lossy(&object.json).into_owned());
            let meaning = format!("{} {text:?}", change.path);
            if let Some(before) = self.seen.insert(change.revision, meaning.clone())
                && before != meaning
            {
                return Err(format!("revision {} was {before}, and is {meaning}", change.revision));
            }
        }
        self.cursor = self.cursor.max(state.applied());
        Ok(true)
    }
}

/// Restores the objects of an early point of a cluster that went on, and lets a client that saw all of it go on. An error where
/// it is not told to begin again, or meets a revision a second time.
async fn clients_begin_again(beginning: impl Fn(&Origin) -> u64) -> Result<(), String> {
    let mut cluster = Cluster::start(1).await;
    let leader = cluster.leader().await;
    known_everywhere(&cluster).await;
    write_many(&cluster, leader, "a", 10).await;
    let mut client = Client::default();
    assert_eq!(client.watch(&cluster.handle(leader)), Ok(true));
    let state = cluster.handle(leader).state();
    let origin = Origin { cluster: "c".into(), revision: state.applied().0, time_ms: NOW_MS };
    write_many(&cluster, leader, "b", 40).await;
    assert_eq!(client.watch(&cluster.handle(leader)), Ok(true));
    cluster.kill(leader).await;

    let new = anew(leader, beginning(&origin));
    let disk = MemoryDisk::default();
    let records = reseed::records(&state).map(Ok);
    fill(&disk, &origin, &new, 1, records).await.unwrap();
    cluster.disks[leader] = Arc::new(disk);
    cluster.restart(leader).await.unwrap();
    cluster.leader_among(&[leader]).await;
    write_many(&cluster, leader, "c", 80).await;
    if client.watch(&cluster.handle(leader))? {
        return Err("a watch went on over the restore".to_owned());
    }
    // A resource that had no object at that point, and may have had some since.
    let state = cluster.handle(leader).state();
    if state.collection("secrets").changes_after(client.cursor).is_ok() {
        return Err("a watch of another resource went on over the restore".to_owned());
    }
    let relisted = state.collection("configmaps");
    assert!(relisted.get("ns/a9").is_some() && relisted.get("ns/b0").is_none());
    client.cursor = state.applied();
    write_many(&cluster, leader, "d", 5).await;
    if !client.watch(&cluster.handle(leader))? {
        return Err("a watch from a revision of the new cluster is refused".to_owned());
    }
    Ok(())
}

#[test]
fn clients_begin_again_once_after_a_restore() {
    let begun = simulate(5, clients_begin_again(|origin| reseed::beginning(origin, NOW_MS, 0)));
    assert_eq!(begun, Ok(()));
}

#[test]
fn a_restore_that_gives_out_revisions_again_is_found() {
    let error = simulate(5, clients_begin_again(|origin| origin.revision + 1)).unwrap_err();
    assert!(error.contains("went on") || error.contains("and is"), "{error}");
}
