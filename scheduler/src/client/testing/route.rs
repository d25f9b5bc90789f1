//! The verbs of the small API server.

use std::collections::HashMap;

use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use serde_json::{Value, json};

use super::answer::Served;
use super::store::{Place, Refused, Store};
use super::{Body, Shared};

/// A path taken apart.
struct Target {
    served: Served,
    place: Place,
    subresource: String,
}

pub(super) async fn route(request: Request<Incoming>, shared: &Shared) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let request = Request::from_parts(head, ());
    let Some(target) = target(request.uri().path(), shared) else {
        return shared.wire.refusal(&request, 404, "NotFound", "no such path");
    };
    let query = query(request.uri().query().unwrap_or_default());
    if request.method() == "GET" && target.place.name.is_empty() {
        return match query.get("watch") {
            Some(_) => watch(&request, target, &query, shared),
            None => list(&request, &target, &query, shared),
        };
    }
    let code = if request.method() == "POST" { 201 } else { 200 };
    match write(&request, &target, &body, shared) {
        Ok(object) => shared.wire.object(&request, &target.served, code, &object),
        Err((code, reason, message)) => shared.wire.refusal(&request, code, reason, &message),
    }
}

fn target(path: &str, shared: &Shared) -> Option<Target> {
    let mut parts = path.trim_start_matches('/').split('/');
    let group = match parts.next()? {
        "api" => "",
        "apis" => parts.next()?,
        _ => return None,
    };
    parts.next().filter(|version| *version == "v1")?;
    let rest: Vec<&str> = parts.collect();
    let (namespace, rest) = match rest[..] {
        ["namespaces", namespace, _, ..] => (namespace, &rest[2..]),
        _ => ("", &rest[..]),
    };
    let served = shared.wire.served(group, rest.first()?)?;
    let decode = |text: &&str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let name = rest.get(1).map(decode).unwrap_or_default();
    let subresource = rest.get(2).map(decode).unwrap_or_default();
    Some(Target { place: Place::new(&served.plural, namespace, &name), served, subresource })
}

fn query(text: &str) -> HashMap<String, String> {
    let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), decode(value))).collect()
}

fn write(request: &Request<()>, target: &Target, body: &Bytes, shared: &Shared) -> Result<Value, Refused> {
    let (store, place) = (&shared.store, &target.place);
    let content_type =
        request.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or("");
    let read = |served: &Served| shared.wire.read(served, content_type, body);
    match (request.method().as_str(), target.subresource.as_str()) {
        ("GET", "") => store.get(&place.plural, &place.namespace, &place.name).ok_or((
            404,
            "NotFound",
            format!("{} not found", place.name),
        )),
        ("POST", "binding") => {
            let binding = read(&shared.wire.body_type("core.v1.Binding"));
            store.change(place, |pod| bound(pod, &binding))
        }
        ("POST", "") => {
            let object = read(&target.served);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let name = match object["metadata"]["generateName"].as_str() {
                Some(prefix) if name.is_empty() => store.generated_name(prefix),
                _ => name.to_owned(),
            };
            store.create(&Place { name, ..place.clone() }, object)
        }
        ("PUT", _) => {
            let object = read(&target.served);
            store.change(place, |before| replaced(before, object))
        }
        ("PATCH", _) => {
            let patch: Value = serde_json::from_slice(body).unwrap();
            store.change(place, |before| patched(before, &patch, content_type.contains("strategic")))
        }
        ("DELETE", "") => {
            let options = read(&shared.wire.body_type("meta.v1.DeleteOptions"));
            store.delete(place, options["preconditions"]["uid"].as_str().unwrap_or_default())
        }
        _ => Err((405, "MethodNotAllowed", "no such verb".to_owned())),
    }
}

fn bound(pod: &Value, binding: &Value) -> Result<Value, Refused> {
    let uid = &binding["metadata"]["uid"];
    if uid.is_string() && uid != &pod["metadata"]["uid"] {
        return Err((409, "Conflict", "another uid".to_owned()));
    }
    if pod["spec"]["nodeName"].is_string() {
        return Err((
            409,
            "Conflict",
            format!("pod is already assigned to node {}", pod["spec"]["nodeName"]),
        ));
    }
    let mut pod = pod.clone();
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    Ok(pod)
}

fn replaced(before: &Value, object: Value) -> Result<Value, Refused> {
    let version = &object["metadata"]["resourceVersion"];
    if version.is_string() && version != &before["metadata"]["resourceVersion"] {
        return Err((409, "Conflict", "the object has been modified".to_owned()));
    }
    Ok(object)
}

fn patched(before: &Value, patch: &Value, is_strategic: bool) -> Result<Value, Refused> {
    for condition in ["uid", "resourceVersion"] {
        let wanted = &patch["metadata"][condition];
        if wanted.is_string() && wanted != &before["metadata"][condition] {
            return Err((409, "Conflict", format!("another {condition}")));
        }
    }
    let mut object = before.clone();
    merge(&mut object, patch, is_strategic);
    Ok(object)
}

/// A merge patch; a strategic one merges conditions by their type.
fn merge(into: &mut Value, patch: &Value, is_strategic: bool) {
    let Some(members) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (name, value) in members {
        match value {
            Value::Null => {
                into.as_object_mut().unwrap().shift_remove(name);
            }
            // New conditions stand at the end here in any case.
            _ if name.starts_with("$setElementOrder/") => {}
            Value::Array(new) if is_strategic && name == "conditions" => {
                let mut all = into[name].as_array().cloned().unwrap_or_default();
                for condition in new {
                    all.retain(|held| held["type"] != condition["type"]);
                    all.push(condition.clone());
                }
                into[name] = all.into();
            }
            value => merge(&mut into[name], value, is_strategic),
        }
    }
}

/// Whether `object` meets a field selector of the form `a.b=c,d!=e`.
fn selected(object: &Value, selector: &str) -> bool {
    selector.split(',').filter(|condition| !condition.is_empty()).all(|condition| {
        let (path, wanted, is_equal) = match condition.split_once("!=") {
            Some((path, wanted)) => (path, wanted, false),
            None => {
                let (path, wanted) = condition.split_once('=').unwrap();
                (path, wanted, true)
            }
        };
        let found = path.split('.').fold(object, |value, name| &value[name]).as_str().unwrap_or_default();
        (found == wanted) == is_equal
    })
}

fn list(
    request: &Request<()>,
    target: &Target,
    query: &HashMap<String, String>,
    shared: &Shared,
) -> Response<Body> {
    let (revision, all) = shared.store.list(&target.place.plural);
    let selector = query.get("fieldSelector").map_or("", String::as_str);
    let start: usize = query.get("continue").map_or(0, |token| token.parse().unwrap());
    let limit: usize = query.get("limit").map_or(usize::MAX, |limit| limit.parse().unwrap());
    let inside = all.into_iter().filter(|(place, object)| {
        (target.place.namespace.is_empty() || place.namespace == target.place.namespace)
            && selected(object, selector)
    });
    let rest: Vec<Value> = inside.map(|(_, object)| object).skip(start).collect();
    let token = if rest.len() > limit { (start + limit).to_string() } else { String::new() };
    let items: Vec<_> = rest.into_iter().take(limit).collect();
    let list = json!({
        "metadata": { "resourceVersion": revision.to_string(), "continue": token },
        "items": items,
    });
    shared.wire.list(request, &target.served, &list)
}

struct Watching {
    store: Store,
    changed: tokio::sync::watch::Receiver<u64>,
    plural: String,
    selector: String,
    revision: u64,
    breaks: u64,
}

fn watch(
    request: &Request<()>,
    target: Target,
    query: &HashMap<String, String>,
    shared: &Shared,
) -> Response<Body> {
    let (store, wire) = (shared.store.clone(), shared.wire.clone());
    let watching = Watching {
        changed: store.subscribe(),
        plural: target.place.plural.clone(),
        selector: query.get("fieldSelector").cloned().unwrap_or_default(),
        revision: query.get("resourceVersion").map_or(0, |version| version.parse().unwrap()),
        breaks: store.breaks(),
        store,
    };
    let is_protobuf = wire.wants_protobuf(request);
    let stream = stream::unfold(Some(watching), move |watching| {
        let (wire, served) = (wire.clone(), target.served.clone());
        async move {
            let mut watching = watching?;
            loop {
                watching.changed.borrow_and_update();
                if watching.store.breaks() != watching.breaks {
                    return Some((Err(std::io::Error::other("planted")), None));
                }
                let Some((revision, changes)) = watching.store.since(&watching.plural, watching.revision)
                else {
                    let status =
                        json!({ "status": "Failure", "code": 410, "reason": "Expired", "message": "gone" });
                    let frame = wire.frame(is_protobuf, &wire.body_type("meta.v1.Status"), "ERROR", &status);
                    return Some((Ok(Frame::data(frame)), None));
                };
                let mut bytes = Vec::new();
                for change in changes {
                    let is_selected = selected(&change.object, &watching.selector);
                    let kind = if is_selected { change.kind } else { "DELETED" };
                    bytes.extend(wire.frame(is_protobuf, &served, kind, &change.object));
                }
                let has_moved = revision > watching.revision;
                watching.revision = revision;
                if bytes.is_empty() && has_moved {
                    let bookmark = json!({ "metadata": { "resourceVersion": revision.to_string() } });
                    bytes.extend(wire.frame(is_protobuf, &served, "BOOKMARK", &bookmark));
                }
                if !bytes.is_empty() {
                    return Some((Ok(Frame::data(Bytes::from(bytes))), Some(watching)));
                }
                watching.changed.changed().await.ok()?;
            }
        }
    });
    let body = StreamBody::new(stream).boxed_unsync();
    Response::builder().status(200).body(body).unwrap()
}
