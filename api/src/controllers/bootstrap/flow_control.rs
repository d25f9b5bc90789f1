//! Flow schemas and priority levels that every cluster has: those of the reference, in `flow_control.json`.
//!
//! Owns their reconciliation, and the condition `Dangling` of every schema. Absent objects are created. The specs of the
//! mandatory objects (`exempt`, `catch-all`) are always restored. The others are suggestions: their specs follow the
//! list while the annotation `apf.DOMAIN/autoupdate-spec` is `true`, or is absent and nobody has changed the spec
//! (generation 1); then the annotation is written, so that a person sees which of the two holds.

use std::convert::Infallible;
use std::sync::Arc;

use orch_proto::Brand;
use orch_raft::{State, Store};
use orch_rules::Action;
use orch_rules::kinds::flow_control::{mandatory_flow_schema, mandatory_priority_level};
use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_schema::json;
use orch_schema::value::Value;

use crate::controllers::client::{Client, Place, is_overtaken};
use crate::controllers::meaning::means_same;
use crate::controllers::turns::{Pace, any_changed};
use crate::error::ApiError;

/// The objects, with placeholders for the words of the brand.
const TEMPLATE: &str = include_str!("flow_control.json");

const FLOW_SCHEMAS: &str = "flowschemas.flowcontrol.apiserver";
const PRIORITY_LEVELS: &str = "prioritylevelconfigurations.flowcontrol.apiserver";

/// The condition of a schema whose level does not exist.
const DANGLING: &str = "Dangling";

/// An object that must exist.
struct Wanted {
    storage: &'static str,
    name: String,
    spec: Value,
    is_mandatory: bool,
}

/// Reconciles now and after each change of a schema or a level. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let store = client.store();
    let mut changed = [FLOW_SCHEMAS, PRIORITY_LEVELS].map(|storage| store.subscribe(&Arc::from(storage)));
    let wanted = wanted(client.registry().brand)?;
    let mut pace = Pace::new();
    loop {
        let state = client.most_recent().await?;
        for wanted in &wanted {
            settled(reconcile(client, &state, wanted).await)?;
        }
        report_dangling(client).await?;
        any_changed(&mut changed).await;
        pace.turn(store).await;
    }
}

/// A change by somebody else comes first: it wakes the loop, which looks again.
fn settled(result: Result<(), ApiError>) -> Result<(), ApiError> {
    result.or_else(|error| if is_overtaken(&error) { Ok(()) } else { Err(error) })
}

async fn reconcile<S: Store>(client: &Client<S>, state: &State, wanted: &Wanted) -> Result<(), ApiError> {
    let Some(resource) = client.stored_resource(wanted.storage) else { return Ok(()) };
    let annotation = annotation(client.registry().brand);
    let collection = state.collection(wanted.storage);
    let Some(stored) = collection.get(&wanted.name) else {
        let metadata = json!({"name": wanted.name.as_str(), "annotations": {annotation.as_str(): "true"}});
        let object = json!({"metadata": metadata, "spec": wanted.spec.clone()});
        return client.create(&resource, "", &object).await;
    };
    let stored = parse(&stored.json)?;
    match update(stored, wanted, &annotation) {
        Some(object) => client.update(Place { resource: &resource, path: &wanted.name }, &object).await,
        None => Ok(()),
    }
}

fn annotation(brand: &Brand) -> String {
    format!("apf.{}/autoupdate-spec", brand.label_domain)
}

fn parse(json: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(json).map_err(|error| {
        ApiError::Internal(format!("a stored object of flow control cannot be read: {error}"))
    })
}

/// `stored` with the spec and the annotation that it should have; `None` where it has them.
fn update(mut stored: Value, wanted: &Wanted, annotation: &str) -> Option<Value> {
    let metadata = stored.at("metadata");
    let written = boolean(metadata.at("annotations").text(annotation));
    let is_untouched = metadata.int("generation") == Some(1);
    let follows = wanted.is_mandatory || written.unwrap_or(is_untouched);
    let has_spec = !follows || means_same(stored.at("spec"), &wanted.spec);
    if has_spec && written == Some(follows) {
        return None;
    }
    if !has_spec {
        set(&mut stored, "spec", wanted.spec.clone());
    }
    let annotations = child_mut(child_mut(&mut stored, "metadata"), "annotations");
    set(annotations, annotation, if follows { "true" } else { "false" });
    Some(stored)
}

/// A boolean as the reference reads annotations.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Writes the condition `Dangling` of every schema that lacks it or has it otherwise.
async fn report_dangling<S: Store>(client: &Client<S>) -> Result<(), ApiError> {
    let Some(resource) = client.stored_resource(FLOW_SCHEMAS) else { return Ok(()) };
    let state = client.most_recent().await?;
    let levels = state.collection(PRIORITY_LEVELS);
    let now = client.now_text();
    for (path, stored) in state.collection(FLOW_SCHEMAS).range_from("") {
        let schema = parse(&stored.json)?;
        let level = schema.at("spec").at("priorityLevelConfiguration").text("name");
        let is_dangling = levels.get(level).is_none();
        if let Some(patch) = condition_patch(&schema, level, is_dangling, &now) {
            settled(client.patch(Place { resource: &resource, path }, Action::Status, &patch).await)?;
        }
    }
    Ok(())
}

/// The merge patch that gives `schema` its condition; `None` where it has it.
fn condition_patch(schema: &Value, level: &str, is_dangling: bool, now: &str) -> Option<Value> {
    let (status, reason, end) = match is_dangling {
        true => ("True", "NotFound", "but there is no such object"),
        false => ("False", "Found", "and it exists"),
    };
    let message =
        format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {end}");
    let conditions = schema.at("status").items("conditions");
    // few: the conditions of one object.
    let old = conditions.iter().find(|condition| condition.text("type") == DANGLING);
    let is_the_same = |old: &Value| {
        old.text("status") == status && old.text("reason") == reason && old.text("message") == message
    };
    if old.is_some_and(is_the_same) {
        return None;
    }
    let since =
        old.filter(|old| old.text("status") == status).map_or(now, |old| old.text("lastTransitionTime"));
    let condition = json!({
        "type": DANGLING, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    let others = conditions.iter().filter(|condition| condition.text("type") != DANGLING).cloned();
    let conditions = Value::Array(others.chain([condition]).collect());
    let metadata = schema.at("metadata");
    let condition_of = json!({
        "uid": metadata.text("uid"), "resourceVersion": metadata.text("resourceVersion"),
    });
    Some(json!({"metadata": condition_of, "status": {"conditions": conditions}}))
}

/// The objects of a cluster of `brand`.
fn wanted(brand: &Brand) -> Result<Vec<Wanted>, ApiError> {
    let text = TEMPLATE
        .replace("{groups}", brand.group_domain)
        .replace("{system}", brand.system_namespace)
        .replace("{component}", brand.component_prefix);
    let objects: Vec<Value> = serde_json::from_str(&text).map_err(|error| {
        ApiError::Internal(format!("the objects of flow control cannot be read: {error}"))
    })?;
    let parse = |object: &Value| {
        let name = object.text("name");
        let (storage, mandatory) = match object.text("resource") {
            "flowschemas" => (FLOW_SCHEMAS, mandatory_flow_schema(name)),
            _ => (PRIORITY_LEVELS, mandatory_priority_level(name)),
        };
        let spec = object.at("spec").clone();
        Wanted { storage, name: name.to_owned(), spec, is_mandatory: mandatory.is_some() }
    };
    Ok(objects.iter().map(parse).collect())
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::{KUBERNETES, ORCH};

    use super::*;
    use crate::controllers::testing::Fixture;

    #[test]
    fn the_list_has_the_fixed_specs_in_every_brand() {
        for brand in [&ORCH, &KUBERNETES] {
            let all = wanted(brand).unwrap();
            assert_eq!(all.len(), 19);
            for wanted in all.iter().filter(|wanted| wanted.is_mandatory) {
                let fixed = match wanted.storage {
                    FLOW_SCHEMAS => mandatory_flow_schema(&wanted.name),
                    _ => mandatory_priority_level(&wanted.name),
                };
                assert!(means_same(&fixed.unwrap(), &wanted.spec), "{}", wanted.name);
            }
            assert_eq!(all.iter().filter(|wanted| wanted.is_mandatory).count(), 4);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_has_its_schemas_and_levels_and_nothing_is_written_twice() {
        let fixture = Fixture::new();
        fixture.while_running(run(&fixture.client()), 3).await;
        assert_eq!(fixture.state().collection(FLOW_SCHEMAS).len(), 11);
        assert_eq!(fixture.state().collection(PRIORITY_LEVELS).len(), 8);
        let schema = fixture.read(FLOW_SCHEMAS, "probes");
        assert_eq!(schema["metadata"]["annotations"], json!({"apf.orch.io/autoupdate-spec": "true"}));
        let condition = &schema["status"]["conditions"][0];
        assert_eq!((&condition["type"], &condition["status"]), (&json!("Dangling"), &json!("False")));
        let before = fixture.state().applied();
        fixture.while_running(run(&fixture.client()), 5).await;
        assert_eq!(fixture.state().applied(), before);
    }

    #[tokio::test(start_paused = true)]
    async fn suggestions_follow_the_list_unless_somebody_decides_otherwise() {
        let fixture = Fixture::new();
        fixture.while_running(run(&fixture.client()), 3).await;
        let shares = |name: &str| {
            fixture.read(PRIORITY_LEVELS, name)["spec"]["limited"]["nominalConcurrencyShares"].clone()
        };
        let seven = json!({"spec": {"limited": {"nominalConcurrencyShares": 7}}});
        fixture.merge(PRIORITY_LEVELS, "system", seven.clone()).await;
        fixture.while_running(run(&fixture.client()), 3).await;
        assert_eq!(shares("system"), 30, "restored: the annotation is true");
        let mut own = seven;
        own["metadata"] = json!({"annotations": {"apf.orch.io/autoupdate-spec": "false"}});
        fixture.merge(PRIORITY_LEVELS, "system", own).await;
        fixture.while_running(run(&fixture.client()), 3).await;
        assert_eq!(shares("system"), 7, "left alone");
        fixture.remove_by_force(PRIORITY_LEVELS, "workload-low").await;
        fixture.while_running(run(&fixture.client()), 3).await;
        assert_eq!(shares("workload-low"), 100, "created again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_schema_without_its_level_says_so() {
        let fixture = Fixture::new();
        let spec = json!({"priorityLevelConfiguration": {"name": "nonesuch"}});
        fixture.create(FLOW_SCHEMAS, "", json!({"metadata": {"name": "a"}, "spec": spec})).await;
        fixture.while_running(run(&fixture.client()), 3).await;
        let condition = fixture.read(FLOW_SCHEMAS, "a")["status"]["conditions"][0].clone();
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("NotFound")));
        let message = "This FlowSchema references the PriorityLevelConfiguration object named \"nonesuch\" but there is no \
                       such object";
        assert_eq!(condition["message"], message);
    }
}
