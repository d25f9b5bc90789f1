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

use super::casts::*;
use super::impostors::*;
use super::*;
use crate::Runtime;
use crate::transport::{Duplex, NodeId, PeerService, Purpose, Transport};

const SOON: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(60);

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

/// A cluster of which a voter was removed while another member was away. The one that was away runs alone now. That one,
/// and the removed one.
async fn away_alone_with_a_removed_voter() -> (Cluster, usize, usize) {
    away_alone(Cluster::new(3), 0).await
}

/// The same of a `cluster` that was not started yet, with `writes` made while that one was away.
async fn away_alone(mut cluster: Cluster, writes: usize) -> (Cluster, usize, usize) {
    let roles = put_liar(&mut cluster, wire::IdentityResponse::default(), Seat::Voter).await;
    write_many(&cluster, roles.leader, "busy", writes).await;
    cluster.kill(roles.leader).await;
    cluster.kill(roles.follower).await;
    cluster.restart(roles.away).await.unwrap();
    SimRuntime::sleep(SOON).await;
    (cluster, roles.away, roles.liar)
}
