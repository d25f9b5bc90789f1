//! Answers between members that are not the ones that were given.
//!
//! Owns bugs of which member hears what of whom, and what such a bug has to remember of a run. The members themselves are
//! those of production: what they make of what they hear is theirs.

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

/// For how long a word that is believed alone is heard from others, too: each is asked within it.
const ECHO: Duration = Duration::from_secs(3);

/// A question and its answer as they pass on the wire.
pub struct Exchange<'a> {
    /// Who asks.
    pub asker: NodeId,
    /// What.
    pub asked: &'a Bytes,
    /// What it is answered.
    pub answered: &'a Bytes,
    /// The asker's state is known to be wrong.
    pub asker_is_odd: bool,
    /// The answering member's is.
    pub answerer_is_odd: bool,
    /// A removed member's certificate answers.
    pub answerer_is_removed: bool,
}

/// What was heard in a run.
#[derive(Debug, Default)]
pub struct Heard {
    /// The digests of the member whose state is wrong.
    odd: Mutex<Option<Vec<wire::Checkpoint>>>,
    /// What a removed member said to whom, and when.
    lies: Mutex<BTreeMap<NodeId, (Duration, wire::IdentityResponse)>>,
}

impl Plant {
    /// The answer that is heard in place of the one given, where it is to be another.
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
    /// Has `answer` say of the asker what a removed member has said of it just before.
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
