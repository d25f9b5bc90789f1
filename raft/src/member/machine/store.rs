//! The state on disk: reading it at start, and what history leaves for it.
//!
//! Owns the stored form of objects. The stored state is always that of its mark.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use crate::disk::{Disk, MetaKey, StateWrite};
use crate::encoding::{DecodeError, decode, object_from_wire, object_to_wire};
use crate::key::Key;
use crate::member::codec::Mark;
use crate::member::log::LogError;
use crate::object::SharedObject;
use crate::state::{Evicted, State};

/// The stored state, and the point it is at.
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
        None => Ok((restore.finish(&mark), mark)),
    }
}

/// A state being put together from stored objects.
#[derive(Default)]
pub(crate) struct Restore {
    state: State,
    /// One name for all objects of a resource.
    resource: Arc<str>,
}

impl Restore {
    /// Adds an object as stored.
    pub(crate) fn add(&mut self, resource: &str, path: &str, record: Bytes) -> Result<(), DecodeError> {
        self.add_object(resource, path, object_from_wire(decode("stored object", record)?)?);
        Ok(())
    }

    /// Adds an object. Objects of one resource come together.
    pub(crate) fn add_object(&mut self, resource: &str, path: &str, object: SharedObject) {
        if *self.resource != *resource {
            self.resource = Arc::from(resource);
        }
        let key = Key::from_stored(self.resource.clone(), Arc::from(path));
        self.state.restore(&key, object);
    }

    /// The whole state, as of `mark`.
    pub(crate) fn finish(mut self, mark: &Mark) -> State {
        self.state.finish_restore(mark.revision());
        self.state
    }
}

/// Changes that left the history as writes to the stored state: only the last of each object counts.
pub(super) fn stored_form(evicted: Vec<Evicted>) -> Vec<StateWrite> {
    let mut newest: BTreeMap<(Arc<str>, Arc<str>), Option<SharedObject>> = BTreeMap::new();
    for Evicted { resource, change } in evicted {
        newest.insert((resource, change.path), change.new);
    }
    let write = |((resource, path), object): ((Arc<str>, Arc<str>), Option<SharedObject>)| StateWrite {
        resource: Box::from(&*resource),
        path: Box::from(&*path),
        record: object.map(|object| Bytes::from(object_to_wire(&object).encode_to_vec())),
    };
    newest.into_iter().map(write).collect()
}
