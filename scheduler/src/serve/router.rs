//! From a request to its answer: authentication, authorization, and the pages by their paths.
//!
//! Owns the order: authentication comes first, so that a bad token is refused even on a path that everybody may read. It knows no
//! socket.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, WARNING};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Body;
use orch_bounded::WarningLimit;
use orch_serving::zpages::Page;

use super::answer::{
    Answer, TEXT, answer, document, error, forbidden, not_found, unauthorized, uncached, unsniffed,
};
use super::authentication::Authenticator;
use super::authorization::Authorizer;
use super::health::Checks;
use super::pages::{self, Pages};
use super::profile::{self, Profiler};
use super::slis::Slis;
use super::tls::Peer;
use super::user::{ANONYMOUS, User};
use crate::logging;
use crate::metrics::Metrics;

/// The content type of metrics.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
/// Most bytes of a request's body; only a verbosity is sent here.
const BODY_BYTES_MAX: usize = 1024;

/// The checks of each health path.
#[derive(Clone, Default)]
pub struct Health {
    /// Of `/healthz`.
    pub healthz: Checks,
    /// Of `/livez`.
    pub livez: Checks,
    /// Of `/readyz`.
    pub readyz: Checks,
}

/// Marks the answer to a request whose credentials were accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Authenticated;

/// Answers requests.
pub(crate) struct Router {
    /// Authenticates requests.
    pub authenticator: Authenticator,
    /// Authorizes requests.
    pub authorizer: Authorizer,
    /// Health.
    pub health: Health,
    /// Results of health checks, for `/metrics/slis`.
    pub slis: Slis,
    /// Metrics.
    pub metrics: Metrics,
    /// The other pages.
    pub pages: Pages,
    /// Makes profiles; `None` where profiling is off.
    pub profiler: Option<Profiler>,
    /// Changes the verbosity of log lines.
    pub verbosity: logging::Verbosity,
    /// Warnings about requests that cannot be authorized.
    pub(super) unauthorizable: WarningLimit,
}

impl Router {
    /// Answers a request that came over the connection of `peer`. The answer to somebody has the extension
    /// [`Authenticated`].
    pub(super) async fn answer<B>(self: Arc<Self>, peer: Arc<Peer>, mut request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Ok(user) = self.authenticator.authenticate(&peer, request.headers_mut()).await else {
            return uncached(unauthorized());
        };
        let mut answer = uncached(self.answer_to(&user, request).await);
        if user.name != ANONYMOUS {
            answer.extensions_mut().insert(Authenticated);
        }
        answer
    }

    async fn answer_to<B>(&self, user: &User, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = request.uri().path().to_owned();
        let verb = request.method().as_str().to_ascii_lowercase();
        match self.authorizer.authorize(user, &verb, &path).await {
            Ok(verdict) if verdict.is_allowed => {}
            Ok(verdict) => return forbidden(&user.name, &verb, &path, &verdict.reason),
            Err(fault) => {
                if let Some(left_out) = self.unauthorizable.pass() {
                    tracing::warn!(error = %fault, left_out, "a request cannot be authorized");
                }
                let target = request.uri().path_and_query().map_or(path.as_str(), PathAndQuery::as_str);
                let text = format!("Internal Server Error: {target:?}: {fault}");
                return error(StatusCode::INTERNAL_SERVER_ERROR, &without_markup(&text));
            }
        }
        let query = request.uri().query().unwrap_or_default().to_owned();
        let method = request.method().clone();
        let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match &*path {
            "/flagz" => return zpage(self.pages.flags(), accept),
            "/statusz" => return zpage(self.pages.status(), accept),
            _ => {}
        }
        if path == "/debug/flags/v" && self.profiler.is_some() {
            return self.set_verbosity(&method, request.into_body()).await;
        }
        self.page(&method, &path, &query).await
    }

    async fn page(&self, method: &Method, path: &str, query: &str) -> Answer {
        match path {
            "/healthz" => self.health.healthz.answer("healthz", query, &self.slis),
            "/livez" => self.health.livez.answer("livez", query, &self.slis),
            "/readyz" => self.health.readyz.answer("readyz", query, &self.slis),
            "/metrics" if method == Method::DELETE => {
                self.metrics.reset();
                unsniffed(answer(StatusCode::OK, TEXT, "metrics reset\n"))
            }
            "/metrics" => answer(StatusCode::OK, METRICS, self.metrics.render()),
            "/metrics/slis" if method == Method::DELETE => {
                self.slis.reset();
                unsniffed(answer(StatusCode::OK, TEXT, "metrics reset\n"))
            }
            "/metrics/slis" => answer(StatusCode::OK, METRICS, self.slis.render(self.pages.brand)),
            "/metrics/resources" => answer(StatusCode::OK, METRICS, self.pages.resources()),
            "/configz" => document(&self.pages.configuration()),
            _ => self.nested_page(method, path, query).await,
        }
    }

    async fn nested_page(&self, method: &Method, path: &str, query: &str) -> Answer {
        for (root, checks) in [
            ("/healthz/", &self.health.healthz),
            ("/livez/", &self.health.livez),
            ("/readyz/", &self.health.readyz),
        ] {
            if let Some(name) = path.strip_prefix(root) {
                return checks.answer_single(name).unwrap_or_else(not_found);
            }
        }
        match (&self.profiler, path.strip_prefix(profile::ROOT)) {
            (Some(profiler), Some("")) => profiler.moved(method),
            (Some(profiler), Some(name)) => match name.strip_prefix('/') {
                Some(name) => profiler.answer(name, query).await,
                None => not_found(),
            },
            _ => not_found(),
        }
    }

    /// Sets the verbosity of log lines, which PUT carries as a number.
    async fn set_verbosity<B>(&self, method: &Method, body: B) -> Answer
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let plain = "text/plain";
        if method != Method::PUT {
            return unsniffed(answer(StatusCode::NOT_ACCEPTABLE, plain, "unsupported http method\n"));
        }
        let refused = |reason: String| unsniffed(answer(StatusCode::BAD_REQUEST, plain, reason + "\n"));
        let mut body = std::pin::pin!(body);
        let text = match Limited::new(body.as_mut(), BODY_BYTES_MAX).collect().await {
            Ok(collected) => String::from_utf8_lossy(&collected.to_bytes()).trim().to_owned(),
            Err(fault) => return refused(format!("error reading body: {fault}")),
        };
        match pages::verbosity(&text) {
            Ok(level) => {
                self.verbosity.set(level);
                tracing::info!(level, "the verbosity of log lines was changed");
                answer(StatusCode::OK, plain, format!("successfully set the verbosity to {level}\n"))
            }
            Err(reason) => refused(format!("failed set the verbosity {text:?}: {reason}")),
        }
    }
}

/// The text, in which clients that guess its type find no markup.
fn without_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A page about the process in the form that `accept` asks for.
fn zpage(page: Page, accept: &str) -> Answer {
    let made = page.answer(accept);
    let mut response =
        answer(StatusCode::from_u16(made.code).unwrap_or_default(), made.content_type, made.body);
    let warning = made.warning.and_then(|warning| HeaderValue::try_from(warning).ok());
    response.headers_mut().extend(warning.map(|warning| (WARNING, warning)));
    response
}
