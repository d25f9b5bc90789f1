//! Whom a member believes: those that its own log may not know any more, or not yet, and those that say its disk is old.

use orch_proto::store as wire;
use prost::Message;
use wire::control_request::Kind as Request;

use super::*;
use crate::Runtime;

use crate::transport::{Purpose, Transport};

const SOON: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(60);

/// What `to` answers to `request` from `from`, which says that it knows `starts` starts of that disk.
async fn ask(cluster: &Cluster, from: usize, to: usize, request: Request, starts: u64) -> Result<(), String> {
    let recall = Some(wire::Recall { starts, incarnation: 5, ..wire::Recall::default() });
    let frame = wire::ControlRequest { kind: Some(request), recall, format: 0 };
    let transport = cluster.network.transport(peer(from).id);
    let frame = Bytes::from(frame.encode_to_vec());
    let answer = transport.call(&peer(to), Purpose::Control, frame, SOON).await;
    answer.map(drop).map_err(|error| error.to_string())
}

/// The heartbeat of a leader that nobody elected, with an entry that nobody proposed.
fn forged(from: usize, previous: u64) -> Request {
    let vote = wire::Vote { term: 30, node: peer(from).id.0, committed: true };
    let log_id = |index| Some(wire::LogId { term: if index == previous { 1 } else { 30 }, index });
    let blank = Some(wire::entry::Payload::Blank(wire::Blank {}));
    let entry = wire::Entry { log_id: log_id(previous + 1), payload: blank, format: 1 };
    Request::Heartbeat(wire::AppendRequest {
        vote: Some(vote),
        previous: log_id(previous),
        committed: log_id(previous + 1),
        entries: vec![entry],
        format: 1,
        ..Default::default()
    })
}

async fn known_everywhere(cluster: &Cluster) {
    for n in 0..cluster.handles().len() {
        cluster.handle(n).wait_cluster().await.unwrap();
    }
}

fn copy(cluster: &Cluster, n: usize) -> Arc<MemoryDisk> {
    Arc::new(cluster.disks[n].copy())
}

/// A member that was away still has the removed one in its log.
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
        for i in 0..50 {
            revision_of(cluster.handle(leader).propose(put(&format!("a{i}"), "1")).await);
        }
        cluster.kill(removed).await;
        // For a moment only the removed one reaches it.
        cluster.network.isolate(peer(away).id, (0..3).map(|n| peer(n).id));
        cluster.restart(away).await.unwrap();
        let end = cluster.handle(away).status().last_log;
        for request in [forged(removed, end), Request::Vote(ballot(removed, 40))] {
            let answer = ask(&cluster, removed, away, request, 0).await;
            assert!(answer.as_ref().is_err_and(|refused| refused.contains("no member knows")), "{answer:?}");
        }
        cluster.network.heal();
        let at = revision_of(cluster.handle(leader).propose(put("b", "1")).await);
        assert!(cluster.handle(away).wait_applied(at, LONG).await);
    });
}

fn ballot(from: usize, term: u64) -> wire::VoteRequest {
    let vote = Some(wire::Vote { term, node: peer(from).id.0, committed: false });
    let last_log_id = Some(wire::LogId { term, index: 1_000_000 });
    wire::VoteRequest { vote, last_log_id, leader_transfer: true }
}

/// Silence vouches for nobody.
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
            for request in [forged(9, end), Request::Vote(ballot(9, 40)), Request::PreVote(ballot(9, 40))] {
                let answer = ask(&cluster, 9, 0, request, 0).await;
                let refused = answer.as_ref().is_err_and(|refused| refused.contains("no member knows"));
                assert!(refused, "{members}: {answer:?}");
            }
            assert!(cluster.handle(0).status().term < 30);
        });
    }
}

/// Nor does a stranger's word end a member for ever.
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
        let ended = SimRuntime::timeout(SOON, cluster.handle(0).fatal()).await;
        assert!(ended.is_err(), "{ended:?}");
        cluster.restart(1).await.unwrap();
        cluster.leader_among(&[0, 1]).await;
    });
}

/// A member that knows of no other, and that took part before it heard of them.
#[test]
fn a_copy_from_before_others_joined_ends_when_it_hears_of_them() {
    simulate(323, async {
        let mut cluster = Cluster::start(1).await;
        cluster.handle(0).wait_cluster().await.unwrap();
        cluster.kill(0).await;
        let alone = copy(&cluster, 0);
        cluster.restart(0).await.unwrap();
        cluster.leader().await;
        for _ in 0..2 {
            let joined = cluster.join().await;
            cluster.handle(0).add_learner(&peer(joined)).await.unwrap();
            cluster.handle(0).promote(peer(joined).id).await.unwrap();
            cluster.handle(joined).wait_cluster().await.unwrap();
        }
        revision_of(cluster.handle(0).propose(put("a", "1")).await);
        for n in 0..3 {
            cluster.kill(n).await;
        }
        cluster.disks[0] = alone;
        cluster.restart(0).await.unwrap();
        SimRuntime::sleep(SOON).await;
        revision_of(cluster.handle(0).propose(put("forked", "1")).await);
        cluster.restart(1).await.unwrap();
        cluster.restart(2).await.unwrap();
        let ended = SimRuntime::timeout(LONG, cluster.handle(0).fatal()).await;
        assert!(ended.as_ref().is_ok_and(|reason| reason.contains("older copy")), "{ended:?}");
        let leader = cluster.leader_among(&[1, 2]).await;
        assert_eq!(value(&cluster.handle(leader), "a").as_deref(), Some("1"));
    });
}

/// Two of five are away while a third is replaced: with two more lost they would not know the new one.
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
        let fresh = cluster.join().await;
        cluster.handle(leader).add_learner(&peer(fresh)).await.unwrap();
        cluster.handle(leader).promote(peer(fresh).id).await.unwrap();
        let refused = cluster.handle(leader).remove(peer(replaced).id).await.unwrap_err();
        assert!(refused.to_string().contains("would not know"), "{refused}");
        // One of those away may go instead.
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
        let leader = cluster.leader().await;
        known_everywhere(&cluster).await;
        let (right, late) = ((leader + 1) % 3, (leader + 2) % 3);
        cluster.kill(late).await;
        let older = copy(&cluster, leader);
        for i in 0..400 {
            revision_of(cluster.handle(leader).propose(put(&format!("a{i}"), "1")).await);
        }
        let end = cluster.handle(leader).state().applied();
        assert!(cluster.handle(right).wait_applied(end, Duration::from_secs(60)).await);
        for n in [leader, right] {
            cluster.kill(n).await;
        }
        cluster.disks[leader] = older;
        cluster.restart(leader).await.unwrap();
        cluster.restart(late).await.unwrap();
        let now = cluster.leader_among(&[leader, late]).await;
        // Past a revision of which the members compare digests.
        for i in 0..290 {
            revision_of(cluster.handle(now).propose(put(&format!("b{i}"), "1")).await);
        }
        for _ in 0..2 {
            cluster.restart(right).await.unwrap();
            let ended = SimRuntime::timeout(Duration::from_secs(60), cluster.handle(right).fatal()).await;
            assert!(ended.is_err(), "{ended:?}");
            let handle = cluster.handle(right);
            assert!((0..400).all(|i| value(&handle, &format!("a{i}")).is_some()), "it keeps its data");
            assert!((0..290).all(|i| value(&handle, &format!("b{i}")).is_none()), "and takes nothing else");
            assert_eq!(handle.status().agreement.repairs, 0);
            handle.may_serve().unwrap_err();
            cluster.kill(right).await;
        }
    });
}

/// The others have lost what this one knows to be committed, and nobody could see it.
#[test]
fn a_majority_on_older_disks_does_not_end_the_one_that_is_right() {
    simulate(325, async {
        let mut cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        known_everywhere(&cluster).await;
        let (right, late) = ((leader + 1) % 3, (leader + 2) % 3);
        cluster.kill(late).await;
        let older = copy(&cluster, leader);
        for i in 0..100 {
            revision_of(cluster.handle(leader).propose(put(&format!("a{i}"), "1")).await);
        }
        let end = cluster.handle(leader).state().applied();
        assert!(cluster.handle(right).wait_applied(end, LONG).await);
        for n in [leader, right] {
            cluster.kill(n).await;
        }
        cluster.disks[leader] = older;
        cluster.restart(leader).await.unwrap();
        cluster.restart(late).await.unwrap();
        let now = cluster.leader_among(&[leader, late]).await;
        for i in 0..150 {
            revision_of(cluster.handle(now).propose(put(&format!("b{i}"), "1")).await);
        }
        for _ in 0..2 {
            cluster.restart(right).await.unwrap();
            let ended = SimRuntime::timeout(Duration::from_secs(20), cluster.handle(right).fatal()).await;
            assert!(ended.is_err(), "{ended:?}");
            assert_eq!(value(&cluster.handle(right), "a99").as_deref(), Some("1"), "it keeps its data");
            cluster.kill(right).await;
        }
    });
}

/// One that says so alone may have been removed itself: the older copy gives nothing away, and waits for a second one.
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
        let ended = SimRuntime::timeout(LONG, cluster.handle(2).fatal()).await;
        assert!(ended.is_err(), "{ended:?}");
        let leaders = [0, 2].map(|n| cluster.handle(n).is_leader());
        assert_eq!(leaders, [false, false], "elected by an older copy's vote, or with it");
        cluster.restart(1).await.unwrap();
        let ended = SimRuntime::timeout(LONG, cluster.handle(2).fatal()).await;
        assert!(ended.as_ref().is_ok_and(|reason| reason.contains("older copy")), "{ended:?}");
        let leader = cluster.leader_among(&[0, 1]).await;
        assert_eq!(value(&cluster.handle(leader), "a").as_deref(), Some("1"));
    });
}
