//! Trust in peers: their standing, their votes and leads, their accusations, their answers.
//!
//!     standing        member, removed or stranger, by the own log
//!     vouching        may a peer act as a member?  -> peer_reports  asks the others about it
//!     accusations     a peer says that this member is not one, or older than it was
//!     answer_checks   answers that cannot be true
//!
//! Owns what was heard of peers since this process started. Nothing of it is stored.

pub(crate) mod accusations;
pub(crate) mod answer_checks;
pub(crate) mod peer_reports;
pub(crate) mod standing;
pub(crate) mod vouching;

use self::accusations::Accusations;
use self::peer_reports::PeerReports;
use self::vouching::Vouchers;

/// The reports that a member has of its peers. `I`: instants of its clock.
pub(crate) struct Trust<I> {
    /// When this member last followed a leader.
    vouchers: Vouchers<I>,
    /// Answers of the members to the question whether a peer is one of them, kept for a while.
    peer_reports: PeerReports<I>,
    /// Open claims of peers that this disk is an older copy, or that this member was removed.
    accusations: Accusations,
}

impl<I> Default for Trust<I>
where
    Vouchers<I>: Default,
    PeerReports<I>: Default,
{
    fn default() -> Self {
        Trust {
            vouchers: Vouchers::default(),
            peer_reports: PeerReports::default(),
            accusations: Accusations::default(),
        }
    }
}
