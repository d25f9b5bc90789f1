//! Whether a stranger may speak as a member: for a vote, or as a leader.
//!
//! A member that was away may be reached by one that was added meanwhile, even as the leader that has to tell it so. Its
//! certificate proves that it has a name and nothing more: a machine that was prepared and never added has one, too. So
//! the members that are known are asked whether they know the stranger as one. One that says yes is enough: it has the
//! membership in its log. If all that answer say no, the stranger is refused. If none answers, it is let in: whoever is
//! cut off from all others must be able to follow a leader that only newer members have elected, and what a stranger
//! could do to it then is found by the comparison of states (see agreement).
//!
//! Owns the answers, for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use openraft_rt::Instant;
use orch_proto::store as wire;
use parking_lot::Mutex;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::Core;
use crate::member::network::control;
use crate::member::standing::Standing;
use crate::transport::{NodeId, Peer, Transport};

/// For all answers together: a candidate waits for its vote meanwhile.
const ASK_TIMEOUT: Duration = Duration::from_millis(300);

/// How long an answer holds. A stranger that asks on and on costs a question to each member in so long.
const ANSWER_AGE: Duration = Duration::from_secs(2);

/// Strangers whose answers are kept; with more, nothing is kept of the others. Certificates of one authority are few.
const STRANGERS_MAX: usize = 64;

/// What was answered about strangers.
pub(crate) struct Vouchers<I>(Mutex<BTreeMap<NodeId, (bool, I)>>);

impl<I> Default for Vouchers<I> {
    fn default() -> Self {
        Vouchers(Mutex::default())
    }
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Whether `from` may have a vote of this member, or lead it.
    pub(crate) async fn is_vouched_for(&self, from: NodeId) -> bool {
        match self.standing(from) {
            Standing::Member => return true,
            Standing::Removed => return false,
            Standing::Stranger => {}
        }
        let known = self.vouchers.0.lock().get(&from).copied();
        if let Some((vouched, _)) = known.filter(|(_, at)| at.elapsed() < ANSWER_AGE) {
            return vouched;
        }
        let others = self.others().into_iter().filter(|peer| peer.id != from);
        let mut answers: FuturesUnordered<_> =
            others.map(|peer| async move { self.ask_about(&peer, from).await }).collect();
        let mut vouched = true;
        while let Some(answer) = answers.next().await {
            match answer {
                Some(true) => {
                    vouched = true;
                    break;
                }
                Some(false) => vouched = false,
                None => {}
            }
        }
        let mut kept = self.vouchers.0.lock();
        kept.retain(|_, (_, at)| at.elapsed() < ANSWER_AGE);
        if kept.len() < STRANGERS_MAX {
            kept.insert(from, (vouched, R::Instant::now()));
        }
        if !vouched {
            tracing::warn!(stranger = %from, "refused: no member knows it");
        }
        vouched
    }

    /// Whether `peer` knows `stranger` as a member; `None` without an answer.
    async fn ask_about(&self, peer: &Peer, stranger: NodeId) -> Option<bool> {
        let request = Request::Identity(wire::IdentityRequest { unconfirmed: true, about: stranger.0 });
        match control(&self.transport, peer, request, ASK_TIMEOUT).await {
            Ok(Response::Identity(answer)) => Some(answer.about_member),
            _ => None,
        }
    }
}
