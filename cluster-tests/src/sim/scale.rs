//! The scale of a run: thresholds, objects, entries.
//!
//! Owns the choice by seed. Most runs are small, so that compaction and snapshots are as frequent as faults; some have
//! the numbers of production, thousands of objects, or objects up to the largest that the API takes.

use orch_raft::member::{HistoryOptions, LogOptions};

use super::dice::Dice;
use super::setup::Setup;

/// Bytes of the largest objects: an object may have 1.5 MiB with everything around its data.
const FILLING_MAX: u64 = (3 << 19) - 4096;

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Objects written before any fault.
    pub objects: u64,
    /// Bytes of the largest objects that writers write; 0 for the usual few bytes.
    pub filling_max: u64,
    /// Limits of the history.
    pub history: HistoryOptions,
    /// Compaction of the log.
    pub log: LogOptions,
}

impl Scale {
    /// The scale of the run of `setup`.
    pub fn of(setup: &Setup) -> Self {
        let dice = Dice::new(setup.seed, "thresholds");
        let (entries_max, every, more) = (dice.number(10..150), dice.number(10..100), dice.number(1..60));
        let history =
            HistoryOptions { age_ms: 5 * 60 * 1000, bytes_max: 100_000, entries_max, disk_bytes_max: 50_000 };
        let log = LogOptions { snapshot_every: every, keep: entries_max + more, bytes_max: 60_000 };
        let usual = Scale { objects: setup.objects, filling_max: 0, history, log };
        match dice.number(0..200) {
            _ if setup.objects > 0 => usual,
            // The defaults of production: the log is never compacted, every start replays all of it.
            0..8 => Scale { history: HistoryOptions::default(), log: LogOptions::default(), ..usual },
            8..12 => Scale {
                filling_max: FILLING_MAX,
                history: HistoryOptions { bytes_max: 4 << 20, disk_bytes_max: 4 << 20, ..history },
                log: LogOptions { bytes_max: 8 << 20, ..log },
                ..usual
            },
            12 => Scale { objects: dice.number(500..2500), ..usual },
            _ => usual,
        }
    }
}
