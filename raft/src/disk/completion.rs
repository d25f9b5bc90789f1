//! Waiting for an operation of a disk that reports its end through a callback.
//!
//! Owns the one bridge from the callbacks of [`crate::disk::Disk`] to async code. An operation whose callback is dropped
//! unused has failed: the disk went away before it was done.

use tokio::sync::oneshot;

use super::DiskError;

/// The callback of a disk operation: called once, from any thread, when the operation is done or has failed.
type Callback<V> = Box<dyn FnOnce(Result<V, DiskError>) + Send>;

/// Starts an operation with a callback and waits until that is called. `operation` names it in the error of a disk that
/// drops the callback.
///
/// # Errors
/// `start` failed, the operation failed, or the disk went away.
pub(crate) async fn completed<V: Send + 'static>(
    operation: &'static str,
    start: impl FnOnce(Callback<V>) -> Result<(), DiskError>,
) -> Result<V, DiskError> {
    let (done, ended) = oneshot::channel();
    // The waiting side is gone only when the member is.
    start(Box::new(move |result| drop(done.send(result))))?;
    let gone = |_| Err(DiskError { operation, reason: "the disk went away".to_owned() });
    ended.await.unwrap_or_else(gone)
}
