//! The context of one request, from its HTTP head to the head of its response.
//!
//! Owns the request's id, user and ruling, and its warnings (`warnings.rs`). The stages fill them in on the way in. [`Exchange::close`], called
//! once on the way out, writes the headers and the log line that every request gets. It decides nothing.

mod steps;
mod warnings;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Method, Response, Uri};
use orch_schema::excerpt::part;
use orch_spans::{ActiveSpan, SpanKind};

use crate::ambient::{Ambient, Timestamp, uuid_text};
use crate::audit::{Auditor, Facts, Trail};
use crate::authn::{Credential, Remarks, User};
use crate::authz::Ruling;
use crate::flow::Entry;

pub(crate) use self::steps::Step;
use self::steps::Steps;
use self::warnings::Warnings;

/// Identifies a request in the logs of client and server. A client may send its own id, which is returned unchanged.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Bytes of an id in a log line: a client may send one as long as headers may be.
const LOGGED_ID_BYTES_MAX: usize = 64;

/// Bytes of an id in an audit event: seven times a UUID.
const AUDITED_ID_BYTES_MAX: usize = 256;

/// The context of one request.
#[derive(Debug)]
pub struct Exchange {
    /// Absent for requests that start inside the node.
    asked: Option<RequestHead>,
    /// Absent without an auditor.
    trail: Option<Box<Trail>>,
    user: OnceLock<Arc<User>>,
    /// The user as whom the authenticated user acts.
    impersonated: OnceLock<Arc<User>>,
    ruling: OnceLock<Ruling>,
    /// The flow schema that the request belongs to.
    flow: OnceLock<Arc<Entry>>,
    warnings: Warnings,
    /// Microseconds for which it waited for webhooks and seats.
    waited_micros: AtomicU64,
    steps: Steps,
    /// Recorded or not; empty where nothing was to be told of it yet.
    trace: OnceLock<Box<ActiveSpan>>,
    is_closed: AtomicBool,
    /// Kept for watches, which are asked for it again.
    credential: OnceLock<Credential>,
    /// The moment at which the request's own time ends, on the clock of the store.
    deadline: OnceLock<Duration>,
}

/// The head of an HTTP request.
#[derive(Debug)]
struct RequestHead {
    id: HeaderValue,
    method: Method,
    path: String,
    began: Timestamp,
}

impl Exchange {
    /// The context of an HTTP request. A missing or empty `Audit-ID` is replaced by a random UUID.
    pub fn begin(method: &Method, path: &str, headers: &HeaderMap, ambient: &dyn Ambient) -> Self {
        let id = match headers.get(AUDIT_ID).filter(|id| !id.is_empty()) {
            // A copy: the value is a part of the request's head, which would be held as long as the exchange.
            Some(id) => HeaderValue::from_bytes(id.as_bytes()).unwrap_or_else(|_| id.clone()),
            None => HeaderValue::from_str(&uuid_text(ambient.random())).expect("a UUID is plain text"),
        };
        let asked = RequestHead { id, method: method.clone(), path: path.to_owned(), began: ambient.now() };
        Exchange::of(Some(asked))
    }

    /// The context of a request that starts inside the node and passes no gate. It is not logged.
    pub fn internal() -> Self {
        Exchange::of(None)
    }

    fn of(asked: Option<RequestHead>) -> Self {
        let (user, impersonated, ruling) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (warnings, is_closed) = (Warnings::default(), AtomicBool::new(false));
        let (flow, credential, deadline) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (waited_micros, steps, trace) = (AtomicU64::default(), Steps::default(), OnceLock::new());
        Exchange {
            asked,
            trail: None,
            user,
            impersonated,
            ruling,
            flow,
            warnings,
            waited_micros,
            steps,
            trace,
            is_closed,
            credential,
            deadline,
        }
    }

    /// The same exchange, audited by `auditor` if there is one. The request is for `uri` and came from `peer`.
    #[must_use]
    pub fn audited(mut self, auditor: Option<&Arc<Auditor>>, uri: &Uri, peer: Option<IpAddr>) -> Self {
        self.trail = auditor.map(|auditor| Box::new(Trail::new(auditor, uri, peer)));
        self
    }

    /// The request's id as the log shows it, cut after 64 bytes; empty for internal requests.
    pub fn id(&self) -> Cow<'_, str> {
        self.id_within(LOGGED_ID_BYTES_MAX)
    }

    /// The request as audit events show it: its id is the first 256 bytes of the one in the response.
    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts {
            id: self.id_within(AUDITED_ID_BYTES_MAX),
            received: self.received(),
            method: self.method(),
            user: self.user(),
            impersonated: self.impersonated(),
            ruling: self.ruling(),
        }
    }

    fn id_within(&self, bytes_max: usize) -> Cow<'_, str> {
        let bytes = self.asked.as_ref().map_or(&[][..], |asked| asked.id.as_bytes());
        String::from_utf8_lossy(&bytes[..bytes.len().min(bytes_max)])
    }

    /// The time at which the request arrived; the epoch for internal requests.
    pub(crate) fn received(&self) -> Timestamp {
        self.asked.as_ref().map(|asked| asked.began).unwrap_or_default()
    }

    /// The method; `None` for internal requests.
    pub(crate) fn method(&self) -> Option<&Method> {
        self.asked.as_ref().map(|asked| &asked.method)
    }

    /// The audit of the request; `None` without an auditor.
    pub fn trail(&self) -> Option<&Trail> {
        self.trail.as_deref()
    }

    /// Adds an annotation to the audit events of the request. Both functions are called only where it is audited.
    pub(crate) fn annotate(&self, name: impl FnOnce() -> String, text: impl FnOnce() -> String) {
        if let Some(trail) = self.trail() {
            trail.annotate(name(), text());
        }
    }

    /// Whether events hold what requests send.
    pub(crate) fn audits_requests(&self) -> bool {
        self.trail().is_some_and(Trail::shows_requests)
    }

    /// The request's path; empty for internal requests.
    pub(crate) fn path(&self) -> &str {
        self.asked.as_ref().map_or("", |asked| &asked.path)
    }

    /// Microseconds from the request's head to `now`; 0 for internal requests.
    pub fn micros_until(&self, now: Timestamp) -> u64 {
        self.asked.as_ref().map_or(0, |asked| now.0.saturating_sub(asked.began.0))
    }

    /// Adds time for which the request waited for webhooks or for its seats: no part of the service level.
    pub(crate) fn add_wait(&self, micros: u64) {
        self.waited_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Microseconds of all such waits.
    pub(crate) fn waited_micros(&self) -> u64 {
        self.waited_micros.load(Ordering::Relaxed)
    }

    /// The span of the request; `None` where it belongs to no recorded trace.
    pub(crate) fn trace(&self) -> Option<&ActiveSpan> {
        self.trace.get().map(|trace| &**trace).filter(|trace| trace.is_recorded())
    }

    /// The span that questions to other servers are parts of, recorded or not. `None`: other servers are told of no trace.
    pub(crate) fn onward(&self) -> Option<&ActiveSpan> {
        if self.trace.get().is_none() {
            // The rate did not choose the request, nor do the servers that it asks.
            let _ = self.trace.set(Box::new(self.asked.as_ref().and_then(|_| ActiveSpan::unrecorded())?));
        }
        self.trace.get().map(|trace| &**trace)
    }

    /// Makes the request a span of a trace.
    pub(crate) fn set_trace(&self, trace: ActiveSpan) {
        // A request passes the gate once.
        let _ = self.trace.set(Box::new(trace));
    }

    /// The span of a step that begins now; `None` where the request belongs to no recorded trace.
    pub(crate) fn begin_span(&self) -> Option<ActiveSpan> {
        self.trace().map(ActiveSpan::child)
    }

    /// The span of a question to another server, which is told of it, recorded or not.
    pub(crate) fn begin_call(&self) -> Option<ActiveSpan> {
        self.onward().map(ActiveSpan::child)
    }

    /// Notes that `step` lasted from `began` to `now`.
    pub(crate) fn note(&self, step: Step, began: Timestamp, now: Timestamp) {
        self.note_span(step, self.begin_span(), None, (began, now));
    }

    /// Notes that `step` lasted from `began` to `now`, with the span that it was given at its beginning. `target`: name of the other server
    /// that it asked, for its trace.
    pub(crate) fn note_span(
        &self,
        step: Step,
        span: Option<ActiveSpan>,
        target: Option<&str>,
        (began, now): (Timestamp, Timestamp),
    ) {
        self.steps.add(step, now.0.saturating_sub(began.0));
        let Some(span) = span.filter(ActiveSpan::is_recorded) else { return };
        let kind = if target.is_some() { SpanKind::Client } else { SpanKind::Internal };
        let span = span.ended(kind, step.name(), (began.0, now.0));
        match target {
            Some(target) => span.with_text("target", target.to_owned()).record(),
            None => span.record(),
        }
    }

    /// The steps so far, with their times.
    pub(crate) fn steps(&self) -> impl std::fmt::Display + '_ {
        &self.steps
    }

    /// The authenticated user; `None` before the gate.
    pub fn user(&self) -> Option<&Arc<User>> {
        self.user.get()
    }

    /// Stores the authenticated user.
    pub(crate) fn set_user(&self, user: Arc<User>) {
        // A request passes the gate once.
        let _ = self.user.set(user);
    }

    /// Bytes of memory that the exchange holds of a client's choice, for requests that last: id, path, headers of the
    /// credential and of its trace, the user, and the user that it acts as.
    pub(crate) fn held_bytes(&self) -> usize {
        let of_head = self.asked.as_ref().map_or(0, |asked| asked.id.len() + asked.path.len());
        let of_credential = self.credential.get().map_or(0, Credential::held_bytes);
        let users = [self.user.get(), self.impersonated()];
        let of_users: usize = users.into_iter().flatten().map(|user| user.held_bytes()).sum();
        let of_trail = self.trail().map_or(0, Trail::held_bytes);
        let of_trace = self.trace.get().map_or(0, |trace| trace.held_bytes());
        of_head + of_credential + of_users + of_trail + of_trace
    }

    /// The user as whom the authenticated user acts; `None` where it acts as itself.
    pub fn impersonated(&self) -> Option<&Arc<User>> {
        self.impersonated.get()
    }

    /// Stores the user as whom the authenticated user acts.
    pub(crate) fn set_impersonated(&self, user: Arc<User>) {
        let _ = self.impersonated.set(user);
    }

    /// The credential of a watch, and of a request that another server answers; `None` for other requests.
    pub(crate) fn credential(&self) -> Option<&Credential> {
        self.credential.get()
    }

    /// Stores the credential of a request whose right is asked for again.
    pub(crate) fn set_credential(&self, credential: Credential) {
        let _ = self.credential.set(credential);
    }

    /// The ruling of the authorizers; `None` before the gate.
    pub fn ruling(&self) -> Option<&Ruling> {
        self.ruling.get()
    }

    /// Stores the ruling of the authorizers.
    pub(crate) fn set_ruling(&self, ruling: Ruling) {
        let _ = self.ruling.set(ruling);
    }

    /// The flow schema that the request belongs to; `None` before it is classified.
    pub(crate) fn flow(&self) -> Option<&Arc<Entry>> {
        self.flow.get()
    }

    /// Stores the flow schema that the request belongs to.
    pub(crate) fn set_flow(&self, entry: Arc<Entry>) {
        let _ = self.flow.set(entry);
    }

    /// The time that the request has left at `now`, on the clock of the store; zero once it is over. `None`: it has no end.
    pub(crate) fn time_left(&self, now: Duration) -> Option<Duration> {
        self.deadline.get().map(|deadline| deadline.saturating_sub(now))
    }

    /// Stores the moment at which the request's own time ends, on the clock of the store. It stays what it is first.
    pub(crate) fn set_deadline(&self, moment: Duration) {
        let _ = self.deadline.set(moment);
    }

    /// Adds warnings for the client, each text once. They go out with any response. As in the reference, the warnings
    /// of an attempt are kept even if another attempt follows.
    pub(crate) fn warn(&self, texts: impl IntoIterator<Item = String>) {
        self.warnings.add(texts);
    }

    /// Removes all warnings: the response is a refusal that must not repeat the texts they quote.
    pub(crate) fn withhold_warnings(&self) {
        self.warnings.clear();
    }

    /// The warnings so far.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.all()
    }

    /// Ends the exchange: adds id and warnings to the headers of `response`, and logs the request.
    pub fn close<B>(&self, response: &mut Response<B>, now: Timestamp) {
        self.is_closed.store(true, Ordering::Relaxed);
        let headers = response.headers_mut();
        self.warnings.write(headers);
        let Some(asked) = &self.asked else { return };
        headers.insert(AUDIT_ID, asked.id.clone());
        tracing::debug!(
            id = &*self.id(),
            method = %asked.method,
            path = &*part(&asked.path),
            user = self.user_name(),
            acts_as = self.impersonated.get().map(|user| user.name.as_str()),
            ruling = self.ruling.get().map(tracing::field::display),
            code = response.status().as_u16(),
            micros = now.0.saturating_sub(asked.began.0),
            "answered"
        );
    }

    fn user_name(&self) -> &str {
        self.user.get().map_or("", |user| &user.name)
    }
}

impl Remarks for Exchange {
    fn annotate(&self, name: &dyn Fn() -> String, text: &str) {
        Exchange::annotate(self, name, || text.to_owned());
    }

    fn warn(&self, text: &str) {
        Exchange::warn(self, [text.to_owned()]);
    }
}

/// Logs requests whose client left before the response, and ends their audit. The request may have been carried out.
impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(trail) = self.trail() {
            trail.abandon(&self.facts());
        }
        let Some(asked) = self.asked.as_ref().filter(|_| !self.is_closed.load(Ordering::Relaxed)) else {
            return;
        };
        let (id, method, path) = (self.id(), &asked.method, &*part(&asked.path));
        tracing::debug!(id = &*id, %method, path, user = self.user_name(), "not answered");
        if let Some(trace) = self.trace() {
            let name = part(method.as_str()).into_owned();
            let span = trace.ended(SpanKind::Server, name, (asked.began.0, orch_spans::now_micros()));
            let span = span.with_text("url.path", asked.path.clone()).with_text("audit-id", id.into_owned());
            span.with_failure("the client left before the answer").record();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ambient::SystemAmbient;

    fn exchange(headers: &HeaderMap) -> Exchange {
        Exchange::begin(&Method::GET, "/x", headers, &SystemAmbient)
    }

    fn closed(exchange: &Exchange) -> HeaderMap {
        let mut response = Response::new(());
        exchange.close(&mut response, Timestamp(1));
        response.headers().clone()
    }

    #[test]
    fn a_client_names_its_exchange_or_gets_a_name() {
        let id = |sent: Option<&[u8]>| {
            let mut headers = HeaderMap::new();
            headers.extend(sent.map(|id| (AUDIT_ID, HeaderValue::from_bytes(id).unwrap())));
            let exchange = exchange(&headers);
            assert!(exchange.id().len() <= 3 * LOGGED_ID_BYTES_MAX, "it fits into a log line");
            assert!(exchange.facts().id.len() <= 3 * AUDITED_ID_BYTES_MAX, "it fits into an event");
            closed(&exchange)[AUDIT_ID].as_bytes().to_vec()
        };
        for sent in [&b"mine"[..], &[b'x'; 3000], "\u{e4}".as_bytes(), b"\xff\xfe"] {
            assert_eq!(id(Some(sent)), sent, "as it came");
        }
        for sent in [None, Some(&b""[..])] {
            assert_eq!(id(sent).len(), 36, "{sent:?}");
        }
        assert_ne!(id(None), id(None));
    }
}
