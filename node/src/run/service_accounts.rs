//! Service account tokens of a node: the plan from its flags, and keys that are read again while it runs.
//!
//! Owns the checks of the flags. Keys rotate without a restart: a new signing key and the old one under
//! `--service-account-key-file`, and later without the old one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orch_api::authn::service_account::{KEYS_PATH, Keys, ServiceAccounts, Settings};
use orch_proto::Brand;
use orch_serving::files::{self, MATERIAL_BYTES_MAX};
use orch_serving::stamps;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::error::RunError;
use crate::cli::ServiceAccountArgs;
use crate::token_keys::KeyFiles;

/// Bounds of `--service-account-max-token-expiration` in seconds: those of the reference.
const LIFE_S: std::ops::RangeInclusive<u64> = 3600..=1 << 32;

/// Service account tokens as planned.
#[derive(Clone, Debug)]
pub struct ServiceAccountPlan {
    /// The key files.
    pub files: KeyFiles,
    /// The keys, as first read.
    pub keys: Keys,
    /// Accepted issuers; the first is that of new tokens.
    pub issuers: Vec<String>,
    /// Audiences of this server.
    pub audiences: Vec<String>,
    /// URL of the key set; `None`: at this node's address.
    pub keys_url: Option<String>,
    /// Longest life of a token in seconds.
    pub life_s_max: Option<u64>,
    /// Whether mounted tokens stay valid for a year.
    pub extends_mounted: bool,
    /// Whether bootstrap tokens are accepted.
    pub accepts_bootstrap_tokens: bool,
    /// Authority of the servers' certificates, PEM, that pods get, as first read.
    pub root_ca: String,
    /// The file that it is read from.
    pub root_ca_file: PathBuf,
}

/// Checks the flags and reads the keys. `own` is the signing key, and `authority` the authority of the servers, of the
/// data or certificate directory.
pub(super) fn plan(
    arguments: &ServiceAccountArgs,
    own: PathBuf,
    authority: &Path,
) -> Result<ServiceAccountPlan, RunError> {
    let issuers = arguments.service_account_issuer.clone();
    for issuer in &issuers {
        if issuer.is_empty() || issuer.contains(':') && !is_url(issuer) {
            return Err(flag(
                "service-account-issuer",
                issuer,
                "no URL, though it contains a colon, or empty",
            ));
        }
    }
    let keys_url = arguments.service_account_jwks_uri.clone();
    if let Some(url) = keys_url.as_deref().filter(|url| !url.starts_with("https://") || !is_url(url)) {
        return Err(flag("service-account-jwks-uri", url, "no https URL"));
    }
    let signing = match &arguments.service_account_signing_key_file {
        Some(path) => Some(path.clone()),
        // Directories made by earlier versions may lack it.
        None => Some(own).filter(|path| path.exists()),
    };
    let root_ca_file = arguments.root_ca_file.clone().unwrap_or_else(|| authority.to_owned());
    let files = KeyFiles { signing, verifying: arguments.service_account_key_file.clone() };
    let audiences = match arguments.api_audiences.is_empty() {
        true => issuers.iter().take(1).cloned().collect(),
        false => arguments.api_audiences.clone(),
    };
    Ok(ServiceAccountPlan {
        keys: load(arguments, &files)?,
        files,
        issuers,
        audiences,
        keys_url,
        life_s_max: life_s_max(arguments.service_account_max_token_expiration)?,
        extends_mounted: arguments.service_account_extend_token_expiration,
        accepts_bootstrap_tokens: arguments.enable_bootstrap_token_auth,
        root_ca: read_root_ca(&root_ca_file)?,
        root_ca_file,
    })
}

/// Reads the keys. An error names the flag of the file.
fn load(arguments: &ServiceAccountArgs, files: &KeyFiles) -> Result<Keys, RunError> {
    let own = match arguments.service_account_signing_key_file {
        Some(_) => "--service-account-signing-key-file",
        None => "the key of service account tokens",
    };
    let signing = KeyFiles { signing: files.signing.clone(), verifying: Vec::new() };
    signing.load().map_err(|source| RunError::TokenKeys { origin: own, source })?;
    files.load().map_err(|source| RunError::TokenKeys { origin: "--service-account-key-file", source })
}

/// Reads the authority of the servers. A file without a certificate is refused: it may be half written.
fn read_root_ca(path: &Path) -> Result<String, RunError> {
    let unreadable = |source| RunError::File { flag: "root-ca-file", path: path.to_owned(), source };
    let text = files::read_text(path, MATERIAL_BYTES_MAX).map_err(unreadable)?;
    let mut found = CertificateDer::pem_slice_iter(text.as_bytes()).peekable();
    if found.peek().is_none() || !found.all(|certificate| certificate.is_ok()) {
        let path = path.display().to_string();
        return Err(flag("root-ca-file", &path, "no file of certificates"));
    }
    Ok(text)
}

fn life_s_max(life: Duration) -> Result<Option<u64>, RunError> {
    match life.as_secs() {
        0 => Ok(None),
        seconds if LIFE_S.contains(&seconds) => Ok(Some(seconds)),
        seconds => {
            let shown = format!("{seconds}s");
            Err(flag("service-account-max-token-expiration", &shown, "not between 1 hour and 2^32 seconds"))
        }
    }
}

/// Whether `text` has a scheme and a host.
fn is_url(text: &str) -> bool {
    text.parse::<http::Uri>().is_ok_and(|url| url.scheme().is_some() && url.host().is_some())
}

fn flag(name: &str, value: &str, fault: &str) -> RunError {
    RunError::Flags(format!("--{name}: {value:?} is {fault}"))
}

impl ServiceAccountPlan {
    /// The tokens of the cluster under `brand`, on a node that clients reach at `host_port`. Their keys are read again when
    /// a file changes, until `stopped`.
    pub(super) fn start(
        &self,
        brand: &'static Brand,
        host_port: &str,
        stopped: CancellationToken,
    ) -> Arc<ServiceAccounts> {
        let settings = Settings {
            issuers: self.issuers.clone(),
            audiences: self.audiences.clone(),
            keys_url: self.keys_url.clone().unwrap_or_else(|| format!("https://{host_port}{KEYS_PATH}")),
            life_s_max: self.life_s_max,
            extends_mounted: self.extends_mounted,
        };
        let accounts = Arc::new(ServiceAccounts::new(brand, settings, self.keys.clone()));
        if self.files.signing.is_none() {
            tracing::info!("no key signs service account tokens: this node makes none");
        }
        follow(self.files.clone(), accounts.clone(), stopped);
        accounts
    }
}

impl ServiceAccountPlan {
    /// The authority of the servers, read again when its file changes, until `stopped`: authorities are replaced while
    /// nodes run.
    pub(super) fn follow_root_ca(&self, stopped: CancellationToken) -> watch::Receiver<String> {
        let (sender, receiver) = watch::channel(self.root_ca.clone());
        let path = self.root_ca_file.clone();
        let files = vec![path.clone()];
        let reload = move || -> Result<(), RunError> {
            let found = read_root_ca(&path)?;
            sender.send_if_modified(|known| {
                let is_new = *known != found;
                *known = found;
                is_new
            });
            Ok(())
        };
        tokio::spawn(async move {
            if let Err(error) = stamps::follow("authority of the servers", files, reload, stopped).await {
                tracing::warn!(%error, "a changed authority of the servers is not published by itself");
            }
        });
        receiver
    }
}

/// Starts the task that reads the keys again.
fn follow(files: KeyFiles, accounts: Arc<ServiceAccounts>, stopped: CancellationToken) {
    let paths = files.paths();
    if paths.is_empty() {
        return;
    }
    let reload = move || files.load().map(|keys| accounts.replace_keys(keys));
    tokio::spawn(async move {
        if let Err(error) = stamps::follow("service account tokens", paths, reload, stopped).await {
            tracing::warn!(%error, "changed keys of service account tokens are not taken up by themselves");
        }
    });
}
