//! The time of a write that a webhook is asked about: one, from the arrival of the request.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use orch_spans::TraceContext;
use parking_lot::Mutex;

use super::*;
use crate::admission::{Chain, NamespaceMaker, PluginSelection, Settings};
use crate::egress::{EgressError, Reply};
use crate::webhook::{Call, Caller, Routing, Webhooks};

const CONFIGURATIONS: &str = "/apis/admissionregistration.orch.io/v1/validatingwebhookconfigurations";

/// A webhook that allows every write after five seconds, if it is given them.
#[derive(Debug, Default)]
pub(super) struct Slow {
    /// The times of its calls, in milliseconds.
    given_ms: Mutex<Vec<u128>>,
    /// The spans that they are.
    pub(super) traces: Mutex<Vec<TraceContext>>,
}

const TAKES: Duration = Duration::from_secs(5);

impl Caller for Slow {
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Reply, EgressError>> {
        self.given_ms.lock().push(call.timeout.as_millis());
        self.traces.lock().extend(call.trace.clone());
        async move {
            tokio::time::sleep(TAKES.min(call.timeout)).await;
            if call.timeout < TAKES {
                return Err(EgressError::Timeout { host: call.url.host.clone() });
            }
            let review: Value = serde_json::from_slice(&call.document).unwrap();
            let response = json!({"uid": review["request"]["uid"].clone(), "allowed": true});
            let kind = "AdmissionReview";
            let body = json!({"kind": kind, "apiVersion": "admission.orch.io/v1", "response": response});
            Ok(Reply { status: 200, retry_after: None, body: body.to_string().into() })
        }
        .boxed()
    }
}

/// A server with that webhook on config maps.
pub(super) async fn server(failure_policy: &str) -> (Server, Arc<Slow>) {
    let (server, slow) = (Server::new().await, Arc::new(Slow::default()));
    let mut pipeline = pipeline(server.store.clone(), server.clock.clone(), Features::default());
    let ambient: Arc<dyn Ambient> = server.clock.clone();
    let (store, routing) = (server.store.clone(), Routing::ClusterAddress);
    let webhooks = Webhooks::new(slow.clone(), store, ambient.clone(), &ORCH, routing);
    let selection = PluginSelection::parse(&[], &["ServiceAccount".to_owned()]).unwrap();
    let settings = Settings { selection, ..Settings::default() };
    pipeline.admission = Chain::configured(settings, &ambient, &NamespaceMaker::default(), &webhooks);
    let router = Api::new(Arc::new(pipeline), server.stopping.clone()).router();
    let server = Server { router, ..server };
    let rules = json!([
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]},
    ]);
    let webhook = json!({
        "name": "slow.example.com", "clientConfig": {"url": "https://slow.example/"}, "rules": rules,
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": failure_policy,
    });
    server.create(CONFIGURATIONS, json!({"metadata": {"name": "slow"}, "webhooks": [webhook]})).await;
    (server, slow)
}

#[tokio::test(start_paused = true)]
async fn a_client_with_little_time_neither_opens_a_webhook_nor_makes_it_dead() {
    for failure_policy in ["Ignore", "Fail"] {
        let (server, slow) = server(failure_policy).await;
        for _ in 0..5 {
            let began = tokio::time::Instant::now();
            let path = format!("{MAPS}?timeout=1s");
            let answered = server.send(Method::POST, &path, &[], Body::from(map("m", "v").to_string())).await;
            assert_eq!((answered.code.as_u16(), began.elapsed().as_secs()), (504, 1), "{}", answered.text);
            assert_eq!(answered.json()["reason"], "Timeout");
        }
        assert_eq!(server.get(&format!("{MAPS}/m")).await.code, StatusCode::NOT_FOUND);
        server.create(MAPS, map("m", "v")).await;
        assert_eq!(*slow.given_ms.lock(), [1000, 1000, 1000, 1000, 1000, 10_000], "{failure_policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_comes_slowly_leaves_less_time_to_the_call_and_none_more_to_the_request() {
    for is_announced in [true, false] {
        let (server, slow) = server("Ignore").await;
        let body = map("m", "v").to_string();
        let length = body.len().to_string();
        let headers = [("content-length", length.as_str())];
        let headers = if is_announced { &headers[..] } else { &[] };
        let late = futures::stream::once(async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            Ok::<_, std::io::Error>(Bytes::from(body))
        });
        let began = tokio::time::Instant::now();
        let path = format!("{MAPS}?timeout=4s");
        let answered = server.send(Method::POST, &path, headers, Body::from_stream(late)).await;
        assert_eq!((answered.code.as_u16(), began.elapsed().as_secs()), (504, 4), "{}", answered.text);
        assert_eq!(*slow.given_ms.lock(), [1000]);
        assert_eq!(server.get(&format!("{MAPS}/m")).await.code, StatusCode::NOT_FOUND);
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_missed_its_own_time_is_asked_with_it_again() {
    let (server, slow) = server("Fail").await;
    let patch = json!([{"op": "add", "path": "/webhooks/0/timeoutSeconds", "value": 4}]);
    let headers = [("content-type", "application/json-patch+json")];
    let path = format!("{CONFIGURATIONS}/slow");
    let patched = server.send(Method::PATCH, &path, &headers, Body::from(patch.to_string())).await;
    assert_eq!(patched.code, StatusCode::OK, "{}", patched.text);
    let post = async || {
        server.send(Method::POST, MAPS, &[], Body::from(map("m", "v").to_string())).await.code.as_u16()
    };
    for _ in 0..4 {
        assert_eq!(post().await, 500);
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((post().await, post().await), (500, 500));
    assert_eq!(*slow.given_ms.lock(), [4000, 4000, 4000, 1000, 4000, 1000]);
}
