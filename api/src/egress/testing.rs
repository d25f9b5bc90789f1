//! A server of a test: answers are written down beforehand, requests are kept.

use std::collections::VecDeque;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use parking_lot::Mutex;
use serde_json::Value;

use super::{Egress, EgressError, Outgoing, Reply};

/// Answers in the order given; the last answer is repeated.
#[derive(Debug, Default)]
pub(crate) struct Scripted {
    answers: Mutex<VecDeque<Result<(u16, String), EgressError>>>,
    requests: Mutex<Vec<(String, Value)>>,
    pauses: Mutex<Vec<Duration>>,
}

impl Scripted {
    /// A server that answers with `answers`.
    pub(crate) fn new(answers: impl IntoIterator<Item = Result<(u16, String), EgressError>>) -> Self {
        Scripted { answers: Mutex::new(answers.into_iter().collect()), ..Scripted::default() }
    }

    /// Replaces the answers to come.
    pub(crate) fn answer(&self, answers: impl IntoIterator<Item = Result<(u16, String), EgressError>>) {
        *self.answers.lock() = answers.into_iter().collect();
    }

    /// Number of requests so far.
    pub(crate) fn asked(&self) -> usize {
        self.requests.lock().len()
    }

    /// URL and document of the last request.
    pub(crate) fn last(&self) -> (String, Value) {
        self.requests.lock().last().cloned().unwrap_or_default()
    }

    /// Number of pauses so far.
    pub(crate) fn paused(&self) -> usize {
        self.pauses.lock().len()
    }
}

impl Egress for Scripted {
    fn send(&self, request: Outgoing) -> BoxFuture<'_, Result<Reply, EgressError>> {
        let document = request.document.map(|document| serde_json::from_slice(&document).unwrap());
        self.requests.lock().push((request.url.to_string(), document.unwrap_or_default()));
        let mut answers = self.answers.lock();
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        let answer = answer.expect("a test writes at least one answer");
        let answer = answer.map(|(status, body)| Reply { status, retry_after: None, body: body.into() });
        ready(answer).boxed()
    }

    fn pause(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.pauses.lock().push(span);
        ready(()).boxed()
    }
}
