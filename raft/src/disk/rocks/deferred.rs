//! Small values that wait for the next write.
//!
//! Owns the newest value of each key that was saved without a callback, until a batch takes it along. A killed process loses
//! what waits here, as a power loss does: [`Disk::save_meta`](crate::disk::Disk::save_meta) promises no more without a callback.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use rocksdb::{BoundColumnFamily, WriteBatch};

use super::record;
use crate::disk::MetaKey;

/// The values that wait; at most one for each key.
#[derive(Debug, Default)]
pub(super) struct Deferred(BTreeMap<MetaKey, Bytes>);

impl Deferred {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The waiting value of `key`.
    pub(super) fn get(&self, key: MetaKey) -> Option<Bytes> {
        self.0.get(&key).cloned()
    }

    /// Lets `value` wait, in place of an older one.
    pub(super) fn set(&mut self, key: MetaKey, value: Bytes) {
        self.0.insert(key, value);
    }

    /// Drops the waiting value of `key`.
    pub(super) fn forget(&mut self, key: MetaKey) {
        self.0.remove(&key);
    }

    /// Adds the values to `batch`, behind its own writes. They still wait: the caller forgets them once the batch is written.
    pub(super) fn put(&self, batch: &mut WriteBatch, meta: &Arc<BoundColumnFamily<'_>>) {
        for (key, value) in &self.0 {
            let name = record::meta_key(*key);
            batch.put_cf(meta, name, record::seal(name, value));
        }
    }
}
