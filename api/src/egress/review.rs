//! Asks a webhook for a review: the document that goes out, the answer's status, and the attempts.
//!
//! Owns when a request is repeated: after a lost connection, 429, 500, 504, and where the answer names a time to try
//! again; as in the reference at most five times, with growing pauses. Answers are never quoted in errors.
//!
//! Invariant: a member of an answer that has another type than it should makes the answer none. Passed over, an unreadable
//! `denied` would allow, and unreadable audiences would be any.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orch_bounded::{Attempts, jittered};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Egress, EgressError, Outgoing, Reply, Url};
use crate::ambient::Ambient;

/// Longest pause that an answer may ask for.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A webhook that answers reviews of one kind.
pub struct ReviewHook {
    egress: Arc<dyn Egress>,
    ambient: Arc<dyn Ambient>,
    url: Url,
    kind: &'static str,
    api_version: String,
    timeout: Duration,
}

impl fmt::Debug for ReviewHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReviewHook").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The reason why a review has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// No answer came.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// The answer is a failure.
    #[error("{host}: the webhook answers with status {status}")]
    Status {
        /// The host.
        host: String,
        /// The status code.
        status: u16,
    },
    /// The answer is no review with a status.
    #[error("{host}: the answer of the webhook is no {kind}")]
    Malformed {
        /// The host.
        host: String,
        /// The kind that was expected.
        kind: &'static str,
    },
}

/// The answer of a webhook. Members that are not read may have any form; one that is given twice is a fault.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<S> {
    kind: Option<String>,
    api_version: Option<String>,
    status: S,
}

/// The document kinds and their version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewKind {
    /// `TokenReview` or `SubjectAccessReview`.
    pub kind: &'static str,
    /// `authentication.orch.io/v1`.
    pub api_version: String,
}

impl ReviewHook {
    /// The webhook at `url`, asked over `egress` with documents of `kind`. One attempt, and all of them with their pauses,
    /// take no longer than `timeout`.
    pub fn new(
        egress: Arc<dyn Egress>,
        ambient: Arc<dyn Ambient>,
        url: Url,
        kind: ReviewKind,
        timeout: Duration,
    ) -> Self {
        let ReviewKind { kind, api_version } = kind;
        ReviewHook { egress, ambient, url, kind, api_version, timeout }
    }

    /// The status of the review of `spec`.
    ///
    /// # Errors
    /// No attempt was answered with one.
    pub async fn ask<S: DeserializeOwned>(&self, spec: Value) -> Result<S, ReviewError> {
        let document = json!({
            "kind": self.kind, "apiVersion": self.api_version, "metadata": {"creationTimestamp": null}, "spec": spec,
        });
        let document = Bytes::from(document.to_string());
        let began = self.ambient.now();
        let mut attempts = Attempts::default();
        loop {
            let outcome = self.attempt(document.clone()).await;
            let (error, asked) = match outcome {
                Ok(status) => return Ok(status),
                Err(refused) => refused,
            };
            let Some(pause) = attempts.next_pause() else { return Err(error) };
            let wait = asked.unwrap_or_else(|| jittered(pause, self.ambient.random())).min(PAUSE_MAX);
            let passed = Duration::from_micros(self.ambient.now().0.saturating_sub(began.0));
            if !(asked.is_some() || is_transient(&error)) || passed + wait >= self.timeout {
                return Err(error);
            }
            self.egress.pause(wait).await;
        }
    }

    /// One attempt; a failure comes with the pause that the answer asks for.
    async fn attempt<S: DeserializeOwned>(
        &self,
        document: Bytes,
    ) -> Result<S, (ReviewError, Option<Duration>)> {
        let request =
            Outgoing { url: self.url.clone(), document: Some(document), timeout: self.timeout, trace: None };
        let reply = self.egress.send(request).await.map_err(|error| (error.into(), None))?;
        let Reply { status, retry_after, body } = reply;
        let host = || self.url.host.clone();
        if !matches!(status, 200..=299) {
            return Err((ReviewError::Status { host: host(), status }, retry_after));
        }
        let malformed = || (ReviewError::Malformed { host: host(), kind: self.kind }, None);
        let review: Answer<S> = serde_json::from_slice(&body).map_err(|_| malformed())?;
        let fits = |found: Option<String>, own: &str| found.is_none_or(|found| found == own);
        if !fits(review.kind, self.kind) || !fits(review.api_version, &self.api_version) {
            return Err(malformed());
        }
        Ok(review.status)
    }
}

/// Whether a further attempt may be answered.
fn is_transient(error: &ReviewError) -> bool {
    match error {
        ReviewError::Egress(error) => matches!(error, EgressError::Lost { .. }),
        ReviewError::Status { status, .. } => matches!(status, 429 | 500 | 504),
        ReviewError::Malformed { .. } => false,
    }
}
