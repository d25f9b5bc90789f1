//! What goes wrong with processes, connections and history, and when.
//!
//! Owns the schedule: each seed weighs the kinds of faults in its own way, so that some runs have many of one kind. The
//! leader is struck more often than the others. Runs with a theme ([`Theme`]) have its faults only.

use rand::Rng;
use rand::rngs::StdRng;

use super::Moment;
use super::manner::Theme;
use super::network::LastRenewal;
use super::watches::WatchFault;

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
    /// A node is empty and takes no pods; once all know it, the watches of pods of all others stall for so long. Then the node is
    /// whole again, and after that the process, which leads, is told to end.
    Blinding(Moment),
}

const KINDS: usize = 12;

/// Places of kinds in the weights.
const TERMINATE: usize = 1;
const HANDOVER: usize = 10;

/// The schedule of one run.
pub(super) struct Faults {
    theme: Theme,
    weights: [u32; KINDS],
    /// Milliseconds between faults, on average.
    every: Moment,
}

impl Faults {
    pub(super) fn new(theme: Theme, random: &mut StdRng) -> Self {
        let mut weights = [0; KINDS];
        match theme {
            Theme::Mixed | Theme::Devices | Theme::Extended | Theme::Volumes | Theme::Extenders => {
                weights.fill_with(|| [0, 1, 1, 4][random.random_range(0..4)]);
                Self { theme, weights, every: random.random_range(1_500..8_000) }
            }
            // The end of a leader takes some seconds: the next fault comes after it.
            Theme::Handovers => {
                (weights[TERMINATE], weights[HANDOVER]) = (3, 1);
                Self { theme, weights, every: random.random_range(6_000..10_000) }
            }
            // The stall has to be over, and its leader gone, before the next.
            Theme::OldViews => {
                weights[HANDOVER] = 1;
                Self { theme, weights, every: random.random_range(12_000..18_000) }
            }
        }
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
            TERMINATE => Fault::Terminate,
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
            HANDOVER if self.theme == Theme::OldViews => Fault::Blinding(random.random_range(10_000..14_000)),
            HANDOVER => Fault::Handover(random.random_range(4_000..12_000)),
            _ => Fault::Watch(WatchFault::Ends),
        })
    }
}
