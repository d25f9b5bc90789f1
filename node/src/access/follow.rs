//! Reads configuration files again when they change.
//!
//! Owns when that is: the files' modification times are checked every five seconds, and on SIGHUP all are read at once.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use orch_serving::Causes;
use orch_serving::files::beside_tasks;
use orch_serving::stamps::{Stamp, stamps, stamps_at_start};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

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
    let mut seen = stamps_at_start(&files);
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
        match beside_tasks(&reload) {
            Ok(named) => {
                tracing::info!(what, "configuration reloaded");
                seen = carried_over(&files, &now, &named);
                files = named;
            }
            Err(error) => {
                let error = Causes(&error);
                tracing::error!(what, %error, "configuration not reloaded, the old one stays in force");
                seen = now;
            }
        }
    }
}

/// The stamps of `named`, the files to look at after those in `files` were read, whose stamps were `now` before that. A file
/// that changed while it was read is so read again; one that is new to the list is, too, since nobody knows its stamp from
/// before.
fn carried_over(files: &[PathBuf], now: &[Stamp], named: &[PathBuf]) -> Vec<Stamp> {
    let known: HashMap<&PathBuf, Stamp> = files.iter().zip(now.iter().copied()).collect();
    named.iter().map(|path| known.get(path).copied().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_while_it_is_read_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let files = vec![path("a"), path("b")];
        files.iter().for_each(|file| std::fs::write(file, "one").unwrap());
        let now = stamps(&files);
        // The reload has read "one" by now.
        std::fs::write(&files[0], "another").unwrap();
        let seen = carried_over(&files, &now, &files);
        assert_ne!(seen, stamps(&files));
        let now = stamps(&files);
        assert_eq!(carried_over(&files, &now, &files), stamps(&files), "nothing changed");
        let more = [files.clone(), vec![path("c")]].concat();
        std::fs::write(path("c"), "new").unwrap();
        assert_ne!(carried_over(&files, &now, &more), stamps(&more), "a new file is read once more");
    }
}
