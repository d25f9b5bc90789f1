//! Protection of storage in use: a claim outlives the pods that use it, a volume its claim, and a class of attributes the
//! claims and volumes that name it.
//!
//! Owns their finalizers: a finalizer that is absent is added, and that of an object that is being deleted is removed
//! once nothing uses the object. The admission plugin `StorageObjectInUseProtection` sets them on new objects.
//!
//! Invariant: a finalizer is removed only from the version of the object that was looked at.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use orch_proto::Brand;
use orch_raft::object::SharedObject;
use orch_raft::{Change, ObjectPath, State, Store};
use orch_rules::Action;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::client::{Client, Place};
use super::queue::Queue;
use super::rounds::{Progress, Queued, Round, Rounds, end};
use crate::error::ApiError;
use crate::follow::{Applied, Derived, Digest, shrink};
use crate::registry::Resource;

const PODS: &str = "pods";

/// From the deletion of an unused object, or the end of its last user, to the removal of its finalizer: a client that deletes
/// one sees it once more with its finalizer, as in the recordings, which no loop took part in (vectors/kinds).
const LINGER: Duration = Duration::from_millis(100);

/// Logged where an object cannot be written.
const WARNING: &str = "the finalizer of a protected object cannot be written yet";

/// Objects whose writes are under way at most: few beside the writes of clients.
const OBJECTS_AT_ONCE: usize = 16;

/// The kinds of objects that are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protected {
    /// Claims, which pods use.
    Claims,
    /// Volumes, which are bound to claims.
    Volumes,
    /// Classes of attributes, which claims and volumes name.
    Classes,
}

impl Protected {
    /// The loop's name in the reference.
    pub(super) fn controller(self) -> &'static str {
        match self {
            Protected::Claims => "persistentvolumeclaim-protection-controller",
            Protected::Volumes => "persistentvolume-protection-controller",
            Protected::Classes => "volumeattributesclass-protection-controller",
        }
    }

    fn storage(self) -> &'static str {
        match self {
            Protected::Claims => "persistentvolumeclaims",
            Protected::Volumes => "persistentvolumes",
            Protected::Classes => "volumeattributesclasses.storage",
        }
    }

    /// Kinds whose objects use the protected ones.
    fn users(self) -> &'static [&'static str] {
        match self {
            Protected::Claims => &[PODS],
            // The volume itself says whether it is bound.
            Protected::Volumes => &[],
            Protected::Classes => &["persistentvolumeclaims", "persistentvolumes"],
        }
    }

    fn finalizer(self, brand: &Brand) -> String {
        brand.label(match self {
            Protected::Claims => "pvc-protection",
            Protected::Volumes => "pv-protection",
            Protected::Classes => "vac-protection",
        })
    }

    /// Members without which a user uses nothing. Most pods have none of them and are not decoded.
    fn marks(self) -> &'static [&'static [u8]] {
        match self {
            Protected::Claims => &[br#""persistentVolumeClaim":"#, br#""ephemeral":"#],
            Protected::Volumes => &[],
            // `volumeAttributesClassName`, and those of the status, which end alike.
            Protected::Classes => &[br#"olumeAttributesClassName":"#],
        }
    }

    /// Paths of the protected objects that the user at `path` uses.
    fn used_by(self, path: &str, user: &SharedObject) -> BTreeSet<Arc<str>> {
        // few: marks are constants. Stored JSON has no spaces.
        if !self.marks().iter().any(|mark| memchr::memmem::find(&user.json, mark).is_some()) {
            return BTreeSet::new();
        }
        let Ok(user) = serde_json::from_slice::<Value>(&user.json) else { return BTreeSet::new() };
        match self {
            Protected::Claims => claims_of(path, &user),
            Protected::Volumes => BTreeSet::new(),
            Protected::Classes => {
                let (spec, status) = (user.at("spec"), user.at("status"));
                let names = [
                    spec.text("volumeAttributesClassName"),
                    status.text("currentVolumeAttributesClassName"),
                    status.at("modifyVolumeStatus").text("targetVolumeAttributesClassName"),
                ];
                names.into_iter().filter(|name| !name.is_empty()).map(Arc::from).collect()
            }
        }
    }
}

/// Paths of the claims that a pod uses until it is gone. As in the reference, one that has no node yet uses none, and the
/// claim of an ephemeral volume goes with a pod that is deleted at once.
fn claims_of(path: &str, pod: &Value) -> BTreeSet<Arc<str>> {
    let (metadata, spec) = (pod.at("metadata"), pod.at("spec"));
    let is_shut_down =
        metadata.has("deletionTimestamp") && metadata.int("deletionGracePeriodSeconds") == Some(0);
    let (namespace, pod) = ObjectPath::of(path).parts();
    if spec.text("nodeName").is_empty() {
        return BTreeSet::new();
    }
    let claim = |volume: &Value| match volume.at("persistentVolumeClaim").text("claimName") {
        "" if volume.has("ephemeral") && !is_shut_down => {
            Some(format!("{namespace}/{pod}-{}", volume.text("name")))
        }
        "" => None,
        name => Some(format!("{namespace}/{name}")),
    };
    spec.items("volumes").iter().filter_map(claim).map(Arc::from).collect()
}

/// Whether anything uses a protected object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usage {
    Used,
    Unused,
}

/// The number of users of each protected object, and the protected objects that have to be looked at. The objects that a user uses
/// are read from the user, not held: a pod may name thousands of claims.
#[derive(Debug)]
struct Uses {
    of: Protected,
    sources: Vec<Arc<str>>,
    /// Number of users of each object that has any, by the digest of its path.
    counts: HashMap<Digest, u32>,
    queue: Queue<Arc<str>>,
}

impl Uses {
    fn new(of: Protected) -> Uses {
        let sources = [of.storage()].iter().chain(of.users()).map(|storage| Arc::from(*storage)).collect();
        Uses { of, sources, counts: HashMap::new(), queue: Queue::default() }
    }

    fn set_protected(&mut self, path: &Arc<str>, object: Option<&SharedObject>) {
        if let Some(object) = object {
            self.queue.add(path, if object.index.terminating { LINGER } else { Duration::ZERO });
        }
    }

    fn set_user(&mut self, path: &str, old: Option<&SharedObject>, new: Option<&SharedObject>) {
        let used =
            |user: Option<&SharedObject>| user.map(|user| self.of.used_by(path, user)).unwrap_or_default();
        let (old, new) = (used(old), used(new));
        for object in new.difference(&old) {
            let count = self.counts.entry(Digest::of(&**object)).or_default();
            *count = count.saturating_add(1);
        }
        for object in old.difference(&new) {
            let digest = Digest::of(&**object);
            let is_last = self.counts.get_mut(&digest).is_none_or(|count| {
                *count = count.saturating_sub(1);
                *count == 0
            });
            if is_last {
                self.counts.remove(&digest);
                shrink(&mut self.counts);
                self.queue.add(object, LINGER);
            }
        }
    }

    fn usage_of(&self, path: &str) -> Usage {
        if self.counts.contains_key(&Digest::of(path)) { Usage::Used } else { Usage::Unused }
    }
}

impl Derived for Uses {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sources.iter()
    }

    fn change(&mut self, source: &Arc<str>, change: &Change) {
        if **source == *self.of.storage() {
            self.set_protected(&change.path, change.new.as_ref());
        } else {
            self.set_user(&change.path, change.old.as_ref(), change.new.as_ref());
        }
    }

    fn rebuild(&mut self, state: &State) {
        self.counts = HashMap::new();
        for source in self.of.users() {
            for (path, user) in state.collection(source).range_from("") {
                self.set_user(path, None, Some(user));
            }
        }
        let protected = state.collection(self.of.storage());
        for (path, object) in protected.range_from("") {
            self.set_protected(path, Some(object));
        }
    }
}

impl Queued for Uses {
    type Key = Arc<str>;

    fn queue(&mut self) -> &mut Queue<Arc<str>> {
        &mut self.queue
    }
}

/// Keeps the finalizers of the protected objects. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>, of: Protected) -> Result<Infallible, ApiError> {
    let uses = Uses::new(of);
    let Some(resource) = client.stored_resource(of.storage()) else {
        return Err(ApiError::Internal(format!("{} are not served", of.storage())));
    };
    let mut rounds =
        Rounds::new((client, of.controller()), uses.sources.clone(), uses, OBJECTS_AT_ONCE).await?;
    loop {
        let Round { due, .. } = rounds
            .next(|uses, path, result| end(client, &mut uses.queue, (path, path), result, WARNING))
            .await;
        // In the newest state: users that were stored since the last turn count, too. An object that is in use is looked at again
        // when its last user lets it go.
        let patching = |uses: &mut Uses, applied: &Applied, path: &Arc<str>| {
            let patch = patch(of, client.registry().brand, &applied.state, path, uses.usage_of(path))?;
            Some(write(client, &resource, path.clone(), patch))
        };
        rounds.start_all(due, patching).await?;
    }
}

async fn write<S: Store>(
    client: &Client<S>,
    resource: &Arc<Resource>,
    path: Arc<str>,
    patch: Value,
) -> Result<Progress, ApiError> {
    client.patch(Place { resource, path: &path }, Action::Object, &patch).await.map(|()| Progress::Settled)
}

/// The patch that adds or removes the finalizer of the object at `path`; `None`: the object is as it should be.
fn patch(of: Protected, brand: &Brand, state: &State, path: &str, usage: Usage) -> Option<Value> {
    let collection = state.collection(of.storage());
    let object: Value = serde_json::from_slice(&collection.get(path)?.json).ok()?;
    let finalizers = wanted_finalizers(of, brand, &object, usage)?;
    let metadata = object.at("metadata");
    Some(json!({"metadata": {
        "uid": metadata.text("uid"),
        "resourceVersion": metadata.text("resourceVersion"),
        "finalizers": finalizers,
    }}))
}

/// The finalizers that `object` should have; `None`: those that it has.
fn wanted_finalizers(of: Protected, brand: &Brand, object: &Value, usage: Usage) -> Option<Vec<Value>> {
    let finalizer = json!(of.finalizer(brand));
    let mut finalizers = object.at("metadata").items("finalizers").to_vec();
    // once: one search in each object looked at.
    let at = finalizers.iter().position(|one| *one == finalizer);
    let is_ending = object.at("metadata").has("deletionTimestamp");
    let is_bound = of == Protected::Volumes && object.at("status").text("phase") == "Bound";
    match at {
        None if !is_ending => finalizers.push(finalizer),
        Some(at) if is_ending && usage == Usage::Unused && !is_bound => drop(finalizers.remove(at)),
        _ => return None,
    }
    Some(finalizers)
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;
    use crate::controllers::testing::Fixture;

    const CLAIMS: &str = "persistentvolumeclaims";

    /// A pod that names as many claims as it has room for: before, the loop held twice the bytes of such pods.
    #[test]
    fn users_of_many_claims_hold_less_than_what_is_stored_of_them() {
        let volumes: Vec<Value> = (0..7_000)
            .map(|at| json!({"name": format!("{at:x}"), "persistentVolumeClaim": {"claimName": format!("c{at:x}")}}))
            .collect();
        let stored = json!({"spec": {"nodeName": "a", "volumes": volumes}});
        let bytes = stored.to_string().len();
        let object = |json: &Value| {
            SharedObject::new(orch_raft::Object {
                revision: orch_raft::Revision(1),
                created: orch_raft::Revision(1),
                written_ms: 0,
                json: json.to_string().into(),
                revision_at: 0,
                index: orch_raft::Index::default(),
                protobuf: std::sync::OnceLock::new(),
            })
        };
        let pod = object(&stored);
        let mut uses = Uses::new(Protected::Claims);
        uses.set_user("n/p", None, Some(&pod));
        uses.set_user("n/q", None, Some(&pod));
        assert!(uses.counts.allocation_size() <= bytes, "{} of {bytes}", uses.counts.allocation_size());
        uses.set_user("n/p", Some(&pod), None);
        assert!(
            uses.usage_of("n/c1") == Usage::Used && uses.queue.wait().is_none(),
            "the other pod uses them"
        );
        uses.set_user("n/q", Some(&pod), Some(&object(&json!({"spec": {"nodeName": "a"}}))));
        assert_eq!(uses.usage_of("n/c1"), Usage::Unused);
        uses.queue.pass(LINGER);
        assert_eq!((uses.queue.take_due(10_000).len(), uses.counts.len()), (7_000, 0));
        assert!(uses.counts.allocation_size() * 20 < bytes, "{} of {bytes}", uses.counts.allocation_size());
    }

    #[test]
    fn a_finalizer_is_added_while_an_object_lives_and_removed_when_nothing_uses_it() {
        let object = |finalizers: Value, is_ending: bool, phase: &str| {
            let mut metadata = json!({"finalizers": finalizers});
            if is_ending {
                orch_rules::validate::tree::set(&mut metadata, "deletionTimestamp", "2026-01-02T03:04:05Z");
            }
            json!({"metadata": metadata, "status": {"phase": phase}})
        };
        let (claim, volume) = ("orch.io/pvc-protection", "orch.io/pv-protection");
        for (of, object, is_used, expected) in [
            (Protected::Claims, object(json!([]), false, ""), false, Some(json!([claim]))),
            (Protected::Claims, object(json!(["a/b"]), false, ""), true, Some(json!(["a/b", claim]))),
            (Protected::Claims, object(json!([claim]), false, ""), false, None),
            (Protected::Claims, object(json!([claim]), true, ""), true, None),
            (Protected::Claims, object(json!(["a/b", claim]), true, ""), false, Some(json!(["a/b"]))),
            (Protected::Claims, object(json!(["a/b"]), true, ""), false, None),
            (Protected::Volumes, object(json!([volume]), true, "Bound"), false, None),
            (Protected::Volumes, object(json!([volume]), true, "Released"), false, Some(json!([]))),
        ] {
            let usage = if is_used { Usage::Used } else { Usage::Unused };
            let found = wanted_finalizers(of, &ORCH, &object, usage).map(Value::from);
            assert_eq!(found, expected, "{of:?} {object}");
        }
    }

    #[test]
    fn pods_on_nodes_use_their_claims_until_they_are_gone() {
        let volumes = json!([
            {"name": "a", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "e", "ephemeral": {}}, {"name": "d"},
        ]);
        let pod = |node: &str, metadata: Value| json!({"metadata": metadata, "spec": {"nodeName": node, "volumes": volumes.clone()}});
        let found = |pod: Value| claims_of("n/p", &pod).iter().map(ToString::to_string).collect::<Vec<_>>();
        let ending = |period: i64| json!({"deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": period});
        assert_eq!(found(pod("x", json!({}))), ["n/c", "n/p-e"]);
        assert_eq!(found(pod("x", ending(30))), ["n/c", "n/p-e"]);
        assert_eq!(found(pod("x", ending(0))), ["n/c"]);
        assert_eq!(found(pod("", json!({}))), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_outlives_the_last_pod_that_uses_it() {
        let fixture = Fixture::new();
        fixture.namespace("n").await;
        let spec = json!({
            "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        });
        fixture.create(CLAIMS, "n", json!({"metadata": {"name": "c"}, "spec": spec.clone()})).await;
        fixture.create(CLAIMS, "n", json!({"metadata": {"name": "free"}, "spec": spec})).await;
        let pod = |name: &str| {
            json!({"metadata": {"name": name}, "spec": {
                "nodeName": "x", "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
            }})
        };
        for name in ["p", "q"] {
            fixture.create(PODS, "n", pod(name)).await;
        }
        let steps = async {
            let settled = || tokio::time::sleep(2 * LINGER);
            settled().await;
            for claim in ["n/c", "n/free"] {
                let finalizers = fixture.read(CLAIMS, claim)["metadata"]["finalizers"].clone();
                assert_eq!(finalizers, json!(["orch.io/pvc-protection"]));
                fixture.delete(CLAIMS, claim, json!({})).await;
            }
            settled().await;
            assert!(!fixture.exists(CLAIMS, "n/free"), "nothing uses it");
            for pod in ["n/p", "n/q"] {
                assert!(fixture.exists(CLAIMS, "n/c"), "{pod} uses it");
                fixture.delete(PODS, pod, json!({"gracePeriodSeconds": 0})).await;
                settled().await;
            }
            assert!(!fixture.exists(CLAIMS, "n/c"));
        };
        fixture.beside(run(&fixture.client(), Protected::Claims), steps).await;
    }
}
