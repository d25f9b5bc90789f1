//! Volumes that pods share: those of nodes, those that are made for a node, their claims, and the controller that binds them.
//!
//! Owns what happens to volumes but for scheduling, and the promise of theirs: no pod has a node before the claim that it names
//! is bound, to a volume of that node. Claims wait for their first pod; some are deleted while no pod names them, and come back
//! under their name. Users give volumes to claims on their own, so that a claim may get another one than a plan chose.

use std::collections::BTreeMap;
use std::sync::Arc;

use orch_proto::brand::ORCH;
use rand::Rng;
use rand::rngs::StdRng;

use super::Moment;
use super::api::{Changed, Kept, NAMESPACE, Step, Store, name_of, node_of};
use super::check::VIEW_AGE_MAX;
use super::network::World;
use super::rules::{Refused, conflict, missing};
use super::run::Phase;
use super::users::{ELSEWHERE, node_names};
use crate::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectReference, PersistentVolume,
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimVolumeSource,
    PersistentVolumeSpec, Pod, Volume, VolumeNodeAffinity, VolumeResourceRequirements, VolumeSource,
};
use crate::api::meta::v1::ObjectMeta;
use crate::api::resource::Quantity;
use crate::api::storage::v1::StorageClass;
use crate::client::Object;

/// Claims. Every second one wants a volume that is there, of which each node has one; the others want one that is made.
const CLAIMS: usize = 10;

/// The class of volumes that nodes have, and that of volumes which are made.
const LOCAL: &str = "local";
const MADE: &str = "made";

/// Makes the classes, the volumes of nodes, and claims without any.
pub(super) fn found(store: &mut Store) {
    let class = |name: &str, provisioner: String| StorageClass {
        metadata: Some(ObjectMeta { name: name.to_owned(), uid: name.to_owned(), ..ObjectMeta::default() }),
        provisioner,
        volume_binding_mode: Some("WaitForFirstConsumer".to_owned()),
        ..StorageClass::default()
    };
    store.storage_classes = vec![class(LOCAL, ORCH.label("no-provisioner")), class(MADE, "p.io".to_owned())];
    for node in node_names() {
        store.put_volume(0, volume(format!("local-{node}"), LOCAL, &node));
    }
    for index in 0..CLAIMS {
        store.put_volume_claim(0, claim(index));
    }
}

fn size() -> BTreeMap<String, Quantity> {
    [("storage".to_owned(), Quantity { string: "1Gi".to_owned() })].into()
}

fn modes() -> Vec<String> {
    vec!["ReadWriteOnce".to_owned()]
}

fn volume(name: String, class: &str, node: &str) -> PersistentVolume {
    let here = NodeSelectorRequirement {
        key: "host".to_owned(),
        operator: "In".to_owned(),
        values: vec![node.to_owned()],
    };
    let term = NodeSelectorTerm { match_expressions: vec![here], ..NodeSelectorTerm::default() };
    let required = Some(NodeSelector { node_selector_terms: vec![term] });
    let spec = PersistentVolumeSpec {
        capacity: size(),
        access_modes: modes(),
        storage_class_name: class.to_owned(),
        node_affinity: Some(VolumeNodeAffinity { required }),
        ..PersistentVolumeSpec::default()
    };
    let metadata = ObjectMeta { name, ..ObjectMeta::default() };
    PersistentVolume { metadata: Some(metadata), spec: Some(spec), ..PersistentVolume::default() }
}

fn claim(index: usize) -> PersistentVolumeClaim {
    let class = if index.is_multiple_of(2) { LOCAL } else { MADE };
    let resources = VolumeResourceRequirements { requests: size(), ..VolumeResourceRequirements::default() };
    let spec = PersistentVolumeClaimSpec {
        access_modes: modes(),
        resources: Some(resources),
        storage_class_name: Some(class.to_owned()),
        ..PersistentVolumeClaimSpec::default()
    };
    let metadata =
        ObjectMeta { name: format!("v{index}"), namespace: NAMESPACE.to_owned(), ..ObjectMeta::default() };
    PersistentVolumeClaim { metadata: Some(metadata), spec: Some(spec), ..PersistentVolumeClaim::default() }
}

fn selected_node() -> String {
    format!("volume.{}", ORCH.label("selected-node"))
}

fn bind_completed() -> String {
    format!("pv.{}", ORCH.label("bind-completed"))
}

/// The claim that a new pod names, if it does.
pub(super) fn wanted(store: &Store, random: &mut StdRng) -> Vec<Volume> {
    if store.volume_claims.is_empty() || random.random_bool(0.4) {
        return Vec::new();
    }
    let claim_name = format!("v{}", random.random_range(0..CLAIMS));
    let persistent_volume_claim = Some(PersistentVolumeClaimVolumeSource {
        claim_name,
        ..PersistentVolumeClaimVolumeSource::default()
    });
    let volume_source = Some(VolumeSource { persistent_volume_claim, ..VolumeSource::default() });
    vec![Volume { name: "v".to_owned(), volume_source }]
}

/// The name of the volume claim of a pod.
fn named(pod: &Pod) -> Option<&str> {
    let source = pod.spec.as_ref()?.volumes.first()?.volume_source.as_ref()?;
    Some(&source.persistent_volume_claim.as_ref()?.claim_name)
}

fn holder(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

/// The node whose volume it is.
fn place(volume: &PersistentVolume) -> Option<&str> {
    let required = volume.spec.as_ref()?.node_affinity.as_ref()?.required.as_ref()?;
    Some(required.node_selector_terms.first()?.match_expressions.first()?.values.first()?)
}

fn uid(claim: &PersistentVolumeClaim) -> &str {
    claim.metadata.as_ref().map_or("", |metadata| &metadata.uid)
}

/// The volume that a claim is bound to.
fn bound(claim: &PersistentVolumeClaim) -> Option<&str> {
    let is_complete = claim.metadata.as_ref()?.annotations.contains_key(&bind_completed());
    let volume = &claim.spec.as_ref()?.volume_name;
    (is_complete && !volume.is_empty()).then_some(volume)
}

fn is_local(claim: &PersistentVolumeClaim) -> bool {
    claim.spec.as_ref().is_some_and(|spec| spec.storage_class_name.as_deref() == Some(LOCAL))
}

/// Users and the controller of volumes. In the calm every volume can be made, and no claim comes anew.
pub(super) fn act(now: Moment, store: &mut Store, random: &mut StdRng, phase: Phase) {
    if store.volume_claims.is_empty() {
        return;
    }
    if phase == Phase::Faults {
        match random.random_range(0..100) {
            0 => renew_claim(now, store, random),
            1 => give_volume(now, store, random),
            _ => {}
        }
    }
    if random.random_bool(0.1) {
        bind_volumes(now, store);
        make_volumes(now, store, random, phase);
    }
}

/// A claim that no pod names is deleted, and comes again.
fn renew_claim(now: Moment, store: &mut Store, random: &mut StdRng) {
    let index = random.random_range(0..CLAIMS);
    let name = format!("v{index}");
    if store.pods.values().any(|pod| named(pod) == Some(&name)) {
        return;
    }
    store.remove_volume_claim(now, &name);
    store.put_volume_claim(now, claim(index));
}

/// A user gives a volume of a node to a claim.
fn give_volume(now: Moment, store: &mut Store, random: &mut StdRng) {
    let name = format!("v{}", random.random_range(0..CLAIMS / 2) * 2);
    let free = store.volumes.values().filter(|volume| holder(volume).is_none());
    let free: Vec<Arc<PersistentVolume>> = free.cloned().collect();
    if free.is_empty() || bound(&store.volume_claims[&name]).is_some() {
        return;
    }
    let mut volume = (*free[random.random_range(0..free.len())]).clone();
    let reference = ObjectReference { name, namespace: NAMESPACE.to_owned(), ..ObjectReference::default() };
    volume.spec.get_or_insert_default().claim_ref = Some(reference);
    store.put_volume(now, volume);
}

/// The controller completes what volumes say of their claims, and takes back what is void.
fn bind_volumes(now: Moment, store: &mut Store) {
    let volumes: Vec<Arc<PersistentVolume>> = store.volumes.values().cloned().collect();
    for volume in volumes {
        let Some(reference) = holder(&volume) else { continue };
        let claim = store.volume_claims[&reference.name].clone();
        let is_its = reference.uid.is_empty() || reference.uid == uid(&claim);
        let mut volume = (*volume).clone();
        let name = volume.metadata_mut().name.clone();
        let spec = volume.spec.get_or_insert_default();
        match bound(&claim) {
            Some(other) if is_its && other == name => {}
            None if is_its => {
                let reference = spec.claim_ref.get_or_insert_default();
                if reference.uid.is_empty() {
                    uid(&claim).clone_into(&mut reference.uid);
                    store.put_volume(now, volume);
                }
                complete(now, store, &claim, name);
            }
            Some(_) | None if spec.storage_class_name == MADE => store.remove_volume(now, &name),
            Some(_) | None => {
                spec.claim_ref = None;
                store.put_volume(now, volume);
            }
        }
    }
}

fn complete(now: Moment, store: &mut Store, claim: &PersistentVolumeClaim, volume: String) {
    let mut claim = claim.clone();
    claim.metadata_mut().annotations.insert(bind_completed(), "yes".to_owned());
    claim.spec.get_or_insert_default().volume_name = volume;
    claim.status.get_or_insert_default().phase = "Bound".to_owned();
    store.put_volume_claim(now, claim);
}

/// Volumes are made for the nodes that were selected, or cannot be made there.
fn make_volumes(now: Moment, store: &mut Store, random: &mut StdRng, phase: Phase) {
    let claims: Vec<Arc<PersistentVolumeClaim>> = store.volume_claims.values().cloned().collect();
    for claim in claims.iter().filter(|claim| bound(claim).is_none() && !is_local(claim)) {
        let metadata = claim.metadata.clone().unwrap_or_default();
        let Some(node) = metadata.annotations.get(&selected_node()) else { continue };
        if phase == Phase::Faults && random.random_bool(0.4) {
            let mut claim = (**claim).clone();
            claim.metadata_mut().annotations.remove(&selected_node());
            store.put_volume_claim(now, claim);
            continue;
        }
        let name = format!("made-{}", metadata.uid);
        let mut volume = volume(name.clone(), MADE, node);
        volume.spec.get_or_insert_default().claim_ref = Some(ObjectReference {
            name: metadata.name,
            namespace: NAMESPACE.to_owned(),
            uid: metadata.uid,
            ..ObjectReference::default()
        });
        store.put_volume(now, volume);
        complete(now, store, claim, name);
    }
}

impl Store {
    /// Replaces a volume at the version that was read.
    pub(super) fn replace_volume(
        &mut self,
        at: Moment,
        name: &str,
        new: PersistentVolume,
    ) -> Result<Arc<PersistentVolume>, Refused> {
        let found = self.volumes.get(name).ok_or_else(|| missing(name))?;
        if found.resource_version() != new.resource_version() {
            return Err(conflict("the volume has been modified"));
        }
        Ok(self.put_volume(at, new))
    }

    /// A merge patch of a claim's annotations, at the version that it names.
    pub(super) fn patch_volume_claim(
        &mut self,
        at: Moment,
        name: &str,
        patch: &serde_json::Value,
    ) -> Result<Arc<PersistentVolumeClaim>, Refused> {
        let mut claim = (**self.volume_claims.get(name).ok_or_else(|| missing(name))?).clone();
        let metadata = claim.metadata_mut();
        let wanted = patch["metadata"]["resourceVersion"].as_str();
        if wanted.is_some_and(|wanted| wanted != metadata.resource_version) {
            return Err(conflict("the claim has been modified"));
        }
        for (key, value) in patch["metadata"]["annotations"].as_object().into_iter().flatten() {
            metadata.annotations.insert(key.clone(), value.as_str().unwrap_or_default().to_owned());
        }
        Ok(self.put_volume_claim(at, claim))
    }
}

/// Checks the promise at each binding.
pub(super) fn check(world: &World) -> Result<(), String> {
    let mut volumes: BTreeMap<String, Arc<PersistentVolume>> = BTreeMap::new();
    let mut claims: BTreeMap<String, Arc<PersistentVolumeClaim>> = BTreeMap::new();
    // Where claims that are gone had their volumes, and since when they are gone: a leader may not know it yet.
    let mut past: Vec<(Moment, String, String)> = Vec::new();
    for entry in &world.store.history {
        match &entry.changed {
            Changed::Volume(Step { after: Some(volume), .. }) => {
                volumes.insert(name_of(volume.metadata.as_ref()).to_owned(), volume.clone());
            }
            Changed::VolumeClaim(Step { after: Some(claim), .. }) => {
                claims.insert(name_of(claim.metadata.as_ref()).to_owned(), claim.clone());
            }
            Changed::VolumeClaim(Step { before: Some(claim), .. }) => {
                let node = bound(claim).and_then(|volume| place(volumes.get(volume)?));
                let name = name_of(claim.metadata.as_ref()).to_owned();
                past.extend(node.map(|node| (entry.at, name, node.to_owned())));
            }
            Changed::Pod(Step { before: Some(before), after: Some(pod) })
                if node_of(before).is_empty() && !node_of(pod).is_empty() =>
            {
                let node = node_of(pod);
                let Some(name) = named(pod).filter(|_| node != ELSEWHERE) else { continue };
                let volume = claims.get(name).and_then(|claim| bound(claim));
                let here = volume.and_then(|volume| place(volumes.get(volume)?));
                let is_excused = past.iter().any(|(at, claim, place)| {
                    claim == name && place == node && entry.at - at <= VIEW_AGE_MAX
                });
                if here != Some(node) && !is_excused {
                    let (at, pod) = (entry.at, name_of(pod.metadata.as_ref()));
                    return Err(format!(
                        "at {at} pod {pod} is bound to {node}, and the volume of its claim {name} is on {here:?}"
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether the volume claim of `pod` has a volume on `node`, or can have.
pub(super) fn has_volume(world: &World, pod: &Pod, node: &str) -> bool {
    let store = &world.store;
    let Some(claim) = named(pod).and_then(|claim| store.volume_claims.get(claim)) else { return true };
    if let Some(volume) = bound(claim) {
        return store.volumes.get(volume).and_then(|volume| place(volume)) == Some(node);
    }
    let mut here = store.volumes.values().filter(|volume| place(volume) == Some(node));
    !is_local(claim) || here.any(|volume| holder(volume).is_none())
}
