//! The check for log entries in clear that the encryption configuration forbids, at a start.
//!
//! Owns that check alone. An old entry is read long after a start, by a leader for a member that is behind, and an entry that
//! cannot be read ends that leader: the start is refused instead, as for a missing key. Objects need no check, since each
//! start reads them; a block of history in clear costs that block.

use rocksdb::ReadOptions;

use super::record::{self, Body};
use super::sealing::Place;
use super::{CF_LOG, Core, failed, family};
use crate::disk::DiskError;

/// Readahead of the pass over the log.
const READ_AHEAD_BYTES: usize = 2 << 20;

impl Core {
    /// A resource whose objects stand in clear in a log entry, although the cipher forbids that. Reads the log, unless the
    /// cipher allows everything in clear.
    pub(super) fn find_forbidden_plain_entry(&self) -> Result<Option<String>, DiskError> {
        let Some(cipher) = self.sealing.cipher().filter(|cipher| cipher.forbids_plain()) else {
            return Ok(None);
        };
        let Some((first, _)) = self.bounds.read().span() else { return Ok(None) };
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        options.set_readahead_size(READ_AHEAD_BYTES);
        let mut entries = self.db.raw_iterator_cf_opt(&family(&self.db, CF_LOG)?, options);
        entries.seek(record::log_key(first));
        while let Some((key, value)) = entries.item() {
            // Damage is reported to the readers of the entry.
            if let Ok(Body::Plain(plain)) = record::unseal_any("read log", key, value)
                && let Ok(resources) = Place::Entry.resources(plain)
                && let Some(found) = resources.into_iter().find(|resource| !cipher.reads_plain(&[resource]))
            {
                return Ok(Some(found.to_owned()));
            }
            entries.next();
        }
        entries.status().map_err(failed("read log"))?;
        Ok(None)
    }
}
