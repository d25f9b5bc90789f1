//! Owners of this cluster that do not go before aggregated servers were looked at.
//!
//! Owns which these are, between the collector, which asks before it takes the finalizer `orphan` or `foregroundDeletion` away, and
//! the looks, which say that nothing at those servers waits for it any more.
//!
//!     asked -> awaited -> (looks that began afterwards) -> free -> let go
//!
//! Invariant: an owner is free only by a look that began after the collector first asked for it.
//! Invariant: no server delays an owner by more than [`DELAY_MAX`] and a look: neither by being away nor by what it shows. Dependents that it
//! keeps are not lost by that: an owner that goes with `orphan` never counts as ended ([`super::ends`]); those of others are
//! collected when it is back, where the beginning of its deletion was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use orch_bounded::WarningLimit;
use parking_lot::Mutex;

use crate::controllers::client::Moment;

/// Longest wait of an owner for servers that are away. The reference waits for those dependents that it has heard of, without a bound.
pub(super) const DELAY_MAX: Duration = Duration::from_secs(600);

/// Time after which an owner that is free, and was not let go, is forgotten: it was changed, or removed otherwise.
const FREE_MAX: Duration = Duration::from_secs(60);

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

#[derive(Debug)]
struct Hold {
    purpose: Purpose,
    since: Duration,
    /// Since when it is free.
    freed: Option<Duration>,
}

/// Owners that are held. Nothing is, until a server is known that may keep dependents.
#[derive(Debug, Default)]
pub(in crate::controllers::garbage) struct Holds(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    now: Duration,
    may_hold: bool,
    /// By uid.
    owners: BTreeMap<String, Hold>,
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
    /// Whether the owner `uid` has to stay for now. One that does not is let go by the caller.
    pub(in crate::controllers::garbage) fn keep(&self, uid: &str, purpose: Purpose) -> bool {
        let mut inner = self.0.lock();
        if !inner.may_hold {
            return false;
        }
        let since = inner.now;
        match inner.owners.get_mut(uid).filter(|hold| hold.purpose == purpose) {
            Some(Hold { freed: Some(freed), .. }) => {
                // Dependents here may keep it longer: it is not forgotten while it is asked for.
                *freed = since;
                return false;
            }
            Some(_) => {}
            None => drop(inner.owners.insert(uid.to_owned(), Hold { purpose, since, freed: None })),
        }
        true
    }

    /// Takes in the time, and whether some server may keep dependents.
    pub(super) fn refresh(&self, may_hold: bool, now: Duration) {
        let mut inner = self.0.lock();
        (inner.may_hold, inner.now) = (may_hold, now);
        // once: for each look; owners that are being deleted are few.
        inner.owners.retain(|_, hold| hold.freed.is_none_or(|freed| now.saturating_sub(freed) < FREE_MAX));
        if !may_hold {
            inner.owners.clear();
        }
    }

    /// The owners that a look has to find nothing of.
    pub(super) fn awaited(&self) -> BTreeMap<String, Purpose> {
        let inner = self.0.lock();
        let awaited = inner.owners.iter().filter(|(_, hold)| hold.freed.is_none());
        awaited.map(|(uid, hold)| (uid.clone(), hold.purpose)).collect()
    }

    /// Whether some owner is awaited.
    pub(super) fn is_any_awaited(&self) -> bool {
        // once: for each look.
        self.0.lock().owners.values().any(|hold| hold.freed.is_none())
    }

    /// Frees those of `awaited` that a look, which began with these, has found nothing of.
    pub(super) fn end(&self, awaited: &BTreeMap<String, Purpose>, looked: &Looked, now: Duration) {
        let mut inner = self.0.lock();
        for (uid, purpose) in awaited {
            let Some(hold) = inner.owners.get_mut(uid).filter(|hold| hold.purpose == *purpose) else {
                continue;
            };
            let keeper = looked.named.get(uid);
            let is_free = looked.away.is_empty() && keeper.is_none();
            let is_late = now.saturating_sub(hold.since) >= DELAY_MAX;
            if !is_free && !is_late {
                continue;
            }
            hold.freed = Some(now);
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(away: &[&str], named: &[&str]) -> Looked {
        let named = named.iter().map(|uid| ((*uid).to_owned(), "v1.a".to_owned())).collect();
        Looked { away: away.iter().map(|text| (*text).to_owned()).collect(), named }
    }

    fn holding() -> Holds {
        let holds = Holds::default();
        holds.refresh(true, Duration::ZERO);
        holds
    }

    #[test]
    fn an_owner_is_kept_until_a_look_that_began_afterwards_finds_nothing() {
        let holds = holding();
        let before = holds.awaited();
        assert!(holds.keep("u", Purpose::Orphan));
        holds.end(&before, &looked(&[], &[]), Duration::ZERO);
        assert!(holds.keep("u", Purpose::Orphan) && holds.is_any_awaited());
        let awaited = holds.awaited();
        holds.end(&awaited, &looked(&[], &["u"]), Duration::ZERO);
        assert!(holds.keep("u", Purpose::Orphan), "an object names it");
        holds.end(&awaited, &looked(&["v1.a"], &[]), Duration::ZERO);
        assert!(holds.keep("u", Purpose::Orphan), "a server is away");
        holds.end(&awaited, &looked(&[], &[]), Duration::ZERO);
        assert!(!holds.keep("u", Purpose::Orphan) && !holds.is_any_awaited());
        assert!(holds.keep("u", Purpose::Foreground), "its deletion is another one now");
    }

    #[test]
    fn neither_a_server_that_is_away_nor_a_dependent_delays_an_owner_without_a_bound() {
        let holds = holding();
        for (uid, purpose) in [("o", Purpose::Orphan), ("f", Purpose::Foreground), ("b", Purpose::Foreground)]
        {
            assert!(holds.keep(uid, purpose));
        }
        let (awaited, found) = (holds.awaited(), looked(&["v1.a"], &["b"]));
        let kept = || {
            let all = [("o", Purpose::Orphan), ("f", Purpose::Foreground), ("b", Purpose::Foreground)];
            all.map(|(uid, purpose)| holds.keep(uid, purpose))
        };
        holds.end(&awaited, &found, DELAY_MAX - Duration::from_secs(1));
        assert_eq!(kept(), [true, true, true]);
        holds.end(&awaited, &found, DELAY_MAX);
        assert_eq!(kept(), [false, false, false]);
    }

    #[test]
    fn nothing_is_kept_where_no_server_keeps_dependents_and_free_owners_are_forgotten() {
        let holds = Holds::default();
        assert!(!holds.keep("u", Purpose::Orphan));
        holds.refresh(true, Duration::ZERO);
        assert!(holds.keep("u", Purpose::Orphan));
        holds.end(&holds.awaited(), &looked(&[], &[]), Duration::ZERO);
        holds.refresh(true, FREE_MAX);
        assert!(holds.keep("u", Purpose::Orphan), "it is asked for anew");
        holds.refresh(false, FREE_MAX);
        assert!(!holds.keep("u", Purpose::Orphan) && holds.awaited().is_empty());
    }
}
