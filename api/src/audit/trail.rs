//! The audit of one request, from its arrival to the end of its response.
//!
//! Owns the order of its events. The gate opens the trail when the user is known; [`Trail::answer`] ends it with the response.
//! A request that ends without either (its client left) is ended when its exchange is dropped.
//!
//!     Undecided -> Ignored                                   the policy wants no events
//!     Undecided -> Open -> Closed                            RequestReceived ... ResponseComplete
//!     Undecided -> Closed                                    refused for its credentials: ResponseStarted
//!
//! Invariant: an open trail gets exactly one ResponseComplete, unless the policy omits that stage.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, StatusCode, Uri};
use orch_schema::value::Value;

use super::draft::{Document, Draft, ResponseStatus};
use super::event::{Event, Facts};
use super::sink::NotStored;
use super::stage::{Level, Stage};
use super::{Auditor, DOCUMENT_BYTES_MAX, Outcomes, settle};
use crate::authn::User;
use crate::authz::{Asked, Attributes};
use crate::request::{Query, TargetPath, parse_path};
use crate::status::Status;

/// Annotations of one request by its stages: a few each of a few plugins.
const ANNOTATIONS_MAX: usize = 64;

/// Bytes of one annotation.
const ANNOTATION_BYTES_MAX: usize = 4096;

/// The outcome of a request whose client left before the response. Nothing is known of what was carried out.
const CLIENT_GONE: (u16, &str) = (499, "Connection closed early");

/// The audit of one request.
pub struct Trail {
    auditor: Arc<Auditor>,
    uri: Uri,
    /// Address of the connection's peer.
    peer: Option<IpAddr>,
    progress: Mutex<Progress>,
    /// Name and text of each annotation, in the order in which they were made.
    annotations: Mutex<Vec<(String, String)>>,
}

enum Progress {
    Undecided,
    Ignored,
    Open(Box<Draft>),
    Closed,
}

impl Trail {
    /// The trail of a request for `uri` that came from `peer`.
    pub fn new(auditor: &Arc<Auditor>, uri: &Uri, peer: Option<IpAddr>) -> Trail {
        let (progress, annotations) = (Mutex::new(Progress::Undecided), Mutex::default());
        // A copy: a clone would hold the head of the request as long as the trail.
        let uri = uri.to_string().parse().unwrap_or_else(|_| uri.clone());
        Trail { auditor: auditor.clone(), uri, peer, progress, annotations }
    }

    /// Bytes of memory that the trail holds of the request's path and query.
    pub(crate) fn held_bytes(&self) -> usize {
        self.uri.path_and_query().map_or(0, |path| path.as_str().len())
    }

    /// Decides by the policy whether the request is audited, and stores the event of its arrival.
    ///
    /// # Errors
    /// A sink without which no request may be carried out has not stored it.
    pub(crate) async fn receive(
        &self,
        facts: &Facts<'_>,
        user: &Arc<User>,
        headers: &HeaderMap,
        attributes: Attributes<'_>,
    ) -> Result<(), NotStored> {
        self.open(Some(user.clone()), headers, attributes);
        let stored = settle(self.emit(facts, Stage::RequestReceived)).await;
        if stored.is_err() {
            metrics::counter!("apiserver_audit_requests_rejected_total").increment(1);
        }
        stored
    }

    /// Whether events hold what requests send.
    pub(crate) fn shows_requests(&self) -> bool {
        self.level() >= Level::Request
    }

    /// Whether events hold what requests are answered with.
    pub(crate) fn shows_responses(&self) -> bool {
        self.level() >= Level::RequestResponse
    }

    /// Completes the reference to the object by the `metadata` that was sent.
    pub(crate) fn refer_to(&self, name: &str, namespace: &str, uid: &str, resource_version: &str) {
        self.with_draft(|draft| draft.refer_to(name, namespace, uid, resource_version));
    }

    /// Stores the document that was sent. `document` is called where events hold it.
    pub(crate) fn record_request(&self, document: impl FnOnce() -> Document) {
        self.with_draft(|draft| draft.set_request(document));
    }

    /// Stores the document that was answered.
    pub(crate) fn record_response(&self, document: Document) {
        self.with_draft(|draft| draft.set_response(document));
    }

    /// Stores the Status that was answered with the HTTP code `code`.
    pub(crate) fn record_status(&self, status: &Status, code: u16) {
        self.with_draft(|draft| draft.set_status(status.to_value(), code));
    }

    /// Stores the constraint under which the user acts as another.
    pub(crate) fn record_constraint(&self, constraint: Option<String>) {
        self.with_draft(|draft| draft.constraint = constraint);
    }

    /// Adds an annotation. The first one of a name counts, as in the reference.
    pub(crate) fn annotate(&self, name: String, mut text: String) {
        let mut annotations = self.annotations.lock().unwrap_or_else(PoisonError::into_inner);
        // few: `ANNOTATIONS_MAX`.
        if annotations.len() < ANNOTATIONS_MAX && !annotations.iter().any(|(known, _)| *known == name) {
            text.truncate(text.floor_char_boundary(ANNOTATION_BYTES_MAX));
            annotations.push((name, text));
        }
    }

    /// Stores the events of a response with `code` that is about to be sent. `true`: it lasts, so that its last event is that
    /// of [`Trail::close`], when it ends.
    pub(crate) async fn answer(
        &self,
        facts: &Facts<'_>,
        headers: &HeaderMap,
        code: StatusCode,
        lasts: bool,
    ) -> bool {
        if self.is_undecided() {
            let is_refused = facts.user.is_none() && code == StatusCode::UNAUTHORIZED;
            let anonymous = || (!is_refused).then(|| Arc::new(User::anonymous()));
            self.open_late(facts.user.cloned().or_else(anonymous), facts, headers);
            if is_refused {
                self.record_status(&Status::unauthorized(), code.as_u16());
                let outcomes = self.emit(facts, Stage::ResponseStarted);
                *self.progress() = Progress::Closed;
                // The response is the same: nothing was carried out.
                let _ = settle(outcomes).await;
                return false;
            }
            let _ = settle(self.emit(facts, Stage::RequestReceived)).await;
        }
        self.with_draft(|draft| {
            draft.status.get_or_insert(ResponseStatus::Code(code.as_u16()));
        });
        // Later events than the first keep no request from being answered: it has been carried out.
        let outcomes = if lasts { self.emit(facts, Stage::ResponseStarted) } else { self.close(facts) };
        let _ = settle(outcomes).await;
        lasts
    }

    /// Ends an open trail whose client left before the response. Waits for no sink.
    pub(crate) fn abandon(&self, facts: &Facts<'_>) {
        self.with_draft(|draft| {
            let (code, message) = CLIENT_GONE;
            let status = orch_schema::json!({"metadata": {}, "status": "Failure", "message": message});
            draft.set_status(status, code);
            draft.response = None;
        });
        self.close(facts);
    }

    /// Opens the trail, unless the policy wants no events.
    fn open(&self, user: Option<Arc<User>>, headers: &HeaderMap, attributes: Attributes<'_>) {
        let decision = self.auditor.policy.load().decide(user.as_deref(), attributes);
        metrics::counter!("apiserver_audit_level_total", "level" => decision.level.as_str()).increment(1);
        let progress = match decision.level {
            Level::None => Progress::Ignored,
            Level::Metadata | Level::Request | Level::RequestResponse => {
                let draft = Draft::new(decision, user, attributes, &self.uri, headers, self.peer);
                Progress::Open(Box::new(draft))
            }
        };
        *self.progress() = progress;
    }

    /// Hands the event of `stage` to the sinks, unless the policy omits it.
    fn emit(&self, facts: &Facts<'_>, stage: Stage) -> Outcomes {
        let progress = self.progress();
        let Progress::Open(draft) = &*progress else { return Outcomes::new() };
        if draft.decision.omitted.has(stage) {
            return Outcomes::new();
        }
        let annotations = self.annotations.lock().unwrap_or_else(PoisonError::into_inner);
        let (brand, at) = (self.auditor.brand, self.auditor.ambient.now());
        let event = Event { brand, facts, draft, annotations: &annotations, stage, at };
        self.auditor.hand_over(&event)
    }

    /// Hands over the last event of an open trail.
    pub(crate) fn close(&self, facts: &Facts<'_>) -> Outcomes {
        let outcomes = self.emit(facts, Stage::ResponseComplete);
        *self.progress() = Progress::Closed;
        outcomes
    }

    fn level(&self) -> Level {
        match &*self.progress() {
            Progress::Open(draft) => draft.decision.level,
            Progress::Undecided | Progress::Ignored | Progress::Closed => Level::None,
        }
    }

    fn is_undecided(&self) -> bool {
        matches!(*self.progress(), Progress::Undecided)
    }

    fn with_draft(&self, change: impl FnOnce(&mut Draft)) {
        if let Progress::Open(draft) = &mut *self.progress() {
            change(draft);
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the trail of a request that did not reach the gate's decision: its credentials were refused, its path
    /// needs none, or its path cannot be read.
    fn open_late(&self, user: Option<Arc<User>>, facts: &Facts<'_>, headers: &HeaderMap) {
        let Some(method) = facts.method else { return };
        let query = Query::parse(self.uri.query().unwrap_or(""));
        match parse_path(self.uri.path()) {
            TargetPath::Resource(target) => {
                let asked = Asked::of(method, &target, &query);
                self.open(user, headers, Attributes::Resource(asked.attributes(&target, &query)));
            }
            TargetPath::Other | TargetPath::Malformed => {
                let (verb, path) = (method.as_str().to_ascii_lowercase(), self.uri.path());
                self.open(user, headers, Attributes::Path { verb: &verb, path });
            }
        }
    }
}

impl fmt::Debug for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trail").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// A rendered document for an event.
pub(crate) fn document(frames: impl Iterator<Item = bytes::Bytes>, bytes: usize) -> Document {
    if bytes > DOCUMENT_BYTES_MAX {
        return Document::TooLong;
    }
    let mut text = Vec::with_capacity(bytes);
    frames.for_each(|frame| text.extend_from_slice(&frame));
    text.truncate(text.trim_ascii_end().len());
    Document::Object(text.into())
}

/// A document that was sent as a tree: JSON with its `kind` and `apiVersion` before the members of `body`, which is JSON
/// of an object.
pub(crate) fn with_head(kind: &str, api_version: &str, body: &[u8]) -> Vec<u8> {
    let head = orch_schema::json!({"kind": kind, "apiVersion": api_version});
    let head = Value::to_string(&head);
    let mut text = Vec::with_capacity(head.len() + body.len());
    text.extend_from_slice(head.as_bytes());
    if body.len() > 2 {
        text.pop();
        text.push(b',');
        text.extend_from_slice(&body[1..]);
    }
    text
}
