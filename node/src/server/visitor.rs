//! The per-connection layer around requests: the client's identity, its limits, and the pacing of responses.
//!
//! Owns the refusals that come before any path is looked at: a `Host` header that is missing, doubled or malformed;
//! requests of web pages to a development node ([`super::loopback`]); more concurrent requests than a stranger may
//! have; requests without room ([`super::load`]). A stranger is a connection without a valid client certificate, none of whose
//! requests had credentials that were accepted.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use http::header::{CONTENT_TYPE, HOST, HeaderMap, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use orch_api::authn::{Peer, USER_ANONYMOUS, User, UserReporter};
use tower::{Service, ServiceExt};

use super::limits;
use super::load::request_bytes;
use super::loopback::Door;
use super::pace::{Paced, Pacing};
use super::places::Place;
use super::tunnel::TunnelSlot;
use crate::metrics::Life;

/// The text of a 429 for want of memory ([`super::load`]).
const NO_ROOM: &str = "too many requests under way, or too many responses that are not taken\n";

/// The service that answers requests.
pub(super) trait Answers:
    Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> Answers for S where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// The state of a connection, shared by its requests.
pub(super) struct Visitor {
    peer: Arc<Peer>,
    /// Of the certificate that it presented.
    life: Option<Life>,
    /// The listener without credentials that accepted it; `None` over TLS.
    door: Option<Door>,
    place: Arc<Place>,
    standing: Arc<Standing>,
    admission: UserReporter,
    pacing: Pacing,
    tunnel: TunnelSlot,
}

/// Facts of a connection that its requests establish.
#[derive(Debug, Default)]
struct Standing {
    has_asked: AtomicBool,
    is_known: AtomicBool,
}

impl Visitor {
    /// A connection of `peer` that holds `place`. `is_known`: the connection itself has credentials.
    pub(super) fn new(
        (peer, life): (Arc<Peer>, Option<Life>),
        door: Option<Door>,
        place: Arc<Place>,
        is_known: bool,
        pacing: Pacing,
        tunnel: TunnelSlot,
    ) -> Visitor {
        let standing =
            Arc::new(Standing { has_asked: AtomicBool::new(false), is_known: AtomicBool::new(is_known) });
        let admission = {
            let (place, standing) = (Arc::clone(&place), Arc::clone(&standing));
            UserReporter::new(move |user: &User| {
                place.hold(user);
                if user.name != USER_ANONYMOUS {
                    standing.is_known.store(true, Ordering::Relaxed);
                }
            })
        };
        Visitor { peer, life, door, place, standing, admission, pacing, tunnel }
    }

    /// Its place among all connections.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Carries the bytes of another protocol, if the connection left HTTP for one, until one side ends.
    pub(super) async fn tunnel(&self) {
        if let Some(tunnel) = self.tunnel.take() {
            let _under_way = self.place.request();
            tunnel.await;
        }
    }

    /// Whether the connection has had a request.
    pub(super) fn has_asked(&self) -> bool {
        self.standing.has_asked.load(Ordering::Relaxed)
    }

    /// Refuses `request` or passes it to `service`; its response is paced.
    pub(super) async fn answer<S: Answers>(
        self: Arc<Visitor>,
        service: S,
        mut request: Request<Incoming>,
    ) -> Result<Response<Paced>, Infallible> {
        self.standing.has_asked.store(true, Ordering::Relaxed);
        let (under_way, count) = self.place.request();
        if let Some(response) = self.refusal(&request, count) {
            return Ok(self.pacing.around_refusal(response, under_way));
        }
        let Some(weight) = self.pacing.load().try_add(request_bytes(&request)) else {
            return Ok(self.pacing.around_refusal(too_many(NO_ROOM), under_way));
        };
        if let Some(life) = &self.life {
            life.observe();
        }
        request.extensions_mut().insert(Arc::clone(&self.peer));
        request.extensions_mut().insert(self.admission.clone());
        if request.version() < Version::HTTP_2 {
            request.extensions_mut().insert(self.tunnel.clone());
        }
        let response = service.oneshot(request).await?;
        drop(weight);
        Ok(self.pacing.around(response, under_way))
    }

    /// The response to a request that does not reach the service; `None` if it does. `count` requests are under way,
    /// this one included.
    fn refusal(&self, request: &Request<impl hyper::body::Body>, count: usize) -> Option<Response<Body>> {
        if let Some(fault) = host_fault(request.version(), request.headers()) {
            return Some(text(StatusCode::BAD_REQUEST, fault));
        }
        if let Some((status, refusal)) = self.door.and_then(|door| door.refusal(request)) {
            return Some(text(status, refusal));
        }
        // A request's own credentials do not exempt it: earlier requests of the same connection, whose credentials were
        // accepted, do.
        if count > limits::STRANGER_REQUESTS_MAX && !self.standing.is_known.load(Ordering::Relaxed) {
            return Some(too_many("too many requests without credentials\n"));
        }
        None
    }
}

/// The response 429, to be repeated after a second.
fn too_many(reason: &'static str) -> Response<Body> {
    let mut response = text(StatusCode::TOO_MANY_REQUESTS, reason);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn text(code: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The error text for a bad `Host` header, if it is bad: two servers on the way of a request must not read different
/// hosts.
fn host_fault(version: Version, headers: &HeaderMap) -> Option<&'static str> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version == Version::HTTP_11 => Some("400 Bad Request: missing required Host header\n"),
        (None, _) => None,
        (Some(_), Some(_)) => Some("400 Bad Request: too many Host headers\n"),
        (Some(host), None) => {
            let is_valid = host
                .as_bytes()
                .iter()
                .all(|&byte| byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(&byte));
            (!is_valid).then_some("400 Bad Request: malformed Host header\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_could_be_a_host_is_taken_for_one() {
        let fault = |version, hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, HeaderValue::from_str(host).unwrap());
            }
            host_fault(version, &headers).is_some()
        };
        for hosts in [&["localhost:6443"][..], &["[::1]:80"], &["10.0.0.1"], &[""], &["a_b.example."]] {
            assert!(!fault(Version::HTTP_11, hosts), "{hosts:?}");
        }
        for hosts in [&[][..], &["a", "a"], &["a", "b"], &["a/b"], &["a b"], &["user@a"], &["a\"b"]] {
            assert!(fault(Version::HTTP_11, hosts), "{hosts:?}");
        }
        assert!(!fault(Version::HTTP_10, &[]) && !fault(Version::HTTP_2, &[]));
        assert!(fault(Version::HTTP_2, &["a", "b"]));
    }
}
