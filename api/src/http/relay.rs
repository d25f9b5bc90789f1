//! Requests that an aggregated server answers.
//!
//! Owns which requests these are, and their way: behind authentication, authorization and audit like any other they wait for a seat
//! of flow control, which they keep for a second at most, are passed on under the identity of their user, and their answer is
//! streamed as it comes; it ends with the right to it, like a connection that leaves HTTP. Which server it is, and the headers of identity, are `aggregation`'s;
//! sockets are the adapter's.
//!
//! Invariant: no redirect is followed and none is passed on: a client would follow it with its credentials.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, LOCATION, UPGRADE, VIA, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Request, Response};
use orch_raft::Store;
use tokio_util::sync::CancellationToken;

use super::Api;
use super::body::Upload;
use super::deadline::deadline;
use super::memory_ledger::Payer;
use super::respond::{self, Lasting};
use super::revocation::RelayedRight;
use super::stages::{Arrived, Authorized, Elsewhere};
use super::traced::put_context;
use super::until::{Cut, Until};
use super::untrailed::Untrailed;
use crate::admission::View;
use crate::aggregation::identity::name_user;
use crate::aggregation::{LongLived, Remote, Server, group_and_version, passed_path};
use crate::connect::headers::{asks_for_upgrade, of_request, strip_answer};
use crate::connect::path;
use crate::error::ApiError;
use crate::exchange::Step;
use crate::flow::hold_for_a_while;
use crate::follow::Applied;
use crate::request::Verb;

/// Bytes that a passed-on request holds in buffers, half of them in each direction: what its user is charged for.
const STREAM_BYTES: usize = 64 << 10;

/// Time for a watch to begin: programs send the head of its answer with the first event.
const WATCH_START_MAX: Duration = Duration::from_secs(300);

/// Time for the document of a group and version: clients read those of all servers when they start.
const DOCUMENT_MAX: Duration = Duration::from_secs(5);

/// By which the audit of the aggregated server is joined with this server's.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The answer to a request that this node has passed on already: the service of its server leads back here.
const LOOPED: &[u8] = b"the request was passed on by this server before: the service leads back to it\n";

/// The answer to a redirect, in the reference's words.
const REDIRECTED: &[u8] = b"the backend attempted to redirect this request, which is not permitted";

impl<S: Store> Api<S> {
    /// The server that answers the path of `arrived`; `None`: this server answers itself, or nobody does.
    pub(super) async fn remote_of(&self, arrived: &Arrived) -> Option<Arc<Remote>> {
        let (group, version) = group_and_version(&arrived.path)?;
        if arrived.served().registry.is_built_in(group, version) {
            return None;
        }
        let applied = Applied::of(&self.pipeline.store);
        self.pipeline.aggregation.find(&applied, group, version).await
    }

    /// Passes a request on, and returns what the client gets.
    ///
    /// # Errors
    /// `TooManyRequests`, `BadRequest`, `NoPage`: a path or time-out that is not passed on. The failures of the other server are answers.
    pub(super) async fn relay(
        &self,
        authorized: &Authorized<'_, Elsewhere>,
        upload: &mut Upload,
    ) -> Result<Response<Body>, ApiError> {
        let (arrived, Elsewhere { remote, verb }) = (authorized.arrived(), authorized.destination());
        let at = passed_path(&arrived.path)?;
        if has_passed(&arrived.headers, self.hop()) {
            return Ok(text(508, Bytes::from_static(LOOPED)));
        }
        let limit = match verb {
            Some(Verb::Watch) => WATCH_START_MAX,
            None if is_document(&at) => deadline(Verb::Get, &arrived.query)?.min(DOCUMENT_MAX),
            verb => deadline(verb.unwrap_or(Verb::Get), &arrived.query)?,
        };
        let deadline = arrived.deadline_after(limit);
        self.pipeline.store.may_serve()?;
        let lasting = Lasting::default();
        lasting.keep(self.ledger.take(&Payer::of(authorized.user(), &arrived.exchange), STREAM_BYTES)?);
        let seat = self.seat_elsewhere(authorized, deadline.left(&self.pipeline.store)).await?;
        // A request that waits for another server keeps no seat from others.
        let seat = hold_for_a_while(seat, &self.pipeline.store);
        let Some((server, relay)) = self.server_of(remote).zip(self.pipeline.aggregation.relay()) else {
            return Ok(unavailable());
        };
        let is_upgrade = asks_for_upgrade(&arrived.headers);
        if !is_upgrade && *verb != Some(Verb::Watch) {
            // A watch gives it back with the head of its answer.
            lasting.keep(seat);
        }
        if let Some(end) = is_upgrade.then(|| self.end_of_right(authorized)).flatten() {
            lasting.end_with(end);
        }
        let mut request = match self.passed(authorized, (&server, at), upload, is_upgrade.then_some(&lasting))
        {
            Ok(request) => request,
            Err(reason) => return Ok(unreachable(&reason)),
        };
        let (began, span) = (self.pipeline.ambient.now(), arrived.exchange.begin_call());
        let target = server.authority();
        if let Some(span) = &span {
            put_context(request.headers_mut(), &span.context());
        }
        let store = &self.pipeline.store;
        let (answering, late) = (relay.relay(server, request), store.sleep(deadline.left(store)));
        let late = std::pin::pin!(late);
        let answered_or_late = select(answering, late).await;
        let times = (began, self.pipeline.ambient.now());
        arrived.exchange.note_span(Step::Relay, span, Some(&target), times);
        let answer = match answered_or_late {
            Either::Left((Ok(answer), _)) => answer,
            Either::Left((Err(error), _)) => return Ok(unreachable(&error.to_string())),
            Either::Right(_) => return Ok(unreachable("context deadline exceeded")),
        };
        let cut = if *verb == Some(Verb::Watch) { Cut::Clean } else { Cut::Broken };
        let answer = match self.end_of_right(authorized) {
            Some(end) => answer.map(|body| Body::new(Until::new(body, end, cut))),
            None => answer,
        };
        Ok(answered(answer, is_upgrade, lasting))
    }

    /// Completes when the user may not make the request any more; that of a watch when the node stops, too, which other requests may end
    /// in. `None`: nobody knows how the user was let in.
    fn end_of_right(&self, authorized: &Authorized<'_, Elsewhere>) -> Option<BoxFuture<'static, ()>> {
        let credential = authorized.arrived().exchange.credential().cloned()?;
        let right = RelayedRight::of(credential, authorized.attributes());
        let stopping = match authorized.destination().verb {
            Some(Verb::Watch) => self.stopping.clone(),
            _ => CancellationToken::new(),
        };
        Some(right.ended(self.pipeline.clone(), stopping).boxed())
    }

    fn hop(&self) -> &str {
        self.pipeline.aggregation.hop(|| self.pipeline.ambient.random())
    }

    /// Where requests for `remote` go; `None`: it is not available, or its service leads nowhere.
    fn server_of(&self, remote: &Remote) -> Option<Server> {
        if !remote.is_available {
            return None;
        }
        let (view, brand) = (View::of(&self.pipeline.store), self.pipeline.served.brand());
        let chance = self.pipeline.ambient.random();
        self.pipeline.aggregation.locate(remote, &view, brand, chance).ok()
    }

    /// The client's request as `server` gets it at the path `at`; `upgrade`: what is kept while the connection lasts that leaves HTTP.
    fn passed(
        &self,
        authorized: &Authorized<'_, Elsewhere>,
        (server, at): (&Server, String),
        upload: &mut Upload,
        upgrade: Option<&Lasting>,
    ) -> Result<Request<Body>, String> {
        let arrived = authorized.arrived();
        let mut headers = arrived.headers.clone();
        self.pipeline.gate.strip_identity(None, &mut headers);
        let client = arrived.peer.as_ref().map(|peer| peer.address.ip());
        let mut headers = of_request(&headers, &server.authority(), client, None);
        name_user(&mut headers, authorized.user()).map_err(|error| error.to_string())?;
        respond::put(&mut headers, AUDIT_ID, arrived.exchange.id().as_ref());
        let hop = HeaderValue::try_from(format!("1.1 {}", self.hop()));
        headers.append(VIA, hop.map_err(|error| error.to_string())?);
        let pairs = arrived.query.pairs().map(|(name, value)| (name, value.to_owned()));
        let query = path::query(pairs.collect());
        let target = if query.is_empty() { at } else { format!("{at}?{query}") };
        let mut request = Request::new(match upgrade {
            Some(_) => Body::empty(),
            None => Body::new(Untrailed(upload.take())),
        });
        *request.method_mut() = arrived.method.clone();
        *request.uri_mut() = target.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        *request.headers_mut() = headers;
        if let Some(lasting) = upgrade {
            request.headers_mut().remove(CONTENT_LENGTH);
            *request.extensions_mut() = arrived.extensions.clone();
            request.extensions_mut().insert(lasting.clone());
        } else if authorized.destination().verb == Some(Verb::Watch) {
            request.extensions_mut().insert(LongLived);
        }
        Ok(request)
    }
}

/// Whether `path` is that of the document of a group and version.
fn is_document(path: &str) -> bool {
    path.trim_matches('/').split('/').count() == 3
}

/// Whether a request with `headers` has passed the node with the name `hop`.
fn has_passed(headers: &HeaderMap, hop: &str) -> bool {
    let passed = headers.get_all(VIA).iter().filter_map(|via| via.to_str().ok());
    // once: headers of bounded size.
    passed.flat_map(|via| via.split(',')).any(|via| via.split_whitespace().nth(1) == Some(hop))
}

/// The answer of a server as the client gets it.
fn answered(mut answer: Response<Body>, is_upgrade: bool, lasting: Lasting) -> Response<Body> {
    let code = answer.status().as_u16();
    if matches!(code, 300..400) && answer.headers().contains_key(LOCATION) {
        return text(502, Bytes::from_static(REDIRECTED));
    }
    let upgrade = answer.headers().get(UPGRADE).cloned();
    strip_answer(answer.headers_mut());
    let headers = answer.headers_mut();
    match code {
        101 if is_upgrade => {
            headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.extend(upgrade.map(|upgrade| (UPGRADE, upgrade)));
        }
        // The client's connection may hold bytes of the protocol that it asked for.
        _ if is_upgrade => {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        _ => {}
    }
    respond::lasting(answer, lasting)
}

/// Marks a response that this server gives in the place of the one that the request is passed on to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unreachable;

/// The answer where the server is not there, in the reference's words.
fn unavailable() -> Response<Body> {
    let mut response = text(503, Bytes::from_static(b"service unavailable\n"));
    response.extensions_mut().insert(Unreachable);
    respond::put(response.headers_mut(), X_CONTENT_TYPE_OPTIONS, "nosniff");
    response
}

/// The answer where the server cannot be reached, for this reason.
fn unreachable(reason: &str) -> Response<Body> {
    let mut response = text(503, Bytes::from(format!("error trying to reach service: {reason}")));
    response.extensions_mut().insert(Unreachable);
    response
}

fn text(code: u16, text: Bytes) -> Response<Body> {
    respond::bytes(code, "text/plain; charset=utf-8", text)
}
