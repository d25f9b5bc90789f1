//! Redaction of events, whatever the policy says: data of Secrets, tokens, credentials of requests.
//!
//! Owns the rules by which URIs, objects and failures are shown. Of a confidential object the members that are known to
//! be harmless are shown; every other value is replaced, so that a misspelled or new member shows nothing. Headers are
//! not part of events, but for `User-Agent` and addresses.

use http::Uri;
use orch_schema::value::Value;
use percent_encoding::percent_decode_str;

use crate::authz::ResourceAttributes;

/// Replaces a value that is not shown.
pub(super) const REDACTED: &str = "REDACTED";

/// Parameters of a query that carry a credential.
const CREDENTIAL_PARAMETERS: [&str; 2] = ["token", "access_token"];

/// End of the name of the annotation in which `kubectl apply` keeps the whole object.
const LAST_APPLIED: &str = "/last-applied-configuration";

/// A resource whose objects hold secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confidential {
    /// `secrets`.
    Secret,
    /// `tokenreviews`: a token to be judged, repeated in the answer.
    TokenReview,
    /// `serviceaccounts/token`: a token in the answer.
    TokenRequest,
}

impl Confidential {
    /// Whether the objects of a request hold secrets, and of which kind.
    pub(super) fn of(asked: &ResourceAttributes<'_>) -> Option<Confidential> {
        match (asked.group, asked.resource, asked.subresource) {
            ("", "secrets", _) => Some(Confidential::Secret),
            ("", "serviceaccounts", "token") => Some(Confidential::TokenRequest),
            (group, "tokenreviews", _) if group.starts_with("authentication.") => {
                Some(Confidential::TokenReview)
            }
            _ => None,
        }
    }

    /// Whether the message of a failure with `code` may quote the object that was sent. Others name objects alone.
    pub(super) fn may_be_quoted_in(code: u16) -> bool {
        !matches!(code, 401 | 403 | 404 | 405 | 406 | 409 | 410 | 429 | 503 | 504)
    }

    fn redact(self, object: &mut Value) {
        match self {
            Confidential::Secret => redact_secret(object),
            Confidential::TokenReview => redact_in(object, "spec", "token"),
            Confidential::TokenRequest => redact_in(object, "status", "token"),
        }
        redact_last_applied(object);
    }
}

/// Author of a document: a client or the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    /// The client: the document is an object or a patch, whatever members it has. `items` in it hide nothing.
    Client,
    /// The server: the document is an object, or a list or a table of objects.
    Server,
}

/// Removes from a document what its event must not or need not show.
pub(super) fn scrub(
    document: &mut Value,
    author: Author,
    confidential: Option<Confidential>,
    omits_managed_fields: bool,
) {
    each_object(document, author, &mut |object| {
        if omits_managed_fields
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.shift_remove("managedFields");
        }
        if let Some(confidential) = confidential {
            confidential.redact(object);
        }
    });
}

/// Calls `change` for each object of a document: its items, the objects of its rows, and itself unless the server wrote it
/// as a list or a table.
fn each_object(document: &mut Value, author: Author, change: &mut impl FnMut(&mut Value)) {
    let mut is_collection = false;
    if let Some(items) = document.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(&mut *change);
        is_collection = true;
    }
    if let Some(rows) = document.get_mut("rows").and_then(Value::as_array_mut) {
        rows.iter_mut().filter_map(|row| row.get_mut("object")).for_each(&mut *change);
        is_collection = true;
    }
    if author == Author::Client || !is_collection {
        change(document);
    }
}

/// Keeps what describes a Secret, and the keys of its data.
fn redact_secret(secret: &mut Value) {
    match secret {
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                match (name.as_str(), value) {
                    ("kind" | "apiVersion" | "metadata" | "type" | "immutable", _) => {}
                    ("data" | "stringData", Value::Object(data)) => {
                        data.values_mut().for_each(|value| *value = Value::from(REDACTED));
                    }
                    (_, value) => *value = Value::from(REDACTED),
                }
            }
        }
        // A JSON patch.
        Value::Array(operations) => operations.iter_mut().for_each(redact_operation),
        other => *other = Value::from(REDACTED),
    }
}

fn redact_operation(operation: &mut Value) {
    let Some(members) = operation.as_object_mut() else {
        *operation = Value::from(REDACTED);
        return;
    };
    for (name, value) in members.iter_mut() {
        if !matches!(name.as_str(), "op" | "path" | "from") || !value.is_string() {
            *value = Value::from(REDACTED);
        }
    }
}

fn redact_in(object: &mut Value, part: &str, member: &str) {
    if let Some(value) = object.get_mut(part).and_then(|part| part.get_mut(member)) {
        *value = Value::from(REDACTED);
    }
}

fn redact_last_applied(object: &mut Value) {
    let annotations = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        let applied = annotations.iter_mut().filter(|(name, _)| name.ends_with(LAST_APPLIED));
        applied.for_each(|(_, value)| *value = Value::from(REDACTED));
    }
}

/// Path and query of a request, without the credentials in its query.
pub(super) fn uri_text(uri: &Uri) -> String {
    let Some(query) = uri.query() else { return uri.path().to_owned() };
    let mut text = String::with_capacity(uri.path().len() + 1 + query.len());
    text.push_str(uri.path());
    let mut separator = '?';
    // Servers and proxies also take a semicolon for a separator.
    for pair in query.split_inclusive(['&', ';']) {
        let (pair, next) = match pair.strip_suffix(['&', ';']) {
            Some(before) => (before, pair.chars().next_back().unwrap_or('&')),
            None => (pair, '&'),
        };
        text.push(separator);
        separator = next;
        match pair.split_once('=') {
            Some((name, _)) if is_credential(name) => {
                text.push_str(name);
                text.push('=');
                text.push_str(REDACTED);
            }
            _ => text.push_str(pair),
        }
    }
    text
}

fn is_credential(name: &str) -> bool {
    let name = percent_decode_str(name).decode_utf8_lossy();
    // few: two.
    CREDENTIAL_PARAMETERS.iter().any(|parameter| name.eq_ignore_ascii_case(parameter))
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn credentials_in_a_query_are_not_shown() {
        for (uri, expected) in [
            ("/api", "/api"),
            ("/api?", "/api"),
            ("/api?watch=1&x=%20", "/api?watch=1&x=%20"),
            ("http://host/api?a=b", "/api?a=b"),
            ("/api?token=canary", "/api?token=REDACTED"),
            ("/api?a=1&access_token=canary&b=2", "/api?a=1&access_token=REDACTED&b=2"),
            ("/api?a=1;access_token=canary", "/api?a=1;access_token=REDACTED"),
            ("/api?%61ccess_token=canary", "/api?%61ccess_token=REDACTED"),
            ("/api?Access_Token=canary&token=canary", "/api?Access_Token=REDACTED&token=REDACTED"),
            ("/api?token", "/api?token"),
        ] {
            assert_eq!(uri_text(&uri.parse().unwrap()), expected, "{uri}");
        }
    }

    #[test]
    fn of_a_secret_the_harmless_members_are_shown() {
        let applied = "x.io/last-applied-configuration";
        let shown = |mut document: Value, confidential| {
            scrub(&mut document, Author::Server, Some(confidential), false);
            document.to_string()
        };
        let secret = json!({
            "kind": "Secret", "metadata": {"name": "s", "annotations": {applied: "canary", "a": "b"}},
            "data": {"k": "canary"}, "stringData": {"l": "canary"}, "dota": {"k": "canary"}, "type": "t",
        });
        let kept = format!(
            r#"{{"kind":"Secret","metadata":{{"name":"s","annotations":{{"{applied}":"REDACTED","a":"b"}}}},"data":{{"k":"REDACTED"}},"stringData":{{"l":"REDACTED"}},"dota":"REDACTED","type":"t"}}"#
        );
        assert_eq!(shown(secret.clone(), Confidential::Secret), kept);
        let list = shown(json!({"kind": "SecretList", "items": [secret]}), Confidential::Secret);
        assert_eq!(list, format!(r#"{{"kind":"SecretList","items":[{kept}]}}"#));
        let table = json!({"kind": "Table", "rows": [{"cells": ["s"], "object": secret}]});
        let table = shown(table, Confidential::Secret);
        assert_eq!(table, format!(r#"{{"kind":"Table","rows":[{{"cells":["s"],"object":{kept}}}]}}"#));
        for (document, confidential, expected) in [
            (
                json!([{"op": "add", "path": "/data/k", "value": {"a": "canary"}}, "canary"]),
                Confidential::Secret,
                r#"[{"op":"add","path":"/data/k","value":"REDACTED"},"REDACTED"]"#,
            ),
            (json!("canary"), Confidential::Secret, r#""REDACTED""#),
            (json!({"data": ["canary"]}), Confidential::Secret, r#"{"data":"REDACTED"}"#),
            (
                json!({"spec": {"token": "canary", "audiences": ["a"]}, "status": {"authenticated": true}}),
                Confidential::TokenReview,
                r#"{"spec":{"token":"REDACTED","audiences":["a"]},"status":{"authenticated":true}}"#,
            ),
            (
                json!({"spec": {"audiences": ["a"]}, "status": {"token": "canary"}}),
                Confidential::TokenRequest,
                r#"{"spec":{"audiences":["a"]},"status":{"token":"REDACTED"}}"#,
            ),
        ] {
            assert_eq!(shown(document, confidential), expected, "{confidential:?}");
        }
    }

    #[test]
    fn items_and_rows_of_a_client_hide_nothing_beside_them_and_in_them() {
        let inner =
            json!({"data": {"k": "canary"}, "spec": {"token": "canary"}, "status": {"token": "canary"}});
        for hiding in [
            json!({"items": []}),
            json!({"rows": []}),
            json!({"items": [], "rows": []}),
            json!({"items": [inner]}),
            json!({"items": [], "rows": [{"object": inner}]}),
            json!({"kind": "SecretList", "items": [inner], "rows": [{"cells": [], "object": inner}]}),
        ] {
            for (confidential, member, beside) in [
                (Confidential::Secret, "data", json!({"k": "canary"})),
                (Confidential::Secret, "stringData", json!({"k": "canary"})),
                (
                    Confidential::Secret,
                    "metadata",
                    json!({"annotations": {"x/last-applied-configuration": "canary"}}),
                ),
                (Confidential::TokenReview, "spec", json!({"token": "canary"})),
                (Confidential::TokenRequest, "status", json!({"token": "canary"})),
            ] {
                let mut document = hiding.clone();
                document.as_object_mut().unwrap().insert(member, beside);
                scrub(&mut document, Author::Client, Some(confidential), false);
                let (text, data) = (document.to_string(), confidential == Confidential::Secret);
                assert!(!document[member].to_string().contains("canary"), "{hiding}: {text}");
                assert!(!data || !text.contains("canary"), "{hiding}: {text}");
            }
        }
    }

    #[test]
    fn managed_fields_are_left_out_where_the_policy_says_so() {
        let object = json!({"metadata": {"name": "x", "managedFields": [{"manager": "m"}]}});
        let mut list = json!({"items": [object]});
        scrub(&mut list, Author::Server, None, true);
        assert_eq!(list, json!({"items": [{"metadata": {"name": "x"}}]}));
    }
}
