//! What a simulated run is made of.
//!
//! Owns the few choices that everything in a run follows from, and the command that replays it. It draws no number.

use std::time::Duration;

use super::plant::{PLANTS, Plant};

/// What a run is made of. Everything else follows from the seed.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The seed.
    pub seed: u64,
    /// How many members.
    pub members: u64,
    /// A bug to plant.
    pub plant: Option<Plant>,
    /// How long clients and faults go on, in virtual time.
    pub length: Duration,
    /// Objects there are before anything goes wrong; 0 leaves that to the seed.
    pub objects: u64,
    /// Print each event as it happens.
    pub echo: bool,
}

impl Setup {
    /// A run of the usual length without a bug.
    pub fn new(seed: u64, members: u64) -> Self {
        Setup { seed, members, plant: None, length: Duration::from_secs(12), objects: 0, echo: false }
    }

    /// What replays this run.
    pub fn command(&self) -> String {
        let Setup { seed, members, length, objects, .. } = self;
        let plant = PLANTS.iter().find(|(_, plant)| Some(*plant) == self.plant);
        let plant = plant.map_or(String::new(), |(name, _)| format!(" --plant {name}"));
        let seconds = length.as_secs();
        let objects = if *objects > 0 { format!(" --objects {objects}") } else { String::new() };
        format!("make sim SEED={seed} ARGS='--nodes {members} --seconds {seconds}{objects}{plant}'")
    }
}
