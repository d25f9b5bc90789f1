//! A removed member's machine in other hands, at its old address: it decides nothing over members that were away.

use futures::FutureExt;
use futures::future::BoxFuture;
use orch_proto::store as wire;
use prost::Message;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use super::*;
use crate::Runtime;
use crate::transport::{Duplex, NodeId, PeerService, Purpose, Transport};

const SOON: Duration = Duration::from_secs(2);

/// Longer than whatever a lie could bring about.
const LONG: Duration = Duration::from_secs(30);

/// Answers everybody that asks who it is with the same.
pub(super) struct Liar(pub(super) wire::IdentityResponse);

impl PeerService for Liar {
    fn call(&self, _: NodeId, _: Purpose, frame: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        let request = wire::ControlRequest::decode(frame).unwrap();
        let answer = match request.kind {
            Some(Request::Identity(_)) => Ok(Response::Identity(self.0.clone())),
            _ => Err("no".to_owned()),
        };
        let answer =
            answer.map(|kind| Bytes::from(wire::ControlResponse { kind: Some(kind) }.encode_to_vec()));
        async { answer }.boxed()
    }

    fn stream(&self, _: NodeId, _: Purpose, _: Duplex) -> BoxFuture<'static, ()> {
        async {}.boxed()
    }
}

/// Who is who in a cluster of which one member was removed and lies.
struct Roles {
    leader: usize,
    follower: usize,
    /// Stopped before the removal.
    away: usize,
}

pub(super) async fn known_everywhere(cluster: &Cluster) {
    for handle in cluster.handles() {
        handle.wait_cluster().await.unwrap();
    }
}

/// The one that lies was a voter, or only a learner.
async fn with_liar(lie: wire::IdentityResponse, was_voter: bool) -> (Cluster, Roles) {
    let mut cluster = Cluster::start(3).await;
    known_everywhere(&cluster).await;
    let away = 2;
    let leader = cluster.leader().await;
    let liar = cluster.join().await;
    cluster.handle(leader).add_learner(&peer(liar)).await.unwrap();
    known_everywhere(&cluster).await;
    if was_voter {
        cluster.handle(leader).promote(peer(liar).id).await.unwrap();
    }
    eventually("everybody has applied everything", || {
        let applied: Vec<_> = cluster.handles().iter().map(|handle| handle.status().applied).collect();
        applied.iter().all(|at| *at == applied[0]).then_some(())
    })
    .await;
    cluster.kill(away).await;
    let rest: Vec<usize> = if was_voter { vec![0, 1, liar] } else { vec![0, 1] };
    let mut leader = cluster.leader_among(&rest).await;
    if leader == liar {
        cluster.handle(liar).transfer_leader(peer(0).id).await.unwrap();
        leader = eventually("the lead", || cluster.handle(0).is_leader().then_some(0)).await;
    }
    cluster.handle(leader).remove(peer(liar).id).await.unwrap();
    revision_of(cluster.handle(leader).propose(put("acknowledged", "1")).await);
    cluster.kill(liar).await;
    cluster.network.serve(peer(liar).id, Arc::new(Liar(lie)));
    (cluster, Roles { leader, follower: 1 - leader, away })
}

/// A heartbeat of `from`, as a leader of term 30, with an entry of its own after `end`.
fn forged(from: usize, end: u64, term: u64) -> Request {
    let vote = wire::Vote { term: 30, node: peer(from).id.0, committed: true };
    let log_id = |index| Some(wire::LogId { term: if index == end { term } else { 30 }, index });
    let blank = Some(wire::entry::Payload::Blank(wire::Blank {}));
    let entry = wire::Entry { log_id: log_id(end + 1), payload: blank, format: 1 };
    Request::Heartbeat(wire::AppendRequest {
        vote: Some(vote),
        previous: log_id(end),
        committed: log_id(end + 1),
        entries: vec![entry],
        format: 1,
        ..Default::default()
    })
}

/// Sends the forged heartbeat of `from` several times, so that `to` has asked about it; the last answer.
async fn lead_falsely(cluster: &Cluster, from: usize, to: usize) -> Result<(), String> {
    let status = cluster.handle(to).status();
    let kind = Some(forged(from, status.last_log, status.term));
    let frame = wire::ControlRequest { kind, recall: Some(wire::Recall::default()), format: 0 };
    let transport = cluster.network.transport(peer(from).id);
    let mut answer = Ok(());
    for _ in 0..20 {
        let frame = Bytes::from(frame.encode_to_vec());
        let sent = transport.call(&peer(to), Purpose::Control, frame, SOON).await;
        answer = sent.map(drop).map_err(|error| error.to_string());
        SimRuntime::sleep(Duration::from_millis(100)).await;
    }
    answer
}

#[test]
fn a_removed_member_ends_nobody_for_ever() {
    for (seed, was_voter) in [(904, false), (914, true)] {
        simulate(seed, async move {
            let lie = wire::IdentityResponse { starts: 1000, incarnation: 77, ..Default::default() };
            let (mut cluster, roles) = with_liar(lie, was_voter).await;
            cluster.restart(roles.away).await.unwrap();
            let ended = SimRuntime::timeout(LONG, cluster.handle(roles.away).fatal()).await;
            assert!(ended.is_err(), "{ended:?}");
            let at = revision_of(cluster.handle(roles.leader).propose(put("a", "1")).await);
            assert!(cluster.handle(roles.away).wait_applied(at, LONG).await);
            cluster.kill(roles.away).await;
            cluster.restart(roles.away).await.unwrap();
        });
    }
}

/// Nor where nobody else is there to be asked.
#[test]
fn a_removed_member_alone_with_one_marks_no_disk() {
    for (seed, was_voter) in [(924, false), (925, true)] {
        simulate(seed, async move {
            let lie = wire::IdentityResponse { starts: 1000, incarnation: 77, ..Default::default() };
            let (mut cluster, roles) = with_liar(lie, was_voter).await;
            cluster.kill(roles.leader).await;
            cluster.kill(roles.follower).await;
            cluster.restart(roles.away).await.unwrap();
            let ended = SimRuntime::timeout(LONG, cluster.handle(roles.away).fatal()).await;
            assert!(ended.is_err(), "{ended:?}");
            // The members are back, and it is one of them.
            cluster.restart(roles.leader).await.unwrap();
            let now = cluster.leader_among(&[roles.leader, roles.away]).await;
            assert_eq!(value(&cluster.handle(now), "acknowledged").as_deref(), Some("1"));
        });
    }
}

/// Nor does what it has said once hold when it has fallen silent (found by a simulation).
#[test]
fn a_removed_member_that_has_fallen_silent_keeps_nobody_out() {
    simulate(926, async {
        let lie = wire::IdentityResponse { starts: 1000, incarnation: 77, ..Default::default() };
        let (mut cluster, roles) = with_liar(lie, true).await;
        cluster.kill(roles.leader).await;
        cluster.kill(roles.follower).await;
        cluster.restart(roles.away).await.unwrap();
        eventually("it is accused", || cluster.handle(roles.away).0.is_accused().then_some(())).await;
        cluster.network.unserve(peer(3).id);
        cluster.restart(roles.leader).await.unwrap();
        let now = cluster.leader_among(&[roles.leader, roles.away]).await;
        assert_eq!(value(&cluster.handle(now), "acknowledged").as_deref(), Some("1"));
    });
}

#[test]
fn a_removed_learner_keeps_no_majority_from_electing() {
    simulate(905, async {
        let lie = wire::IdentityResponse { about_removed: true, ..Default::default() };
        let (mut cluster, roles) = with_liar(lie, false).await;
        cluster.kill(roles.follower).await;
        cluster.restart(roles.away).await.unwrap();
        let now = cluster.leader_among(&[roles.leader, roles.away]).await;
        assert_eq!(value(&cluster.handle(now), "acknowledged").as_deref(), Some("1"));
    });
}

/// One that was a voter is one word against another: it needs two others that live.
#[test]
fn a_removed_voter_keeps_nobody_from_following_that_reaches_two_others() {
    simulate(915, async {
        let lie = wire::IdentityResponse { about_removed: true, removed: true, ..Default::default() };
        let (mut cluster, roles) = with_liar(lie, true).await;
        cluster.restart(roles.away).await.unwrap();
        let at = revision_of(cluster.handle(roles.leader).propose(put("a", "1")).await);
        assert!(cluster.handle(roles.away).wait_applied(at, LONG).await);
    });
}

#[test]
fn a_removed_member_ends_nobody_by_saying_it_was_removed() {
    for (seed, was_voter) in [(906, false), (916, true)] {
        simulate(seed, async move {
            let lie = wire::IdentityResponse { removed: true, ..Default::default() };
            let (mut cluster, roles) = with_liar(lie, was_voter).await;
            cluster.kill(roles.leader).await;
            cluster.kill(roles.follower).await;
            for _ in 0..2 {
                cluster.restart(roles.away).await.unwrap();
                let ended = SimRuntime::timeout(LONG, cluster.handle(roles.away).fatal()).await;
                assert!(ended.is_err(), "{ended:?}");
                cluster.kill(roles.away).await;
            }
        });
    }
}

/// Two certificates, one of a learner that was removed, which vouches for the other.
#[test]
fn a_removed_learner_vouches_for_nobody() {
    simulate(907, async {
        let lie = wire::IdentityResponse { about_member: true, confirmed: true, ..Default::default() };
        let (mut cluster, roles) = with_liar(lie, false).await;
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

/// One that was a voter vouches for nobody where somebody else can be asked, whom a leader leads.
#[test]
fn a_removed_voter_vouches_for_nobody_beside_a_member() {
    simulate(917, async {
        let lie = wire::IdentityResponse { about_member: true, confirmed: true, ..Default::default() };
        let (mut cluster, roles) = with_liar(lie, true).await;
        // The leader does not reach it; one that follows that leader does.
        cluster.network.isolate(peer(roles.away).id, [peer(roles.leader).id].into_iter());
        cluster.restart(roles.away).await.unwrap();
        SimRuntime::sleep(SOON).await;
        let answer = lead_falsely(&cluster, 9, roles.away).await;
        assert!(answer.as_ref().is_err_and(|refused| refused.contains("no member knows")), "{answer:?}");
        assert!(cluster.handle(roles.away).status().term < 30);
    });
}
