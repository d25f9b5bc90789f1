//! TLS to kubelets and pods: the client certificate for kubelets, and the authority that kubelets are verified by.
//!
//! Without an authority for kubelets their certificates are not verified, as in the reference: many kubelets sign their own.
//! The node says so in its log when it starts. The files are read again once a minute, so that certificates can be renewed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use orch_api::connect::BackendTrust;
use orch_serving::files::{self, MATERIAL_BYTES_MAX};
use parking_lot::Mutex;
use rustls::ClientConfig;

use crate::egress::{Trust, TrustError};

/// Time between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The files of the flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletFiles {
    /// `--kubelet-certificate-authority`.
    pub authority: Option<PathBuf>,
    /// `--kubelet-client-certificate` and `--kubelet-client-key`.
    pub pair: Option<(PathBuf, PathBuf)>,
}

/// The fault of these files. Never quotes a key.
#[derive(Debug, thiserror::Error)]
pub enum KubeletTrustError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// Authority, certificate or key cannot be used.
    #[error(transparent)]
    Unusable(#[from] TrustError),
}

/// TLS settings for every kind of backend, kept in step with the files.
pub struct TrustStore {
    files: KubeletFiles,
    state: Mutex<State>,
}

struct State {
    looked: Instant,
    content: Content,
    settings: Settings,
}

/// The content of the files.
#[derive(PartialEq, Eq)]
struct Content {
    authority: Option<Vec<u8>>,
    pair: Option<(Vec<u8>, Vec<u8>)>,
}

#[derive(Clone)]
struct Settings {
    kubelet: Arc<ClientConfig>,
    unverified_kubelet: Arc<ClientConfig>,
    anyone: Arc<ClientConfig>,
}

impl fmt::Debug for TrustStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrustStore").field("files", &self.files).finish_non_exhaustive()
    }
}

impl TrustStore {
    /// Reads the files.
    ///
    /// # Errors
    /// One cannot be read or used.
    pub fn read(files: KubeletFiles) -> Result<TrustStore, KubeletTrustError> {
        let content = Content::read(&files)?;
        let settings = Settings::of(&content)?;
        let state = Mutex::new(State { looked: Instant::now(), content, settings });
        Ok(TrustStore { files, state })
    }

    /// Whether the certificates of kubelets are verified.
    pub fn verifies_kubelets(&self) -> bool {
        self.files.authority.is_some()
    }

    /// The settings for a backend of this trust, from the files as they were within the last minute. Files that have become
    /// unusable change nothing.
    pub(super) async fn client(&self, trust: BackendTrust) -> Arc<ClientConfig> {
        if self.is_due() {
            let files = self.files.clone();
            let read = tokio::task::spawn_blocking(move || Content::read(&files)).await;
            match read.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())) {
                Ok(content) => self.take_up(content),
                Err(error) => report(&error),
            }
        }
        let settings = self.state.lock().settings.clone();
        match trust {
            BackendTrust::Kubelet => settings.kubelet,
            BackendTrust::UnverifiedKubelet => settings.unverified_kubelet,
            BackendTrust::Anyone => settings.anyone,
        }
    }

    /// Whether the files are to be looked at, by the caller alone.
    fn is_due(&self) -> bool {
        let mut state = self.state.lock();
        let is_due = state.looked.elapsed() >= LOOK_EVERY && self.files != KubeletFiles::default();
        if is_due {
            state.looked = Instant::now();
        }
        is_due
    }

    fn take_up(&self, content: Content) {
        if self.state.lock().content == content {
            return;
        }
        match Settings::of(&content) {
            Ok(settings) => {
                let mut state = self.state.lock();
                (state.content, state.settings) = (content, settings);
                tracing::info!("certificates for kubelets reloaded");
            }
            Err(error) => report(&error),
        }
    }
}

fn report(error: &KubeletTrustError) {
    tracing::warn!(error = %orch_serving::Causes(error), "certificates for kubelets not reloaded");
}

impl Content {
    fn read(files: &KubeletFiles) -> Result<Content, KubeletTrustError> {
        let read = |path: &Path| {
            files::read(path, MATERIAL_BYTES_MAX)
                .map_err(|source| KubeletTrustError::Unreadable { path: path.to_owned(), source })
        };
        let authority = files.authority.as_deref().map(read).transpose()?;
        let pair = match &files.pair {
            Some((certificate, key)) => Some((read(certificate)?, read(key)?)),
            None => None,
        };
        Ok(Content { authority, pair })
    }
}

impl Settings {
    fn of(content: &Content) -> Result<Settings, KubeletTrustError> {
        let pair = content.pair.as_ref().map(|(certificate, key)| (certificate.as_slice(), key.as_slice()));
        let unverified_kubelet = Trust::unverified(pair)?.client();
        let kubelet = match &content.authority {
            Some(authority) => Trust::new(Some(authority), pair)?.client(),
            None => unverified_kubelet.clone(),
        };
        Ok(Settings { kubelet, unverified_kubelet, anyone: Trust::unverified(None)?.client() })
    }
}
