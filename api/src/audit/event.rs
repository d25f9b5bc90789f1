//! The JSON form of an event: `Event` of the group `audit`, version v1, on one line.
//!
//! Owns the form, with members in the reference's order. Everything in it has passed `redaction` before.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use memchr::memmem;
use orch_proto::Brand;
use orch_schema::value::Value;
use orch_schema::write_value;

use super::cut::{MESSAGE_BYTES_MAX, cut};
use super::draft::{Draft, ObjectReference, ResponseStatus};
use super::stage::Stage;
use crate::ambient::Timestamp;
use crate::authn::User;
use crate::authz::Ruling;

/// The part of an event that the request itself gives, beside its draft.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    /// The request's id, cut.
    pub(crate) id: Cow<'a, str>,
    /// When the request arrived.
    pub(crate) received: Timestamp,
    /// `None` for requests that start inside the node.
    pub(crate) method: Option<&'a Method>,
    /// The authenticated user; `None` before the gate.
    pub(crate) user: Option<&'a Arc<User>>,
    /// The user as whom it acts; `None` where it acts as itself.
    pub(crate) impersonated: Option<&'a Arc<User>>,
    /// The ruling of the authorizers; `None` before it.
    pub(crate) ruling: Option<&'a Ruling>,
}

/// An event to be written.
pub(super) struct Event<'a> {
    pub(super) brand: &'static Brand,
    pub(super) facts: &'a Facts<'a>,
    pub(super) draft: &'a Draft,
    pub(super) annotations: &'a [(String, String)],
    pub(super) stage: Stage,
    pub(super) at: Timestamp,
}

/// Whether an event shows its objects, and all of its Status.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Objects {
    Shown,
    LeftOut,
}

/// The first bytes of every event: its `kind` and `apiVersion`.
fn event_head(brand: &Brand) -> String {
    format!(r#"{{"kind":"Event","apiVersion":"{}/v1","#, brand.group("audit"))
}

/// Events as the body of one request to a webhook: an `EventList`, whose items have neither `kind` nor `apiVersion`.
pub fn event_list(events: &[Bytes]) -> Vec<u8> {
    const LEVEL: &[u8] = br#""level":"#;
    let bytes: usize = events.iter().map(|event| event.len() + 1).sum();
    let mut list = Vec::with_capacity(bytes + 128);
    list.extend_from_slice(br#"{"kind":"EventList","apiVersion":"#);
    for (at, event) in events.iter().enumerate() {
        // The head of an event ends where its level begins.
        let (head, members) = event.split_at(memmem::find(event, LEVEL).unwrap_or_default());
        if at == 0 {
            let version =
                head.strip_prefix(br#"{"kind":"Event","apiVersion":"#.as_slice()).unwrap_or_default();
            list.extend_from_slice(version);
            list.extend_from_slice(br#""metadata":{},"items":["#);
        } else {
            list.push(b',');
        }
        list.push(b'{');
        list.extend_from_slice(members);
    }
    list.extend_from_slice(b"]}");
    list
}

impl Event<'_> {
    /// The event as JSON.
    pub(super) fn write(&self) -> Vec<u8> {
        self.write_with(Objects::Shown)
    }

    /// The event within `bytes_max`, without its objects and the details of its Status. `None`: it is longer even so.
    pub(super) fn write_within(&self, bytes_max: usize) -> Option<Vec<u8>> {
        Some(self.write_with(Objects::LeftOut)).filter(|event| event.len() <= bytes_max)
    }

    fn write_with(&self, objects: Objects) -> Vec<u8> {
        let draft = self.draft;
        let mut out = Members(Vec::with_capacity(1024));
        out.0.extend_from_slice(event_head(self.brand).as_bytes());
        out.text("level", draft.decision.level.as_str());
        out.text("auditID", &self.facts.id);
        out.text("stage", self.stage.as_str());
        out.text("requestURI", &draft.uri);
        out.text("verb", &draft.verb);
        out.member("user");
        write_user(&mut out.0, draft.user.as_deref());
        if let Some(user) = self.facts.impersonated {
            out.member("impersonatedUser");
            write_user(&mut out.0, Some(user));
        }
        if let Some(constraint) = &draft.constraint {
            out.member("authenticationMetadata");
            out.object(|inner| inner.text("impersonationConstraint", constraint));
        }
        out.member("sourceIPs");
        write_list(&mut out.0, draft.sources.iter().map(ToString::to_string));
        out.optional("userAgent", &draft.user_agent);
        if let Some(object) = &draft.object {
            out.member("objectRef");
            out.object(|inner| write_reference(inner, object));
        }
        match &draft.status {
            None => {}
            Some(ResponseStatus::Code(code)) => {
                out.member("responseStatus");
                out.0.extend_from_slice(format!(r#"{{"metadata":{{}},"code":{code}}}"#).as_bytes());
            }
            Some(ResponseStatus::Status(status)) => {
                out.member("responseStatus");
                match objects {
                    Objects::Shown => write_value(status, &mut out.0),
                    Objects::LeftOut => write_value(&brief(status), &mut out.0),
                }
            }
        }
        for (name, object) in [("requestObject", &draft.request), ("responseObject", &draft.response)] {
            if let Some(object) = object.as_ref().filter(|_| objects == Objects::Shown) {
                out.member(name);
                out.0.extend_from_slice(object);
            }
        }
        let received = self.facts.received;
        let at = if self.stage == Stage::RequestReceived { received } else { self.at };
        out.text("requestReceivedTimestamp", &received.micros_text());
        out.text("stageTimestamp", &at.micros_text());
        self.write_annotations(&mut out, objects);
        out.0.push(b'}');
        out.0
    }

    fn write_annotations(&self, out: &mut Members, objects: Objects) {
        let mut all: Vec<(String, &str)> =
            self.annotations.iter().map(|(name, text)| (name.clone(), text.as_str())).collect();
        let reason;
        if let Some(ruling) = self.facts.ruling {
            let group = self.brand.group("authorization");
            reason = ruling.reason();
            all.push((format!("{group}/decision"), decision(ruling)));
            all.push((format!("{group}/reason"), &reason));
        }
        if self.draft.is_truncated || objects == Objects::LeftOut {
            all.push((format!("{}/truncated", self.brand.group("audit")), "true"));
        }
        if all.is_empty() {
            return;
        }
        all.sort_unstable();
        out.member("annotations");
        out.object(|inner| all.iter().for_each(|(name, text)| inner.text(name, text)));
    }
}

/// `status` without its details, and with a short message: both may quote what the client sent.
fn brief(status: &Value) -> Value {
    let mut brief = status.clone();
    if let Some(members) = brief.as_object_mut() {
        members.shift_remove("details");
    }
    if let Some(message) = brief.get_mut("message") {
        let text = cut(message.as_str().unwrap_or_default(), MESSAGE_BYTES_MAX);
        *message = Value::from(text.as_str());
    }
    brief
}

fn decision(ruling: &Ruling) -> &'static str {
    if ruling.is_allowed() { "allow" } else { "forbid" }
}

/// Members of an object that is being written. The buffer ends with its brace, or with a member.
struct Members(Vec<u8>);

impl Members {
    /// Writes a member's name and what separates it from the one before.
    fn member(&mut self, name: &str) {
        if !matches!(self.0.last(), Some(b'{' | b',')) {
            self.0.push(b',');
        }
        write_text(&mut self.0, name);
        self.0.push(b':');
    }

    fn text(&mut self, name: &str, text: &str) {
        self.member(name);
        write_text(&mut self.0, text);
    }

    /// A member that is left out where it is empty.
    fn optional(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.text(name, text);
        }
    }

    fn object(&mut self, write: impl FnOnce(&mut Members)) {
        self.0.push(b'{');
        write(self);
        self.0.push(b'}');
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a text is always written to memory");
}

fn write_list(out: &mut Vec<u8>, texts: impl Iterator<Item = impl AsRef<str>>) {
    out.push(b'[');
    for (at, text) in texts.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_text(out, text.as_ref());
    }
    out.push(b']');
}

fn write_user(out: &mut Vec<u8>, user: Option<&User>) {
    let mut members = Members(std::mem::take(out));
    members.object(|inner| {
        let Some(user) = user else { return };
        inner.optional("username", &user.name);
        inner.optional("uid", &user.uid);
        if !user.groups.is_empty() {
            inner.member("groups");
            write_list(&mut inner.0, user.groups.iter());
        }
        if !user.extra.is_empty() {
            inner.member("extra");
            inner.object(|extra| {
                for (name, values) in &user.extra {
                    extra.member(name);
                    write_list(&mut extra.0, values.iter());
                }
            });
        }
    });
    *out = members.0;
}

fn write_reference(out: &mut Members, object: &ObjectReference) {
    for (name, text) in [
        ("resource", &object.resource),
        ("namespace", &object.namespace),
        ("name", &object.name),
        ("uid", &object.uid),
        ("apiGroup", &object.group),
        ("apiVersion", &object.version),
        ("resourceVersion", &object.resource_version),
        ("subresource", &object.subresource),
    ] {
        out.optional(name, text);
    }
}
