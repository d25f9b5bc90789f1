//! A restore test: the restore of a snapshot into memory, which leaves nothing behind.
//!
//! Owns the comparison of what such a restore reads and makes with what was saved. The objects take the way of a real
//! restore ([`super::fill`]): each becomes one of the new cluster and is encoded; then it is decoded as the member that
//! starts decodes it, and put into a [`State`]. It opens no disk and changes nothing.
//!
//! The memory that it needs does not grow with the snapshot: the state in memory is filled with [`PART_BYTES`] of
//! objects, compared and dropped, part after part. Beside it there are a batch of encoded objects (4 MiB) and the blocks
//! of the reader (5 MiB before and after compression). Objects with short values and many labels take up to four times
//! their encoded bytes, so that it all stays below about 150 MiB.

use std::error::Error;
use std::mem::take;
use std::sync::Arc;

use bytes::Bytes;
use futures::executor::block_on;
use parking_lot::Mutex;

use super::fill::{another_name, install};
use super::{FIRST_TERM, NewCluster, Origin, ReseedError, beginning};
use crate::archive::{Header, Record};
use crate::disk::{DiskError, Generation, Install, OnInstalled, StateWrite};
use crate::encoding::{decode, object_from_wire};
use crate::key::Key;
use crate::member::identity::node_id;
use crate::member::options::ClusterSeed;
use crate::state::{Fingerprint, State};
use crate::transport::Peer;

/// Encoded bytes of the objects that are in memory together: enough that parts cost nothing, and little beside the state
/// that a member holds anyway.
const PART_BYTES: usize = 32 << 20;

/// The name of the member that the cluster in memory has.
const MEMBER: &str = "rehearsal";

/// A snapshot does not give back what was saved.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// A restore of it fails.
    #[error("the snapshot cannot be restored")]
    Restore(#[from] ReseedError),
    /// The objects that were read are others than those of the state that was saved.
    #[error(
        "the snapshot holds {found} objects, and not the {saved} that were saved, or one of them is another"
    )]
    Read {
        /// Number of objects in the state.
        saved: u64,
        /// Number of objects read.
        found: u64,
    },
    /// The objects in memory are others than those that the restore made.
    #[error(
        "a restore in memory has {found} objects, and not the {made} that it made, or one of them is another"
    )]
    Made {
        /// Number of objects made.
        made: u64,
        /// Number of objects in memory.
        found: u64,
    },
}

/// Restores the `records` of a snapshot with `header` into memory, and compares them with `saved`, the fingerprint of the
/// state that was saved. Returns the number of the snapshot's objects. The header is that of the state: its counts and
/// revision were compared by the reader of the snapshot.
///
/// # Errors
/// The records cannot be read or restored, or are others.
pub fn rehearse<E: Into<Box<dyn Error + Send + Sync>>>(
    header: &Header,
    saved: Fingerprint,
    records: impl Iterator<Item = Result<Record, E>>,
) -> Result<u64, RehearsalError> {
    rehearse_in_parts(header, saved, records, PART_BYTES)
}

fn rehearse_in_parts<E: Into<Box<dyn Error + Send + Sync>>>(
    header: &Header,
    saved: Fingerprint,
    records: impl Iterator<Item = Result<Record, E>>,
    part_bytes: usize,
) -> Result<u64, RehearsalError> {
    let (cluster, revision, time_ms) = (header.cluster.clone(), header.revision.0, header.time_ms);
    let origin = Origin { cluster, revision, time_ms };
    let new = new_cluster(&origin);
    let mut read = Fingerprint::default();
    let records = records.map(|record| {
        let record = record.map_err(|error| ReseedError::Source(error.into()))?;
        read.add(&record.resource, &record.path, &record.object);
        Ok(record)
    });
    let parts = Arc::new(Mutex::new(Parts { part_bytes, ..Parts::default() }));
    let memory = Box::new(Memory(parts.clone()));
    let made = block_on(install(memory, &origin, &new, FIRST_TERM, records, another_name))?.fingerprint;
    if read != saved {
        return Err(RehearsalError::Read { saved: saved.objects(), found: read.objects() });
    }
    let found = parts.lock().found;
    match found == made {
        true => Ok(read.objects()),
        false => Err(RehearsalError::Made { made: made.objects(), found: found.objects() }),
    }
}

/// A cluster that exists in memory alone, made at the time of `origin`.
fn new_cluster(origin: &Origin) -> NewCluster {
    let member = Peer { id: node_id(MEMBER), name: MEMBER.into(), address: format!("{MEMBER}:1").into() };
    // The key is that of no token: the cluster serves nothing.
    let cluster = format!("{}-{MEMBER}", origin.cluster).into();
    let seed = ClusterSeed { cluster, brand: "".into(), token_key: [0; 32] };
    let beginning = beginning(origin, origin.time_ms, 0);
    NewCluster { member, seed, directory: MEMBER.to_owned(), now_ms: origin.time_ms, beginning }
}

/// An installation into memory.
struct Memory(Arc<Mutex<Parts>>);

/// The part of the objects that is in memory, and the fingerprint of those before.
#[derive(Default)]
struct Parts {
    part: State,
    bytes: usize,
    part_bytes: usize,
    found: Fingerprint,
}

impl Parts {
    fn add(&mut self, write: StateWrite) -> Result<(), DiskError> {
        let failed = |reason: String| DiskError { operation: "restore in memory", reason };
        let StateWrite { resource, path, record } = write;
        let record = record.ok_or_else(|| failed(format!("{resource} {path} is removed")))?;
        self.bytes += record.len();
        let object = decode("stored object", record).and_then(object_from_wire);
        let object = object.map_err(|error| failed(format!("{resource} {path}: {error}")))?;
        self.part.restore(&Key::from_stored(Arc::from(resource), Arc::from(path)), object);
        if self.bytes >= self.part_bytes {
            self.end();
        }
        Ok(())
    }

    /// Counts the objects of the part, and drops them.
    fn end(&mut self) {
        self.bytes = 0;
        let part = take(&mut self.part);
        let collections = part.collections().map(|(resource, collection)| (&**resource, &**collection));
        self.found = self.found.join(Fingerprint::of(collections));
    }
}

impl Install for Memory {
    fn put(&mut self, writes: Vec<StateWrite>) -> Result<(), DiskError> {
        let mut parts = self.0.lock();
        writes.into_iter().try_for_each(|write| parts.add(write))
    }

    fn commit(self: Box<Self>, _mark: Bytes, on_installed: OnInstalled) {
        self.0.lock().end();
        on_installed(Ok(Generation(1)));
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::super::tests::records_of_state;
    use super::*;
    use crate::key::Revision;
    use crate::object::Object;

    fn header() -> Header {
        Header {
            cluster: "one".into(),
            revision: Revision(5),
            time_ms: 1_700_000_000_000,
            ..Header::default()
        }
    }

    fn fingerprint(records: &[Record]) -> Fingerprint {
        let mut sum = Fingerprint::default();
        records.iter().for_each(|record| sum.add(&record.resource, &record.path, &record.object));
        sum
    }

    fn rehearse_all(records: Vec<Record>, saved: Fingerprint, part: usize) -> Result<u64, RehearsalError> {
        rehearse_in_parts(&header(), saved, records.into_iter().map(io::Result::Ok), part)
    }

    #[test]
    fn saved_objects_are_restored_in_one_part_and_in_many() {
        let records = records_of_state();
        let (saved, count) = (fingerprint(&records), records.len() as u64);
        for part_bytes in [1, 100, PART_BYTES] {
            assert_eq!(rehearse_all(records.clone(), saved, part_bytes).unwrap(), count, "{part_bytes}");
        }
    }

    #[test]
    fn an_object_that_is_missing_or_another_is_found() {
        let records = records_of_state();
        let saved = fingerprint(&records);
        let is_pod = |record: &Record| &*record.resource == "pods";
        let pod = records.iter().position(is_pod).unwrap();
        let mut fewer = records.clone();
        fewer.remove(pod);
        let told = rehearse_all(fewer, saved, 1).unwrap_err();
        assert!(matches!(told, RehearsalError::Read { saved, found } if found + 1 == saved), "{told}");

        let mut changed = records.clone();
        let object = &*changed[pod].object;
        let index = object.index.clone();
        let (json, revision_at) = (object.json.clone(), object.revision_at);
        changed[pod].object = Arc::new(Object {
            revision: object.revision,
            created: object.created,
            written_ms: object.written_ms + 1,
            json,
            revision_at,
            index,
            protobuf: Default::default(),
        });
        let told = rehearse_all(changed, saved, 1).unwrap_err();
        assert!(matches!(told, RehearsalError::Read { saved, found } if found == saved), "{told}");
    }

    #[test]
    fn a_snapshot_that_no_restore_takes_is_refused() {
        let records = records_of_state();
        let pods: Vec<Record> =
            records.iter().filter(|record| &*record.resource == "pods").cloned().collect();
        let saved = fingerprint(&pods);
        let told = rehearse_all(pods, saved, PART_BYTES).unwrap_err();
        assert!(matches!(told, RehearsalError::Restore(ReseedError::NoCluster)), "{told}");

        let broken = records.into_iter().map(Ok).chain([Err(io::Error::other("the end is missing"))]);
        let told = rehearse(&header(), saved, broken).unwrap_err();
        assert!(matches!(told, RehearsalError::Restore(ReseedError::Source(_))), "{told}");
    }

    #[test]
    fn a_write_that_is_no_object_fails_and_counts_for_nothing() {
        let write = |record| StateWrite { resource: "pods".into(), path: "ns/a".into(), record };
        let mut memory = Memory(Arc::default());
        assert!(memory.put(vec![write(None)]).is_err());
        assert!(memory.put(vec![write(Some(Bytes::from_static(b"\xff\xff")))]).is_err());
        assert_eq!(memory.0.lock().found.objects(), 0);
    }
}
