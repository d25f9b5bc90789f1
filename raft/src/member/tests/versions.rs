//! Programs of different feature levels in one cluster, and unknown formats.

use openraft_rt_sim::SimRuntime;
use orch_proto::store as wire;
use prost::Message;

use super::*;
use crate::Runtime;
use crate::encoding::FEATURE_LEVEL_MAX;
use crate::transport::{Duplex, Purpose, Transport};

/// The level of programs from before levels.
const OLD: u32 = 0;

fn levels(cluster: &Cluster) -> Vec<u32> {
    cluster.handles().iter().map(|handle| handle.status().feature_level).collect()
}

async fn agreed(cluster: &Cluster) {
    let all = || levels(cluster).iter().all(|level| *level == FEATURE_LEVEL_MAX).then_some(());
    eventually("the newest feature level", all).await;
}

/// A cluster whose member `n` runs the older program.
async fn with_old(n: usize) -> Cluster {
    let mut cluster = Cluster::new(3);
    cluster.programs = BTreeMap::from([(n, OLD)]);
    cluster.start_and_found().await;
    cluster.leader().await;
    cluster
}

#[test]
fn the_level_rises_when_the_last_member_is_upgraded() {
    simulate(31, async {
        let mut cluster = with_old(2).await;
        revision_of(cluster.handle(0).propose(put("a", "1")).await);
        SimRuntime::sleep(Duration::from_secs(20)).await;
        assert_eq!(levels(&cluster), [0, 0, 0], "one member would not read the new forms");
        cluster.kill(2).await;
        cluster.programs.clear();
        SimRuntime::sleep(Duration::from_secs(20)).await;
        assert_eq!(levels(&cluster), [0, 0], "whoever does not answer has not been upgraded");
        cluster.restart(2).await.unwrap();
        agreed(&cluster).await;
        revision_of(cluster.handle(2).propose(put("a", "2")).await);
        let leader = cluster.leader().await;
        let members = cluster.handle(leader).status().members;
        assert!(members.iter().all(|member| member.feature_level_max == Some(FEATURE_LEVEL_MAX)));
    });
}

#[test]
fn a_member_put_back_to_an_older_program_ends_and_goes_on_once_upgraded() {
    simulate(32, async {
        let mut cluster = Cluster::start(3).await;
        agreed(&cluster).await;
        let leader = cluster.leader().await;
        let back = (leader + 1) % 3;
        cluster.kill(back).await;
        let written = revision_of(cluster.handle(leader).propose(put("a", "1")).await);
        cluster.programs = BTreeMap::from([(back, OLD)]);
        for _ in 0..3 {
            // It ends at every start, either at once or when it reads the entries that it lacks.
            let reason = match cluster.restart(back).await {
                Err(error) => error.to_string(),
                Ok(()) => {
                    let reason = cluster.handle(back).fatal().await;
                    cluster.kill(back).await;
                    reason
                }
            };
            assert!(reason.contains("upgrade it"), "{reason}");
        }
        cluster.programs.clear();
        cluster.restart(back).await.unwrap();
        assert!(cluster.handle(back).wait_applied(written, Duration::from_secs(30)).await);
        assert_eq!(value(&cluster.handle(back), "a").as_deref(), Some("1"));
    });
}

#[test]
fn a_member_whose_program_is_too_old_is_not_added() {
    simulate(33, async {
        let mut cluster = Cluster::start(3).await;
        agreed(&cluster).await;
        let leader = cluster.leader().await;
        cluster.programs = BTreeMap::from([(3, OLD)]);
        let n = cluster.join().await;
        let refused = cluster.handle(leader).add_learner(&peer(n)).await.unwrap_err().to_string();
        assert!(refused.contains(&format!("feature level {FEATURE_LEVEL_MAX}")), "{refused}");
        assert_eq!(cluster.handle(leader).status().members.len(), 3);
        cluster.kill(n).await;
        cluster.programs.clear();
        cluster.restart(n).await.unwrap();
        cluster.handle(leader).add_learner(&peer(n)).await.unwrap();
    });
}

/// A transaction with an operation of an unknown kind.
fn unknown_operation() -> Bytes {
    // Field 4, the operations: a message with field 9, empty.
    Bytes::from_static(&[0x22, 0x02, 0x4a, 0x00])
}

#[test]
fn a_forwarded_transaction_that_is_not_understood_is_refused_for_good() {
    simulate(34, async {
        let cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        let term = cluster.handle(leader).status().term;
        let transport = cluster.network.transport(peer((leader + 1) % 3).id);
        let Duplex { sender, mut receiver } = transport.open(&peer(leader), Purpose::Forward).await.unwrap();
        let oversized = Bytes::from(vec![0; 3 << 20]);
        let transactions = vec![unknown_operation(), oversized];
        let request = wire::ForwardRequest { sequence: 1, term, transactions, ..Default::default() };
        sender.send(Bytes::from(request.encode_to_vec())).await.unwrap();
        let answer = wire::ForwardResponse::decode(receiver.recv().await.unwrap()).unwrap();
        let refused: Vec<u32> = answer.refused.iter().map(|refusal| refusal.position).collect();
        assert_eq!((refused, answer.not_appended), (vec![0, 1], vec![]));
        assert!(answer.refused[0].reason.contains("newer version"), "{}", answer.refused[0].reason);
        // No part of it is in the log: every member goes on.
        let written = revision_of(cluster.handle(leader).propose(put("a", "1")).await);
        for handle in cluster.handles() {
            assert!(handle.wait_applied(written, Duration::from_secs(5)).await);
        }
    });
}

#[test]
fn an_entry_that_is_not_understood_ends_a_member_and_is_not_skipped() {
    let log_id = Some(wire::LogId { term: 9, index: 900 });
    let payload = Some(wire::entry::Payload::Transaction(unknown_operation()));
    let unknown = [
        (wire::Entry { log_id, payload: None, format: 9 }, "format 9"),
        (wire::Entry { log_id, payload, format: 0 }, "field 9"),
    ];
    for (entry, expected) in unknown {
        simulate(35, async {
            let cluster = Cluster::start(3).await;
            let leader = cluster.leader().await;
            let (follower, term) = ((leader + 1) % 3, cluster.handle(leader).status().term);
            let transport = cluster.network.transport(peer(leader).id);
            let Duplex { sender, .. } = transport.open(&peer(follower), Purpose::Append).await.unwrap();
            let vote = Some(wire::Vote { term, node: peer(leader).id.0, committed: true });
            let request = wire::AppendRequest { vote, entries: vec![entry], ..Default::default() };
            sender.send(Bytes::from(request.encode_to_vec())).await.unwrap();
            let reason = cluster.handle(follower).fatal().await;
            assert!(reason.contains(expected) && reason.contains("upgrade it"), "{reason}");
        });
    }
}
