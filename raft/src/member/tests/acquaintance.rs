//! Membership changes are refused if some majority of the voters left would not know each other.

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

/// A started cluster of three with short logs: a member that lags needs a snapshot.
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

/// Adds a learner and waits until every member has applied its registration.
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

/// The founder that is stopped in `promoted_while_away`.
const AWAY: usize = 2;

/// Three founders, and a fourth member that became a voter while `AWAY` was stopped. Returns the leader and the fourth.
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

/// The member that is away knows the fourth only as a learner, and lets in only voters of its own log.
#[test]
fn a_learner_that_became_a_voter_is_new_to_those_that_were_away() {
    simulate(900, async {
        let (mut cluster, leader, fresh) = promoted_while_away().await;
        let (away, replaced) = (AWAY, 1 - leader);
        let refused = cluster.handle(leader).remove(peer(replaced).id).await.unwrap_err();
        let reason = format!("n{away} would not know n{fresh} if the others were lost");
        assert!(refused.to_string().contains(&reason), "{refused}");
        revision_of(cluster.handle(fresh).propose(put("acknowledged", "1")).await);
        // With the promotion in its log the removal is allowed, and the two elect a leader when the others are lost.
        cluster.restart(away).await.unwrap();
        converge(&cluster).await;
        cluster.handle(leader).remove(peer(replaced).id).await.unwrap();
        cluster.kill(replaced).await;
        cluster.kill(leader).await;
        let now = cluster.leader_among(&[away, fresh]).await;
        assert_eq!(value(&cluster.handle(now), "acknowledged").as_deref(), Some("1"));
    });
}

/// The lagging voter answers heartbeats, but cannot receive the snapshot it needs: a slow network, or a disk without
/// room for a second state.
#[test]
fn a_member_that_answers_and_lags_is_waited_for() {
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
        // Of the members that know the fourth, `replaced` is left: it vouches for the fourth to the lagging one.
        revision_of(cluster.handle(fresh).propose(put("acknowledged", "1")).await);
        cluster.network.refuse(Purpose::Snapshot, peer(lagging).id, false);
        cluster.kill(leader).await;
        let now = cluster.leader_among(&[replaced, lagging, fresh]).await;
        assert_eq!(value(&cluster.handle(now), "acknowledged").as_deref(), Some("1"));
    });
}

/// As before, but the lagging voter is stopped again: its start was registered through the leader, and its log is old.
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
        // Its own removal is allowed: the voters left know each other.
        cluster.handle(leader).remove(peer(away).id).await.unwrap();
        cluster.handle(leader).remove(peer(1 - leader).id).await.unwrap();
    });
}

/// A newly elected leader knows of silent voters only that they know the founders.
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

/// To a newly elected leader every voter seems to lack the newest voters, also the one to be removed, which has them.
#[test]
fn a_leader_that_was_just_elected_does_not_take_a_voter_for_one_that_vouches_for_nobody() {
    simulate(920, async {
        let (cluster, first, fresh) = promoted_while_away().await;
        let (away, replaced) = (AWAY, 1 - first);
        // The voter to be removed votes and answers heartbeats, but its first acknowledgement is still under way.
        cluster.network.refuse(Purpose::Append, peer(replaced).id, true);
        cluster.handle(first).transfer_leader(peer(fresh).id).await.unwrap();
        eventually("the lead", || cluster.handle(fresh).is_leader().then_some(())).await;
        let refused = cluster.handle(fresh).remove(peer(replaced).id).await.unwrap_err();
        let reason = format!("n{away} would not know n{fresh} if the others were lost");
        assert!(refused.to_string().contains(&reason), "{refused}");
    });
}
