//! Requests over HTTP of clients that are written as tests are, and waiting.
//!
//! Owns their form, the events that a trace has of them, and how long something that has to come true is waited for. An answer that
//! no correct server gives fails the run.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::request::Builder;
use openraft_rt::AsyncRuntime;
use orch_raft::transport::NodeId;
use serde_json::Value;

use super::runtime::NodeRuntime;
use super::session::Session;
use super::world::World;

/// A request to a member.
pub fn request(method: &str, path: &str) -> Builder {
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(format!("http://member:80{path}"));
    request.header("content-type", content_type).header("accept", "application/json")
}

/// The same with `body`; `Value::Null`: without one.
pub fn request_with(method: &str, path: &str, body: &Value) -> Request<Bytes> {
    let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    request(method, path).body(bytes).expect("clients send valid requests")
}

/// Sends `request` to `node`: the code, one of `codes`, and the document. `None`: there is no answer.
pub async fn ask(
    session: &Session,
    codes: &[u16],
    node: NodeId,
    request: Request<Bytes>,
) -> Option<(u16, Value)> {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let asked = format!("{} {target}", request.method());
    let answer = session.http(node, request).await;
    let (client, node) = (session.client(), node.0);
    let told = |what: &dyn std::fmt::Display| {
        session.world().trace().event(format_args!("c{client} n{node} {asked}: {what}"));
    };
    let (code, body) = match answer {
        Ok(answered) => answered,
        Err(gone) => {
            told(&format_args!("{gone:?}"));
            return None;
        }
    };
    told(&code);
    // few: the codes of one kind of client.
    if !codes.contains(&code) {
        session.world().fail(format_args!("n{node} answers {code} to {asked}: {body}"));
    }
    Some((code, body))
}

/// How something that has to come true is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Pause between two looks.
    pub look: Duration,
    /// The run fails after this time.
    pub longest: Duration,
}

impl Patience {
    /// Looks again until `is_done`.
    pub async fn until(self, world: &World, what: &str, mut is_done: impl AsyncFnMut() -> bool) {
        let began = NodeRuntime::elapsed();
        while world.failure().is_none() && !is_done().await {
            if NodeRuntime::elapsed() - began > self.longest {
                world.fail(format_args!("{what} within {:?}", self.longest));
            }
            NodeRuntime::sleep(self.look).await;
            world.observe_logs();
        }
    }

    /// Waits until every member answers `session`.
    pub async fn await_service(self, session: &Session, codes: &[u16], when: &str) {
        for node in session.world().members() {
            let what = format!("n{} serves nothing after {when}", node.0);
            self.until(session.world(), &what, async || {
                let request = request_with("GET", "/api/v1/namespaces/default", &Value::Null);
                matches!(ask(session, codes, node, request).await, Some((200, _)))
            })
            .await;
        }
    }
}
