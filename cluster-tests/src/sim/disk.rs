//! A disk in memory that forgets what was not synced.
//!
//! Owns two images of one member's disk: what reads see, and what a power cut would leave. Writes reach the first at
//! once and the second, in order, when a sync completes after a seeded time. A crash keeps a seeded prefix of what was
//! not yet synced, cut even inside a batch of log entries: a torn tail.
//!
//! Invariant: the durable image is always a prefix of the writes. Invariant: a handle from before a crash changes
//! nothing after it.

mod platter;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orch_proto::store as wire;
use orch_raft::disk::{
    Disk, DiskError, Generation, HistorySpan, Install, LogRecord, MetaKey, OnDurable, OnInstalled, OnWritten,
    StateBatch, StateWrite, StateWritten, check_start,
};
use orch_raft::transport::NodeId;
use parking_lot::Mutex;
use prost::Message;

use self::platter::{Image, Platter, Rotten, Step};
use super::dice::Dice;
use super::points::{Point, Points};
use super::runtime::NodeRuntime;
use openraft_rt::AsyncRuntime;

/// How long a sync takes, and what goes wrong with it.
#[derive(Clone, Copy, Debug)]
pub struct DiskManner {
    /// Fastest sync.
    pub sync_min: Duration,
    /// Slowest sync.
    pub sync_max: Duration,
    /// Every sync fails: a process must stop.
    pub sync_fails: bool,
    /// No sync completes, until this is over or the process has ended.
    pub sync_hangs: bool,
    /// Every write fails for this reason: a process must stop.
    pub write_fails: Option<&'static str>,
    /// Planted bug: a vote is called durable at once, and is not.
    pub lies_about_vote: bool,
    /// Planted bug: log entries are called durable at once, and are not.
    pub lies_about_log: bool,
    /// Planted bug: the state's mark is written apart from the state, and a crash loses it.
    pub tears_mark_from_state: bool,
    /// Planted bug: the mark of the stored state is read without the removals that were a resource's last change.
    pub forgets_last_changes: bool,
    /// Planted bug: an object read at a start has a byte changed that no checksum covers.
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
            flips_bits: false,
        }
    }
}

/// How often a sync that hangs looks whether it still does.
const HANG_LOOK: Duration = Duration::from_millis(20);

/// One member's disk. It outlives the member's processes; each run of one opens a handle.
#[derive(Clone, Debug)]
pub struct SimDisk {
    platter: Arc<Mutex<Platter>>,
    dice: Dice,
    owner: Owner,
}

/// Whose disk it is, and who wants to know what is done to it.
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

/// What was on a disk at one time.
#[derive(Clone, Debug)]
pub struct DiskCopy(Image);

impl DiskCopy {
    /// A small value in it.
    pub fn meta(&self, key: MetaKey) -> Option<&Bytes> {
        self.0.meta.get(&key)
    }

    /// Puts another small value into it.
    pub fn set_meta(&mut self, key: MetaKey, value: Bytes) {
        self.0.meta.insert(key, value);
    }

    /// Leaves nothing in it but the value of `key`.
    pub fn keep_only(&mut self, key: MetaKey) {
        let kept = self.0.meta.remove(&key);
        self.0 = Image::default();
        self.0.meta.extend(kept.map(|value| (key, value)));
    }
}

/// A process's handle on a [`SimDisk`], void after the next crash.
#[derive(Clone, Debug)]
pub struct DiskHandle {
    platter: Arc<Mutex<Platter>>,
    dice: Dice,
    owner: Owner,
    boot: u64,
}

impl SimDisk {
    /// An empty disk.
    pub fn new(dice: Dice) -> Self {
        let platter = Platter {
            visible: Image::default(),
            durable: Image::default(),
            unsynced: VecDeque::new(),
            written: 0,
            waiting: VecDeque::new(),
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

    /// An empty disk of `node`, which reports what it passes to `points`.
    pub fn of(node: NodeId, points: &Points, dice: Dice) -> Self {
        SimDisk { owner: Owner { node, points: points.clone() }, ..SimDisk::new(dice) }
    }

    /// A handle for the process that starts now. What it finds is durable, as the contract of a disk demands: a database
    /// that is opened after a kill syncs what it recovers.
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

    /// The process is killed and the machine runs on: every handle is void, what was written is there, what was not
    /// synced is still not.
    pub fn close(&self) {
        let waiting = self.platter.lock().close();
        drop(waiting);
    }

    /// Power is cut: what was not synced is gone but for a torn prefix, and every handle is void.
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

    /// What is durable on the disk now, as a snapshot of the machine would hold it.
    pub fn copy(&self) -> DiskCopy {
        DiskCopy(self.platter.lock().durable.clone())
    }

    /// Replaces what is on the disk by an older copy of it.
    pub fn put_back(&self, copy: DiskCopy) {
        self.crash();
        let mut platter = self.platter.lock();
        platter.visible = copy.0.clone();
        platter.durable = copy.0;
        platter.written += 1;
        platter.changed_log_from(0);
    }

    /// Changes how the disk behaves from now on.
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

    /// Number of writes so far: while it stands, the disk does.
    pub fn writes(&self) -> u64 {
        self.platter.lock().written
    }

    /// Whether the disk fails now, or failed its process since that started.
    pub fn fails(&self) -> bool {
        let platter = self.platter.lock();
        let Platter { manner, failed, rotten, .. } = &*platter;
        manner.sync_fails || manner.write_fails.is_some() || *failed || !rotten.is_empty()
    }

    /// Whether an operation of the process that runs now has failed.
    pub fn has_failed(&self) -> bool {
        self.platter.lock().failed
    }

    /// Something stored can no longer be read, until [`SimDisk::restore`]: a checksum does not hold.
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

    /// What could not be read can be again.
    pub fn restore(&self) {
        self.platter.lock().rotten.clear();
    }

    /// Changes a byte of a stored object where no checksum tells, and gives its resource and path; `None` when there is
    /// none of which `is_current` holds, asked with resource, path and revision.
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

    /// Calls `each` with the log entries that reads see from the first that changed since the last call on, after
    /// `changed` was told that first index. Nothing is called while nothing changed.
    pub fn each_changed_entry(&self, changed: impl FnOnce(u64), mut each: impl FnMut(u64, &Bytes)) {
        let mut platter = self.platter.lock();
        let Some(from) = platter.log_changed_from.take() else { return };
        changed(from);
        platter.visible.log.range(from..).for_each(|(index, bytes)| each(*index, bytes));
    }

    /// Number of syncs completed.
    pub fn syncs(&self) -> u64 {
        self.platter.lock().syncs
    }
}

impl DiskHandle {
    fn with<R>(&self, operation: &'static str, work: impl FnOnce(&mut Platter) -> R) -> Result<R, DiskError> {
        let mut platter = self.platter.lock();
        if platter.boot != self.boot {
            return Err(DiskError { operation, reason: "the process of this handle is dead".to_owned() });
        }
        Ok(work(&mut platter))
    }

    /// What an injected fault of the disk says to a write, if there is one.
    fn refuse(&self, operation: &'static str) -> Result<(), DiskError> {
        let refused = self.with(operation, |platter| {
            let reason = platter.manner.write_fails;
            platter.failed |= reason.is_some();
            reason
        })?;
        refused.map_or(Ok(()), |reason| Err(DiskError { operation, reason: reason.to_owned() }))
    }

    /// What a read says when something in it cannot be read.
    fn check_rot(&self, operation: &'static str, touches: impl Fn(&Rotten) -> bool) -> Result<(), DiskError> {
        let rotten = self.with(operation, |platter| {
            let rotten = platter.rotten.iter().any(touches);
            platter.failed |= rotten;
            rotten
        })?;
        let reason = "checksum mismatch (injected)".to_owned();
        if rotten { Err(DiskError { operation, reason }) } else { Ok(()) }
    }

    fn write(
        &self,
        operation: &'static str,
        step: Step,
        on_durable: Option<OnDurable>,
    ) -> Result<(), DiskError> {
        self.refuse(operation)?;
        let point = step.point();
        let flush = self.with(operation, |platter| {
            platter.write(step);
            let Some(on_durable) = on_durable else { return false };
            platter.waiting.push_back((platter.written, on_durable));
            !std::mem::replace(&mut platter.flushing, true)
        })?;
        if flush {
            NodeRuntime::spawn(self.clone().flush());
        }
        point.into_iter().for_each(|point| self.owner.pass(point));
        Ok(())
    }

    /// Syncs until nobody waits: each round takes everything written when it begins, as a group commit does.
    async fn flush(self) {
        loop {
            let round = self.with("flush", |platter| {
                platter.flushing = !platter.waiting.is_empty();
                platter.flushing.then_some((platter.written, platter.manner))
            });
            let Ok(Some((through, manner))) = round else { return };
            NodeRuntime::sleep(self.dice.duration(manner.sync_min, manner.sync_max)).await;
            while self.with("flush", |platter| platter.manner.sync_hangs) == Ok(true) {
                NodeRuntime::sleep(HANG_LOOK).await;
            }
            let told = self.with("flush", |platter| {
                if platter.manner.sync_fails {
                    platter.failed = true;
                    let waiting = std::mem::take(&mut platter.waiting);
                    return (waiting.into_iter().map(|(_, on_durable)| on_durable).collect(), true);
                }
                (platter.sync(through), false)
            });
            let Ok((told, failed)) = told else { return };
            self.owner.pass(Point::Synced);
            for on_durable in told {
                let error = || DiskError { operation: "flush", reason: "injected".to_owned() };
                on_durable(if failed { Err(error()) } else { Ok(()) });
            }
        }
    }
}

impl Disk for DiskHandle {
    fn meta(&self, key: MetaKey) -> Result<Option<Bytes>, DiskError> {
        self.with("read meta", |platter| {
            let value = platter.visible.meta.get(&key).cloned();
            let forgets = platter.manner.forgets_last_changes && key == MetaKey::StateMark;
            if forgets { value.map(|mark| without_removals(mark, &platter.visible)) } else { value }
        })
    }

    fn save_meta(&self, key: MetaKey, value: Bytes, on_durable: Option<OnDurable>) -> Result<(), DiskError> {
        let lies = self.with("save meta", |platter| platter.manner.lies_about_vote)?;
        if lies && key == MetaKey::Vote {
            self.write("save meta", Step::Meta(key, value), None)?;
            on_durable.into_iter().for_each(|on_durable| on_durable(Ok(())));
            return Ok(());
        }
        self.write("save meta", Step::Meta(key, value), on_durable)
    }

    fn log_bounds(&self) -> Result<Option<(u64, u64)>, DiskError> {
        self.with("read log bounds", |platter| {
            let log = &platter.visible.log;
            Some((*log.first_key_value()?.0, *log.last_key_value()?.0))
        })
    }

    fn append(&self, records: Vec<LogRecord>, on_durable: OnDurable) -> Result<(), DiskError> {
        if self.with("append", |platter| platter.manner.lies_about_log)? {
            self.write("append", Step::Append(records), None)?;
            on_durable(Ok(()));
            return Ok(());
        }
        self.write("append", Step::Append(records), Some(on_durable))
    }

    fn read_log(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<LogRecord>, DiskError> {
        self.check_rot("read log", |rotten| match rotten {
            Rotten::Entry(index) => (from..to).contains(index),
            Rotten::Object(_) => false,
        })?;
        self.with("read log", |platter| {
            let log = &platter.visible.log;
            let mut records = Vec::new();
            let mut bytes_read = 0;
            for (index, bytes) in log.range(from..to.max(from)) {
                check_start(from + records.len() as u64, *index)?;
                if !records.is_empty() && bytes_read + bytes.len() > bytes_max {
                    break;
                }
                bytes_read += bytes.len();
                records.push(LogRecord { index: *index, bytes: bytes.clone() });
            }
            Ok(records)
        })?
    }

    fn truncate_after(&self, index: Option<u64>) -> Result<(), DiskError> {
        self.write("truncate", Step::TruncateAfter(index), None)
    }

    fn purge_through(&self, index: u64, marker: Bytes) -> Result<(), DiskError> {
        self.write("purge", Step::Meta(MetaKey::Purged, marker), None)?;
        self.write("purge", Step::PurgeThrough(index), None)
    }

    fn generation(&self) -> Result<Generation, DiskError> {
        self.with("read generation", |platter| platter.visible.generation)
    }

    fn write_state(&self, batch: StateBatch, on_written: OnWritten) {
        let disk = self.clone();
        NodeRuntime::spawn(async move {
            disk.work().await;
            on_written(disk.take_step(batch));
        });
    }

    fn history(&self) -> Result<Vec<HistorySpan>, DiskError> {
        let span = |((resource, through), (after, record)): (&(Box<str>, u64), &(u64, Bytes))| HistorySpan {
            resource: resource.clone(),
            after: *after,
            through: *through,
            bytes: record.len() as u64,
        };
        self.with("read history", |platter| platter.visible.history.iter().map(span).collect())
    }

    fn read_history(
        &self,
        generation: Generation,
        resource: &str,
        through: u64,
    ) -> Result<Option<Bytes>, DiskError> {
        self.with("read history", |platter| {
            let image = &platter.visible;
            let found = image.history.get(&(Box::from(resource), through)).map(|(_, record)| record.clone());
            found.filter(|_| image.generation == generation)
        })
    }

    fn read_state(&self, each: &mut dyn FnMut(&str, &str, Bytes)) -> Result<(), DiskError> {
        self.check_rot("read state", |rotten| matches!(rotten, Rotten::Object(_)))?;
        let (mut state, flips) =
            self.with("read state", |platter| (platter.visible.state.clone(), platter.manner.flips_bits))?;
        // Generated names are the ones that are seldom written again.
        let flippable = state.iter_mut().filter(|(_, record)| flips && flipped(record).is_some());
        if let Some((_, record)) = flippable.max_by_key(|((_, path), _)| path.contains("/g-")) {
            *record = flipped(record).unwrap_or_default();
        }
        state.into_iter().for_each(|((resource, path), record)| each(&resource, &path, record));
        Ok(())
    }

    fn begin_install(&self) -> Result<Box<dyn Install>, DiskError> {
        self.with("begin install", |_| ())?;
        self.owner.pass(Point::InstallBegin);
        Ok(Box::new(Received { disk: self.clone(), writes: Vec::new() }))
    }
}

impl DiskHandle {
    /// Takes the time that a piece of background work takes.
    async fn work(&self) {
        let manner = self.platter.lock().manner;
        NodeRuntime::sleep(self.dice.duration(manner.sync_min, manner.sync_max)).await;
    }

    fn take_step(&self, batch: StateBatch) -> Result<StateWritten, DiskError> {
        let stale = self.with("write state", |platter| batch.generation != platter.visible.generation)?;
        if stale {
            return Ok(StateWritten::Superseded);
        }
        self.write("write state", Step::State(batch), None)?;
        Ok(StateWritten::Written)
    }

    fn make_current(&self, writes: Vec<StateWrite>, mark: Bytes) -> Result<Generation, DiskError> {
        self.refuse("commit install")?;
        let (told, generation) = self.with("commit install", |platter| {
            platter.write(Step::Replace(writes, mark));
            let through = platter.written;
            (platter.sync(through), platter.visible.generation)
        })?;
        told.into_iter().for_each(|on_durable| on_durable(Ok(())));
        self.owner.pass(Point::InstallCommit);
        Ok(generation)
    }
}

/// A state being received; nothing of it is on the disk before it is committed.
struct Received {
    disk: DiskHandle,
    writes: Vec<StateWrite>,
}

impl Install for Received {
    fn put(&mut self, writes: Vec<StateWrite>) -> Result<(), DiskError> {
        self.writes.extend(writes);
        self.disk.with("install", |_| ())
    }

    fn commit(self: Box<Self>, mark: Bytes, on_installed: OnInstalled) {
        let Received { disk, writes } = *self;
        NodeRuntime::spawn(async move {
            disk.work().await;
            on_installed(disk.make_current(writes, mark));
        });
    }
}

/// A mark by which each resource changed last when the newest of its objects in `image` was written.
fn without_removals(mark: Bytes, image: &Image) -> Bytes {
    let Ok(mut known) = wire::StateMark::decode(mark.clone()) else { return mark };
    for change in &mut known.changed {
        let objects = image.state.iter().filter(|((resource, _), _)| **resource == *change.resource);
        let revisions = objects.filter_map(|(_, record)| wire::StoredObject::decode(record.clone()).ok());
        change.revision = revisions.map(|object| object.revision).max().unwrap_or_default();
    }
    known.encode_to_vec().into()
}

/// A record with a byte of its filling changed; `None` when it has none.
fn flipped(record: &Bytes) -> Option<Bytes> {
    const FILLING: &[u8] = b"\"filling\":\"x";
    let at = record.windows(FILLING.len()).position(|window| window == FILLING)?;
    let mut changed = record.to_vec();
    changed[at + FILLING.len() - 1] = b'y';
    Some(changed.into())
}

#[cfg(test)]
mod tests;
