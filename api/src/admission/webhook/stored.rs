//! The configurations of webhooks of one role, as writes look them up.
//!
//! Owns the look-up, which is made for each write: one of a resource that no rule names costs no more than that, and where no
//! configuration is stored the configurations are not looked at, but for once, so that the last webhooks end with theirs.

use std::sync::atomic::{AtomicBool, Ordering};

use super::answer::Role;
use super::prepared::{Configurations, Found};
use super::{MUTATING, VALIDATING};
use crate::admission::matching::Asked;
use crate::admission::{Attributes, View};
use crate::follow::Maintained;

/// The configurations, which follow what is applied.
pub(super) struct Stored {
    configurations: Maintained<Configurations>,
    source: &'static str,
    /// The value may hold webhooks, whose outages are told, although no configuration is stored any more.
    has_some: AtomicBool,
}

/// The outcome of a look-up.
pub(super) enum Looked {
    /// The webhooks that have a rule for the write.
    Found(Vec<Found>),
    /// The configurations have to be brought up first.
    Behind,
}

impl Stored {
    pub(super) fn of(role: Role) -> Stored {
        let source = match role {
            Role::Mutating => MUTATING,
            Role::Validating => VALIDATING,
        };
        let configurations = Maintained::new(move || Configurations::of(role));
        Stored { configurations, source, has_some: AtomicBool::new(false) }
    }

    /// Looks the write up; `None` if it meets no webhook.
    pub(super) fn look_up(&self, attributes: &Attributes<'_>, view: &View) -> Option<Looked> {
        let applied = view.applied();
        let has_some = self.has_some.load(Ordering::Relaxed);
        if applied.state.collection(self.source).is_empty() {
            if has_some && self.configurations.try_read(applied, |_| ()).is_some() {
                self.has_some.store(false, Ordering::Relaxed);
            }
            return None;
        }
        if !has_some {
            self.has_some.store(true, Ordering::Relaxed);
        }
        let plural = &*attributes.resource.plural;
        match self.configurations.try_read(applied, |known| known.of_resource(plural)) {
            Some(found) => {
                Some(named(found, attributes)).filter(|found| !found.is_empty()).map(Looked::Found)
            }
            None => Some(Looked::Behind),
        }
    }

    /// The webhooks of a look-up.
    pub(super) async fn found(&self, looked: Looked, attributes: &Attributes<'_>, view: &View) -> Vec<Found> {
        match looked {
            Looked::Found(found) => found,
            Looked::Behind => {
                let plural = &*attributes.resource.plural;
                let found = self.configurations.read(view.applied(), |known| known.of_resource(plural));
                named(found.await, attributes)
            }
        }
    }
}

/// Those that have a rule for the write.
fn named(mut found: Vec<Found>, attributes: &Attributes<'_>) -> Vec<Found> {
    if !found.is_empty() {
        let asked = Asked::of(attributes);
        // few: the webhooks that administrators have for one resource.
        found.retain(|found| found.webhook.matching.has_rule(&asked));
    }
    found
}
