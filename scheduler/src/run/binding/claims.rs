//! Resource claims before a pod is bound: finalizer, allocation, reservation, the wait for devices that have to be made
//! ready; and giving them back.
//!
//! Owns the writes and their conditions. A claim is written with the version that was read, so that a claim which
//! somebody else allocated in the meantime is noticed; what the planner chose is then void, and the pod planned anew.

use std::time::Duration;

use crate::api::meta::v1::Time;
use crate::api::resource::v1::{ResourceClaim, ResourceClaimConsumerReference};
use crate::client::{Backoff, Created, Reason, chain};
use crate::plan::decision::{Allocation, ClaimName, ClaimWrite, UnusableClaim};
use crate::plan::devices::{
    Binding, RESERVED_FOR_MAX, binding_failure, binding_state, has_conditions, has_same_devices,
};
#[cfg(test)]
use crate::simulation::plant::{self, Plant};
use crate::wall_time::WallTime;

use super::super::event::{Report, Severity, reference};
use super::{Binder, Job, PodRef, Why, refused};

/// Attempts against other writers of the same claim.
pub(super) const ATTEMPTS_MAX: u32 = 5;

/// Pauses between looks at devices that have to be made ready: that takes seconds to minutes.
pub(super) const LOOK_FIRST: Duration = Duration::from_millis(200);
pub(super) const LOOK_LAST: Duration = Duration::from_secs(5);

/// Whether users were told that the pod waits for its devices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    No,
    Yes,
}

/// The event of a pod with devices that others make ready.
fn waiting_for_devices(job: &Job) -> Report {
    Report {
        regarding: reference(&job.pod),
        related: None,
        severity: Severity::Normal,
        reason: "BindingConditionsPending",
        action: "Scheduling",
        note: format!("waiting for binding conditions for device on node {}", job.node),
        controller: job.controller.clone(),
    }
}

/// The message about a claim with a device that could not be made ready.
fn failed_binding(claim: &ResourceClaim) -> String {
    let name = claim.metadata.as_ref().map_or("", |metadata| &metadata.name);
    let (reason, message) =
        binding_failure(claim).map_or(("", ""), |condition| (&condition.reason, &condition.message));
    format!("claim {name} binding failed: reason={reason}, message={message:?}")
}

/// Outcome of the last write of a claim.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// The write happened, or it certainly did not, or there was none.
    Known,
    /// Its answer was lost.
    Unknown,
}

fn version_of(claim: &ResourceClaim) -> String {
    claim.metadata.as_ref().map(|metadata| metadata.resource_version.clone()).unwrap_or_default()
}

/// A write of a claim that is due.
#[derive(Debug, PartialEq)]
pub(super) enum Change {
    /// No write: the pod has it already.
    None,
    /// The finalizer first, then look again.
    Finalizer(Box<ResourceClaim>),
    /// The status.
    Status(Box<ResourceClaim>),
}

/// The next write that reserves `claim` for `pod`.
pub(super) fn reservation(
    mut claim: ResourceClaim,
    pod: &PodRef,
    write: &ClaimWrite,
    finalizer: &str,
) -> Result<Change, String> {
    let name = &write.claim.name;
    let metadata = claim.metadata.get_or_insert_default();
    if metadata.uid != write.uid {
        return Err(format!("claim {name} was made anew in the meantime"));
    }
    if metadata.deletion_timestamp.is_some() {
        return Err(format!("claim {name} is being deleted"));
    }
    let status = claim.status.get_or_insert_default();
    // First: the pod may have reserved it in another plan, with other devices.
    match (&write.allocation, &status.allocation) {
        #[cfg(test)]
        (Allocation::Held(_), Some(_)) if plant::is(Plant::ReservesAnyDevices) => {}
        (Allocation::Held(_), None) => return Err(format!("claim {name} is not allocated any more")),
        (Allocation::Held(planned), Some(found)) if planned != found => {
            return Err(format!("claim {name} got allocated anew in the meantime"));
        }
        (Allocation::Chosen(chosen), Some(found)) if !has_same_devices(chosen, found) => {
            return Err(format!("claim {name} got allocated elsewhere in the meantime"));
        }
        (Allocation::Held(_) | Allocation::Chosen(_), _) => {}
    }
    if status.reserved_for.iter().any(|holder| holder.uid == *pod.uid) {
        return Ok(Change::None);
    }
    if status.reserved_for.len() >= RESERVED_FOR_MAX {
        return Err(format!("claim {name} is reserved for {RESERVED_FOR_MAX} pods already"));
    }
    if let Some(allocation) = write.allocation.chosen() {
        if !metadata.finalizers.iter().any(|held| held == finalizer) {
            metadata.finalizers.push(finalizer.to_owned());
            return Ok(Change::Finalizer(Box::new(claim)));
        }
        status.allocation = Some(allocation.clone());
    }
    status.reserved_for.push(ResourceClaimConsumerReference {
        resource: "pods".to_owned(),
        name: pod.name.to_string(),
        uid: pod.uid.to_string(),
        ..ResourceClaimConsumerReference::default()
    });
    Ok(Change::Status(Box::new(claim)))
}

/// The claim with the present time at an allocation of devices that have to be made ready, which is when that begins.
fn stamped(mut claim: ResourceClaim, write: &ClaimWrite) -> ResourceClaim {
    let allocation = claim.status.as_mut().and_then(|status| status.allocation.as_mut());
    if let Some(allocation) = allocation.filter(|allocation| has_conditions(allocation))
        && write.allocation.chosen().is_some()
    {
        let seconds = WallTime::now().seconds();
        allocation.allocation_timestamp = Some(Time { seconds, nanos: 0 });
    }
    claim
}

/// The write that gives back what [`reservation`] wrote; `None` if the pod has nothing of it. An allocation stays while
/// others use it, and goes with the last.
pub(super) fn release(mut claim: ResourceClaim, uid: &str, write: &ClaimWrite) -> Option<ResourceClaim> {
    let status = claim.status.get_or_insert_default();
    let before = status.reserved_for.len();
    status.reserved_for.retain(|holder| holder.uid != uid);
    if status.reserved_for.len() == before {
        return None;
    }
    if status.reserved_for.is_empty() && write.allocation.chosen().is_some() {
        status.allocation = None;
    }
    Some(claim)
}

impl Binder {
    /// The finalizer that keeps claims while they have devices.
    pub(super) fn finalizer(&self) -> String {
        format!("resource.{}", self.client.brand().label("delete-protection"))
    }

    /// Writes allocation and reservation, and returns the version that the claim has since. `known` is the claim as it was
    /// just read or made, if it was.
    pub(super) async fn reserve(
        &self,
        pod: &PodRef,
        write: &ClaimWrite,
        mut known: Option<ResourceClaim>,
    ) -> Result<String, Why> {
        let finalizer = self.finalizer();
        let what = format!("reserving claim {}", write.claim.name);
        let mut last = Last::Known;
        for attempt in 0..=ATTEMPTS_MAX {
            let claim = match known.take() {
                Some(claim) => claim,
                None => self.look(&write.claim, last, &what).await?,
            };
            let version = version_of(&claim);
            let change = reservation(claim, pod, write, &finalizer).map_err(Why::Refused)?;
            if change == Change::None {
                return Ok(version);
            }
            if attempt == ATTEMPTS_MAX {
                break;
            }
            let written = match change {
                Change::Status(claim) => self.client.update(&stamped(*claim, write), "status").await,
                Change::Finalizer(claim) => self.client.update(&*claim, "").await,
                Change::None => return Ok(version),
            };
            match written.and_then(Created::object) {
                Ok(claim) => known = Some(claim),
                Err(error) if error.is_outcome_unknown() => last = Last::Unknown,
                Err(error) if error.is(Reason::Conflict) => last = Last::Known,
                Err(error) => return Err(refused(&what, &error)),
            }
        }
        Err(Why::Refused(format!("{what}: {ATTEMPTS_MAX} attempts met other writers")))
    }

    /// Reads a claim. After a write whose outcome is unknown it is asked until it answers: whether the claim has the devices
    /// decides who else may get them.
    async fn look(&self, claim: &ClaimName, last: Last, what: &str) -> Result<ResourceClaim, Why> {
        let mut backoff = Backoff::new(LOOK_FIRST, LOOK_LAST);
        loop {
            match self.client.get::<ResourceClaim>(&claim.namespace, &claim.name).await {
                Ok(found) => return Ok(found),
                Err(error) if last == Last::Known || error.is(Reason::NotFound) => {
                    return Err(refused(what, &error));
                }
                Err(error) => {
                    let (namespace, name) = (&claim.namespace, &claim.name);
                    tracing::warn!(%namespace, %name, error = chain(&error), "cannot see whether a claim is reserved");
                    self.lead()?;
                    tokio::time::sleep(backoff.random_pause()).await;
                }
            }
        }
    }

    /// Waits until the devices of the claims that were reserved are usable. Where that fails, what this job allocated is
    /// given back, and the next plan finds what others allocated unusable.
    pub(super) async fn await_devices(&self, job: &Job, reserved: &[ClaimWrite]) -> Result<(), Why> {
        let mut told = Told::No;
        let waiting = async {
            for write in reserved {
                self.await_claim(job, write, &mut told).await?;
            }
            Ok(())
        };
        let waited = tokio::time::timeout(job.device_timeout, waiting).await;
        waited.unwrap_or_else(|_| Err(Why::Refused("device binding timeout".to_owned())))
    }

    async fn await_claim(&self, job: &Job, write: &ClaimWrite, told: &mut Told) -> Result<(), Why> {
        let (namespace, name) = (&write.claim.namespace, &write.claim.name);
        let what = format!("waiting for devices of claim {name}");
        let mut backoff = Backoff::new(LOOK_FIRST, LOOK_LAST);
        loop {
            self.lead()?;
            let claim = self.client.get::<ResourceClaim>(namespace, name).await;
            let claim = claim.map_err(|error| refused(&what, &error))?;
            let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
            if *told == Told::No && allocation.is_some_and(has_conditions) {
                *told = Told::Yes;
                (self.announce)(waiting_for_devices(job));
            }
            match binding_state(&claim) {
                Binding::Ready => return Ok(()),
                Binding::Failed => return Err(Why::Refused(failed_binding(&claim))),
                Binding::Waiting { .. } => self.pause(job, backoff.random_pause()).await?,
            }
        }
    }

    /// Gives a reservation back. A failure is logged: the controller of claims gives back reservations of pods that
    /// are gone, and the pod's next plan finds its own.
    pub(super) async fn release(&self, pod: &PodRef, write: &ClaimWrite) {
        let (namespace, name) = (&write.claim.namespace, &write.claim.name);
        for _ in 0..ATTEMPTS_MAX {
            let outcome = match self.client.get::<ResourceClaim>(namespace, name).await {
                Ok(claim) => match release(claim, &pod.uid, write) {
                    None => return,
                    Some(claim) => self.client.update(&claim, "status").await,
                },
                Err(error) if error.is(Reason::NotFound) => return,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(_) => return,
                Err(error) if error.is(Reason::Conflict) => {}
                Err(error) => {
                    tracing::warn!(%namespace, %name, error = chain(&error), "cannot give a claim back");
                    return;
                }
            }
        }
        tracing::warn!(%namespace, %name, "cannot give a claim back: it is written all the time");
    }
}

impl Binder {
    /// Gives up a claim that helps nobody.
    pub async fn give_up(&self, claim: &UnusableClaim, pod: &PodRef) {
        match claim {
            UnusableClaim::Deallocate(claim) => self.deallocate(claim, pod).await,
            UnusableClaim::Delete { claim, uid } => self.delete_claim(claim, uid).await,
        }
    }

    /// Gives back the allocation of a claim, with the reservation for `pod`. It is left alone where others use it. A failure
    /// is logged: the pod's next plan asks for it again.
    async fn deallocate(&self, claim: &ClaimName, pod: &PodRef) {
        let (namespace, name) = (&claim.namespace, &claim.name);
        let outcome = match self.client.get::<ResourceClaim>(namespace, name).await {
            Ok(claim) => match deallocation(claim, &pod.uid) {
                None => return,
                Some(claim) => self.client.update(&claim, "status").await.map(|_| ()),
            },
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => {}
            Err(error) if error.is(Reason::NotFound) || error.is(Reason::Conflict) => {}
            Err(error) => {
                tracing::warn!(%namespace, %name, error = chain(&error), "cannot deallocate a claim")
            }
        }
    }
}

/// The claim without its allocation; `None` if pods other than `uid` use it, or if it has none.
pub(super) fn deallocation(mut claim: ResourceClaim, uid: &str) -> Option<ResourceClaim> {
    let status = claim.status.as_mut()?;
    if status.allocation.is_none() || status.reserved_for.iter().any(|holder| holder.uid != uid) {
        return None;
    }
    status.reserved_for.clear();
    status.allocation = None;
    Some(claim)
}
