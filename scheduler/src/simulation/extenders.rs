//! An extender that filters, scores, preempts and binds.
//!
//! Owns its answers, and the promise about them: a pod is bound only to a node that the extender let through in the last plan of
//! that pod, and nominated only where it may go. Answers to a plan are there at once, are errors, or never come: the plan of a
//! simulated process cannot wait. Bindings travel as those to the API do.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{self, BoxFuture, FutureExt};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use super::Moment;
use super::api::{Changed, Store, name_of, uid_of};
use super::network::{Answer, Life, World};
use super::rules::Refused;
use crate::api::core::v1::{Binding, ObjectReference, Pod};
use crate::api::meta::v1::ObjectMeta;
use crate::client::{Failure, ResponseBody};
use crate::run::ExtenderConfig;

/// Its host.
pub(super) const HOST: &str = "extender";

/// How long a call may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What it was seen to do in a run that has it.
#[derive(Default)]
pub(super) struct Extender {
    // The nodes that the last answer to a process let through for a pod, by UID; none after a failure.
    let_through: BTreeMap<(Life, String), BTreeSet<String>>,
    // Bindings to other nodes.
    broken: Vec<String>,
}

/// Its configuration.
pub(super) fn config() -> ExtenderConfig {
    ExtenderConfig {
        url_prefix: format!("http://{HOST}:80"),
        filter_verb: "filter".to_owned(),
        preempt_verb: "preempt".to_owned(),
        prioritize_verb: "prioritize".to_owned(),
        bind_verb: "bind".to_owned(),
        weight: 1,
        timeout: TIMEOUT,
        is_node_cache_capable: true,
        ..ExtenderConfig::default()
    }
}

/// A number that depends on the pod and the node alone.
fn lot(uid: &str, node: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (uid, node).hash(&mut hasher);
    hasher.finish() % 10
}

fn lets_through(uid: &str, node: &str) -> bool {
    lot(uid, node) < 6
}

/// Whether an extender, if the run has one, lets `pod` go to `node`.
pub(super) fn allows(world: &World, pod: &Pod, node: &str) -> bool {
    world.extender.is_none() || lets_through(uid_of(pod), node)
}

/// The answer to a question of a plan; `None` for every other request.
pub(super) fn answer(
    world: &mut World,
    from: Life,
    request: &Request<Bytes>,
) -> Option<BoxFuture<'static, Answer>> {
    let verb = request.uri().path().trim_start_matches('/');
    if request.uri().host() != Some(HOST) || verb == "bind" {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body()).expect("the product writes JSON");
    let uid = text(&body["Pod"]["metadata"]["uid"]);
    let names = body["NodeNames"].as_array().into_iter().flatten().map(text);
    let (refused, lost, hangs) = (world.manner.refused, world.manner.lost_after, world.manner.slow / 8);
    let failure: Option<BoxFuture<'static, Answer>> = match () {
        () if world.chance(refused) => Some(now(Ok(whole(500, "it failed")))),
        () if world.chance(lost) => Some(now(Err(Failure::Lost("the connection broke".to_owned())))),
        () if world.chance(hangs) => Some(future::pending().boxed()),
        () if world.chance(refused) => Some(now(Ok(whole(200, json!({ "Error": "it refuses" }))))),
        () => None,
    };
    let (feasible, refused): (Vec<String>, Vec<String>) = names.partition(|name| lets_through(&uid, name));
    world.note(&format!(
        "{from:?} asks the extender to {verb} {uid}: {feasible:?}, fails: {}",
        failure.is_some()
    ));
    if verb == "filter"
        && let Some(extender) = &mut world.extender
    {
        let let_through = if failure.is_some() { Vec::new() } else { feasible.clone() };
        extender.let_through.insert((from, uid.clone()), let_through.into_iter().collect());
    }
    let answer = || match verb {
        "filter" => {
            let (unresolvable, failed): (Vec<_>, Vec<_>) =
                refused.into_iter().partition(|name| lot(&uid, name) == 9);
            let reasons = |names: Vec<String>| -> BTreeMap<String, &str> {
                names.into_iter().map(|name| (name, "not here")).collect()
            };
            json!({
                "NodeNames": feasible,
                "FailedNodes": reasons(failed),
                "FailedAndUnresolvableNodes": reasons(unresolvable),
            })
        }
        "prioritize" => {
            feasible.iter().map(|name| json!({ "Host": name, "Score": lot(&uid, name) })).collect()
        }
        "preempt" => {
            let victims = body["NodeNameToMetaVictims"].as_object().cloned().unwrap_or_default();
            let kept = victims.into_iter().filter(|(node, _)| lets_through(&uid, node));
            json!({ "NodeNameToMetaVictims": kept.collect::<serde_json::Map<_, _>>() })
        }
        other => panic!("the extender has no verb {other}"),
    };
    Some(failure.unwrap_or_else(|| now(Ok(whole(200, answer())))))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn now(answer: Answer) -> BoxFuture<'static, Answer> {
    future::ready(answer).boxed()
}

/// An answer in JSON.
pub(super) fn whole(code: u16, body: impl Into<Value>) -> Response<ResponseBody> {
    let body = Full::new(Bytes::from(body.into().to_string())).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(code).body(body).expect("the head is valid")
}

/// A binding as the extender is asked for it.
pub(super) struct Asked {
    pub(super) pod: String,
    pub(super) node: String,
    uid: String,
}

impl Asked {
    pub(super) fn read(body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).expect("the product writes JSON");
        Self { pod: text(&body["PodName"]), node: text(&body["Node"]), uid: text(&body["PodUID"]) }
    }

    /// Binds the pod.
    pub(super) fn serve(self, at: Moment, store: &mut Store) -> Result<(), Refused> {
        let metadata = Some(ObjectMeta { uid: self.uid, ..ObjectMeta::default() });
        let target = Some(ObjectReference { name: self.node, ..ObjectReference::default() });
        store.bind(at, &self.pod, &Binding { metadata, target })
    }
}

impl Extender {
    /// `from` hands a binding over. A job may ask for the same binding again.
    pub(super) fn see(&mut self, at: Moment, from: Life, asked: &Asked) {
        let Asked { pod, node, uid } = asked;
        let let_through = self.let_through.get(&(from, uid.clone()));
        if !let_through.is_some_and(|nodes| nodes.contains(node)) {
            self.broken.push(format!(
                "at {at} {from:?} binds {pod} to {node}, and the extender let through {let_through:?}"
            ));
        }
    }
}

/// Checks the promise.
pub(super) fn check(world: &World) -> Result<(), String> {
    let Some(extender) = &world.extender else { return Ok(()) };
    if let Some(broken) = extender.broken.first() {
        return Err(broken.clone());
    }
    for entry in &world.store.history {
        let Changed::Pod(step) = &entry.changed else { continue };
        let Some(pod) = &step.after else { continue };
        let nominated = pod.status.as_ref().map_or("", |status| &status.nominated_node_name);
        if !nominated.is_empty() && !lets_through(uid_of(pod), nominated) {
            let (at, pod) = (entry.at, name_of(pod.metadata.as_ref()));
            return Err(format!(
                "at {at} pod {pod} is nominated for {nominated}, which the extender refuses"
            ));
        }
    }
    Ok(())
}
