//! What goes wrong with processes, connections and history, and when.
//!
//! Owns the schedule: each seed weighs the kinds of faults in its own way, so that some runs have many of one kind. The
//! leader is struck more often than the others.

use rand::Rng;
use rand::rngs::StdRng;

use super::Moment;
use super::network::{LastRenewal, Manner};
use super::watches::WatchFault;
use crate::election::Timing;

/// A fault that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The process is gone between two slices.
    Crash,
    /// The process is told to end.
    Terminate,
    /// The process gets no time.
    Stop(Moment),
    /// The process does not reach a server.
    Cut(usize, Moment),
    /// The process reaches no server.
    Isolate(Moment),
    /// Its watches have a fault.
    Watch(WatchFault),
    /// The API forgets its history.
    Compact,
    /// The process renews once more, learns of it late, and reaches nothing else.
    LastRenewal(LastRenewal),
    /// The watches of all others stall, and the process is told to end meanwhile.
    Handover(Moment),
}

const KINDS: usize = 11;

/// The schedule of one run.
pub(super) struct Faults {
    weights: [u32; KINDS],
    /// Milliseconds between faults, on average.
    every: Moment,
}

impl Faults {
    pub(super) fn new(random: &mut StdRng) -> Self {
        let mut weights = [0; KINDS];
        weights.fill_with(|| [0, 1, 1, 4][random.random_range(0..4)]);
        Self { weights, every: random.random_range(1_500..8_000) }
    }

    /// The fault that begins within a slice, if one does.
    pub(super) fn draw(&self, slice: Moment, random: &mut StdRng) -> Option<Fault> {
        let total: u32 = self.weights.iter().sum();
        if total == 0 || random.random_range(0..self.every) >= slice {
            return None;
        }
        let mut drawn = random.random_range(0..total);
        let kind = self.weights.iter().position(|weight| {
            let is_it = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            is_it
        })?;
        Some(match kind {
            0 => Fault::Crash,
            1 => Fault::Terminate,
            2 => Fault::Stop(random.random_range(200..25_000)),
            3 => {
                Fault::Cut(random.random_range(0..super::network::SERVERS), random.random_range(500..20_000))
            }
            4 => Fault::Isolate(random.random_range(500..20_000)),
            5 => Fault::Watch(WatchFault::Breaks),
            6 => Fault::Watch(WatchFault::Expires),
            7 => Fault::Watch(WatchFault::Stalls(random.random_range(500..12_000))),
            8 => Fault::Compact,
            9 => Fault::LastRenewal(LastRenewal {
                delay: random.random_range(300..4_800),
                silence: random.random_range(5_000..20_000),
            }),
            _ => Fault::Handover(random.random_range(4_000..12_000)),
        })
    }
}

/// The election's durations of a run. Some leave a second between the end of one leadership and the next.
pub(super) fn timing(random: &mut StdRng) -> Timing {
    let (lease, renew, retry) =
        [(15_000, 10_000, 2_000), (8_000, 5_000, 1_000), (6_000, 5_000, 1_000), (11_000, 10_000, 2_000)]
            [random.random_range(0..4)];
    let millis = std::time::Duration::from_millis;
    Timing::new(millis(lease), millis(renew), millis(retry)).expect("each row fits together")
}

/// How the network of a run is.
pub(super) fn manner(timing: Timing, random: &mut StdRng) -> Manner {
    let gap = timing.lease_duration() - timing.renew_deadline();
    let gap = Moment::try_from(gap.as_millis()).expect("durations are short");
    let slice = [20, 20, 50][random.random_range(0..3)];
    let mut often = |most: u32| if random.random_bool(0.5) { random.random_range(0..most) } else { 0 };
    let (slow, lost_before, lost_after) = (often(300), often(100), often(150));
    let (refused, unconnected) = (often(100), often(60));
    Manner {
        slice,
        gap,
        transit_max: gap - 2 * slice,
        answer_max: random.random_range(500..15_000),
        lag_max: [slice, 500, 2_000, 5_000][random.random_range(0..4)],
        slow,
        lost_before,
        lost_after,
        refused,
        unconnected,
    }
}
