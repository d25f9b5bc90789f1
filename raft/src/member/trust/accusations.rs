//! Accusations: a peer says that this member's disk is an older copy of itself, or that this member was removed.
//!
//! Both end this member, the first for ever. But the accuser may have been removed itself while this member was away, and
//! its machine be in other hands. So an accusation counts only when enough voters of this member's log support it (see
//! peer_reports): two, or one where the log is certainly right. A voter supports an accusation:
//!
//! - by making it itself;
//! - or by answering, with a leader behind it, that the accuser is a member.
//!
//! Until then a member accused of an older copy answers no peer, logs that, and asks again. An accusation is dismissed
//! when some voter calls the accuser removed and no more voters call it a member: only this member's old log speaks for it.
//!
//! Owns the open accusations. Invariant: the word of one removed member marks no disk and ends no process, whatever other
//! certificates that member has.

mod judging;

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use crate::transport::NodeId;

/// The accusations by accuser: of an older copy, with the verdict so far, and of a removal.
#[derive(Default)]
pub(crate) struct Accusations {
    older_copy: Mutex<BTreeMap<NodeId, Accusation>>,
    removed: Mutex<BTreeSet<NodeId>>,
}

/// An accusation that the disk is an older copy.
#[derive(Clone, Debug)]
struct Accusation {
    verdict: Verdict,
    /// The evidence that the accuser gave last.
    reason: String,
    /// A task judges it again until it is settled. For accusers in this member's log, the comparison does that (see returning).
    is_watched: bool,
}

impl Accusation {
    const NEW: Self = Accusation { verdict: Verdict::Open, reason: String::new(), is_watched: false };

    fn is_open(&self) -> bool {
        self.verdict != Verdict::Dismissed
    }
}

/// The result of judging an accusation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Enough voters support it: this member must not go on.
    Condemned,
    /// The accuser was removed.
    Dismissed,
    /// Too few voters answer, or too few support it.
    Open,
}
