//! Counters of uses of the tokens that pods mount, and of those that secrets keep, under the reference's names.
//!
//! A mounted token has a time from which on it is stale: its program should have read a newer one. Other tokens are not
//! counted, as in the reference.

use std::sync::LazyLock;

use metrics::{Counter, counter};

use super::secret_token::{Origin, SecretToken};
use super::token::Claims;

static VALID: LazyLock<Counter> = LazyLock::new(|| counter!("serviceaccount_valid_tokens_total"));
static STALE: LazyLock<Counter> = LazyLock::new(|| counter!("serviceaccount_stale_tokens_total"));

static KEPT: LazyLock<Counter> = LazyLock::new(|| counter!("serviceaccount_legacy_tokens_total"));
static GENERATED: LazyLock<Counter> =
    LazyLock::new(|| counter!("serviceaccount_legacy_auto_token_uses_total"));
static BY_HAND: LazyLock<Counter> =
    LazyLock::new(|| counter!("serviceaccount_legacy_manual_token_uses_total"));
static MARKED: LazyLock<Counter> =
    LazyLock::new(|| counter!("serviceaccount_invalid_legacy_auto_token_uses_total"));

/// Counts a use of a token that a secret keeps.
pub(super) fn count_kept(token: &SecretToken) {
    KEPT.increment(1);
    match (token.is_marked_invalid, token.origin) {
        (true, _) => MARKED.increment(1),
        (false, Origin::Generated) => GENERATED.increment(1),
        (false, Origin::ByHand) => BY_HAND.increment(1),
    }
}

/// Counts a use at `now`, in seconds since 1970, of a token that is good.
pub(super) fn count(claims: &Claims, now: u64) {
    match claims.warn_after {
        Some(time) if now > time => STALE.increment(1),
        Some(_) => VALID.increment(1),
        None => {}
    }
}
