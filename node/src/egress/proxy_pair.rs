//! The certificate that aggregated servers are shown: by it they know this server, and believe its headers of identity.
//!
//! Owns the files of `--proxy-client-cert-file` and `--proxy-client-key-file`, which are read again once a minute, so that they can
//! be renewed. Files that have become unusable change nothing, and the log says so.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use orch_serving::files::{self, MATERIAL_BYTES_MAX};
use parking_lot::Mutex;

use super::{Trust, TrustError};

/// Time between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Certificate chain and key, in PEM.
pub(super) type Pair = Arc<(Vec<u8>, Vec<u8>)>;

/// The fault of the files. Never quotes a key.
#[derive(Debug, thiserror::Error)]
pub enum ProxyPairError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// Certificate or key cannot be used.
    #[error(transparent)]
    Unusable(#[from] TrustError),
}

/// The pair, kept in step with its files. Clones share it.
#[derive(Clone, Debug)]
pub struct ProxyPair(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    files: Option<(PathBuf, PathBuf)>,
    state: Mutex<State>,
}

struct State {
    looked: Instant,
    /// Counts the pairs that were taken up.
    version: u64,
    pair: Option<Pair>,
}

/// Keys are not shown.
impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("version", &self.version).finish_non_exhaustive()
    }
}

impl ProxyPair {
    /// Reads `files`, certificate and key; `None`: no certificate is shown.
    ///
    /// # Errors
    /// A file cannot be read or used.
    pub fn read(files: Option<(PathBuf, PathBuf)>) -> Result<ProxyPair, ProxyPairError> {
        let pair = match &files {
            Some((certificate, key)) => Some(load(certificate, key)?),
            None => None,
        };
        let state = Mutex::new(State { looked: Instant::now(), version: 0, pair });
        Ok(ProxyPair(Arc::new(Inner { files, state })))
    }

    /// The pair, with the number of its version.
    pub(super) fn current(&self) -> (u64, Option<Pair>) {
        let state = self.0.state.lock();
        (state.version, state.pair.clone())
    }

    /// Looks at the files, where the last look is a minute old.
    pub(super) async fn look(&self) {
        let Some(files) = self.0.files.clone().filter(|_| self.is_due()) else { return };
        let read = tokio::task::spawn_blocking(move || load(&files.0, &files.1)).await;
        match read.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())) {
            Ok(pair) => {
                let mut state = self.0.state.lock();
                if state.pair.as_ref() != Some(&pair) {
                    state.version += 1;
                    state.pair = Some(pair);
                    tracing::info!("the certificate for aggregated servers was reloaded");
                }
            }
            Err(error) => {
                let error = orch_serving::Causes(&error);
                tracing::warn!(%error, "the certificate for aggregated servers was not reloaded");
            }
        }
    }

    /// Whether the files are to be looked at, by the caller alone.
    fn is_due(&self) -> bool {
        let mut state = self.0.state.lock();
        let is_due = state.looked.elapsed() >= LOOK_EVERY;
        if is_due {
            state.looked = Instant::now();
        }
        is_due
    }
}

/// Reads a pair that can be used.
fn load(certificate: &Path, key: &Path) -> Result<Pair, ProxyPairError> {
    let read = |path: &Path| {
        files::read(path, MATERIAL_BYTES_MAX)
            .map_err(|source| ProxyPairError::Unreadable { path: path.to_owned(), source })
    };
    let pair = (read(certificate)?, read(key)?);
    Trust::unverified(Some((&pair.0, &pair.1)))?;
    Ok(Arc::new(pair))
}
