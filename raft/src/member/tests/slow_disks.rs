//! A leader whose disk is slow gives up the lead, and one whose peers are no faster does not.

use futures::future::join;

use super::*;
use crate::Runtime;

/// Time until every member has told its figures to all others: two rounds of the comparison.
const TOLD: Duration = Duration::from_secs(5);

/// A cluster of three in which each member has appended and told so, and the number of its leader.
async fn settled() -> (Cluster, usize) {
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    for at in 0..10 {
        revision_of(cluster.handle(leader).propose(create(&format!("a{at}"), "x")).await);
    }
    SimRuntime::sleep(TOLD).await;
    (cluster, leader)
}

#[test]
fn a_leader_whose_disk_hangs_hands_over_and_writes_go_on() {
    for seed in 470..480 {
        simulate(seed, async {
            let (cluster, slow) = settled().await;
            let term = cluster.handle(slow).status().term;
            cluster.disks[slow].hang();
            let other = (slow + 1) % 3;
            let writer = cluster.handle(other);
            let writing = writer.propose(create("b", "y"));
            let replaced = eventually("another leader", || {
                let mut all = (0..3).filter(|n| *n != slow).map(|n| cluster.handle(n).status());
                all.any(|status| status.term > term && status.role == Role::Leader).then_some(())
            });
            let (written, ()) = join(writing, replaced).await;
            let written = match written {
                Ok(outcome) => revision_of(Ok(outcome)),
                // Its outcome was unknown in the change of the leader.
                Err(_) => revision_of(writer.propose(put("b", "y")).await),
            };
            assert!(written.0 > 0 && cluster.handle(slow).status().slow_disk_handovers == 1, "seed {seed}");
            let told = cluster.handle(other).status();
            let figures = told.members.iter().find(|member| member.peer.id == peer(other).id).unwrap();
            assert!(figures.syncs.unwrap().count > 0, "seed {seed}");
            cluster.disks[slow].go_on();
            eventually("it catches up", || (value(&cluster.handle(slow), "b")? == "y").then_some(())).await;
        });
    }
}

#[test]
fn a_leader_stays_where_no_other_disk_is_faster() {
    simulate(480, async {
        let (cluster, leader) = settled().await;
        (0..3).for_each(|n| cluster.disks[n].hang());
        let writer = cluster.handle(leader);
        let writing = writer.propose(create("b", "y"));
        let waited = async {
            // Until the others have told that their disks hang, the figures of before count.
            SimRuntime::sleep(Duration::from_secs(20)).await;
            (0..3).for_each(|n| cluster.disks[n].go_on());
        };
        let (_, ()) = join(writing, waited).await;
        let handovers: u64 = (0..3).map(|n| cluster.handle(n).status().slow_disk_handovers).sum();
        assert!(handovers <= 1, "the lead goes to and fro: {handovers}");
        cluster.leader().await;
    });
}
