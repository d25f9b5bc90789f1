//! Regression tests of independent attacks. Each test claims a promise of `docs/decisions` and once failed; the comment
//! `Before:` tells how.
//!
//! Owns lying peers, and clusters in the states that their attacks need.

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

use super::casts::*;
use super::impostors::*;
use super::*;
use crate::Runtime;
use crate::transport::{Duplex, NodeId, PeerService, Purpose, Transport};

const SOON: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(60);

/// A cluster of three founders with a learner whose address answers with `lie`.
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

/// A cluster from which a voter was removed while a founder was stopped. That founder now runs alone, beside the
/// removed voter. Returns the founder and the removed voter.
async fn away_alone_with_a_removed_voter() -> (Cluster, usize, usize) {
    away_alone(Cluster::new(3), 0).await
}

/// The same for a `cluster` not started yet, with `writes` made while the founder was stopped.
async fn away_alone(mut cluster: Cluster, writes: usize) -> (Cluster, usize, usize) {
    let roles = put_liar(&mut cluster, wire::IdentityResponse::default(), Seat::Voter).await;
    write_many(&cluster, roles.leader, "busy", writes).await;
    cluster.kill(roles.leader).await;
    cluster.kill(roles.follower).await;
    cluster.restart(roles.away).await.unwrap();
    SimRuntime::sleep(SOON).await;
    (cluster, roles.away, roles.liar)
}
