//! Namespaces whose pods take long to plan because of the devices that they claim.
//!
//! Owns the share of the planning thread that such pods get together. A plan has a bound, but nothing bounds how many
//! pods a tenant makes, how often changes of the cluster wake them, or how many claims they have: without a share they would
//! keep all other pods waiting. Steps are counted and no clock is read, so that a replay decides alike.
//!
//! ```text
//!   a plan of a pod with claims ── costly, alone or with those before it? ──> its namespace is watched for ten minutes
//!   pods with claims of watched namespaces ──> planned one after the other, with pauses of four times as long
//!   all other pods ──> planned as ever
//! ```
//!
//! Invariant: pods with claims of watched namespaces take a fifth of the thread at most; others never wait here.

use std::collections::HashMap;
use std::time::Duration;

/// Nanoseconds of a step: the unit of `orch_expression`.
const STEP_NS: u64 = 100;
/// Time of one plan from which on its namespace is watched. Usual claims take some ten milliseconds on a thousand nodes.
const COSTLY: Duration = Duration::from_millis(250);
/// Time of all plans of a namespace from which on it is watched: those of hundreds of pods with usual claims that come
/// together.
const COSTLY_TOGETHER: Duration = Duration::from_secs(5);
/// The share of the thread that a namespace may take for ever: one of so many parts of the time is taken off from the sum
/// of its plans.
const UNWATCHED_SHARE: u32 = 10;
/// Time for which a namespace is watched after its last costly plan.
const WATCHED_FOR: Duration = Duration::from_secs(600);
/// Pauses after a plan of a watched namespace, in times of the plan.
const PAUSE_TIMES: u32 = 4;
/// Namespaces with an account, beyond which the one that was costly longest ago, or else has the least sum, is forgotten.
/// Each watched one took at least [`COSTLY`] within [`WATCHED_FOR`], so that there are at most 2,400 of them; the others are
/// those whose pods have claims.
const NAMESPACES_MAX: usize = 4096;

/// The accounts of namespaces, and the turns of those that are watched.
#[derive(Debug, Default)]
pub(super) struct Costly {
    namespaces: HashMap<String, Account>,
    /// When the next pod of a watched namespace may be planned.
    free_at: Duration,
}

/// Planning time of a namespace.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// When the namespace is no longer watched.
    watched_until: Duration,
    /// Time that its plans took, less its share of the time since.
    sum: Duration,
    /// When `sum` was brought up to date.
    at: Duration,
}

impl Costly {
    /// Takes in that the claims of a pod took `steps` in a plan, which began at `now`.
    pub(super) fn planned(&mut self, namespace: &str, steps: u64, now: Duration) {
        let took = Duration::from_nanos(steps.saturating_mul(STEP_NS));
        if took.is_zero() {
            return;
        }
        let account = self.account(namespace);
        let share = now.saturating_sub(account.at) / UNWATCHED_SHARE;
        account.sum = account.sum.saturating_sub(share).saturating_add(took);
        account.at = now;
        if took >= COSTLY || account.sum >= COSTLY_TOGETHER {
            account.watched_until = now.saturating_add(WATCHED_FOR);
        }
        if account.watched_until > now {
            // Plans of namespaces that were not watched before may come in the pause of another.
            let took_and_pause = took.saturating_mul(PAUSE_TIMES + 1);
            let latest = now.saturating_add(WATCHED_FOR);
            self.free_at = self.free_at.max(now).saturating_add(took_and_pause).min(latest);
        }
    }

    /// The time from which on a pod with claims may be planned; `None` if that is now.
    pub(super) fn planned_from(&self, namespace: &str, now: Duration) -> Option<Duration> {
        let is_watched = || self.namespaces.get(namespace).is_some_and(|account| account.watched_until > now);
        (self.free_at > now && is_watched()).then_some(self.free_at)
    }

    fn account(&mut self, namespace: &str) -> &mut Account {
        if self.namespaces.len() >= NAMESPACES_MAX && !self.namespaces.contains_key(namespace) {
            let least = self
                .namespaces
                .iter()
                .min_by_key(|(name, account)| (account.watched_until, account.sum, *name));
            let least = least.map(|(name, _)| name.clone());
            least.map(|name| self.namespaces.remove(&name));
        }
        self.namespaces.entry(namespace.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps in a second.
    const SECOND: u64 = 10_000_000;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn costly_namespaces_share_a_fifth_and_others_do_not_wait() {
        let mut costly = Costly::default();
        costly.planned("cheap", SECOND / 5, at(0));
        assert_eq!(costly.planned_from("cheap", at(0)), None);
        costly.planned("a", SECOND, at(10));
        costly.planned("cheap", SECOND / 5, at(10));
        assert_eq!(costly.planned_from("a", at(11)), Some(at(15)), "its second, and four more");
        assert_eq!(costly.planned_from("cheap", at(11)), None);
        assert_eq!(costly.planned_from("a", at(15)), None);
        costly.planned("b", SECOND, at(15));
        assert_eq!(costly.planned_from("a", at(16)), Some(at(20)), "they share it");
        costly.planned("a", SECOND / 100, at(20));
        assert_eq!(costly.planned_from("a", at(20)), Some(at(20) + Duration::from_millis(50)));
        costly.planned("b", SECOND, at(615));
        assert_eq!(costly.planned_from("a", at(616)), None, "it was not costly for long");
    }

    #[test]
    fn pauses_of_namespaces_that_become_costly_add_up() {
        let mut costly = Costly::default();
        for (namespace, second) in [("a", 0), ("b", 1), ("c", 2)] {
            costly.planned(namespace, SECOND, at(second));
        }
        assert_eq!(costly.planned_from("a", at(3)), Some(at(15)), "three seconds of fifteen");
        for number in 0..1000 {
            costly.planned(&format!("n{number}"), SECOND, at(3));
        }
        assert_eq!(costly.planned_from("a", at(3)), Some(at(603)), "but for no longer than it is watched");
    }

    #[test]
    fn many_plans_below_the_threshold_are_costly_together() {
        let mut costly = Costly::default();
        let plans = (0..).take_while(|number| {
            costly.planned("a", SECOND / 5, at(*number));
            costly.planned_from("a", at(*number)).is_none()
        });
        assert_eq!(plans.count(), 48, "a fifth of a second in each, half of which is its share");
        let mut costly = Costly::default();
        for number in 0..10_000 {
            costly.planned("steady", SECOND / 10, at(number));
            assert_eq!(costly.planned_from("steady", at(number)), None, "a tenth for ever");
        }
    }

    #[test]
    fn accounts_are_bounded() {
        let mut costly = Costly::default();
        costly.planned("costly", SECOND, at(0));
        for number in 0..5000 {
            costly.planned(&format!("n{number}"), 10, Duration::from_millis(number));
            assert!(costly.namespaces.len() <= NAMESPACES_MAX);
        }
        assert!(costly.planned_from("costly", at(2)).is_some(), "the cheap ones are forgotten first");
        assert!(costly.namespaces.contains_key("n4999") && !costly.namespaces.contains_key("n0"));
    }
}
