//! Owners of this cluster that do not go before aggregated servers were looked at.
//!
//! Owns which these are, between the collector, which asks before it takes the finalizer `orphan` or `foregroundDeletion` away, and
//! the looks, which say that nothing at those servers waits for it any more.
//!
//!     asked -> awaited -> (looks that began afterwards) -> free -> (the collector hears of it) -> let go
//!
//! Invariant: an owner is free only by a look that began after the collector first asked for it.
//! Invariant: no server delays an owner by more than [`DELAY_MAX`] and a look: neither by being away nor by what it shows. Dependents that it
//! keeps are not lost by that: an owner that goes with `orphan` never counts as ended ([`super::ends`]); those of others are
//! collected when it is back, where the beginning of its deletion was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use orch_bounded::WarningLimit;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::graph::ObjectRef;
use super::{EVERY, SOON};
use crate::controllers::client::Moment;

/// Longest wait of an owner for servers that are away, from the beginning of its deletion on. The reference waits for those dependents that it has
/// heard of, without a bound.
pub(super) const DELAY_MAX: Duration = Duration::from_secs(600);

/// Time after which an owner that is free, and was not let go, is forgotten: it was changed, or removed otherwise.
const FREE_MAX: Duration = Duration::from_secs(60);

/// Looks for an owner that stays come after this part of the time for which it has waited.
const BACK_OFF: u32 = 4;

/// Limits warnings of owners that go although a server was not looked at.
static DELAYED: WarningLimit<Moment> = WarningLimit::new();

/// The finalizer that an owner is held by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controllers::garbage) enum Purpose {
    /// Its dependents lose their references to it first.
    Orphan,
    /// Its dependents that block it are deleted first.
    Foreground,
}

/// An owner whose finalizer is about to be taken away.
#[derive(Clone, Copy, Debug)]
pub(in crate::controllers::garbage) struct Held<'a> {
    pub(in crate::controllers::garbage) object: &'a ObjectRef,
    pub(in crate::controllers::garbage) uid: &'a str,
    pub(in crate::controllers::garbage) purpose: Purpose,
    /// Time since the beginning of its deletion, which an earlier leader may have seen.
    pub(in crate::controllers::garbage) age: Duration,
    /// The time, of `Store::elapsed`.
    pub(in crate::controllers::garbage) now: Duration,
}

#[derive(Debug)]
struct Hold {
    object: ObjectRef,
    purpose: Purpose,
    /// When this leader asked for it first.
    since: Duration,
    /// When it goes, whatever servers say.
    until: Duration,
    /// Since when it is free.
    freed: Option<Duration>,
}

/// Owners that are held. Nothing is, until a server is known that may keep dependents.
#[derive(Debug, Default)]
pub(in crate::controllers::garbage) struct Holds {
    inner: Mutex<Inner>,
    /// An owner was asked for.
    asked: Notify,
    /// An owner was freed.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    may_hold: bool,
    /// By uid.
    owners: BTreeMap<String, Hold>,
    /// Owners that were freed since the collector heard of it last.
    released: Vec<ObjectRef>,
}

/// The outcome of a look at all servers.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Names of servers that did not show all of their objects.
    pub(super) away: BTreeSet<String>,
    /// Uids of owners that objects at servers still name, and have to lose, with the name of one such server.
    pub(super) named: BTreeMap<String, String>,
}

impl Holds {
    /// Whether the owner has to stay for now; [`Holds::released`] tells when it may go. One that does not is let go by the caller.
    pub(in crate::controllers::garbage) fn keep(&self, held: Held<'_>) -> bool {
        let Held { object, uid, purpose, age, now } = held;
        let mut inner = self.inner.lock();
        if !inner.may_hold {
            return false;
        }
        match inner.owners.get_mut(uid).filter(|hold| hold.purpose == purpose) {
            Some(Hold { freed: Some(freed), .. }) => {
                // Dependents here may keep it longer: it is not forgotten while it is asked for.
                *freed = now;
                return false;
            }
            Some(_) => {}
            None => {
                let until = now + DELAY_MAX.saturating_sub(age);
                let hold = Hold { object: object.clone(), purpose, since: now, until, freed: None };
                inner.owners.insert(uid.to_owned(), hold);
                self.asked.notify_one();
            }
        }
        true
    }

    /// Waits until an owner is asked for.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Waits until owners were freed, and returns these.
    pub(in crate::controllers::garbage) async fn released(&self) -> Vec<ObjectRef> {
        loop {
            let released = std::mem::take(&mut self.inner.lock().released);
            if !released.is_empty() {
                return released;
            }
            self.freed.notified().await;
        }
    }

    /// Takes in the time, and whether some server may keep dependents.
    pub(super) fn refresh(&self, may_hold: bool, now: Duration) {
        let mut inner = self.inner.lock();
        inner.may_hold = may_hold;
        if !may_hold {
            let owners = std::mem::take(&mut inner.owners);
            inner.released.extend(owners.into_values().map(|hold| hold.object));
            self.freed.notify_one();
            return;
        }
        // once: for each turn; owners that are being deleted are few.
        inner.owners.retain(|_, hold| hold.freed.is_none_or(|freed| now.saturating_sub(freed) < FREE_MAX));
    }

    /// The owners that a look has to find nothing of.
    pub(super) fn awaited(&self) -> BTreeMap<String, Purpose> {
        let inner = self.inner.lock();
        let awaited = inner.owners.iter().filter(|(_, hold)| hold.freed.is_none());
        awaited.map(|(uid, hold)| (uid.clone(), hold.purpose)).collect()
    }

    /// Whether some owner is awaited.
    pub(super) fn is_any_awaited(&self) -> bool {
        // once: for each look.
        self.inner.lock().owners.values().any(|hold| hold.freed.is_none())
    }

    /// When a look is due for the owners that are awaited, after the last one, which began at `last`; `None`: none is awaited. At once for one
    /// that is new; then less and less often: what keeps an owner for long is seldom gone a second later.
    pub(super) fn due(&self, last: Duration) -> Option<Duration> {
        let inner = self.inner.lock();
        // once: for each turn.
        let awaited = || inner.owners.values().filter(|hold| hold.freed.is_none());
        let youngest = awaited().map(|hold| hold.since).max()?;
        let first_end = awaited().map(|hold| hold.until).min()?;
        if last <= youngest {
            return Some(last);
        }
        let wait = ((last - youngest) / BACK_OFF).clamp(SOON, EVERY);
        Some(first_end.clamp(last + SOON, last + wait))
    }

    /// Frees those of `awaited` that a look, which began with these, has found nothing of.
    pub(super) fn end(&self, awaited: &BTreeMap<String, Purpose>, looked: &Looked, now: Duration) {
        let mut inner = self.inner.lock();
        let Inner { owners, released, .. } = &mut *inner;
        for (uid, purpose) in awaited {
            let Some(hold) = owners.get_mut(uid).filter(|hold| hold.purpose == *purpose) else {
                continue;
            };
            let keeper = looked.named.get(uid);
            let is_free = looked.away.is_empty() && keeper.is_none();
            if !is_free && now < hold.until {
                continue;
            }
            hold.freed = Some(now);
            released.push(hold.object.clone());
            if !is_free && let Some(left_out) = DELAYED.pass_at(Moment(now)) {
                tracing::warn!(
                    uid,
                    ?purpose,
                    away = ?looked.away,
                    keeper,
                    left_out,
                    "an owner goes although dependents at aggregated servers may name it"
                );
            }
        }
        self.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn looked(away: &[&str], named: &[&str]) -> Looked {
        let named = named.iter().map(|uid| ((*uid).to_owned(), "v1.a".to_owned())).collect();
        Looked { away: away.iter().map(|text| (*text).to_owned()).collect(), named }
    }

    fn holding() -> Holds {
        let holds = Holds::default();
        holds.refresh(true, Duration::ZERO);
        holds
    }

    fn object(uid: &str) -> ObjectRef {
        ObjectRef { storage: "configmaps".into(), path: format!("n/{uid}").into() }
    }

    /// Asks at the time `now` for the owner `uid`, whose deletion began `age` ago.
    fn keep_aged(holds: &Holds, (uid, purpose): (&str, Purpose), (age, now): (Duration, Duration)) -> bool {
        holds.keep(Held { object: &object(uid), uid, purpose, age, now })
    }

    fn keep(holds: &Holds, uid: &str, purpose: Purpose) -> bool {
        keep_aged(holds, (uid, purpose), (Duration::ZERO, Duration::ZERO))
    }

    #[test]
    fn an_owner_is_kept_until_a_look_that_began_afterwards_finds_nothing() {
        let holds = holding();
        let before = holds.awaited();
        assert!(keep(&holds, "u", Purpose::Orphan));
        holds.end(&before, &looked(&[], &[]), Duration::ZERO);
        assert!(keep(&holds, "u", Purpose::Orphan) && holds.is_any_awaited());
        let awaited = holds.awaited();
        holds.end(&awaited, &looked(&[], &["u"]), Duration::ZERO);
        assert!(keep(&holds, "u", Purpose::Orphan), "an object names it");
        holds.end(&awaited, &looked(&["v1.a"], &[]), Duration::ZERO);
        assert!(keep(&holds, "u", Purpose::Orphan), "a server is away");
        holds.end(&awaited, &looked(&[], &[]), Duration::ZERO);
        assert!(!keep(&holds, "u", Purpose::Orphan) && !holds.is_any_awaited());
        assert!(keep(&holds, "u", Purpose::Foreground), "its deletion is another one now");
    }

    #[test]
    fn neither_a_server_that_is_away_nor_a_dependent_delays_an_owner_without_a_bound() {
        let holds = holding();
        let all = [("o", Purpose::Orphan), ("f", Purpose::Foreground), ("b", Purpose::Foreground)];
        let kept = || all.map(|(uid, purpose)| keep(&holds, uid, purpose));
        assert_eq!(kept(), [true, true, true]);
        let (awaited, found) = (holds.awaited(), looked(&["v1.a"], &["b"]));
        holds.end(&awaited, &found, DELAY_MAX - SECOND);
        assert_eq!(kept(), [true, true, true]);
        holds.end(&awaited, &found, DELAY_MAX);
        assert_eq!(kept(), [false, false, false]);
    }

    #[test]
    fn the_delay_counts_from_the_beginning_of_the_deletion_whoever_led_then() {
        let holds = holding();
        let (owner, now) = (("u", Purpose::Orphan), 5 * SECOND);
        assert!(keep_aged(&holds, owner, (DELAY_MAX - 10 * SECOND, now)));
        let (awaited, away) = (holds.awaited(), looked(&["v1.a"], &[]));
        holds.end(&awaited, &away, 14 * SECOND);
        assert!(keep(&holds, "u", Purpose::Orphan));
        holds.end(&awaited, &away, 15 * SECOND);
        assert!(!keep(&holds, "u", Purpose::Orphan));
    }

    #[test]
    fn nothing_is_kept_where_no_server_keeps_dependents_and_free_owners_are_forgotten() {
        let holds = Holds::default();
        assert!(!keep(&holds, "u", Purpose::Orphan));
        holds.refresh(true, Duration::ZERO);
        assert!(keep(&holds, "u", Purpose::Orphan));
        holds.end(&holds.awaited(), &looked(&[], &[]), Duration::ZERO);
        holds.refresh(true, FREE_MAX);
        assert!(keep(&holds, "u", Purpose::Orphan), "it is asked for anew");
        holds.refresh(false, FREE_MAX);
        assert!(!keep(&holds, "u", Purpose::Orphan) && holds.awaited().is_empty());
    }

    #[tokio::test]
    async fn the_collector_hears_of_each_owner_that_is_free() {
        let holds = holding();
        assert!(keep(&holds, "a", Purpose::Orphan));
        let mut released = Box::pin(holds.released());
        assert!(futures::poll!(&mut released).is_pending());
        holds.end(&holds.awaited(), &looked(&["v1.a"], &[]), SECOND);
        assert!(futures::poll!(&mut released).is_pending(), "it is held");
        holds.end(&holds.awaited(), &looked(&[], &[]), SECOND);
        assert_eq!(released.await, [object("a")]);
        assert!(keep(&holds, "b", Purpose::Orphan));
        holds.refresh(false, SECOND);
        assert_eq!(holds.released().await, [object("a"), object("b")], "no server keeps dependents");
    }

    #[test]
    fn looks_for_an_owner_that_stays_come_less_and_less_often() {
        let holds = holding();
        assert_eq!(holds.due(Duration::ZERO), None);
        assert!(keep(&holds, "u", Purpose::Orphan));
        assert_eq!(holds.due(Duration::ZERO), Some(Duration::ZERO), "nobody has looked for it");
        for (last, next) in [(1, 2), (4, 5), (40, 50), (400, 460), (570, 600), (600, 601)] {
            assert_eq!(holds.due(last * SECOND), Some(next * SECOND), "after {last}");
        }
        assert!(keep_aged(&holds, ("v", Purpose::Orphan), (Duration::ZERO, 500 * SECOND)));
        assert_eq!(holds.due(400 * SECOND), Some(400 * SECOND), "one is new");
        assert_eq!(holds.due(501 * SECOND), Some(502 * SECOND));
    }
}
