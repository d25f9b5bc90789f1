//! The objects of a snapshot that came so far.
//!
//! Owns their number and checksum, in memory and in the installation on the disk, until the end of the snapshot confirms them.

use bytes::Bytes;
use orch_proto::store as wire;
use prost::Message;

use crate::disk::{Install, StateWrite};
use crate::encoding::{DecodeError, check_format, object_from_wire};
use crate::member::machine::Restore;

/// Why objects are refused.
type Refusal = String;

/// The objects of a snapshot received so far.
pub(super) struct Receiving {
    pub(super) restore: Restore,
    pub(super) install: Box<dyn Install>,
    pub(super) objects: u64,
    pub(super) checksum: crc32fast::Hasher,
}

/// A snapshot whose stream has not ended, or broke.
pub(crate) struct Partial {
    /// The snapshot's mark, encoded. Streams with an equal mark carry the same snapshot.
    pub(super) mark: Bytes,
    pub(super) receiving: Receiving,
    /// Rounds of compaction since its last stream broke; not counted while a stream is open.
    pub(super) looks: u32,
}

impl Receiving {
    pub(super) fn begin(install: Box<dyn Install>) -> Self {
        Receiving { restore: Restore::default(), install, objects: 0, checksum: crc32fast::Hasher::new() }
    }

    pub(super) fn add(
        &mut self,
        objects: wire::SnapshotObjects,
        frame: &[u8],
        reads: u32,
    ) -> Result<(), DecodeError> {
        self.checksum.update(frame);
        let mut writes = Vec::with_capacity(objects.objects.len());
        for wire::SnapshotObject { resource, path, object } in objects.objects {
            let object = object.ok_or_else(|| DecodeError::new("snapshot", "an object is missing"))?;
            check_format("stored object", object.format, reads)?;
            let record = Some(Bytes::from(object.encode_to_vec()));
            self.restore.add_object(&resource, &path, object_from_wire(object)?)?;
            writes.push(StateWrite { resource: resource.into(), path: path.into(), record });
            self.objects += 1;
        }
        self.install.put(writes).map_err(|error| DecodeError::new("snapshot", error))
    }

    pub(super) fn check(&self, end: &wire::SnapshotEnd) -> Result<(), Refusal> {
        if self.objects == end.objects && self.checksum.clone().finalize() == end.checksum {
            return Ok(());
        }
        Err(format!("the snapshot is damaged: {} of {} objects came", self.objects, end.objects))
    }
}
