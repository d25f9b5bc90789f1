//! Linearizable reads (ReadIndex): rounds to the quorum, each shared by the callers that wait for it.
//!
//! Owns which caller joins which round. A caller joins the next round that has not been sent yet: the read index of a round
//! is only as new as its start, so a round under way is too old for a new caller. Several rounds may be under way. The
//! leader asks the voters whether they follow it (see confirming); other members ask the leader.
//!
//! Invariant: no lease and no clock decides; a leader that was paused must hear from a quorum before it answers. A single
//! voter is its own quorum (see single_voter).

mod rounds;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::member::reads::confirming::Unanswered;
use crate::member::reads::single_voter::FirstRead;
use crate::store::ReadError;

/// Callers that wait for a round to start. Each is an API request, and those are bounded.
#[derive(Default)]
pub(crate) struct Barriers {
    waiting: Mutex<Vec<Caller>>,
    asked: Notify,
    first_read: FirstRead,
    /// Questions to voters that this member, as the leader, has under way.
    pub(super) unanswered: Unanswered,
}

type Caller = oneshot::Sender<Result<u64, ReadError>>;

fn error(reason: impl ToString) -> ReadError {
    ReadError { reason: reason.to_string() }
}

impl Barriers {
    fn join(&self) -> oneshot::Receiver<Result<u64, ReadError>> {
        let (caller, answer) = oneshot::channel();
        self.waiting.lock().push(caller);
        self.asked.notify_one();
        answer
    }

    /// The result of the term's first round.
    pub(crate) fn first_read(&self) -> &FirstRead {
        &self.first_read
    }

    fn take(&self) -> Vec<Caller> {
        std::mem::take(&mut self.waiting.lock())
    }
}
