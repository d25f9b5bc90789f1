//! The destination of events, which a node implements: a file, standard output, a webhook.

use bytes::Bytes;
use futures::future::{BoxFuture, Either, Ready, ready};

/// An event was not stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("audit event not stored: {0}")]
pub struct NotStored(pub String);

/// The outcome of storing one event: known at once, or to come.
pub type Storing = Either<Ready<Result<(), NotStored>>, BoxFuture<'static, Result<(), NotStored>>>;

/// An outcome that is known at once.
pub fn settled(outcome: Result<(), NotStored>) -> Storing {
    Either::Left(ready(outcome))
}

/// A destination of events. It counts and logs what it cannot store.
pub trait Sink: Send + Sync + 'static {
    /// Takes `event`, a JSON document without line breaks. The sink has it when this returns, also if the outcome is
    /// never awaited.
    fn store(&self, event: Bytes) -> Storing;

    /// Loses an event that it was not given, because it is longer than the sink takes. The outcome is `error`.
    fn lose(&self, error: NotStored) -> Storing;

    /// Whether a request must not be carried out if the event of its arrival is not stored.
    fn is_required(&self) -> bool;

    /// Bytes of the longest event that the sink takes; a longer one loses its objects, or is lost.
    fn event_bytes_max(&self) -> usize {
        usize::MAX
    }
}
