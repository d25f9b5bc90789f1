//! Reloads renewed certificates and revocation lists while the server runs; later connections use them.
//!
//! The files' modification times are checked every 30 seconds, and on SIGHUP all files are read at once. If they do not
//! load, the old certificates stay in use and a warning is logged. A revocation list, or a list of authorities that lost
//! one, takes effect all the same.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use time::OffsetDateTime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::material::MaterialError;
use super::settings::{Tls, TlsFiles};
use crate::files::beside_tasks;
use crate::report::Causes;

/// Interval of checks, and the longest wait of a renewal; four calls of `stat` each time are cheap.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// The TLS settings in use. Clones share them.
#[derive(Clone, Debug)]
pub struct Reloader {
    files: Arc<TlsFiles>,
    current: Arc<watch::Sender<Arc<Tls>>>,
}

impl Reloader {
    /// Loads `files` for the first time. A server certificate that has ended is served, with an error in the log.
    pub fn load(files: TlsFiles) -> Result<Reloader, MaterialError> {
        let (tls, ended) = Tls::load_ended(&files, OffsetDateTime::now_utc())?;
        if let Some(expired) = ended {
            let file = files.certificate.display();
            tracing::error!(
                %file, %expired,
                "the server certificate has expired: clients refuse this node; replace its file (orch certs renew), which is \
                 taken up without a restart"
            );
        }
        Ok(Reloader { files: Arc::new(files), current: Arc::new(watch::Sender::new(Arc::new(tls))) })
    }

    /// The settings for a new connection.
    pub fn current(&self) -> Arc<Tls> {
        self.current.borrow().clone()
    }

    /// The settings of later reloads, for a connection that was made under [`Reloader::current`] ones.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Tls>> {
        self.current.subscribe()
    }

    /// Reads the files again. On failure the old settings stay, but for what can be read of the authorities and revocation
    /// lists.
    pub fn reload(&self) -> Result<(), MaterialError> {
        let now = OffsetDateTime::now_utc();
        let loaded = Tls::load(&self.files, now);
        if loaded.is_err()
            && let Some(tls) = self.current().with_readable_trust(&self.files, now)
        {
            tracing::info!(
                "authorities and revocation lists of clients are taken up without the other files"
            );
            self.current.send_replace(Arc::new(tls));
        }
        self.current.send_replace(Arc::new(loaded?));
        Ok(())
    }

    /// The files whose change causes a reload.
    pub fn files(&self) -> Vec<PathBuf> {
        let TlsFiles { certificate, key, client_authorities, server_authority, proxies, revocations } =
            &*self.files;
        let proxies = proxies.iter().map(|proxies| &proxies.authorities);
        let always = [certificate, key, client_authorities].into_iter();
        always.chain(server_authority).chain(proxies).chain(revocations).cloned().collect()
    }
}

/// Calls `reload` when one of `files` has changed, and on SIGHUP, until `stopped`. `what` names the files in the log.
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
pub(crate) type Stamp = Option<(SystemTime, u64)>;

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
pub(crate) fn stamps_at_start(files: &[PathBuf]) -> Vec<Stamp> {
    stamps_since(files, *BEGAN)
}

/// The stamps of `files`.
pub(crate) fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
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
