//! Answers requests before the API is ready.
//!
//! A node listens before its state is loaded, which takes seconds when it is large, and before its cluster is there, which may
//! wait for other members to start, or for a peer certificate that has not ended. Until then it answers liveness and readiness
//! probes, takes the request to found the cluster, and serves its metrics to administrators. Afterwards it passes requests on
//! at the cost of one atomic load.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use futures::future::{Either, Ready, ready};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use tower::Service;

use super::cluster::WAITING_PATHS;

/// Passes requests to the API once that is set. Clones share the state.
#[derive(Clone, Default)]
pub(super) struct Door {
    api: Arc<OnceLock<Router>>,
    waiting: Arc<Mutex<Option<Router>>>,
    /// The state is in memory.
    is_loaded: Arc<AtomicBool>,
}

/// Reason why the API is not ready.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    ForState,
    ForCluster,
}

impl Waiting {
    /// Text of the readiness probe.
    fn readiness(self) -> &'static str {
        match self {
            Waiting::ForState => "loading the state\n",
            Waiting::ForCluster => "waiting for the cluster\n",
        }
    }

    /// Message of the `Status` of a refused request.
    fn message(self) -> &'static str {
        match self {
            Waiting::ForState => "the node is loading its state",
            Waiting::ForCluster => "the cluster has no leader yet, or is not founded (`orch cluster found`)",
        }
    }
}

impl Door {
    /// Notes that the state is loaded: the node now waits for its cluster.
    pub(super) fn note_loaded(&self) {
        self.is_loaded.store(true, Ordering::Relaxed);
    }

    fn waiting(&self) -> Waiting {
        if self.is_loaded.load(Ordering::Relaxed) { Waiting::ForCluster } else { Waiting::ForState }
    }

    /// Passes requests to `api` from now on. Later calls have no effect.
    pub(super) fn open(&self, api: Router) {
        // `set` fails only for a second API in the process, which no code builds.
        let _ = self.api.set(api);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Passes requests for [`WAITING_PATHS`] to `router` until the API is set.
    pub(super) fn await_cluster(&self, router: Router) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).replace(router);
    }

    /// The router for `path` while there is no API; `None` for any path that it does not have.
    fn router_while_waiting(&self, path: &str) -> Option<Router> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.clone().filter(|_| WAITING_PATHS.contains(&path))
    }
}

impl Service<Request<Incoming>> for Door {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future =
        Either<Ready<Result<Response<Body>, Infallible>>, axum::routing::future::RouteFuture<Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        match self.api.get() {
            Some(api) => Either::Right(api.clone().call(request)),
            None => match self.router_while_waiting(request.uri().path()) {
                Some(mut router) => Either::Right(router.call(request)),
                None => Either::Left(ready(Ok(not_yet(request.uri().path(), self.waiting())))),
            },
        }
    }
}

/// The response while there is no API.
fn not_yet(path: &str, waiting: Waiting) -> Response<Body> {
    if path == "/livez" {
        return text(StatusCode::OK, "ok");
    }
    if matches!(path, "/readyz" | "/healthz") {
        return text(StatusCode::INTERNAL_SERVER_ERROR, waiting.readiness());
    }
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": waiting.message(), "reason": "ServiceUnavailable", "code": 503,
    });
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, status.to_string());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn text(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_api_a_node_lives_and_is_not_ready() {
        let door = Door::default();
        for expected in ["loading the state\n", "waiting for the cluster\n"] {
            for (path, status) in
                [("/livez", 200), ("/readyz", 500), ("/healthz", 500), ("/metrics", 503), ("/", 503)]
            {
                let answer = not_yet(path, door.waiting());
                assert_eq!(answer.status(), status, "{path}");
                assert_eq!(answer.headers().contains_key(RETRY_AFTER), status == 503, "{path}");
            }
            assert_eq!(door.waiting().readiness(), expected);
            door.note_loaded();
        }
    }
}
