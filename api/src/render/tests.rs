//! Small objects in every representation.

mod binary;
mod form;
mod properties;
mod taken;
mod text;

use std::sync::{Arc, LazyLock, OnceLock};

use orch_proto::brand::ORCH;
use orch_raft::object::SharedObject;
use orch_raft::{Index, Object, Revision};
use orch_schema::encode_json;
use orch_schema::json;
use orch_schema::value::Value;

use super::*;
use crate::ambient::Timestamp;
use crate::negotiate::JSON;
use crate::pipeline::{Effort, ListAnswer, Written};

static REGISTRY: LazyLock<Arc<Registry>> = LazyLock::new(|| Registry::builtin(&ORCH));

/// 2026-01-02T03:05:05Z: a minute after the objects were created.
const NOW: Timestamp = Timestamp(1_767_323_105_000_000);

const YAML: Representation = Representation { encoding: Encoding::Yaml, ..JSON };
const PROTOBUF: Representation = Representation { encoding: Encoding::Protobuf, ..JSON };
const PRETTY: Representation = Representation { pretty: true, ..JSON };
const TABLE: Representation = Representation { view: ResponseView::Table, ..JSON };
const METADATA: Representation = Representation { view: ResponseView::Metadata, ..JSON };

fn resource(group: &str, plural: &str) -> Arc<Resource> {
    REGISTRY.find(group, "v1", plural).unwrap().clone()
}

fn renderer(plural: &str, representation: Representation) -> Renderer {
    let group = match plural {
        "roles" => "rbac.authorization.orch.io",
        _ => "",
    };
    Renderer::new(&REGISTRY, &resource(group, plural), representation, IncludeObject::Metadata)
}

fn events(representation: Representation) -> Renderer {
    let resource = resource("events.orch.io", "events");
    Renderer::new(&REGISTRY, &resource, representation, IncludeObject::Object)
}

/// A stored object at revision 7.
fn stored(renderer: &Renderer, value: &Value) -> SharedObject {
    let mut value = value.clone();
    value["metadata"]["resourceVersion"] = json!("7");
    let mut json = Vec::new();
    encode_json(&REGISTRY.schema, renderer.resource.rendered_type(), &value, &mut json);
    let field = b"\"resourceVersion\":\"";
    let at = memchr::memmem::find(&json, field).unwrap() + field.len();
    Arc::new(Object {
        revision: Revision(7),
        created: Revision(7),
        written_ms: 0,
        json: json.into(),
        revision_at: u32::try_from(at).unwrap(),
        index: Index::default(),
        protobuf: OnceLock::new(),
    })
}

fn config_map(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "ns", "creationTimestamp": "2026-01-02T03:04:05Z" },
        "data": { "k": "<v>" },
    })
}

fn core_event() -> Value {
    json!({
        "metadata": { "name": "e", "namespace": "ns" },
        "involvedObject": { "kind": "Pod", "name": "p" },
        "reason": "Test",
        "message": "hello",
        "source": { "component": "c" },
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "count": 2,
        "type": "Normal",
    })
}

fn page(objects: Vec<SharedObject>) -> ListAnswer {
    ListAnswer {
        revision: Revision(9),
        continue_token: None,
        remaining: None,
        objects,
        effort: Effort::default(),
    }
}

/// The body, after checking its announced length.
#[track_caller]
fn body(payload: Payload) -> Vec<u8> {
    let len = payload.len();
    let frames: Vec<Vec<u8>> = payload.into_frames().map(Vec::from).collect();
    assert!(frames.iter().all(|frame| !frame.is_empty()));
    let body = frames.concat();
    assert_eq!(body.len(), len);
    body
}

#[track_caller]
fn text(payload: Payload) -> String {
    String::from_utf8(body(payload)).unwrap()
}
