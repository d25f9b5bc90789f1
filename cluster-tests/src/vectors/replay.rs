//! Runs the steps of one scenario: sends requests, opens and collects watches ([`super::watches`]), waits, saves values for later
//! steps.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use regex::{Captures, Regex};
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use super::Users;
use super::claims::claims;
use super::expected::expected;
use super::normalize::normalize;
use super::pick::{find, is_awaited, trimmed};
use super::servers::Servers;
use super::spelling::spelled;
use super::watches::OpenWatch;
use crate::client::{Client, Response};

/// Time that a `collect` waits for its events unless the step has its own.
const COLLECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that a step with `until` waits unless it has its own.
const UNTIL_TIMEOUT: Duration = Duration::from_secs(15);

/// Interval of its requests.
const UNTIL_INTERVAL: Duration = Duration::from_millis(50);

/// Time that a `collect` waits for surplus events.
const SETTLE: Duration = Duration::from_millis(300);

/// Timeout of a watch's response head.
const WATCH_OPEN_TIMEOUT: Duration = Duration::from_secs(60);

/// The headers that are part of an expectation.
const JUDGED_HEADERS: [&str; 5] = ["Warning", "Retry-After", "Allow", "WWW-Authenticate", "Location"];

/// One pass over one scenario.
pub(super) struct Run<'a> {
    users: &'a Users,
    saved: HashMap<String, String>,
    /// The same with their types.
    values: HashMap<String, Value>,
    watches: HashMap<String, OpenWatch>,
    /// Webhooks and aggregated APIs of the scenario.
    servers: Servers,
    placeholder: Regex,
}

/// Title of a step in reports.
pub(super) fn title(step: &Map<String, Value>) -> String {
    match step.get("do").and_then(Value::as_str) {
        Some(request) => request.to_owned(),
        None if step.contains_key("relate") => "relate".to_owned(),
        None if step.contains_key("served") => format!("served {}", text(step, "served")),
        None if step.contains_key("claims") => format!("claims of {}", text(step, "claims")),
        None => format!("collect {}", text(step, "collect")),
    }
}

impl<'a> Run<'a> {
    /// A pass without saved values.
    pub(super) fn new(users: &'a Users) -> Self {
        let placeholder = Regex::new(r"\$\{((?:url:|port:)?\w+)\}").expect("the pattern is valid");
        let (saved, values, watches) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { users, saved, values, watches, servers: Servers::default(), placeholder }
    }

    /// `want` with the values that were saved up to now.
    pub(super) fn expected(&self, want: &Value) -> Value {
        expected(want, &self.values)
    }

    /// Runs one step and returns the normalized response; null for a step that waits.
    pub(super) async fn step(&mut self, recorded: &Map<String, Value>) -> Result<Value> {
        let answer = self.run(recorded).await?;
        self.servers.named(answer)
    }

    async fn run(&mut self, recorded: &Map<String, Value>) -> Result<Value> {
        if let Some(seconds) = recorded.get("wait").and_then(Value::as_f64) {
            sleep(Duration::from_secs_f64(seconds)).await;
            return Ok(Value::Null);
        }
        let mut step = Map::new();
        for (name, value) in recorded {
            if name != "expect" && name != "save" {
                step.insert(name.clone(), self.substitute(value)?);
            }
        }
        if let Some(told) = self.servers.step(&step, &mut self.saved).await? {
            return Ok(trimmed(normalize(told, None), &omitting(&step)));
        }
        if let Some(name) = step.get("claims").and_then(Value::as_str) {
            let token = self.saved.get(name).with_context(|| format!("nothing was saved as `{name}`"))?;
            return Ok(json!({"claims": normalize(claims(token)?, None)}));
        }
        if let Some(values) = step.get("relate").and_then(Value::as_array) {
            let distinct: HashSet<String> = values.iter().map(Value::to_string).collect();
            return Ok(json!({"distinct": distinct.len() == values.len()}));
        }
        if let Some(watch) = step.get("collect").and_then(Value::as_str) {
            return self.collect(watch, &step).await;
        }
        let request = text(&step, "do");
        let (method, path) = request.split_once(' ').context("a step has neither request nor wait")?;
        if let Some(watch) = step.get("watch").and_then(Value::as_str) {
            return self.open(watch, path, &step).await;
        }
        let (answer, body) = self.ask(method, path, &step).await?;
        if let Some(save) = recorded.get("save").and_then(Value::as_object) {
            self.save(save, &answer, &body);
        }
        let body = trimmed(body, &step);
        Ok(judged(answer.status, &answer.headers, body))
    }

    /// Sends the request of a step, again and again until the answer is as `until` says. The last answer counts.
    async fn ask(&self, method: &str, path: &str, step: &Map<String, Value>) -> Result<(Response, Value)> {
        let deadline = Instant::now() + seconds(step, "within").unwrap_or(UNTIL_TIMEOUT);
        loop {
            let answer = self.send(method, path, step).await?;
            let body = decode(&answer.body, content_type(&answer.headers));
            let seen = json!({"status": answer.status, "body": body});
            if is_awaited(&seen, step) || Instant::now() >= deadline {
                return Ok((answer, body));
            }
            sleep(UNTIL_INTERVAL).await;
        }
    }

    async fn send(&self, method: &str, path: &str, step: &Map<String, Value>) -> Result<Response> {
        let mut headers = headers(step);
        let (body, is_document) = body(step)?;
        let has_type = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if is_document && !has_type {
            headers.push(("Content-Type".into(), "application/json".into()));
        }
        let headers = borrowed(&headers);
        self.user(step)?.send(method.parse::<Method>()?, path, &headers, body).await
    }

    async fn open(&mut self, name: &str, path: &str, step: &Map<String, Value>) -> Result<Value> {
        let headers = headers(step);
        let headers = borrowed(&headers);
        let user = self.user(step)?;
        let opening = user.start(Method::GET, path, &headers, Bytes::new());
        let (connection, answer) = timeout(WATCH_OPEN_TIMEOUT, opening).await??;
        let (head, body) = answer.into_parts();
        let status = head.status.as_u16();
        let mut answer = opened(status, &head.headers);
        let watch = if status == 200 {
            OpenWatch::reading(body, connection)
        } else {
            let content = timeout(WATCH_OPEN_TIMEOUT, body.collect()).await??.to_bytes();
            let body = decode(&content, content_type(&head.headers));
            answer.insert("body".into(), normalize(body, None));
            OpenWatch::refused()
        };
        self.watches.insert(name.to_owned(), watch);
        Ok(Value::Object(answer))
    }

    async fn collect(&mut self, name: &str, step: &Map<String, Value>) -> Result<Value> {
        let watch = self.watches.get(name).with_context(|| format!("no watch `{name}` is open"))?;
        let count = step.get("count").and_then(Value::as_u64).unwrap_or_default();
        let patience = seconds(step, "timeout").unwrap_or(COLLECT_TIMEOUT);
        let mut events = watch.take(count, patience, seconds(step, "settle").unwrap_or(SETTLE)).await;
        // A periodic bookmark may come at any time.
        events
            .retain(|event| event["type"] != "BOOKMARK" || event.to_string().contains("initial-events-end"));
        Ok(json!({"events": trimmed(normalize(Value::Array(events), None), step)}))
    }

    fn user(&self, step: &Map<String, Value>) -> Result<Client> {
        match step.get("as").and_then(Value::as_str) {
            None | Some("admin") => Ok(self.users.admin.clone()),
            Some("alice") => Ok(self.users.alice.clone()),
            Some("anonymous") => Ok(self.users.anonymous.clone()),
            Some(other) => match other.strip_prefix("token:") {
                Some(token) => Ok(self.users.anonymous.with_token(token)),
                None => bail!("no client for the user {other}"),
            },
        }
    }

    fn save(&mut self, save: &Map<String, Value>, answer: &Response, body: &Value) {
        for (name, path) in save {
            let path = path.as_str().unwrap_or_default();
            if let Some(value) = find(body, path) {
                self.values.insert(name.clone(), value.clone());
            }
            let value = match path {
                "$raw" => Some(STANDARD.encode(&answer.body)),
                path => find(body, path).map(|value| match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                }),
            };
            self.saved.insert(name.clone(), value.unwrap_or_else(|| format!("<unsaved:{path}>")));
        }
    }

    /// `value` with every `${name}` in its strings replaced by the value saved under that name.
    fn substitute(&self, value: &Value) -> Result<Value> {
        Ok(match value {
            Value::String(text) => {
                let replaced = self.substitute_text(text)?;
                // A number where a number belongs.
                let is_port = text.starts_with("${port:") && text.find('}') == Some(text.len() - 1);
                match replaced.parse::<u64>().ok().filter(|_| is_port) {
                    Some(port) => json!(port),
                    None => Value::String(replaced),
                }
            }
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.substitute(item)).collect::<Result<_>>()?)
            }
            Value::Object(fields) => {
                let mut out = Map::new();
                for (name, field) in fields {
                    out.insert(self.substitute_text(name)?, self.substitute(field)?);
                }
                Value::Object(out)
            }
            other => other.clone(),
        })
    }

    fn substitute_text(&self, text: &str) -> Result<String> {
        let mut missing = None;
        let replaced = self.placeholder.replace_all(text, |found: &Captures<'_>| {
            let saved = self.saved.get(&found[1]);
            if saved.is_none() {
                missing = Some(found[1].to_owned());
            }
            saved.cloned().unwrap_or_default()
        });
        match missing {
            Some(name) => bail!("nothing was saved as `{name}`"),
            None => Ok(replaced.into_owned()),
        }
    }
}

/// The part of a step that leaves keys out: the calls of a server are picked from one by one.
fn omitting(step: &Map<String, Value>) -> Map<String, Value> {
    step.get("omit").map(|keys| ("omit".to_owned(), keys.clone())).into_iter().collect()
}

/// A response in the form of an expectation.
fn judged(status: u16, headers: &HeaderMap, body: Value) -> Value {
    let mut out = opened(status, headers);
    let mut kept = Map::new();
    for name in JUDGED_HEADERS {
        // Each byte is a character, as where the scenarios were recorded.
        let text = |value: &http::HeaderValue| value.as_bytes().iter().copied().map(char::from).collect();
        let values = headers.get_all(name).iter().map(text);
        let mut values: Vec<String> = values.collect();
        values.sort();
        if !values.is_empty() {
            kept.insert(name.into(), json!(values));
        }
    }
    if !kept.is_empty() {
        out.insert("headers".into(), Value::Object(kept));
    }
    out.insert("body".into(), normalize(body, None));
    Value::Object(out)
}

/// Status and content type: all that is judged of an opened watch.
fn opened(status: u16, headers: &HeaderMap) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("status".into(), json!(status));
    out.insert("contentType".into(), json!(judged_type(content_type(headers))));
    out
}

/// The content type without parameters, except those that choose a representation.
fn judged_type(content_type: &str) -> &str {
    if content_type.contains("Table") || content_type.contains("as=") {
        return content_type;
    }
    content_type.split(';').next().unwrap_or_default().trim()
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn decode(raw: &[u8], content_type: &str) -> Value {
    let as_text = || json!({"$text": String::from_utf8_lossy(raw)});
    if content_type.contains("json") {
        return serde_json::from_slice(raw).unwrap_or_else(|_| as_text());
    }
    if content_type.contains("protobuf") {
        return json!({"$base64": STANDARD.encode(raw)});
    }
    as_text()
}

/// The step's body as bytes, and `true` if it is a document (and so JSON unless a header overrides it).
fn body(step: &Map<String, Value>) -> Result<(Bytes, bool)> {
    Ok(match step.get("body") {
        None | Some(Value::Null) => (Bytes::new(), false),
        Some(Value::String(text)) => (Bytes::from(text.clone()), false),
        Some(Value::Object(fields)) if fields.contains_key("$base64") => {
            (Bytes::from(STANDARD.decode(fields["$base64"].as_str().unwrap_or_default())?), false)
        }
        Some(document) => (spelled(document)?, true),
    })
}

/// The recorder's own headers, then the step's.
fn headers(step: &Map<String, Value>) -> Vec<(String, String)> {
    let given = step.get("headers").and_then(Value::as_object);
    let mut headers: Vec<(String, String)> = given
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect();
    for (name, value) in [("User-Agent", "vectors"), ("Accept-Encoding", "identity")] {
        if !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
            headers.push((name.into(), value.into()));
        }
    }
    headers
}

fn borrowed(headers: &[(String, String)]) -> Vec<(&str, &str)> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn seconds(step: &Map<String, Value>, name: &str) -> Option<Duration> {
    step.get(name).and_then(Value::as_f64).map(Duration::from_secs_f64)
}

fn text<'v>(step: &'v Map<String, Value>, name: &str) -> &'v str {
    step.get(name).and_then(Value::as_str).unwrap_or_default()
}
