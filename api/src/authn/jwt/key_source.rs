//! The keys of an issuer, fetched from where its discovery document says.
//!
//! Owns when they are fetched: at the start, when they are old, and when a token names a key that is not among them, the
//! latter at most once in ten seconds whatever tokens say. A fetch that fails leaves the keys as they are.
//!
//! A fetch for a token is part of its request and is dropped with it: a client that resets its stream cancels it. Invariant:
//! such a fetch delays no fetch of [`KeySource::refresh_if_due`], which no client can cancel and which repeats it.

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
/// The same after a fetch that was cancelled with its request: short, so that it hardly delays other clients, and a bound of
/// the connections that a client which resets its streams can cause.
const CANCELLED_PAUSE: Duration = Duration::from_secs(1);
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
    /// The last attempt; held during a fetch, so that there is one at a time.
    attempt: Mutex<Attempt>,
}

/// An attempt to fetch keys.
#[derive(Clone, Copy, Debug)]
enum Attempt {
    /// None was made yet.
    Never,
    /// It began at this time. Whoever holds the lock and finds this knows that the fetch was cancelled.
    Begun(Timestamp),
    /// It began at this time and ended, in keys or a failure.
    Ended(Timestamp),
}

impl Attempt {
    /// Whether a token may cause another one at `now`.
    fn allows_another(self, now: Timestamp) -> bool {
        match self {
            Attempt::Never => true,
            Attempt::Begun(at) => has_passed(CANCELLED_PAUSE, at, now),
            Attempt::Ended(at) => has_passed(FETCH_PAUSE, at, now),
        }
    }
}

/// Keys as they were fetched.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) keys: Vec<Key>,
    /// `None` before the first fetch.
    pub(super) fetched: Option<Timestamp>,
}

/// The reason why keys were not fetched. Quotes no answer.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error("{host} answers with status {status}")]
    Status { host: String, status: u16 },
    #[error("the discovery document is not JSON of an issuer, or names another issuer")]
    Discovery,
    #[error("the discovery document names no https:// URL of keys")]
    KeysUrl,
    #[error("the key set cannot be read, or holds no usable key")]
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
        KeySource { settings, egress, keys: RwLock::default(), attempt: Mutex::new(Attempt::Never) }
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

    /// Fetches the keys if there are none, if they are old, or if the last fetch was cancelled. For the loop that keeps them,
    /// which has a pause of its own.
    pub(super) async fn refresh_if_due(&self, now: Timestamp) {
        let mut attempt = self.attempt.lock().await;
        let is_old = self.current().fetched.is_none_or(|at| has_passed(KEYS_AGE_MAX, at, now));
        if is_old || matches!(*attempt, Attempt::Begun(_)) {
            self.fetch_once(&mut attempt, now).await;
        }
    }

    /// Fetches keys that are newer than those of `seen`, unless an attempt was made just now.
    pub(super) async fn refresh(&self, seen: Option<Timestamp>, now: Timestamp) {
        let mut attempt = self.attempt.lock().await;
        // A task that waited for the lock may find the keys already fetched.
        if self.current().fetched == seen && attempt.allows_another(now) {
            self.fetch_once(&mut attempt, now).await;
        }
    }

    /// One attempt at `now`, under the lock that `attempt` is behind.
    async fn fetch_once(&self, attempt: &mut Attempt, now: Timestamp) {
        *attempt = Attempt::Begun(now);
        match self.fetch().await {
            Ok(keys) => *self.keys.write() = Arc::new(Keys { keys, fetched: Some(now) }),
            Err(error) => {
                tracing::warn!(issuer = self.settings.issuer, %error, "the keys of an issuer are not fetched");
            }
        }
        *attempt = Attempt::Ended(now);
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
        let reply = self.egress.send(Outgoing { url, document: None, timeout: TIMEOUT, trace: None }).await?;
        match reply.status {
            200 => Ok(serde_json::from_slice(&reply.body).ok()),
            status => Err(FetchError::Status { host, status }),
        }
    }
}

/// Whether `span` has passed at `now` since `at`, or may have: after the clock was set back, a key that the issuer withdrew must
/// not go on counting, nor a new one be unknown, until the old time is reached again.
fn has_passed(span: Duration, at: Timestamp, now: Timestamp) -> bool {
    Duration::from_micros(now.0.saturating_sub(at.0)) >= span || at.is_before_set_back(now)
}
