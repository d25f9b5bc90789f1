//! Inputs and effects of the executor.
//!
//! Owns the border between the executor, which is pure, and the rim, which talks to the API. Every effect that can fail
//! comes back as an input.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::client::ObjectKey;
use crate::plan::costs::{Cost, Costs};
use crate::plan::decision::UnusableClaim;
use crate::queue::{HintCost, Queue};

use super::binding::{BindOutcome, Job, PodRef};
use super::event::Report;
use super::stored::{Followed, Stored};

/// An input of the executor.
#[derive(Debug)]
pub enum Input {
    /// An object is stored in this state.
    Upsert(Stored),
    /// An object is gone; of the object itself only the name is known.
    Delete(Stored, ObjectKey),
    /// All objects of a kind have been told that were stored when a list began, and which request that list answers.
    Synced(Followed, u64),
    /// A job ended.
    Finished(Box<Job>, BindOutcome),
    /// Victims were evicted, or not.
    Evicted(Eviction, Vec<Evicting>),
    /// The status of a pod was written, or could not be.
    Patched {
        /// The pod's UID.
        uid: Arc<str>,
        /// Outcome of the write.
        outcome: Patching,
    },
}

/// An effect that the executor asks for.
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
    /// End a job that still waits for volumes or devices, if it does: the pod gives way to another, is gone, or the process
    /// stops or rebuilds its planner.
    Cancel(CancellationToken),
    /// Evict pods; answered by [`Input::Evicted`].
    Evict(Eviction),
    /// Give up a claim that helps nobody.
    GiveUp {
        /// The claim.
        claim: UnusableClaim,
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
    /// The victims.
    pub victims: Vec<PodRef>,
    /// The step of the two.
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

/// Outcome of one eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evicting {
    /// Its deletion is under way.
    Deleted(PodRef),
    /// It was being deleted already: nobody is told again.
    Ending,
    /// It was gone already.
    Gone(PodRef),
    /// It could not be evicted, for this reason.
    Failed(PodRef, String),
}

/// Outcome of the write of a pod's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patching {
    /// It is written, or there is nothing left to tell.
    Done,
    /// It failed, some time ago: it may be tried again at once.
    Failed,
    /// This process does not lead. The next leader tells.
    NotLeading,
}

/// A figure for the metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// An attempt to schedule a pod ended: with its binding, or before.
    Attempted {
        /// Index of the profile.
        profile: usize,
        /// How it ended.
        result: AttemptResult,
        /// How long it took.
        took: Duration,
    },
    /// A pod was planned.
    Planned {
        /// Index of the profile.
        profile: usize,
        /// How long choosing a node took.
        took: Duration,
        /// Durations of its parts.
        costs: Costs,
    },
    /// An extension point after the plan had its turn.
    Ran {
        /// Index of the profile.
        profile: usize,
        /// Which, and how long it took.
        cost: Cost,
    },
    /// An event of an object was taken in.
    Handled {
        /// The event's label.
        event: &'static str,
        /// How long it took.
        took: Duration,
    },
    /// A hint said whether an event helps.
    Hinted(HintCost),
    /// The evictions of a step were carried out.
    Evicted {
        /// Whether all of them were.
        is_done: bool,
        /// How long they took.
        took: Duration,
    },
    /// A pod was bound.
    Bound {
        /// Index of the profile.
        profile: usize,
        /// Plans until it was bound.
        attempts: u32,
        /// Time since it could first have been planned.
        waited: Duration,
        /// Whether time alone had brought it out of the unschedulable set.
        is_flushed: bool,
    },
    /// Pods were chosen to be evicted.
    Preempting {
        /// How many.
        victims: usize,
    },
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptResult {
    /// The pod was bound.
    Scheduled,
    /// No node takes the pod.
    Unschedulable,
    /// Planning or binding failed.
    Error,
}

/// Numbers of objects in the engine at a moment, for gauges.
#[derive(Debug, Clone, Copy)]
pub struct Levels<'a> {
    /// The queue.
    pub queue: &'a Queue,
    /// Nodes.
    pub nodes: usize,
    /// Pods with a node, assumed ones among them.
    pub pods: usize,
    /// Pods whose node the API has not confirmed yet.
    pub assumed_pods: usize,
    /// Bindings under way.
    pub bindings: usize,
}
