//! Changes of the voters after which those left must know each other, whichever majority of them lives.

use super::casts::{converge, join_as_voter, known_everywhere};
use super::*;
use crate::Runtime;
use crate::transport::Purpose;

async fn lead(cluster: &Cluster, n: usize) {
    let now = cluster.leader().await;
    if now != n {
        cluster.handle(now).transfer_leader(peer(n).id).await.unwrap();
    }
    eventually("the lead", || cluster.handle(n).is_leader().then_some(())).await;
    SimRuntime::sleep(Duration::from_secs(1)).await;
}

/// A cluster of three whose leader soon has only a snapshot for a member that lags.
async fn with_small_logs() -> Cluster {
    let mut cluster = casts::with_small_logs(3);
    cluster.start_and_found().await;
    known_everywhere(&cluster).await;
    cluster
}

async fn busy(cluster: &Cluster, n: usize, writes: usize) {
    for i in 0..writes {
        revision_of(cluster.handle(n).propose(put("busy", &format!("{i}"))).await);
    }
    SimRuntime::sleep(Duration::from_secs(3)).await;
}

/// Adds a learner and waits until everybody has applied its registration.
async fn add_registered(cluster: &mut Cluster, leader: usize) -> usize {
    let fresh = cluster.join().await;
    cluster.handle(leader).add_learner(&peer(fresh)).await.unwrap();
    eventually("registered everywhere", || {
        let knows = |handle: &SimHandle| {
            crate::member::identity::registered(&handle.state(), peer(fresh).id).is_some()
        };
        cluster.handles().iter().all(knows).then_some(())
    })
    .await;
    converge(cluster).await;
    fresh
}

/// Which founder is away in `promoted_while_away`.
const AWAY: usize = 2;

/// Three founders, and a fourth member that became a voter while `AWAY` did not run: the leader's number and the fourth's.
async fn promoted_while_away() -> (Cluster, usize, usize) {
    let mut cluster = Cluster::start(3).await;
    known_everywhere(&cluster).await;
    lead(&cluster, 1).await;
    let fresh = add_registered(&mut cluster, 1).await;
    cluster.kill(AWAY).await;
    let leader = cluster.leader().await;
    cluster.handle(leader).promote(peer(fresh).id).await.unwrap();
    (cluster, leader, fresh)
}

/// The one that is away knows the newer one as a learner; it lets in voters of its own log only.
#[test]
fn a_learner_that_became_a_voter_is_new_to_those_that_were_away() {
    simulate(900, async {
        let (mut cluster, leader, fresh) = promoted_while_away().await;
        let (away, replaced) = (AWAY, 1 - leader);
        let refused = cluster.handle(leader).remove(peer(replaced).id).await.unwrap_err();
        let reason = format!("n{away} would not know n{fresh} if the others were lost");
        assert!(refused.to_string().contains(&reason), "{refused}");
        revision_of(cluster.handle(fresh).propose(put("acknowledged", "1")).await);
        // Once it has the promotion the removal is made, and the two find together when the others are lost.
        cluster.restart(away).await.unwrap();
        converge(&cluster).await;
        cluster.handle(leader).remove(peer(replaced).id).await.unwrap();
        cluster.kill(replaced).await;
        cluster.kill(leader).await;
        let now = cluster.leader_among(&[away, fresh]).await;
        assert_eq!(value(&cluster.handle(now), "acknowledged").as_deref(), Some("1"));
    });
}

/// It answers heartbeats, and the state it needs does not come: a slow network, a disk without room for a second state.
#[test]
fn one_that_answers_and_lags_is_waited_for() {
    simulate(901, async {
        let mut cluster = with_small_logs().await;
        let lagging = 2;
        lead(&cluster, 1).await;
        cluster.kill(lagging).await;
        let leader = cluster.leader().await;
        busy(&cluster, leader, 500).await;
        let fresh = join_as_voter(&mut cluster, leader).await;
        cluster.network.refuse(Purpose::Snapshot, peer(lagging).id, true);
        cluster.restart(lagging).await.unwrap();
        SimRuntime::sleep(Duration::from_secs(5)).await;
        let leader = cluster.leader().await;
        let replaced = 1 - leader;
        let refused = cluster.handle(leader).remove(peer(replaced).id).await.unwrap_err();
        assert!(refused.to_string().contains(&format!("n{lagging} has not received")), "{refused}");
        // With the three that know each other gone but for one, it is let in by that one.
        revision_of(cluster.handle(fresh).propose(put("acknowledged", "1")).await);
        cluster.network.refuse(Purpose::Snapshot, peer(lagging).id, false);
        cluster.kill(leader).await;
        let now = cluster.leader_among(&[replaced, lagging, fresh]).await;
        assert_eq!(value(&cluster.handle(now), "acknowledged").as_deref(), Some("1"));
    });
}

/// As before, but it is silent again: its start was registered through the leader, its log is old.
#[test]
fn a_registration_does_not_say_that_the_log_came() {
    simulate(910, async {
        let mut cluster = with_small_logs().await;
        let away = 2;
        lead(&cluster, 1).await;
        cluster.kill(away).await;
        let leader = cluster.leader().await;
        busy(&cluster, leader, 500).await;
        join_as_voter(&mut cluster, leader).await;
        cluster.network.refuse(Purpose::Snapshot, peer(away).id, true);
        cluster.restart(away).await.unwrap();
        SimRuntime::sleep(Duration::from_secs(10)).await;
        cluster.kill(away).await;
        SimRuntime::sleep(Duration::from_secs(2)).await;
        let leader = cluster.leader().await;
        let refused = cluster.handle(leader).remove(peer(1 - leader).id).await.unwrap_err();
        assert!(refused.to_string().contains("would not know"), "{refused}");
        // It may go itself, which leaves those that know each other.
        cluster.handle(leader).remove(peer(away).id).await.unwrap();
        cluster.handle(leader).remove(peer(1 - leader).id).await.unwrap();
    });
}

/// A leader that has just been elected knows nothing of the silent ones but that they know the founders.
#[test]
fn several_that_are_away_can_be_removed_one_after_the_other() {
    simulate(911, async {
        let mut cluster = Cluster::start(3).await;
        known_everywhere(&cluster).await;
        let first = cluster.leader().await;
        for _ in 0..2 {
            let fresh = add_registered(&mut cluster, first).await;
            cluster.handle(first).promote(peer(fresh).id).await.unwrap();
        }
        let away: Vec<usize> = (0..5).filter(|n| *n != first).skip(2).collect();
        let rest: Vec<usize> = (0..5).filter(|n| !away.contains(n)).collect();
        for n in &away {
            cluster.kill(*n).await;
        }
        let next = *rest.iter().find(|n| **n != first).unwrap();
        cluster.handle(first).transfer_leader(peer(next).id).await.unwrap();
        let leader = eventually("the lead", || cluster.handle(next).is_leader().then_some(next)).await;
        for n in away {
            cluster.handle(leader).remove(peer(n).id).await.unwrap();
        }
        revision_of(cluster.handle(leader).propose(put("a", "1")).await);
    });
}

/// To a leader that was elected a moment ago everybody seems to lack the newest voters, also whoever has them and is to go.
#[test]
fn a_leader_that_was_just_elected_does_not_take_a_voter_for_one_that_vouches_for_nobody() {
    simulate(920, async {
        let (cluster, first, fresh) = promoted_while_away().await;
        let (away, replaced) = (AWAY, 1 - first);
        // It votes and answers, and its first acknowledgement is on the way.
        cluster.network.refuse(Purpose::Append, peer(replaced).id, true);
        cluster.handle(first).transfer_leader(peer(fresh).id).await.unwrap();
        eventually("the lead", || cluster.handle(fresh).is_leader().then_some(())).await;
        let refused = cluster.handle(fresh).remove(peer(replaced).id).await.unwrap_err();
        let reason = format!("n{away} would not know n{fresh} if the others were lost");
        assert!(refused.to_string().contains(&reason), "{refused}");
    });
}
