//! Asks other members about a peer's standing (member, removed, unknown), and decides how many equal answers suffice.
//!
//! This member asks the members in its own log, which may be old: one of them may have been removed since, and its machine
//! be in other hands. So:
//!
//! - only voters of its log are asked, never a learner;
//! - while this member is in touch with a leader (see vouching), its log is right about members, and one answer suffices;
//! - else, where the log has three voters or more and two of those asked tell a standing, two equal answers are
//!   needed. Where only one does, that suffices: otherwise two members that joined the cluster one after the
//!   other could not recognise each other;
//! - with fewer voters, of which this member is one, nothing was committed without it: its log is right about them.
//!
//! "Unknown" counts only from a member that is in touch with a leader: another may have been away.
//!
//! Owns the questions, and their answers for some seconds. Access is decided in vouching.

use std::collections::BTreeMap;
use std::sync::Arc;
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
use crate::transport::{NodeId, Peer, Transport};

/// Time for one member's answer. A candidate waits less for its vote: the answer is there when it asks again.
const ASK_TIMEOUT: Duration = Duration::from_millis(300);

/// Pause between two looks whether the answers to a question under way have come.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// Age at which answers are asked for anew. A stranger that sends requests all the time costs one question to each member
/// in this time.
const ANSWER_AGE: Duration = Duration::from_secs(2);

/// How much longer old answers count while the members are asked again: a leader that needs them sends requests many times
/// a second, and one silent member must not delay every reply to it.
const ASKED_AGAIN_AGE: Duration = Duration::from_millis(600);

/// Peers about which answers are kept, beside the voters of the own log: certificates of one authority are few. Beyond
/// that a new peer replaces one that the answers do not make a member.
const PEERS_MAX: usize = 64;

/// Least age of an answer that may be replaced: its waiters have seen it by then, and any number of strangers costs each
/// member a few hundred questions in a second at most.
const ROOM_AGE: Duration = Duration::from_millis(200);

/// Number of voters in the own log from which on one of them may have been removed without this member's vote.
const MAY_BE_OLD_FROM: usize = 3;

/// The standing of a peer by the answers of all members asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportedStanding {
    /// The peer is a member.
    Member,
    /// The peer was removed, which is for ever.
    Removed,
    /// No member knows the peer, none answers, or too few answers are equal.
    Undecided,
}

/// The number of members for each answer about a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) member: usize,
    pub(crate) removed: usize,
    /// Members that are in touch with a leader and do not know the peer.
    pub(crate) stranger: usize,
    /// How many equal answers are needed, if so many members tell a standing at all.
    needed: usize,
}

impl Tally {
    fn standing(self) -> ReportedStanding {
        let needed = self.needed.min(self.member + self.removed + self.stranger);
        match () {
            () if needed == 0 => ReportedStanding::Undecided,
            () if self.removed >= needed => ReportedStanding::Removed,
            () if self.member >= needed => ReportedStanding::Member,
            () => ReportedStanding::Undecided,
        }
    }
}

/// One member's answer about a peer.
enum Reply {
    Member,
    Removed,
    /// It is in touch with a leader, and does not know the peer.
    Stranger,
    /// No answer, or one that does not count.
    Uncounted,
}

/// The counted answers about one peer, and their age.
struct Answer<I> {
    /// `None` while members are asked for the first time.
    tally: Option<Tally>,
    /// When all had answered; while `tally` is `None`, when they were asked.
    at: I,
    is_asked_again: bool,
}

impl<I: Instant> Answer<I> {
    fn holds(&self) -> bool {
        self.at.elapsed() < ANSWER_AGE.saturating_add(ASKED_AGAIN_AGE)
    }
}

/// The answers about each peer.
pub(crate) struct Hearsay<I>(Mutex<BTreeMap<NodeId, Answer<I>>>);

/// Whether there is room for one more peer. If full, drops the oldest answer that makes its peer no member.
fn make_room<I: Instant>(answers: &mut BTreeMap<NodeId, Answer<I>>) -> bool {
    let is_useless = |answer: &Answer<I>| {
        answer.at.elapsed() >= ROOM_AGE
            && answer.tally.is_some_and(|tally| tally.standing() != ReportedStanding::Member)
    };
    if answers.len() < PEERS_MAX {
        return true;
    }
    let useless = answers.iter().filter(|(_, answer)| is_useless(answer));
    let oldest = useless.min_by_key(|(_, answer)| answer.at).map(|(peer, _)| *peer);
    oldest.is_some_and(|peer| answers.remove(&peer).is_some())
}

impl<I> Default for Hearsay<I> {
    fn default() -> Self {
        Hearsay(Mutex::default())
    }
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// The standing of `peer` by the other members' answers, at most `ANSWER_AGE` and `ASKED_AGAIN_AGE` old together.
    pub(crate) async fn reported_standing(self: &Arc<Self>, peer: NodeId) -> ReportedStanding {
        self.tally_about(peer).await.standing()
    }

    /// The counted answers about `peer`. Asks the members where there are none yet, and again where they are old.
    pub(crate) async fn tally_about(self: &Arc<Self>, peer: NodeId) -> Tally {
        let is_voter = self.is_voter(peer);
        loop {
            {
                let mut answers = self.trust.hearsay.0.lock();
                answers.retain(|_, answer| answer.holds());
                if !is_voter && !answers.contains_key(&peer) && !make_room(&mut answers) {
                    return Tally::default();
                }
                match answers.get_mut(&peer) {
                    Some(answer) => {
                        if let Some(tally) = answer.tally {
                            let is_old = answer.at.elapsed() >= ANSWER_AGE;
                            if is_old && !std::mem::replace(&mut answer.is_asked_again, true) {
                                self.begin_asking(peer);
                            }
                            return tally;
                        }
                    }
                    None => {
                        let now = R::Instant::now();
                        answers.insert(peer, Answer { tally: None, at: now, is_asked_again: false });
                        self.begin_asking(peer);
                    }
                }
            }
            R::sleep(LOOK_PAUSE).await;
        }
    }

    /// Asks in a separate task: a candidate gives up sooner on its vote, and asks again.
    fn begin_asking(self: &Arc<Self>, peer: NodeId) {
        let core = self.clone();
        drop(R::spawn(async move { core.ask_all_about(peer).await }));
    }

    /// Whether `peer`, which may speak as a member, may also end this member: enough voters of the own log support it, `peer`
    /// itself counted. Goes by the other members' last answers and asks none.
    pub(crate) fn is_believed(&self, peer: NodeId) -> bool {
        let heard = {
            let answers = self.trust.hearsay.0.lock();
            let answer = answers.get(&peer).filter(|answer| answer.holds());
            answer
                .and_then(|answer| answer.tally)
                .filter(|tally| tally.standing() == ReportedStanding::Member)
        };
        let others = heard.map_or(0, |tally| tally.member);
        let needed = self.replies_needed();
        needed == 1 || usize::from(self.is_witness(peer)) + others >= needed
    }

    /// The number of equal answers that suffice: two where the own log may be old, else one.
    pub(crate) fn replies_needed(&self) -> usize {
        let voters = self.membership().membership().voter_ids().count();
        if voters < MAY_BE_OLD_FROM || self.is_in_touch() { 1 } else { 2 }
    }

    /// Whether answers of `id` count: those of voters of the own log do, those of learners never.
    pub(crate) fn is_witness(&self, id: NodeId) -> bool {
        // Before it has a log, a member knows only the voters named in its enrolment or founding.
        self.is_voter(id) || self.membership().membership().nodes().next().is_none()
    }

    /// Whether `id` has a vote, as far as the own log tells.
    pub(crate) fn is_voter(&self, id: NodeId) -> bool {
        self.membership().membership().voter_ids().any(|voter| voter == id.0)
    }

    /// Whether `id` is a member without a vote, as far as the own log tells.
    pub(crate) fn is_learner(&self, id: NodeId) -> bool {
        self.membership().membership().get_node(&id.0).is_some() && !self.is_voter(id)
    }

    async fn ask_all_about(self: Arc<Self>, peer: NodeId) {
        let needed = self.replies_needed();
        let others = self.others().into_iter().filter(|other| other.id != peer && self.is_witness(other.id));
        let core = &self;
        let mut answers: FuturesUnordered<_> =
            others.map(|other| async move { core.ask_about(&other, peer).await }).collect();
        let mut tally = Tally { needed, ..Tally::default() };
        while let Some(reply) = answers.next().await {
            match reply {
                Reply::Member => tally.member += 1,
                Reply::Removed => tally.removed += 1,
                Reply::Stranger => tally.stranger += 1,
                Reply::Uncounted => {}
            }
        }
        let answer = Answer { tally: Some(tally), at: R::Instant::now(), is_asked_again: false };
        self.trust.hearsay.0.lock().insert(peer, answer);
    }

    async fn ask_about(&self, peer: &Peer, about: NodeId) -> Reply {
        let request = Request::Identity(wire::IdentityRequest { unconfirmed: true, about: about.0 });
        match control(&self.transport, peer, request, ASK_TIMEOUT).await {
            Ok(Response::Identity(answer)) if answer.about_removed => Reply::Removed,
            // A learner neither leads nor has a say about a disk, so its membership does not count.
            Ok(Response::Identity(answer)) if answer.about_learner => Reply::Uncounted,
            Ok(Response::Identity(answer)) if answer.about_member => Reply::Member,
            Ok(Response::Identity(answer)) if answer.about_stranger => Reply::Stranger,
            _ => Reply::Uncounted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_must_say_the_same_where_two_have_something_to_say() {
        let tally =
            |needed, member, removed, stranger| Tally { member, removed, stranger, needed }.standing();
        assert_eq!(tally(2, 0, 0, 0), ReportedStanding::Undecided);
        assert_eq!(tally(2, 1, 0, 0), ReportedStanding::Member, "nobody else answers");
        assert_eq!(tally(2, 0, 1, 0), ReportedStanding::Removed);
        assert_eq!(tally(2, 1, 1, 0), ReportedStanding::Undecided);
        assert_eq!(
            tally(2, 1, 0, 1),
            ReportedStanding::Undecided,
            "one that is in touch has never heard of it"
        );
        assert_eq!(tally(2, 2, 1, 1), ReportedStanding::Member);
        assert_eq!(tally(2, 2, 2, 0), ReportedStanding::Removed, "for ever");
        assert_eq!(tally(1, 3, 1, 0), ReportedStanding::Removed, "whoever is in touch asks members");
    }
}
