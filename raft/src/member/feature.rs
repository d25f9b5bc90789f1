//! The feature level: the version of the stored forms and frames that the members of a cluster write.
//!
//! Owns the level that this program supports and the level that the cluster has agreed on. Every stored form and frame
//! names the lowest level that reads it (see [`crate::encoding`]); a member writes only forms of the agreed level.
//!
//! - The level is an object of the cluster's own resource: agreed through the log, the same at each revision everywhere.
//! - The leader raises it once every voter and learner has answered that its program supports a higher one. It never
//!   falls: stored forms must stay readable.
//! - A member whose program supports less than what was agreed stops, and says which level it lacks. It has damaged
//!   nothing and goes on where it stopped once it is upgraded.
//!
//! Invariant: between the members' answers and the appending of the raise no member is added, because both hold
//! [`Feature::alone`] and the raise is appended in the very term in which they were asked or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::future::join_all;
use orch_proto::store as wire;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use crate::Runtime;
use crate::disk::Disk;
use crate::encoding::{ProposalId, encode_transaction};
use crate::interest::Interest;
use crate::key::Revision;
use crate::member::core::{Core, Leader, within};
use crate::member::forward::append;
use crate::member::identity::{CLUSTER_RESOURCE, cluster_key, cluster_put};
use crate::member::network::control;
use crate::member::options::StartError;
use crate::state::State;
use crate::transaction::{Condition, Operation, Put, Transaction};
use crate::transport::{Peer, Transport};

/// The name of the object that holds the agreed level.
const LEVEL: &str = "feature-level";

/// Its only field.
const LEVEL_FIELD: &str = "level";

/// Pause between two rounds of asking while members are being upgraded. A round is one small call to each member; upgrades
/// take minutes.
const ASK_PERIOD: Duration = Duration::from_secs(2);

/// Time for one member's answer: it looks up two numbers.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the leader waits for a raise to be applied before it lets memberships change again. A raise that is still
/// under way then is either applied or lost with the term; a member added meanwhile is asked for its level after a barrier.
const RAISE_TIMEOUT: Duration = Duration::from_secs(10);

/// The level of this program and of its cluster, shared by all parts that encode or decode.
#[derive(Debug)]
pub(crate) struct FeatureLevel {
    supported: u32,
    agreed: AtomicU32,
}

impl FeatureLevel {
    /// A program that supports levels up to `supported`, in a cluster whose level is not known yet.
    pub(crate) fn of(supported: u32) -> Arc<Self> {
        Arc::new(FeatureLevel { supported, agreed: AtomicU32::new(0) })
    }

    /// The highest level whose forms may be read.
    pub(crate) fn supported(&self) -> u32 {
        self.supported
    }

    /// The level whose forms are written.
    pub(crate) fn agreed(&self) -> u32 {
        self.agreed.load(Ordering::Acquire)
    }

    /// Takes over the agreed level from the applied state. An error if this program does not support it.
    pub(crate) fn follow(&self, state: &State) -> Result<(), StartError> {
        let agreed = agreed_feature_level(state);
        if agreed > self.supported {
            return Err(StartError::OldProgram { agreed, supported: self.supported });
        }
        self.agreed.fetch_max(agreed, Ordering::AcqRel);
        Ok(())
    }
}

/// The feature levels of this member, its cluster and the other members.
pub(crate) struct Feature {
    pub(crate) level: Arc<FeatureLevel>,
    /// Held while members are asked and the level is raised, and while a member is asked and added.
    pub(crate) alone: tokio::sync::Mutex<()>,
    /// The supported level in each member's last answer, by member id.
    heard: Mutex<BTreeMap<u64, u32>>,
}

impl Feature {
    pub(crate) fn new(level: Arc<FeatureLevel>) -> Self {
        Feature { level, alone: tokio::sync::Mutex::default(), heard: Mutex::default() }
    }

    /// The supported level in the last answer of `member`; `None` before the first.
    pub(crate) fn heard(&self, member: u64) -> Option<u32> {
        self.heard.lock().get(&member).copied()
    }
}

/// The feature level that the cluster had agreed on in `state`.
pub fn agreed_feature_level(state: &State) -> u32 {
    agreed(state).map_or(0, |(level, _)| level)
}

/// The level that the cluster agreed on, and the revision that set it; `None` before the first raise.
fn agreed(state: &State) -> Option<(u32, Revision)> {
    let object = state.object(&cluster_key(LEVEL))?;
    // A level that is no number was written by an unknown program: `u32::MAX` is above every supported level.
    Some((object.index.fields.value(LEVEL_FIELD, 0).parse().unwrap_or(u32::MAX), object.revision))
}

/// The transaction that raises the level from what `state` has.
fn raise(state: &State, to: u32, now_ms: u64) -> Transaction {
    let key = cluster_key(LEVEL);
    let condition = match agreed(state) {
        None => Condition::Absent(key),
        Some((_, revision)) => Condition::AtRevision(key, revision),
    };
    let operations = vec![Operation::Put(level_put(to))];
    Transaction { proposed_ms: now_ms, conditions: vec![condition], operations }
}

/// The object with the agreed level `to`.
pub(crate) fn level_put(to: u32) -> Put {
    cluster_put(LEVEL, &[(LEVEL_FIELD, &to.to_string())])
}

/// Whether the store's own object at `path` holds the agreed level.
pub(crate) fn is_level(path: &str) -> bool {
    path == LEVEL
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Follows the agreed level, and raises it where this member leads, for as long as the member lives.
    pub(crate) async fn keep_feature_level(self: Arc<Self>) {
        let mut changes = self.applied.subscribe(&Arc::from(CLUSTER_RESOURCE), Interest::Everything);
        loop {
            if let Err(error) = self.feature.level.follow(&self.applied.state()) {
                return self.fatal.report(error);
            }
            let level = &self.feature.level;
            let may_rise = level.agreed() < level.supported();
            if let Some(leader) = self.leader().filter(|leader| leader.local && may_rise) {
                self.try_raise(leader).await;
            }
            // Winning the lead wakes nothing here, so it is checked every `ASK_PERIOD`. `None` inside: the store ended.
            if let Some(None) = within::<R, _>(ASK_PERIOD, changes.changed()).await {
                return;
            }
        }
    }

    /// Raises the level to the highest that every member supports, if that is above the agreed one.
    async fn try_raise(&self, leader: Leader) {
        let _alone = self.feature.alone.lock().await;
        // After the barrier every raise of an earlier term is applied here.
        if self.barrier().await.is_err() {
            return;
        }
        let Some(common) = self.ask_members().await else { return };
        let state = self.applied.state();
        let now = agreed_feature_level(&state);
        if common <= now {
            return;
        }
        tracing::info!(from = now, to = common, "raising the cluster's feature level");
        let raise = raise(&state, common, (self.options.clock)());
        // Encoded at the old level: a program that lacks the new one can still read the raise, and then stops.
        let bytes = encode_transaction(ProposalId::default(), &raise, now);
        let (done, appended) = oneshot::channel::<()>();
        append(self, leader.term, bytes, move || drop(done)).await;
        let applied = async {
            // The sender is dropped when the raise was applied, refused or lost.
            drop(appended.await);
        };
        if within::<R, _>(RAISE_TIMEOUT, applied).await.is_none() {
            tracing::warn!("the raise of the feature level is not applied in time");
        }
    }

    /// The highest level that every member supports; `None` unless all of them have answered.
    async fn ask_members(&self) -> Option<u32> {
        let membership = self.membership();
        let own = self.options.id().0;
        let peers: Vec<Peer> = membership.membership().nodes().map(|(id, place)| place.peer(*id)).collect();
        let others = peers.iter().filter(|peer| peer.id.0 != own);
        let answers = join_all(others.map(|peer| self.ask_level(peer))).await;
        let supported = self.feature.level.supported();
        answers.into_iter().try_fold(supported, |least, answer| Some(least.min(answer?.supported)))
    }

    /// Asks `peer` for its levels; `None` when it does not answer.
    async fn ask_level(&self, peer: &Peer) -> Option<wire::FeatureResponse> {
        let request = Request::Feature(wire::FeatureRequest {});
        match control(&self.transport, peer, request, ASK_TIMEOUT).await {
            Ok(Response::Feature(answer)) if answer.node == peer.id.0 => {
                self.feature.heard.lock().insert(answer.node, answer.supported);
                Some(answer)
            }
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(peer = %peer.name, %error, "asking for the feature level");
                None
            }
        }
    }

    /// Answers another member's question for feature levels.
    pub(crate) fn answer_feature(&self) -> wire::FeatureResponse {
        let level = &self.feature.level;
        wire::FeatureResponse {
            node: self.options.id().0,
            supported: level.supported(),
            agreed: level.agreed(),
        }
    }

    /// The reason why `peer` may not be added to the cluster; for the leader, which holds [`Feature::alone`]. A peer that
    /// does not answer may be added: it asks by itself before it takes part, and the level is not raised without its answer.
    pub(crate) async fn refuses_level_of(&self, peer: &Peer) -> Option<String> {
        if self.barrier().await.is_err() {
            return Some("the cluster's feature level is not known: no quorum answers".to_owned());
        }
        let agreed = agreed_feature_level(&self.applied.state());
        let answer = self.ask_level(peer).await?;
        let lacks = answer.supported < agreed;
        lacks.then(|| {
            let error = StartError::OldProgram { agreed, supported: answer.supported };
            format!("member {} cannot be added: {error}", peer.name)
        })
    }

    /// Whether this program supports the agreed level of the cluster that it is about to join; ends the member if not.
    pub(crate) async fn supports_level_of(&self, peers: &[&Peer]) -> bool {
        let answers = join_all(peers.iter().map(|peer| self.ask_level(peer))).await;
        let agreed = answers.into_iter().flatten().map(|answer| answer.agreed).max().unwrap_or(0);
        let supported = self.feature.level.supported();
        if agreed > supported {
            self.fatal.report(StartError::OldProgram { agreed, supported });
        }
        agreed <= supported
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::Outcome;

    #[test]
    fn a_level_is_raised_once_from_what_it_was() {
        let mut state = State::default();
        let level = FeatureLevel::of(2);
        assert_eq!((agreed(&state), level.agreed()), (None, 0));
        let (first, rival) = (raise(&state, 1, 5), raise(&state, 2, 5));
        assert!(matches!(state.apply(Revision(2), &first), Outcome::Applied { .. }));
        assert!(matches!(state.apply(Revision(3), &rival), Outcome::Refused { .. }));
        assert_eq!(agreed(&state), Some((1, Revision(2))));
        level.follow(&state).unwrap();
        assert_eq!(level.agreed(), 1);
        let second = raise(&state, 2, 5);
        state.apply(Revision(4), &second);
        assert!(matches!(state.apply(Revision(5), &raise(&State::default(), 3, 5)), Outcome::Refused { .. }));
        assert_eq!(agreed(&state), Some((2, Revision(4))));
    }

    #[test]
    fn a_program_below_the_agreed_level_says_so() {
        let mut state = State::default();
        state.apply(Revision(2), &raise(&State::default(), 7, 5));
        let error = FeatureLevel::of(1).follow(&state).unwrap_err().to_string();
        assert!(error.contains('7') && error.contains('1') && error.contains("upgrade"), "{error}");
    }
}
