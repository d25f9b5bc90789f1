//! Vouching for peers: the rights of a peer to ask for votes, lead, send or pull a state.
//!
//! A certificate proves a name and nothing more. The log names the members, but the log of a member that was away may be
//! old: it lacks members that were added, and still has members that were removed. So:
//!
//! - a member that is in touch with a leader judges voters by its own log;
//! - a member that is not, and every member about a peer that is no voter in its log, asks the members that it knows and
//!   goes by their answers together (see peer_reports);
//! - without a usable answer the own log decides: its voters are accepted, since a whole cluster may be starting, and no
//!   other peer is. A member without a log goes by the voters that enrolment told it of; a member that was told of none has
//!   no data to lose, and accepts any leader.
//!
//! In touch: this member has applied the entries that a leader called committed less than [`CONTACT_AGE`] ago. That leader
//! must have committed an entry of its own term, since before that it does not know the commit index; a majority must
//! follow it, which it shows by sending a commit index in heartbeats; and another member must vouch for it, where the own
//! log may be old.
//!
//! Owns the contact with a leader.

mod contact;

use std::time::Duration;

use parking_lot::Mutex;

/// How long a contact with a leader counts: many heartbeats. A removal committed within it may not be known here.
const CONTACT_AGE: Duration = Duration::from_secs(2);

/// The source of the knowledge that a peer is a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voucher {
    /// This member's own log.
    Own,
    /// Other members, which were asked.
    Another,
}

/// When this member was last in contact with a leader.
pub(crate) struct Vouchers<I>(Mutex<Contact<I>>);

/// Commit indexes heard from a leader, and when.
struct Contact<I> {
    /// The newest time at which every entry then known as committed is applied here by now.
    at: Option<I>,
    /// A commit index that is not applied here yet, and when it was heard.
    told: Option<(u64, I)>,
}

impl<I> Default for Vouchers<I> {
    fn default() -> Self {
        Vouchers(Mutex::new(Contact { at: None, told: None }))
    }
}

impl<I: Copy> Contact<I> {
    /// Notes the leader's commit index and the applied index at `now`. Under load the newest committed entry is never applied
    /// yet: then the contact is as old as the commit index that the applied index has reached.
    fn note(&mut self, committed: u64, applied: u64, now: I) {
        let (index, at) = *self.told.get_or_insert((committed, now));
        if applied < index {
            return;
        }
        (self.at, self.told) = (Some(at), Some((committed, now)));
        if applied >= committed {
            (self.at, self.told) = (Some(now), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_as_old_as_what_is_applied() {
        let mut contact = Contact { at: None, told: None };
        let mut note = |committed, applied, now: u64| {
            contact.note(committed, applied, now);
            contact.at
        };
        assert_eq!(note(10, 5, 1), None, "it lacks something");
        assert_eq!(note(20, 9, 2), None);
        assert_eq!(note(30, 10, 3), Some(1), "what was committed at 1 is applied");
        assert_eq!(note(40, 29, 4), Some(1));
        assert_eq!(note(50, 35, 5), Some(3));
        assert_eq!(note(50, 50, 6), Some(6));
        // This member was cut off, and the others went on committing.
        assert_eq!(note(5000, 50, 7000), Some(6), "what it has says nothing of what was committed meanwhile");
        assert_eq!(note(5001, 5000, 7100), Some(7000));
    }
}
