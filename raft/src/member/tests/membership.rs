//! Refused membership changes, interrupted ones, and removed members.

use super::*;
use crate::Runtime;
use crate::member::StartError;
use crate::member::consensus::{Membership, Place};
use crate::transport::{Purpose, Transport};
use openraft::entry::RaftPayload;
use orch_proto::store as wire;
use prost::Message;
use wire::control_request::Kind as Request;

/// Longer than a voter may be silent and still count as answering.
const SILENCE: Duration = Duration::from_secs(1);

async fn with_registered_members(size: usize) -> Cluster {
    let cluster = Cluster::start(size).await;
    let leader = cluster.leader().await;
    for n in 0..size {
        eventually("a registered disk", || {
            let state = cluster.handle(leader).state();
            crate::member::identity::registered(&state, peer(n).id)
        })
        .await;
    }
    cluster
}

fn refusal(changed: Result<(), ChangeError>) -> String {
    match changed {
        Err(ChangeError::Refused { reason }) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_removal_that_leaves_no_majority_that_answers_is_refused() {
    simulate(101, async {
        let mut cluster = with_registered_members(3).await;
        let leader = cluster.leader().await;
        let (dead, healthy) = ((leader + 1) % 3, (leader + 2) % 3);
        cluster.kill(dead).await;
        SimRuntime::sleep(SILENCE).await;
        let handle = cluster.handle(healthy);
        let reason = refusal(handle.remove(peer(healthy).id).await);
        assert!(reason.contains(&format!("n{dead} is silent")), "{reason}");
        // No change was begun: writes go on, and removing the dead member succeeds.
        revision_of(handle.propose(put("a", "1")).await);
        handle.remove(peer(dead).id).await.unwrap();
        assert_eq!(cluster.handle(leader).status().members.len(), 2);
        revision_of(handle.propose(put("a", "2")).await);
    });
}

#[test]
fn a_promotion_that_leaves_no_majority_that_answers_is_refused() {
    simulate(102, async {
        let mut cluster = with_registered_members(3).await;
        let leader = cluster.leader().await;
        let joined = cluster.join().await;
        cluster.handle(leader).add_learner(&peer(joined)).await.unwrap();
        eventually("a registered disk", || {
            crate::member::identity::registered(&cluster.handle(leader).state(), peer(joined).id)
        })
        .await;
        cluster.kill((leader + 1) % 3).await;
        cluster.kill(joined).await;
        SimRuntime::sleep(SILENCE).await;
        // The learner has caught up but is stopped: of four voters, two would answer.
        let reason = refusal(cluster.handle(leader).promote(peer(joined).id).await);
        assert!(reason.contains("no majority that answers"), "{reason}");
        revision_of(cluster.handle(leader).propose(put("a", "1")).await);
    });
}

#[test]
fn a_removed_member_loses_its_open_streams_and_stops() {
    simulate(103, async {
        let cluster = with_registered_members(3).await;
        let leader = cluster.leader().await;
        let removed = (leader + 1) % 3;
        let handle = cluster.handle(removed);
        revision_of(handle.propose(put("a", "1")).await);
        let transport = cluster.network.transport(peer(removed).id);
        let mut appends = transport.open(&peer(leader), Purpose::Append).await.unwrap();
        let mut writes = transport.open(&peer(leader), Purpose::Forward).await.unwrap();
        cluster.handle(leader).remove(peer(removed).id).await.unwrap();
        let ended = SimRuntime::timeout(Duration::from_millis(10), appends.receiver.recv()).await;
        assert!(matches!(ended, Ok(None)), "{ended:?}");
        // A write on the open stream is refused with a response, and then this stream ends, too.
        let term = cluster.handle(leader).status().term;
        let transactions = vec![wire::Transaction::default().encode_to_vec().into()];
        let frame = wire::ForwardRequest { sequence: 1, term, transactions, format: 0, traces: Vec::new() };
        writes.sender.send(Bytes::from(frame.encode_to_vec())).await.unwrap();
        let answer = wire::ForwardResponse::decode(writes.receiver.recv().await.unwrap()).unwrap();
        assert_eq!((answer.sequence, answer.not_appended), (1, vec![0]));
        assert_eq!(answer.leader, 0, "it is not told who leads");
        let ended = SimRuntime::timeout(Duration::from_secs(1), writes.receiver.recv()).await;
        assert!(matches!(ended, Ok(None)), "{ended:?}");
        assert!(handle.propose(put("a", "2")).await.is_err());
        let reason = handle.fatal().await;
        let name = peer(removed).name.to_string();
        assert_eq!(reason, StartError::Removed { name }.to_string());
        assert_eq!(value(&cluster.handle(leader), "a").as_deref(), Some("1"));
    });
}

#[test]
fn a_member_removed_while_it_was_away_is_told_when_it_comes_back() {
    simulate(104, async {
        let mut cluster = with_registered_members(3).await;
        let leader = cluster.leader().await;
        let removed = (leader + 1) % 3;
        cluster.kill(removed).await;
        cluster.handle(leader).remove(peer(removed).id).await.unwrap();
        cluster.restart(removed).await.unwrap();
        let reason = cluster.handle(removed).fatal().await;
        assert!(reason.contains("was removed"), "{reason}");
    });
}

/// Its machine may be in other hands by then: each answer to each of its requests is the removal alone.
#[test]
fn a_removed_member_is_told_of_its_removal_and_nothing_else() {
    simulate(106, async {
        let mut cluster = with_registered_members(3).await;
        let leader = cluster.leader().await;
        let (removed, other) = ((leader + 1) % 3, (leader + 2) % 3);
        cluster.kill(removed).await;
        let at = peer(removed).id;
        let about = |n: usize, unconfirmed| wire::IdentityRequest { unconfirmed, about: peer(n).id.0 };
        let before = cluster.handle(other).0.answer_identity(at, about(leader, true)).await;
        assert!(!before.removed && before.membership.is_some() && before.about_member, "{before:?}");
        cluster.handle(leader).remove(at).await.unwrap();
        let handle = cluster.handle(other);
        eventually("the applied removal", || {
            (handle.0.standing(at) == crate::member::trust::standing::Standing::Removed).then_some(())
        })
        .await;
        let told = wire::IdentityResponse { removed: true, ..wire::IdentityResponse::default() };
        for n in [leader, other] {
            let core = cluster.handle(n).0;
            for (whom, unconfirmed) in [(leader, true), (leader, false), (other, true), (removed, true)] {
                assert_eq!(core.answer_identity(at, about(whom, unconfirmed)).await, told);
            }
            for request in [
                Request::Feature(wire::FeatureRequest::default()),
                Request::Agreement(wire::AgreementRequest::default()),
                Request::Digest(wire::DigestRequest::default()),
                Request::ReadIndex(wire::ReadIndexRequest::default()),
                Request::SnapshotOffset(wire::SnapshotOffsetRequest::default()),
            ] {
                let answer = impostors::ask(&cluster, removed, n, request, wire::Recall::default()).await;
                assert!(
                    answer.is_err_and(|refused| refused.contains("the member was removed from the cluster"))
                );
            }
        }
    });
}

#[test]
fn the_name_of_a_removed_member_is_not_used_again() {
    simulate(105, async {
        let mut cluster = with_registered_members(3).await;
        let leader = cluster.leader().await;
        let removed = (leader + 1) % 3;
        cluster.kill(removed).await;
        cluster.handle(leader).remove(peer(removed).id).await.unwrap();
        let reason = refusal(cluster.handle(leader).add_learner(&peer(removed)).await);
        assert!(reason.contains("no name is used again"), "{reason}");
        let moved = Peer { address: "elsewhere:1".into(), ..peer(leader) };
        let reason = refusal(cluster.handle(leader).add_learner(&moved).await);
        assert!(reason.contains("is a member already"), "{reason}");
        let twin = Peer { id: node_id("twin"), name: "twin".into(), ..peer(leader) };
        let reason = refusal(cluster.handle(leader).add_learner(&twin).await);
        assert!(reason.contains(&format!("{} has the address", peer(leader).name)), "{reason}");
    });
}

#[test]
fn a_leader_that_is_to_be_removed_hands_over_first() {
    simulate(106, async {
        let cluster = with_registered_members(3).await;
        let old = cluster.leader().await;
        let handle = cluster.handle(old);
        handle.remove(peer(old).id).await.unwrap();
        let others: Vec<usize> = (0..3).filter(|n| *n != old).collect();
        let new = cluster.leader_among(&others).await;
        assert_eq!(cluster.handle(new).status().members.len(), 2);
        assert!(handle.fatal().await.contains("was removed"));
    });
}

#[test]
fn a_change_that_stopped_between_two_sets_of_voters_is_taken_back() {
    simulate(107, async {
        let cluster = with_registered_members(3).await;
        let leader = cluster.leader().await;
        let handle = cluster.handle(leader);
        assert!(refusal(handle.undo_change().await).contains("no change"));
        leave_half_done(&cluster, leader, &[leader, (leader + 1) % 3]).await;
        handle.undo_change().await.unwrap();
        let voters: Vec<u64> = handle.0.membership().membership().voter_ids().collect();
        assert_eq!(voters.len(), 3);
        assert_eq!(handle.0.membership().membership().get_joint_config().len(), 1);
    });
}

/// Commits a joint membership of the founders and `after`, as a leader leaves it that dies during a change.
async fn leave_half_done(cluster: &Cluster, leader: usize, after: &[usize]) {
    let place = |n: usize| (peer(n).id.0, Place::of(&peer(n)));
    let set = |members: &[usize]| members.iter().map(|n| peer(*n).id.0).collect();
    let nodes: std::collections::BTreeMap<_, _> = (0..cluster.members.len()).map(place).collect();
    let joint = Membership::new(vec![set(&[0, 1, 2]), set(after)], nodes).unwrap();
    let blank = crate::member::consensus::Payload::blank();
    cluster.handle(leader).0.raft.append_membership(joint, blank, []).await.unwrap();
    assert!(cluster.handle(leader).status().changing);
}

#[test]
fn a_voter_that_has_just_died_does_not_count_for_a_change() {
    simulate(108, async {
        let mut cluster = with_registered_members(3).await;
        let leader = cluster.leader().await;
        let (dead, healthy) = ((leader + 1) % 3, (leader + 2) % 3);
        cluster.kill(dead).await;
        let handle = cluster.handle(leader);
        assert!(handle.0.answering().contains(&peer(dead).id.0), "its heartbeats are answered, so far");
        let reason = refusal(handle.remove(peer(healthy).id).await);
        assert!(reason.contains(&format!("n{dead} is silent")), "{reason}");
        assert!(!handle.status().changing);
        revision_of(handle.propose(put("a", "1")).await);
    });
}

#[test]
fn a_change_goes_on_when_whoever_asked_for_it_has_given_up() {
    for (seed, via_follower) in [(109, false), (110, true)] {
        simulate(seed, async {
            let cluster = with_registered_members(3).await;
            let leader = cluster.leader().await;
            let (stays, removed) = ((leader + 1) % 3, (leader + 2) % 3);
            let asked = cluster.handle(if via_follower { removed } else { leader });
            let asking = SimRuntime::spawn(async move { asked.remove(peer(removed).id).await });
            while !cluster.handle(leader).status().changing {
                SimRuntime::sleep(Duration::from_micros(100)).await;
            }
            // The joint membership is in the leader's log; its commit needs the voter that stays.
            cluster.network.isolate(peer(stays).id, (0..3).map(|n| peer(n).id));
            let asked = asking.await.unwrap();
            assert!(matches!(asked, Err(ChangeError::Unknown { .. })), "{asked:?}");
            assert!(cluster.handle(leader).status().changing);
            cluster.network.heal();
            // Shorter than the time after which a change counts as abandoned.
            SimRuntime::sleep(Duration::from_secs(3)).await;
            let status = cluster.handle(leader).status();
            assert!(!status.changing && status.members.len() == 2, "{status:?}");
        });
    }
}

#[test]
fn a_change_that_a_leader_left_half_done_is_completed() {
    simulate(111, async {
        let mut cluster = with_registered_members(3).await;
        let old = cluster.leader().await;
        let (stays, removed) = ((old + 1) % 3, (old + 2) % 3);
        leave_half_done(&cluster, old, &[old, stays]).await;
        cluster.kill(old).await;
        // Two of the three old voters are left, but only one of the two new ones: no majority of both, so no leader.
        SimRuntime::sleep(Duration::from_secs(5)).await;
        assert!(cluster.handles().iter().all(|handle| handle.status().changing));
        cluster.restart(old).await.unwrap();
        eventually("the change is completed", || {
            let handles = [old, stays].map(|n| cluster.handle(n).status());
            handles.iter().all(|status| !status.changing && status.members.len() == 2).then_some(())
        })
        .await;
        assert!(cluster.handle(removed).fatal().await.contains("was removed"));
        revision_of(cluster.handle(old).propose(put("a", "1")).await);
    });
}

#[test]
fn a_change_left_half_done_waits_for_majorities_of_both_sets() {
    simulate(112, async {
        let mut cluster = with_registered_members(3).await;
        let leader = cluster.leader().await;
        let dead = (leader + 1) % 3;
        leave_half_done(&cluster, leader, &[leader, dead]).await;
        cluster.kill(dead).await;
        SimRuntime::sleep(Duration::from_secs(20)).await;
        let handle = cluster.handle(leader);
        assert!(handle.status().changing);
        let reason = refusal(handle.undo_change().await);
        assert!(reason.contains(&format!("n{dead} is silent")), "{reason}");
        cluster.restart(dead).await.unwrap();
        eventually("the change is completed", || {
            let status = handle.status();
            (!status.changing && status.members.len() == 2).then_some(())
        })
        .await;
        revision_of(handle.propose(put("a", "1")).await);
    });
}

#[test]
fn only_a_member_is_removed_and_once() {
    simulate(113, async {
        let cluster = with_registered_members(3).await;
        let leader = cluster.leader().await;
        let removed = (leader + 1) % 3;
        let handle = cluster.handle((leader + 2) % 3);
        let stranger = node_id("stranger");
        let expected = format!("no member is called {:016x}", stranger.0);
        assert_eq!(refusal(handle.remove(stranger).await), expected);
        assert_eq!(refusal(handle.promote(stranger).await), expected);
        handle.remove(peer(removed).id).await.unwrap();
        handle.remove(peer(removed).id).await.unwrap();
        assert_eq!(cluster.handle(leader).status().members.len(), 2);
    });
}

#[test]
fn a_leader_that_shuts_down_hands_over_to_a_voter_that_answers() {
    simulate(114, async {
        let mut cluster = with_registered_members(5).await;
        let leader = cluster.leader().await;
        // By then the store has made its own writes of the start.
        SimRuntime::sleep(Duration::from_secs(5)).await;
        // The preferred successor among voters with equal logs.
        let dead = (0..5).filter(|n| *n != leader).max_by_key(|n| peer(*n).id).unwrap();
        cluster.kill(dead).await;
        SimRuntime::sleep(SILENCE).await;
        let matched = |n: usize| {
            let members = cluster.handle(leader).status().members;
            members.iter().find(|member| member.peer == peer(n)).unwrap().matched
        };
        let others: Vec<usize> = (0..5).filter(|n| ![leader, dead].contains(n)).collect();
        assert!(others.iter().all(|n| matched(*n) == matched(dead)), "nothing was written since");
        let started = SimInstant::now();
        cluster.members[leader].take().unwrap().shutdown().await;
        let took = SimInstant::now().saturating_duration_since(started);
        assert!(took < Duration::from_secs(1), "{took:?}");
        cluster.leader_among(&others).await;
    });
}

#[test]
fn the_lead_goes_to_voters_that_answer_and_to_nobody_else() {
    simulate(330, async {
        let mut cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        let silent = (leader + 1) % 3;
        let handle = cluster.handle(leader);
        let refused = handle.transfer_leader(peer(9).id).await.unwrap_err();
        assert!(refused.to_string().contains("is no voter of the cluster"), "{refused}");
        handle.transfer_leader(peer(leader).id).await.unwrap();
        assert!(cluster.handle(leader).is_leader(), "it was asked for nothing");
        cluster.kill(silent).await;
        SimRuntime::sleep(Duration::from_secs(2)).await;
        let refused = cluster.handle(leader).transfer_leader(peer(silent).id).await;
        assert!(refused.unwrap_err().to_string().contains("does not answer the leader"));
        revision_of(cluster.handle(leader).propose(put("a", "1")).await);
    });
}

/// Followers name the dead leader until they elect the next.
#[test]
fn a_change_asked_for_when_the_leader_has_died_goes_to_the_next() {
    simulate(112, async {
        let mut cluster = with_registered_members(3).await;
        let leader = cluster.leader().await;
        let (asked, other) = ((leader + 1) % 3, (leader + 2) % 3);
        let joined = cluster.join().await;
        cluster.kill(leader).await;
        let handle = cluster.handle(asked);
        assert_eq!(handle.status().leader.map(|leader| leader.id), Some(peer(leader).id));
        handle.add_learner(&peer(joined)).await.unwrap();
        cluster.kill(other).await;
        let reason = refusal(handle.add_learner(&peer(joined)).await);
        assert!(reason.contains("nothing was changed"), "{reason}");
    });
}

/// After a restart of all members, one voter never comes back: its replacement receives the log all the same.
#[test]
fn a_member_is_added_while_a_voter_stays_away_for_good() {
    simulate(115, async {
        let mut cluster = with_registered_members(3).await;
        for n in 0..3 {
            cluster.kill(n).await;
        }
        cluster.restart(0).await.unwrap();
        cluster.restart(1).await.unwrap();
        let leader = cluster.leader_among(&[0, 1]).await;
        let joined = cluster.join().await;
        cluster.handle(leader).add_learner(&peer(joined)).await.unwrap();
        let at = revision_of(cluster.handle(leader).propose(put("a", "1")).await);
        assert!(
            cluster.handle(joined).wait_applied(at, Duration::from_secs(20)).await,
            "nothing is replicated to it"
        );
        revision_of(cluster.handle(joined).propose(put("a", "2")).await);
        cluster.handle(joined).barrier().await.unwrap();
        cluster.handle(leader).promote(peer(joined).id).await.unwrap();
        cluster.handle(leader).remove(peer(2).id).await.unwrap();
        revision_of(cluster.handle(joined).propose(put("a", "3")).await);
    });
}
