//! The state on disk: reading it at start, and writing the changes that leave the history.
//!
//! Owns the stored form of objects and of older changes. Invariant: the stored state is always that of its mark.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use orch_proto::store as wire;

use super::writer::Step;
use crate::disk::{
    Disk, DiskError, Generation, HistoryBlock, Install, MetaKey, StateBatch, StateWrite, completed,
};
use crate::encoding::{DecodeError, decode, object_from_wire, object_to_wire};
use crate::key::{Key, Revision};
use crate::member::codec::Mark;
use crate::member::log::LogError;
use crate::object::SharedObject;
use crate::state::{Change, Evicted, State};

/// Bytes of objects in one block of history, roughly: a resuming watch reads one block at once.
const BLOCK_BYTES: usize = 256 << 10;

/// Reads the stored state and its mark.
pub(super) fn load_state(disk: &impl Disk) -> Result<(State, Mark), LogError> {
    let mark = disk.meta(MetaKey::StateMark)?.map(Mark::decode).transpose()?.unwrap_or_default();
    let mut restore = Restore::default();
    let mut failed = None;
    disk.read_state(&mut |resource, path, record| {
        if failed.is_none() {
            failed = restore.add(resource, path, record).err();
        }
    })?;
    match failed {
        Some(error) => Err(error.into()),
        None => Ok((restore.finish(&mark)?, mark)),
    }
}

/// Makes a received state, as of `mark`, the stored one, and waits until that is durable. Returns its generation.
pub(super) async fn commit(install: Box<dyn Install>, mark: &Mark) -> Result<Generation, DiskError> {
    let mark = mark.encode();
    let commit = |done| {
        install.commit(mark, done);
        Ok(())
    };
    completed("install", commit).await
}

/// Builds a state from stored objects.
#[derive(Default)]
pub(crate) struct Restore {
    state: State,
    /// The resource of the last object, so that its objects share one name.
    resource: Arc<str>,
    /// The newest revision of the objects added.
    newest: Revision,
}

impl Restore {
    /// Adds an object from its stored record.
    pub(crate) fn add(&mut self, resource: &str, path: &str, record: Bytes) -> Result<(), DecodeError> {
        self.add_object(resource, path, object_from_wire(decode("stored object", record)?)?)
    }

    /// Adds an object. Objects of one resource come in sequence. A second object under one key is an error: it would be counted
    /// twice and stored once.
    pub(crate) fn add_object(
        &mut self,
        resource: &str,
        path: &str,
        object: SharedObject,
    ) -> Result<(), DecodeError> {
        if *self.resource != *resource {
            self.resource = Arc::from(resource);
        }
        let key = Key::from_stored(self.resource.clone(), Arc::from(path));
        if self.state.object(&key).is_some() {
            return Err(DecodeError::new("state", format!("{resource} {path} is in it twice")));
        }
        self.newest = self.newest.max(object.revision);
        self.state.restore(&key, object);
        Ok(())
    }

    /// The whole state, as of `mark`. A mark that contradicts the objects is refused: with it, watches would skip changes.
    pub(crate) fn finish(mut self, mark: &Mark) -> Result<State, DecodeError> {
        let (at, changed) = (mark.revision(), mark.changed.as_ref());
        let newest = changed.into_iter().flat_map(BTreeMap::values).copied().fold(self.newest, Revision::max);
        if newest > at {
            return Err(DecodeError::new("state", format!("it is at {at} and holds a change of {newest}")));
        }
        // Every resource counts as changed at the beginning, which the mark does not repeat.
        let beginning = self.state.stored_beginning();
        if beginning > at {
            return Err(DecodeError::new("state", format!("it is at {at} and begins at {beginning}")));
        }
        for (resource, collection) in self.state.collections().filter(|_| changed.is_some()) {
            let told = changed.and_then(|changed| changed.get(resource)).copied().unwrap_or_default();
            let told = told.max(beginning);
            if collection.changed() > told {
                let newest = collection.changed();
                let reason = format!("{resource} last changed at {told} and holds an object of {newest}");
                return Err(DecodeError::new("state", reason));
            }
        }
        self.state.finish_restore(at, changed);
        Ok(self.state)
    }
}

/// The disk write of a step. Changes up to `aged` are too old for the history: they go into the stored state only.
pub(super) fn batch_of(step: &Step, aged: Revision) -> StateBatch {
    StateBatch {
        generation: step.generation,
        writes: stored_form(&step.leaving.changes),
        history: blocks_of(step, aged),
        forgotten: Vec::new(),
        mark: Some(step.mark.encode()),
    }
}

/// Changes as writes to the stored state: the last change of each object.
pub(super) fn stored_form(changes: &[Evicted]) -> Vec<StateWrite> {
    let mut newest: BTreeMap<(&Arc<str>, &Arc<str>), Option<&SharedObject>> = BTreeMap::new();
    for Evicted { resource, change } in changes {
        newest.insert((resource, &change.path), change.new.as_ref());
    }
    let write = |((resource, path), object): ((&Arc<str>, &Arc<str>), Option<&SharedObject>)| StateWrite {
        resource: Box::from(&**resource),
        path: Box::from(&**path),
        record: object.map(|object| Bytes::from(object_to_wire(object).encode_to_vec())),
    };
    newest.into_iter().map(write).collect()
}

/// The changes of a step after `aged` as blocks of history, by resource and revision. A block holds all changes of a
/// revision or none.
fn blocks_of(step: &Step, aged: Revision) -> Vec<HistoryBlock> {
    let mut runs: BTreeMap<&Arc<str>, Vec<&Change>> = BTreeMap::new();
    for Evicted { resource, change } in &step.leaving.changes {
        runs.entry(resource).or_default().push(change);
    }
    let mut blocks = Vec::new();
    for (resource, changes) in runs {
        let mut after = step.floors.get(resource).copied().unwrap_or_default();
        let (mut run, mut bytes) = (Vec::new(), 0);
        let mut changes = changes.into_iter().peekable();
        while let Some(change) = changes.next() {
            if change.revision <= aged {
                after = change.revision;
                continue;
            }
            bytes += change.object_bytes();
            run.push(change_to_wire(change));
            let ends_revision = changes.peek().is_none_or(|next| next.revision > change.revision);
            if bytes >= BLOCK_BYTES && ends_revision {
                blocks.push(block(resource, after, change.revision, std::mem::take(&mut run)));
                (after, bytes) = (change.revision, 0);
            }
        }
        if let Some(last) = run.last().map(|change| Revision(change.revision)) {
            blocks.push(block(resource, after, last, run));
        }
    }
    blocks
}

fn block(
    resource: &Arc<str>,
    after: Revision,
    through: Revision,
    changes: Vec<wire::HistoricChange>,
) -> HistoryBlock {
    let (first, last) = (changes.first().map(|one| one.revision), changes.last().map(|one| one.revision));
    assert!(first > Some(after.0), "a block of history begins after the one before it");
    assert_eq!(last, Some(through.0), "a block of history is found by its last change");
    let record = Bytes::from(wire::HistoryRecord { changes }.encode_to_vec());
    HistoryBlock { resource: Box::from(&**resource), after: after.0, through: through.0, record }
}

fn change_to_wire(change: &Change) -> wire::HistoricChange {
    let object = |object: &Option<SharedObject>| object.as_ref().map(|object| object_to_wire(object));
    wire::HistoricChange {
        revision: change.revision.0,
        time_ms: change.time_ms,
        path: change.path.to_string(),
        old: object(&change.old),
        new: object(&change.new),
    }
}

/// Decodes a block of history.
pub(super) fn changes_from_record(record: Bytes) -> Result<Arc<[Change]>, DecodeError> {
    let record: wire::HistoryRecord = decode("history", record)?;
    let change = |change: wire::HistoricChange| -> Result<Change, DecodeError> {
        Ok(Change {
            revision: Revision(change.revision),
            time_ms: change.time_ms,
            path: Arc::from(change.path),
            old: change.old.map(object_from_wire).transpose()?,
            new: change.new.map(object_from_wire).transpose()?,
        })
    };
    record.changes.into_iter().map(change).collect()
}
