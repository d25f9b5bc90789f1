//! The answers of the servers that scenarios start: webhooks of admission and of conversion, and aggregated APIs.
//!
//! Owns the rules that a recording gives such a server; `README.md` beside the recordings describes them. Without a rule an admission webhook
//! allows, a conversion webhook changes the version alone, and an API answers 404.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::pick::find;

/// The kind of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A webhook of admission.
    Admission,
    /// A webhook of conversion.
    Conversion,
    /// An aggregated API.
    Api,
}

impl Kind {
    /// The kind that a step names.
    pub(super) fn named(name: &str) -> Kind {
        match name {
            "conversion" => Kind::Conversion,
            "api" => Kind::Api,
            _ => Kind::Admission,
        }
    }
}

/// A request that a server received.
pub(super) struct Asked<'a> {
    /// The method.
    pub(super) method: &'a str,
    /// Path and query.
    pub(super) path: &'a str,
    /// The body; null where there is none.
    pub(super) body: &'a Value,
}

/// The answer to a request.
#[derive(Debug, PartialEq)]
pub(super) struct Reply {
    /// Time before it.
    pub(super) delay: Duration,
    /// Status code.
    pub(super) status: u16,
    /// Headers beside the content type.
    pub(super) headers: Vec<(String, String)>,
    /// The body.
    pub(super) body: String,
}

/// The rules of one server, of which the first that fits answers.
pub(super) struct Answers(Vec<Value>);

impl Answers {
    /// The rules in `step`.
    pub(super) fn of(step: &Map<String, Value>) -> Answers {
        Answers(step.get("answers").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// The answer of a server of `kind` to `asked`.
    pub(super) fn reply(&mut self, kind: Kind, asked: &Asked<'_>) -> Reply {
        let fits = |rule: &&mut Value| is_left(rule) && is_meant(rule, asked);
        let rule = self.0.iter_mut().find(fits).map(|rule| {
            if let Some(times) = rule.get("times").and_then(Value::as_i64) {
                rule["times"] = json!(times - 1);
            }
            rule.clone()
        });
        let rule = rule.unwrap_or_else(|| json!({}));
        let headers = rule["headers"].as_object().into_iter().flatten();
        let headers =
            headers.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()));
        let status = rule["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(200);
        let (status, body) = match body(&rule, kind, asked.body) {
            Some(Value::String(text)) => (status, text),
            Some(document) => (status, document.to_string()),
            None => (404, "not found\n".to_owned()),
        };
        let delay = Duration::from_secs_f64(rule["delay"].as_f64().unwrap_or_default());
        Reply { delay, status, headers: headers.collect(), body }
    }
}

/// Whether a rule may answer once more.
fn is_left(rule: &Value) -> bool {
    rule.get("times").and_then(Value::as_i64).is_none_or(|times| times > 0)
}

fn is_meant(rule: &Value, asked: &Asked<'_>) -> bool {
    let wanted = rule.get("when").and_then(Value::as_object);
    wanted.into_iter().flatten().all(|(part, wanted)| match part.as_str() {
        "path" => asked.path.split('?').next() == wanted.as_str(),
        "method" => Some(asked.method) == wanted.as_str(),
        part => find(asked.body, part).unwrap_or(&Value::Null) == wanted,
    })
}

/// The body of an answer, a document or a text; `None`: the server does not know what was asked for.
fn body(rule: &Value, kind: Kind, asked: &Value) -> Option<Value> {
    if let Some(given) = rule.get("raw").or_else(|| rule.get("body")) {
        return Some(given.clone());
    }
    let request = asked.get("request")?;
    let response = match kind {
        Kind::Api => return None,
        Kind::Admission => admitted(rule, request),
        Kind::Conversion => converted(rule, request),
    };
    let mut review = json!({
        "apiVersion": asked.get("apiVersion"), "kind": asked.get("kind"), "response": response,
    });
    merge(&mut review, rule.get("review"));
    Some(review)
}

fn admitted(rule: &Value, request: &Value) -> Value {
    let mut response = json!({"uid": request.get("uid"), "allowed": true});
    merge(&mut response, rule.get("response"));
    if response.get("patch").is_some_and(Value::is_array) {
        response["patch"] = json!(STANDARD.encode(response["patch"].to_string()));
        if response.get("patchType").is_none() {
            response["patchType"] = json!("JSONPatch");
        }
    }
    response
}

fn converted(rule: &Value, request: &Value) -> Value {
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let version = wanted.rsplit('/').next().unwrap_or_default();
    let pairs = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |pair: &Value, at: usize| pair[at].as_str().unwrap_or_default().to_owned();
    let mut objects = pairs(request.get("objects"));
    let dropped = rule["drop"].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
    objects.truncate(objects.len().saturating_sub(dropped));
    for object in objects.iter_mut().filter(|object| object["apiVersion"] != wanted) {
        object["apiVersion"] = json!(wanted);
        for pair in pairs(rule.get("convert").and_then(|convert| convert.get(version))) {
            if let Some(value) = take(object, &text(&pair, 0)) {
                put(object, &text(&pair, 1), value);
            }
        }
        for pair in pairs(rule.get("set")) {
            put(object, &text(&pair, 0), pair[1].clone());
        }
    }
    json!({
        "uid": rule.get("uid").or_else(|| request.get("uid")), "convertedObjects": objects,
        "result": rule.get("result").cloned().unwrap_or_else(|| json!({"status": "Success"})),
    })
}

/// Sets the members of `of` in `document`.
fn merge(document: &mut Value, of: Option<&Value>) {
    for (name, value) in of.and_then(Value::as_object).into_iter().flatten() {
        document[name] = value.clone();
    }
}

fn put(document: &mut Value, path: &str, value: Value) {
    let mut place = document;
    for name in path.split('.') {
        place = &mut place[name];
    }
    *place = value;
}

fn take(document: &mut Value, path: &str) -> Option<Value> {
    let (front, last) = path.rsplit_once('.').unwrap_or(("", path));
    let names = front.split('.').filter(|name| !name.is_empty());
    let parent = names.into_iter().try_fold(document, |place, name| place.get_mut(name))?;
    parent.as_object_mut()?.remove(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(rules: Value) -> Answers {
        Answers::of(json!({ "answers": rules }).as_object().unwrap())
    }

    fn reply(answers: &mut Answers, kind: Kind, body: &Value) -> (u16, Value) {
        let Reply { status, body, .. } = answers.reply(kind, &Asked { method: "POST", path: "/a?b=c", body });
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    #[test]
    fn the_first_rule_that_fits_answers_as_often_as_it_may() {
        let asked = json!({"apiVersion": "v", "kind": "K", "request": {"uid": "u", "operation": "CREATE"}});
        let mut rules = answers(json!([
            {"when": {"path": "/b"}, "status": 500, "raw": "never"},
            {"when": {"path": "/a", "method": "POST", "request.operation": "CREATE"}, "times": 1, "status": 503, "raw": "once"},
            {"response": {"allowed": false, "patch": []}, "review": {"kind": "Other"}},
        ]));
        assert_eq!(reply(&mut rules, Kind::Admission, &asked), (503, json!("once")));
        let response = json!({"uid": "u", "allowed": false, "patch": "W10=", "patchType": "JSONPatch"});
        let expected = json!({"apiVersion": "v", "kind": "Other", "response": response});
        assert_eq!(reply(&mut rules, Kind::Admission, &asked), (200, expected));
        let (_, allowed) = reply(&mut answers(json!([])), Kind::Admission, &asked);
        assert_eq!(allowed["response"], json!({"uid": "u", "allowed": true}));
        assert_eq!(reply(&mut answers(json!([])), Kind::Api, &asked), (404, json!("not found\n")));
    }

    #[test]
    fn fields_are_moved_on_the_way_to_a_version() {
        let object = |version: &str| json!({"apiVersion": format!("g/{version}"), "spec": {"size": 1}});
        let asked = json!({"request": {"uid": "u", "desiredAPIVersion": "g/v2", "objects": [object("v1"), object("v2"), object("v1")]}});
        let convert = json!({"v2": [["spec.size", "spec.replicas"], ["spec.none", "spec.other"]]});
        let mut rules = answers(json!([{"convert": convert, "set": [["metadata.name", "b"]], "drop": 1}]));
        let (_, review) = reply(&mut rules, Kind::Conversion, &asked);
        let moved = json!({"apiVersion": "g/v2", "spec": {"replicas": 1}, "metadata": {"name": "b"}});
        let expected =
            json!({"uid": "u", "convertedObjects": [moved, object("v2")], "result": {"status": "Success"}});
        assert_eq!(review["response"], expected);
    }
}
