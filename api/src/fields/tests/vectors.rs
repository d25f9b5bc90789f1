//! The managed fields of every recorded write of a kind in the tables.

use super::*;

fn load(area: &str) -> Value {
    let path = format!("{}/../cluster-tests/vectors/{area}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn recorded_updates_give_the_recorded_managers() {
    let schema = schema();
    let mut seen = 0;
    for area in [
        "crud",
        "patch",
        "delete",
        "metadata",
        "pods",
        "types",
        "rv",
        "selectors",
        "fieldvalidation",
        "errors",
    ] {
        for scenario in load(area).as_array().unwrap() {
            seen += replay(&schema, scenario);
        }
    }
    assert!(seen > 60, "only {seen} recorded writes were checked");
}

/// Follows a scenario: each answer of a write is the next state, whose managers must be what tracking gives.
fn replay(schema: &Schema, scenario: &Value) -> usize {
    let mut live: HashMap<String, Value> = HashMap::new();
    let mut seen = 0;
    for step in scenario["steps"].as_array().unwrap() {
        let Some(request) = step["do"].as_str() else { continue };
        let Some(body) = step["expect"].get("body").filter(|body| body.is_object()) else { continue };
        let kind = body["kind"].as_str().unwrap_or_default();
        let Some(root) = schema.named(kind) else { continue };
        let name = format!("{kind}/{}", body["metadata"]["name"]);
        let query = request.split_once('?').map_or("", |(_, query)| query);
        let is_write = ["POST", "PUT", "PATCH"].iter().any(|verb| request.starts_with(verb));
        let is_apply = step["headers"]["Content-Type"].as_str().is_some_and(|t| t.contains("apply"));
        if is_write && !is_apply && body["metadata"]["managedFields"] != Value::Null {
            let path = request.split('?').next().unwrap();
            let agent = step["headers"]["User-Agent"].as_str().unwrap_or("vectors");
            let manager = query.split('&').find_map(|pair| pair.strip_prefix("fieldManager="));
            let manager = manager.unwrap_or_else(|| agent.split('/').next().unwrap());
            let (subresource, reset): (_, &[&[&str]]) = match (path.ends_with("/status"), kind) {
                (true, "Pod") => (
                    "status",
                    &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
                ),
                (true, _) => ("status", &[&["spec"]]),
                (false, "Pod" | "Deployment") => ("", &[&["status"]]),
                _ => ("", &[]),
            };
            let mut new = body.clone();
            let expected = new["metadata"].as_object_mut().unwrap().shift_remove("managedFields").unwrap();
            let version = body["apiVersion"].as_str().unwrap();
            if kind == "Pod" && request.starts_with("POST") {
                // Ownership is worked out before admission adds these.
                let spec = new["spec"].as_object_mut().unwrap();
                for name in ["priority", "preemptionPolicy", "tolerations"] {
                    spec.shift_remove(name);
                }
            }
            let writer = Writer { manager, api_version: version, subresource, now: "<time>", reset };
            let before = if request.starts_with("POST") { None } else { live.get(&name) };
            track_update(schema, root, before, &mut new, &writer).unwrap();
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
