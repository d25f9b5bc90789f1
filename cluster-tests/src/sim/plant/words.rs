//! Answers between members, changed on the wire.
//!
//! Owns the bugs in which a member gets another answer than its peer gave, and their memory of a run. The members are
//! those of production, and evaluate the changed answers themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use orch_proto::store as wire;
use orch_raft::transport::NodeId;
use parking_lot::Mutex;
use prost::Message;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use super::Plant;
use crate::sim::runtime::NodeRuntime;

/// Time for which the claim of a removed member is copied into the answers of others: each of them is asked within it.
const ECHO: Duration = Duration::from_secs(3);

/// A request and its answer on the wire.
pub struct Exchange<'a> {
    /// The member that asks.
    pub asker: NodeId,
    /// The request.
    pub asked: &'a Bytes,
    /// The answer as it was given.
    pub answered: &'a Bytes,
    /// The asker's state is known to be wrong.
    pub asker_is_odd: bool,
    /// The answering member's state is known to be wrong.
    pub answerer_is_odd: bool,
    /// A removed member's certificate answers.
    pub answerer_is_removed: bool,
}

/// Answers of a run that these bugs remember.
#[derive(Debug, Default)]
pub struct Heard {
    /// Digests of the member whose state is wrong.
    odd: Mutex<Option<Vec<wire::Checkpoint>>>,
    /// By the member that asked: the newest answer of a removed member, and its time.
    lies: Mutex<BTreeMap<NodeId, (Duration, wire::IdentityResponse)>>,
}

impl Plant {
    /// The forged answer for the asker; `None` to leave the answer alone.
    pub fn bend(self, heard: &Heard, exchange: &Exchange<'_>) -> Option<Bytes> {
        if ![Plant::JudgesDeaf, Plant::OddOneRules, Plant::LoneWordCounts].contains(&self) {
            return None;
        }
        let mut message = wire::ControlResponse::decode(exchange.answered.clone()).ok()?;
        match (self, message.kind.as_mut()?) {
            (Plant::JudgesDeaf, Response::Agreement(answer)) if exchange.asker_is_odd => {
                answer.checkpoints.clear();
            }
            (Plant::OddOneRules, Response::Agreement(answer)) if exchange.answerer_is_odd => {
                *heard.odd.lock() = Some(answer.checkpoints.clone());
            }
            (Plant::OddOneRules, Response::Agreement(answer)) => {
                answer.checkpoints = heard.odd.lock().clone()?;
            }
            (Plant::LoneWordCounts, Response::Identity(answer)) if is_about_asker(exchange.asked) => {
                heard.echo(exchange, answer)?;
            }
            _ => return None,
        }
        Some(Bytes::from(message.encode_to_vec()))
    }
}

impl Heard {
    /// Copies the newest claim of a removed member about the asker into `answer`.
    fn echo(&self, exchange: &Exchange<'_>, answer: &mut wire::IdentityResponse) -> Option<()> {
        let now = NodeRuntime::elapsed();
        let mut lies = self.lies.lock();
        if exchange.answerer_is_removed {
            lies.insert(exchange.asker, (now, answer.clone()));
            return None;
        }
        let (_, lie) = lies.get(&exchange.asker).filter(|(at, _)| now - *at < ECHO)?;
        answer.removed |= lie.removed;
        if lie.starts > 0 {
            (answer.starts, answer.incarnation) = (lie.starts, lie.incarnation);
        }
        Some(())
    }
}

fn is_about_asker(asked: &Bytes) -> bool {
    let asked = wire::ControlRequest::decode(asked.clone()).ok().and_then(|message| message.kind);
    matches!(asked, Some(Request::Identity(request)) if request.about == 0)
}
