//! The disk as one process sees it.
//!
//! Owns the store's disk operations over a platter that outlives the process: the time of syncs and their callbacks,
//! and the effects of injected faults and planted bugs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft_rt::AsyncRuntime;
use orch_proto::store as wire;
use orch_raft::disk::{
    Disk, DiskError, Generation, HistorySpan, Install, LogRecord, MetaKey, OnDurable, OnInstalled, OnWritten,
    StateBatch, StateWrite, StateWritten, check_start,
};
use parking_lot::Mutex;
use prost::Message;

use super::platter::{Image, Platter, Rotten, Step};
use super::{Owner, flipped};
use crate::sim::dice::Dice;
use crate::sim::points::Point;
use crate::sim::runtime::NodeRuntime;

/// Interval at which a hung sync checks whether it may complete.
const HANG_LOOK: Duration = Duration::from_millis(20);

/// A process's handle on a [`SimDisk`], void after the next crash.
#[derive(Clone, Debug)]
pub struct DiskHandle {
    pub(super) platter: Arc<Mutex<Platter>>,
    pub(super) dice: Dice,
    pub(super) owner: Owner,
    pub(super) boot: u64,
}

impl DiskHandle {
    fn with<R>(&self, operation: &'static str, work: impl FnOnce(&mut Platter) -> R) -> Result<R, DiskError> {
        let mut platter = self.platter.lock();
        if platter.boot != self.boot {
            return Err(DiskError { operation, reason: "the process of this handle is dead".to_owned() });
        }
        Ok(work(&mut platter))
    }

    /// Fails a write with the reason of the injected fault, while one is in force.
    fn refuse(&self, operation: &'static str) -> Result<(), DiskError> {
        let refused = self.with(operation, |platter| {
            let reason = platter.manner.write_fails;
            platter.failed |= reason.is_some();
            reason
        })?;
        refused.map_or(Ok(()), |reason| Err(DiskError { operation, reason: reason.to_owned() }))
    }

    /// Fails a read that touches a rotten entry or object.
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

    /// Syncs until no callback waits: each round covers everything written when it begins, as a group commit does.
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
        if key == MetaKey::Committed && on_durable.is_none() {
            self.refuse("save meta")?;
            self.with("save meta", |platter| platter.show_committed(value))?;
            self.owner.pass(Point::Commit);
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
        // Objects with generated names are seldom written again, so that the damage stays.
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
    /// Waits for the time of a piece of background work.
    async fn work(&self) {
        let manner = self.platter.lock().manner;
        NodeRuntime::sleep(self.dice.duration(manner.sync_min, manner.sync_max)).await;
    }

    fn take_step(&self, batch: StateBatch) -> Result<StateWritten, DiskError> {
        let stale = self.with("write state", |platter| batch.generation != platter.visible.generation)?;
        if stale {
            return Ok(StateWritten::Superseded);
        }
        self.with("write state", |platter| {
            platter.last_step = platter.manner.repeats_steps.then(|| batch.clone());
        })?;
        self.write("write state", Step::State(batch), None)?;
        Ok(StateWritten::Written)
    }

    fn make_current(&self, writes: Vec<StateWrite>, mark: Bytes) -> Result<Generation, DiskError> {
        self.refuse("commit install")?;
        let (told, generation) = self.with("commit install", |platter| {
            platter.write(Step::Replace(writes, mark));
            let late = platter.last_step.take().map(Step::State);
            late.into_iter().for_each(|step| platter.write(step));
            let through = platter.written;
            (platter.sync(through), platter.visible.generation)
        })?;
        told.into_iter().for_each(|on_durable| on_durable(Ok(())));
        self.owner.pass(Point::InstallCommit);
        Ok(generation)
    }
}

/// A state being installed. None of it is on the disk before the commit.
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

/// The mark with each resource's last change set to the newest of its objects in `image`, so that removals are missing.
fn without_removals(mark: Bytes, image: &Image) -> Bytes {
    let Ok(mut known) = wire::StateMark::decode(mark.clone()) else { return mark };
    for change in &mut known.changed {
        let objects = image.state.iter().filter(|((resource, _), _)| **resource == *change.resource);
        let revisions = objects.filter_map(|(_, record)| wire::StoredObject::decode(record.clone()).ok());
        change.revision = revisions.map(|object| object.revision).max().unwrap_or_default();
    }
    known.encode_to_vec().into()
}
