//! Reloads renewed certificates while the server runs; later connections use them.
//!
//! The files' modification times are checked every 30 seconds, and on SIGHUP all files are read at once. If they do not
//! load, the old certificates stay in use and a warning is logged.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use time::OffsetDateTime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::material::MaterialError;
use super::settings::{Tls, TlsFiles};
use crate::report::Causes;

/// Interval of checks, and the longest wait of a renewal; four calls of `stat` each time are cheap.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// The TLS settings in use. Clones share them.
#[derive(Clone, Debug)]
pub struct Reloader {
    files: Arc<TlsFiles>,
    current: Arc<ArcSwap<Tls>>,
}

impl Reloader {
    /// Loads `files` for the first time.
    pub fn load(files: TlsFiles) -> Result<Reloader, MaterialError> {
        let tls = Tls::load(&files, OffsetDateTime::now_utc())?;
        Ok(Reloader { files: Arc::new(files), current: Arc::new(ArcSwap::from_pointee(tls)) })
    }

    /// The settings for a new connection.
    pub fn current(&self) -> Arc<Tls> {
        self.current.load_full()
    }

    /// Reads the files again. On failure the old settings stay.
    pub fn reload(&self) -> Result<(), MaterialError> {
        self.current.store(Arc::new(Tls::load(&self.files, OffsetDateTime::now_utc())?));
        Ok(())
    }

    /// The files whose change causes a reload.
    pub fn files(&self) -> Vec<PathBuf> {
        let TlsFiles { certificate, key, client_authorities, server_authority } = &*self.files;
        [certificate, key, client_authorities].into_iter().chain(server_authority).cloned().collect()
    }
}

/// Calls `reload` when one of `files` has changed, and on SIGHUP, until `stopped`. `what` names the port in the log.
pub async fn follow<E: std::error::Error>(
    what: &'static str,
    files: Vec<PathBuf>,
    reload: impl Fn() -> Result<(), E>,
    stopped: CancellationToken,
) -> std::io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut seen = stamps(&files);
    while let Some(asked) = wait(&mut hangup, &stopped).await {
        let stamps = stamps(&files);
        if !asked && stamps == seen {
            continue;
        }
        match reload() {
            Ok(()) => tracing::info!(what, "files reloaded"),
            Err(error) => {
                let error = Causes(&error);
                tracing::warn!(what, %error, "files not reloaded, the old ones stay in use");
            }
        }
        seen = stamps;
    }
    Ok(())
}

/// Modification time of each file; `None` if it cannot be read.
fn stamps(files: &[PathBuf]) -> Vec<Option<SystemTime>> {
    files.iter().map(|path| std::fs::metadata(path).and_then(|facts| facts.modified()).ok()).collect()
}

/// Waits for the next check: `true` after SIGHUP, `false` after the interval. `None` when stopped.
async fn wait(hangup: &mut Signal, stopped: &CancellationToken) -> Option<bool> {
    tokio::select! {
        () = stopped.cancelled() => None,
        _ = hangup.recv() => Some(true),
        () = tokio::time::sleep(LOOK_EVERY) => Some(false),
    }
}
