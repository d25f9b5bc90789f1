//! A disk in memory, with injectable faults. Writes are durable at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use orch_proto::store as wire;
use parking_lot::Mutex;
use prost::Message;

use crate::disk::{
    Disk, DiskError, Generation, HistorySpan, Install, LogRecord, MetaKey, OnDurable, OnInstalled, OnWritten,
    Space, StateBatch, StateWrite, StateWritten, check_start,
};

#[derive(Debug, Default)]
pub(crate) struct MemoryDisk {
    contents: Arc<Mutex<Contents>>,
    hanging: Hanging,
}

/// Appends that a hanging disk does not call durable.
#[derive(Default)]
struct Hanging(Mutex<Option<Vec<OnDurable>>>);

impl std::fmt::Debug for Hanging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Hanging").field(&self.0.lock().as_ref().map(Vec::len)).finish()
    }
}

type Objects = BTreeMap<(Box<str>, Box<str>), Bytes>;

#[derive(Clone, Debug, Default)]
struct Contents {
    log: BTreeMap<u64, Bytes>,
    meta: BTreeMap<MetaKey, Bytes>,
    objects: Objects,
    /// By resource and last revision of a block: the revision before the block, and its record.
    history: BTreeMap<(Box<str>, u64), (u64, Bytes)>,
    generation: Generation,
    failing: bool,
    /// Free bytes; `None` is unlimited.
    free: Option<u64>,
    /// Number of calls of `reclaim`.
    reclaimed: u32,
}

impl Contents {
    fn take(&mut self, batch: StateBatch) -> StateWritten {
        if batch.generation != self.generation {
            return StateWritten::Superseded;
        }
        write(&mut self.objects, batch.writes);
        for gone in batch.forgotten {
            self.history.remove(&gone);
        }
        for block in batch.history {
            self.history.insert((block.resource, block.through), (block.after, block.record));
        }
        if let Some(mark) = batch.mark {
            self.meta.insert(MetaKey::StateMark, mark);
        }
        StateWritten::Written
    }
}

impl MemoryDisk {
    /// Makes every operation fail from now on.
    pub(super) fn fail(&self) {
        self.contents.lock().failing = true;
    }

    /// Calls no append durable from now on.
    pub(super) fn hang(&self) {
        self.hanging.0.lock().get_or_insert_default();
    }

    /// Calls durable what was appended since it hangs, and hangs no more.
    pub(super) fn go_on(&self) {
        let held = self.hanging.0.lock().take();
        held.into_iter().flatten().for_each(|on_durable| on_durable(Ok(())));
    }

    /// Sets the free bytes.
    pub(super) fn leave(&self, free: u64) {
        self.contents.lock().free = Some(free);
    }

    /// Number of calls of `reclaim`.
    pub(super) fn reclaimed(&self) -> u32 {
        self.contents.lock().reclaimed
    }

    /// Changes one byte of the stored object at `path`, undetected by a checksum. `false` if it is not stored.
    pub(super) fn corrupt_object(&self, path: &str) -> bool {
        let mut contents = self.contents.lock();
        let Some((_, record)) = contents.objects.iter_mut().find(|((_, at), _)| **at == *path) else {
            return false;
        };
        let mut object = wire::StoredObject::decode(record.clone()).unwrap();
        let mut json = object.json.to_vec();
        let last = json.len() - 3;
        json[last] ^= 1;
        object.json = Bytes::from(json);
        *record = Bytes::from(object.encode_to_vec());
        true
    }

    /// Removes the stored object at `path` without a trace. `false` if it is not stored.
    pub(super) fn lose_object(&self, path: &str) -> bool {
        let mut contents = self.contents.lock();
        let before = contents.objects.len();
        contents.objects.retain(|(_, at), _| **at != *path);
        contents.objects.len() < before
    }

    /// Replaces a block of history by garbage.
    pub(crate) fn corrupt_block(&self, resource: &str, through: u64) {
        let mut contents = self.contents.lock();
        contents.history.get_mut(&(Box::from(resource), through)).unwrap().1 =
            Bytes::from_static(b"\xff\xff");
    }

    /// Removes a block of history.
    pub(crate) fn lose_block(&self, resource: &str, through: u64) {
        self.contents.lock().history.remove(&(Box::from(resource), through));
    }

    /// Sets the last change of `resource` in the stored mark back by one revision, as if a deletion had been missed.
    /// `false` if the mark has no change of it.
    pub(super) fn lose_change(&self, resource: &str) -> bool {
        let mut contents = self.contents.lock();
        let Some(mark) = contents.meta.get_mut(&MetaKey::StateMark) else { return false };
        let mut read = wire::StateMark::decode(mark.clone()).unwrap();
        let Some(change) = read.changed.iter_mut().find(|change| change.resource == resource) else {
            return false;
        };
        change.revision -= 1;
        *mark = Bytes::from(read.encode_to_vec());
        true
    }

    /// Removes the log and its purge marker.
    pub(super) fn lose_log(&self) {
        let mut contents = self.contents.lock();
        contents.log.clear();
        contents.meta.remove(&MetaKey::Purged);
    }

    /// Removes one log entry.
    pub(super) fn lose_entry(&self, index: u64) {
        self.contents.lock().log.remove(&index);
    }

    /// An independent disk with the same content.
    pub(crate) fn copy(&self) -> Self {
        let contents = self.contents.lock().clone();
        MemoryDisk { contents: Arc::new(Mutex::new(contents)), hanging: Hanging::default() }
    }

    pub(super) fn objects(&self) -> usize {
        self.contents.lock().objects.len()
    }

    fn contents(&self) -> Result<parking_lot::MutexGuard<'_, Contents>, DiskError> {
        let contents = self.contents.lock();
        let error = DiskError { operation: "test", reason: "the disk is gone".into() };
        if contents.failing { Err(error) } else { Ok(contents) }
    }
}

fn write(objects: &mut Objects, writes: Vec<StateWrite>) {
    for StateWrite { resource, path, record } in writes {
        match record {
            Some(record) => objects.insert((resource, path), record),
            None => objects.remove(&(resource, path)),
        };
    }
}

impl Disk for MemoryDisk {
    fn meta(&self, key: MetaKey) -> Result<Option<Bytes>, DiskError> {
        Ok(self.contents()?.meta.get(&key).cloned())
    }

    fn save_meta(&self, key: MetaKey, value: Bytes, on_durable: Option<OnDurable>) -> Result<(), DiskError> {
        self.contents()?.meta.insert(key, value);
        if let Some(on_durable) = on_durable {
            on_durable(Ok(()));
        }
        Ok(())
    }

    fn log_bounds(&self) -> Result<Option<(u64, u64)>, DiskError> {
        let contents = self.contents()?;
        let first = contents.log.first_key_value().map(|(index, _)| *index);
        Ok(first.zip(contents.log.last_key_value().map(|(index, _)| *index)))
    }

    fn append(&self, records: Vec<LogRecord>, on_durable: OnDurable) -> Result<(), DiskError> {
        self.contents()?.log.extend(records.into_iter().map(|record| (record.index, record.bytes)));
        if let Some(held) = &mut *self.hanging.0.lock() {
            held.push(on_durable);
            return Ok(());
        }
        on_durable(Ok(()));
        Ok(())
    }

    fn read_log(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<LogRecord>, DiskError> {
        let mut bytes = 0;
        let mut records = Vec::new();
        for (index, record) in self.contents()?.log.range(from..to) {
            check_start(from + records.len() as u64, *index)?;
            if bytes > 0 && bytes >= bytes_max {
                break;
            }
            bytes += record.len();
            records.push(LogRecord { index: *index, bytes: record.clone() });
        }
        Ok(records)
    }

    fn truncate_after(&self, index: Option<u64>) -> Result<(), DiskError> {
        self.contents()?.log.retain(|at, _| index.is_some_and(|index| *at <= index));
        Ok(())
    }

    fn purge_through(&self, index: u64, marker: Bytes) -> Result<(), DiskError> {
        let mut contents = self.contents()?;
        contents.meta.insert(MetaKey::Purged, marker);
        contents.log.retain(|at, _| *at > index);
        Ok(())
    }

    fn generation(&self) -> Result<Generation, DiskError> {
        Ok(self.contents()?.generation)
    }

    fn write_state(&self, batch: StateBatch, on_written: OnWritten) {
        let written = self.contents().map(|mut contents| contents.take(batch));
        on_written(written);
    }

    fn history(&self) -> Result<Vec<HistorySpan>, DiskError> {
        let contents = self.contents()?;
        let spans = contents.history.iter().map(|((resource, through), (after, record))| HistorySpan {
            resource: resource.clone(),
            after: *after,
            through: *through,
            bytes: record.len() as u64,
        });
        Ok(spans.collect())
    }

    fn read_history(
        &self,
        generation: Generation,
        resource: &str,
        through: u64,
    ) -> Result<Option<Bytes>, DiskError> {
        let contents = self.contents()?;
        let found = contents.history.get(&(Box::from(resource), through)).map(|(_, record)| record.clone());
        Ok(found.filter(|_| contents.generation == generation))
    }

    fn read_state(&self, each: &mut dyn FnMut(&str, &str, Bytes)) -> Result<(), DiskError> {
        let contents = self.contents()?;
        contents.objects.iter().for_each(|((resource, path), record)| each(resource, path, record.clone()));
        Ok(())
    }

    fn begin_install(&self) -> Result<Box<dyn Install>, DiskError> {
        Ok(Box::new(MemoryInstall { contents: self.contents.clone(), objects: Objects::new() }))
    }

    fn space(&self) -> Result<Option<Space>, DiskError> {
        Ok(self.contents()?.free.map(|free| Space { used: 0, free }))
    }

    fn reclaim(&self) {
        self.contents.lock().reclaimed += 1;
    }
}

struct MemoryInstall {
    contents: Arc<Mutex<Contents>>,
    objects: Objects,
}

impl Install for MemoryInstall {
    fn put(&mut self, writes: Vec<StateWrite>) -> Result<(), DiskError> {
        write(&mut self.objects, writes);
        Ok(())
    }

    fn commit(self: Box<Self>, mark: Bytes, on_installed: OnInstalled) {
        let mut contents = self.contents.lock();
        contents.objects = self.objects;
        contents.history.clear();
        contents.generation.0 += 1;
        contents.meta.insert(MetaKey::StateMark, mark);
        let generation = contents.generation;
        drop(contents);
        on_installed(Ok(generation));
    }
}
