//! `/orch/v1/cluster`: status and membership of the cluster, for administrators.
//!
//!     GET    /orch/v1/cluster                         leader, members (up or down, last heard, lag), and this node,
//!                                                     its certificates and dead webhooks included
//!     GET    /orch/v1/cluster?survey=true             the same, after it has asked all members once more
//!     POST   /orch/v1/cluster/members                 {"name": N, "address": "HOST:PORT"}: adds a learner
//!     POST   /orch/v1/cluster/members/NAME/promote    a learner becomes a voter
//!     POST   /orch/v1/cluster/members/NAME/lead       the leader hands over to this voter
//!     POST   /orch/v1/cluster/found                   founds the cluster of the members started for it, once
//!     POST   /orch/v1/cluster/undo                    takes back a change of the voters that was not completed
//!     DELETE /orch/v1/cluster/members/NAME            removes it; its name is never used again
//!
//! They take rights to the path (`nonResourceURLs`), which by default only the group `system:masters` has: a change of
//! members can take over the cluster. Any node answers; changes are made by the leader. These paths are this product's own and the same under every brand.
//!
//! Invariant: a member that another one calls removed passes no change on, and answers 503: a client may send the change again elsewhere.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{delete, get, post};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use orch_api::ambient::{Ambient, SystemAmbient};
use orch_api::audit::Auditor;
use orch_api::authn::{Peer as Connection, User, UserReporter};
use orch_api::authz::Attributes;
use orch_api::error::ApiError;
use orch_api::exchange::Exchange;
use orch_api::flow::{FlowControl, Seat};
use orch_api::follow::Applied;
use orch_api::gate::Gate;
use orch_api::http::{REQUEST_MAX, check_timeout_beside, finish_audit};
use orch_api::metrics::TEXT_FORMAT;
use orch_raft::member::{ChangeError, FoundError, node_id};
use orch_raft::transport::{NodeId, Peer};
use serde::{Deserialize, Serialize};

use super::cluster_view::{OwnHealth, added_before, founded_before, unchanged, view};
use super::store::Handle;

/// Most bytes of a request's body: a name and an address.
const BODY_BYTES_MAX: usize = 4096;

/// Query of a status for which all members are asked first.
const SURVEY: &str = "survey=true";

/// The refusal of a member that was removed; clients ask another one.
const REMOVED: &str = "this member was removed from the cluster: ask another one";

/// Wait for the first leader after the founding, which is elected within half a second if all founders run.
const FIRST_LEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Body of a request to add a member.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewMember {
    name: String,
    address: String,
}

const FOUND_PATH: &str = "/orch/v1/cluster/found";
const METRICS_PATH: &str = "/metrics";

/// The only paths of the API before the cluster is there. The status is not among them: programs ask another member for it, which
/// knows more.
pub(super) const WAITING_PATHS: [&str; 2] = [FOUND_PATH, METRICS_PATH];

/// [`WAITING_PATHS`], behind the authentication and authorization of `gate`.
pub(super) fn waiting_router(handle: Handle, gate: Arc<Gate>, auditor: Option<Arc<Auditor>>) -> Router {
    let router = Router::new().route(FOUND_PATH, post(found)).with_state(handle.clone());
    let router = router.route(METRICS_PATH, get(own_metrics));
    // There is no other request that could have to wait.
    Guard { gate, handle, auditor, flow: None }.before(router)
}

/// The series of the process, its store and its certificates: those of requests and objects come with the API.
async fn own_metrics() -> Response {
    let mut response = Response::new(Body::from(crate::metrics::text()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TEXT_FORMAT));
    response
}

const STATUS_PATH: &str = "/orch/v1/cluster";
const MEMBERS_PATH: &str = "/orch/v1/cluster/members";
const UNDO_PATH: &str = "/orch/v1/cluster/undo";

/// The paths without the name of a member in them.
pub(super) const PATHS: [&str; 4] = [STATUS_PATH, FOUND_PATH, MEMBERS_PATH, UNDO_PATH];

/// All paths. `own` is for the status of this node, and by `handle` for the statuses of the other members.
pub(super) fn router(handle: Handle, own: OwnHealth) -> Router {
    let told = own.clone();
    handle.report_by(move || told.report());
    let status_path = Router::new().route(STATUS_PATH, get(status));
    let status_path = status_path.with_state((handle.clone(), own));
    Router::new()
        .route(MEMBERS_PATH, post(add))
        .route(FOUND_PATH, post(found))
        .route(UNDO_PATH, post(undo))
        .route("/orch/v1/cluster/members/{name}", delete(remove))
        .route("/orch/v1/cluster/members/{name}/promote", post(promote))
        .route("/orch/v1/cluster/members/{name}/lead", post(lead))
        .with_state(handle)
        .merge(status_path)
}

/// Lets users in to the node's own paths: authentication, authorization, flow control and audit.
///
/// Flow control treats these paths as all paths that are no resource. Administrators are of the level `exempt`, so that no
/// flood keeps them from repairing the cluster; whoever else has a right to a path is held to the seats of their level.
#[derive(Clone)]
pub(super) struct Guard {
    pub(super) gate: Arc<Gate>,
    pub(super) handle: Handle,
    pub(super) auditor: Option<Arc<Auditor>>,
    /// `None` before the cluster is there.
    pub(super) flow: Option<Arc<FlowControl>>,
}

impl Guard {
    /// `router` behind this guard.
    pub(super) fn before(self, router: Router) -> Router {
        router.layer(from_fn_with_state(self, let_in))
    }

    /// Waits for a seat for a request of `user`.
    ///
    /// # Errors
    /// `TooManyRequests`: there is none, or not within a part of the resource API's time limit.
    async fn seat(&self, user: &User, verb: &str, path: &str) -> Result<Option<Seat>, ApiError> {
        let Some(flow) = &self.flow else { return Ok(None) };
        flow.admit_to_path(&self.handle, user, (verb, path), REQUEST_MAX).await.map(Some)
    }
}

/// The user of a request that was let in, and the address that it came from.
#[derive(Clone)]
pub(super) struct Asker {
    pub(super) user: Arc<User>,
    /// `None` for a request that came over no connection.
    pub(super) address: Option<IpAddr>,
}

async fn let_in(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    guard.gate.strip_identity(connection.as_ref(), request.headers_mut());
    let (peer, admission) =
        (request.extensions().get::<Arc<Connection>>(), request.extensions().get::<UserReporter>());
    let verb = request.method().as_str().to_ascii_lowercase();
    let attributes = Attributes::Path { verb: &verb, path: request.uri().path() };
    let exchange = Exchange::begin(request.method(), request.uri().path(), request.headers(), &SystemAmbient);
    let address = peer.map(|peer| peer.address.ip());
    let exchange = Arc::new(exchange.audited(guard.auditor.as_ref(), request.uri(), address));
    let audited = exchange.trail().map(|_| request.headers().clone());
    let (gate, headers) = (&guard.gate, request.headers());
    let at = (&guard.handle, SystemAmbient.now());
    let (path, query) = (request.uri().path(), request.uri().query());
    let seated = async {
        check_timeout_beside(query)?;
        let user = gate.authenticate(&exchange, peer, headers, admission, at).await?;
        let applied = Applied::of(&guard.handle);
        let user = gate.admit(&exchange, user, headers, attributes, &applied).await?;
        let seat = guard.seat(&user, &verb, path).await?;
        Ok::<_, ApiError>((user, seat))
    };
    let mut response = match seated.await {
        // Its view of the cluster is one from before, and its requests reach no leader.
        Ok(_) if guard.handle.is_removed() => {
            failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", REMOVED)
        }
        Ok((user, _seat)) => {
            request.extensions_mut().insert(Asker { user, address });
            next.run(request).await
        }
        Err(error) => refusal(&error),
    };
    exchange.close(&mut response, SystemAmbient.now());
    match audited {
        Some(headers) => finish_audit(&exchange, &headers, response).await,
        None => response,
    }
}

/// The response to a request that is not let in.
fn refusal(error: &ApiError) -> Response {
    match error {
        ApiError::BadRequest(reason) => failure(StatusCode::BAD_REQUEST, "BadRequest", reason),
        ApiError::Unauthorized => failure(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized"),
        ApiError::Internal(_) => {
            failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &error.to_string())
        }
        ApiError::TooManyRequests { retry_after_s } => {
            let message = "too many requests, please try again later";
            let mut response = failure(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(*retry_after_s));
            response
        }
        error => failure(StatusCode::FORBIDDEN, "Forbidden", &error.to_string()),
    }
}

async fn status(State((handle, own)): State<(Handle, OwnHealth)>, request: Request) -> Response {
    let status = async { json(StatusCode::OK, &view(handle.status()).with(&own)) };
    let is_survey = request.uri().query() == Some(SURVEY);
    match is_survey {
        true => unless_removed(handle.survey(), status).await,
        // The members' answers of the last round count, which are two seconds old at most: a member that hangs delays no status.
        false => status.await,
    }
}

/// The answer of `act`, or 503 without beginning it if a member says by `survey` that this one was removed. A removed member learns
/// of it late: its view of the cluster is old, and the leader takes no change from it. Since nothing was begun, clients may ask another
/// member for the same change.
async fn unless_removed(
    survey: impl Future<Output = Option<Peer>>,
    act: impl Future<Output = Response>,
) -> Response {
    match survey.await {
        Some(peer) => {
            let message = format!("{} says that {REMOVED}", peer.name);
            failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &message)
        }
        None => act.await,
    }
}

/// Makes a change of the members, and logs `made` once it is known to be made. `name`: the member that it is about.
async fn make(
    handle: &Handle,
    made: &'static str,
    name: Option<&str>,
    change: impl Future<Output = Result<(), ChangeError>>,
) -> Response {
    let act = async {
        let result = change.await.map_err(|error| match name {
            Some(name) => with_name(error, node_id(name), name),
            None => error,
        });
        match &result {
            Ok(()) => tracing::info!(name, "{made}"),
            Err(error @ ChangeError::Unknown { .. }) => {
                tracing::warn!(name, %error, "a change of the members may have been made");
            }
            Err(ChangeError::Refused { .. }) => {}
        }
        done(result, handle)
    };
    unless_removed(handle.survey(), act).await
}

async fn add(State(handle): State<Handle>, request: Request) -> Response {
    let Ok(body) = to_bytes(request.into_body(), BODY_BYTES_MAX).await else {
        return failure(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            "the body is too large or broken",
        );
    };
    let member: NewMember = match serde_json::from_slice(&body) {
        Ok(member) => member,
        Err(error) => return failure(StatusCode::BAD_REQUEST, "BadRequest", &error.to_string()),
    };
    if let Err(reason) = crate::cli::check_member(&member.name, &member.address) {
        return failure(StatusCode::BAD_REQUEST, "BadRequest", &reason);
    }
    if let Some(deaf) = handle.status().members.iter().find(|known| known.peer.address.ends_with(":0")) {
        let name = &deaf.peer.name;
        let reason = format!("member {name} was founded without a peer port: no other member can reach it");
        return failure(StatusCode::CONFLICT, "Conflict", &reason);
    }
    let id = node_id(&member.name);
    let peer = Peer { id, name: member.name.as_str().into(), address: member.address.as_str().into() };
    let status = handle.status();
    if let Some(reason) = added_before(&status.members, &peer) {
        let view = async { json(StatusCode::OK, &unchanged(status, reason)) };
        return unless_removed(handle.survey(), view).await;
    }
    make(&handle, "a member was added", Some(&member.name), handle.add_learner(&peer)).await
}

async fn promote(State(handle): State<Handle>, Path(name): Path<String>) -> Response {
    make(&handle, "a member was promoted", Some(&name), handle.promote(node_id(&name))).await
}

async fn lead(State(handle): State<Handle>, Path(name): Path<String>) -> Response {
    let change = handle.transfer_leader(node_id(&name));
    make(&handle, "the leader was asked to hand over to a member", Some(&name), change).await
}

async fn found(State(handle): State<Handle>) -> Response {
    let status = handle.status();
    if let Some(reason) = founded_before(&status.members) {
        return json(StatusCode::OK, &unchanged(status, reason));
    }
    match handle.found().await {
        Ok(()) => {
            // Waits for a leader, to show the operator a running cluster. The founding stands even if the election
            // takes longer.
            let seen = tokio::time::timeout(FIRST_LEADER_TIMEOUT, handle.wait_cluster()).await;
            if seen.is_err() {
                tracing::info!("the cluster is founded and has no leader yet");
            }
            json(StatusCode::OK, &view(handle.status()))
        }
        Err(error @ FoundError::Refused { .. }) => {
            failure(StatusCode::CONFLICT, "Conflict", &error.to_string())
        }
        Err(error @ FoundError::Unknown { .. }) => {
            failure(StatusCode::GATEWAY_TIMEOUT, "Timeout", &error.to_string())
        }
    }
}

async fn undo(State(handle): State<Handle>) -> Response {
    make(&handle, "a change of the members was taken back", None, handle.undo_change()).await
}

async fn remove(State(handle): State<Handle>, Path(name): Path<String>) -> Response {
    make(&handle, "a member was removed", Some(&name), handle.remove(node_id(&name))).await
}

/// Replaces the id of an unknown member by the name in the request: the store's message has only the id.
fn with_name(error: ChangeError, id: NodeId, name: &str) -> ChangeError {
    match error {
        ChangeError::Refused { reason } => {
            ChangeError::Refused { reason: reason.replace(&format!("{:016x}", id.0), name) }
        }
        ChangeError::Unknown { .. } => error,
    }
}

fn done(result: Result<(), ChangeError>, handle: &Handle) -> Response {
    match result {
        Ok(()) => json(StatusCode::OK, &view(handle.status())),
        Err(error @ ChangeError::Refused { .. }) => {
            failure(StatusCode::CONFLICT, "Conflict", &error.to_string())
        }
        Err(error @ ChangeError::Unknown { .. }) => {
            failure(StatusCode::GATEWAY_TIMEOUT, "Timeout", &error.to_string())
        }
    }
}

pub(super) fn failure(code: StatusCode, reason: &str, message: &str) -> Response {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    json(code, &status)
}

pub(super) fn json(code: StatusCode, value: &impl Serialize) -> Response {
    let body = serde_json::to_vec(value).expect("plain structs and values serialize");
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_member_that_another_calls_removed_passes_no_change_on() {
        let c = Peer { id: node_id("c"), name: "c".into(), address: "h:1".into() };
        for (said, expected) in [(Some(c), StatusCode::SERVICE_UNAVAILABLE), (None, StatusCode::OK)] {
            let (is_removed, is_passed_on) = (said.is_some(), AtomicBool::new(false));
            let act = async {
                is_passed_on.store(true, Ordering::Relaxed);
                json(StatusCode::OK, &"made")
            };
            let answer = unless_removed(async { said }, act).await;
            assert_eq!(answer.status(), expected);
            assert_eq!(is_passed_on.load(Ordering::Relaxed), !is_removed);
            let body = to_bytes(answer.into_body(), BODY_BYTES_MAX).await.unwrap();
            let text = String::from_utf8_lossy(&body);
            assert_eq!(text.contains("c says that this member was removed"), is_removed, "{text}");
        }
    }
}
