//! Peers that were never members, members removed before their start, and disks from before the membership.

use futures::FutureExt;
use futures::future::BoxFuture;
use orch_proto::store as wire;
use prost::Message;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use super::casts::{copy, ended, grown_from_one, join_as_voter};
use super::impostors::ballot;
use super::*;
use crate::Runtime;
use crate::transport::{Duplex, NodeId, PeerService, Purpose, Transport};

/// Longer than any founding, election and registration takes.
const LONG: Duration = Duration::from_secs(20);

/// Timeout of one answer.
const SOON: Duration = Duration::from_secs(2);

/// A member that was never added.
const STRANGER: usize = 9;

async fn ask(cluster: &Cluster, to: usize, kind: Request) -> Result<Response, String> {
    impostors::ask(cluster, STRANGER, to, kind, wire::Recall::default()).await
}

fn vote(term: u64) -> Option<wire::Vote> {
    Some(wire::Vote { term, node: peer(STRANGER).id.0, committed: false })
}

/// The stranger's service: it refuses every request.
struct Nobody;

impl PeerService for Nobody {
    fn call(&self, _: NodeId, _: Purpose, _: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        async { Err("nobody".to_owned()) }.boxed()
    }

    fn stream(&self, _: NodeId, _: Purpose, _: Duplex) -> BoxFuture<'static, ()> {
        async {}.boxed()
    }
}

fn bring_stranger(cluster: &Cluster) {
    cluster.network.serve(peer(STRANGER).id, Arc::new(Nobody));
}

/// Every request of a stranger is refused, except for the identity of the cluster.
#[test]
fn a_stranger_gets_no_vote_no_state_and_no_change() {
    simulate(301, async {
        let cluster = Cluster::start(3).await;
        bring_stranger(&cluster);
        let leader = cluster.leader().await;
        revision_of(cluster.handle(leader).propose(put("a", "1")).await);
        let ballot =
            |term| wire::VoteRequest { vote: vote(term), leader_transfer: true, ..Default::default() };
        let removal = wire::change_request::Kind::Remove(peer((leader + 1) % 3).id.0);
        let forged = wire::Vote { committed: true, ..vote(500).unwrap() };
        let heartbeat = wire::AppendRequest { vote: Some(forged), ..Default::default() };
        let asked = [
            ("no member knows this one", Request::Vote(ballot(40))),
            ("cannot have come after term", Request::Vote(ballot(u64::MAX))),
            ("no member knows this one", Request::PreVote(ballot(40))),
            ("no member knows this one", Request::Heartbeat(heartbeat)),
            ("no member knows this one", Request::Change(wire::ChangeRequest { kind: Some(removal) })),
            ("only founders", Request::Found(wire::FoundRequest {})),
            ("no member knows this one", Request::ReadIndex(wire::ReadIndexRequest::default())),
        ];
        for (why, request) in asked {
            for n in 0..3 {
                let refused = ask(&cluster, n, request.clone()).await.unwrap_err();
                assert!(refused.contains(why), "{request:?} at n{n}: {refused}");
            }
        }
        let transport = cluster.network.transport(peer(STRANGER).id);
        let pull = wire::SnapshotFrame {
            kind: Some(wire::snapshot_frame::Kind::Pull(wire::SnapshotPull::default())),
        };
        let append = wire::AppendRequest { vote: Some(forged), format: 99, ..Default::default() };
        for (purpose, frame) in
            [(Purpose::Snapshot, pull.encode_to_vec()), (Purpose::Append, append.encode_to_vec())]
        {
            let mut duplex = transport.open(&peer(leader), purpose).await.unwrap();
            duplex.sender.send(Bytes::from(frame)).await.unwrap();
            let answer = SimRuntime::timeout(SOON, duplex.receiver.recv()).await;
            assert!(matches!(answer, Ok(None)), "{purpose:?}: {answer:?}");
        }
        let identity = ask(&cluster, leader, Request::Identity(wire::IdentityRequest::default())).await;
        assert!(matches!(identity, Ok(Response::Identity(_))), "{identity:?}");
        assert_eq!(cluster.leader().await, leader, "nobody was deposed");
        revision_of(cluster.handle(leader).propose(put("a", "2")).await);
    });
}

#[test]
fn a_member_that_could_not_have_been_elected_so_often_is_refused() {
    simulate(302, async {
        let mut cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        // With the certificate of a member.
        let member = (leader + 1) % 3;
        cluster.kill(member).await;
        let vote = wire::Vote { term: u64::MAX, node: peer(member).id.0, committed: false };
        let ballot = wire::VoteRequest { vote: Some(vote), leader_transfer: true, ..Default::default() };
        let ballot = Request::Vote(ballot);
        let answer = impostors::ask(&cluster, member, leader, ballot, wire::Recall::default()).await;
        assert!(answer.unwrap_err().contains("cannot have come after term"));
        revision_of(cluster.handle(leader).propose(put("a", "1")).await);
    });
}

#[test]
fn a_member_that_was_away_follows_one_that_was_added_meanwhile() {
    simulate(303, async {
        let mut cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        let away = (leader + 1) % 3;
        cluster.kill(away).await;
        let joined = join_as_voter(&mut cluster, leader).await;
        cluster.handle(leader).transfer_leader(peer(joined).id).await.unwrap();
        cluster.leader_among(&[joined]).await;
        cluster.restart(away).await.unwrap();
        let at = revision_of(cluster.handle(joined).propose(put("a", "1")).await);
        assert!(cluster.handle(away).wait_applied(at, LONG).await);
    });
}

#[test]
fn a_disk_from_before_the_founding_is_an_older_copy() {
    for seed in 304..308 {
        simulate(seed, async {
            let mut cluster = Cluster::new(3);
            for n in 0..3 {
                cluster.restart(n).await.unwrap();
            }
            SimRuntime::sleep(Duration::from_secs(1)).await;
            let waiting: Vec<_> = (0..3).map(|n| copy(&cluster, n)).collect();
            cluster.handle(0).found().await.unwrap();
            let leader = cluster.leader().await;
            let rolled_back = (leader + 1 + usize::from(seed % 2 == 0)) % 3;
            cluster.handle(rolled_back).wait_cluster().await.unwrap();
            let at = revision_of(cluster.handle(leader).propose(put("a", "1")).await);
            assert!(cluster.handle(rolled_back).wait_applied(at, LONG).await);
            cluster.kill(rolled_back).await;
            cluster.disks[rolled_back] = waiting[rolled_back].clone();
            cluster.restart(rolled_back).await.unwrap();
            let reason = cluster.handle(rolled_back).fatal().await;
            assert!(reason.contains("has an older copy of its data"), "{reason}");
            assert_eq!(cluster.leader_among(&[leader]).await, leader);
            revision_of(cluster.handle(leader).propose(put("a", "2")).await);
        });
    }
}

#[test]
fn a_copy_from_before_others_joined_elects_nobody() {
    simulate(308, async {
        let (mut cluster, alone) = grown_from_one().await;
        cluster.kill(0).await;
        cluster.disks[0] = alone;
        let leader = cluster.leader_among(&[1, 2]).await;
        cluster.restart(0).await.unwrap();
        let reason = cluster.handle(0).fatal().await;
        assert!(reason.contains("has an older copy of its data"), "{reason}");
        assert!(!cluster.handle(0).is_leader());
        revision_of(cluster.handle(leader).propose(put("a", "2")).await);
        assert_eq!(value(&cluster.handle(leader), "a").as_deref(), Some("2"));
    });
}

#[test]
fn a_copy_from_before_others_joined_helps_them_to_nothing() {
    simulate(309, async {
        let mut cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        let rolled_back = (leader + 1) % 3;
        cluster.handle(rolled_back).wait_cluster().await.unwrap();
        let older = copy(&cluster, rolled_back);
        for _ in 0..2 {
            cluster.kill(rolled_back).await;
            cluster.restart(rolled_back).await.unwrap();
            cluster.handle(rolled_back).wait_cluster().await.unwrap();
        }
        for _ in 0..2 {
            join_as_voter(&mut cluster, leader).await;
        }
        // Members 3 and 4 miss the write that the three acknowledge.
        cluster.kill(3).await;
        cluster.kill(4).await;
        revision_of(cluster.handle(leader).propose(put("a", "1")).await);
        for n in 0..3 {
            cluster.kill(n).await;
        }
        cluster.disks[rolled_back] = older;
        for n in [3, 4, rolled_back] {
            cluster.restart(n).await.unwrap();
        }
        // The older copy knows neither of the two, and the members it knows are away: it votes for none.
        SimRuntime::sleep(Duration::from_secs(10)).await;
        assert!([3, 4].iter().all(|n| !cluster.handle(*n).is_leader()), "by an older copy's vote");
        let others: Vec<usize> = (0..3).filter(|n| *n != rolled_back).collect();
        for n in &others {
            cluster.restart(*n).await.unwrap();
        }
        let reason = ended(&cluster, rolled_back, LONG).await.expect("an older copy goes on");
        assert!(reason.contains("has an older copy of its data"), "{reason}");
        let leader = cluster.leader_among(&[others[0], others[1], 3, 4]).await;
        cluster.handle(leader).barrier().await.unwrap();
        assert_eq!(value(&cluster.handle(leader), "a").as_deref(), Some("1"));
    });
}

#[test]
fn a_member_that_was_removed_before_it_started_stays_removed() {
    simulate(310, async {
        let cluster = Cluster::start(3).await;
        bring_stranger(&cluster);
        let leader = cluster.leader().await;
        cluster.handle(leader).add_learner(&peer(STRANGER)).await.unwrap();
        cluster.handle(leader).remove(peer(STRANGER).id).await.unwrap();
        for n in 0..3 {
            let at = cluster.handle(leader).barrier().await.unwrap();
            assert!(cluster.handle(n).wait_applied(at, LONG).await);
            let ballot = Request::PreVote(wire::VoteRequest { vote: vote(1), ..Default::default() });
            assert!(ask(&cluster, n, ballot).await.unwrap_err().contains("was removed"));
        }
        let again = cluster.handle(leader).add_learner(&peer(STRANGER)).await;
        assert!(again.unwrap_err().to_string().contains("was removed"));
    });
}

/// Sends a pre-vote request of the stranger to `to`; `recall` is what it claims to know of that disk.
async fn claim(cluster: &Cluster, to: usize, recall: wire::Recall) -> Result<(), String> {
    let ballot = Request::PreVote(ballot(STRANGER, 9));
    impostors::ask(cluster, STRANGER, to, ballot, recall).await.map(drop)
}

/// At any time of the member's life, and while it listens for other members at its start.
#[test]
fn a_stranger_ends_no_member_alone() {
    simulate(311, async {
        let mut cluster = Cluster::start(1).await;
        cluster.handle(0).wait_cluster().await.unwrap();
        for pause in [3600, 3600, 0, 0] {
            SimRuntime::sleep(Duration::from_secs(pause)).await;
            for proof in [Bytes::new(), Bytes::from_static(&[7; 32])] {
                let recall = wire::Recall { starts: 1000, incarnation: 5, proof, ..Default::default() };
                claim(&cluster, 0, recall).await.unwrap_err();
            }
            assert_eq!(ended(&cluster, 0, SOON).await, None);
            cluster.kill(0).await;
            cluster.restart(0).await.unwrap();
        }
        cluster.leader().await;
    });
}

#[test]
fn a_stranger_keeps_no_cluster_from_being_founded() {
    simulate(312, async {
        let mut cluster = Cluster::new(3);
        for n in 0..3 {
            cluster.restart(n).await.unwrap();
        }
        let first = (0..3).min_by_key(|n| peer(*n).id).unwrap();
        // A claim to know the member's earlier disk is believed, and the error names the claimant.
        let knows = wire::Recall { directory: "earlier".into(), starts: 2, ..Default::default() };
        claim(&cluster, first, knows).await.unwrap_err();
        cluster.handle(first).known(peer(STRANGER).id, "n9");
        let refused = cluster.handle(0).found().await.unwrap_err().to_string();
        assert!(refused.contains("member n9 of a running cluster"), "{refused}");
        SimRuntime::sleep(Duration::from_secs(11)).await;
        claim(&cluster, first, wire::Recall { incarnation: 5, ..Default::default() }).await.unwrap_err();
        let transport = cluster.network.transport(peer(STRANGER).id);
        drop(transport.open(&peer(first), Purpose::Append).await.unwrap());
        SimRuntime::sleep(Duration::from_millis(10)).await;
        cluster.handle(0).found().await.unwrap();
    });
}

/// Refused streams and frames are logged at a limited rate.
#[test]
fn refused_streams_do_not_fill_the_log() {
    use crate::warnings::counting::Warned;
    let warned = Warned::default();
    tracing::subscriber::with_default(warned.clone(), || {
        simulate(313, async {
            let cluster = Cluster::start(1).await;
            cluster.handle(0).wait_cluster().await.unwrap();
            let transport = cluster.network.transport(peer(STRANGER).id);
            let before = warned.count();
            for _ in 0..200 {
                drop(transport.open(&peer(0), Purpose::Control).await.unwrap());
                claim(&cluster, 0, wire::Recall { starts: 1000, ..Default::default() }).await.unwrap_err();
            }
            // In less than a second: one line for the streams, one for a peer that no member knows.
            assert_eq!(warned.count() - before, 2);
        });
    });
}

/// The address given for the member is wrong, or the member was never added.
#[test]
fn a_member_that_no_leader_reaches_says_so() {
    use crate::warnings::counting::Warned;
    let warned = Warned::default();
    tracing::subscriber::with_default(warned.clone(), || {
        simulate(314, async {
            let mut cluster = Cluster::start(1).await;
            cluster.leader().await;
            let joined = cluster.join().await;
            cluster.network.unserve(peer(joined).id);
            cluster.handle(0).add_learner(&peer(joined)).await.unwrap();
            let before = warned.count();
            SimRuntime::sleep(Duration::from_secs(30)).await;
            assert_eq!(warned.count() - before, 1);
        });
    });
}
