//! The simulated network has the faults of real ones, and no others.

use futures::FutureExt;
use futures::future::BoxFuture;
use orch_raft::transport::{Duplex, Peer, Purpose, Transport, TransportError};

use super::transport::Answer;
use super::*;
use crate::sim::runtime::spawn_detached;

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);
const PATIENCE: Duration = Duration::from_millis(500);

/// Answers every frame with itself.
struct Echo;

impl PeerService for Echo {
    fn call(&self, from: NodeId, _: Purpose, frame: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        async move { if from == A { Ok(frame) } else { Err("stranger".to_owned()) } }.boxed()
    }

    fn stream(&self, _: NodeId, _: Purpose, mut duplex: Duplex) -> BoxFuture<'static, ()> {
        async move {
            while let Some(frame) = duplex.receiver.recv().await {
                if duplex.sender.send(frame).await.is_err() {
                    return;
                }
            }
        }
        .boxed()
    }
}

fn peer(id: NodeId) -> Peer {
    Peer { id, name: Arc::from(format!("n{}", id.0)), address: Arc::from("sim") }
}

fn frame(number: u64) -> Bytes {
    Bytes::from(number.to_string())
}

struct Pair {
    network: SimNetwork,
    a: SimTransport,
    process: TaskGroup,
}

fn with_pair<F: Future<Output = ()>>(seed: u64, body: impl FnOnce(Pair) -> F) {
    NodeRuntime::with_seed(seed).block_on(async {
        let network = SimNetwork::new(Dice::new(seed, "net"));
        let process = TaskGroup::default();
        network.attach(B, process.clone(), Arc::new(Echo));
        body(Pair { a: network.transport(A), network, process }).await;
    });
}

async fn call(from: &SimTransport) -> Answer {
    from.call(&peer(B), Purpose::Control, frame(7), PATIENCE).await
}

#[test]
fn calls_are_answered_after_a_delay() {
    with_pair(1, |pair| async move {
        let before = NodeRuntime::elapsed();
        assert_eq!(call(&pair.a).await, Ok(frame(7)));
        assert!(NodeRuntime::elapsed() > before);
        let stranger = pair.network.transport(NodeId(9));
        assert!(matches!(call(&stranger).await, Err(TransportError::Lost { .. })));
    });
}

#[test]
fn a_cut_either_way_swallows_calls_and_a_dead_process_refuses_them() {
    with_pair(2, |pair| async move {
        for (from, to) in [(A, B), (B, A)] {
            pair.network.cut(from, to);
            let before = NodeRuntime::elapsed();
            assert!(matches!(call(&pair.a).await, Err(TransportError::Lost { .. })));
            assert!(NodeRuntime::elapsed() - before >= PATIENCE);
            pair.network.heal();
        }
        pair.process.kill();
        assert!(matches!(call(&pair.a).await, Err(TransportError::Refused { .. })));
        assert!(pair.a.open(&peer(B), Purpose::Append).await.is_err());
    });
}

#[test]
fn a_stopped_process_answers_when_it_runs_again() {
    with_pair(3, |pair| async move {
        pair.process.pause();
        let transport = pair.a.clone();
        let asked = spawn_detached(async move {
            transport.call(&peer(B), Purpose::Control, frame(1), Duration::from_secs(9)).await
        });
        NodeRuntime::sleep(Duration::from_secs(2)).await;
        pair.process.resume();
        assert_eq!(asked.await.unwrap(), Ok(frame(1)));
        assert!(NodeRuntime::elapsed() > Duration::from_secs(2));
    });
}

#[test]
fn streams_keep_order_and_press_back() {
    with_pair(4, |pair| async move {
        let Duplex { sender, mut receiver } = pair.a.open(&peer(B), Purpose::Append).await.unwrap();
        let writer = spawn_detached(async move {
            for number in 0..500 {
                sender.send(frame(number)).await.unwrap();
            }
            sender
        });
        for number in 0..500 {
            assert_eq!(receiver.recv().await, Some(frame(number)));
        }
        drop(writer.await.unwrap());
        assert_eq!(receiver.recv().await, None, "ends when this side drops");
    });
}

#[test]
fn streams_end_at_both_ends_on_crash_break_or_a_long_cut() {
    for fault in 0..3 {
        with_pair(5, |pair| async move {
            let Duplex { sender, mut receiver } = pair.a.open(&peer(B), Purpose::Append).await.unwrap();
            sender.send(frame(1)).await.unwrap();
            assert_eq!(receiver.recv().await, Some(frame(1)));
            match fault {
                0 => pair.process.kill(),
                1 => pair.network.break_connections(),
                _ => pair.network.cut(A, B),
            }
            // The frame may be accepted, or the stream be broken already. It is never echoed.
            drop(sender.send(frame(2)).await);
            assert_eq!(receiver.recv().await, None);
            sender.closed().await;
        });
    }
}

#[test]
fn a_short_cut_only_delays_a_stream() {
    with_pair(6, |pair| async move {
        pair.network.behave(|manner| manner.keep_alive_max = Duration::from_secs(900));
        let Duplex { sender, mut receiver } = pair.a.open(&peer(B), Purpose::Append).await.unwrap();
        pair.network.cut(B, A);
        sender.send(frame(1)).await.unwrap();
        NodeRuntime::sleep(Duration::from_millis(100)).await;
        assert!(receiver.try_recv().is_err());
        pair.network.heal();
        assert_eq!(receiver.recv().await, Some(frame(1)));
    });
}

#[test]
fn loss_breaks_some_calls_and_some_streams() {
    with_pair(7, |pair| async move {
        pair.network.behave(|manner| manner.loss_per_mille = 300);
        let mut answered = 0;
        for _ in 0..60 {
            answered += u32::from(call(&pair.a).await.is_ok());
        }
        assert!((10..50).contains(&answered), "{answered}");
    });
}
