//! A disk in memory that loses unsynced writes.
//!
//! Owns two images of one member's disk: the one that reads see, and the durable one. Writes reach the first at once
//! and the second, in order, when a sync completes after a seeded time. A crash keeps a seeded prefix of the unsynced
//! writes, cut even inside a batch of log entries: a torn tail.
//!
//! Invariant: the durable image is always a prefix of the writes.
//! Invariant: a handle from before a crash changes nothing after it.

mod handle;
mod platter;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orch_proto::store as wire;
use orch_raft::disk::MetaKey;
use orch_raft::transport::NodeId;
use parking_lot::Mutex;
use prost::Message;

pub use self::handle::DiskHandle;
use self::platter::{Image, Platter, Rotten};
use super::dice::Dice;
use super::points::{Point, Points};

/// Sync times, faults and planted bugs of a disk.
#[derive(Clone, Copy, Debug)]
pub struct DiskManner {
    /// Shortest time of a sync.
    pub sync_min: Duration,
    /// Longest time of a sync.
    pub sync_max: Duration,
    /// Every sync fails: a process must stop.
    pub sync_fails: bool,
    /// No sync completes until this is `false` again or the process has ended.
    pub sync_hangs: bool,
    /// Every write fails for this reason: a process must stop.
    pub write_fails: Option<&'static str>,
    /// Planted bug: a vote is reported durable at once, and is not.
    pub lies_about_vote: bool,
    /// Planted bug: log entries are reported durable at once, and are not.
    pub lies_about_log: bool,
    /// Planted bug: the state's mark is written apart from the state, and a crash loses it.
    pub tears_mark_from_state: bool,
    /// Planted bug: the mark of the stored state is read without the removals that were a resource's last change.
    pub forgets_last_changes: bool,
    /// Planted bug: the last state write is written once more into the state that replaces it.
    pub repeats_steps: bool,
    /// Planted bug: an object read at a start has one byte changed, without a checksum error.
    pub flips_bits: bool,
}

impl Default for DiskManner {
    fn default() -> Self {
        DiskManner {
            sync_min: Duration::from_micros(100),
            sync_max: Duration::from_millis(2),
            sync_fails: false,
            sync_hangs: false,
            write_fails: None,
            lies_about_vote: false,
            lies_about_log: false,
            tears_mark_from_state: false,
            forgets_last_changes: false,
            repeats_steps: false,
            flips_bits: false,
        }
    }
}

/// One member's disk. It outlives the member's processes; each process opens a handle.
#[derive(Clone, Debug)]
pub struct SimDisk {
    platter: Arc<Mutex<Platter>>,
    dice: Dice,
    owner: Owner,
}

/// The member of a disk, and the observers of its writes.
#[derive(Clone, Debug, Default)]
struct Owner {
    node: NodeId,
    points: Points,
}

impl Owner {
    fn pass(&self, point: Point) {
        self.points.pass(self.node, point);
    }
}

/// The content of a disk at one time.
#[derive(Clone, Debug)]
pub struct DiskCopy(Image);

impl DiskCopy {
    /// A small value of the copy.
    pub fn meta(&self, key: MetaKey) -> Option<&Bytes> {
        self.0.meta.get(&key)
    }

    /// Replaces a small value of the copy.
    pub fn set_meta(&mut self, key: MetaKey, value: Bytes) {
        self.0.meta.insert(key, value);
    }

    /// Changes a stored object of the copy, if it is there.
    pub fn change_object(
        &mut self,
        resource: &str,
        path: &str,
        change: impl FnOnce(&mut wire::StoredObject),
    ) {
        let Some(record) = self.0.state.get_mut(&(Box::from(resource), Box::from(path))) else { return };
        let Ok(mut object) = wire::StoredObject::decode(record.clone()) else { return };
        change(&mut object);
        *record = Bytes::from(object.encode_to_vec());
    }

    /// Removes everything but the value of `key`.
    pub fn keep_only(&mut self, key: MetaKey) {
        let kept = self.0.meta.remove(&key);
        self.0 = Image::default();
        self.0.meta.extend(kept.map(|value| (key, value)));
    }
}

impl SimDisk {
    /// An empty disk without observers.
    pub fn new(dice: Dice) -> Self {
        let platter = Platter {
            visible: Image::default(),
            durable: Image::default(),
            unsynced: VecDeque::new(),
            written: 0,
            waiting: VecDeque::new(),
            waiting_committed: None,
            last_step: None,
            log_changed_from: Some(0),
            flushing: false,
            boot: 0,
            syncs: 0,
            failed: false,
            rotten: Vec::new(),
            manner: DiskManner::default(),
        };
        SimDisk { platter: Arc::new(Mutex::new(platter)), dice, owner: Owner::default() }
    }

    /// An empty disk of `node`, which reports its writes to `points`.
    pub fn of(node: NodeId, points: &Points, dice: Dice) -> Self {
        SimDisk { owner: Owner { node, points: points.clone() }, ..SimDisk::new(dice) }
    }

    /// A handle for the process that starts now. Everything it finds is durable, as the contract of a disk demands: a
    /// database that is opened after a kill syncs what it recovers.
    pub fn open(&self) -> DiskHandle {
        let (boot, told) = {
            let mut platter = self.platter.lock();
            let written = platter.written;
            (platter.boot, platter.sync(written))
        };
        told.into_iter().for_each(|on_durable| on_durable(Ok(())));
        let (platter, dice, owner) = (self.platter.clone(), self.dice.clone(), self.owner.clone());
        DiskHandle { platter, dice, owner, boot }
    }

    /// The process is killed and the machine runs on: every handle is void, written data is kept, unsynced data is
    /// still unsynced.
    pub fn close(&self) {
        let waiting = self.platter.lock().close();
        drop(waiting);
    }

    /// Power is cut: unsynced data is lost but for a torn prefix, and every handle is void.
    pub fn crash(&self) {
        self.close();
        self.platter.lock().tear(&self.dice);
    }

    /// Replaces the disk by an empty one.
    pub fn wipe(&self) {
        self.crash();
        let mut platter = self.platter.lock();
        platter.visible = Image::default();
        platter.durable = Image::default();
        platter.changed_log_from(0);
    }

    /// The durable content now, as a snapshot of the machine would hold it.
    pub fn copy(&self) -> DiskCopy {
        DiskCopy(self.platter.lock().durable.clone())
    }

    /// Replaces the content of the disk with an older copy.
    pub fn put_back(&self, copy: DiskCopy) {
        self.crash();
        let mut platter = self.platter.lock();
        platter.visible = copy.0.clone();
        platter.durable = copy.0;
        platter.written += 1;
        platter.changed_log_from(0);
    }

    /// Changes the disk's manner from now on.
    pub fn behave(&self, change: impl FnOnce(&mut DiskManner)) {
        change(&mut self.platter.lock().manner);
    }

    /// A small value as reads see it.
    pub fn meta(&self, key: MetaKey) -> Option<Bytes> {
        self.platter.lock().visible.meta.get(&key).cloned()
    }

    /// The oldest index in the log, if any.
    pub fn first_index(&self) -> Option<u64> {
        self.platter.lock().visible.log.keys().next().copied()
    }

    /// The newest index in the log, if any.
    pub fn last_index(&self) -> Option<u64> {
        self.platter.lock().visible.log.keys().next_back().copied()
    }

    /// Number of writes so far. Equal numbers mean equal content.
    pub fn writes(&self) -> u64 {
        self.platter.lock().written
    }

    /// A fault of the disk is in force, or has failed an operation of the current process.
    pub fn fails(&self) -> bool {
        let platter = self.platter.lock();
        let Platter { manner, failed, rotten, .. } = &*platter;
        manner.sync_fails || manner.write_fails.is_some() || *failed || !rotten.is_empty()
    }

    /// An operation of the current process has failed.
    pub fn has_failed(&self) -> bool {
        self.platter.lock().failed
    }

    /// Makes a random stored record unreadable, as by a checksum error, until [`SimDisk::restore`].
    pub fn rot(&self, dice: &Dice) {
        let mut platter = self.platter.lock();
        let Image { log, state, .. } = &platter.visible;
        let entry = (!log.is_empty()).then(|| log.keys().nth(dice.index(log.len())).copied());
        let object = (!state.is_empty()).then(|| state.keys().nth(dice.index(state.len())).cloned());
        let rotten = match (entry.flatten(), object.flatten()) {
            (Some(index), _) if dice.percent(50) => Some(Rotten::Entry(index)),
            (_, Some(place)) => Some(Rotten::Object(place)),
            (entry, None) => entry.map(Rotten::Entry),
        };
        platter.rotten.extend(rotten);
    }

    /// Makes rotten records readable again.
    pub fn restore(&self) {
        self.platter.lock().rotten.clear();
    }

    /// Changes a byte of a stored object without a checksum error, and returns its resource and path. `None` if
    /// `is_current`, called with resource, path and revision, holds for no object.
    pub fn change_silently(
        &self,
        is_current: impl Fn(&str, &str, u64) -> bool,
    ) -> Option<(Box<str>, Box<str>)> {
        let mut platter = self.platter.lock();
        let Platter { visible, durable, .. } = &mut *platter;
        for (place, record) in &mut visible.state {
            let revision = wire::StoredObject::decode(record.clone()).map_or(0, |object| object.revision);
            let Some(changed) = flipped(record).filter(|_| is_current(&place.0, &place.1, revision)) else {
                continue;
            };
            if durable.state.get(place) == Some(record) {
                durable.state.insert(place.clone(), changed.clone());
                *record = changed;
                return Some(place.clone());
            }
        }
        None
    }

    /// Calls `changed` with the first index of the log that changed since the last call, and then `each` with every
    /// entry from there on. Calls neither if nothing changed.
    pub fn each_changed_entry(&self, changed: impl FnOnce(u64), mut each: impl FnMut(u64, &Bytes)) {
        let mut platter = self.platter.lock();
        let Some(from) = platter.log_changed_from.take() else { return };
        changed(from);
        platter.visible.log.range(from..).for_each(|(index, bytes)| each(*index, bytes));
    }

    /// Syncs complete, and take no longer than by default.
    pub fn is_prompt(&self) -> bool {
        let (manner, usual) = (self.platter.lock().manner, DiskManner::default());
        !manner.sync_hangs && manner.sync_max <= usual.sync_max
    }

    /// Number of syncs completed.
    pub fn syncs(&self) -> u64 {
        self.platter.lock().syncs
    }
}

/// The record with a byte of its filling changed; `None` if it has no filling.
pub(in crate::sim) fn flipped(record: &Bytes) -> Option<Bytes> {
    const FILLING: &[u8] = b"\"filling\":\"x";
    let at = record.windows(FILLING.len()).position(|window| window == FILLING)?;
    let mut changed = record.to_vec();
    changed[at + FILLING.len() - 1] = b'y';
    Some(changed.into())
}

#[cfg(test)]
mod tests;
