//! What the executor is told, and what it wants done.
//!
//! Owns the border between the executor, which is pure, and the rim, which talks to the API. Every effect that can fail
//! comes back as an input.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::client::ObjectKey;
use crate::plan::decision::ClaimName;

use super::binding::{Job, Outcome, PodRef};
use super::event::Report;
use super::stored::{Followed, Stored};

/// Something that happened.
#[derive(Debug)]
pub enum Input {
    /// An object is stored in this state.
    Upsert(Stored),
    /// An object is gone; of the object itself only the name is known.
    Delete(Stored, ObjectKey),
    /// All objects of a kind have been told that were stored when a list began, and which request that list answers.
    Synced(Followed, u64),
    /// A job ended.
    Finished(Box<Job>, Outcome),
    /// Victims were evicted, or not.
    Evicted(Eviction, Vec<Evicting>),
    /// The status of a pod was written (`true`), or could not be.
    Patched {
        /// The pod's UID.
        uid: Arc<str>,
        /// Whether it was written.
        is_done: bool,
    },
}

/// Something to be done.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "an effect is made, carried out and gone: a few are held at a time"
)]
pub enum Effect {
    /// Bind a pod; answered by [`Input::Finished`].
    Bind(Box<Job>),
    /// Write a pod's status; answered by [`Input::Patched`].
    Patch(PodRef, Value),
    /// Evict pods; answered by [`Input::Evicted`].
    Evict(Eviction),
    /// Give back a claim that helps nobody.
    Deallocate {
        /// The claim.
        claim: ClaimName,
        /// The pod that it was reserved for.
        pod: PodRef,
    },
    /// Tell users.
    Record(Report),
    /// Count and measure.
    Observe(Observation),
}

/// An eviction that makes room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The pod that needs the room.
    pub preemptor: PodRef,
    /// The node.
    pub node: Arc<str>,
    /// The profile's scheduler name.
    pub scheduler: Arc<str>,
    /// Whom to evict.
    pub victims: Vec<PodRef>,
    /// Which of the two steps this is.
    pub step: EvictionStep,
}

/// An eviction of several pods has two steps, so that the last deletion comes after the preemptor may be woken by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionStep {
    /// All but the last victim.
    First,
    /// The last victim.
    Last,
}

/// What became of one victim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evicting {
    /// Its deletion is under way.
    Deleted(PodRef),
    /// It was gone already.
    Gone(PodRef),
    /// It could not be evicted, for this reason.
    Failed(PodRef, String),
}

/// A figure for the metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// A pod was planned.
    Planned {
        /// Index of the profile.
        profile: usize,
        /// What the plan was.
        result: PlanResult,
    },
    /// A pod was bound.
    Bound {
        /// Index of the profile.
        profile: usize,
        /// Plans until it was bound.
        attempts: u32,
        /// Time since it could first have been planned.
        waited: Duration,
    },
    /// Pods were chosen to be evicted.
    Preempting {
        /// How many.
        victims: usize,
    },
}

/// What a plan was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanResult {
    /// A node was found.
    Scheduled,
    /// No node takes the pod.
    Unschedulable,
    /// Planning failed.
    Error,
}
