//! Async waiting for disk operations that end with a callback.
//!
//! Owns the one bridge from the callbacks of [`crate::disk::Disk`] to async code. A callback dropped without a call is
//! an error: the disk was closed before the operation ended.

use tokio::sync::oneshot;

use super::DiskError;

/// The callback of a disk operation: called once, from any thread, when the operation is done or has failed.
type Callback<V> = Box<dyn FnOnce(Result<V, DiskError>) + Send>;

/// Starts an operation with a callback and waits for the call. `operation` is the name in the error of a dropped
/// callback.
///
/// # Errors
/// `start` failed, the operation failed, or the disk was closed.
pub(crate) async fn completed<V: Send + 'static>(
    operation: &'static str,
    start: impl FnOnce(Callback<V>) -> Result<(), DiskError>,
) -> Result<V, DiskError> {
    let (done, ended) = oneshot::channel();
    // A send fails only after the member has ended.
    start(Box::new(move |result| drop(done.send(result))))?;
    let gone = |_| Err(DiskError { operation, reason: "the disk went away".to_owned() });
    ended.await.unwrap_or_else(gone)
}
