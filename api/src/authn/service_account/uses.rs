//! Counters of uses of the tokens that pods mount, under the reference's names.
//!
//! Such a token has a time from which on it is stale: its program should have read a newer one. Other tokens are not
//! counted, as in the reference.

use std::sync::LazyLock;

use metrics::{Counter, counter};

use super::token::Claims;

static VALID: LazyLock<Counter> = LazyLock::new(|| counter!("serviceaccount_valid_tokens_total"));
static STALE: LazyLock<Counter> = LazyLock::new(|| counter!("serviceaccount_stale_tokens_total"));

/// Counts a use at `now`, in seconds since 1970, of a token that is good.
pub(super) fn count(claims: &Claims, now: u64) {
    match claims.warn_after {
        Some(time) if now > time => STALE.increment(1),
        Some(_) => VALID.increment(1),
        None => {}
    }
}
