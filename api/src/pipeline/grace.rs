//! Graceful deletion: grace periods of objects whose deletion takes time.
//!
//! Owns the arithmetic of `deletionTimestamp` and `deletionGracePeriodSeconds`, as a function of the object, the
//! options and the time. A grace period only ever gets shorter, counted from the first delete, and never ends in the
//! past.

use orch_rules::kinds::Strategy;
use orch_rules::validate::tree::{Tree, set};
use orch_schema::value::Value;
use orch_schema::{Instant, Precision};

use crate::ambient::Timestamp;

/// The grace period after a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grace {
    /// No grace period: only finalizers can hold the object.
    None,
    /// A grace period is running, and the request does not shorten it.
    Pending,
    /// A new or shortened grace period.
    Given {
        /// Seconds, not negative.
        seconds: i64,
        /// The end of the period: the `deletionTimestamp`.
        ends: Timestamp,
    },
}

impl Grace {
    /// The grace period of `object` after a delete at `now`; `requested` is `gracePeriodSeconds`.
    pub(super) fn of(
        strategy: &dyn Strategy,
        object: &Value,
        requested: Option<i64>,
        now: Timestamp,
    ) -> Grace {
        let requested = requested.map(positive);
        let Some(period) = strategy.grace_period_seconds(object, requested) else { return Grace::None };
        let metadata = object.at("metadata");
        if !metadata.has("deletionTimestamp") {
            return Grace::Given { seconds: period, ends: after(now, period) };
        }
        match (metadata.int("deletionGracePeriodSeconds").map(positive), requested) {
            (None | Some(0), _) => Grace::None,
            (Some(pending), Some(seconds)) if seconds < pending => {
                shortened(metadata.text("deletionTimestamp"), pending, seconds, now)
            }
            _ => Grace::Pending,
        }
    }

    /// Marks `metadata` as being deleted.
    pub(super) fn mark(self, metadata: &mut Value, now: Timestamp) {
        let first = !metadata.has("deletionTimestamp");
        let (seconds, ends) = match self {
            Grace::Pending => return,
            Grace::Given { seconds, ends } => (seconds, Some(ends)),
            Grace::None => (0, (first || is_later(metadata.text("deletionTimestamp"), now)).then_some(now)),
        };
        if let Some(ends) = ends {
            set(metadata, "deletionTimestamp", ends.seconds_text());
        }
        set(metadata, "deletionGracePeriodSeconds", seconds);
        let generation = metadata.int("generation").filter(|generation| first && *generation > 0);
        if let Some(generation) = generation {
            set(metadata, "generation", generation.saturating_add(1));
        }
    }
}

/// A negative period counts as one second.
fn positive(seconds: i64) -> i64 {
    if seconds < 0 { 1 } else { seconds }
}

/// A shorter period, counted from the first delete. If that is over it ends now, with 1 second left on record, or 0 if
/// 0 was requested.
fn shortened(ends: &str, pending: i64, seconds: i64, now: Timestamp) -> Grace {
    let began = whole_seconds(ends).map(|ends| ends.saturating_sub(pending));
    let wanted = began.map_or(0, |began| began.saturating_add(seconds));
    let now_seconds = i64::try_from(now.0 / MICROS).unwrap_or(i64::MAX);
    if wanted < now_seconds {
        return Grace::Given { seconds: seconds.min(1), ends: now };
    }
    Grace::Given { seconds, ends: Timestamp(wanted.unsigned_abs().saturating_mul(MICROS)) }
}

const MICROS: u64 = 1_000_000;

fn after(now: Timestamp, seconds: i64) -> Timestamp {
    Timestamp(now.0.saturating_add(seconds.unsigned_abs().saturating_mul(MICROS)))
}

fn is_later(time: &str, now: Timestamp) -> bool {
    whole_seconds(time).is_some_and(|time| time > i64::try_from(now.0 / MICROS).unwrap_or(i64::MAX))
}

fn whole_seconds(time: &str) -> Option<i64> {
    Instant::parse(time, Precision::Seconds).map(|instant| instant.seconds)
}
