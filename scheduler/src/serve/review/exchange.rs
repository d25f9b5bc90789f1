//! A question to a server that reviews, and its answer.
//!
//! Owns how long an answer may take, and which failures are asked again: a review has no effect, so that it may be sent
//! as often as its time allows.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use orch_bounded::{Attempts, jittered};
use rand::Rng;
use serde_json::Value;

use crate::ambient;
use crate::client::{Error, JsonServer, chain};

/// Longest wait for an answer, with every attempt: requests of clients wait for it.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Creates `document` at `path`, or without one reads what is there. The error says why there is no answer.
pub(super) async fn exchange(
    server: &JsonServer,
    path: &str,
    document: Option<&Value>,
) -> Result<(StatusCode, Value), String> {
    let body = document.map(|document| Bytes::from(document.to_string()));
    match tokio::time::timeout(ANSWER_MAX, attempt(server, path, body)).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {} seconds", ANSWER_MAX.as_secs())),
    }
}

async fn attempt(
    server: &JsonServer,
    path: &str,
    body: Option<Bytes>,
) -> Result<(StatusCode, Value), String> {
    let mut attempts = Attempts::default();
    loop {
        let outcome = match &body {
            Some(body) => server.post(path, body.clone()).await,
            None => server.get(path).await,
        };
        let pause = attempts.next_pause().filter(|_| may_pass(&outcome));
        let Some(pause) = pause else {
            let (code, body) = outcome.map_err(|error| chain(&error))?;
            let status = StatusCode::from_u16(code).map_err(|error| error.to_string())?;
            let value = serde_json::from_slice(&body).map_err(|error| format!("{status}: {error}"))?;
            return Ok((status, value));
        };
        // Drawn before the wait: the thread's source may not go to another thread with the task.
        let drawn = ambient::rng().random();
        tokio::time::sleep(jittered(pause, drawn)).await;
    }
}

/// Whether the same question may be answered later. Addresses that do not answer were asked in turn already.
fn may_pass(outcome: &Result<(u16, Bytes), Error>) -> bool {
    match outcome {
        Ok((code, _)) => matches!(code, 429 | 500..=599),
        Err(error) => matches!(error, Error::Lost { .. }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Config;
    use crate::client::testing::{FakeApi, Fault};

    /// The answer of a server whose first answers are `faults`, and how often it was asked.
    async fn asked(faults: &[(usize, Fault)]) -> (Result<(StatusCode, Value), String>, usize) {
        let api = FakeApi::start().await;
        for (times, fault) in faults {
            api.plant("POST", "reviews", *times, *fault);
        }
        let server = JsonServer::new(&Config::new(vec![api.endpoint()])).unwrap();
        let answer = exchange(&server, "reviews", Some(&serde_json::json!({}))).await;
        let times = api.log().iter().filter(|line| line.contains("reviews")).count();
        (answer, times)
    }

    #[tokio::test]
    async fn failures_of_the_server_and_lost_answers_are_asked_again() {
        for fault in [Fault::Status(500, 0), Fault::Status(429, 0), Fault::LostAfter] {
            let (answer, times) = asked(&[(1, fault)]).await;
            // The small server knows no reviews.
            assert_eq!((answer.unwrap().0, times), (StatusCode::NOT_FOUND, 2), "{fault:?}");
        }
        let (answer, times) = asked(&[(1, Fault::Status(403, 0))]).await;
        assert_eq!((answer.unwrap().0, times), (StatusCode::FORBIDDEN, 1));
    }
}
