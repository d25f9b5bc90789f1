//! Theme of a run, habits of its processes, faults of its network, and durations of its leases.
//!
//! Owns the choice by seed. Most runs mix everything; those with a theme bring together what chance seldom does.

use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use super::Moment;
use crate::election::Timing;

/// The theme of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Theme {
    /// All kinds of acts, weighed by the seed.
    Mixed,
    /// Leaders are told to end while the API refuses bindings or is slow to take them; leases pass.
    Handovers,
    /// Pods share claims of devices, of which there are fewer than pods want.
    Devices,
    /// Pods ask for an extended resource that devices stand for.
    Extended,
    /// Pods share volumes, of which some have to be made.
    Volumes,
    /// An extender filters, scores, preempts and binds.
    Extenders,
    /// Leaders end while the others' watches of pods stall, and a node that was full for nobody is whole again meanwhile.
    OldViews,
}

/// Of so many runs, two are about handovers, two about devices, and one each about volumes, extended resources, extenders and old
/// views.
const THEMES_EVERY: u64 = 16;

impl Theme {
    pub(super) fn of(seed: u64) -> Self {
        match seed % THEMES_EVERY {
            5 | 13 => Theme::Devices,
            7 | 15 => Theme::Handovers,
            8 => Theme::Volumes,
            10 => Theme::Extended,
            11 => Theme::Extenders,
            12 => Theme::OldViews,
            _ => Theme::Mixed,
        }
    }
}

/// The state of the processes of a run before they lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standby {
    /// They follow the cluster.
    Follows,
    /// They hold nothing, and list everything once they lead.
    Waits,
}

impl Standby {
    pub(super) fn draw(random: &mut StdRng) -> Self {
        if random.random_bool(0.2) { Standby::Waits } else { Standby::Follows }
    }
}

/// Frequencies of faults, in thousandths of requests, and delays, in milliseconds.
#[derive(Debug, Clone)]
pub(super) struct Manner {
    pub(super) slice: Moment,
    /// How long a leader works after a renewal.
    pub(super) renew_deadline: Duration,
    /// How long the lease outlives its holder's deadline.
    pub(super) gap: Moment,
    pub(super) transit_max: Moment,
    pub(super) answer_max: Moment,
    pub(super) lag_max: Moment,
    pub(super) slow: u32,
    pub(super) lost_before: u32,
    pub(super) lost_after: u32,
    pub(super) refused: u32,
    pub(super) unconnected: u32,
    /// The same for bindings alone: servers limit kinds of requests apart, and let leases pass before others.
    pub(super) bindings_refused: u32,
    pub(super) bindings_slow: u32,
}

impl Manner {
    /// Ends all faults.
    pub(super) fn calm(&mut self) {
        (self.slow, self.lost_before, self.lost_after) = (0, 0, 0);
        (self.refused, self.unconnected) = (0, 0);
        (self.bindings_refused, self.bindings_slow) = (0, 0);
        self.lag_max = self.slice * 2;
    }
}

/// The election's durations of a run. Some leave a second between the end of one leadership and the next; where bindings
/// are slow they leave more, since that is how long a binding may travel.
pub(super) fn timing(theme: Theme, random: &mut StdRng) -> Timing {
    let rows =
        [(15_000, 10_000, 2_000), (8_000, 5_000, 1_000), (6_000, 5_000, 1_000), (11_000, 10_000, 2_000)];
    let (lease, renew, retry) = match theme {
        Theme::Mixed | Theme::Devices | Theme::Extended | Theme::Volumes | Theme::Extenders => {
            rows[random.random_range(0..4)]
        }
        Theme::Handovers | Theme::OldViews => rows[random.random_range(0..2)],
    };
    let millis = Duration::from_millis;
    Timing::new(millis(lease), millis(renew), millis(retry)).expect("each row fits together")
}

/// The network of a run.
pub(super) fn manner(theme: Theme, timing: Timing, random: &mut StdRng) -> Manner {
    let gap = timing.lease_duration() - timing.renew_deadline();
    let gap = Moment::try_from(gap.as_millis()).expect("durations are short");
    let slice = [20, 20, 50][random.random_range(0..3)];
    let mut often = |most: u32| if random.random_bool(0.5) { random.random_range(0..most) } else { 0 };
    let (slow, lost_before, lost_after) = (often(300), often(100), often(150));
    let (refused, unconnected) = (often(100), often(60));
    let (bindings_refused, bindings_slow) = match theme {
        Theme::Mixed
        | Theme::Devices
        | Theme::Extended
        | Theme::Volumes
        | Theme::Extenders
        | Theme::OldViews => (0, 0),
        Theme::Handovers => (random.random_range(300..700), random.random_range(300..800)),
    };
    // All have to hear of an empty node before their watches stall.
    let lags = if theme == Theme::OldViews { [slice, 200, 500, 1_000] } else { [slice, 500, 2_000, 5_000] };
    Manner {
        renew_deadline: timing.renew_deadline(),
        slice,
        gap,
        transit_max: gap - 2 * slice,
        answer_max: random.random_range(500..15_000),
        lag_max: lags[random.random_range(0..4)],
        slow,
        lost_before,
        lost_after,
        refused,
        unconnected,
        bindings_refused,
        bindings_slow,
    }
}
