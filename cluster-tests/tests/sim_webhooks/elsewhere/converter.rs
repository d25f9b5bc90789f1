//! The converter of a custom kind: what it answers, and what becomes of a question on its way.
//!
//! Owns the two forms of an object, which tell the same in other words, and the lies of the converter. Each lie that could be taken in has
//! [`LIE`] in it. The converter is a function: whoever asks for the same object gets the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use openraft_rt::AsyncRuntime;
use orch_api::egress::{EgressError, Reply};
use orch_api::webhook::{Call, Caller};
use orch_cluster_tests::sim::dice::Dice;
use orch_cluster_tests::sim::runtime::NodeRuntime;
use orch_cluster_tests::sim::world::World;
use orch_proto::brand::ORCH;
use serde_json::{Value, json};

/// The group of the kind.
const GROUP: &str = "conversion.example.com";

/// The name of its definition.
pub(crate) const DEFINITION: &str = "crates.conversion.example.com";

/// Name in the store of its objects.
pub(crate) const STORED: &str = "crates.conversion.example.com.";

/// The versions of the kind.
pub(crate) const VERSIONS: [&str; 2] = ["v1", "v2"];

/// Part of every text that the converter makes up.
pub(crate) const LIE: &str = "untrue";

/// The path of the objects of the namespace in `version`.
pub(crate) fn objects(version: &str) -> String {
    format!("/apis/{GROUP}/{version}/namespaces/default/crates")
}

/// The path of all definitions.
pub(crate) fn definitions() -> String {
    format!("/apis/{}/v1/customresourcedefinitions", ORCH.group("apiextensions"))
}

/// The definition, which stores objects in `storage`.
pub(crate) fn definition(storage: &str) -> Value {
    let hook = json!({
        "clientConfig": {"url": "https://converter.sim.example.com/convert"}, "conversionReviewVersions": ["v1"],
    });
    json!({
        "metadata": {"name": DEFINITION},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"plural": "crates", "kind": "Crate"},
            "versions": versions(storage), "conversion": {"strategy": "Webhook", "webhook": hook},
        },
    })
}

/// The versions of the definition.
pub(crate) fn versions(storage: &str) -> Value {
    let of = |name: &str| {
        let size = if name == "v1" {
            json!({"size": {"type": "integer"}})
        } else {
            json!({"extent": {"type": "string"}})
        };
        let mut fields = size;
        fields["token"] = json!({"type": "integer"});
        let spec = json!({"type": "object", "properties": fields});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        json!({"name": name, "served": true, "storage": name == storage, "schema": schema})
    };
    VERSIONS.map(of).to_vec().into()
}

/// An object in `version`.
pub(crate) fn object(version: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{version}"), "kind": "Crate", "metadata": {"name": name}, "spec": spec,
    })
}

/// The `spec` of an object in `version`.
pub(crate) fn spec(version: &str, size: u64, token: u64) -> Value {
    match version {
        "v1" => json!({"size": size, "token": token}),
        _ => json!({"extent": format!("x{size}"), "token": token}),
    }
}

/// `spec`, of either version, in `version`.
pub(crate) fn converted(spec: &Value, version: &str) -> Value {
    let extent = spec["extent"].as_str().and_then(|extent| extent.strip_prefix('x')?.parse().ok());
    let size = spec["size"].as_u64().or(extent).unwrap_or_default();
    self::spec(version, size, spec["token"].as_u64().unwrap_or_default())
}

/// The converter of a run. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Converter {
    is_calm: Arc<AtomicBool>,
    questions: Arc<AtomicUsize>,
}

impl Converter {
    /// Ends all its faults.
    pub(crate) fn calm(&self) {
        self.is_calm.store(true, Ordering::Relaxed);
    }

    /// Questions that reached it.
    pub(crate) fn questions(&self) -> usize {
        self.questions.load(Ordering::Relaxed)
    }

    /// The ways of questions from the members of `world`.
    pub(crate) fn join(&self, world: &World) {
        let (converter, of) = (self.clone(), world.clone());
        world.call_webhooks(Box::new(move |node, start| {
            let dice = of.dice(&format!("conversions {} {start}", node.0));
            Arc::new(Way { converter: converter.clone(), dice })
        }));
    }
}

/// The fate of a question.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    Unreached,
    Lost,
    Late,
    Garbage,
    Failure,
    Lie(Lie),
}

/// An answer that is wrong.
#[derive(Clone, Copy, Debug)]
enum Lie {
    Uid,
    Name,
    Namespace,
    Revision,
    /// Other members of the metadata, which are the server's alone.
    Metadata,
    Fewer,
    Reversed,
    Version,
}

/// The weight of each fate while there are faults.
const FATES: [(Fate, u64); 14] = [
    (Fate::Answered, 70),
    (Fate::Unreached, 3),
    (Fate::Lost, 3),
    (Fate::Late, 1),
    (Fate::Garbage, 2),
    (Fate::Failure, 2),
    (Fate::Lie(Lie::Uid), 3),
    (Fate::Lie(Lie::Name), 3),
    (Fate::Lie(Lie::Namespace), 2),
    (Fate::Lie(Lie::Revision), 2),
    (Fate::Lie(Lie::Metadata), 6),
    (Fate::Lie(Lie::Fewer), 2),
    (Fate::Lie(Lie::Reversed), 3),
    (Fate::Lie(Lie::Version), 2),
];

/// The way of questions from one process.
struct Way {
    converter: Converter,
    dice: Dice,
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Way")
    }
}

impl Caller for Way {
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Reply, EgressError>> {
        let is_calm = self.converter.is_calm.load(Ordering::Relaxed);
        let fate = if is_calm { Fate::Answered } else { self.dice.weighted(&FATES) };
        let (delay, questions) = (self.dice.millis(0..40), self.converter.questions.clone());
        async move {
            NodeRuntime::sleep(delay.min(call.timeout)).await;
            let host = call.url.host.clone();
            if matches!(fate, Fate::Unreached) {
                return Err(EgressError::Unreachable { host, reason: "refused".to_owned() });
            }
            questions.fetch_add(1, Ordering::Relaxed);
            let reply = |status, body: String| Reply { status, retry_after: None, body: Bytes::from(body) };
            let lie = match fate {
                Fate::Lost => return Err(EgressError::Lost { host, reason: "reset".to_owned() }),
                Fate::Late => {
                    NodeRuntime::sleep(call.timeout.saturating_sub(delay) + Duration::from_millis(1)).await;
                    return Err(EgressError::Timeout { host });
                }
                Fate::Garbage => return Ok(reply(200, "{".to_owned())),
                Fate::Failure => return Ok(reply(500, String::new())),
                Fate::Lie(lie) => Some(lie),
                Fate::Answered | Fate::Unreached => None,
            };
            Ok(answer(&call.document, lie).map_or_else(|| reply(400, String::new()), |text| reply(200, text)))
        }
        .boxed()
    }
}

/// The answer to the review `document`.
fn answer(document: &[u8], lie: Option<Lie>) -> Option<String> {
    let review: Value = serde_json::from_slice(document).ok()?;
    let request = &review["request"];
    let desired = request["desiredAPIVersion"].as_str()?;
    let version = desired.rsplit('/').next()?;
    let mut objects = request["objects"].as_array()?.clone();
    for object in &mut objects {
        object["spec"] = converted(&object["spec"], version);
        if !matches!(lie, Some(Lie::Version)) {
            object["apiVersion"] = json!(desired);
        }
        if let Some(lie) = lie {
            tell(lie, &mut object["metadata"]);
        }
    }
    match lie {
        Some(Lie::Fewer) => drop(objects.pop()),
        Some(Lie::Reversed) => objects.reverse(),
        _ => {}
    }
    let response =
        json!({"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects});
    Some(
        json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}).to_string(),
    )
}

/// Changes `metadata` as the lie has it.
fn tell(lie: Lie, metadata: &mut Value) {
    match lie {
        Lie::Uid => metadata["uid"] = json!(LIE),
        Lie::Name => metadata["name"] = json!(LIE),
        Lie::Namespace => metadata["namespace"] = json!(LIE),
        Lie::Metadata => {
            metadata["generateName"] = json!(LIE);
            metadata["finalizers"] = json!([format!("{LIE}.example.com/held")]);
            metadata["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": LIE, "uid": LIE}]);
            metadata["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
        }
        Lie::Revision => metadata["resourceVersion"] = json!("1"),
        Lie::Fewer | Lie::Reversed | Lie::Version => {}
    }
}
