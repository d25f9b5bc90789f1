//! Follows files: their modification times and lengths, and the call of a reload when one has changed.
//!
//! Files are looked at every 30 seconds, and on SIGHUP at once. A file that may have changed while the program started is read
//! again at the first look.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::files::beside_tasks;
use crate::report::Causes;

/// Interval of checks, and the longest wait of a renewal; four calls of `stat` each time are cheap.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Calls `reload` when one of `files` has changed, and on SIGHUP, until `stopped`. `what` names the files in the log.
///
/// # Errors
/// The process cannot listen to the signal.
pub async fn follow<E: std::error::Error>(
    what: &'static str,
    files: Vec<PathBuf>,
    reload: impl Fn() -> Result<(), E>,
    stopped: CancellationToken,
) -> std::io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut seen = stamps_at_start(&files);
    while let Some(asked) = wait(&mut hangup, &stopped).await {
        let stamps = stamps(&files);
        if !asked && stamps == seen {
            continue;
        }
        match beside_tasks(&reload) {
            Ok(()) => tracing::info!(what, "reloaded"),
            Err(error) => {
                let error = Causes(&error);
                tracing::warn!(what, %error, "not reloaded, what was loaded before stays in use");
            }
        }
        seen = stamps;
    }
    Ok(())
}

/// Modification time and length of a file; `None` if it cannot be read, or is to be read again.
pub type Stamp = Option<(SystemTime, u64)>;

/// When the process began, as far as it matters here: before it read any file that it follows.
static BEGAN: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);

/// To be called before the first file is read. Otherwise the process began when the first file was followed.
pub fn note_beginning() {
    LazyLock::force(&BEGAN);
}

/// The stamps of files that were read during the start. One that changed since the process `began` may have changed after it
/// was read, and is read again at the first look: a revocation must not wait for the next one.
fn stamps_since(files: &[PathBuf], began: SystemTime) -> Vec<Stamp> {
    let is_old = |(modified, _): &(SystemTime, u64)| *modified < began;
    stamps(files).into_iter().map(|stamp| stamp.filter(is_old)).collect()
}

/// The stamps of files that were read since the process began.
pub fn stamps_at_start(files: &[PathBuf]) -> Vec<Stamp> {
    stamps_since(files, *BEGAN)
}

/// The stamps of `files`.
pub fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let facts = std::fs::metadata(path).ok()?;
        Some((facts.modified().ok()?, facts.len()))
    };
    files.iter().map(stamp).collect()
}

/// Waits for the next check: `true` after SIGHUP, `false` after the interval. `None` when stopped.
async fn wait(hangup: &mut Signal, stopped: &CancellationToken) -> Option<bool> {
    tokio::select! {
        () = stopped.cancelled() => None,
        _ = hangup.recv() => Some(true),
        () = tokio::time::sleep(LOOK_EVERY) => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_may_have_changed_during_the_start_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let files = [folder.path().join("list"), folder.path().join("none")];
        std::fs::write(&files[0], "one").unwrap();
        let modified = stamps(&files)[0].unwrap().0;
        assert_eq!(stamps_since(&files, modified), [None, None]);
        assert_eq!(stamps_since(&files, modified + Duration::from_secs(1)), stamps(&files));
        assert!(stamps(&files)[0].is_some());
    }
}
