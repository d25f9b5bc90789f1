//! The HTTP side of the model: paths and the writing of answers.
//!
//! Owns the translation between requests and the store. Kinds that no run has objects of are empty lists, and watches
//! without events. A request that the model does not know is a fault of the model, and panics.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use prost::Message;

use super::Moment;
use super::api::{Store, is_finished};
use super::extenders;
use super::lease::Deed;
use super::rules::{Refused, missing};
use crate::api::coordination::v1::Lease;
use crate::api::core::v1::{
    Binding, NodeList, PersistentVolumeClaimList, PersistentVolumeList, Pod, PodList,
};
use crate::api::events::v1::Event;
use crate::api::meta::v1::{DeleteOptions, ListMeta, Status, WatchEvent};
use crate::api::resource::v1::{DeviceClassList, ResourceClaimList, ResourceSliceList};
use crate::api::runtime::RawExtension;
use crate::api::storage::v1::StorageClassList;
use crate::client::{Codec, ContentType, ResponseBody, envelope};

/// The kinds whose watches have events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watched {
    Pods,
    Nodes,
    Claims,
    Volumes,
    VolumeClaims,
    Nothing,
}

/// A watch that was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct WatchRequest {
    pub(super) kind: Watched,
    /// The revision behind which it begins.
    pub(super) from: u64,
    pub(super) seconds: u64,
}

/// The reply to a request.
pub(super) enum Reply {
    Whole(Response<ResponseBody>),
    Watch(WatchRequest),
}

/// A request, taken apart.
pub(super) struct Asked {
    pub(super) method: String,
    /// The parts of the path behind the namespace, or behind the version.
    path: Vec<String>,
    query: HashMap<String, String>,
    body: Bytes,
}

impl Asked {
    pub(super) fn new(request: Request<Bytes>) -> Self {
        let (head, body) = request.into_parts();
        let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        let path = head.uri.path();
        let rest = match head.uri.host() {
            Some(extenders::HOST) => return Self::of_extender(head.method.to_string(), path, body),
            _ => path.split_once("/v1/").map_or("", |(_, rest)| rest),
        };
        let mut path: Vec<String> = rest.split('/').map(decode).collect();
        if path.first().is_some_and(|first| first == "namespaces") && path.len() > 2 {
            path.drain(..2);
        }
        let pairs = head.uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        let query = pairs.map(|(name, value)| (name.to_owned(), decode(value))).collect();
        Self { method: head.method.to_string(), path, query, body }
    }

    fn of_extender(method: String, path: &str, body: Bytes) -> Self {
        let path = vec![extenders::HOST.to_owned(), path.trim_start_matches('/').to_owned()];
        Self { method, path, query: HashMap::new(), body }
    }

    /// The binding that an extender is asked for.
    pub(super) fn extender_binding(&self) -> Option<extenders::Asked> {
        (self.path[0] == extenders::HOST).then(|| extenders::Asked::read(&self.body))
    }

    pub(super) fn is_binding(&self) -> bool {
        self.path[0] == extenders::HOST || self.path.get(2).is_some_and(|part| part == "binding")
    }

    /// The write that only the holder of the lease may do, with the name of its pod or other object.
    pub(super) fn deed(&self) -> Option<(String, Deed)> {
        if let Some(binding) = self.extender_binding() {
            return Some((binding.pod, Deed::Binding(binding.node)));
        }
        if self.method == "POST" && self.path == ["resourceclaims"] {
            return Some((String::new(), Deed::Claim));
        }
        let [plural, pod, ..] = &self.path[..] else { return None };
        if self.is_binding() {
            let target = self.read::<Binding>().target.unwrap_or_default();
            return Some((pod.clone(), Deed::Binding(target.name)));
        }
        if self.method != "GET" && plural == "resourceclaims" {
            return Some((pod.clone(), Deed::Claim));
        }
        let is_volume = self.method == "PUT" && plural == "persistentvolumes"
            || self.method == "PATCH" && plural == "persistentvolumeclaims";
        if is_volume {
            return Some((pod.clone(), Deed::Volume));
        }
        (self.method == "DELETE" && plural == "pods").then(|| (pod.clone(), Deed::Eviction))
    }

    /// The event of a request that creates one.
    pub(super) fn event(&self) -> Option<Event> {
        (self.method == "POST" && self.path[0] == "events").then(|| self.read())
    }

    pub(super) fn is_watch(&self) -> bool {
        self.query.contains_key("watch")
    }

    pub(super) fn is_lease(&self) -> bool {
        self.path[0] == "leases"
    }

    /// The holder that a write of the lease names, empty for nobody; `None` for every other request.
    pub(super) fn lease_holder(&self) -> Option<String> {
        let is_write = self.is_lease() && self.method != "GET";
        is_write.then(|| self.read::<Lease>().spec.unwrap_or_default().holder_identity.unwrap_or_default())
    }

    pub(super) fn is_event(&self) -> bool {
        self.path[0] == "events"
    }

    pub(super) fn described(&self) -> String {
        format!("{} {}", self.method, self.path.join("/"))
    }

    fn read<T: crate::client::Object>(&self) -> T {
        codec().decode(self.body.clone()).expect("the client writes what it may send")
    }

    fn number(&self, name: &str) -> u64 {
        self.query.get(name).map_or(0, |text| text.parse().expect("the client writes numbers"))
    }
}

fn codec() -> Codec {
    Codec::new(&orch_proto::brand::ORCH, ContentType::Protobuf)
}

impl Store {
    /// Does what `asked` says, at `at`.
    pub(super) fn serve(&mut self, at: Moment, asked: &Asked) -> Reply {
        if let Some(binding) = asked.extender_binding() {
            return Reply::Whole(match binding.serve(at, self) {
                Ok(()) => extenders::whole(200, serde_json::json!({})),
                Err(refused) => refusal(&refused, 0),
            });
        }
        let path: Vec<&str> = asked.path.iter().map(String::as_str).collect();
        let answer = match (asked.method.as_str(), &path[..]) {
            ("GET", [plural]) if asked.is_watch() => return self.watch(plural, asked),
            ("GET", [plural]) => Ok(self.list(plural)),
            ("GET", ["pods", name]) => self.pod(name).map(|pod| pod.encode_to_vec()),
            ("GET", ["resourceclaims", name]) => self.claim(name).map(|claim| claim.encode_to_vec()),
            ("GET", ["nodes", name]) => found(&self.nodes, name),
            ("GET", ["persistentvolumes", name]) => found(&self.volumes, name),
            ("GET", ["persistentvolumeclaims", name]) => found(&self.volume_claims, name),
            ("PUT", ["persistentvolumes", name]) => {
                self.replace_volume(at, name, asked.read()).map(|volume| volume.encode_to_vec())
            }
            ("PATCH", ["persistentvolumeclaims", name]) => {
                let patch = serde_json::from_slice(&asked.body).expect("the client writes JSON");
                self.patch_volume_claim(at, name, &patch).map(|claim| claim.encode_to_vec())
            }
            ("PUT", ["resourceclaims", name, subresource @ ..]) => {
                let claim = self.replace_claim(at, name, asked.read(), subresource.first().copied());
                claim.map(|claim| claim.encode_to_vec())
            }
            ("POST", ["resourceclaims"]) => Ok(self.create_claim(at, asked.read()).encode_to_vec()),
            ("DELETE", ["resourceclaims", name]) => {
                let options: DeleteOptions = asked.read();
                self.delete_claim(at, name, &options).map(|()| Status::default().encode_to_vec())
            }
            ("GET", ["leases", name]) => {
                let lease = self.lease.as_ref().ok_or((404, "NotFound", format!("{name} not found")));
                lease.map(|lease| lease.encode_to_vec())
            }
            ("POST", ["leases"]) => {
                self.create_lease(at, asked.read::<Lease>()).map(|lease| lease.encode_to_vec())
            }
            ("PUT", ["leases", _]) => {
                self.replace_lease(at, asked.read::<Lease>()).map(|lease| lease.encode_to_vec())
            }
            ("POST", ["pods", name, "binding"]) => {
                self.bind(at, name, &asked.read()).map(|()| Status::default().encode_to_vec())
            }
            ("PATCH", ["pods", name, "status"]) => {
                let patch = serde_json::from_slice(&asked.body).expect("the client writes JSON");
                self.patch_status(at, name, &patch).map(|pod| pod.encode_to_vec())
            }
            ("DELETE", ["pods", name]) => {
                let options: DeleteOptions = asked.read();
                self.delete_pod(at, name, &options).map(|()| Status::default().encode_to_vec())
            }
            ("POST", ["events"]) | ("PATCH", ["events", _]) => Ok(Event::default().encode_to_vec()),
            (method, path) => panic!("the model knows no {method} {path:?}"),
        };
        let is_status = asked.method == "DELETE" || path.last() == Some(&"binding");
        let (api_version, kind) = type_of(path[0]);
        Reply::Whole(match answer {
            Ok(message) if is_status => whole(200, "v1", "Status", message),
            Ok(message) if path.len() == 1 && asked.method == "GET" => {
                whole(200, &api_version, &format!("{kind}List"), message)
            }
            Ok(message) => whole(200, &api_version, &kind, message),
            Err(refused) => refusal(&refused, 0),
        })
    }

    /// The list of a kind, encoded; an empty one for kinds that the model has no objects of.
    fn list(&self, plural: &str) -> Vec<u8> {
        let metadata = self.list_meta();
        match plural {
            "pods" => self.list_pods(),
            "nodes" => self.list_nodes(),
            "resourceclaims" => self.list_claims(),
            "resourceslices" => ResourceSliceList { metadata, items: self.slices.clone() }.encode_to_vec(),
            "deviceclasses" => DeviceClassList { metadata, items: self.classes.clone() }.encode_to_vec(),
            "persistentvolumes" => {
                let items = self.volumes.values().map(|volume| (**volume).clone()).collect();
                PersistentVolumeList { metadata, items }.encode_to_vec()
            }
            "persistentvolumeclaims" => {
                let items = self.volume_claims.values().map(|claim| (**claim).clone()).collect();
                PersistentVolumeClaimList { metadata, items }.encode_to_vec()
            }
            "storageclasses" => {
                StorageClassList { metadata, items: self.storage_classes.clone() }.encode_to_vec()
            }
            _ => PodList { metadata, items: Vec::new() }.encode_to_vec(),
        }
    }

    fn watch(&self, plural: &str, asked: &Asked) -> Reply {
        let from = asked.number("resourceVersion");
        if from < self.compacted {
            return Reply::Whole(refusal(&(410, "Expired", "the history is gone".to_owned()), 0));
        }
        let kind = match plural {
            "pods" => Watched::Pods,
            "nodes" => Watched::Nodes,
            "resourceclaims" => Watched::Claims,
            "persistentvolumes" => Watched::Volumes,
            "persistentvolumeclaims" => Watched::VolumeClaims,
            _ => Watched::Nothing,
        };
        Reply::Watch(WatchRequest { kind, from, seconds: asked.number("timeoutSeconds") })
    }

    fn list_meta(&self) -> Option<ListMeta> {
        Some(ListMeta { resource_version: self.revision.to_string(), ..ListMeta::default() })
    }

    fn list_pods(&self) -> Vec<u8> {
        let unfinished = self.pods.values().filter(|pod| !is_finished(pod));
        let items: Vec<Pod> = unfinished.map(|pod| (**pod).clone()).collect();
        PodList { metadata: self.list_meta(), items }.encode_to_vec()
    }

    fn list_claims(&self) -> Vec<u8> {
        let items = self.claims.values().map(|claim| (**claim).clone()).collect();
        ResourceClaimList { metadata: self.list_meta(), items }.encode_to_vec()
    }

    fn list_nodes(&self) -> Vec<u8> {
        let items = self.nodes.values().map(|node| (**node).clone()).collect();
        NodeList { metadata: self.list_meta(), items }.encode_to_vec()
    }
}

/// An object by its name, as it is stored.
fn found<T: Message>(objects: &BTreeMap<String, Arc<T>>, name: &str) -> Result<Vec<u8>, Refused> {
    objects.get(name).map(|object| object.encode_to_vec()).ok_or_else(|| missing(name))
}

/// Version and kind of a resource. Of the two that are called `events` it is the one that the client writes.
fn type_of(plural: &str) -> (String, String) {
    let resources = orch_schema::testing::orch().resources().iter();
    let mut found = resources.filter(|one| one.plural == plural && one.version == "v1");
    let found = found.find(|one| plural != "events" || !one.group.is_empty());
    let found = found.expect("the client asks for what there is");
    (found.api_version(), found.kind.clone())
}

fn whole(code: u16, api_version: &str, kind: &str, message: Vec<u8>) -> Response<ResponseBody> {
    let body = Full::new(envelope(api_version, kind, message)).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(code).body(body).expect("the head is valid")
}

/// A refusal; with `Retry-After` where that is not 0.
pub(super) fn refusal((code, reason, message): &Refused, retry_after: u64) -> Response<ResponseBody> {
    let status = Status {
        status: "Failure".to_owned(),
        message: message.clone(),
        reason: (*reason).to_owned(),
        code: i32::from(*code),
        ..Status::default()
    };
    let mut answer = whole(*code, "v1", "Status", status.encode_to_vec());
    if retry_after > 0 {
        answer.headers_mut().insert("retry-after", retry_after.into());
    }
    answer
}

/// A frame of a watch.
pub(super) fn frame<T: crate::client::Object>(event: &str, object: &T) -> Bytes {
    let api_version = T::KIND.api_version(&orch_proto::brand::ORCH);
    let raw = envelope(&api_version, T::KIND.kind, object.encode_to_vec());
    let event = WatchEvent { r#type: event.to_owned(), object: Some(RawExtension { raw: raw.into() }) };
    let message = event.encode_to_vec();
    let mut frame = u32::try_from(message.len()).expect("events are small").to_be_bytes().to_vec();
    frame.extend(message);
    frame.into()
}
