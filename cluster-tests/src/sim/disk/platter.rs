//! The content of a simulated disk: the image that reads see, and the durable one.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use orch_raft::disk::{Generation, LogRecord, MetaKey, OnDurable, StateBatch, StateWrite};

use super::DiskManner;
use crate::sim::dice::Dice;
use crate::sim::points::Point;

pub(super) struct Platter {
    pub(super) visible: Image,
    pub(super) durable: Image,
    /// Writes that `visible` has and `durable` lacks.
    pub(super) unsynced: VecDeque<Step>,
    /// Number of all writes so far, which is the number of the newest in `unsynced`.
    pub(super) written: u64,
    pub(super) waiting: VecDeque<(u64, OnDurable)>,
    pub(super) flushing: bool,
    pub(super) boot: u64,
    pub(super) syncs: u64,
    /// An operation of the current process has failed.
    pub(super) failed: bool,
    /// Unreadable records.
    pub(super) rotten: Vec<Rotten>,
    /// The first index of the log that changed since it was last observed; `None` if none has.
    pub(super) log_changed_from: Option<u64>,
    pub(super) manner: DiskManner,
    /// The committed log id that waits for the next write, and the value that was written before it.
    pub(super) waiting_committed: Option<(Bytes, Option<Bytes>)>,
    /// The last state write, where a planted bug needs it.
    pub(super) last_step: Option<StateBatch>,
}

/// A stored record whose checksum does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rotten {
    Entry(u64),
    Object((Box<str>, Box<str>)),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) meta: BTreeMap<MetaKey, Bytes>,
    pub(super) log: BTreeMap<u64, Bytes>,
    pub(super) state: BTreeMap<(Box<str>, Box<str>), Bytes>,
    /// Blocks of history by resource and last revision: the revision before the block, and its record.
    pub(super) history: BTreeMap<(Box<str>, u64), (u64, Bytes)>,
    pub(super) generation: Generation,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Meta(MetaKey, Bytes),
    Append(Vec<LogRecord>),
    TruncateAfter(Option<u64>),
    PurgeThrough(u64),
    State(StateBatch),
    Replace(Vec<StateWrite>, Bytes),
}

impl Step {
    /// The point of a member's work that this write marks, where a crash is of interest.
    pub(super) fn point(&self) -> Option<Point> {
        match self {
            Step::Meta(MetaKey::Vote, _) => Some(Point::Vote),
            Step::Meta(MetaKey::Committed, _) => Some(Point::Commit),
            Step::Meta(MetaKey::Identity | MetaKey::Purged | MetaKey::StateMark | MetaKey::Quarantine, _)
            | Step::Replace(..) => None,
            Step::Append(_) => Some(Point::Append),
            Step::TruncateAfter(_) => Some(Point::Truncate),
            Step::PurgeThrough(_) => Some(Point::Purge),
            Step::State(..) => Some(Point::State),
        }
    }
}

impl std::fmt::Debug for Platter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Platter({} writes, {} unsynced)", self.written, self.unsynced.len())
    }
}

impl Image {
    pub(super) fn take(&mut self, step: Step) {
        match step {
            Step::Meta(key, value) => {
                self.meta.insert(key, value);
            }
            Step::Append(records) => {
                self.log.extend(records.into_iter().map(|record| (record.index, record.bytes)));
            }
            Step::TruncateAfter(None) => self.log.clear(),
            Step::TruncateAfter(Some(index)) => {
                self.log.split_off(&(index + 1));
            }
            Step::PurgeThrough(index) => self.log = self.log.split_off(&(index + 1)),
            Step::State(batch) => self.take_batch(batch),
            Step::Replace(writes, mark) => {
                self.state.clear();
                self.history.clear();
                self.generation.0 += 1;
                self.take_batch(StateBatch { writes, mark: Some(mark), ..StateBatch::default() });
            }
        }
    }

    fn take_batch(&mut self, batch: StateBatch) {
        batch.writes.into_iter().for_each(|write| self.write(write));
        for gone in batch.forgotten {
            self.history.remove(&gone);
        }
        for block in batch.history {
            self.history.insert((block.resource, block.through), (block.after, block.record));
        }
        if let Some(mark) = batch.mark {
            self.meta.insert(MetaKey::StateMark, mark);
        }
    }

    pub(super) fn write(&mut self, write: StateWrite) {
        let key = (write.resource, write.path);
        match write.record {
            Some(record) => self.state.insert(key, record),
            None => self.state.remove(&key),
        };
    }
}

impl Platter {
    /// Shows a committed log id that goes to the disk with the next write, as that of a real process does.
    pub(super) fn show_committed(&mut self, value: Bytes) {
        let shown = self.visible.meta.insert(MetaKey::Committed, value.clone());
        let written = self.waiting_committed.take().map_or(shown, |(_, written)| written);
        self.waiting_committed = Some((value, written));
    }

    pub(super) fn write(&mut self, step: Step) {
        if let Some((value, _)) = self.waiting_committed.take() {
            self.written += 1;
            self.unsynced.push_back(Step::Meta(MetaKey::Committed, value));
        }
        self.written += 1;
        match &step {
            Step::Append(records) => {
                records.first().into_iter().for_each(|first| self.changed_log_from(first.index));
            }
            Step::TruncateAfter(index) => self.changed_log_from(index.map_or(0, |index| index + 1)),
            // A purge does not change the entries that remain.
            Step::PurgeThrough(_) | Step::Meta(..) | Step::State(_) | Step::Replace(..) => {}
        }
        self.visible.take(step.clone());
        self.unsynced.push_back(step);
    }

    pub(super) fn changed_log_from(&mut self, index: u64) {
        let from = self.log_changed_from.get_or_insert(index);
        *from = index.min(*from);
    }

    /// Makes everything up to write number `through` durable; returns the callbacks that waited for it.
    pub(super) fn sync(&mut self, through: u64) -> Vec<OnDurable> {
        self.syncs += 1;
        let kept_back = self.written.saturating_sub(through);
        while self.unsynced.len() as u64 > kept_back {
            let Some(step) = self.unsynced.pop_front() else { break };
            self.durable.take(step);
        }
        let mut told = Vec::new();
        while self.waiting.front().is_some_and(|(number, _)| *number <= through) {
            told.extend(self.waiting.pop_front().map(|(_, on_durable)| on_durable));
        }
        told
    }

    /// Applies a crash to the unsynced writes: a prefix survives, the last of it possibly in part.
    pub(super) fn tear(&mut self, dice: &Dice) {
        let survivors = dice.index(self.unsynced.len() + 1);
        let manner = self.manner;
        for (position, step) in std::mem::take(&mut self.unsynced).into_iter().enumerate() {
            match step {
                _ if position < survivors => self.durable.take(step),
                Step::Append(mut records) if position == survivors => {
                    records.truncate(dice.index(records.len() + 1));
                    self.durable.take(Step::Append(records));
                }
                Step::State(batch) if manner.tears_mark_from_state => {
                    batch.writes.into_iter().for_each(|write| self.durable.write(write));
                }
                _ => {}
            }
        }
        self.visible = self.durable.clone();
        self.changed_log_from(0);
        // A loss counts as a write, so that observers look again.
        self.written += 1;
    }

    /// Voids every handle; returns the callbacks that wait for a sync.
    pub(super) fn close(&mut self) -> VecDeque<(u64, OnDurable)> {
        self.flushing = false;
        self.failed = false;
        self.boot += 1;
        match self.waiting_committed.take() {
            Some((_, Some(written))) => drop(self.visible.meta.insert(MetaKey::Committed, written)),
            Some((_, None)) => drop(self.visible.meta.remove(&MetaKey::Committed)),
            None => {}
        }
        std::mem::take(&mut self.waiting)
    }
}
