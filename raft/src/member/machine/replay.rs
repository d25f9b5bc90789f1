//! Replaying: the state that a disk has with its whole log, without a member that runs on it.
//!
//! Owns the application of entries that are not known to be committed. That is for a cluster whose quorum is lost alone: the
//! last entries of a survivor may have been acknowledged by a majority that no longer exists. A member that takes part never
//! does it.

use openraft::EntryPayload;

use super::store::load_state;
use super::{Batch, Writer};
use crate::disk::{Disk, DiskError, Generation};
use crate::encoding::{DecodeError, FEATURE_LEVEL_MAX, decode, decode_transaction};
use crate::key::Revision;
use crate::member::codec::{Mark, entry_from_wire};
use crate::member::feature::FeatureLevel;
use crate::member::identity::cluster_key;
use crate::member::log::LogError;
use crate::member::proposals::Proposals;
use crate::state::{HistoryBounds, ORIGIN, State};

/// Bytes of the log that are read at once, roughly: the memory that replaying needs beside the state.
const READ_BYTES: usize = 2 << 20;

/// The state at the end of a log.
pub(crate) struct Replayed {
    pub(crate) state: State,
    /// Its mark, without the changes of resources.
    pub(crate) mark: Mark,
    /// Time of its last write, by its proposer's clock, in milliseconds since 1970; 0 where none is known. The last by its
    /// place in the log, whatever the times of others are: the clock of one proposer may have been far ahead once.
    pub(crate) last_ms: u64,
}

/// Reads the stored state and applies every entry of the log after it, also those that were never called committed.
///
/// # Errors
/// The disk cannot be read, the log has a gap, or an entry was written by a newer program.
pub(crate) fn replay(disk: &impl Disk) -> Result<Replayed, LogError> {
    let (state, mark) = load_state(disk)?;
    let mut last_ms = last_written_ms(&state);
    let mut writer = Writer::new(state, &mark, Generation::default());
    // No proposal of the log came from here, so that no outcome is waited for.
    let proposals = Proposals::new(u64::MAX, u64::MAX, FeatureLevel::of(FEATURE_LEVEL_MAX));
    let mut unused = Batch::default();
    if let Some((first, last)) = disk.log_bounds()? {
        let mut next = mark.log_id.map_or(first, |id| id.index.saturating_add(1));
        while next <= last {
            let records = disk.read_log(next, last.saturating_add(1), READ_BYTES)?;
            if records.is_empty() {
                let reason = format!("entry {next} is missing");
                return Err(DiskError { operation: "read log", reason }.into());
            }
            for record in records {
                let entry = entry_from_wire(decode("log entry", record.bytes)?, FEATURE_LEVEL_MAX)?;
                if let EntryPayload::Normal(command) = &entry.payload {
                    let proposed_ms = decode_transaction(command.0.clone())?.1.proposed_ms;
                    last_ms = if proposed_ms == 0 { last_ms } else { proposed_ms };
                }
                let applied = writer.apply(&entry, &proposals, &mut unused);
                applied.map_err(|error| DecodeError::new("log", error))?;
                next = record.index.saturating_add(1);
            }
            unused = Batch::default();
            // There is no watch, so that no change has to be kept.
            let through = writer.state.applied();
            writer.state.trim_history(&HistoryBounds { through, ..HistoryBounds::NONE });
        }
    }
    let mark = writer.lineage.now();
    assert_eq!(mark.revision(), Revision(writer.state.applied().0), "a state is at the revision of its mark");
    Ok(Replayed { state: writer.state, mark, last_ms })
}

/// The time of the object with the highest revision. A later deletion leaves no time: then the write was before it.
fn last_written_ms(state: &State) -> u64 {
    let objects = state.collections().flat_map(|(_, collection)| collection.range_from(""));
    let newest = objects.map(|(_, object)| object).max_by_key(|object| object.revision);
    // Where a cluster begins, every object has the revision of the beginning, and keeps the time of an earlier write.
    let origin = state.object(&cluster_key(ORIGIN));
    let newest =
        origin.filter(|origin| newest.is_some_and(|newest| newest.revision == origin.revision)).or(newest);
    newest.map_or(0, |object| object.written_ms)
}
