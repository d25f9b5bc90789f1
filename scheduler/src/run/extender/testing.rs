//! An extender on loopback, for tests.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;

use super::{Extender, ExtenderConfig};

/// The configuration of an extender that can do everything, at an address that is filled in.
pub(crate) fn config() -> ExtenderConfig {
    ExtenderConfig {
        filter_verb: "filter".to_owned(),
        preempt_verb: "preempt".to_owned(),
        prioritize_verb: "prioritize".to_owned(),
        bind_verb: "bind".to_owned(),
        weight: 2,
        is_node_cache_capable: true,
        timeout: Duration::from_secs(20),
        ..ExtenderConfig::default()
    }
}

/// An extender whose answers `answer` gives, by verb and body.
pub(crate) async fn serve(
    answer: impl Fn(&str, &Value) -> (u16, Value) + Send + Sync + 'static,
) -> Arc<Extender> {
    serve_as(config(), answer).await
}

/// The same with another configuration.
pub(crate) async fn serve_as(
    mut config: ExtenderConfig,
    answer: impl Fn(&str, &Value) -> (u16, Value) + Send + Sync + 'static,
) -> Arc<Extender> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    config.url_prefix = format!("http://{}/prefix", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let answer = answer.clone();
            let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                let answer = answer.clone();
                async move {
                    let verb = request.uri().path().trim_start_matches("/prefix/").to_owned();
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    let (code, json) = answer(&verb, &serde_json::from_slice(&body).unwrap());
                    let body = Full::new(Bytes::from(json.to_string()));
                    Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
                }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    Arc::new(Extender::new(config, &orch_proto::brand::ORCH).unwrap())
}
