//! The managed fields of every recorded write of a kind in the tables.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::*;

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cluster-tests/vectors");

/// Kinds that are served: others have tables, but no rules yet.
static SERVED: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let registry = crate::registry::Registry::builtin(&orch_proto::brand::ORCH);
    registry.resources().map(|resource| resource.kind.clone()).collect()
});

fn load(area: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(format!("{VECTORS}/{area}.json")).unwrap()).unwrap()
}

#[test]
fn recorded_updates_give_the_recorded_managers() {
    let mut seen = 0;
    for area in std::fs::read_dir(VECTORS).unwrap() {
        let name = area.unwrap().file_name().into_string().unwrap();
        // Answers of admission show what plugins completed after the owners were told, those of pods profiles that were
        // taken from annotations.
        let area = name.strip_suffix(".json").filter(|area| !matches!(*area, "admission" | "podspec"));
        let Some(area) = area else { continue };
        for scenario in load(area).as_array().into_iter().flatten() {
            seen += replay(scenario);
        }
    }
    assert!(seen >= 137, "only {seen} recorded writes were checked");
}

/// Replays a scenario: each response to a write is the next state, and tracking must give its managed fields.
fn replay(scenario: &Value) -> usize {
    let mut live: HashMap<String, Value> = HashMap::new();
    let mut seen = 0;
    for step in scenario["steps"].as_array().unwrap() {
        let Some(request) = step["do"].as_str() else { continue };
        let Some(body) = step["expect"].get("body").filter(|body| body.is_object()) else { continue };
        let kind = body["kind"].as_str().unwrap_or_default();
        if !SERVED.contains(kind) {
            continue;
        }
        let Some(root) = root_of(body["apiVersion"].as_str().unwrap_or_default(), kind) else { continue };
        let name = format!("{}/{kind}/{}", body["apiVersion"], body["metadata"]["name"]);
        let query = request.split_once('?').map_or("", |(_, query)| query);
        let is_write = ["POST", "PUT", "PATCH"].iter().any(|verb| request.starts_with(verb));
        let is_apply = step["headers"]["Content-Type"].as_str().is_some_and(|t| t.contains("apply"));
        // Recorded in any order, they do not tell which manager came first.
        let is_told = |object: &Value| object["metadata"]["managedFields"].is_array();
        let is_ordered =
            is_told(body) && (request.starts_with("POST") || live.get(&name).is_none_or(is_told));
        // A change of a service's type drops fields after their owners were told.
        let is_whole = kind != "Service" || request.starts_with("POST");
        // What was patched may have been made without an answer on record.
        let is_whole = is_whole && (!request.starts_with("PATCH") || live.contains_key(&name));
        if is_write && !is_apply && is_ordered && is_whole {
            let path = request.split('?').next().unwrap();
            let agent = step["headers"]["User-Agent"].as_str().unwrap_or("vectors");
            let manager = query.split('&').find_map(|pair| pair.strip_prefix("fieldManager="));
            let manager = manager.unwrap_or_else(|| agent.split('/').next().unwrap());
            let resource = schema().resources().iter().find(|resource| resource.type_id == root);
            let has_status = resource.is_some_and(|resource| resource.subresource("status").is_some());
            let rules = resource.map(|resource| resource.rules.clone()).unwrap_or_default();
            let (subresource, mut reset) = match (path.ends_with("/status"), has_status) {
                (true, _) => ("status", vec!["spec".to_owned()]),
                (false, true) => ("", vec!["status".to_owned()]),
                (false, false) => ("", Vec::new()),
            };
            reset.extend(if subresource.is_empty() { rules.object_resets } else { rules.status_resets });
            let reset = &reset[..];
            let mut new = body.clone();
            let expected = new["metadata"].as_object_mut().unwrap().shift_remove("managedFields").unwrap();
            let version = body["apiVersion"].as_str().unwrap();
            if request.starts_with("POST") {
                undo_admission(kind, &mut new);
                undo_allotment(kind, &step["body"], &mut new);
            }
            let writer =
                Writer { manager, api_version: version, subresource, now: "<time>", reset, others: &[] };
            let before = if request.starts_with("POST") { None } else { live.get(&name) };
            track_update(schema(), root, before, &mut new, &writer).unwrap();
            assert_eq!(
                serde_json::to_string_pretty(&new["metadata"]["managedFields"]).unwrap(),
                serde_json::to_string_pretty(&expected).unwrap(),
                "{} {request}",
                scenario["name"]
            );
            seen += 1;
        }
        if !query.contains("dryRun") {
            live.insert(name, body.clone());
        }
    }
    seen
}

/// Removes the addresses, ports and families that a service was given: managed fields are computed before those.
fn undo_allotment(kind: &str, sent: &Value, object: &mut Value) {
    if kind == "Service"
        && let Some(spec) = object["spec"].as_object_mut()
    {
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
        for (at, port) in ports.enumerate() {
            if sent["spec"]["ports"][at].get("nodePort").is_none() {
                port.as_object_mut().unwrap().shift_remove("nodePort");
            }
        }
        for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if sent["spec"].get(name).is_none() {
                spec.shift_remove(name);
            }
        }
    }
}

/// Removes the defaults of admission and the results of reviews from a recorded response: managed fields are computed
/// before those.
fn undo_admission(kind: &str, object: &mut Value) {
    let (place, names): (_, &[&str]) = match kind {
        "Pod" => ("spec", &["priority", "preemptionPolicy", "tolerations"]),
        "PersistentVolume" | "PersistentVolumeClaim" | "VolumeAttributesClass" => {
            ("metadata", &["finalizers"])
        }
        "TokenReview" => ("status", &["audiences", "authenticated", "error", "user"]),
        _ => return,
    };
    object[place].as_object_mut().unwrap().retain(|name, _| !names.contains(&name.as_str()));
}

#[test]
fn recorded_applies_give_the_recorded_managers_and_conflicts() {
    let mut seen = 0;
    for scenario in load("apply").as_array().unwrap() {
        let mut live: Option<Value> = None;
        for step in scenario["steps"].as_array().unwrap() {
            let (Some(request), Some(config)) = (step["do"].as_str(), step.get("body")) else { continue };
            let Some(kind) = config["kind"].as_str().filter(|_| request.starts_with("PATCH")) else {
                continue;
            };
            let query = request.split_once('?').unwrap().1;
            let manager = query.split('&').find_map(|pair| pair.strip_prefix("fieldManager=")).unwrap();
            let version = config["apiVersion"].as_str().unwrap();
            let writer = Writer {
                manager,
                api_version: version,
                subresource: "",
                now: "<time>",
                reset: &["status".to_owned()],
                others: &[],
            };
            let options =
                ApplyOptions { force: query.contains("force=true"), brand: &orch_proto::brand::ORCH };
            let result = apply(schema(), root(kind), live.clone(), config, &writer, options);
            let expected = &step["expect"]["body"];
            let what = format!("{} {request}", scenario["name"]);
            seen += 1;
            match result {
                Ok(object) => {
                    let text = |object: &Value| {
                        serde_json::to_string_pretty(&object["metadata"]["managedFields"]).unwrap()
                    };
                    assert_eq!(text(&object), text(expected), "{what}");
                    assert_eq!(object["data"], expected["data"], "{what}");
                    assert_within(&object["spec"], &expected["spec"], &what);
                    live = Some(expected.clone());
                }
                Err(ApplyError::Conflicts(conflicts)) => {
                    assert_eq!(conflicts.to_string(), expected["message"], "{what}");
                    let causes: Vec<Value> = conflicts
                        .shown()
                        .map(|c| json!({"reason": "FieldManagerConflict", "message": c.cause(), "field": c.path()}))
                        .collect();
                    assert_eq!(Value::Array(causes), expected["details"]["causes"], "{what}");
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    assert!(seen >= 14, "only {seen} recorded applies were checked");
}

/// Asserts that `whole` has all of `part`; it may have more from defaults.
fn assert_within(part: &Value, whole: &Value, what: &str) {
    match (part, whole) {
        (Value::Object(part), Value::Object(_)) => {
            part.iter().for_each(|(key, value)| assert_within(value, &whole[key], what));
        }
        (Value::Array(part), Value::Array(whole)) => {
            assert_eq!(part.len(), whole.len(), "{what}");
            part.iter().zip(whole).for_each(|(part, whole)| assert_within(part, whole, what));
        }
        _ => assert_eq!(part, whole, "{what}"),
    }
}
