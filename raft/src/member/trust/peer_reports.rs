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

mod asking;

use std::collections::BTreeMap;
use std::time::Duration;

use openraft_rt::Instant;
use parking_lot::Mutex;

use crate::transport::NodeId;

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
pub(crate) struct PeerReports<I>(Mutex<BTreeMap<NodeId, Answer<I>>>);

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

impl<I> Default for PeerReports<I> {
    fn default() -> Self {
        PeerReports(Mutex::default())
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
