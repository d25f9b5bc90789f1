//! The objects that register groups and versions: one for each that this server serves itself.
//!
//! Owns those with the label that says that the server manages them: `onstart` for built-in groups, which are brought in order
//! once for each leader, so that one that an operator deletes stays away until then; `true` for groups of definitions, which
//! come and go with them. An object without the label, or one that names a service, is its author's. What the rules of the kind
//! say of a local one, that it is available, is written with it. Whether another server is there is `availability`'s,
//! and what it serves `described`'s.
//!
//!     what is served -> wanted -> compared with what is stored -> created, corrected, deleted

pub(super) mod asking;
pub(super) mod availability;
pub(super) mod described;
mod measured;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::select;
use orch_proto::Brand;
use orch_raft::{State, Store};
use orch_rules::Action;
use orch_rules::kinds::api_service::name_of;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::client::{Client, Place, Propagation, for_each, is_overtaken};
use super::turns::{Pace, any_changed};
use crate::aggregation::API_SERVICES;
use crate::error::ApiError;
use crate::pipeline::Pipeline;
use crate::registry::{Priority, Registry, Resource};

/// Objects written at the same time: they share commits, and leave room for clients.
const AT_ONCE: usize = 16;

/// The group that registers others, which has no object of its own.
const REGISTRATION: &str = "apiregistration";

/// The manager of an APIService, as its label says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Management {
    /// The server, when it begins to lead.
    OnStart,
    /// The server, always.
    Always,
}

impl Management {
    fn label(self) -> &'static str {
        match self {
            Management::OnStart => "onstart",
            Management::Always => "true",
        }
    }

    fn of(object: &Value, label: &str) -> Option<Management> {
        match object.at("metadata").at("labels").text(label) {
            "onstart" => Some(Management::OnStart),
            "true" => Some(Management::Always),
            _ => None,
        }
    }
}

/// An object that should be there.
#[derive(Debug)]
struct Wanted {
    management: Management,
    spec: Value,
}

/// A change of the stored objects.
#[derive(Debug, PartialEq)]
enum Step {
    Create { name: String, object: Value },
    Correct { name: String, patch: Value },
    Delete { name: String, uid: String },
}

/// Keeps the objects. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let store = client.store();
    let Some(resource) = client.stored_resource(API_SERVICES) else {
        return Err(ApiError::Internal("API services are not served".to_owned()));
    };
    let mut changed = [store.subscribe(&Arc::from(API_SERVICES))];
    let mut served = client.follow();
    let mut pace = Pace::new();
    let mut is_started = false;
    loop {
        let state = client.most_recent().await?;
        client.follow_definitions().await;
        served.advance();
        let steps = steps(served.seen(), &state, !is_started);
        let taken = for_each(steps, AT_ONCE, |step| take(client, &resource, step)).await;
        taken.into_iter().collect::<Result<(), ApiError>>()?;
        is_started = true;
        let another = poll_fn(|context| served.poll_changed(context));
        select(Box::pin(any_changed(&mut changed)), Box::pin(another)).await;
        pace.turn(store).await;
    }
}

/// A check of whether the built-in groups that `pipeline` serves are registered in the state of this node. Once they were, they count
/// as registered as long as the process runs, as in the reference: an object that is deleted stays away until another node leads.
pub fn registration<S: Store>(pipeline: &Arc<Pipeline<S>>) -> impl Fn() -> bool + Send + Sync + use<S> {
    let (pipeline, is_done) = (pipeline.clone(), AtomicBool::new(false));
    move || {
        if !is_done.load(Ordering::Relaxed) && are_registered(&pipeline.registry(), &pipeline.store.state()) {
            is_done.store(true, Ordering::Relaxed);
        }
        is_done.load(Ordering::Relaxed)
    }
}

/// Whether the objects of all built-in groups of `served` are in `state`.
fn are_registered(served: &Registry, state: &State) -> bool {
    let stored = state.collection(API_SERVICES);
    let wanted = wanted(served).into_iter();
    let mut built_in = wanted.filter(|(_, of)| of.management == Management::OnStart);
    built_in.all(|(name, _)| stored.get(&name).is_some())
}

async fn take<S: Store>(client: &Client<S>, resource: &Arc<Resource>, step: Step) -> Result<(), ApiError> {
    let taken = match &step {
        Step::Create { object, .. } => client.create(resource, "", object).await,
        Step::Correct { name, patch } => {
            client.patch(Place { resource, path: name }, Action::Object, patch).await
        }
        Step::Delete { name, uid } => {
            client.delete(Place { resource, path: name }, uid, None, Propagation::Background).await
        }
    };
    // A change by somebody else comes first, and is looked at with the next turn.
    taken.or_else(|error| if is_overtaken(&error) { Ok(()) } else { Err(error) })
}

/// The changes that lead from what is stored to what is wanted. `starts`: built-in groups are looked at, too.
fn steps(served: &Registry, state: &State, starts: bool) -> Vec<Step> {
    let (mut wanted, label) = (wanted(served), served.brand.automanaged_label());
    let mut steps = Vec::new();
    for (name, object) in state.collection(API_SERVICES).range_from("") {
        let wanted = wanted.remove(&**name);
        // One that cannot be read is left alone.
        let Ok(stored) = serde_json::from_slice::<Value>(&object.json) else { continue };
        let Some(management) = Management::of(&stored, &label) else { continue };
        let is_looked_at = starts || management == Management::Always;
        if !is_looked_at || !stored.at("spec").at("service").is_null() {
            continue;
        }
        let name = name.to_string();
        match wanted {
            None => steps.push(Step::Delete { name, uid: stored.at("metadata").text("uid").to_owned() }),
            Some(wanted) if *stored.at("spec") != wanted.spec => {
                let patch = correction(&stored, wanted.spec);
                steps.push(Step::Correct { name, patch });
            }
            Some(_) => {}
        }
    }
    let absent = wanted.into_iter().filter(|(_, of)| starts || of.management == Management::Always);
    steps.extend(absent.map(|(name, Wanted { management, spec })| {
        let mut labels = json!({});
        labels[label.as_str()] = json!(management.label());
        let object = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        Step::Create { name, object }
    }));
    steps
}

/// The merge patch that gives the object the spec `wanted`.
fn correction(stored: &Value, wanted: Value) -> Value {
    let mut spec = wanted;
    for (field, _) in stored.at("spec").as_object().into_iter().flatten() {
        if spec.get(field.as_str()).is_none() {
            spec[field.as_str()] = Value::Null;
        }
    }
    let (uid, version) = (stored.at("metadata").text("uid"), stored.at("metadata").text("resourceVersion"));
    json!({"metadata": {"uid": uid, "resourceVersion": version}, "spec": spec})
}

/// The objects of what `served` has, by name.
fn wanted(served: &Registry) -> BTreeMap<String, Wanted> {
    let mut wanted = BTreeMap::new();
    for group in served.groups() {
        let stem = stem_of(&group.name, served.brand);
        if stem == REGISTRATION && !group.is_declared() {
            continue;
        }
        for version in &group.versions {
            let (management, priority) = match version.is_declared() {
                true => (Management::Always, Priority::DECLARED),
                false => (Management::OnStart, Priority::built_in(stem, &version.version)),
            };
            let mut spec = json!({
                "version": version.version,
                "groupPriorityMinimum": priority.group, "versionPriority": priority.version,
            });
            if !group.name.is_empty() {
                spec["group"] = json!(group.name);
            }
            wanted.insert(name_of(&group.name, &version.version), Wanted { management, spec });
        }
    }
    wanted
}

fn stem_of<'g>(group: &'g str, brand: &Brand) -> &'g str {
    let stem = group.strip_suffix(brand.group_domain).and_then(|stem| stem.strip_suffix('.'));
    stem.unwrap_or(group)
}
