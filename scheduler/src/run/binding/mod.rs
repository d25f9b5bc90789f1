//! Brings a pod to its node: what must be written first, then the binding.
//!
//! ```text
//!   claims (made, finalizer, allocation, reservation, wait) ──> volumes (claimRef, selected node, wait) ──> bind
//!         │ refused, timed out                                        │                                     │
//!         └──────────> NotBound, what was reserved is given back, what was made is deleted <────────────────┘
//! ```
//!
//! A job that has to prepare names the node in the pod's status first, as where the pod is expected.
//!
//! Owns the certainty of the outcome. Between [`BindOutcome::Bound`] and [`BindOutcome::NotBound`] there is no third: while
//! the API cannot say which it is, the job asks on, and the pod stays assumed on its node, so that its room is never given
//! away twice. A binding is conditional on the pod's UID and on its having no node, so that sending it again can do no
//! harm. Nothing is sent without leadership.

mod bind;
mod claims;
mod extended;
#[cfg(test)]
mod tests;
mod volumes;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::{Client, Error, chain};
use crate::election::Leadership;
use crate::plan::costs::{Cost, Status};
use crate::plan::decision::{ClaimName, ClaimWrite, Failure, VolumeWrites};
use crate::plugin::{ExtensionPoint, Plugin};
#[cfg(test)]
use crate::simulation::plant::{self, Plant};
use crate::stopwatch::Started;

use super::effects::Observer;
use super::event::Report;
use super::extender::Extender;
use super::input::Observation;
use super::pod_status::nomination_patch;
use super::status::patch_unbound;

/// A pod by all its names, and which state of it is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Arc<str>,
    /// The resourceVersion of the state that an event is about; empty where only its names are known.
    pub version: Arc<str>,
}

/// A planned pod whose writes and binding are under way.
#[derive(Debug, Clone)]
pub struct Job {
    /// The pod.
    pub pod: PodRef,
    /// Index of its profile.
    pub profile: usize,
    /// The profile's scheduler name, for events.
    pub controller: Arc<str>,
    /// Plans until this one.
    pub attempts: u32,
    /// When it could first have been planned, as time since the process began.
    pub first_active_at: Duration,
    /// When this attempt began; `None` where nothing is measured.
    pub began: Option<Started>,
    /// Whether time alone had brought the pod out of the unschedulable set.
    pub is_flushed: bool,
    /// The node's name.
    pub node: Arc<str>,
    /// Whether the pod's status names the node before the preparation, which may take minutes, so that users and the next
    /// leader see where the pod is expected. Once [`Binder::nominate`] has ended: whether it may name it.
    pub nominates: bool,
    /// Volumes and volume claims to write first.
    pub volumes: VolumeWrites,
    /// Resource claims to write first.
    pub claims: Vec<ClaimWrite>,
    /// Claims that have, or had, the chosen devices: the progress of the job.
    pub written: Vec<Written>,
    /// How long to wait until the pod's volume claims are bound.
    pub volume_timeout: Duration,
    /// How long to wait until the devices of the pod's claims are usable.
    pub device_timeout: Duration,
    /// The extender that binds in the scheduler's place.
    pub binder: Option<Arc<Extender>>,
    /// Cancelled when the pod's place is for another, the pod is gone, or the executor stops or rebuilds its planner: a
    /// job that still waits for volumes or devices ends.
    pub cancelled: CancellationToken,
}

impl Job {
    /// Whether something has to be made ready before the pod is bound.
    pub fn prepares(&self) -> bool {
        !self.volumes.is_empty() || !self.claims.is_empty()
    }

    /// A job that binds `pod` to the node `n`, and writes nothing before.
    #[cfg(test)]
    pub(super) fn plain(pod: PodRef) -> Job {
        Job {
            pod,
            profile: 0,
            controller: "s".into(),
            attempts: 1,
            first_active_at: Duration::ZERO,
            began: None,
            is_flushed: false,
            node: "n".into(),
            nominates: false,
            volumes: VolumeWrites::default(),
            claims: Vec::new(),
            written: Vec::new(),
            volume_timeout: Duration::from_secs(20),
            device_timeout: Duration::from_secs(20),
            binder: None,
            cancelled: CancellationToken::new(),
        }
    }
}

/// A claim that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The claim.
    pub claim: ClaimName,
    /// Its UID.
    pub uid: String,
    /// Its resourceVersion since.
    pub version: String,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindOutcome {
    /// The pod has this node.
    Bound,
    /// The pod does not have the node, and never will by this job.
    NotBound(Why),
}

/// The reason why a pod was not bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The pod was deleted, or replaced by another of its name.
    Gone,
    /// Another scheduler bound it, to this node.
    Taken(String),
    /// The cluster changed: planning again may find another node.
    Refused(String),
    /// The job was cancelled before the binding was sent.
    Cancelled,
    /// Leadership was lost before the binding was sent.
    NotLeading,
}

impl Why {
    /// The failure of `plugin` at `point`, in the reference's words.
    fn of(self, plugin: Plugin, point: ExtensionPoint) -> Why {
        match self {
            Why::Refused(message) => {
                Why::Refused(Failure { plugin: Some((plugin, point)), message }.to_string())
            }
            other => other,
        }
    }
}

/// Does jobs. Cheap to clone.
#[derive(Clone)]
pub struct Binder {
    client: Client,
    leadership: Leadership,
    observer: Observer,
    announce: Announce,
}

/// Takes events for users.
pub(super) type Announce = Arc<dyn Fn(Report) + Send + Sync>;

impl Binder {
    /// A binder that works while `leadership` holds, tells `observer` how long it took, and users through `announce` what
    /// it waits for.
    pub fn new(client: Client, leadership: Leadership, observer: Observer, announce: Announce) -> Self {
        Self { client, leadership, observer, announce }
    }

    /// Does one job to its certain end; it is nominated before. Claims that it gave devices are added to `written`.
    pub async fn run(&self, job: &Job, written: &mut Vec<Written>) -> BindOutcome {
        let mut reserved = Vec::new();
        let began = Instant::now();
        // A late write of a claim is as bad as a late binding: the next leader may have given its devices away.
        let prepared = self.leadership.while_held(self.prepare(job, &mut reserved, written)).await;
        let prepared = prepared.unwrap_or(Err(Why::NotLeading));
        self.observe(job, ExtensionPoint::PreBind, prepared.is_ok(), began);
        let outcome = match prepared {
            Ok(()) => {
                let began = Instant::now();
                let outcome = self.bind(job).await;
                self.observe(job, ExtensionPoint::Bind, outcome == BindOutcome::Bound, began);
                outcome
            }
            Err(why) => BindOutcome::NotBound(why),
        };
        if let BindOutcome::NotBound(_) = outcome
            && !reserved.is_empty()
            && self.leadership.while_held(self.give_back(job, reserved)).await.is_none()
        {
            let PodRef { namespace, name, .. } = &job.pod;
            tracing::warn!(%namespace, %name, "the lease ended before the claims of a pod were given back");
        }
        outcome
    }

    /// Nominates the node, where the job does that, and takes the pod's new version in. A failure is logged: the pod can be
    /// bound all the same.
    pub async fn nominate(&self, job: &mut Job) {
        if !job.nominates {
            return;
        }
        if job.cancelled.is_cancelled() {
            job.nominates = false;
            return;
        }
        let patching = patch_unbound(&self.client, &job.pod, nomination_patch(&job.node));
        // A write that the end of the lease broke off may arrive.
        let Some(patched) = self.leadership.while_held(patching).await else { return };
        let patched = match patched {
            Ok(None) => {
                job.nominates = false;
                return;
            }
            Ok(Some(patched)) => patched.object(),
            Err(error) => Err(error),
        };
        match patched {
            Ok(pod) => job.pod.version = pod.metadata.unwrap_or_default().resource_version.into(),
            Err(error) => {
                let PodRef { namespace, name, .. } = &job.pod;
                tracing::warn!(%namespace, %name, error = chain(&error), "cannot nominate the node of a pod");
                job.nominates = error.is_outcome_unknown();
            }
        }
    }

    async fn give_back(&self, job: &Job, reserved: Vec<ClaimWrite>) {
        for claim in reserved {
            match claim.new {
                Some(_) => self.delete_claim(&claim.claim, &claim.uid).await,
                None => self.release(&job.pod, &claim).await,
            }
        }
    }

    fn observe(&self, job: &Job, point: ExtensionPoint, is_done: bool, began: Instant) {
        let status = if is_done { Status::Success } else { Status::Error };
        let cost = Cost { point, plugin: None, status, took: began.elapsed() };
        (self.observer)(Observation::Ran { profile: job.profile, cost });
    }

    /// Makes the writes before the binding; those that a failure undoes are added to `reserved`.
    async fn prepare(
        &self,
        job: &Job,
        reserved: &mut Vec<ClaimWrite>,
        written: &mut Vec<Written>,
    ) -> Result<(), Why> {
        if job.cancelled.is_cancelled() {
            return Err(Why::Cancelled);
        }
        let claims = self.prepare_claims(job, reserved, written).await;
        claims.map_err(|why| why.of(Plugin::DynamicResources, ExtensionPoint::PreBind))?;
        if !job.volumes.is_empty() {
            self.lead()?;
            let volumes = self.prepare_volumes(job).await;
            volumes.map_err(|why| why.of(Plugin::VolumeBinding, ExtensionPoint::PreBind))?;
        }
        Ok(())
    }

    async fn prepare_claims(
        &self,
        job: &Job,
        reserved: &mut Vec<ClaimWrite>,
        written: &mut Vec<Written>,
    ) -> Result<(), Why> {
        for claim in &job.claims {
            self.lead()?;
            let Some(new) = &claim.new else {
                let version = self.reserve(&job.pod, claim, None).await?;
                if claim.allocation.chosen().is_some() {
                    written.push(Written { claim: claim.claim.clone(), uid: claim.uid.clone(), version });
                }
                reserved.push(claim.clone());
                continue;
            };
            let (claim, made) = self.create_claim(claim, new).await?;
            reserved.push(claim.clone());
            self.lead()?;
            self.reserve(&job.pod, &claim, Some(made)).await?;
            self.lead()?;
            self.name_claim(&job.pod, &claim.claim, new).await?;
        }
        self.await_devices(job, reserved).await
    }

    /// Waits between two looks at what has to be made ready, while the job still has to go on.
    async fn pause(&self, job: &Job, pause: Duration) -> Result<(), Why> {
        self.lead()?;
        tokio::select! {
            biased;
            () = job.cancelled.cancelled() => Err(Why::Cancelled),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    fn leads(&self) -> bool {
        #[cfg(test)]
        if plant::is(Plant::BindsWithoutLease) {
            return true;
        }
        self.leadership.holds(Instant::now())
    }

    fn lead(&self) -> Result<(), Why> {
        if self.leads() { Ok(()) } else { Err(Why::NotLeading) }
    }
}

/// The refusal for a failed request before the binding.
fn refused(what: &str, error: &Error) -> Why {
    Why::Refused(format!("{what}: {}", chain(error)))
}
