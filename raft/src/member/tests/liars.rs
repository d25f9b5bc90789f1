//! A removed member's address in an attacker's hands: it has no power over members that were away.

use orch_proto::store as wire;

use super::casts::{Seat, ended, with_liar};
use super::impostors::{ask, forged};
use super::*;
use crate::Runtime;

const SOON: Duration = Duration::from_secs(2);

/// Longer than any effect of a lie takes.
const LONG: Duration = Duration::from_secs(30);

/// Sends forged heartbeats of `from`, so that `to` asks other members about it. Returns the result of the last one.
async fn lead_falsely(cluster: &Cluster, from: usize, to: usize) -> Result<(), String> {
    let status = cluster.handle(to).status();
    let mut answer = Ok(());
    for _ in 0..20 {
        let heartbeat = forged(from, status.last_log, status.term);
        answer = ask(cluster, from, to, heartbeat, wire::Recall::default()).await.map(drop);
        SimRuntime::sleep(Duration::from_millis(100)).await;
    }
    answer
}

#[test]
fn a_removed_member_ends_nobody_for_ever() {
    for (seed, seat) in [(904, Seat::Learner), (914, Seat::Voter)] {
        simulate(seed, async move {
            let lie = wire::IdentityResponse { starts: 1000, incarnation: 77, ..Default::default() };
            let (mut cluster, roles) = with_liar(lie, seat).await;
            cluster.restart(roles.away).await.unwrap();
            assert_eq!(ended(&cluster, roles.away, LONG).await, None);
            let at = revision_of(cluster.handle(roles.leader).propose(put("a", "1")).await);
            assert!(cluster.handle(roles.away).wait_applied(at, LONG).await);
            cluster.kill(roles.away).await;
            cluster.restart(roles.away).await.unwrap();
        });
    }
}

/// The same without another member to ask.
#[test]
fn a_removed_member_alone_with_one_marks_no_disk() {
    for (seed, seat) in [(924, Seat::Learner), (925, Seat::Voter)] {
        simulate(seed, async move {
            let lie = wire::IdentityResponse { starts: 1000, incarnation: 77, ..Default::default() };
            let (mut cluster, roles) = with_liar(lie, seat).await;
            cluster.kill(roles.leader).await;
            cluster.kill(roles.follower).await;
            cluster.restart(roles.away).await.unwrap();
            assert_eq!(ended(&cluster, roles.away, LONG).await, None);
            // A member is back, and the two elect a leader.
            cluster.restart(roles.leader).await.unwrap();
            let now = cluster.leader_among(&[roles.leader, roles.away]).await;
            assert_eq!(value(&cluster.handle(now), "acknowledged").as_deref(), Some("1"));
        });
    }
}

/// An accusation does not outlive the accuser's silence (found by a simulation).
#[test]
fn a_removed_member_that_has_fallen_silent_keeps_nobody_out() {
    simulate(926, async {
        let lie = wire::IdentityResponse { starts: 1000, incarnation: 77, ..Default::default() };
        let (mut cluster, roles) = with_liar(lie, Seat::Voter).await;
        cluster.kill(roles.leader).await;
        cluster.kill(roles.follower).await;
        cluster.restart(roles.away).await.unwrap();
        eventually("it is accused", || cluster.handle(roles.away).0.is_accused().then_some(())).await;
        cluster.network.unserve(peer(roles.liar).id);
        cluster.restart(roles.leader).await.unwrap();
        let now = cluster.leader_among(&[roles.leader, roles.away]).await;
        assert_eq!(value(&cluster.handle(now), "acknowledged").as_deref(), Some("1"));
    });
}

#[test]
fn a_removed_learner_keeps_no_majority_from_electing() {
    simulate(905, async {
        let lie = wire::IdentityResponse { about_removed: true, ..Default::default() };
        let (mut cluster, roles) = with_liar(lie, Seat::Learner).await;
        cluster.kill(roles.follower).await;
        cluster.restart(roles.away).await.unwrap();
        let now = cluster.leader_among(&[roles.leader, roles.away]).await;
        assert_eq!(value(&cluster.handle(now), "acknowledged").as_deref(), Some("1"));
    });
}

/// A former voter's word counts against another voter's: two other voters must be reachable.
#[test]
fn a_removed_voter_keeps_nobody_from_following_that_reaches_two_others() {
    simulate(915, async {
        let lie = wire::IdentityResponse { about_removed: true, removed: true, ..Default::default() };
        let (mut cluster, roles) = with_liar(lie, Seat::Voter).await;
        cluster.restart(roles.away).await.unwrap();
        let at = revision_of(cluster.handle(roles.leader).propose(put("a", "1")).await);
        assert!(cluster.handle(roles.away).wait_applied(at, LONG).await);
    });
}

#[test]
fn a_removed_member_ends_nobody_by_saying_it_was_removed() {
    for (seed, seat) in [(906, Seat::Learner), (916, Seat::Voter)] {
        simulate(seed, async move {
            let lie = wire::IdentityResponse { removed: true, ..Default::default() };
            let (mut cluster, roles) = with_liar(lie, seat).await;
            cluster.kill(roles.leader).await;
            cluster.kill(roles.follower).await;
            for _ in 0..2 {
                cluster.restart(roles.away).await.unwrap();
                assert_eq!(ended(&cluster, roles.away, LONG).await, None);
                cluster.kill(roles.away).await;
            }
        });
    }
}

/// Two certificates: one of a removed learner, which vouches for the other.
#[test]
fn a_removed_learner_vouches_for_nobody() {
    simulate(907, async {
        let lie = wire::IdentityResponse { about_member: true, confirmed: true, ..Default::default() };
        let (mut cluster, roles) = with_liar(lie, Seat::Learner).await;
        cluster.kill(roles.leader).await;
        cluster.kill(roles.follower).await;
        cluster.restart(roles.away).await.unwrap();
        SimRuntime::sleep(SOON).await;
        let end = cluster.handle(roles.away).status().last_log;
        let answer = lead_falsely(&cluster, 9, roles.away).await;
        assert!(answer.as_ref().is_err_and(|refused| refused.contains("no member knows")), "{answer:?}");
        assert_eq!(cluster.handle(roles.away).status().last_log, end, "a stranger writes the log");
    });
}

/// A former voter's word is not enough while a member that follows a leader can be asked.
#[test]
fn a_removed_voter_vouches_for_nobody_beside_a_member() {
    simulate(917, async {
        let lie = wire::IdentityResponse { about_member: true, confirmed: true, ..Default::default() };
        let (mut cluster, roles) = with_liar(lie, Seat::Voter).await;
        // The leader does not reach the member; a follower of that leader does.
        cluster.network.isolate(peer(roles.away).id, [peer(roles.leader).id].into_iter());
        cluster.restart(roles.away).await.unwrap();
        SimRuntime::sleep(SOON).await;
        let answer = lead_falsely(&cluster, 9, roles.away).await;
        assert!(answer.as_ref().is_err_and(|refused| refused.contains("no member knows")), "{answer:?}");
        assert!(cluster.handle(roles.away).status().term < 30);
    });
}
