//! Clients of the aggregated servers, each of whose requests is another user's.
//!
//! Owns their requests, which bear names of users that are not theirs, and the codes that a correct server may answer.

use std::sync::Arc;

use bytes::Bytes;
use orch_cluster_tests::sim::requests::{ask, request};
use orch_cluster_tests::sim::session::Session;
use orch_cluster_tests::sim::world::World;
use orch_raft::transport::NodeId;
use parking_lot::Mutex;

use super::backends::{FORGED, NAMES, Sent, things};

/// Codes that a correct server answers: the server's own, and those for one that is away, that this member has not heard of, or too many.
const CODES: [u16; 8] = [200, 201, 404, 409, 429, 500, 503, 504];

/// Users on whose behalf requests are sent.
const USERS: u64 = 7;

/// A client.
#[derive(Clone)]
pub(crate) struct Caller {
    session: Session,
    sent: Arc<Mutex<Sent>>,
}

impl Caller {
    pub(crate) fn new(world: &World, number: u64, sent: &Arc<Mutex<Sent>>) -> Self {
        Caller { session: Session::new(world, number), sent: sent.clone() }
    }

    /// Sends requests until the run calms down.
    pub(crate) async fn call(self) {
        while self.session.world().is_busy() {
            self.session.think(200).await;
            let dice = self.session.dice();
            let (node, name) = (self.session.pick(), NAMES[dice.index(NAMES.len())]);
            if dice.number(0..6) == 0 {
                // Discovery, which concerns both servers, and asks neither.
                let request = request("GET", "/apis").body(Bytes::new());
                let request = request.expect("clients send valid requests");
                drop(ask(&self.session, &CODES, node, request).await);
                continue;
            }
            self.create(node, name).await;
        }
    }

    /// Creates a thing; the code.
    pub(crate) async fn create(&self, node: NodeId, name: &str) -> Option<u16> {
        let user = format!("u{}", self.session.dice().number(0..USERS));
        let token = {
            let mut sent = self.sent.lock();
            let token = sent.len().to_string();
            sent.insert(token.clone(), user.clone());
            token
        };
        let path = format!("{}?token={token}", things(name, "default"));
        let request = request("POST", &path)
            .header("impersonate-user", &user)
            .header("impersonate-group", "system:masters")
            .header("x-remote-user", FORGED)
            .header("x_remote_user", FORGED)
            .header("x-remote-group", FORGED)
            .body(Bytes::from_static(b"{}"))
            .expect("clients send valid requests");
        let (code, answer) = ask(&self.session, &CODES, node, request).await?;
        if code == 201 && answer["token"] != token.as_str() {
            self.session.world().fail(format_args!("n{} answers {path} with {answer}", node.0));
        }
        Some(code)
    }
}
