//! Trust in peers that a member's log may lack or still have, and in peers that call its disk old.

use orch_proto::store as wire;
use wire::control_request::Kind as Request;

use super::casts::{
    copy, ended, grown_from_one, join_as_voter, known_everywhere, majority_loses, write_many,
};
use super::impostors::{ballot, forged};
use super::*;
use crate::Runtime;

const SOON: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(60);

/// Sends `request` from `from` to `to`, with the claim to know `starts` starts of that disk.
async fn ask(cluster: &Cluster, from: usize, to: usize, request: Request, starts: u64) -> Result<(), String> {
    let recall = wire::Recall { starts, incarnation: 5, ..wire::Recall::default() };
    impostors::ask(cluster, from, to, request, recall).await.map(drop)
}

/// The member that was away still has the removed one in its log.
#[test]
fn a_removed_member_finds_nobody_that_has_not_heard_of_it() {
    simulate(320, async {
        let mut cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        let removed = cluster.join().await;
        cluster.handle(leader).add_learner(&peer(removed)).await.unwrap();
        known_everywhere(&cluster).await;
        let away = (leader + 1) % 3;
        cluster.kill(away).await;
        cluster.handle(leader).remove(peer(removed).id).await.unwrap();
        write_many(&cluster, leader, "a", 50).await;
        cluster.kill(removed).await;
        // For a moment the member reaches no other.
        cluster.network.isolate(peer(away).id, (0..3).map(|n| peer(n).id));
        cluster.restart(away).await.unwrap();
        let end = cluster.handle(away).status().last_log;
        for request in [forged(removed, end, 1), Request::Vote(ballot(removed, 40))] {
            let answer = ask(&cluster, removed, away, request, 0).await;
            assert!(answer.as_ref().is_err_and(|refused| refused.contains("no member knows")), "{answer:?}");
        }
        cluster.network.heal();
        let at = revision_of(cluster.handle(leader).propose(put("b", "1")).await);
        assert!(cluster.handle(away).wait_applied(at, LONG).await);
    });
}

/// Without an answer of another member no stranger is let in.
#[test]
fn a_member_alone_lets_no_stranger_in() {
    for members in [1, 3] {
        simulate(321, async move {
            let mut cluster = Cluster::start(members).await;
            cluster.leader().await;
            known_everywhere(&cluster).await;
            for n in 0..members {
                cluster.kill(n).await;
            }
            cluster.restart(0).await.unwrap();
            let end = cluster.handle(0).status().last_log;
            for request in [forged(9, end, 1), Request::Vote(ballot(9, 40)), Request::PreVote(ballot(9, 40))]
            {
                let answer = ask(&cluster, 9, 0, request, 0).await;
                let refused = answer.as_ref().is_err_and(|refused| refused.contains("no member knows"));
                assert!(refused, "{members}: {answer:?}");
            }
            assert!(cluster.handle(0).status().term < 30);
        });
    }
}

/// A stranger's word does not mark a disk as an older copy.
#[test]
fn a_stranger_that_calls_a_disk_old_is_not_believed() {
    simulate(322, async {
        let mut cluster = Cluster::start(3).await;
        cluster.leader().await;
        known_everywhere(&cluster).await;
        for n in 0..3 {
            cluster.kill(n).await;
        }
        cluster.restart(0).await.unwrap();
        ask(&cluster, 9, 0, Request::PreVote(ballot(9, 9)), 1000).await.unwrap_err();
        assert_eq!(ended(&cluster, 0, SOON).await, None);
        cluster.restart(1).await.unwrap();
        cluster.leader_among(&[0, 1]).await;
    });
}

/// The copy knows no other member, and leads before it hears of them.
#[test]
fn a_copy_from_before_others_joined_ends_when_it_hears_of_them() {
    simulate(323, async {
        let (mut cluster, alone) = grown_from_one().await;
        for n in 0..3 {
            cluster.kill(n).await;
        }
        cluster.disks[0] = alone;
        cluster.restart(0).await.unwrap();
        SimRuntime::sleep(SOON).await;
        revision_of(cluster.handle(0).propose(put("forked", "1")).await);
        cluster.restart(1).await.unwrap();
        cluster.restart(2).await.unwrap();
        let reason = ended(&cluster, 0, LONG).await;
        assert!(reason.as_ref().is_some_and(|reason| reason.contains("older copy")), "{reason:?}");
        let leader = cluster.leader_among(&[1, 2]).await;
        assert_eq!(value(&cluster.handle(leader), "a").as_deref(), Some("1"));
    });
}

/// Two of five voters are away while a third is replaced: with two more lost they would not know the new voter.
#[test]
fn those_away_must_not_be_left_alone_with_one_they_do_not_know() {
    simulate(324, async {
        let mut cluster = Cluster::start(5).await;
        let leader = cluster.leader().await;
        known_everywhere(&cluster).await;
        let rest: Vec<usize> = (0..5).filter(|n| *n != leader).collect();
        let (away, also_away, replaced, lost) = (rest[0], rest[1], rest[2], rest[3]);
        cluster.kill(away).await;
        cluster.kill(also_away).await;
        let fresh = join_as_voter(&mut cluster, leader).await;
        let refused = cluster.handle(leader).remove(peer(replaced).id).await.unwrap_err();
        assert!(refused.to_string().contains("would not know"), "{refused}");
        // One of the voters that are away may be removed instead.
        cluster.handle(leader).remove(peer(away).id).await.unwrap();
        revision_of(cluster.handle(leader).propose(put("a", "1")).await);
        cluster.kill(lost).await;
        cluster.kill(leader).await;
        cluster.restart(also_away).await.unwrap();
        let now = cluster.leader_among(&[also_away, replaced, fresh]).await;
        assert_eq!(value(&cluster.handle(now), "a").as_deref(), Some("1"));
    });
}

#[test]
fn the_one_that_keeps_what_a_majority_lost_is_not_repaired() {
    simulate(915, async {
        let mut cluster = Cluster::start(3).await;
        // Past a checkpoint, at which the members compare digests.
        let right = majority_loses(&mut cluster, 400, 290).await;
        for _ in 0..2 {
            cluster.restart(right).await.unwrap();
            assert_eq!(ended(&cluster, right, Duration::from_secs(60)).await, None);
            let handle = cluster.handle(right);
            assert!((0..400).all(|i| value(&handle, &format!("a{i}")).is_some()), "it keeps its data");
            assert!((0..290).all(|i| value(&handle, &format!("b{i}")).is_none()), "and takes nothing else");
            assert_eq!(handle.status().agreement.repairs, 0);
            handle.may_serve().unwrap_err();
            cluster.kill(right).await;
        }
    });
}

/// The others have lost entries that this member knows to be committed, before any checkpoint.
#[test]
fn a_majority_on_older_disks_does_not_end_the_one_that_is_right() {
    simulate(325, async {
        let mut cluster = Cluster::start(3).await;
        let right = majority_loses(&mut cluster, 100, 150).await;
        for _ in 0..2 {
            cluster.restart(right).await.unwrap();
            assert_eq!(ended(&cluster, right, Duration::from_secs(20)).await, None);
            assert_eq!(value(&cluster.handle(right), "a99").as_deref(), Some("1"), "it keeps its data");
            cluster.kill(right).await;
        }
    });
}

/// A single accuser may have been removed itself: until a second one, the older copy gives no vote and does not lead.
#[test]
fn an_older_copy_takes_part_in_nothing_until_a_second_member_ends_it() {
    simulate(326, async {
        let mut cluster = Cluster::start(3).await;
        cluster.leader().await;
        known_everywhere(&cluster).await;
        let older = copy(&cluster, 2);
        cluster.kill(2).await;
        cluster.restart(2).await.unwrap();
        cluster.handle(2).wait_cluster().await.unwrap();
        revision_of(cluster.handle(2).propose(put("a", "1")).await);
        eventually("everybody has it", || {
            cluster.handles().iter().all(|handle| value(handle, "a").is_some()).then_some(())
        })
        .await;
        for n in 0..3 {
            cluster.kill(n).await;
        }
        cluster.disks[2] = older;
        cluster.restart(2).await.unwrap();
        cluster.restart(0).await.unwrap();
        assert_eq!(ended(&cluster, 2, LONG).await, None);
        let leaders = [0, 2].map(|n| cluster.handle(n).is_leader());
        assert_eq!(leaders, [false, false], "elected by an older copy's vote, or with it");
        cluster.restart(1).await.unwrap();
        let reason = ended(&cluster, 2, LONG).await;
        assert!(reason.as_ref().is_some_and(|reason| reason.contains("older copy")), "{reason:?}");
        let leader = cluster.leader_among(&[0, 1]).await;
        assert_eq!(value(&cluster.handle(leader), "a").as_deref(), Some("1"));
    });
}
