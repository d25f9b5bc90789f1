//! Replays recorded writes against the strategies alone, without a server.
//!
//! Each recorded POST, PUT and merge patch runs through defaults, admission, preparation and rules in the pipeline's
//! order; the result is compared with the reference's response. A step that needs more than a strategy (other patch
//! types, deletes, reads, decoding errors) only updates the objects, or is skipped.

use std::collections::BTreeMap;

use orch_rules::Action;
use orch_rules::kinds::{Context, Requester, event, strategy_for};
use orch_rules::validate::tree::{Tree, carry, child_mut, is_empty, set, set_default, unset};
use orch_rules::validate::{
    FieldError, Path, carry_system_fields, validate_object_meta, validate_object_meta_update,
};
use orch_schema::json;
use orch_schema::value::Value;

use crate::admission::testing::{Objects, attributes, mutate, validate};
use crate::admission::{Attributes, Operation};
use crate::error::ApiError;

const AREAS: [&str; 10] =
    ["crud", "delete", "errors", "events", "metadata", "patch", "pods", "selectors", "table", "types"];
/// Metadata set by the server, or by code that is not under test here.
const SYSTEM: [&str; 5] = ["uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink"];

/// A request to the main resource in namespace `ns`.
const CONTEXT: Context<'static> = Context {
    brand: &orch_proto::brand::ORCH,
    group: "",
    version: "v1",
    namespace: "ns",
    action: Action::Object,
    user: Requester { name: "me", uid: "", groups: &[], extra: &BTreeMap::new() },
    now: "2026-01-02T03:04:05Z",
    labels_given: true,
};

/// When the tables were recorded.
const TABLE_TIME: &str = "2026-11-20T12:00:00Z";

struct Target {
    resource: String,
    group: String,
    namespace: String,
    name: String,
    subresource: String,
}

fn target(path: &str) -> Option<Target> {
    let path = path.split('?').next()?;
    let mut parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let group = match *parts.first()? {
        "api" => {
            parts.drain(..2);
            ""
        }
        "apis" => {
            let group = *parts.get(1)?;
            parts.drain(..3);
            group
        }
        _ => return None,
    };
    let mut namespace = "";
    if parts.len() > 2 && parts[0] == "namespaces" && !["status", "finalize"].contains(&parts[2]) {
        namespace = parts[1];
        parts.drain(..2);
    }
    let stem = group.strip_suffix(".orch.io").unwrap_or(group);
    let plural = *parts.first()?;
    let resource = match stem {
        "" | "events" => plural.to_owned(),
        stem => format!("{plural}.{stem}"),
    };
    strategy_for(&resource)?;
    let at = |index: usize| (*parts.get(index).unwrap_or(&"")).to_owned();
    Some(Target {
        resource,
        group: group.to_owned(),
        namespace: namespace.to_owned(),
        name: at(1),
        subresource: at(2),
    })
}

struct Replay {
    store: Objects,
    compared: usize,
    differences: Vec<String>,
}

impl Replay {
    fn step(&mut self, place: &str, step: &Value) {
        let Some((verb, path)) = step.text("do").split_once(' ') else { return };
        let Some(target) = target(path) else { return };
        let dry_run = path.contains("dryRun");
        let merge = step.at("headers").text("Content-Type") == "application/merge-patch+json";
        let body = step.at("body");
        let key = |name: &str| (target.resource.clone(), target.namespace.clone(), name.to_owned());
        match verb {
            "POST" if body.is_object() && target.name.is_empty() => {
                self.write(place, &target, None, body.clone(), step, dry_run)
            }
            "PUT" if body.is_object() => {
                let Some(old) = self.store.0.get(&key(&target.name)).cloned() else { return };
                self.write(place, &target, Some(old), body.clone(), step, dry_run);
            }
            "PATCH" if merge && body.is_object() => {
                let Some(old) = self.store.0.get(&key(&target.name)).cloned() else { return };
                let mut new = spelled(&target, &old);
                crate::patch::merge_patch(&mut new, body.clone()).expect("a recorded patch applies");
                self.write(place, &target, Some(old), new, step, dry_run);
            }
            "GET" if step.at("headers").text("Accept").contains("as=Table") => {
                self.table(place, &target, step)
            }
            "DELETE" => self.store.0.retain(|stored, _| *stored != key(&target.name)),
            _ => {
                // The step changes the object in a way not replayed here: take the recorded result.
                let expected = step.at("expect").at("body");
                let known = self.store.0.contains_key(&key(&target.name));
                if verb != "GET" && known && expected.at("metadata").text("name") == target.name {
                    self.store.0.insert(key(&target.name), stored_form(&target, expected.clone()));
                }
            }
        }
    }

    fn table(&mut self, place: &str, target: &Target, step: &Value) {
        let Some(strategy) = strategy_for(&target.resource) else { return };
        for row in step.at("expect").at("body").items("rows") {
            let name = row.at("object").at("metadata").text("name");
            let object = self.store.find(&target.resource, &target.namespace, name);
            let got = object.and_then(|object| strategy.table_row(&object, TABLE_TIME)).unwrap_or_default();
            let want = row.items("cells");
            let fits = |got: &Value, want: &Value| want == "<age>" || got == want;
            self.compared += 1;
            if got.len() != want.len() || !got.iter().zip(want).all(|(got, want)| fits(got, want)) {
                self.differences.push(format!("{place}: row {}, want {}", json!(got), json!(want)));
            }
        }
    }

    fn write(
        &mut self,
        place: &str,
        target: &Target,
        old: Option<Value>,
        body: Value,
        step: &Value,
        dry_run: bool,
    ) {
        let expect = step.at("expect");
        let status = expect.int("status").unwrap_or(0);
        let wanted = expect.at("body");
        if status == 0 && !step.flag("setup") || matches!(status, 400 | 404 | 409 | 415) {
            return;
        }
        let outcome = self.run(target, old.as_ref(), body);
        let mut problem =
            |text: String| self.differences.push(format!("{place}: {}: {text}", step.text("do")));
        match (outcome, status) {
            (Ok(object), 0 | 200 | 201) => {
                let got = without_system(spelled(target, &object));
                if wanted.is_object() && wanted.text("kind") != "Status" {
                    self.compared += 1;
                    let want = without_system(wanted.clone());
                    if without_empty(&got) != without_empty(&want) && !generated(&want) {
                        problem(format!("\n  got  {got}\n  want {want}"));
                    }
                }
                if !dry_run {
                    let name = object.at("metadata").text("name").to_owned();
                    self.store.0.insert((target.resource.clone(), target.namespace.clone(), name), object);
                }
            }
            (Err(Refusal::Invalid(mut got)), 422) => {
                self.compared += 1;
                let mut want: Vec<String> =
                    wanted.at("details").items("causes").iter().map(cause_text).collect();
                got.sort();
                want.sort();
                let equal =
                    got.len() == want.len() && got.iter().zip(&want).all(|(got, want)| fits(got, want));
                if !equal {
                    problem(format!("\n  got  {got:#?}\n  want {want:#?}"));
                }
            }
            (Err(Refusal::Forbidden(got)), 403) => {
                self.compared += 1;
                let want = wanted.text("message");
                // A generated name is not known yet when plugins are called.
                let reason = got.split_once("is forbidden: ").map_or(got.as_str(), |(_, reason)| reason);
                if !want.ends_with(&format!("is forbidden: {reason}")) {
                    problem(format!("got {got}, want {want}"));
                }
            }
            (Err(_), 0) => {}
            (outcome, status) => {
                let got = outcome.map_or_else(|refusal| format!("{refusal:?}"), |object| object.to_string());
                problem(format!("want {status} {wanted}, got {got}"));
            }
        }
    }

    fn run(&self, target: &Target, old: Option<&Value>, body: Value) -> Result<Value, Refusal> {
        let strategy = strategy_for(&target.resource).ok_or(Refusal::Forbidden("unknown".to_owned()))?;
        let (group, namespace) = (&target.group, &target.namespace);
        let action = Action::of(&target.subresource).ok_or(Refusal::Forbidden("unknown".to_owned()))?;
        let context = Context { group, namespace, action, ..CONTEXT };
        let mut new = stored_form(target, body);
        let labels_given = !new.at("metadata").is_empty_at("labels");
        let context = Context { labels_given, ..context };
        unset(&mut new, "kind");
        unset(&mut new, "apiVersion");
        let path = Path::new("metadata");
        let metadata = child_mut(&mut new, "metadata");
        if !namespace.is_empty() {
            set(metadata, "namespace", namespace.as_str());
        }
        let admitted = |error: ApiError| Refusal::Forbidden(error.to_string());
        let attributes = Attributes { action, namespace, ..attributes(&target.resource, Operation::Create) };
        let attributes = match old {
            Some(old) => Attributes {
                operation: Operation::Update,
                name: old.at("metadata").text("name"),
                old: Some(old),
                ..attributes
            },
            None => attributes,
        };
        let errors = if let Some(old) = old {
            carry(old.at("metadata"), metadata, "resourceVersion");
            strategy.default(&context, &mut new);
            mutate(&attributes, &mut new, &self.store).map_err(admitted)?;
            carry_system_fields(old.at("metadata"), child_mut(&mut new, "metadata"));
            strategy.prepare_for_update(&context, old, &mut new);
            let mut errors = validate_object_meta_update(new.at("metadata"), old.at("metadata"), &path);
            errors.extend(strategy.validate_update(&context, old, &new));
            errors
        } else {
            for (field, value) in [("uid", "u"), ("resourceVersion", "1"), ("creationTimestamp", CONTEXT.now)]
            {
                set(metadata, field, value);
            }
            if !metadata.text("generateName").is_empty() {
                let prefix: String = metadata.text("generateName").chars().take(58).collect();
                set_default(metadata, "name", format!("{prefix}abcde"));
            }
            strategy.default(&context, &mut new);
            mutate(&attributes, &mut new, &self.store).map_err(admitted)?;
            strategy.prepare_for_create(&context, &mut new);
            let namespaced = !namespace.is_empty();
            let mut errors =
                validate_object_meta(new.at("metadata"), namespaced, attributes.resource.rules.names, &path);
            errors.extend(strategy.validate_create(&context, &new));
            errors
        };
        if errors.is_empty() {
            validate(&attributes, &new, &self.store).map_err(admitted)?;
            Ok(new)
        } else {
            Err(Refusal::Invalid(errors.iter().map(error_text).collect()))
        }
    }
}

#[derive(Debug)]
enum Refusal {
    Invalid(Vec<String>),
    Forbidden(String),
}

fn error_text(error: &FieldError) -> String {
    format!("{} {} {}", error.path, error.kind.reason(), error.message)
}

fn cause_text(cause: &Value) -> String {
    format!("{} {} {}", cause.text("field"), cause.text("reason"), cause.text("message"))
}

// Placeholders of the recording match anything.
fn fits(got: &str, want: &str) -> bool {
    match want.split_once("<generated>").or_else(|| want.split_once("<text>")) {
        Some((head, tail)) => got.starts_with(head) && got.ends_with(tail),
        None => got == want,
    }
}

fn generated(object: &Value) -> bool {
    object.at("metadata").text("name") == "<generated>"
}

fn stored_form(target: &Target, body: Value) -> Value {
    if target.group == "events.orch.io" { event::from_events_v1(&body) } else { body }
}

fn spelled(target: &Target, object: &Value) -> Value {
    if target.group == "events.orch.io" { event::to_events_v1(object) } else { object.clone() }
}

// Fields that an encoder always writes are removed on both sides.
fn without_system(mut object: Value) -> Value {
    for field in ["kind", "apiVersion"] {
        unset(&mut object, field);
    }
    for field in SYSTEM {
        unset(child_mut(&mut object, "metadata"), field);
    }
    let spec = child_mut(&mut object, "spec");
    for container in orch_rules::validate::tree::items_mut(spec, "containers") {
        if container.is_empty_at("resources") {
            unset(container, "resources");
        }
    }
    if let Some(status) = orch_rules::validate::tree::existing_mut(&mut object, "status") {
        unset(status, "nodeInfo");
        unset(status, "daemonEndpoints");
    }
    object
}

/// `value` without members that are null, zero or empty: the codec, which is not asked here, writes some of them always.
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().map(|(name, value)| (name.to_owned(), without_empty(value)));
            Value::Object(kept.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_empty).collect()),
        other => other.clone(),
    }
}

#[test]
fn strategies_answer_as_recorded() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../cluster-tests/vectors");
    let mut replay = Replay { store: Objects::default(), compared: 0, differences: Vec::new() };
    for area in AREAS {
        let text =
            std::fs::read_to_string(format!("{directory}/{area}.json")).expect("the vectors are test data");
        let scenarios: Value = serde_json::from_str(&text).expect("the vectors are JSON");
        for scenario in scenarios.as_array().expect("a list of scenarios") {
            let place = format!("{area}/{}", scenario.text("name"));
            // Strategies get times and quantities in canonical form; these scenarios send others.
            if ["events/event-time-formats", "pods/quantities"].contains(&place.as_str()) {
                continue;
            }
            scenario.items("steps").iter().for_each(|step| replay.step(&place, step));
        }
    }
    assert!(replay.differences.is_empty(), "{}", replay.differences.join("\n"));
    assert!(replay.compared > 90, "only {} steps were compared", replay.compared);
}
