//! The interface of a planner, as the executor uses it.
//!
//! Owns the border between the executor and the planner: the planner decides over compact objects of its own, the
//! executor carries out. Tests of the executor put a planner of a few lines behind it.

use std::sync::Arc;

use crate::api::core::v1::Pod;
use crate::plan::costs::Costs;
use crate::plan::decision::{Admission, ClaimName, ClaimWrite, Decision, Placement};
use crate::wall_time::WallTime;

use super::binding::Written;
use super::stored::Stored;

/// A planner with its snapshot of the cluster.
pub trait Planning: Send {
    /// A pod in the planner's compact form.
    type Compiled: Send + Sync;

    /// Takes in the state of an object. Pods come here once they have a node.
    fn upsert(&mut self, object: &Stored);

    /// Takes in that an object is gone. Of the object only its namespace and name are known, and a pod's UID.
    fn delete(&mut self, object: &Stored);

    /// Bytes that never get fewer while objects come and go, but for [`Planning::rebuild`].
    fn worn_bytes(&self) -> usize;

    /// Forgets every object, and what was assumed.
    fn rebuild(&mut self);

    /// Whether [`Planning::plan`] looks at pods as the API has them; otherwise it is given what is left of them.
    fn reads_pods(&self) -> bool;

    /// The compact form of a pod that waits for a node.
    fn compile(&mut self, pod: &Pod) -> Arc<Self::Compiled>;

    /// Whether the pod may be planned at all.
    fn admit(&self, profile: usize, pod: &Self::Compiled) -> Admission;

    /// Where the pod goes. `api` is the same pod as the API has it; by `wall`, devices may have taken too long to become
    /// usable; `seed` breaks ties.
    fn plan(
        &mut self,
        profile: usize,
        pod: &Arc<Self::Compiled>,
        api: &Pod,
        wall: WallTime,
        seed: u64,
    ) -> Decision;

    /// Whether the pod claims devices, or asks for resources that devices may stand for.
    fn has_claims(&self, pod: &Self::Compiled) -> bool;

    /// Steps that the claims of the pod took in the last plan.
    fn claim_steps(&self) -> u64;

    /// Durations of the last plan of the profile, for the metrics; nothing where nothing is measured.
    fn take_costs(&mut self, profile: usize) -> Costs;

    /// Counts the pod on the node of its placement from now on, with what will be written for it.
    ///
    /// # Errors
    /// Where the node is gone; the text says so.
    fn assume(&mut self, pod: &Arc<Self::Compiled>, placement: &Placement) -> Result<(), String>;

    /// Takes an assumption back, but for that of claims: the pod needs its room no more.
    fn forget(&mut self, uid: &str);

    /// The pod's job wrote what was assumed for these claims. They tell themselves what they have, once they are seen as new.
    /// Returns those that were seen as newer already, without it: their devices are free by this call, and no event will say so.
    fn settle_claims(&mut self, uid: &str, written: &[Written]) -> Vec<ClaimName>;

    /// Gives back what was assumed of these claims for the pod, and not written: its job has ended.
    fn forget_claims(&mut self, uid: &str, claims: &[ClaimWrite]);

    /// Keeps room for the pod on the node.
    fn nominate(&mut self, pod: &Arc<Self::Compiled>, node: &str);

    /// Keeps no room for the pod.
    fn withdraw(&mut self, uid: &str);
}
