//! The promise of the lease: only its holder sends bindings and evictions, and they arrive while it holds the lease.
//!
//! ```text
//!   own clock    ──renewal sent──────────────renew deadline │ nothing leaves any more
//!   lease        ────renewal stored──────────────────────────────────────lease duration │ another may take over
//!                                          request leaves └── travels for less than the gap ──┘
//! ```
//!
//! Owns what a process can know of its lease ([`Tenures`]): its own clock, and the answers that reached it. A binding or an
//! eviction that it sends although it can know that its time is over is a bug. One that it sent in time and that its machine,
//! standing still, passed on too late is not: no lease can prevent that, so it is excused, and counted for bindings. Nothing
//! here is asked of the product; its clock is read at the network.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Moment;
use super::api::Changed;
use super::network::{Life, World};
use super::users::ELSEWHERE;
use crate::api::coordination::v1::Lease;

/// A write of a pod, a claim or a volume that only the holder of the lease may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    /// Bind it to this node.
    Binding(String),
    /// Delete it, so that another finds room.
    Eviction,
    /// Give a claim its device, or take it back.
    Claim,
    /// Give a volume to a claim, or have one made.
    Volume,
}

/// A deed that a process handed over, whether or not a connection took it.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) at: Moment,
    pub(super) by: Life,
    pub(super) pod: String,
    pub(super) deed: Deed,
    pub(super) known: Known,
}

/// A deed that took effect.
#[derive(Debug, Clone)]
pub(super) struct Arrived {
    pub(super) at: Moment,
    pub(super) sent: Moment,
    pub(super) by: Life,
    pub(super) pod: String,
    pub(super) uid: String,
    pub(super) deed: Deed,
}

impl Arrived {
    /// It travelled for longer than the lease outlives its holder's deadline.
    pub(super) fn is_late(&self, world: &World) -> bool {
        self.at - self.sent > world.manner.gap
    }
}

/// The lease as its process can know it at a moment of its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// Its time lasts.
    Held,
    /// Its time ended so long ago.
    Past(Duration),
    /// It never had the lease, or has asked to let it go.
    NotHeld,
}

/// Until when each process may work, by its own clock: time since it began.
#[derive(Debug, Default)]
pub(super) struct Tenures {
    until: BTreeMap<Life, Duration>,
}

impl Tenures {
    /// `life` asks for the lease to be free: from now on it must send nothing.
    pub(super) fn released(&mut self, life: Life) {
        self.until.remove(&life);
    }

    /// `life` gets the answer that its write, which it sent at `sent`, is stored. It counts from before it sent it.
    pub(super) fn renewed(&mut self, life: Life, sent: Duration, renew_deadline: Duration) {
        self.until.insert(life, sent + renew_deadline);
    }

    pub(super) fn at(&self, life: Life, clock: Duration) -> Known {
        match self.until.get(&life) {
            None => Known::NotHeld,
            Some(until) if clock < *until => Known::Held,
            Some(until) => Known::Past(clock - *until),
        }
    }
}

/// A process binds and evicts only while it can know that its time lasts and while the lease names it: its time ends before
/// another may write itself in. What it sends arrives before that, too, unless it travelled for too long.
pub(super) fn check(world: &World) -> Result<(), String> {
    let holders = Holders::of(world);
    for Sent { at, by, pod, deed, known } in &world.sent {
        if *deed == Deed::Binding(ELSEWHERE.to_owned()) {
            return Err(format!("at {at} {by:?} binds {pod} to {ELSEWHERE}, where no pod may go"));
        }
        match known {
            Known::Held => {}
            Known::Past(since) => {
                return Err(format!(
                    "at {at} {by:?} sends {deed:?} of {pod}, {since:?} after its lease ended by its own clock"
                ));
            }
            Known::NotHeld => {
                return Err(format!("at {at} {by:?} sends {deed:?} of {pod}, and holds no lease"));
            }
        }
        let holder = holders.at(*at);
        if world.holders.get(holder) != Some(by) {
            return Err(format!("at {at} {by:?} sends {deed:?} of {pod}, while the lease names `{holder}`"));
        }
    }
    for arrived in world.arrived.iter().filter(|arrived| !arrived.is_late(world)) {
        let Arrived { at, by, pod, deed, .. } = arrived;
        let holder = holders.at(*at);
        if world.holders.get(holder) != Some(by) {
            return Err(format!(
                "at {at} {deed:?} of {pod} by {by:?} arrives, while the lease names `{holder}`"
            ));
        }
    }
    Ok(())
}

/// Holders of the lease with the time of their first record; an empty name for no holder.
struct Holders(Vec<(Moment, String)>);

impl Holders {
    fn of(world: &World) -> Self {
        let leases = world.store.history.iter().filter_map(|entry| match &entry.changed {
            Changed::Lease(step) => Some((entry.at, step.after.as_ref())),
            Changed::Pod(_) | Changed::Node(_) | Changed::Claim(_) => None,
            Changed::Volume(_) | Changed::VolumeClaim(_) => None,
        });
        let holder = |lease: Option<&Arc<Lease>>| {
            let spec = lease.and_then(|lease| lease.spec.as_ref());
            spec.and_then(|spec| spec.holder_identity.clone()).unwrap_or_default()
        };
        Self(leases.map(|(at, lease)| (at, holder(lease))).collect())
    }

    fn at(&self, at: Moment) -> &str {
        let known = self.0.partition_point(|(from, _)| *from <= at);
        known.checked_sub(1).map_or("", |last| self.0[last].1.as_str())
    }
}
