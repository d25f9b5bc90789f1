//! Selectors of the stored disruption budgets, for evictions.
//!
//! Owns which budgets select a pod. A selector is parsed once, when its budget changes: a namespace may have hundreds of
//! budgets with thousands of requirements each, and every eviction asks all of them. Selectors beyond their namespace's room
//! stay in the store, and are parsed by each eviction there, for a few evictions at a time.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, LazyLock};

use orch_raft::object::SharedObject;
use orch_raft::{Change, ObjectPath, State};
use orch_rules::selector::LabelSelector;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use tokio::sync::Semaphore;

use crate::follow::Derived;
use crate::selector::SelectorRoom;

/// Storage resource of budgets.
pub(super) const BUDGETS: &str = "poddisruptionbudgets.policy";

/// Looks at stored selectors under way. Each occupies a thread, for seconds at worst, though its client has gone; the threads
/// for blocking work are bounded, and others need them, too.
static LOOKS: Semaphore = Semaphore::const_new(2);

/// The selectors by path, `None` for one that is not held; budgets without one, which select nothing, are left out.
#[derive(Debug, Default)]
pub(super) struct BudgetSelectors {
    by_path: BTreeMap<Arc<str>, Option<LabelSelector>>,
    room: SelectorRoom,
}

/// Paths of the budgets that select a pod.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selecting {
    pub(super) certain: Vec<Arc<str>>,
    /// Those whose selectors are in the store only.
    pub(super) unknown: Vec<Arc<str>>,
}

impl BudgetSelectors {
    /// The budgets of `namespace` that select a pod with these labels, sorted by key.
    pub(super) fn selecting(&self, namespace: &str, labels: &[(String, String)]) -> Selecting {
        let prefix = format!("{namespace}/");
        let from = (Bound::Included(&*prefix), Bound::Unbounded);
        let budgets = self.by_path.range::<str, _>(from).take_while(|(path, _)| path.starts_with(&*prefix));
        let mut found = Selecting::default();
        for (path, selector) in budgets {
            match selector {
                None => found.unknown.push(path.clone()),
                Some(selector) if selector.matches(labels) => found.certain.push(path.clone()),
                Some(_) => {}
            }
        }
        found
    }

    fn set(&mut self, path: &Arc<str>, object: Option<&SharedObject>) {
        let namespace = ObjectPath::of(path).namespace();
        let old = self.by_path.remove(path).flatten();
        self.room.give_back(namespace, old.map_or(0, |old| old.held_bytes()));
        let Some(selector) = object.and_then(stored_selector) else { return };
        let is_held = self.room.take(namespace, selector.held_bytes());
        self.by_path.insert(path.clone(), is_held.then_some(selector));
    }
}

/// The selector of a stored budget; `None` for one that selects nothing.
fn stored_selector(budget: &SharedObject) -> Option<LabelSelector> {
    let budget: Value = serde_json::from_slice(&budget.json).ok()?;
    LabelSelector::of_field(budget.at("spec").at("selector"))
}

impl Selecting {
    /// The paths, those of `state` that are unknown after a look at their selectors, on a thread for blocking work.
    pub(super) async fn look(self, state: Arc<State>, labels: Vec<(String, String)>) -> Vec<Arc<str>> {
        let Selecting { mut certain, unknown } = self;
        if unknown.is_empty() {
            return certain;
        }
        let selects = move |path: &Arc<str>| {
            let collection = state.collection(BUDGETS);
            collection
                .get(path)
                .and_then(stored_selector)
                .is_some_and(|selector| selector.matches(&labels[..]))
        };
        // Never closed.
        let place = LOOKS.acquire().await;
        let looked = tokio::task::spawn_blocking(move || {
            let looked: Vec<_> = unknown.into_iter().filter(selects).collect();
            drop(place);
            looked
        });
        // An error means that the runtime ends.
        certain.extend(looked.await.unwrap_or_default());
        certain
    }
}

impl Derived for BudgetSelectors {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        static SOURCE: LazyLock<Arc<str>> = LazyLock::new(|| BUDGETS.into());
        std::iter::once(&*SOURCE)
    }

    fn change(&mut self, _source: &Arc<str>, change: &Change) {
        self.set(&change.path, change.new.as_ref());
    }

    fn rebuild(&mut self, state: &State) {
        self.by_path.clear();
        self.room.clear();
        for (path, object) in state.collection(BUDGETS).range_from("") {
            self.set(path, Some(object));
        }
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::controllers::testing::Fixture;

    #[tokio::test(start_paused = true)]
    async fn the_budgets_of_a_namespace_are_asked_by_selectors_that_are_parsed_once() {
        let fixture = Fixture::new();
        let requirements = vec![json!({"key": "a", "operator": "Exists"}); 5_000];
        for (namespace, name, selector) in [
            ("m", "other", json!({})),
            ("n", "all", json!({})),
            ("n", "long", json!({"matchExpressions": requirements})),
            ("n", "none", json!(null)),
            ("n", "unlike", json!({"matchLabels": {"a": "c"}})),
            ("nn", "other", json!({})),
        ] {
            if !fixture.exists("namespaces", namespace) {
                fixture.namespace(namespace).await;
            }
            let budget = json!({"metadata": {"name": name}, "spec": {"selector": selector}});
            fixture.create(BUDGETS, namespace, budget).await;
        }
        let mut selectors = BudgetSelectors::default();
        selectors.rebuild(&fixture.state());
        let labels = [("a".to_owned(), "b".to_owned())];
        let paths = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect::<Vec<_>>();
        let all = |names: &[&str]| Selecting { certain: paths(names), unknown: Vec::new() };
        assert_eq!(selectors.selecting("n", &labels), all(&["n/all", "n/long"]));
        assert_eq!(selectors.selecting("n", &[]), all(&["n/all"]));
        let one = LabelSelector::parse("a").unwrap();
        assert_eq!(selectors.by_path["n/long"], Some(one), "one condition for each label");
        // As soon as there is no room, the same budgets are found in the store.
        let mut few = BudgetSelectors { room: SelectorRoom::of(1), ..BudgetSelectors::default() };
        few.rebuild(&fixture.state());
        let found = few.selecting("n", &labels);
        assert_eq!(found.unknown, paths(&["n/long", "n/unlike"]), "an empty selector takes no room");
        let found = found.look(fixture.state(), labels.to_vec()).await;
        assert_eq!(found, paths(&["n/all", "n/long"]));
        fixture.delete(BUDGETS, "n/long", json!({})).await;
        few.rebuild(&fixture.state());
        assert_eq!(few.room.held(), 0);
    }
}
