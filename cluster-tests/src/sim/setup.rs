//! The choices of a simulated run.
//!
//! Owns the few choices that determine everything in a run, and the command that replays it. It draws no random number.

use std::time::Duration;

use super::plant::{PLANTS, Plant};

/// The choices of a run. Everything else follows from the seed.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The seed.
    pub seed: u64,
    /// Number of founding members.
    pub members: u64,
    /// The planted bug, if any.
    pub plant: Option<Plant>,
    /// Virtual time of clients and faults.
    pub length: Duration,
    /// Objects written before any fault; 0 leaves the number to the seed.
    pub objects: u64,
    /// Print each event as it happens.
    pub echo: bool,
}

impl Setup {
    /// A run of the default length without a bug.
    pub fn new(seed: u64, members: u64) -> Self {
        Setup { seed, members, plant: None, length: Duration::from_secs(12), objects: 0, echo: false }
    }

    /// The command line that replays this run.
    pub fn command(&self) -> String {
        let Setup { seed, members, length, objects, .. } = self;
        let plant = PLANTS.iter().find(|(_, plant)| Some(*plant) == self.plant);
        let plant = plant.map_or(String::new(), |(name, _)| format!(" --plant {name}"));
        let seconds = length.as_secs();
        let objects = if *objects > 0 { format!(" --objects {objects}") } else { String::new() };
        format!("make sim SEED={seed} ARGS='--nodes {members} --seconds {seconds}{objects}{plant}'")
    }
}
