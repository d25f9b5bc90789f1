//! Waits for the lock of the data directory: a killed process holds it until the kernel has freed its memory and files.
//!
//! The kernel frees the memory of a dead process first and its files and ports afterwards, which takes seconds for
//! gigabytes. Once the directory is free, so are the ports. Makes the directory, too.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

use orch_raft::disk::rocks::{DataDirectory, OpenError};
use tokio::time::{Instant, sleep};

use super::error::RunError;

/// Longest wait: the kernel frees ten gigabytes in less. After it, the error names the process that holds the lock.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Interval of attempts: each costs one to five system calls.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Makes the data directory where it is absent, for its owner alone: an error names the flag, and not a file in it.
pub(super) fn make_data_dir(path: &Path) -> Result<(), RunError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| RunError::DataDir { path: path.to_owned(), source })
}

/// Locks the store's directory at `path`; waits up to five seconds while another process holds it.
pub(super) async fn occupy(path: &Path) -> Result<DataDirectory, OpenError> {
    occupy_within(path, WAIT_MAX).await
}

async fn occupy_within(path: &Path, wait_max: Duration) -> Result<DataDirectory, OpenError> {
    let deadline = Instant::now() + wait_max;
    let mut is_told = false;
    loop {
        match DataDirectory::lock(path) {
            Err(OpenError::InUse { path, holder }) if Instant::now() < deadline => {
                if !is_told {
                    let (path, wait) = (path.display(), wait_max.as_secs());
                    tracing::info!(%path, holder, "the data directory is in use; waiting up to {wait} s for its end");
                    is_told = true;
                }
                sleep(LOOK_EVERY).await;
            }
            locked => return locked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_directory_that_becomes_free_is_waited_for() {
        let root = tempfile::tempdir().unwrap();
        let held = DataDirectory::lock(root.path()).unwrap();
        let waiting = occupy(root.path());
        tokio::pin!(waiting);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(held);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn a_directory_that_stays_held_is_refused_in_the_end() {
        let root = tempfile::tempdir().unwrap();
        let _held = DataDirectory::lock(root.path()).unwrap();
        let refused = occupy_within(root.path(), LOOK_EVERY * 2).await;
        assert!(matches!(refused, Err(OpenError::InUse { .. })), "{refused:?}");
    }
}
