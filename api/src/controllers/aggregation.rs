//! Aggregation of cluster roles: a role with an `aggregationRule` has the rules of the roles that its selectors match.
//!
//! Owns the union of the rules, in the reference's order: by selector, then by name of the role, each rule once.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use orch_raft::object::SharedObject;
use orch_raft::{Change, State, Store};
use orch_rules::Action;
use orch_rules::selector::LabelSelector;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::client::{Client, Place, is_overtaken, let_others_run};
use super::turns::any_changed;
use crate::authz::rbac::CLUSTER_ROLES;
use crate::error::ApiError;
use crate::follow::{Derived, Follower};
use crate::selector::StoredLabels;

/// Wait after a change: those that come together are taken in together.
const WAIT: Duration = Duration::from_millis(100);

/// Passes over all roles until those that aggregate one another are complete: the default roles take three, one more finds
/// nothing to write. Roles of clients whose chains are longer are completed by the loop.
const PASSES_MAX: usize = 8;

/// Roles matched against selectors before other tasks run: some hundred microseconds.
const MATCHED_PER_TURN: usize = 1024;

/// A cluster role, as far as aggregation reads it.
#[derive(Clone, Debug)]
struct Role {
    /// The stored object, for its labels and its rules.
    object: SharedObject,
    /// The selectors of its `aggregationRule`, each once and in their order; `None`: it has no such rule.
    selectors: Option<Vec<LabelSelector>>,
}

impl Role {
    fn of(object: &SharedObject) -> Option<Role> {
        let role: Value = serde_json::from_slice(&object.json).ok()?;
        let rule = role.at("aggregationRule");
        Some(Role {
            object: object.clone(),
            selectors: rule.is_object().then(|| distinct_selectors(rule.items("clusterRoleSelectors"))),
        })
    }

    /// The rules, read anew: they are needed after a change of some role only.
    fn rules(&self) -> Vec<Value> {
        let role: Value = serde_json::from_slice(&self.object.json).unwrap_or_default();
        role.items("rules").to_vec()
    }
}

/// The selectors, each once: the roles that one selects are not added by its repetition.
fn distinct_selectors(selectors: &[Value]) -> Vec<LabelSelector> {
    let mut seen = hashbrown::HashSet::new();
    let selectors = selectors.iter().filter_map(LabelSelector::of_field);
    selectors.filter(|selector| seen.insert(selector.clone())).collect()
}

/// The cluster roles.
#[derive(Clone, Debug, Default)]
struct Roles(BTreeMap<Arc<str>, Role>);

impl Roles {
    fn set(&mut self, path: &Arc<str>, object: Option<&SharedObject>) {
        match object.and_then(Role::of) {
            Some(role) => self.0.insert(path.clone(), role),
            None => self.0.remove(path),
        };
    }

    /// The names of the aggregated roles.
    fn aggregated(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().filter(|(_, role)| role.selectors.is_some()).map(|(name, _)| name)
    }

    /// The merge patch of the aggregated role `name`, if its rules are not those that they should be. Other tasks run
    /// between two selectors.
    async fn patch<S: Store>(&self, store: &S, name: &str) -> Option<Value> {
        let role = self.0.get(name)?;
        let rules = self.union(store, name, role.selectors.as_deref()?).await;
        let is_same = role.rules() == rules;
        (!is_same)
            .then(|| json!({"metadata": {"resourceVersion": role.object.revision.0.to_string()}, "rules": Value::Array(rules)}))
    }

    async fn union<S: Store>(&self, store: &S, name: &str, selectors: &[LabelSelector]) -> Vec<Value> {
        let mut union: Vec<Value> = Vec::new();
        let mut seen = hashbrown::HashSet::new();
        let mut left: Vec<(&Arc<str>, &Role)> =
            self.0.iter().filter(|(other, _)| ***other != *name).collect();
        let mut matched = 0;
        for selector in selectors {
            // A role that an earlier selector took has no rule that is not in the union.
            let mut others = Vec::with_capacity(left.len());
            for (other, role) in left {
                matched += 1;
                if matched % MATCHED_PER_TURN == 0 {
                    let_others_run(store).await;
                }
                if !selector.matches(&StoredLabels::of(&role.object)) {
                    others.push((other, role));
                    continue;
                }
                union.extend(role.rules().into_iter().filter(|rule| seen.insert(rule.to_string())));
            }
            left = others;
        }
        union
    }
}

impl Derived for Roles {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        static SOURCE: LazyLock<Arc<str>> = LazyLock::new(|| CLUSTER_ROLES.into());
        std::iter::once(&*SOURCE)
    }

    fn change(&mut self, _source: &Arc<str>, change: &Change) {
        self.set(&change.path, change.new.as_ref());
    }

    fn rebuild(&mut self, state: &State) {
        self.0.clear();
        for (path, object) in state.collection(CLUSTER_ROLES).range_from("") {
            self.set(path, Some(object));
        }
    }
}

/// Keeps the rules of aggregated roles up to date. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let store = client.store();
    let mut changed = [store.subscribe(&Arc::from(CLUSTER_ROLES))];
    let mut follower = Follower::new(Roles::default(), &client.newest().await?);
    loop {
        if !write_rules(client, follower.value()).await? {
            any_changed(&mut changed).await;
        }
        store.sleep(WAIT).await;
        follower.advance(&client.newest().await?);
    }
}

/// Writes the rules of all aggregated roles, also of those that aggregate one another, before it returns. For the
/// default roles of a new cluster, which is not ready without them.
///
/// # Errors
/// A failure other than a concurrent change of the object.
pub(super) async fn settle<S: Store>(client: &Client<S>) -> Result<(), ApiError> {
    for _ in 0..PASSES_MAX {
        let mut roles = Roles::default();
        roles.rebuild(&client.newest().await?.state);
        if !write_rules(client, &roles).await? {
            break;
        }
    }
    Ok(())
}

/// Writes the rules of the aggregated roles that have others. `false`: there are none.
async fn write_rules<S: Store>(client: &Client<S>, roles: &Roles) -> Result<bool, ApiError> {
    let (store, mut writes) = (client.store(), false);
    for name in roles.aggregated() {
        let_others_run(store).await;
        let Some(patch) = roles.patch(store, name).await else { continue };
        writes = true;
        let Some(resource) = client.stored_resource(CLUSTER_ROLES) else { break };
        let place = Place { resource: &resource, path: name };
        match client.patch(place, Action::Object, &patch).await {
            // Its change is taken in with the next turn.
            Err(error) if !is_overtaken(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(writes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::testing::Fixture;

    #[tokio::test(start_paused = true)]
    async fn a_role_has_the_rules_of_those_it_selects() {
        let fixture = Fixture::new();
        let rule = |verb: &str| json!({"verbs": [verb], "apiGroups": [""], "resources": ["pods"]});
        let role = |name: &str, to: &str, rules: Value| json!({"metadata": {"name": name, "labels": {"to": to}}, "rules": rules});
        let selectors = json!([{"matchLabels": {"to": "all"}}]);
        let all = json!({
            "metadata": {"name": "all", "labels": {"to": "all"}}, "rules": [rule("own")],
            "aggregationRule": {"clusterRoleSelectors": selectors},
        });
        fixture.create(CLUSTER_ROLES, "", all).await;
        fixture.create(CLUSTER_ROLES, "", role("b", "all", json!([rule("list"), rule("get")]))).await;
        fixture.create(CLUSTER_ROLES, "", role("a", "all", json!([rule("get")]))).await;
        fixture.create(CLUSTER_ROLES, "", role("c", "none", json!([rule("delete")]))).await;
        fixture.while_running(run(&fixture.client()), 1).await;
        let rules = || fixture.read(CLUSTER_ROLES, "all")["rules"].clone();
        assert_eq!(rules(), json!([rule("get"), rule("list")]));
        let steps = async {
            fixture.delete(CLUSTER_ROLES, "b", json!({})).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        fixture.beside(run(&fixture.client()), steps).await;
        assert_eq!(rules(), json!([rule("get")]));
        let before = fixture.state().applied();
        fixture.while_running(run(&fixture.client()), 1).await;
        assert_eq!(fixture.state().applied(), before, "nothing is written without need");
    }

    #[tokio::test(start_paused = true)]
    async fn many_selectors_of_a_role_are_matched_with_pauses_and_equal_ones_once() {
        let equal = vec![json!({"matchLabels": {"to": "all"}}); 1000];
        assert_eq!(distinct_selectors(&equal).len(), 1);
        let fixture = Fixture::new();
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        let selectors: Vec<Value> = (0..3 * MATCHED_PER_TURN)
            .map(|at| json!({"matchExpressions": [{"key": format!("k{at}"), "operator": "Exists"}]}))
            .collect();
        let last = format!("k{}", selectors.len() - 1);
        let all =
            json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": selectors}});
        fixture.create(CLUSTER_ROLES, "", all).await;
        let one = json!({"metadata": {"name": "one", "labels": {last: ""}}, "rules": [rule]});
        fixture.create(CLUSTER_ROLES, "", one).await;
        let follower = Follower::new(Roles::default(), &fixture.applied());
        let mut patching = Box::pin(follower.value().patch(fixture.store(), "all"));
        assert!(futures::poll!(&mut patching).is_pending(), "other tasks run");
        let patch = patching.await.unwrap();
        assert_eq!(patch["rules"], json!([rule]));
    }
}
