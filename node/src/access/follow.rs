//! Reads configuration files again when they change.
//!
//! Owns when that is: the files' modification times are checked every five seconds, and on SIGHUP all are read at once.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::report::Causes;

/// Interval of checks: a right that is taken away in a file is gone soon, and a few calls of `stat` are cheap.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Calls `reload` when one of `files` has changed, and on SIGHUP, until `stopped`. `reload` returns the files to look at
/// from then on. `what` names them in the log.
pub async fn follow<E: std::error::Error>(
    what: &'static str,
    mut files: Vec<PathBuf>,
    reload: impl Fn() -> Result<Vec<PathBuf>, E>,
    stopped: CancellationToken,
) -> std::io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut seen = stamps(&files);
    loop {
        let is_asked = tokio::select! {
            () = stopped.cancelled() => return Ok(()),
            _ = hangup.recv() => true,
            () = tokio::time::sleep(LOOK_EVERY) => false,
        };
        let now = stamps(&files);
        if !is_asked && now == seen {
            continue;
        }
        match reload() {
            Ok(named) => {
                tracing::info!(what, "configuration reloaded");
                files = named;
                seen = stamps(&files);
            }
            Err(error) => {
                let error = Causes(&error);
                tracing::error!(what, %error, "configuration not reloaded, the old one stays in force");
                seen = now;
            }
        }
    }
}

/// Modification time and length of each file; `None` if it cannot be read.
fn stamps(files: &[PathBuf]) -> Vec<Option<(SystemTime, u64)>> {
    let stamp = |path: &PathBuf| {
        let facts = std::fs::metadata(path).ok()?;
        Some((facts.modified().ok()?, facts.len()))
    };
    files.iter().map(stamp).collect()
}
