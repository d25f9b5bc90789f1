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
use orch_rules::validate::selector::selects;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::client::{Client, Place, any_changed, is_overtaken};
use crate::authz::rbac::CLUSTER_ROLES;
use crate::error::ApiError;
use crate::follow::{Derived, Follower};

/// Wait after a change: those that come together are taken in together.
const WAIT: Duration = Duration::from_millis(100);

/// The cluster roles, parsed.
#[derive(Clone, Debug, Default)]
struct Roles(BTreeMap<Arc<str>, Value>);

impl Roles {
    fn set(&mut self, path: &Arc<str>, object: Option<&SharedObject>) {
        let parsed = object.and_then(|object| serde_json::from_slice(&object.json).ok());
        match parsed {
            Some(role) => self.0.insert(path.clone(), role),
            None => self.0.remove(path),
        };
    }

    /// The merge patches of the aggregated roles whose rules are not those that they should be.
    fn due(&self) -> Vec<(Arc<str>, Value)> {
        let aggregated = self.0.iter().filter(|(_, role)| role.at("aggregationRule").is_object());
        let patch = |(name, role): (&Arc<str>, &Value)| {
            let rules = self.union(name, role);
            let is_same = role.items("rules") == rules;
            let version = role.at("metadata").text("resourceVersion");
            (!is_same).then(|| {
                (
                    name.clone(),
                    json!({"metadata": {"resourceVersion": version}, "rules": Value::Array(rules)}),
                )
            })
        };
        aggregated.filter_map(patch).collect()
    }

    fn union(&self, name: &str, role: &Value) -> Vec<Value> {
        let mut union: Vec<Value> = Vec::new();
        let mut seen = hashbrown::HashSet::new();
        for selector in role.at("aggregationRule").items("clusterRoleSelectors") {
            let others = self.0.iter().filter(|(other, _)| ***other != *name);
            for (_, other) in others.filter(|(_, other)| selects(selector, other.at("metadata").at("labels")))
            {
                let new = other.items("rules").iter().filter(|rule| seen.insert(rule.to_string()));
                union.extend(new.cloned());
            }
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
        let due = follower.value().due();
        for (name, patch) in &due {
            let Some(resource) = client.stored_resource(CLUSTER_ROLES) else { break };
            let place = Place { resource: &resource, path: name };
            match client.patch(place, Action::Object, patch).await {
                // Its change is taken in with the next turn.
                Err(error) if !is_overtaken(&error) => return Err(error),
                _ => {}
            }
        }
        if due.is_empty() {
            any_changed(&mut changed).await;
        }
        store.sleep(WAIT).await;
        follower.advance(&client.newest().await?);
    }
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
}
