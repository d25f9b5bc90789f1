//! The duties of the controllers: objects that must be removed, and objects that must stay.
//!
//! Owns the clients' requests that cause such duties: deleted namespaces, deleted owners of dependents. At the end of a
//! run every object that must go is gone, and no other object is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orch_raft::State;

use super::ledger::{Ledger, Noted};
use super::things;

/// Storage name of namespaces.
const NAMESPACES: &str = "namespaces";

/// Storage name of events, which expire.
const EVENTS: &str = "events";

/// An object: its resource and its path.
type Place = (Arc<str>, Arc<str>);

/// The duties of a run.
#[derive(Debug, Default)]
pub struct Duties {
    may_go: BTreeSet<Place>,
    /// Namespaces whose deletion was requested, whatever the answer.
    may_end: BTreeSet<Arc<str>>,
    must_go: BTreeMap<Place, &'static str>,
    must_stay: BTreeSet<Place>,
}

fn place(resource: &str, path: &str) -> Place {
    (Arc::from(resource), Arc::from(path))
}

impl Duties {
    /// Called before a request that may cause the removal of this object.
    pub fn may_go(&mut self, resource: &str, path: &str) {
        self.may_go.insert(place(resource, path));
    }

    /// Called before the deletion of a namespace is requested.
    pub fn may_end(&mut self, namespace: &str) {
        self.may_end.insert(Arc::from(namespace));
        self.may_go(NAMESPACES, namespace);
    }

    /// An acknowledged request makes the removal of this object a duty.
    pub fn must_go(&mut self, resource: &str, path: &str, why: &'static str) {
        self.must_go.insert(place(resource, path), why);
    }

    /// The object was created, and must stay unless its namespace ends.
    pub fn must_stay(&mut self, resource: &str, path: &str) {
        self.must_stay.insert(place(resource, path));
    }

    /// Drops all duties. What may go, may still go.
    pub fn forget(&mut self) {
        self.must_go.clear();
        self.must_stay.clear();
    }

    /// Describes a duty that `state` does not fulfil; `None` if all are fulfilled.
    pub fn unmet(&self, state: &State) -> Option<String> {
        let is_there = |(resource, path): &Place| state.collection(resource).get(path).is_some();
        if let Some((place, why)) = self.must_go.iter().find(|(place, _)| is_there(place)) {
            return Some(format!("{place:?} is still there: {why}"));
        }
        let ended = |path: &str| path.split_once('/').is_some_and(|(space, _)| self.may_end.contains(space));
        let stays = |place: &&Place| !ended(&place.1) && !self.may_go.contains(*place);
        if let Some(place) = self.must_stay.iter().filter(stays).find(|place| !is_there(place)) {
            return Some(format!("{place:?} is gone and nobody asked for that"));
        }
        let gone = |namespace: &&Arc<str>| self.must_go.contains_key(&place(NAMESPACES, namespace));
        self.may_end.iter().filter(gone).find_map(|namespace| {
            let prefix = format!("{namespace}/");
            let left = state.collections().find_map(|(resource, collection)| {
                let (path, _) = collection.range_from(&prefix).next()?;
                path.starts_with(&prefix).then(|| format!("{resource} {path}"))
            });
            left.map(|left| format!("namespace {namespace} is gone and {left} is there"))
        })
    }

    /// Describes the first removal that no request explains, if any.
    pub fn unasked(&self, ledger: &Ledger) -> Option<String> {
        ledger
            .removals()
            .into_iter()
            .find(|(resource, _, noted)| !self.is_owed(resource, noted))
            .map(|(resource, revision, noted)| format!("{resource} {} was removed at {revision}", noted.path))
    }

    fn is_owed(&self, resource: &Arc<str>, noted: &Noted) -> bool {
        let namespace = noted.path.split_once('/').map(|(namespace, _)| namespace);
        // Removals by writers straight on the store are checked by their history; the store's own resource is its own
        // affair.
        let own = namespace == Some(things::NAMESPACE) || **resource == *orch_raft::member::CLUSTER_RESOURCE;
        let ended = namespace.is_some_and(|namespace| self.may_end.contains(namespace));
        own || ended || **resource == *EVENTS || self.may_go.contains(&(resource.clone(), noted.path.clone()))
    }
}

#[cfg(test)]
mod tests {
    use orch_raft::{Key, Revision};

    use super::super::history::{Guard, Tag};
    use super::super::things::{Extras, transaction};
    use super::*;

    /// A config map in namespace `things`, and one more under `n/k`.
    fn state() -> State {
        let mut state = State::default();
        state.apply(Revision(2), &transaction("a", Guard::Always, Some(Tag(1)), Extras::default(), 0));
        let object = state.object(&things::thing("a")).unwrap().clone();
        state.restore(&Key::new(&"secrets".into(), "n", "k").unwrap(), object);
        state
    }

    #[test]
    fn a_duty_is_unmet_where_its_object_must_go_and_is_there_and_the_reverse() {
        let state = state();
        let mut duties = Duties::default();
        assert_eq!(duties.unmet(&state), None);
        duties.must_stay("secrets", "n/k");
        assert_eq!(duties.unmet(&state), None);
        duties.must_stay("secrets", "n/other");
        assert!(duties.unmet(&state).is_some_and(|unmet| unmet.contains("n/other")));
        duties.may_end("n");
        assert_eq!(duties.unmet(&state), None, "its namespace may be gone");
        duties.must_go(NAMESPACES, "n", "deleted");
        assert!(
            duties.unmet(&state).is_some_and(|unmet| unmet.contains("n/k")),
            "content outlives its namespace"
        );
        let mut owed = Duties::default();
        owed.must_go("secrets", "n/k", "its owner was deleted");
        assert!(owed.unmet(&state).is_some());
    }
}
