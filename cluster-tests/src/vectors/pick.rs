//! Parts of an answer: what a step judges of it, and what a step waits for.
//!
//! Owns the paths that recordings name parts by: `items.0.spec`, `conditions[type=Ready].status`, `paths['/a.b'].get`.

use serde_json::{Map, Value};

/// The part of a body that the step judges: what `pick` names, without the keys that `omit` names.
pub(super) fn trimmed(body: Value, step: &Map<String, Value>) -> Value {
    let picked = match step.get("pick") {
        Some(Value::String(path)) => find(&body, path).cloned().unwrap_or_default(),
        Some(Value::Array(paths)) => {
            let paths = paths.iter().filter_map(Value::as_str);
            let part = |path: &str| (path.to_owned(), find(&body, path).cloned().unwrap_or_default());
            Value::Object(paths.map(part).collect())
        }
        _ => body,
    };
    match step.get("omit").and_then(Value::as_array) {
        Some(omitted) => without(picked, omitted),
        None => picked,
    }
}

/// Whether `answer` (`status`, `body`) is as the step's `until` says; so is every answer where there is none.
pub(super) fn is_awaited(answer: &Value, step: &Map<String, Value>) -> bool {
    let Some(until) = step.get("until").and_then(Value::as_object) else { return true };
    until.iter().all(|(path, wanted)| find(answer, path).unwrap_or(&Value::Null) == wanted)
}

/// `value` without the fields of these names, at any depth.
fn without(value: Value, names: &[Value]) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(|item| without(item, names)).collect(),
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(name, _)| !names.iter().any(|omitted| omitted == name));
            Value::Object(kept.map(|(name, field)| (name, without(field, names))).collect())
        }
        other => other,
    }
}

/// The value at `path`: names and places between dots, `[name=value]` the item with this field, `['name']` a name with dots.
pub(super) fn find<'v>(document: &'v Value, path: &str) -> Option<&'v Value> {
    let (mut found, mut rest) = (document, path);
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("['") {
            let (name, behind) = quoted.split_once("']")?;
            found = found.get(name)?;
            rest = behind;
        } else if let Some(condition) = rest.strip_prefix('[') {
            let (condition, behind) = condition.split_once(']')?;
            let (name, wanted) = condition.split_once('=')?;
            let is_it = |item: &&Value| find(item, name).is_some_and(|field| shown(field) == wanted);
            found = found.as_array()?.iter().find(is_it)?;
            rest = behind;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (name, behind) = rest.split_at(end);
            found = match found {
                Value::Array(items) => items.get(name.parse::<usize>().ok()?)?,
                other => other.get(name)?,
            };
            rest = behind;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
    }
    Some(found)
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_through_names_places_conditions_and_quoted_names() {
        let document = json!({"a": [{"type": "x", "of": 1}, {"type": "y", "of": {"b.c": true}}], "n": 7});
        for (path, wanted) in [
            ("a.0.of", json!(1)),
            ("a[type=y].of['b.c']", json!(true)),
            ("a[of=1].type", json!("x")),
            ("n", json!(7)),
            ("a.7", Value::Null),
            ("a[type=z].of", Value::Null),
            ("n.x", Value::Null),
        ] {
            assert_eq!(find(&document, path).cloned().unwrap_or_default(), wanted, "{path}");
        }
    }

    #[test]
    fn a_step_waits_for_what_it_names() {
        let answer = json!({"status": 200, "body": {"items": [1]}});
        let step = |until: Value| json!({ "until": until }).as_object().unwrap().clone();
        assert!(is_awaited(&answer, &step(json!({"status": 200, "body.items.0": 1}))));
        assert!(!is_awaited(&answer, &step(json!({"status": 404}))));
        assert!(is_awaited(&answer, &step(json!({"body.gone": null}))) && is_awaited(&answer, &Map::new()));
    }
}
