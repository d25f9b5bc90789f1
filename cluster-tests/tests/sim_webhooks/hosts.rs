//! The hosts of webhooks, and the calls that reach them.
//!
//! Owns what each webhook answers, what becomes of a call on its way, and the record of all calls. A webhook is told apart by the
//! path of its URL.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use openraft_rt::AsyncRuntime;
use orch_api::egress::{EgressError, Reply};
use orch_api::webhook::{Call as Outgoing, Caller};
use orch_cluster_tests::sim::dice::Dice;
use orch_cluster_tests::sim::runtime::NodeRuntime;
use orch_cluster_tests::sim::world::World;
use orch_proto::brand::ORCH;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::plant::Plant;

/// Seconds that a webhook has.
const TIMEOUT_SECONDS: u64 = 1;

/// One in so many objects is refused by a validating webhook.
const REFUSED_ONE_IN: u64 = 6;

/// A webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Webhook {
    pub(crate) name: &'static str,
    pub(crate) mutates: bool,
    /// A write is refused where it cannot be called.
    pub(crate) is_needed: bool,
}

/// All webhooks, in the order in which they are asked.
pub(crate) const WEBHOOKS: [Webhook; 5] = [
    Webhook { name: "first", mutates: true, is_needed: true },
    Webhook { name: "second", mutates: true, is_needed: true },
    Webhook { name: "third", mutates: true, is_needed: false },
    Webhook { name: "judge", mutates: false, is_needed: true },
    Webhook { name: "observer", mutates: false, is_needed: false },
];

/// The `data` of a config map.
pub(crate) type Data = BTreeMap<String, String>;

impl Webhook {
    /// Whether the webhook, a validating one, refuses `data`.
    pub(crate) fn refuses(&self, data: &Data) -> bool {
        let texts = data.iter().flat_map(|(key, value)| [key.as_bytes(), value.as_bytes()]);
        let bytes = texts.chain([self.name.as_bytes()]).flatten();
        // FNV-1a; its lowest bits depend on little.
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (hash >> 32).is_multiple_of(REFUSED_ONE_IN)
    }

    /// The prefix of its marks.
    pub(crate) fn mark(&self) -> String {
        format!("{}-", self.name)
    }
}

/// The configurations of all webhooks: kind and document.
pub(crate) fn configurations() -> [(&'static str, Value); 2] {
    let of = |mutates: bool| -> Vec<Value> {
        let own = WEBHOOKS.iter().filter(|webhook| webhook.mutates == mutates);
        let document = |webhook: &Webhook| {
            let mut document = json!({
                "name": format!("{}.sim.example.com", webhook.name),
                "clientConfig": {"url": format!("https://hooks.sim.example.com/{}", webhook.name)},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                    "resources": ["configmaps"]}],
                "sideEffects": "NoneOnDryRun",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": TIMEOUT_SECONDS,
                "failurePolicy": if webhook.is_needed { "Fail" } else { "Ignore" },
            });
            if webhook.name == "second" {
                document["reinvocationPolicy"] = json!("IfNeeded");
            }
            document
        };
        own.map(document).collect()
    };
    let configuration = |webhooks: Vec<Value>| json!({"metadata": {"name": "sim"}, "webhooks": webhooks});
    [
        ("mutatingwebhookconfigurations", configuration(of(true))),
        ("validatingwebhookconfigurations", configuration(of(false))),
    ]
}

/// The path of the configurations of a kind.
pub(crate) fn path_of(kind: &str) -> String {
    format!("/apis/{}/v1/{kind}", ORCH.group("admissionregistration"))
}

/// A call that reached its webhook.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) uid: String,
    pub(crate) webhook: Webhook,
    /// As the webhook saw it.
    pub(crate) data: Data,
    pub(crate) is_dry_run: bool,
    /// The number in the mark that it added.
    pub(crate) mark: Option<usize>,
    /// The server got its answer.
    pub(crate) is_answered: bool,
}

/// All webhooks of a run. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Hosts {
    calls: Arc<Mutex<Vec<Call>>>,
    is_calm: Arc<AtomicBool>,
}

impl Hosts {
    /// The calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().clone()
    }

    /// Ends all faults of webhooks.
    pub(crate) fn calm(&self) {
        self.is_calm.store(true, Ordering::Relaxed);
    }

    /// The ways of calls from the members of `world`.
    pub(crate) fn join(&self, world: &World, plant: Option<Plant>) {
        let (hosts, of) = (self.clone(), world.clone());
        world.call_webhooks(Box::new(move |node, start| {
            let dice = of.dice(&format!("webhooks {} {start}", node.0));
            Arc::new(Way { hosts: hosts.clone(), dice, plant })
        }));
    }

    /// Carries out a call: the place of its record, and the answer.
    fn carry_out(&self, call: &Outgoing) -> Option<(usize, Value)> {
        let name = call.url.target.trim_start_matches('/').split('?').next()?;
        let webhook = *WEBHOOKS.iter().find(|webhook| webhook.name == name)?;
        let review: Value = serde_json::from_slice(&call.document).ok()?;
        let request = &review["request"];
        let uid = request["uid"].as_str()?.to_owned();
        let data: Data = serde_json::from_value(request["object"]["data"].clone()).ok()?;
        let mut calls = self.calls.lock();
        let number = calls.len();
        let is_marked = data.keys().any(|key| key.starts_with(&webhook.mark()));
        let mark = (webhook.mutates && !is_marked).then_some(number);
        let mut response = json!({"uid": uid, "allowed": webhook.mutates || !webhook.refuses(&data)});
        if response["allowed"] == false {
            response["status"] = json!({"code": 403});
        }
        if let Some(mark) = mark {
            let path = format!("/data/{}{mark}", webhook.mark());
            let patch = json!([{"op": "add", "path": path, "value": "x"}]).to_string();
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(STANDARD.encode(patch));
        }
        let is_dry_run = request["dryRun"] == true;
        calls.push(Call { uid, webhook, data, is_dry_run, mark, is_answered: false });
        let answer =
            json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response});
        Some((number, answer))
    }
}

/// The fate of a call.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    /// The webhook is not reached.
    Unreached,
    /// The webhook acts, and its answer is lost.
    Lost,
    /// The webhook answers when the server does not wait any more.
    Late,
    Garbage,
    Failure,
}

/// The weight of each fate while there are faults.
const FATES: [(Fate, u64); 6] = [
    (Fate::Answered, 86),
    (Fate::Unreached, 4),
    (Fate::Lost, 3),
    (Fate::Late, 2),
    (Fate::Garbage, 3),
    (Fate::Failure, 2),
];

/// The way of calls from one process.
struct Way {
    hosts: Hosts,
    dice: Dice,
    plant: Option<Plant>,
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Way")
    }
}

fn reply(status: u16, body: String) -> Reply {
    Reply { status, retry_after: None, body: Bytes::from(body) }
}

impl Caller for Way {
    fn call(&self, call: Outgoing) -> BoxFuture<'static, Result<Reply, EgressError>> {
        let is_calm = self.hosts.is_calm.load(Ordering::Relaxed);
        let fate = if is_calm { Fate::Answered } else { self.dice.weighted(&FATES) };
        let delay = self.dice.millis(0..40);
        let (hosts, plant) = (self.hosts.clone(), self.plant);
        let host = call.url.host.clone();
        async move {
            NodeRuntime::sleep(delay.min(call.timeout)).await;
            let gone = || EgressError::Lost { host: host.clone(), reason: "reset".to_owned() };
            if matches!(fate, Fate::Unreached) {
                return Err(EgressError::Unreachable { host, reason: "refused".to_owned() });
            }
            let unread = || Ok(reply(400, String::new()));
            let Some((mut number, mut answer)) = hosts.carry_out(&call) else { return unread() };
            match fate {
                Fate::Lost if plant == Some(Plant::SendsAgain) => {
                    let Some(again) = hosts.carry_out(&call) else { return unread() };
                    (number, answer) = again;
                }
                Fate::Lost => return Err(gone()),
                Fate::Late => {
                    NodeRuntime::sleep(call.timeout.saturating_sub(delay) + Duration::from_millis(1)).await;
                    return Err(EgressError::Timeout { host });
                }
                Fate::Garbage => return Ok(reply(200, "{".to_owned())),
                Fate::Failure => return Ok(reply(500, String::new())),
                Fate::Answered | Fate::Unreached => {}
            }
            hosts.calls.lock()[number].is_answered = true;
            spoil(plant, &mut answer);
            Ok(reply(200, answer.to_string()))
        }
        .boxed()
    }
}

/// Changes an answer as the plant would have the product read it.
fn spoil(plant: Option<Plant>, answer: &mut Value) {
    match plant {
        Some(Plant::IgnoresDenial) => answer["response"]["allowed"] = json!(true),
        Some(Plant::PatchesTwice) => {
            let text = answer["response"]["patch"].as_str().unwrap_or_default();
            let Ok(patch) = serde_json::from_slice::<Value>(&STANDARD.decode(text).unwrap_or_default())
            else {
                return;
            };
            let mut again = patch[0].clone();
            again["path"] = json!(format!("{}-again", again["path"].as_str().unwrap_or_default()));
            let patch = json!([patch[0], again]).to_string();
            answer["response"]["patch"] = json!(STANDARD.encode(patch));
        }
        Some(Plant::SendsAgain | Plant::StoresDryRuns) | None => {}
    }
}
