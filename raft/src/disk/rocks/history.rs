//! Blocks of history beside the objects of a generation.
//!
//! Owns their keys, which sort behind those of all objects: a state key starts with the length of the resource's name,
//! and history keys with 65,535, which no name reaches. Blocks are in the column family of their generation and are
//! dropped with it. A block has two entries: a small span, listed at start, and its record. Both are written and
//! removed together.
//!
//! Damage here costs history only: it prevents no start.

use std::collections::BTreeMap;

use bytes::Bytes;
use rocksdb::{ReadOptions, WriteBatch};

use super::sealing::Place;
use super::state::Generations;
use super::{Core, failed, family, record};
use crate::disk::{DiskError, Generation, HistoryBlock, HistorySpan, StateBatch};

/// Prefix of the keys of history, where [`record::state_key`] writes a length: no resource's name has 65,535 bytes.
pub(super) const FIRST_KEY: [u8; 2] = [0xff, 0xff];
/// Key byte of the entries that list the blocks.
const SPANS: u8 = 0;
/// Key byte of the entries that hold their records.
const RECORDS: u8 = 1;
/// Bytes of a revision.
const REVISION_BYTES: usize = 8;

/// Adds the puts and deletes of the history blocks in `step` to the batch.
pub(super) fn put_blocks(
    core: &Core,
    batch: &mut WriteBatch,
    generation: &str,
    step: &StateBatch,
) -> Result<(), DiskError> {
    let objects = family(&core.db, generation)?;
    for (resource, through) in &step.forgotten {
        batch.delete_cf(&objects, key(SPANS, resource, *through));
        batch.delete_cf(&objects, key(RECORDS, resource, *through));
    }
    let mut value = Vec::new();
    for block in &step.history {
        assert!(block.after < block.through, "a block of history ends after it begins");
        let (span, body) = (key(SPANS, &block.resource, block.through), span_body(block));
        record::seal_into(&mut value, &span, &body);
        batch.put_cf(&objects, &span, &value);
        let at = key(RECORDS, &block.resource, block.through);
        core.seal_into(Place::History(&block.resource), &at, &block.record, &mut value)?;
        batch.put_cf(&objects, &at, &value);
    }
    Ok(())
}

impl Core {
    /// The listed blocks of the current generation. A damaged entry is listed as an empty block, so that it is removed
    /// with the blocks before it, which cannot be reached past it.
    pub(super) fn history(&self) -> Result<Vec<HistorySpan>, DiskError> {
        self.list_history(&self.generations.read())
    }

    fn list_history(&self, generations: &Generations) -> Result<Vec<HistorySpan>, DiskError> {
        self.fuse.check()?;
        let objects = family(&self.db, &generations.family())?;
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(start(SPANS));
        options.set_iterate_upper_bound(start(RECORDS));
        options.fill_cache(false);
        let mut entries = self.db.raw_iterator_cf_opt(&objects, options);
        entries.seek_to_first();
        let mut spans = Vec::new();
        while let Some((at, value)) = entries.item() {
            let body = record::unseal("read history", at, value);
            let listed = body.and_then(|body| span(at, body).ok_or_else(|| damaged(at)));
            if let Err(error) = &listed {
                tracing::warn!(%error, "history up to a damaged block is forgotten");
            }
            spans.extend(listed.ok().or_else(|| span(at, &empty_body(at)?)));
            entries.next();
        }
        if let Err(error) = entries.status() {
            let error = failed("read history")(error);
            tracing::warn!(%error, blocks = spans.len(), "the list of history ends early");
        }
        Ok(spans)
    }

    /// Deletes whole tables that hold only records of removed blocks. Such records in other tables go when those are
    /// compacted.
    pub(super) fn drop_gone_history(&self) -> Result<(), DiskError> {
        // The lock prevents that a block is added after the listing: its record could be in a deleted table.
        let generations = self.generations.write();
        let objects = family(&self.db, &generations.family())?;
        for (from, to) in gaps(&self.list_history(&generations)?) {
            self.db.delete_file_in_range_cf(&objects, from, to).map_err(failed("drop history"))?;
        }
        Ok(())
    }

    /// The record of one block; `None` if `generation` is not current or lacks the block.
    pub(super) fn read_history(
        &self,
        generation: Generation,
        resource: &str,
        through: u64,
    ) -> Result<Option<Bytes>, DiskError> {
        self.fuse.check()?;
        let generations = self.generations.read();
        if generations.current() != generation {
            return Ok(None);
        }
        let at = key(RECORDS, resource, through);
        let objects = family(&self.db, &generations.family())?;
        let stored = self.db.get_pinned_cf(&objects, &at).map_err(failed("read history"))?;
        stored.map(|value| self.unseal("read history", Place::History(resource), &at, &value)).transpose()
    }
}

/// The key ranges without records of listed blocks: before each resource's oldest block, and behind its newest. Both ends
/// of a range are included, as RocksDB includes them.
fn gaps(spans: &[HistorySpan]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut kept: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for span in spans {
        let (oldest, newest) = kept.entry(&span.resource).or_insert((span.through, span.through));
        (*oldest, *newest) = (span.through.min(*oldest), span.through.max(*newest));
    }
    let mut gaps = Vec::with_capacity(kept.len() + 1);
    let mut from = start(RECORDS).to_vec();
    for (resource, (oldest, newest)) in kept {
        gaps.push((from, key(RECORDS, resource, oldest.saturating_sub(1))));
        from = key(RECORDS, resource, newest.saturating_add(1));
    }
    gaps.push((from, start(RECORDS + 1).to_vec()));
    gaps
}

fn start(entries: u8) -> [u8; 3] {
    [FIRST_KEY[0], FIRST_KEY[1], entries]
}

/// The resource of the key of a block's record; `None` for any other key.
pub(super) fn resource_of_record(key: &[u8]) -> Option<&str> {
    let name = key.strip_prefix(&start(RECORDS))?.split_last_chunk::<REVISION_BYTES>()?.0;
    std::str::from_utf8(name.strip_suffix(&[0])?).ok()
}

/// The NUL ends the resource's name, which holds none, so that the keys of two resources never mix.
fn key(entries: u8, resource: &str, through: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(3 + resource.len() + 1 + REVISION_BYTES);
    key.extend_from_slice(&start(entries));
    key.extend_from_slice(resource.as_bytes());
    key.push(0);
    key.extend_from_slice(&through.to_be_bytes());
    key
}

fn span_body(block: &HistoryBlock) -> [u8; 2 * REVISION_BYTES] {
    let mut body = [0; 2 * REVISION_BYTES];
    body[..REVISION_BYTES].copy_from_slice(&block.after.to_be_bytes());
    body[REVISION_BYTES..].copy_from_slice(&(block.record.len() as u64).to_be_bytes());
    body
}

/// The body of an empty block's span: `after` equals `through`.
fn empty_body(key: &[u8]) -> Option<[u8; 2 * REVISION_BYTES]> {
    let through = key.last_chunk::<REVISION_BYTES>()?;
    let mut body = [0; 2 * REVISION_BYTES];
    body[..REVISION_BYTES].copy_from_slice(through);
    Some(body)
}

fn span(key: &[u8], body: &[u8]) -> Option<HistorySpan> {
    let (name, through) = key.get(3..)?.split_last_chunk::<REVISION_BYTES>()?;
    let (after, bytes) = body.split_first_chunk::<REVISION_BYTES>()?;
    Some(HistorySpan {
        resource: std::str::from_utf8(name.strip_suffix(&[0])?).ok()?.into(),
        after: u64::from_be_bytes(*after),
        through: u64::from_be_bytes(*through),
        bytes: u64::from_be_bytes(bytes.try_into().ok()?),
    })
}

fn damaged(key: &[u8]) -> DiskError {
    let reason = format!("{} does not name a block of history", key.escape_ascii());
    DiskError { operation: "read history", reason }
}
