//! Values beside the log on the disk: read and decoded, or an error that tells which of the two failed.
//!
//! Owns the error of reading the log, too, which is the same.

use prost::Message;

use crate::disk::{Disk, DiskError, MetaKey};
use crate::encoding::{DecodeError, decode};

/// An error of reading the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LogError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// Reads and decodes a metadata value beside the log; `None` where it was never written. `what` names it in errors.
pub(crate) fn read_meta<M: Message + Default>(
    disk: &impl Disk,
    key: MetaKey,
    what: &'static str,
) -> Result<Option<M>, LogError> {
    Ok(disk.meta(key)?.map(|bytes| decode(what, bytes)).transpose()?)
}
