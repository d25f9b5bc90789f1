//! The keys of an issuer, fetched from where its discovery document says.
//!
//! Owns when they are fetched: at the start, when they are old, and when a token names a key that is not among them, the
//! latter at most once in ten seconds whatever tokens say. A fetch that fails leaves the keys as they are.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::Mutex;

use super::key::Key;
use crate::ambient::Timestamp;
use crate::egress::{Egress, EgressError, Outgoing, Scheme, Url};

/// Shortest time between two fetches: tokens, which anyone can write, cause them.
const FETCH_PAUSE: Duration = Duration::from_secs(10);
/// Age at which keys are fetched anew, so that one that the issuer withdrew does not count for ever.
const KEYS_AGE_MAX: Duration = Duration::from_secs(600);
/// Longest fetch of one document.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where the keys of an issuer come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySourceSettings {
    /// The issuer: what its discovery document and its tokens call it.
    pub issuer: String,
    /// URL of the discovery document.
    pub discovery: Url,
    /// The authorities that the server's certificate is held against, PEM; `None`: those of the machine.
    pub authority: Option<String>,
}

/// The keys of an issuer.
pub struct KeySource {
    settings: KeySourceSettings,
    egress: Arc<dyn Egress>,
    keys: RwLock<Arc<Keys>>,
    /// Time of the last attempt; held during a fetch, so that there is one at a time.
    attempted: Mutex<Option<Timestamp>>,
}

/// Keys as they were fetched.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) keys: Vec<Key>,
    /// `None` before the first fetch.
    pub(super) fetched: Option<Timestamp>,
}

/// Why keys were not fetched. Quotes no answer.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error("{host} answers with status {status}")]
    Status { host: String, status: u16 },
    #[error("the discovery document is none, or names another issuer")]
    Discovery,
    #[error("the discovery document names no https:// URL of keys")]
    KeysUrl,
    #[error("the key set is none, or holds no key that can be used")]
    KeySet,
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySource").field("issuer", &self.settings.issuer).finish_non_exhaustive()
    }
}

impl KeySource {
    /// The keys of the issuer of `settings`, fetched over `egress`.
    pub fn new(settings: KeySourceSettings, egress: Arc<dyn Egress>) -> Self {
        KeySource { settings, egress, keys: RwLock::default(), attempted: Mutex::default() }
    }

    /// Whether both fetch the same keys in the same way.
    pub(super) fn is_same(&self, other: &KeySource) -> bool {
        self.settings == other.settings
    }

    pub(super) fn issuer(&self) -> &str {
        &self.settings.issuer
    }

    pub(super) fn current(&self) -> Arc<Keys> {
        self.keys.read().clone()
    }

    pub(super) fn pause(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.egress.pause(span)
    }

    /// Fetches the keys if there are none or they are old.
    pub(super) async fn refresh_if_due(&self, now: Timestamp) {
        let fetched = self.current().fetched;
        if fetched.is_none_or(|at| has_passed(KEYS_AGE_MAX, at, now)) {
            self.refresh(fetched, now).await;
        }
    }

    /// Fetches keys that are newer than those of `seen`, unless an attempt was made just now.
    pub(super) async fn refresh(&self, seen: Option<Timestamp>, now: Timestamp) {
        let mut attempted = self.attempted.lock().await;
        // Whoever waited for the lock may find what it came for.
        if self.current().fetched != seen || attempted.is_some_and(|at| !has_passed(FETCH_PAUSE, at, now)) {
            return;
        }
        *attempted = Some(now);
        match self.fetch().await {
            Ok(keys) => *self.keys.write() = Arc::new(Keys { keys, fetched: Some(now) }),
            Err(error) => {
                tracing::warn!(issuer = self.settings.issuer, %error, "the keys of an issuer are not fetched");
            }
        }
    }

    async fn fetch(&self) -> Result<Vec<Key>, FetchError> {
        let discovery = self.get(self.settings.discovery.clone()).await?.ok_or(FetchError::Discovery)?;
        if discovery["issuer"].as_str() != Some(&self.settings.issuer) {
            return Err(FetchError::Discovery);
        }
        let keys = discovery["jwks_uri"].as_str().and_then(|text| Url::parse(text).ok());
        let keys = keys.filter(|url| url.scheme == Scheme::Https).ok_or(FetchError::KeysUrl)?;
        let keys = self.get(keys).await?.and_then(|document| Key::set(&document));
        keys.filter(|keys| !keys.is_empty()).ok_or(FetchError::KeySet)
    }

    /// The JSON document at `url`; `None` if it is none.
    async fn get(&self, url: Url) -> Result<Option<Value>, FetchError> {
        let host = url.host.clone();
        let reply = self.egress.send(Outgoing { url, document: None, timeout: TIMEOUT }).await?;
        match reply.status {
            200 => Ok(serde_json::from_slice(&reply.body).ok()),
            status => Err(FetchError::Status { host, status }),
        }
    }
}

/// Whether `span` has passed at `now` since `at`.
fn has_passed(span: Duration, at: Timestamp, now: Timestamp) -> bool {
    Duration::from_micros(now.0.saturating_sub(at.0)) >= span
}
