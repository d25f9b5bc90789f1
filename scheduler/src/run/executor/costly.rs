//! Namespaces whose pods take long to plan because of the devices that they claim.
//!
//! Owns the share of the planning thread that such pods get together. A plan has a bound, but nothing bounds how many
//! pods a tenant makes, how often changes of the cluster wake them, or how many claims they have: without a share they would
//! keep all other pods waiting. Steps are counted and no clock is read, so that a replay decides alike.
//!
//! ```text
//!   a plan of a pod with claims ── costly? ──> its namespace is watched for ten minutes
//!   pods with claims of watched namespaces ──> planned one after the other, with pauses of four times as long
//!   all other pods ──> planned as ever
//! ```
//!
//! Invariant: pods with claims of watched namespaces take a fifth of the thread at most; others never wait here.

use std::collections::HashMap;
use std::time::Duration;

/// Steps in a millisecond: the unit of `orch_rules::expression`.
const STEPS_PER_MILLISECOND: u64 = 10_000;
/// Time of a plan from which on its namespace is watched. Usual claims take some ten milliseconds on a thousand nodes.
const COSTLY: Duration = Duration::from_millis(250);
/// Time for which a namespace is watched after its last costly plan.
const WATCHED_FOR: Duration = Duration::from_secs(600);
/// Pauses after a plan of a watched namespace, in times of the plan.
const PAUSE_TIMES: u32 = 4;
/// Watched namespaces, beyond which the one that was costly longest ago is forgotten. Each takes a second of planning to
/// come here, so that more are not seen within [`WATCHED_FOR`].
const NAMESPACES_MAX: usize = 1024;

/// The watched namespaces.
#[derive(Debug, Default)]
pub(super) struct Costly {
    /// By name, when each is no longer watched.
    namespaces: HashMap<String, Duration>,
    /// When the next pod of a watched namespace may be planned.
    free_at: Duration,
}

impl Costly {
    /// Takes in that the claims of a pod took `steps` in a plan.
    pub(super) fn planned(&mut self, namespace: &str, steps: u64, now: Duration) {
        let took = Duration::from_millis(steps / STEPS_PER_MILLISECOND);
        if took >= COSTLY {
            self.watch(namespace, now);
        }
        if self.is_watched(namespace, now) {
            self.free_at = now.saturating_add(took.saturating_mul(PAUSE_TIMES));
        }
    }

    /// When a pod with claims may be planned; `None` if that is now.
    pub(super) fn planned_from(&self, namespace: &str, now: Duration) -> Option<Duration> {
        (self.free_at > now && self.is_watched(namespace, now)).then_some(self.free_at)
    }

    fn is_watched(&self, namespace: &str, now: Duration) -> bool {
        self.namespaces.get(namespace).is_some_and(|until| *until > now)
    }

    fn watch(&mut self, namespace: &str, now: Duration) {
        if self.namespaces.len() >= NAMESPACES_MAX && !self.namespaces.contains_key(namespace) {
            self.namespaces.retain(|_, until| *until > now);
            let oldest = self.namespaces.iter().min_by_key(|(name, until)| (**until, *name));
            let oldest =
                oldest.map(|(name, _)| name.clone()).filter(|_| self.namespaces.len() >= NAMESPACES_MAX);
            oldest.map(|name| self.namespaces.remove(&name));
        }
        self.namespaces.insert(namespace.to_owned(), now.saturating_add(WATCHED_FOR));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1000 * STEPS_PER_MILLISECOND;

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
        assert_eq!(costly.planned_from("a", at(11)), Some(at(14)));
        assert_eq!(costly.planned_from("cheap", at(11)), None);
        assert_eq!(costly.planned_from("a", at(14)), None);
        costly.planned("b", SECOND, at(14));
        assert_eq!(costly.planned_from("a", at(15)), Some(at(18)), "they share it");
        costly.planned("a", SECOND / 100, at(18));
        assert_eq!(costly.planned_from("a", at(18)), Some(at(18) + Duration::from_millis(40)));
        costly.planned("b", SECOND, at(609));
        assert_eq!(costly.planned_from("a", at(610)), None, "it was not costly for long");
    }

    #[test]
    fn watched_namespaces_are_bounded() {
        let mut costly = Costly::default();
        for number in 0..2000 {
            costly.planned(&format!("n{number}"), SECOND, Duration::from_millis(number));
            assert!(costly.namespaces.len() <= NAMESPACES_MAX);
        }
        assert!(costly.planned_from("n1999", at(2)).is_some());
        assert!(costly.planned_from("n0", at(2)).is_none());
    }
}
