//! Found by independent attacks: each test claims what the decisions promise, and failed. A comment says how it failed.
//!
//! Owns peers that answer what they like, and clusters in the states that such peers wait for.

mod answers;
mod contact;
mod copies;
mod forms;
mod reading;
mod states;
mod words;

use futures::FutureExt;
use futures::future::BoxFuture;
use orch_proto::store as wire;
use prost::Message;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use super::liars::{Liar, known_everywhere};
use super::*;
use crate::Runtime;
use crate::transport::{Duplex, NodeId, PeerService, Purpose, Transport};

const SOON: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(60);

fn copy(cluster: &Cluster, n: usize) -> Arc<MemoryDisk> {
    Arc::new(cluster.disks[n].copy())
}

async fn converge(cluster: &Cluster) {
    eventually("everybody has applied everything", || {
        let applied: Vec<_> = cluster.handles().iter().map(|handle| handle.status().applied).collect();
        applied.iter().all(|at| *at == applied[0]).then_some(())
    })
    .await;
}

/// Whether a member ended within `time`; one that cannot even start has ended.
async fn ended(cluster: &Cluster, n: usize, time: Duration) -> Option<String> {
    SimRuntime::timeout(time, cluster.handle(n).fatal()).await.ok()
}

/// A cluster of three with a learner, which is in other hands.
async fn with_lying_learner(lie: wire::IdentityResponse) -> Cluster {
    let mut cluster = Cluster::start(3).await;
    known_everywhere(&cluster).await;
    let leader = cluster.leader().await;
    let learner = cluster.join().await;
    cluster.handle(leader).add_learner(&peer(learner)).await.unwrap();
    known_everywhere(&cluster).await;
    converge(&cluster).await;
    cluster.kill(learner).await;
    cluster.network.serve(peer(learner).id, Arc::new(Liar(lie)));
    cluster
}

/// A cluster of which a voter was removed while another one, which starts alone now, was away; that one, and the removed one.
async fn away_alone_with_a_removed_voter() -> (Cluster, usize, usize) {
    away_alone(Cluster::new(3), 0).await
}

/// The same of a cluster of three that was not started yet, and that writes so much while the one is away.
async fn away_alone(mut cluster: Cluster, writes: usize) -> (Cluster, usize, usize) {
    cluster.start_and_found().await;
    known_everywhere(&cluster).await;
    let away = 2;
    let leader = cluster.leader().await;
    let liar = cluster.join().await;
    cluster.handle(leader).add_learner(&peer(liar)).await.unwrap();
    known_everywhere(&cluster).await;
    cluster.handle(leader).promote(peer(liar).id).await.unwrap();
    converge(&cluster).await;
    cluster.kill(away).await;
    let mut leader = cluster.leader_among(&[0, 1, liar]).await;
    if leader == liar {
        cluster.handle(liar).transfer_leader(peer(0).id).await.unwrap();
        leader = eventually("the lead", || cluster.handle(0).is_leader().then_some(0)).await;
    }
    cluster.handle(leader).remove(peer(liar).id).await.unwrap();
    for i in 0..writes {
        revision_of(cluster.handle(leader).propose(put("busy", &format!("{i}"))).await);
    }
    for n in [0, 1, liar] {
        cluster.kill(n).await;
    }
    cluster.network.serve(peer(liar).id, Arc::new(Liar(wire::IdentityResponse::default())));
    cluster.restart(away).await.unwrap();
    SimRuntime::sleep(SOON).await;
    (cluster, away, liar)
}
