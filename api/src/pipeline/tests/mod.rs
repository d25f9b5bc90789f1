//! The pipeline over one state machine in memory: requests in HTTP's terms, without a server.

mod admission;
mod apply;
mod binding;
mod converted;
mod declared;
mod deletion;
mod eviction;
mod field_validation;
mod import;
mod metadata;
mod parts;
mod patches;
mod phases;
mod policies;
mod quotas;
mod scale;
mod versions;
mod waiting;
mod webhooks;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use http::Method;
use orch_proto::brand::ORCH;
use orch_raft::memory::MemoryStore;
use orch_schema::budget::Budget;
use orch_schema::json;
use orch_schema::value::Value;

use super::{Answer, Features, Pipeline, Request, WriteOutcome};
use crate::ambient::{Ambient, Timestamp};
use crate::authn::User;
use crate::endpoint::Endpoint;
use crate::exchange::Exchange;
use crate::paging::TokenKey;
use crate::registry::Registry;
use crate::request::{Query, TargetPath, Verb, parse_path};
use crate::status::Status;
use crate::testing::{ProposalOutcome, ScriptedStore, gate};

/// The collection that most tests write to.
const MAPS: &str = "/api/v1/namespaces/ns/configmaps";
const PODS: &str = "/api/v1/namespaces/ns/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/ns/deployments";

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A clock moved by hand. Random numbers count upwards, or repeat after `repeat_chance`.
#[derive(Debug)]
struct HandMoved {
    micros: AtomicU64,
    count: AtomicU64,
    step: AtomicU64,
}

impl Ambient for HandMoved {
    fn now(&self) -> Timestamp {
        Timestamp(self.micros.load(Ordering::Relaxed))
    }

    fn random(&self) -> u128 {
        u128::from(self.count.fetch_add(self.step.load(Ordering::Relaxed), Ordering::Relaxed))
    }
}

/// A server with the namespace `ns`.
struct Server {
    pipeline: Pipeline<ScriptedStore>,
    ambient: Arc<HandMoved>,
}

/// A response.
#[derive(Debug)]
struct Reply {
    code: u16,
    json: Value,
    warnings: Vec<String>,
}

impl Server {
    async fn new() -> Server {
        let ambient = Arc::new(HandMoved {
            micros: AtomicU64::new(1_767_322_145_000_000),
            count: AtomicU64::new(1),
            step: AtomicU64::new(1),
        });
        let store = ScriptedStore {
            below: MemoryStore::default(),
            leads: Arc::new(AtomicBool::new(true)),
            fate: ProposalOutcome::Applied,
            lag: Arc::default(),
        };
        let pipeline = Pipeline::new(
            store,
            Registry::builtin(&ORCH),
            TokenKey::new([7; 32]),
            ambient.clone(),
            Features::default(),
            gate(),
        );
        let server = Server { pipeline, ambient };
        server.create("/api/v1/namespaces", json!({"metadata": {"name": "ns"}})).await;
        server
    }

    /// Moves the clock.
    fn advance(&self, seconds: u64) {
        self.ambient.micros.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
    }

    /// Repeats one random number from now on.
    fn repeat_chance(&self) {
        self.ambient.step.store(0, Ordering::Relaxed);
    }

    async fn send(&self, method: Method, path: &str, content_type: &str, body: &str) -> Reply {
        self.send_as(&User::local_admin(), method, path, content_type, body).await
    }

    async fn send_as(
        &self,
        user: &User,
        method: Method,
        path: &str,
        content_type: &str,
        body: &str,
    ) -> Reply {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let TargetPath::Resource(target) = parse_path(path) else { panic!("{path} names no resource") };
        let query = Query::parse(query);
        let verb = Verb::of(&method, &target, &query).unwrap();
        let registry = &self.pipeline.registry();
        let Endpoint { resource, action } = registry.endpoint(&target).unwrap();
        let exchange = Exchange::internal();
        let request = Request {
            verb,
            registry,
            target: &target,
            resource,
            action,
            query: &query,
            exchange: &exchange,
            user,
            user_agent: "agent/1",
            content_type,
            body: &Bytes::copy_from_slice(body.as_bytes()),
            budget: &Budget::default(),
        };
        match Box::pin(self.pipeline.run(request)).await {
            Ok(answer) => Reply { warnings: exchange.warnings(), ..Reply::of(answer) },
            Err(error) => {
                let status = Status::of(&error, registry.brand);
                Reply { code: status.code, json: status.to_value(), warnings: exchange.warnings() }
            }
        }
    }

    async fn post(&self, path: &str, object: Value) -> Reply {
        self.send(Method::POST, path, JSON, &object.to_string()).await
    }

    async fn put(&self, path: &str, object: Value) -> Reply {
        self.send(Method::PUT, path, JSON, &object.to_string()).await
    }

    async fn patch(&self, path: &str, content_type: &str, patch: Value) -> Reply {
        self.send(Method::PATCH, path, content_type, &patch.to_string()).await
    }

    async fn merge(&self, path: &str, patch: Value) -> Reply {
        self.patch(path, MERGE, patch).await
    }

    async fn apply(&self, path: &str, manager: &str, config: Value) -> Reply {
        let sign = if path.contains('?') { '&' } else { '?' };
        self.patch(&format!("{path}{sign}fieldManager={manager}"), APPLY, config).await
    }

    async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, "", "").await
    }

    async fn delete(&self, path: &str, options: Value) -> Reply {
        let body = if options.is_null() { String::new() } else { options.to_string() };
        self.send(Method::DELETE, path, JSON, &body).await
    }

    /// Creates a valid object.
    async fn create(&self, path: &str, object: Value) -> Value {
        let reply = self.post(path, object).await;
        assert_eq!(reply.code, 201, "{}", reply.json);
        reply.json
    }
}

impl Reply {
    fn of(answer: Answer) -> Reply {
        let parsed = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        match answer {
            Answer::Stored(object) => Reply { code: 200, json: parsed(&object.json), warnings: Vec::new() },
            Answer::Written(written) => {
                let code = match written.outcome {
                    WriteOutcome::Created => 201,
                    WriteOutcome::Done => 200,
                    WriteOutcome::Accepted => 202,
                };
                Reply { code, json: parsed(&written.json), warnings: Vec::new() }
            }
            Answer::List(list) | Answer::Listed(list) => {
                let items: Vec<Value> = list.objects.iter().map(|object| parsed(&object.json)).collect();
                Reply { code: 200, json: json!({"items": items}), warnings: Vec::new() }
            }
            Answer::Done(status) => {
                let code = if status.code == 0 { 200 } else { status.code };
                Reply { code, json: status.to_value(), warnings: Vec::new() }
            }
        }
    }

    /// The object, which must have been written or found.
    #[track_caller]
    fn object(self) -> Value {
        assert!(self.code < 300, "{}", self.json);
        self.json
    }

    /// Code and message of a refusal.
    fn refusal(&self) -> (u16, &str) {
        (self.code, self.json["message"].as_str().unwrap_or_default())
    }

    /// `reason field: message` of each cause.
    fn causes(&self) -> Vec<String> {
        let causes = self.json["details"]["causes"].as_array().cloned().unwrap_or_default();
        let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
        causes
            .iter()
            .map(|cause| {
                format!("{} {}: {}", text(cause, "reason"), text(cause, "field"), text(cause, "message"))
            })
            .collect()
    }
}

/// A config map with one value.
fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn deployment(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}
            }
        }
    })
}
