//! Raises the feature level: the leader asks every member for what its program supports, and appends the raise.
//!
//! Owns the order of asking and appending, under `Feature::alone`. What the level is, and how it follows the state, is the parent's.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use orch_proto::store as wire;
use tokio::sync::oneshot;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use super::{agreed_feature_level, raise};
use crate::Runtime;
use crate::disk::Disk;
use crate::encoding::{ProposalId, encode_transaction};
use crate::interest::Interest;
use crate::member::core::{Core, Leader, within};
use crate::member::forward::append;
use crate::member::identity::CLUSTER_RESOURCE;
use crate::member::network::control;
use crate::member::options::StartError;
use crate::transport::{Peer, Transport};

/// Pause between two rounds of asking while members are being upgraded. A round is one small call to each member; upgrades
/// take minutes.
const ASK_PERIOD: Duration = Duration::from_secs(2);

/// Time for one member's answer: it looks up two numbers.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the leader waits for a raise to be applied before it lets memberships change again. A raise that is still
/// under way then is either applied or lost with the term; a member added meanwhile is asked for its level after a barrier.
const RAISE_TIMEOUT: Duration = Duration::from_secs(10);

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
