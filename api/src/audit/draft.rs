//! The facts of an audited request, gathered on its way.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Uri};
use orch_schema::value::Value;
use orch_schema::write_value;

use super::DOCUMENT_BYTES_MAX;
use super::cut::{NAME_BYTES_MAX, URI_BYTES_MAX, cut};
use super::policy::Decision;
use super::redaction::{Author, Confidential, REDACTED, scrub, uri_text};
use super::source::{Sources, sources, user_agent};
use super::stage::Level;
use crate::authn::User;
use crate::authz::Attributes;

/// The content of a request's events.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) decision: Decision,
    /// The authenticated user; absent if the credentials were refused.
    pub(super) user: Option<Arc<User>>,
    pub(super) verb: String,
    pub(super) uri: String,
    pub(super) sources: Sources,
    pub(super) user_agent: String,
    /// Absent for a path that names no resource.
    pub(super) object: Option<ObjectReference>,
    confidential: Option<Confidential>,
    /// JSON of the object that was sent.
    pub(super) request: Option<Bytes>,
    /// JSON of the object that was answered.
    pub(super) response: Option<Bytes>,
    /// An object was left out because it is too long.
    pub(super) is_truncated: bool,
    pub(super) status: Option<ResponseStatus>,
    /// The constraint under which the user acts as another; absent for the unconstrained form.
    pub(super) constraint: Option<String>,
}

/// The object or collection that a request is about.
#[derive(Debug, Default)]
pub(super) struct ObjectReference {
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) group: String,
    pub(super) version: String,
    pub(super) resource_version: String,
    pub(super) subresource: String,
}

/// The outcome of a request.
#[derive(Debug)]
pub(super) enum ResponseStatus {
    /// An answer other than a Status, with its HTTP code.
    Code(u16),
    /// A Status, without `kind` and `apiVersion`.
    Status(Value),
}

impl Draft {
    pub(super) fn new(
        decision: Decision,
        user: Option<Arc<User>>,
        attributes: Attributes<'_>,
        uri: &Uri,
        headers: &HeaderMap,
        peer: Option<std::net::IpAddr>,
    ) -> Draft {
        let (verb, object, confidential) = match attributes {
            Attributes::Path { verb, .. } => (verb, None, None),
            Attributes::Resource(asked) => {
                let object = ObjectReference {
                    resource: cut(asked.resource, NAME_BYTES_MAX),
                    namespace: cut(asked.namespace, NAME_BYTES_MAX),
                    name: cut(asked.name, NAME_BYTES_MAX),
                    group: cut(asked.group, NAME_BYTES_MAX),
                    version: cut(asked.version, NAME_BYTES_MAX),
                    subresource: cut(asked.subresource, NAME_BYTES_MAX),
                    ..ObjectReference::default()
                };
                (asked.verb, Some(object), Confidential::of(&asked))
            }
        };
        Draft {
            decision,
            user,
            verb: cut(verb, NAME_BYTES_MAX),
            uri: cut(&uri_text(uri), URI_BYTES_MAX),
            sources: sources(headers, peer),
            user_agent: user_agent(headers),
            object,
            confidential,
            request: None,
            response: None,
            is_truncated: false,
            status: None,
            constraint: None,
        }
    }

    /// Completes the reference to the object by the metadata that was sent.
    pub(super) fn refer_to(&mut self, name: &str, namespace: &str, uid: &str, resource_version: &str) {
        let Some(object) = &mut self.object else { return };
        for (own, sent) in [
            (&mut object.name, name),
            (&mut object.namespace, namespace),
            (&mut object.uid, uid),
            (&mut object.resource_version, resource_version),
        ] {
            if own.is_empty() {
                *own = cut(sent, NAME_BYTES_MAX);
            }
        }
    }

    /// Stores the object that was sent, unless one is stored: a request that is tried again is decoded again.
    pub(super) fn set_request(&mut self, document: impl FnOnce() -> Document) {
        if self.decision.level >= Level::Request && self.request.is_none() {
            self.request = self.shown(document(), Author::Client);
        }
    }

    /// Stores the object that was answered.
    pub(super) fn set_response(&mut self, document: Document) {
        if self.decision.level >= Level::RequestResponse {
            self.response = self.shown(document, Author::Server);
        }
    }

    /// Stores the Status that was answered. Of a failure that may quote a confidential object, the texts are left out.
    pub(super) fn set_status(&mut self, mut status: Value, code: u16) {
        if self.confidential.is_some() && Confidential::may_be_quoted_in(code) {
            redact_texts(&mut status);
        }
        if self.decision.level >= Level::RequestResponse {
            let mut text = Vec::new();
            write_value(&status, &mut text);
            self.response = Some(text.into());
        }
        if let Some(members) = status.as_object_mut() {
            members.shift_remove("kind");
            members.shift_remove("apiVersion");
            if code != 0 {
                members.insert("code", Value::from(u64::from(code)));
            }
        }
        self.status = Some(ResponseStatus::Status(status));
    }

    /// `document` as an event shows it; `None` if it is too long or cannot be read.
    fn shown(&mut self, document: Document, author: Author) -> Option<Bytes> {
        let is_changed = self.confidential.is_some() || self.decision.omits_managed_fields;
        let text = match document {
            Document::Object(text) if !is_changed => Some(text),
            Document::Object(text) => {
                serde_json::from_slice(&text).ok().map(|value| self.scrubbed(value, author))
            }
            Document::Value(value) => Some(self.scrubbed(value, author)),
            Document::Options(text) => Some(text),
            Document::TooLong => None,
        };
        let text = text.filter(|text| text.len() <= DOCUMENT_BYTES_MAX);
        self.is_truncated |= text.is_none();
        text
    }

    fn scrubbed(&self, mut value: Value, author: Author) -> Bytes {
        scrub(&mut value, author, self.confidential, self.decision.omits_managed_fields);
        let mut text = Vec::new();
        write_value(&value, &mut text);
        text.into()
    }
}

/// A document of a request or a response.
#[derive(Debug)]
pub(crate) enum Document {
    /// JSON of an object, a list or a table, without line breaks.
    Object(Bytes),
    /// The same, or a patch, as a tree.
    Value(Value),
    /// JSON of options, which hold nothing confidential.
    Options(Bytes),
    /// A document that is too long for an event.
    TooLong,
}

fn redact_texts(status: &mut Value) {
    if let Some(message) = status.get_mut("message") {
        *message = Value::from(REDACTED);
    }
    let causes = status.get_mut("details").and_then(|details| details.get_mut("causes"));
    for cause in causes.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(message) = cause.get_mut("message") {
            *message = Value::from(REDACTED);
        }
    }
}
