//! Selectors of the stored disruption budgets, for evictions.
//!
//! Owns which budgets select a pod. Each selector is parsed once, when its budget changes: a namespace may have hundreds of
//! budgets with thousands of requirements each, and every eviction asks all of them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, LazyLock};

use orch_raft::object::SharedObject;
use orch_raft::{Change, State};
use orch_rules::selector::LabelSelector;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

use crate::follow::Derived;

/// Storage resource of budgets.
pub(super) const BUDGETS: &str = "poddisruptionbudgets.policy";

/// The selectors by path; budgets without one, which select nothing, are left out.
#[derive(Clone, Debug, Default)]
pub(super) struct BudgetSelectors(BTreeMap<Arc<str>, Arc<LabelSelector>>);

impl BudgetSelectors {
    /// Paths of the budgets of `namespace` that select a pod with these labels, sorted by key.
    pub(super) fn selecting(
        &self,
        namespace: &str,
        labels: &[(String, String)],
    ) -> impl Iterator<Item = &str> {
        let prefix = format!("{namespace}/");
        let from = (Bound::Included(&*prefix), Bound::Unbounded);
        let budgets = self.0.range::<str, _>(from).map(|(path, selector)| (&**path, selector));
        let budgets = budgets.take_while(move |(path, _)| path.starts_with(&*prefix));
        budgets.filter(|(_, selector)| selector.matches(labels)).map(|(path, _)| path)
    }

    fn set(&mut self, path: &Arc<str>, object: Option<&SharedObject>) {
        let parsed = object.and_then(|object| {
            let budget: Value = serde_json::from_slice(&object.json).ok()?;
            LabelSelector::of_field(budget.at("spec").at("selector"))
        });
        match parsed {
            Some(selector) => self.0.insert(path.clone(), Arc::new(selector)),
            None => self.0.remove(path),
        };
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
        self.0.clear();
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
        assert_eq!(selectors.selecting("n", &labels).collect::<Vec<_>>(), ["n/all", "n/long"]);
        assert_eq!(selectors.selecting("n", &[]).collect::<Vec<_>>(), ["n/all"]);
        assert_eq!(
            *selectors.0["n/long"],
            LabelSelector::parse("a").unwrap(),
            "one condition for each label"
        );
    }
}
