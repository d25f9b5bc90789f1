//! Reconciliation of the default roles and bindings with those that are stored.
//!
//! Owns what is done at the start of each leadership: absent ones are created; what present ones lack is added,
//! and nothing is taken away. A role or binding with the annotation `rbac.authorization.DOMAIN/autoupdate: "false"` is
//! left alone. `cluster-admin` is written last, after the rules of the aggregated roles: where it exists, the cluster has
//! had its roles with their rights, and reports itself ready.

use orch_raft::{ObjectPath, State, Store};
use orch_rules::Action;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::{Map, Value};

use crate::authz::rbac::default_roles::{DefaultRole, autoupdate, default_roles};
use crate::authz::rbac::{CLUSTER_ROLES, PolicyRule, Rules, covers};
use crate::controllers::aggregation;
use crate::controllers::client::{Client, Place, Propagation, for_each, is_overtaken};
use crate::error::ApiError;

/// Objects written at the same time: they share commits, and leave room for clients.
const AT_ONCE: usize = 16;

/// The role that is written last.
const LAST: &str = "cluster-admin";

/// Whether the cluster has had its default roles.
pub(crate) fn are_there(state: &State) -> bool {
    state.collection(CLUSTER_ROLES).get(LAST).is_some()
}

/// Creates what is absent and completes what is there.
///
/// # Errors
/// The first failure; the rest was tried.
pub(super) async fn reconcile<S: Store>(
    client: &Client<S>,
    aggregator: Option<&Client<S>>,
) -> Result<(), ApiError> {
    let state = client.most_recent().await?;
    let (last, others): (Vec<DefaultRole>, Vec<DefaultRole>) =
        default_roles(client.registry().brand)?.into_iter().partition(|wanted| wanted.path == LAST);
    reconcile_all(client, &state, others).await?;
    if let Some(aggregator) = aggregator {
        aggregation::settle(aggregator).await?;
    }
    reconcile_all(client, &state, last).await
}

async fn reconcile_all<S: Store>(
    client: &Client<S>,
    state: &State,
    all: Vec<DefaultRole>,
) -> Result<(), ApiError> {
    let written = for_each(all, AT_ONCE, |wanted| reconcile_one(client, state, wanted)).await;
    written.into_iter().collect()
}

async fn reconcile_one<S: Store>(
    client: &Client<S>,
    state: &State,
    wanted: DefaultRole,
) -> Result<(), ApiError> {
    let Some(resource) = client.stored_resource(&wanted.storage) else { return Ok(()) };
    let namespace = ObjectPath::of(&wanted.path).namespace();
    let place = Place { resource: &resource, path: &wanted.path };
    let collection = state.collection(&wanted.storage);
    let stored = match collection.get(&wanted.path) {
        None => return settled(client.create(&resource, namespace, &wanted.object).await),
        Some(stored) => serde_json::from_slice::<Value>(&stored.json)
            .map_err(|error| ApiError::Internal(format!("a stored role cannot be read: {error}")))?,
    };
    let brand = client.registry().brand;
    if stored.at("metadata").at("annotations").text(&autoupdate(brand)) == "false" {
        return Ok(());
    }
    if stored.get("roleRef").is_some_and(|role| Some(role) != wanted.object.get("roleRef")) {
        // A binding's role cannot be changed.
        settled(
            client.delete(place, stored.at("metadata").text("uid"), None, Propagation::Background).await,
        )?;
        return settled(client.create(&resource, namespace, &wanted.object).await);
    }
    match completion(&stored, &wanted.object) {
        Some(patch) => settled(client.patch(place, Action::Object, &patch).await),
        None => Ok(()),
    }
}

/// A change by somebody else comes first: the next leadership looks again.
fn settled(result: Result<(), ApiError>) -> Result<(), ApiError> {
    result.or_else(|error| if is_overtaken(&error) { Ok(()) } else { Err(error) })
}

/// The merge patch that adds to `stored` what it lacks of `wanted`; `None` where it lacks nothing.
fn completion(stored: &Value, wanted: &Value) -> Option<Value> {
    let mut patch = Map::new();
    for member in ["rules", "subjects"] {
        let lacking: Vec<Value> =
            wanted.items(member).iter().filter(|item| lacks(stored, member, item)).cloned().collect();
        if !lacking.is_empty() {
            let all = stored.items(member).iter().cloned().chain(lacking).collect();
            patch.insert(member, Value::Array(all));
        }
    }
    let (own, selectors) = (stored.at("aggregationRule"), wanted.at("aggregationRule"));
    let lacking = selectors.items("clusterRoleSelectors").iter();
    let lacking: Vec<Value> =
        lacking.filter(|selector| !own.items("clusterRoleSelectors").contains(selector)).cloned().collect();
    if !lacking.is_empty() {
        let all = own.items("clusterRoleSelectors").iter().cloned().chain(lacking).collect();
        patch.insert("aggregationRule", json!({"clusterRoleSelectors": Value::Array(all)}));
    }
    let mut metadata = Map::new();
    for member in ["labels", "annotations"] {
        let mut lacking = wanted.at("metadata").at(member).clone();
        if let Some(texts) = lacking.as_object_mut() {
            let own = stored.at("metadata").at(member);
            // Labels that an operator changed stay: one that is "false" keeps a role out of an aggregation.
            // few: the labels of a default role.
            texts.retain(|name, _| own.get(name.as_str()).is_none());
            if !texts.is_empty() {
                metadata.insert(member, lacking);
            }
        }
    }
    if patch.is_empty() && metadata.is_empty() {
        return None;
    }
    // The change is of this version only: what others add meanwhile is not lost.
    metadata.insert("resourceVersion", Value::from(stored.at("metadata").text("resourceVersion")));
    patch.insert("metadata", Value::Object(metadata));
    Some(Value::Object(patch))
}

/// Whether `stored` lacks `item`: a rule that its rules do not cover, or a subject.
fn lacks(stored: &Value, member: &str, item: &Value) -> bool {
    if member == "subjects" {
        return !stored.items(member).contains(item);
    }
    let own: Vec<PolicyRule> = stored.items(member).iter().map(PolicyRule::of).collect();
    covers(&[&Rules::new(&own)], &[PolicyRule::of(item)]).is_err()
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::{KUBERNETES, ORCH};

    use super::*;
    use crate::authz::rbac::{CLUSTER_ROLE_BINDINGS, ROLES};
    use crate::controllers::bootstrap::run;
    use crate::controllers::testing::Fixture;

    #[test]
    fn every_brand_has_its_own_words() {
        for brand in [&ORCH, &KUBERNETES] {
            let all = default_roles(brand).unwrap();
            assert_eq!(all.len(), 135);
            for DefaultRole { path, object, .. } in &all {
                let text = object.to_string();
                let is_other = brand.name != "orch" && text.contains("orch");
                assert!(
                    !is_other && !text.contains("{groups}") && !text.contains("{system}"),
                    "{path}: {text}"
                );
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn roles_are_created_once_and_completed_but_never_cut_down() {
        let fixture = Fixture::new();
        fixture.while_running(run(&fixture.client(), None), 1).await;
        assert!(are_there(&fixture.state()));
        assert!(fixture.exists(ROLES, "orch-system/system:controller:token-cleaner"));
        let before = fixture.state().applied();
        fixture.while_running(run(&fixture.client(), None), 1).await;
        assert_eq!(fixture.state().applied(), before, "nothing is written without need");

        let rules = json!([{"verbs": ["own"], "apiGroups": [""], "resources": ["own"]}]);
        let basic = "system:basic-user";
        fixture.merge(CLUSTER_ROLES, basic, json!({"rules": rules.clone()})).await;
        let off = json!({"metadata": {"annotations": {"rbac.authorization.orch.io/autoupdate": "false"}}});
        fixture.merge(CLUSTER_ROLES, "system:discovery", off).await;
        fixture.merge(CLUSTER_ROLES, "system:discovery", json!({"rules": rules})).await;
        fixture.merge(CLUSTER_ROLE_BINDINGS, basic, json!({"subjects": null})).await;
        fixture.while_running(run(&fixture.client(), None), 1).await;
        let role = fixture.read(CLUSTER_ROLES, basic);
        assert_eq!(role["rules"][0]["verbs"], json!(["own"]), "what is there stays");
        assert!(role["rules"].as_array().unwrap().len() > 1, "and what lacks is added: {role}");
        let binding = fixture.read(CLUSTER_ROLE_BINDINGS, basic);
        assert_eq!(binding["subjects"][0]["name"], "system:authenticated");
        let untouched = fixture.read(CLUSTER_ROLES, "system:discovery");
        assert_eq!(untouched["rules"].as_array().unwrap().len(), 1, "it is not kept up to date");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_cluster_is_not_ready_before_its_aggregated_roles_have_their_rules() {
        let fixture = Fixture::new();
        let client = fixture.client();
        fixture.while_running(run(&client, Some(&client)), 1).await;
        let state = fixture.state();
        assert!(are_there(&state));
        let roles = state.collection(CLUSTER_ROLES);
        let ready_at = roles.get(LAST).unwrap().revision;
        let aggregated: Vec<String> = default_roles(&ORCH)
            .unwrap()
            .into_iter()
            .filter(|wanted| wanted.object.at("aggregationRule").is_object())
            .map(|wanted| wanted.path)
            .collect();
        assert_eq!(aggregated, ["admin", "edit", "view"]);
        let rules = |name: &str| fixture.read(CLUSTER_ROLES, name)["rules"].as_array().map_or(0, Vec::len);
        for name in &aggregated {
            assert!(rules(name) > 0 && roles.get(name).unwrap().revision < ready_at, "{name}");
        }
        assert!(rules("admin") > rules("edit") && rules("edit") > rules("view"), "each aggregates the next");
        let before = fixture.state().applied();
        fixture.while_running(aggregation::run(&client), 1).await;
        assert_eq!(fixture.state().applied(), before, "the loop finds nothing to write");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_without_aggregation_is_ready_without_it() {
        let fixture = Fixture::new();
        fixture.while_running(run(&fixture.client(), None), 1).await;
        assert!(are_there(&fixture.state()));
    }
}
