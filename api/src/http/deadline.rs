//! Deadlines: a minute for each request, or `?timeout=` if that is less.
//!
//! Owns the deadline from the arrival of the head to the head of the response, so that a body that trickles in, or a
//! cluster without a quorum, holds no request for ever. Reading the body, waiting for a seat, work and calls of webhooks share
//! one [`Deadline`]: none of them begins anew. A watch has to start in time; its lifetime is separate. A write
//! whose deadline passes after it was proposed has an unknown outcome, and its response says so. Before, it has
//! certainly changed nothing and never will, because the check that finds nothing proposed also cancels it.

use std::pin::{Pin, pin};
use std::time::Duration;

use futures::future::{Either, select};
use http::Method;
use orch_raft::Store;
use orch_schema::SignedDuration;
use orch_schema::budget::Budget;

use crate::error::ApiError;
use crate::registry::Registry;
use crate::request::{Query, TargetPath, Verb, parse_path, quote_shortened};

/// Longest deadline: the reference's default.
pub const REQUEST_MAX: Duration = Duration::from_secs(60);

/// The moment at which the time of a request ends, on the clock of [`Store::elapsed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadline(Duration);

impl Deadline {
    /// The deadline of a request that arrived at `arrived` and has `limit` from then on.
    pub(super) fn after(arrived: Duration, limit: Duration) -> Deadline {
        Deadline(arrived.saturating_add(limit))
    }

    /// The moment, on the clock of [`Store::elapsed`].
    pub(super) fn moment(self) -> Duration {
        self.0
    }

    /// The time that is left; zero once it is over.
    pub(super) fn left<S: Store>(self, store: &S) -> Duration {
        self.0.saturating_sub(store.elapsed())
    }
}

/// Checks `timeout` before anything else of a request to any path is looked at, as the reference does. Watches, and requests
/// that other servers answer, have no deadline.
///
/// # Errors
/// `BadRequest`: `timeout` is no duration.
pub(super) fn check_timeout(
    method: &Method,
    path: &str,
    query: &Query,
    registry: &Registry,
) -> Result<(), ApiError> {
    if query.text("timeout").is_empty() {
        return Ok(());
    }
    let verb = match parse_path(path) {
        TargetPath::Resource(target) => {
            if registry.endpoint(&target).is_ok_and(|endpoint| endpoint.action.is_passed_on()) {
                return Ok(());
            }
            Verb::of(method, &target, query).unwrap_or(Verb::Get)
        }
        TargetPath::Other | TargetPath::Malformed => Verb::Get,
    };
    deadline(verb, query).map(drop)
}

/// Checks `timeout` in the query of a request to a path that the node serves beside this API, as on all other paths.
///
/// # Errors
/// `BadRequest`: `timeout` is no duration.
pub fn check_timeout_beside(query: Option<&str>) -> Result<(), ApiError> {
    match query {
        Some(query) => deadline(Verb::Get, &Query::parse(query)).map(drop),
        None => Ok(()),
    }
}

/// The time limit of a request with `query`.
///
/// # Errors
/// `BadRequest`: `timeout` is no duration.
pub(super) fn deadline(verb: Verb, query: &Query) -> Result<Duration, ApiError> {
    let text = query.text("timeout");
    if text.is_empty() || verb == Verb::Watch {
        return Ok(REQUEST_MAX);
    }
    match SignedDuration::parse(text) {
        // Zero or less means no preference.
        Ok(asked) if asked.is_positive() => Ok(REQUEST_MAX.min(asked.duration())),
        Ok(_) => Ok(REQUEST_MAX),
        Err(_) => {
            let shown = quote_shortened(text);
            Err(ApiError::BadRequest(format!(
                "invalid timeout specified in the request URL - time: invalid duration {shown}"
            )))
        }
    }
}

/// The result of `work` before `deadline`. The work stays where its caller keeps it: a future that is handed in by value is held twice, and
/// that of a request was copied whole.
///
/// # Errors
/// Those of `work`. At the deadline the work of `budget` is cancelled: `OutcomeUnknown` if it has begun to write,
/// because a proposal that was sent may be applied without anyone waiting for it; `NothingChanged` for any other write,
/// and `DeadlineExceeded` for a read.
pub(super) async fn run_until_deadline<S: Store, T>(
    store: &S,
    deadline: Deadline,
    verb: Verb,
    budget: &Budget,
    work: Pin<&mut impl Future<Output = Result<T, ApiError>>>,
) -> Result<T, ApiError> {
    let left = deadline.left(store);
    // Work that is ready at once would be done in no time, and a write could begin behind its deadline.
    if !left.is_zero() {
        let ended = pin!(store.sleep(left));
        if let Either::Left((result, _)) = select(work, ended).await {
            return result;
        }
    }
    if budget.cancel() {
        return Err(ApiError::OutcomeUnknown(ApiError::DeadlineExceeded.to_string()));
    }
    Err(if verb.is_read() { ApiError::DeadlineExceeded } else { ApiError::NothingChanged })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_shorten_the_time_and_not_lengthen_it() {
        let seconds = |text: &str| {
            deadline(Verb::List, &Query::parse(&format!("timeout={text}")))
                .ok()
                .map(|limit| limit.as_secs_f64())
        };
        for (text, expected) in [
            ("", 60.0),
            ("5s", 5.0),
            ("1m", 60.0),
            ("2h", 60.0),
            ("1.5s", 1.5),
            ("250ms", 0.25),
            ("0", 60.0),
            ("0s", 60.0),
            ("-1s", 60.0),
            ("%2B1s", 1.0),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in ["5", "s", "abc", "1x", "-", "1..5s", "5s3", "99999999999999999999h"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
