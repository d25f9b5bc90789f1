//! The changes that events make to the snapshot.

use std::sync::Arc;

use crate::api::core::v1;
use crate::api::meta::v1::ObjectMeta;
use crate::objects::controller::Controller;
use crate::objects::intern::Symbol;
use crate::objects::labels::{Labels, Selector};
use crate::objects::node::Node;
use crate::objects::pod::Pod;

use super::budgets::Budget;
use super::nodes::NodeId;
use super::{Assigned, Change, Cluster, Object, storage};

impl Cluster {
    /// Takes an event. Events may come in any order between kinds; of one object in the order of its changes.
    pub fn apply(&mut self, change: Change<'_>) {
        let (object, there) = match change {
            Change::Upsert(object) => (object, true),
            Change::Delete(object) => (object, false),
        };
        match object {
            Object::Node(node) if there => self.upsert_node(node),
            Object::Node(node) => self.remove_node(&meta(&node.metadata).name),
            Object::Pod(pod) if there => self.upsert_pod(pod),
            Object::Pod(pod) => self.remove_pod(&meta(&pod.metadata).uid),
            Object::Namespace(namespace) => self.set_namespace(meta(&namespace.metadata), there),
            Object::Service(_)
            | Object::ReplicationController(_)
            | Object::ReplicaSet(_)
            | Object::StatefulSet(_) => self.apply_workload(object, there),
            Object::PodDisruptionBudget(budget) => {
                let meta = meta(&budget.metadata);
                let key = (meta.namespace.clone(), meta.name.clone());
                self.budgets_version += 1;
                if there {
                    let budget = Budget::compile(&mut self.texts, budget);
                    self.budgets.insert(key, budget);
                } else {
                    self.budgets.remove(&key);
                }
            }
            Object::ResourceClaim(_) | Object::ResourceSlice(_) | Object::DeviceClass(_) => {
                self.apply_devices(object, there);
            }
            storage => self.apply_storage(storage, there),
        }
        self.memo.get_mut().selections.trim();
    }

    fn apply_devices(&mut self, object: Object<'_>, there: bool) {
        let devices = &mut self.devices;
        match object {
            Object::ResourceClaim(claim) if there => devices.upsert_claim(claim.clone()),
            Object::ResourceClaim(claim) => {
                let meta = meta(&claim.metadata);
                devices.remove_claim(&meta.namespace, &meta.name);
            }
            Object::ResourceSlice(slice) if there => devices.upsert_slice(slice),
            Object::ResourceSlice(slice) => devices.remove_slice(&meta(&slice.metadata).name),
            Object::DeviceClass(class) if there => devices.upsert_class(class),
            Object::DeviceClass(class) => devices.remove_class(&meta(&class.metadata).name),
            _ => unreachable!("the caller handles the other kinds"),
        }
    }

    fn apply_storage(&mut self, object: Object<'_>, there: bool) {
        let (texts, storage) = (&mut self.texts, &mut self.storage);
        match object {
            Object::PersistentVolume(volume) => {
                let volume = storage::volume(texts, self.brand, volume);
                storage.volume_seen(&volume.name, volume.claim.is_some() || !there);
                let (name, class) = (volume.name.clone(), volume.class.clone());
                storage.volumes.set(&name, there.then_some((class, volume)));
            }
            Object::PersistentVolumeClaim(claim) => {
                let (name, claim) = storage::claim(texts, self.brand, claim);
                storage.claim_seen(&name, claim.selected_node.is_some() || claim.bound || !there);
                set(&mut storage.claims, name, there.then_some(claim));
            }
            Object::StorageClass(class) => {
                let name = meta(&class.metadata).name.clone();
                set(&mut storage.classes, name, there.then(|| storage::class(texts, self.brand, class)));
            }
            Object::CsiNode(node) => {
                let name = texts.intern(&meta(&node.metadata).name);
                set(&mut storage.node_drivers, name, there.then(|| storage::node_drivers(node)));
            }
            Object::CsiDriver(driver) => {
                let name = meta(&driver.metadata).name.clone();
                set(&mut storage.drivers, name, there.then(|| storage::driver(driver)));
            }
            Object::CsiStorageCapacity(capacity) => {
                let meta = meta(&capacity.metadata);
                let name = format!("{}/{}", meta.namespace, meta.name);
                let class = capacity.storage_class_name.clone();
                storage.capacities.set(&name, there.then(|| (class, storage::capacity(texts, capacity))));
            }
            Object::VolumeAttachment(attachment) => {
                let compiled = storage::attachment(texts, attachment).filter(|_| there);
                storage.attachments.set(&meta(&attachment.metadata).name, compiled);
            }
            _ => unreachable!("the caller handles the other kinds"),
        }
    }

    fn apply_workload(&mut self, object: Object<'_>, there: bool) {
        let texts = &mut self.texts;
        match object {
            Object::Service(service) => {
                let meta = meta(&service.metadata);
                let map =
                    service.spec.as_ref().map(|spec| &spec.selector).filter(|map| !map.is_empty() && there);
                let selector = map.map(|map| Selector::of_map(texts, map));
                self.workloads.set_service(texts.intern(&meta.namespace), &meta.name, selector);
            }
            Object::ReplicationController(controller) => {
                let map = controller.spec.as_ref().map(|spec| &spec.selector);
                let selector = map.map(|map| Selector::of_map(texts, map)).filter(|_| there);
                self.set_controller(Controller::ReplicationController, &controller.metadata, selector);
            }
            Object::ReplicaSet(set) => {
                let selector = set.spec.as_ref().and_then(|spec| spec.selector.as_ref());
                let selector = there.then(|| Selector::compile(texts, selector));
                self.set_controller(Controller::ReplicaSet, &set.metadata, selector);
            }
            Object::StatefulSet(set) => {
                let selector = set.spec.as_ref().and_then(|spec| spec.selector.as_ref());
                let selector = there.then(|| Selector::compile(texts, selector));
                self.set_controller(Controller::StatefulSet, &set.metadata, selector);
            }
            _ => unreachable!("the caller handles the other kinds"),
        }
    }

    fn set_controller(
        &mut self,
        controller: Controller,
        metadata: &Option<ObjectMeta>,
        selector: Option<Selector>,
    ) {
        let meta = meta(metadata);
        let (namespace, name) = (self.texts.intern(&meta.namespace), self.texts.intern(&meta.name));
        self.workloads.set_controller(controller, namespace, name, selector);
    }

    fn set_namespace(&mut self, meta: &ObjectMeta, there: bool) {
        let name = self.texts.intern(&meta.name);
        let labels = if there { Labels::compile(&mut self.texts, &meta.labels) } else { Labels::default() };
        if self.namespaces.set(name, labels) {
            self.memo.get_mut().selections.namespaces_changed();
        }
    }

    fn upsert_node(&mut self, object: &v1::Node) {
        let node = Node::compile(&mut self.texts, object);
        let name = node.name;
        let old = self.nodes.find(name).and_then(|id| self.nodes.slot(id));
        if old.is_some_and(|slot| slot.node == node) {
            // A heartbeat: nothing that plans look at.
            return;
        }
        let old_images = old.map(|slot| Arc::clone(&slot.node.images));
        if old_images.as_deref() != Some(&*node.images) {
            self.images.remove(old_images.as_deref().unwrap_or(&[]));
            self.images.add(&node.images);
        }
        let (_, is_new) = self.nodes.upsert(node);
        if is_new {
            self.images.node_counted();
            for pod in self.homeless.remove(&name).unwrap_or_default() {
                self.attach(name, pod);
            }
        }
    }

    fn remove_node(&mut self, name: &str) {
        let Some(name) = self.texts.find(name) else { return };
        let Some(id) = self.nodes.find(name) else { return };
        let slot = self.nodes.slot(id).expect("the table names live slots");
        let (pods, images) = (slot.pods.clone(), Arc::clone(&slot.node.images));
        self.images.remove(&images);
        self.images.node_counted();
        for pod in &pods {
            self.detach(name, &pod.uid);
        }
        self.nodes.remove(id);
        if !pods.is_empty() {
            self.homeless.insert(name, pods);
        }
    }

    fn upsert_pod(&mut self, object: &v1::Pod) {
        let pod = self.compile(object);
        if pod.finished || pod.node_name == Symbol::EMPTY {
            if pod.finished || !self.is_assumed(&pod.uid) {
                self.remove_pod(&pod.uid);
            }
            self.renew_nomination(&pod);
            return;
        }
        self.withdraw(&pod.uid);
        if let Some(claims) = &pod.claims {
            self.devices.settle(claims);
        }
        let node = pod.node_name;
        if self.is_unchanged(&pod) {
            if let Some(assigned) = self.pods.get_mut(&pod.uid) {
                assigned.assumed = None;
            }
            return;
        }
        self.unassign(&pod.uid);
        self.pods.insert(Arc::clone(&pod.uid), Assigned { node, assumed: None });
        self.attach(node, pod);
    }

    /// Whether a pod counts on its node already, as it is now.
    fn is_unchanged(&self, pod: &Pod) -> bool {
        let on_node = self.pods.get(&pod.uid).is_some_and(|assigned| assigned.node == pod.node_name);
        let slot = || self.nodes.slot(self.nodes.find(pod.node_name)?);
        on_node
            && slot().and_then(|slot| slot.pods.iter().find(|old| old.uid == pod.uid)).is_some_and(|old| {
                Arc::ptr_eq(&old.shape, &pod.shape)
                    && old.priority == pod.priority
                    && old.terminating == pod.terminating
                    && old.preempted == pod.preempted
                    && old.start_time == pod.start_time
            })
    }

    /// The nomination of a pod that waits follows its newest state.
    fn renew_nomination(&mut self, pod: &Arc<Pod>) {
        if pod.finished {
            self.withdraw(&pod.uid);
        } else if let Some(node) = self.nominations.node_of(&pod.uid) {
            self.withdraw(&pod.uid);
            self.nominations.nominate(Arc::clone(pod), node);
            self.nodes.touch_named(node);
        }
    }

    fn remove_pod(&mut self, uid: &str) {
        self.withdraw(uid);
        self.forget(uid);
        self.devices.forget_pod(uid);
        self.unassign(uid);
    }

    /// Takes a pod off the node it counts on.
    pub(super) fn unassign(&mut self, uid: &str) {
        let Some(assigned) = self.pods.remove(uid) else { return };
        self.detach(assigned.node, uid);
    }

    /// Counts a pod on a node, or lets it wait for the node.
    pub(super) fn attach(&mut self, node: Symbol, pod: Arc<Pod>) {
        let Some(id) = self.nodes.find(node) else {
            self.homeless.entry(node).or_default().push(pod);
            return;
        };
        self.memo.get_mut().selections.pod_came(id, &pod, &self.namespaces, &self.texts);
        self.terms.pod_came(id, &pod);
        for volume in &pod.shape.volumes.claims {
            let key = (pod.shape.namespace, volume.claim.clone());
            self.claim_users.entry(key).or_default().push(Arc::clone(&pod));
        }
        self.nodes.attach(id, pod);
    }

    fn detach(&mut self, node: Symbol, uid: &str) {
        let Some(id) = self.nodes.find(node) else {
            if let Some(waiting) = self.homeless.get_mut(&node) {
                waiting.retain(|pod| &*pod.uid != uid);
                if waiting.is_empty() {
                    self.homeless.remove(&node);
                }
            }
            return;
        };
        let pod = self.nodes.detach(id, uid).expect("assigned pods are on their node");
        self.forget_on_node(id, &pod);
    }

    fn forget_on_node(&mut self, id: NodeId, pod: &Pod) {
        self.memo.get_mut().selections.pod_left(id, pod, &self.namespaces, &self.texts);
        self.terms.pod_left(id, pod);
        for volume in &pod.shape.volumes.claims {
            let key = (pod.shape.namespace, volume.claim.clone());
            let users = self.claim_users.get_mut(&key).expect("pods on nodes are users of their claims");
            let at = users.iter().position(|user| user.uid == pod.uid).expect("so is this one");
            users.swap_remove(at);
            if users.is_empty() {
                self.claim_users.remove(&key);
            }
        }
    }
}

fn meta(metadata: &Option<ObjectMeta>) -> &ObjectMeta {
    static EMPTY: std::sync::LazyLock<ObjectMeta> = std::sync::LazyLock::new(ObjectMeta::default);
    metadata.as_ref().unwrap_or(&EMPTY)
}

fn set<K: std::hash::Hash + Eq, V>(map: &mut hashbrown::HashMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}
