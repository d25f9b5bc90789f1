//! HTTP: from a request to the pipeline and back.
//!
//! Owns the order of the stages: health and version without credentials; then authentication, authorization, endpoint,
//! representation and body; then the pipeline. It holds no rule of any kind of object.
//!
//! Invariant: a failure names no secret. It is a Status, except on health paths, on paths outside of all APIs, and the
//! 406 of an OpenAPI document.

mod assembly;
mod audited;
mod body;
mod connect;
mod deadline;
mod discovery;
mod fair;
mod gzip;
mod health;
mod held;
mod large;
mod measure;
mod openapi;
mod own_paths;
mod pool;
mod respond;
mod rights;
mod room;
mod root;
mod served;
mod slis;
#[cfg(test)]
mod tests;
mod token_keys;
mod turns;
mod version;
mod waiting;
mod watching;

use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::extract::State as Shared;
use body::Upload;
use bytes::Bytes;
use deadline::{check_timeout, deadline, run_until_deadline};
use held::{COUNTED_BYTES_MIN, Hold, Ledger, Payer, keep_until_sent};
use http::{Extensions, HeaderValue, Method, Request as HttpRequest, Response, Uri, Version, header};
use orch_bounded::WarningLimit;
use orch_raft::Store;
use orch_schema::budget::Budget;
use orch_schema::excerpt::quoted;
use own_paths::is_own;
use pool::{OwnedRequest, Pool};
use served::Served;
use tokio_util::sync::CancellationToken;

use crate::audit::Auditor;
use crate::authn::impersonate;
use crate::authn::{Peer, User, UserReporter};
use crate::authz::{Asked, Attributes};
use crate::connect::Connector;
use crate::connect::headers::asks_for_upgrade;
use crate::endpoint::Endpoint;
use crate::error::ApiError;
use crate::exchange::Exchange;
use crate::flow::FlowControl;
use crate::follow::Applied;
use crate::metrics::{Exposition, Measured, RequestMetrics};
use crate::negotiate::{JSON, Negotiate, Representation, View, negotiate, negotiate_without_table};
use crate::pipeline::{Answer, Pipeline, Request, WriteOutcome};
use crate::registry::Registry;
use crate::render::{IncludeObject, Renderer};
use crate::request::{Query, Target, TargetPath, Verb, parse_path, without_trailing_slash};
use crate::status::Status;

pub use audited::finish_audit;
pub use deadline::{REQUEST_MAX, check_timeout_beside};
pub use health::Scope;
pub use held::WATCH_BYTES;
pub use respond::{Lasting, WatchResponse};
pub use version::Build;

/// Limits the log: a client can cause the same internal error again and again.
static INTERNAL_ERRORS: WarningLimit = WarningLimit::new();

/// Paths that need no credentials.
const OPEN_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", version::PATH];

/// The API of one node.
pub struct Api<S> {
    pipeline: Arc<Pipeline<S>>,
    /// Cancelled when the node shuts down: it becomes unready, and watches end.
    stopping: CancellationToken,
    served: Arc<Served>,
    pool: Pool,
    ledger: Ledger,
    /// The account of what watches hold.
    watch_ledger: Ledger,
    metrics: RequestMetrics,
    flow: Arc<FlowControl>,
    /// Writes `/metrics`; `None`: the path is not served.
    exposition: Option<Arc<dyn Exposition>>,
    checks: health::Checks,
    build: Build,
    /// The document at `/version`.
    version: Document,
    /// Paths that the node serves beside this API, for the index.
    beside: Vec<&'static str>,
    auditor: Option<Arc<Auditor>>,
    /// `None`: no request is passed on to other servers.
    connector: Option<Connector>,
}

/// The head of a request and its connection, without the body.
struct Parts {
    method: Method,
    version: Version,
    uri: Uri,
    path: String,
    query: Query,
    headers: http::HeaderMap,
    peer: Option<Arc<Peer>>,
    /// Of the request: what its connection needs to leave HTTP with the response.
    extensions: Extensions,
    /// The registry and documents that were served when the request arrived.
    served: Arc<Served>,
    /// Reports the authenticated user to the listener.
    admission: Option<UserReporter>,
    exchange: Arc<Exchange>,
    /// Metrics of this request; empty until its resource is known.
    measured: OnceLock<Measured>,
}

/// A request of a user who was let in, for a resource that is served.
#[derive(Clone, Copy)]
struct Admitted<'a> {
    parts: &'a Parts,
    user: &'a Arc<User>,
    target: &'a Target,
    endpoint: Endpoint<'a>,
    attributes: Attributes<'a>,
}

async fn handle<S: Store>(Shared(api): Shared<Arc<Api<S>>>, request: HttpRequest<Body>) -> Response<Body> {
    let ambient = &*api.pipeline.ambient;
    let (method, path) = (request.method(), request.uri().path());
    let exchange = Exchange::begin(method, path, request.headers(), ambient);
    let peer = request.extensions().get::<Arc<Peer>>().map(|peer| peer.address.ip());
    let exchange = Arc::new(exchange.audited(api.auditor.as_ref(), request.uri(), peer));
    let (mut parts, mut upload) = take_apart(request, exchange, api.served.clone());
    api.pipeline.gate.strip_identity(parts.peer.as_ref(), &mut parts.headers);
    let version = parts.version;
    let answer = Box::pin(api.answer(&parts, &mut upload)).await;
    let (mut response, error) = match answer {
        Ok(response) => (response, None),
        Err(error) => (api.failure(&parts, &error), Some(error)),
    };
    parts.exchange.close(&mut response, ambient.now());
    api.measure_end(&parts, &response);
    api.flow.mark(parts.exchange.flow(), response.headers_mut());
    if parts.exchange.trail().is_some() {
        audited::record_failure(&parts.exchange, error.as_ref(), api.served.registry.brand);
        response = Box::pin(finish_audit(&parts.exchange, &parts.headers, response)).await;
    }
    let Some(error) = error else { return response };
    // The client may still be sending the body, or bytes of the protocol that it wants to go over to, so that the connection
    // cannot carry another request.
    let is_spent = matches!(error, ApiError::BodyTooLarge { .. }) || asks_for_upgrade(&parts.headers);
    if is_spent && version < Version::HTTP_2 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    // Frees the request's headers while the rest of the body drains.
    drop(parts);
    // After a timeout the rest of the body is not waited for.
    if !matches!(error, ApiError::DeadlineExceeded | ApiError::NothingChanged) {
        upload.drop_rest(&api.pipeline.store).await;
    }
    response
}

/// The budget of a request. Reads, and deletions of collections, iterate over stored objects, not over the client's
/// input: their steps are unbounded, and they end when the client disconnects.
fn budget_of(verb: Verb) -> Budget {
    if verb.is_read() || verb == Verb::DeleteCollection { Budget::of(u64::MAX) } else { Budget::default() }
}

fn take_apart(request: HttpRequest<Body>, exchange: Arc<Exchange>, served: Arc<Served>) -> (Parts, Upload) {
    let (parts, body) = request.into_parts();
    let peer = parts.extensions.get::<Arc<Peer>>().cloned();
    let admission = parts.extensions.get::<UserReporter>().cloned();
    let query = Query::parse(parts.uri.query().unwrap_or(""));
    let path = parts.uri.path().to_owned();
    let upload = Upload::new(&parts.headers, body);
    let parts = Parts {
        method: parts.method,
        version: parts.version,
        uri: parts.uri,
        path,
        query,
        headers: parts.headers,
        peer,
        extensions: parts.extensions,
        served,
        admission,
        exchange,
        measured: OnceLock::new(),
    };
    (parts, upload)
}

impl<S: Store> Api<S> {
    async fn answer(
        self: &Arc<Self>,
        parts: &Parts,
        upload: &mut Upload,
    ) -> Result<Response<Body>, ApiError> {
        check_timeout(&parts.method, &parts.path, &parts.query, &parts.served.registry)?;
        if parts.is_without_credentials()
            && let Some(response) = self.open_path(parts).await
        {
            return response;
        }
        let user = self.authenticate(parts).await?;
        match parse_path(&parts.path) {
            TargetPath::Resource(target) => self.answer_of_resource(parts, upload, user, &target).await,
            TargetPath::Other => self.other_path(parts, user).await,
            TargetPath::Malformed => {
                Err(ApiError::BadRequest("the path holds escapes that are not UTF-8".to_owned()))
            }
        }
    }

    /// The answer for a resource: lets `user` in, finds the endpoint, and serves it or passes the request on.
    async fn answer_of_resource(
        self: &Arc<Self>,
        parts: &Parts,
        upload: &mut Upload,
        user: Arc<User>,
        target: &Target,
    ) -> Result<Response<Body>, ApiError> {
        let (exchange, gate) = (&parts.exchange, &self.pipeline.gate);
        let verb = Verb::of(&parts.method, target, &parts.query);
        let endpoint = parts.endpoint(target);
        let _under_way = self.measure_begin(parts, target, endpoint.as_ref().ok(), verb);
        let asked = Asked::of(&parts.method, target, &parts.query);
        let attributes = Attributes::Resource(asked.attributes(target, &parts.query));
        if let (Some(Verb::Watch), Some(peer)) = (verb, parts.peer.as_ref()) {
            exchange.set_credential(gate.credential(peer, &parts.headers, &user));
        }
        let user = self.admit(parts, user, attributes).await?;
        let endpoint = endpoint?;
        check_name(&target.name)?;
        let admitted = Admitted { parts, user: &user, target, endpoint, attributes };
        if endpoint.action.is_passed_on() {
            return Box::pin(self.pass_on(admitted, upload, verb)).await;
        }
        let verb = verb.ok_or(ApiError::MethodNotAllowed)?;
        endpoint.check_verb(target, verb)?;
        exchange.warn(endpoint.resource.strategy.deprecation(parts.served.registry.brand));
        self.serve(admitted, upload, verb).await
    }

    /// Waits for a seat, takes the body, and runs the pipeline, all within the request's time.
    async fn serve(
        self: &Arc<Self>,
        admitted: Admitted<'_>,
        upload: &mut Upload,
        verb: Verb,
    ) -> Result<Response<Body>, ApiError> {
        let Admitted { parts, user, target, endpoint, attributes } = admitted;
        let exchange = &parts.exchange;
        let (representation, limit) = (parts.representation_of(endpoint)?, deadline(verb, &parts.query)?);
        let content_type = header_text(&parts.headers, &header::CONTENT_TYPE).to_ascii_lowercase();
        let (budget, store) = (Arc::new(budget_of(verb)), &self.pipeline.store);
        let small = self.small_body(upload, verb, limit, &budget).await?;
        let body_bytes = if small.is_some() { 0 } else { upload.may_hold(verb) };
        let of = Some((verb, endpoint.resource));
        let seat = self.seat(parts, user, attributes, of, (limit, body_bytes)).await?;
        if verb == Verb::Watch && seat.is_limited() {
            // The start of a watch never waits. Of ten thousand that come at once no more than have seats are in the line of
            // tasks, so that other requests are not behind them all.
            tokio::task::yield_now().await;
        }
        let response = run_until_deadline(store, limit, verb, &budget, async {
            let (hold, body) = match small {
                Some(body) => (None, body),
                None => self.take_body(upload, verb, Payer::of(user, exchange), &seat).await?,
            };
            let request = Request {
                verb,
                registry: &parts.served.registry,
                target,
                resource: endpoint.resource,
                action: endpoint.action,
                query: &parts.query,
                exchange,
                user,
                user_agent: header_text(&parts.headers, &header::USER_AGENT),
                content_type: &content_type,
                body: &body,
                budget: &budget,
            };
            if !self.is_large(request, representation) {
                return self.carry_out(request, representation).await;
            }
            let large = OwnedRequest::of(request, exchange.clone(), user.clone(), budget.clone());
            self.carry_out_large(request, large, representation, hold).await
        })
        .await?;
        Ok(self.seat_while_sent(seat, verb, response))
    }

    /// Carries out a large request in the pool. Its response keeps `hold`, or room of its own.
    async fn carry_out_large(
        self: &Arc<Self>,
        request: Request<'_>,
        large: OwnedRequest,
        representation: Representation,
        hold: Option<Hold>,
    ) -> Result<Response<Body>, ApiError> {
        let hold = match hold {
            None => self.room_for_answer(request, representation).await?,
            both => both,
        };
        let response = Box::pin(self.carry_out_in_pool(large, representation)).await?;
        Ok(match hold {
            Some(hold) => keep_until_sent(response, hold),
            None => response,
        })
    }

    async fn authenticate(&self, parts: &Parts) -> Result<Arc<User>, ApiError> {
        let at = (&self.pipeline.store, self.pipeline.ambient.now());
        let (gate, peer) = (&self.pipeline.gate, parts.peer.as_ref());
        gate.authenticate(&parts.exchange, peer, &parts.headers, parts.admission.as_ref(), at).await
    }

    async fn admit(
        &self,
        parts: &Parts,
        user: Arc<User>,
        attributes: Attributes<'_>,
    ) -> Result<Arc<User>, ApiError> {
        let applied = Applied::of(&self.pipeline.store);
        self.pipeline.gate.admit(&parts.exchange, user, &parts.headers, attributes, &applied).await
    }

    /// Runs the pipeline and renders its answer.
    async fn carry_out(
        self: &Arc<Self>,
        request: Request<'_>,
        representation: Representation,
    ) -> Result<Response<Body>, ApiError> {
        // Only tables have this option; any value is accepted otherwise.
        let include = match representation.view {
            View::Table => IncludeObject::parse(request.query.text("includeObject"))?,
            View::Whole | View::Metadata | View::MetadataList => IncludeObject::default(),
        };
        let renderer = Renderer::new(request.registry, request.resource, representation, include);
        if request.verb == Verb::Watch {
            return Box::pin(self.start_watch(request, representation, renderer)).await;
        }
        let (answer, hold) = self.run(request).await?;
        let now = self.pipeline.ambient.now();
        audited::record_answer(request, representation, include, &answer, now);
        let content_type = renderer.content_type();
        Ok(match answer {
            Answer::Stored(object) => respond::payload(200, content_type, renderer.object(&object, now)?),
            Answer::List(list) => {
                let payer = Payer::of(request.user, request.exchange);
                self.list_answer(payer, content_type, renderer.list(list, now)?)?
            }
            Answer::Listed(list) => {
                let response = respond::payload(200, content_type, renderer.list(list, now)?);
                match hold {
                    Some(hold) => keep_until_sent(response, hold),
                    None => response,
                }
            }
            Answer::Written(written) => {
                let code = match written.outcome {
                    WriteOutcome::Created => 201,
                    WriteOutcome::Done => 200,
                    WriteOutcome::Accepted => 202,
                };
                respond::payload(code, content_type, renderer.written(&written, now)?)
            }
            Answer::Done(status) => {
                let code = if status.code == 0 { 200 } else { status.code };
                status_response(code, request.registry, &status, representation)
            }
        })
    }

    /// Runs the pipeline. A deletion of a collection reserves memory for its response before the first object is
    /// deleted: a write that has begun can no longer be refused.
    async fn run(&self, request: Request<'_>) -> Result<(Answer, Option<Hold>), ApiError> {
        if request.verb != Verb::DeleteCollection {
            return Ok((self.pipeline.run(request).await?, None));
        }
        self.pipeline.store.may_serve()?;
        let doomed = self.pipeline.select_for_deletion(request).await?;
        // The search may have been cut short by the deadline or a cancellation: nothing may be deleted by its result.
        request.budget.check()?;
        let hold = match doomed.bytes() {
            small if small < COUNTED_BYTES_MIN => None,
            bytes => Some(self.ledger.take(&Payer::of(request.user, request.exchange), bytes)?),
        };
        Ok((self.pipeline.delete_collection(request, doomed).await?, hold))
    }

    /// Paths that name no resource: discovery, OpenAPI, keys of tokens, or 404.
    async fn other_path(
        self: &Arc<Self>,
        parts: &Parts,
        user: Arc<User>,
    ) -> Result<Response<Body>, ApiError> {
        let verb = parts.method.as_str().to_ascii_lowercase();
        let attributes = Attributes::Path { verb: &verb, path: &parts.path };
        let user = self.admit(parts, user, attributes).await?;
        let _seat = self.seat(parts, &user, attributes, None, (REQUEST_MAX, 0)).await?;
        if let Some(response) = self.open_path(parts).await {
            return response;
        }
        let path = without_trailing_slash(&parts.path).ok_or_else(|| parts.not_found_error())?;
        if is_own(path) {
            return self.own_path(parts, &user, path).await;
        }
        let discovery = &parts.served.discovery;
        // The root is empty without its slash.
        let (is_root, document) = (path.is_empty(), discovery.find(path));
        if !is_root && document.is_none() {
            return Err(parts.not_found_error());
        }
        if parts.method != Method::GET && parts.method != Method::HEAD {
            return Err(ApiError::MethodNotAllowed);
        }
        let accept = accept(&parts.headers);
        let aggregated = discovery.find_aggregated(path, accept.as_deref().unwrap_or_default());
        match (aggregated, document) {
            _ if is_root => Ok(respond::json(200, self.index(discovery))),
            (Some((found, encoding)), _) => Ok(discovery::answer_aggregated(found, encoding, parts)),
            (_, Some(document)) => discovery::answer_plain(document, parts, accept.as_deref()),
            (None, None) => Err(parts.not_found_error()),
        }
    }

    fn failure(&self, parts: &Parts, error: &ApiError) -> Response<Body> {
        if let ApiError::Internal(reason) = error
            && let Some(left_out) = INTERNAL_ERRORS.pass()
        {
            let (id, method, path) = (parts.exchange.id(), &parts.method, &parts.path);
            tracing::error!(id = &*id, %method, path, reason, left_out, "internal error");
        }
        if matches!(error, ApiError::NoPage) {
            return respond::no_page();
        }
        if let ApiError::TooManyRequests { retry_after_s } = error {
            return respond::too_many_requests(*retry_after_s);
        }
        let registry = &parts.served.registry;
        let status = Status::of(error, registry.brand);
        // A failure has a body even where nothing in `Accept` can be written.
        let representation = parts.representation(negotiate).unwrap_or(JSON);
        status_response(status.code, registry, &status, representation)
    }
}

impl Parts {
    /// Whether this is a read of a path that is open to everybody, by somebody who shows no credential: probes carry
    /// none. Whoever shows one needs the right to the path, as do those who ask for single checks.
    fn is_without_credentials(&self) -> bool {
        let is_read = matches!(self.method, Method::GET | Method::HEAD);
        let path = without_trailing_slash(&self.path);
        let is_open = path.is_some_and(|path| OPEN_PATHS.contains(&path));
        let shows = self
            .headers
            .keys()
            .any(|name| *name == header::AUTHORIZATION || name.as_str().starts_with(impersonate::PREFIX));
        let is_known = self.peer.as_ref().is_some_and(|peer| peer.certificate.is_some() || peer.local_admin);
        is_read && is_open && !shows && !is_known
    }

    fn endpoint(&self, target: &Target) -> Result<Endpoint<'_>, ApiError> {
        self.served.registry.endpoint(target).map_err(|error| match error {
            ApiError::NoPage => self.not_found_error(),
            error => error,
        })
    }

    /// The 404 for a path that is not served: below the core API or a served group a Status, elsewhere plain text.
    fn not_found_error(&self) -> ApiError {
        if self.served.discovery.covers(&self.path) { ApiError::UnknownPath } else { ApiError::NoPage }
    }

    /// The representation of the documents of `endpoint`.
    fn representation_of(&self, endpoint: Endpoint<'_>) -> Result<Representation, ApiError> {
        self.representation(if endpoint.is_readable() { negotiate } else { negotiate_without_table })
    }

    fn representation(&self, negotiate: Negotiate) -> Result<Representation, ApiError> {
        let agent = header_text(&self.headers, &header::USER_AGENT);
        negotiate(accept(&self.headers).as_deref(), agent, &self.query, self.served.registry.brand)
    }
}

fn status_response(
    code: u16,
    registry: &Registry,
    status: &Status,
    representation: Representation,
) -> Response<Body> {
    let bytes = crate::render::status(status, representation, &registry.schema);
    let retry = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    let mut response = respond::bytes(code, representation.media_type(registry.brand), bytes);
    respond::retry_after(&mut response, retry);
    response
}

/// Checks that an object may have this name: names are path segments.
fn check_name(name: &str) -> Result<(), ApiError> {
    let fault = match name {
        "." | ".." => format!("may not be '{name}'"),
        _ if name.contains('%') => "may not contain '%'".to_owned(),
        _ => return Ok(()),
    };
    Err(ApiError::BadRequest(format!("Name parameter invalid: {}: {fault}", quoted(name))))
}

fn header_text<'a>(headers: &'a http::HeaderMap, name: &header::HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
}

/// All `Accept` headers joined.
fn accept(headers: &http::HeaderMap) -> Option<String> {
    let texts: Vec<&str> =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    if texts.is_empty() { None } else { Some(texts.join(",")) }
}

/// A document that is the same for every client.
type Document = Bytes;
