//! Another server beside the load: a webhook that answers after a while, and an aggregated server that answers at once.
//!
//! Owns the server, which speaks HTTP/2 over TLS on a thread of this program, and its objects in the cluster: the processor time of
//! the cluster's processes is that of asking, not that of answering.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use orch_proto::brand::ORCH;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;

use super::fixture::ask;
use super::target::Target;

/// The group of the aggregated server.
pub(super) const GROUP: &str = "bench.example.com";

/// Looks at whether the aggregated server is known, 100 ms apart.
const LOOKS: usize = 300;

/// A server that runs until it is dropped.
pub(super) struct Elsewhere {
    address: SocketAddr,
    certificate: String,
    calls: Arc<AtomicU64>,
    _runtime: Runtime,
}

impl Elsewhere {
    /// A server whose webhook takes `delay`, and whose things have `payload`.
    pub(super) fn start(delay: Duration, payload: &Arc<str>) -> Result<Elsewhere> {
        let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = config.with_no_client_auth().with_single_cert(vec![pair.cert.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let (address, calls) = (listener.local_addr()?, Arc::new(AtomicU64::new(0)));
        let thing = json!({
            "kind": "Thing", "apiVersion": format!("{GROUP}/v1"), "metadata": {"name": "thing"},
            "data": {"payload": **payload},
        });
        let answering = Answering { delay, calls: calls.clone(), thing: thing.to_string().into() };
        runtime.spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), answering));
        Ok(Elsewhere { address, certificate: pair.cert.pem(), calls, _runtime: runtime })
    }

    /// Calls of the webhook so far.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Has the webhook asked about each config map that is made.
    pub(super) fn be_asked(&self, target: &Target) -> Result<()> {
        let url = format!("https://{}/hook", self.address);
        let client = json!({"url": url, "caBundle": STANDARD.encode(&self.certificate)});
        let rule = json!({
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
        });
        let document = json!({
            "metadata": {"name": "bench"},
            "webhooks": [{
                "name": "hook.bench.example.com", "clientConfig": client, "rules": [rule], "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "timeoutSeconds": 30,
            }],
        });
        let path =
            format!("/apis/{}/v1/validatingwebhookconfigurations", ORCH.group("admissionregistration"));
        ask(target, async |client| client.post(&path, &document).await)?.success()?;
        Ok(())
    }

    /// Has requests for [`GROUP`] passed on to it, and waits until they are.
    pub(super) fn be_aggregated(&self, target: &Target) -> Result<()> {
        let service = json!({
            "metadata": {"name": "bench"}, "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        let spec = json!({
            "group": GROUP, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "insecureSkipTLSVerify": true,
            "service": {"namespace": "default", "name": "bench", "port": self.address.port()},
        });
        let document = json!({"metadata": {"name": format!("v1.{GROUP}")}, "spec": spec});
        let services = "/api/v1/namespaces/default/services";
        let api_services = format!("/apis/{}/v1/apiservices", ORCH.group("apiregistration"));
        for (path, document) in [(services, &service), (api_services.as_str(), &document)] {
            let answer = ask(target, async |client| client.post(path, document).await)?;
            if answer.status != 409 {
                answer.success()?;
            }
        }
        let path = format!("/apis/{GROUP}/v1/things/any");
        for _ in 0..LOOKS {
            if ask(target, async |client| client.get(&path).await)?.status == 200 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("the aggregated server is not found")
    }
}

/// The answers of the server. Clones share the count.
#[derive(Clone)]
struct Answering {
    delay: Duration,
    calls: Arc<AtomicU64>,
    thing: Bytes,
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, answering: Answering) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, answering) = (acceptor.clone(), answering.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request| {
                let answering = answering.clone();
                async move { Ok::<_, Infallible>(answering.answer(request).await) }
            });
            let builder = auto::Builder::new(TokioExecutor::new());
            // A connection that ends badly shows in the failed operations of the load.
            drop(builder.serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

impl Answering {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let text = match (head.method, head.uri.path()) {
            (Method::POST, "/hook") => {
                self.calls.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(self.delay).await;
                allowing(&body).map(|answer| answer.to_string().into())
            }
            (Method::GET, path) if path == format!("/apis/{GROUP}/v1") => {
                let thing = json!({
                    "name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get"],
                });
                let list = json!({
                    "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/v1"),
                    "resources": [thing],
                });
                Ok(list.to_string().into())
            }
            (Method::GET, path) if path.starts_with(&format!("/apis/{GROUP}/v1/")) => Ok(self.thing.clone()),
            _ => Err(anyhow::anyhow!("there is no such path")),
        };
        let status = if text.is_ok() { 200 } else { 404 };
        let mut response = Response::new(Full::new(text.unwrap_or_default()));
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(http::header::CONTENT_TYPE, json);
        response
    }
}

/// The answer to the review `document` that allows the write.
fn allowing(document: &[u8]) -> Result<Value> {
    let review: Value = serde_json::from_slice(document)?;
    let uid = review["request"]["uid"].as_str().context("the review has no uid")?;
    let response = json!({"uid": uid, "allowed": true});
    Ok(json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}))
}
