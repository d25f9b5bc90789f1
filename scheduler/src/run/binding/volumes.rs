//! Persistent volumes and their claims before a pod is bound.
//!
//! Owns the two writes (a volume's `claimRef`, a claim's selected node) and the wait until every claim is bound. The
//! controller of volumes completes what is written here; when it takes a selected node back, provisioning failed there
//! and another node must be found.
//!
//! Invariant: a pod is bound only to a node that the volumes of the claims which it waited for can be used on. The controller
//! may bind a claim to another volume than the plan chose.

use std::time::Duration;

use serde_json::json;

use crate::api::core::v1::{Node, ObjectReference, PersistentVolume, PersistentVolumeClaim};
use crate::client::{Backoff, Object, PatchType, Reason};
use crate::plan::decision::{BindVolume, ClaimName};
use crate::selector::{Labels, NodeSelector};
#[cfg(test)]
use crate::simulation::plant::{self, Plant};

use super::{Binder, Job, Why, refused};

/// Pauses between looks at claims: provisioning takes seconds to minutes.
const LOOK_FIRST: Duration = Duration::from_millis(200);
const LOOK_LAST: Duration = Duration::from_secs(5);

/// What a claim says about being bound.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClaimState {
    /// It is.
    Bound,
    /// Not yet.
    Waiting,
    /// It cannot be on this node.
    Failed(String),
}

/// Whether `claim` is bound, for a pod that goes to `node`. `is_provisioned`: its volume is made for that node.
pub(super) fn claim_state(
    claim: &PersistentVolumeClaim,
    node: &str,
    is_provisioned: bool,
    selected_node: &str,
    bind_completed: &str,
) -> ClaimState {
    let name = claim.key();
    let metadata = claim.metadata.as_ref();
    let annotation =
        |key: &str| metadata.and_then(|metadata| metadata.annotations.get(key)).map(String::as_str);
    if metadata.is_some_and(|metadata| metadata.deletion_timestamp.is_some()) {
        return ClaimState::Failed(format!("persistentvolumeclaim \"{name}\" is being deleted"));
    }
    if claim.status.as_ref().is_some_and(|status| status.phase == "Lost") {
        return ClaimState::Failed(format!("persistentvolumeclaim \"{name}\" lost its volume"));
    }
    let has_volume = claim.spec.as_ref().is_some_and(|spec| !spec.volume_name.is_empty());
    if has_volume && annotation(bind_completed).is_some() {
        return ClaimState::Bound;
    }
    if is_provisioned && annotation(selected_node) != Some(node) {
        // The controller takes the annotation away; without any the reference says it in other words.
        let has_annotations = metadata.is_some_and(|metadata| !metadata.annotations.is_empty());
        let what = if has_annotations { "provisioning failed" } else { "selectedNode annotation reset" };
        return ClaimState::Failed(format!("{what} for PVC \"{}\"", name.name));
    }
    ClaimState::Waiting
}

/// Whether pods on the node can use the volume.
fn is_usable_on(volume: &PersistentVolume, node: &str, labels: &Labels) -> bool {
    #[cfg(test)]
    if plant::is(Plant::TrustsAnyVolume) {
        return true;
    }
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.is_none_or(|required| NodeSelector::new(required).matches(node, labels))
}

impl Binder {
    pub(super) async fn prepare_volumes(&self, job: &Job) -> Result<(), Why> {
        for bind in &job.volumes.bind {
            self.bind_volume(bind).await?;
        }
        for claim in &job.volumes.provision {
            self.select_node(claim, &job.node).await?;
        }
        #[cfg(test)]
        if plant::is(Plant::BindsBeforeVolumes) {
            return Ok(());
        }
        let wait = tokio::time::timeout(job.volume_timeout, self.await_claims(job)).await;
        wait.unwrap_or_else(|_| {
            let seconds = job.volume_timeout.as_secs();
            Err(Why::Refused(format!("binding volumes: not all claims are bound within {seconds} seconds")))
        })
    }

    /// Reserves a volume for a claim.
    async fn bind_volume(&self, bind: &BindVolume) -> Result<(), Why> {
        let what = "binding volumes";
        let claim = self.claim(&bind.claim).await?;
        let claim = claim.metadata.unwrap_or_default();
        let volume = self.client.get::<PersistentVolume>("", &bind.volume).await;
        let mut volume = volume.map_err(|error| refused(what, &error))?;
        let spec = volume.spec.get_or_insert_default();
        if let Some(holder) = &spec.claim_ref {
            let is_same = (holder.namespace.as_str(), holder.name.as_str())
                == (claim.namespace.as_str(), claim.name.as_str())
                && (holder.uid.is_empty() || holder.uid == claim.uid);
            if !is_same {
                let (volume, namespace, name) = (&bind.volume, &holder.namespace, &holder.name);
                return Err(Why::Refused(format!("{what}: volume {volume} belongs to {namespace}/{name}")));
            }
            if !holder.uid.is_empty() {
                return Ok(());
            }
        }
        spec.claim_ref = Some(ObjectReference {
            kind: PersistentVolumeClaim::KIND.kind.to_owned(),
            api_version: self.client.api_version(&PersistentVolumeClaim::KIND),
            namespace: claim.namespace,
            name: claim.name,
            uid: claim.uid,
            resource_version: claim.resource_version,
            ..ObjectReference::default()
        });
        let annotation = format!("pv.{}", self.client.brand().label("bound-by-controller"));
        volume.metadata.get_or_insert_default().annotations.insert(annotation, "yes".to_owned());
        // The volume's version is a condition: of two schedulers that want it, one is first.
        self.client.update(&volume, "").await.map(|_| ()).map_err(|error| refused(what, &error))
    }

    /// Has the volume of a claim made for `node`.
    async fn select_node(&self, claim: &ClaimName, node: &str) -> Result<(), Why> {
        let found = self.claim(claim).await?;
        let annotation = self.selected_node();
        let metadata = found.metadata.unwrap_or_default();
        if metadata.annotations.get(&annotation).is_some_and(|selected| selected == node) {
            return Ok(());
        }
        let patch = json!({ "metadata": {
            "resourceVersion": metadata.resource_version,
            "annotations": { annotation: node },
        } });
        let (namespace, name) = (&claim.namespace, &claim.name);
        let patched =
            self.client.patch::<PersistentVolumeClaim>(namespace, name, "", PatchType::Merge, &patch).await;
        patched.map(|_| ()).map_err(|error| refused("selecting a node for volumes", &error))
    }

    async fn await_claims(&self, job: &Job) -> Result<(), Why> {
        let bound = job.volumes.bind.iter().map(|bind| (&bind.claim, Some(&*bind.volume)));
        let made = job.volumes.provision.iter().map(|claim| (claim, None));
        let mut labels = None;
        for (claim, chosen) in bound.chain(made) {
            let volume = self.await_claim_of_volume(job, claim, chosen).await?;
            let labels = match &mut labels {
                Some(labels) => labels,
                None => labels.insert(self.node_labels(&job.node).await?),
            };
            if !is_usable_on(&volume, &job.node, labels) {
                let name = volume.metadata.map(|metadata| metadata.name).unwrap_or_default();
                let node = &job.node;
                let problem = format!("pv \"{name}\" node affinity doesn't match node \"{node}\"");
                return Err(Why::Refused(format!("binding volumes: {problem}")));
            }
        }
        Ok(())
    }

    /// Waits until a claim is bound, and returns its volume. `chosen`: the volume that was reserved for it, if one was.
    async fn await_claim_of_volume(
        &self,
        job: &Job,
        claim: &ClaimName,
        chosen: Option<&str>,
    ) -> Result<PersistentVolume, Why> {
        let (selected_node, completed) = (self.selected_node(), self.bind_completed());
        let mut backoff = Backoff::new(LOOK_FIRST, LOOK_LAST);
        loop {
            let found = self.claim(claim).await?;
            match claim_state(&found, &job.node, chosen.is_none(), &selected_node, &completed) {
                ClaimState::Bound => {
                    let volume = found.spec.map(|spec| spec.volume_name).unwrap_or_default();
                    // A volume that is gone takes the binding of its claim with it.
                    if let Some(volume) = self.volume(&volume).await? {
                        return Ok(volume);
                    }
                }
                ClaimState::Failed(problem) => {
                    return Err(Why::Refused(format!("binding volumes: {problem}")));
                }
                ClaimState::Waiting => {
                    if let Some(chosen) = chosen {
                        self.still_reserved(chosen).await?;
                    }
                }
            }
            self.pause(job, backoff.random_pause()).await?;
        }
    }

    /// Fails where the controller took the reservation of a volume back: nothing would bind the claim to it any more.
    async fn still_reserved(&self, volume: &str) -> Result<(), Why> {
        let found = self.volume(volume).await?;
        let holder = found.and_then(|found| found.spec).and_then(|spec| spec.claim_ref);
        match holder.is_some_and(|holder| !holder.uid.is_empty()) {
            true => Ok(()),
            false => Err(Why::Refused(format!("binding volumes: ClaimRef got reset for pv \"{volume}\""))),
        }
    }

    async fn volume(&self, name: &str) -> Result<Option<PersistentVolume>, Why> {
        match self.client.get::<PersistentVolume>("", name).await {
            Ok(volume) => Ok(Some(volume)),
            Err(error) if error.is(Reason::NotFound) => Ok(None),
            Err(error) => Err(refused("binding volumes", &error)),
        }
    }

    async fn node_labels(&self, node: &str) -> Result<Labels, Why> {
        let node = self.client.get::<Node>("", node).await;
        let node = node.map_err(|error| refused("binding volumes", &error))?;
        Ok(node.metadata.map(|metadata| metadata.labels).unwrap_or_default())
    }

    async fn claim(&self, claim: &ClaimName) -> Result<PersistentVolumeClaim, Why> {
        let found = self.client.get::<PersistentVolumeClaim>(&claim.namespace, &claim.name).await;
        found.map_err(|error| match error.is(Reason::NotFound) {
            true => Why::Refused(format!("persistentvolumeclaim \"{}\" not found", claim.name)),
            false => refused("reading a persistent volume claim", &error),
        })
    }

    fn selected_node(&self) -> String {
        format!("volume.{}", self.client.brand().label("selected-node"))
    }

    fn bind_completed(&self) -> String {
        format!("pv.{}", self.client.brand().label("bind-completed"))
    }
}
