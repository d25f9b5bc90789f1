//! A request on its way to a backend, and its answer on the way back.

use axum::body::Body;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, LOCATION, UPGRADE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};

use super::super::body::Upload;
use super::super::respond::{self, Lasting};
use super::super::stages::{Authorized, ResourceEndpoint};
use crate::connect::headers::{asks_for_upgrade, of_request, strip_answer};
use crate::connect::{BackendError, Connector, Destination, Location, Mount, REFUSAL_BYTES_MAX};
use crate::error::{ApiError, ConnectError};

/// A request on its way.
pub(super) struct Passage<'a> {
    pub(super) passing: &'a Authorized<'a, ResourceEndpoint<'a>>,
    pub(super) connector: &'a Connector,
    /// The headers of the client's request without those of identity.
    pub(super) headers: HeaderMap,
    pub(super) lasting: Lasting,
}

/// The reason why a location cannot be reached.
enum Unreached {
    /// The client's request is refused.
    Refused(ApiError),
    /// The host has no address.
    Unresolved(String),
    /// Nothing is reached there.
    Nowhere(String),
}

impl Passage<'_> {
    /// Reads a log. The kubelet gets a request of this server's own: nothing of the client's but the options.
    pub(super) async fn log(self, location: &Location, query: &str) -> Result<Response<Body>, ApiError> {
        let (authority, target) = (location.authority(), location.target(query));
        let failed = |reason: String| {
            let text = format!("Get \"https://{authority}{target}\": {reason}");
            ApiError::Connect(ConnectError::Failed(text))
        };
        let destination = self.destination(location).await.map_err(|unreached| match unreached {
            Unreached::Refused(error) => error,
            Unreached::Unresolved(reason) | Unreached::Nowhere(reason) => failed(reason),
        })?;
        let request = Request::get(&target)
            .header(HOST, &authority)
            .header(USER_AGENT, concat!("orch/", env!("CARGO_PKG_VERSION")))
            .body(Body::empty())
            .map_err(|error| failed(error.to_string()))?;
        let answer = self.connector.backends.forward(&destination, request).await;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        let code = answer.status().as_u16();
        match code {
            200..=206 => Ok(respond::lasting(respond::text_stream(answer.into_body()), self.lasting)),
            300..=399 if answer.headers().contains_key(LOCATION) => {
                Err(failed("redirects forbidden".to_owned()))
            }
            _ => {
                // A text that is too long is left out: what was read of it may be anything.
                let text = Limited::new(answer.into_body(), REFUSAL_BYTES_MAX).collect().await;
                let text = text.map(|text| String::from_utf8_lossy(&text.to_bytes()).into_owned());
                let (text, pod) =
                    (text.unwrap_or_default(), self.passing.destination().info.target.name.clone());
                Err(ApiError::Connect(ConnectError::Refused { code, text, pod }))
            }
        }
    }

    /// Passes a request on to a pod or a node.
    pub(super) async fn proxy(
        self,
        location: &Location,
        upload: &mut Upload,
    ) -> Result<Response<Body>, ApiError> {
        let arrived = self.passing.arrived();
        let mount = self.mount(location);
        let raw_query = arrived.uri.query().unwrap_or("");
        if asks_for_upgrade(&arrived.headers) {
            return self.upgrade(location, raw_query, Some(&mount)).await;
        }
        // An address that is not allowed is told before anything else, as in the reference.
        let destination = self.destination(location).await.map_err(unreachable)?;
        if location.path.is_empty() && matches!(arrived.method, Method::GET | Method::HEAD) {
            return Ok(self.with_slash(&mount));
        }
        let uri = mount.forwarded_uri(&location.path);
        let request = self.request(location, raw_query, Some(&uri), upload.take())?;
        let answer = self.connector.backends.forward(&destination, request).await;
        let mut answer = answer.map_err(|error| unreachable(Unreached::Nowhere(error.to_string())))?;
        strip_answer(answer.headers_mut());
        let redirect = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        if let Some(rewritten) = redirect.map(|redirect| mount.location(redirect)) {
            respond::put(answer.headers_mut(), LOCATION, &rewritten);
        }
        Ok(respond::lasting(answer, self.lasting))
    }

    /// Passes a request on that leaves HTTP with its answer.
    pub(super) async fn upgrade(
        self,
        location: &Location,
        query: &str,
        mount: Option<&Mount>,
    ) -> Result<Response<Body>, ApiError> {
        let failed = |text: String| ApiError::Connect(ConnectError::Failed(text));
        let undialled = |reason: String| failed(format!("error dialing backend: {reason}"));
        let destination = self.destination(location).await.map_err(|unreached| match unreached {
            Unreached::Refused(error) => error,
            Unreached::Unresolved(reason) | Unreached::Nowhere(reason) => undialled(reason),
        })?;
        let uri = mount.map(|mount| mount.forwarded_uri(&location.path));
        let mut request = self.request(location, query, uri.as_deref(), Body::empty())?;
        request.headers_mut().remove(CONTENT_LENGTH);
        *request.extensions_mut() = self.passing.arrived().extensions.clone();
        request.extensions_mut().insert(self.lasting.clone());
        let answer = self.connector.backends.forward(&destination, request).await;
        let mut answer = answer.map_err(|error| match error {
            BackendError::Dial(reason) => undialled(reason),
            other => failed(other.to_string()),
        })?;
        let upgrade = answer.headers().get(UPGRADE).cloned();
        strip_answer(answer.headers_mut());
        let code = answer.status().as_u16();
        let headers = answer.headers_mut();
        match code {
            101 => {
                headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
                headers.extend(upgrade.map(|upgrade| (UPGRADE, upgrade)));
                Ok(respond::lasting(answer, self.lasting))
            }
            // The backend's refusal is told; its connection ends with it, and so does the client's.
            400.. => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
                Ok(respond::lasting(answer, self.lasting))
            }
            _ => Err(failed(format!("invalid upgrade response: status code {code}"))),
        }
    }

    /// The client's request as the backend gets it.
    fn request(
        &self,
        location: &Location,
        query: &str,
        forwarded_uri: Option<&str>,
        body: Body,
    ) -> Result<Request<Body>, ApiError> {
        let arrived = self.passing.arrived();
        let client = arrived.peer.as_ref().map(|peer| peer.address.ip());
        let host = self.host();
        let host = if host.is_empty() { location.authority() } else { host };
        let mut request = Request::new(body);
        *request.method_mut() = arrived.method.clone();
        let target = location.target(query);
        *request.uri_mut() = target.parse().map_err(|_| {
            ApiError::BadRequest("the path and query are too long for the backend".to_owned())
        })?;
        *request.headers_mut() = of_request(&self.headers, &host, client, forwarded_uri);
        Ok(request)
    }

    /// The host by which the client called this server.
    fn host(&self) -> String {
        let arrived = self.passing.arrived();
        let named = arrived.headers.get(HOST).and_then(|value| value.to_str().ok());
        let host = named.or(arrived.uri.authority().map(|authority| authority.as_str()));
        host.unwrap_or_default().to_owned()
    }

    /// Where this server serves the backend.
    fn mount(&self, location: &Location) -> Mount {
        let (arrived, target) = (self.passing.arrived(), &self.passing.destination().info.target);
        let path = percent_encoding::percent_decode_str(&arrived.path).decode_utf8_lossy();
        let prefix = path.strip_suffix(target.subpath.as_str()).unwrap_or(&path).to_owned();
        Mount { prefix, backend: location.authority(), host: self.host() }
    }

    /// The redirect of a proxy that was asked without a slash behind it: relative links need it.
    fn with_slash(&self, mount: &Mount) -> Response<Body> {
        let query = self.passing.arrived().uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
        let path = mount.forwarded_uri("/");
        respond::put(response.headers_mut(), LOCATION, &format!("{path}{query}"));
        response
    }

    /// Resolves the host of `location` and checks what it resolved to.
    async fn destination(&self, location: &Location) -> Result<Destination, Unreached> {
        let resolved = match location.host.parse() {
            Ok(address) => Ok(vec![address]),
            Err(_) => self.connector.backends.resolve(&location.host).await,
        };
        let unresolved = |reason| Unreached::Unresolved(format!("lookup {}: {reason}", location.host));
        let addresses = resolved.map_err(unresolved)?;
        let addresses = self.connector.reach.checked(addresses).map_err(Unreached::Refused)?;
        let port = location.port_number().map_err(Unreached::Nowhere)?;
        Ok(Destination {
            scheme: location.scheme,
            host: location.host.clone(),
            addresses: addresses.into_iter().map(|address| (address, port).into()).collect(),
            trust: location.trust,
        })
    }
}

/// The failure of a proxy that reaches no backend.
fn unreachable(unreached: Unreached) -> ApiError {
    match unreached {
        Unreached::Refused(error) => error,
        Unreached::Unresolved(reason) => ApiError::BadRequest(reason),
        Unreached::Nowhere(reason) => {
            let text = format!("error trying to reach service: {reason}");
            ApiError::Connect(ConnectError::Unavailable(text))
        }
    }
}
