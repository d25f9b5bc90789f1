//! The end of a member that cannot go on.
//!
//! Owns the first reason. A failed disk operation is never retried and never survived: after a failed sync the contents of
//! the disk are unknown, so the process must stop, and start from what is really there.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// The parts of a member report here that it must stop. Clones share the reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fatal(Arc<Mutex<Reported>>);

#[derive(Debug, Default)]
struct Reported {
    reason: Option<String>,
    /// The waiting task, of which the node has one: the latest call of `reason`.
    waiting: Option<Waker>,
}

impl Fatal {
    /// Records the first reason; later ones follow from it.
    pub(crate) fn report(&self, reason: impl ToString) {
        let mut reported = self.0.lock();
        if reported.reason.is_some() {
            return;
        }
        let reason = reason.to_string();
        tracing::error!(%reason, "the member cannot go on");
        reported.reason = Some(reason);
        if let Some(waker) = reported.waiting.take() {
            waker.wake();
        }
    }

    /// Records an error of the disk or of data read from it, and returns it in the form that the consensus library takes.
    pub(crate) fn disk<T, E: ToString>(&self, result: Result<T, E>) -> Result<T, io::Error> {
        result.map_err(|error| {
            let reason = error.to_string();
            self.report(&reason);
            io::Error::other(reason)
        })
    }

    /// Completes with the first reason, once it is reported.
    pub(crate) async fn reason(&self) -> String {
        poll_fn(|context| {
            let mut reported = self.0.lock();
            match &reported.reason {
                Some(reason) => Poll::Ready(reason.clone()),
                None => {
                    reported.waiting = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
