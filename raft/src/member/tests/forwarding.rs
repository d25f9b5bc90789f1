//! Forwarded writes when one side of the stream hangs.

use orch_proto::store as wire;
use prost::Message;
use tokio::sync::mpsc;

use super::*;
use crate::Runtime;
use crate::encoding::{ProposalId, encode_transaction};
use crate::transport::{Duplex, Purpose};

/// A cluster, its leader, and a follower with an open forward stream.
async fn forwarding() -> (Cluster, usize, usize) {
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    revision_of(cluster.handle(follower).propose(create("first", "x")).await);
    (cluster, leader, follower)
}

#[test]
fn a_hung_stream_is_given_up_and_what_was_under_way_is_unknown() {
    simulate(301, async {
        let (cluster, leader, follower) = forwarding().await;
        cluster.network.hang(Purpose::Forward);
        let handle = cluster.handle(follower);
        let lost = SimRuntime::spawn(async move { handle.propose(create("lost", "x")).await });
        // Longer than two listen periods: a leader silent for one loses the stream.
        SimRuntime::sleep(Duration::from_secs(5)).await;
        let start = SimInstant::now();
        revision_of(cluster.handle(follower).propose(create("later", "x")).await);
        let took = SimInstant::now().saturating_duration_since(start);
        assert!(took < Duration::from_secs(1), "a write after the stream was given up took {took:?}");
        let lost = lost.await.unwrap();
        assert!(matches!(lost, Err(ProposeError::Unknown { .. })), "{lost:?}");
        assert!(cluster.handle(leader).is_leader(), "the same leader all along");
        assert_eq!(value(&cluster.handle(follower), "lost"), None, "it was not sent again");
    });
}

#[test]
fn writes_go_on_past_a_stream_whose_buffers_are_full() {
    simulate(302, async {
        let (cluster, _, follower) = forwarding().await;
        cluster.network.hang(Purpose::Forward);
        // More frames than the stream buffers: one for each write, since each write waits for the frame before to be
        // sent.
        let writes: Vec<_> = (0..40)
            .map(|i| {
                let handle = cluster.handle(follower);
                SimRuntime::spawn(async move {
                    SimRuntime::sleep(Duration::from_millis(i * 10)).await;
                    handle.propose(create(&format!("o{i}"), "x")).await
                })
            })
            .collect();
        let (mut applied, mut unknown) = (0, 0);
        for write in writes {
            match write.await.unwrap() {
                Ok(Outcome::Applied { .. }) => applied += 1,
                Err(ProposeError::Unknown { .. }) => unknown += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(unknown > 0, "nothing was under way when the stream hung");
        assert!(applied > 20, "what had no room was not sent, so it goes over the next stream: {applied}");
    });
}

#[test]
fn a_leader_without_a_quorum_keeps_its_forward_streams() {
    simulate(303, async {
        let (mut cluster, leader, follower) = forwarding().await;
        cluster.kill(3 - leader - follower).await;
        // No entry commits until the leader gives up the stream of appends; its heartbeats pass.
        cluster.network.hang(Purpose::Append);
        let opened = cluster.network.streams(Purpose::Forward);
        let handle = cluster.handle(follower);
        let write = SimRuntime::spawn(async move { handle.propose(create("a", "x")).await });
        SimRuntime::sleep(Duration::from_millis(4500)).await;
        assert_eq!(value(&cluster.handle(leader), "a"), None, "something was committed without a quorum");
        assert_eq!(cluster.network.streams(Purpose::Forward), opened, "the sender took the leader for dead");
        revision_of(write.await.unwrap());
        assert_eq!(cluster.network.streams(Purpose::Forward), opened);
    });
}

#[test]
fn a_peer_that_reads_no_answers_loses_its_stream() {
    simulate(304, async {
        let (cluster, leader, follower) = forwarding().await;
        let service = cluster.members[leader].as_ref().unwrap().service();
        let (to_leader, receiver) = mpsc::channel(8);
        let (sender, unread) = mpsc::channel(1);
        let duplex = Duplex { sender, receiver };
        let serving = SimRuntime::spawn(service.stream(peer(follower).id, Purpose::Forward, duplex));
        for sequence in 1..=4 {
            // Of an earlier term: each is refused, and answered at once.
            let transactions = vec![nothing()];
            let frame = wire::ForwardRequest { sequence, transactions, ..Default::default() };
            to_leader.send(Bytes::from(frame.encode_to_vec())).await.unwrap();
        }
        let start = SimInstant::now();
        serving.await.unwrap();
        let took = SimInstant::now().saturating_duration_since(start);
        assert!(took < Duration::from_secs(10), "{took:?}");
        drop(unread);
    });
}

/// A transaction that changes nothing.
fn nothing() -> Bytes {
    encode_transaction(ProposalId::default(), &Transaction::default(), 0)
}

/// A leader that was cut off for seconds knows the members only from the first acknowledgement on. The other member
/// that it could ask is stopped.
#[test]
fn a_write_that_comes_before_the_leader_is_in_touch_is_sent_again() {
    simulate(305, async {
        let (mut cluster, leader, follower) = forwarding().await;
        SimRuntime::sleep(Duration::from_secs(2)).await;
        cluster.kill(3 - leader - follower).await;
        cluster.network.isolate(peer(leader).id, [peer(follower).id].into_iter());
        // This write is lost in the cut stream, and ends that stream.
        let handle = cluster.handle(follower);
        drop(SimRuntime::spawn(async move { handle.propose(create("lost", "x")).await }));
        SimRuntime::sleep(Duration::from_secs(5)).await;
        let handle = cluster.handle(follower);
        let written = SimRuntime::spawn(async move { handle.propose(create("a", "x")).await });
        SimRuntime::sleep(Duration::from_millis(500)).await;
        cluster.network.heal();
        let start = SimInstant::now();
        revision_of(written.await.unwrap());
        let took = SimInstant::now().saturating_duration_since(start);
        assert!(took < Duration::from_secs(2), "{took:?}");
    });
}
