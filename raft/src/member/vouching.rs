//! Whether a peer may speak as a member: for a vote, as a leader, for the state.
//!
//! A certificate proves a name and nothing more. Who belongs to the cluster says the log, and the log of a member that was
//! away may be old: it lacks members that were added, and still has some that were removed. So:
//!
//! - in touch with a leader, and up to date with it, a member judges voters by its own log;
//! - else, and about everybody that its log does not have as a voter, it asks the members it knows. One that knows of a
//!   removal settles it: that is for ever. One that says yes is enough: it has the membership in its log. That somebody was
//!   never heard of means nothing: those asked may have been away as well;
//! - when nobody knows, its own log decides: voters are let in, since a whole cluster may be starting, and nobody else is.
//!   Before it has a log, a member goes by the voters it was told of when it was let in; one that was told of none has
//!   nothing to lose, and is led by anybody.
//!
//! Owns the answers, for a while, and the contact with a leader.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use openraft_rt::Instant;
use orch_proto::store as wire;
use parking_lot::Mutex;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use crate::Runtime;
use crate::disk::Disk;
use crate::key::Revision;
use crate::member::core::Core;
use crate::member::network::control;
use crate::member::standing::Standing;
use crate::transport::{NodeId, Peer, Transport};
use crate::warnings::WarningLimit;

/// For one member's answer. Whoever waits for a vote waits less: the answer is there when it asks again.
const ASK_TIMEOUT: Duration = Duration::from_millis(300);

/// Between two looks for an answer that somebody else has asked for.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// How long an answer holds. A stranger that asks on and on costs a question to each member in so long.
const ANSWER_AGE: Duration = Duration::from_secs(2);

/// How long a contact with a leader counts: many heartbeats. A removal that is committed meanwhile is not known here.
const CONTACT_AGE: Duration = Duration::from_secs(2);

/// Peers about which answers are kept. Beyond them nobody new is let in: certificates of one authority are few.
const PEERS_MAX: usize = 64;

/// Who says that a peer is a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voucher {
    /// This member's own log.
    Own,
    /// A member that was asked.
    Another,
}

/// What the members that were asked said together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Member,
    Removed,
    /// None has heard of it, or none answers.
    Nothing,
}

/// What was answered about peers, and when this member last followed a leader.
pub(crate) struct Vouchers<I> {
    /// `None` while members are being asked.
    answers: Mutex<BTreeMap<NodeId, (Option<Said>, I)>>,
    contact: Mutex<Option<I>>,
    /// The last index that a leader called committed.
    told: AtomicU64,
    warnings: WarningLimit<I>,
}

impl<I> Default for Vouchers<I> {
    fn default() -> Self {
        Vouchers {
            answers: Mutex::default(),
            contact: Mutex::default(),
            told: AtomicU64::new(u64::MAX),
            warnings: WarningLimit::new(),
        }
    }
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Who vouches for `from`; `None` for somebody that may not speak as a member.
    pub(crate) async fn vouch(self: &Arc<Self>, from: NodeId) -> Option<Voucher> {
        let membership = self.membership();
        let membership = membership.membership();
        if self.standing(from) == Standing::Removed {
            return None;
        }
        let introduced = || self.introduced.lock().iter().any(|peer| peer.id == from);
        let (is_voter, knows_nobody) = match membership.nodes().next().is_some() {
            true => (membership.voter_ids().any(|id| id == from.0), false),
            false => (introduced(), self.introduced.lock().is_empty()),
        };
        if knows_nobody || (is_voter && self.is_in_touch()) {
            return Some(Voucher::Own);
        }
        match self.said_about(from).await {
            Said::Member => Some(Voucher::Another),
            Said::Nothing if is_voter => Some(Voucher::Own),
            Said::Removed | Said::Nothing => {
                if self.may_warn() {
                    tracing::warn!(peer = %from, "refused: no member knows it, or it was removed");
                }
                None
            }
        }
    }

    /// Notes that a leader was followed that calls its log committed up to `committed`. It counts once what it called so before
    /// is applied: under load the newest never is.
    pub(crate) fn note_contact(&self, from: NodeId, committed: u64) {
        if self.standing(from) != Standing::Member {
            return;
        }
        let before = self.vouchers.told.swap(committed, Ordering::AcqRel);
        if self.applied.state().applied() >= Revision(before.min(committed)) {
            *self.vouchers.contact.lock() = Some(R::Instant::now());
        }
    }

    /// Whether this member knows who belongs to the cluster, as far as a leader does.
    pub(crate) fn is_in_touch(&self) -> bool {
        let contact = *self.vouchers.contact.lock();
        self.leader().is_some_and(|leader| leader.local)
            || contact.is_some_and(|contact| contact.elapsed() < CONTACT_AGE)
    }

    /// Whether it is time for another warning about somebody who was refused.
    pub(crate) fn may_warn(&self) -> bool {
        self.vouchers.warnings.pass_at(R::Instant::now()).is_some()
    }

    async fn said_about(self: &Arc<Self>, peer: NodeId) -> Said {
        loop {
            {
                let mut answers = self.vouchers.answers.lock();
                answers.retain(|_, (_, at)| at.elapsed() < ANSWER_AGE);
                match answers.get(&peer) {
                    Some((Some(said), _)) => return *said,
                    Some((None, _)) => {}
                    None if answers.len() >= PEERS_MAX => return Said::Nothing,
                    None => {
                        answers.insert(peer, (None, R::Instant::now()));
                        // In a task of its own: whoever asks for a vote gives up sooner, and asks again.
                        let core = self.clone();
                        drop(R::spawn(async move { core.ask_all_about(peer).await }));
                    }
                }
            }
            R::sleep(LOOK_PAUSE).await;
        }
    }

    async fn ask_all_about(self: Arc<Self>, peer: NodeId) {
        let others = self.others().into_iter().filter(|other| other.id != peer);
        let core = &self;
        let mut answers: FuturesUnordered<_> =
            others.map(|other| async move { core.ask_about(&other, peer).await }).collect();
        let mut said = Said::Nothing;
        while let Some(answer) = answers.next().await {
            said = match (said, answer) {
                (Said::Removed, _) | (_, Said::Removed) => Said::Removed,
                (Said::Member, _) | (_, Said::Member) => Said::Member,
                (Said::Nothing, Said::Nothing) => Said::Nothing,
            };
            if said == Said::Removed {
                break;
            }
        }
        self.vouchers.answers.lock().insert(peer, (Some(said), R::Instant::now()));
    }

    async fn ask_about(&self, peer: &Peer, about: NodeId) -> Said {
        let request = Request::Identity(wire::IdentityRequest { unconfirmed: true, about: about.0 });
        match control(&self.transport, peer, request, ASK_TIMEOUT).await {
            Ok(Response::Identity(answer)) if answer.about_removed => Said::Removed,
            Ok(Response::Identity(answer)) if answer.about_member => Said::Member,
            _ => Said::Nothing,
        }
    }
}
