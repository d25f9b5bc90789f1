//! Filling an empty disk with the state of a new cluster.
//!
//! Owns the form of that disk: the objects at the beginning, the mark and a purged log there, a vote of the member for
//! itself, and the member's identity with a founding of its own. For the member that starts on it, it is the disk of a
//! voter that was sent a snapshot.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use orch_proto::store as wire;
use prost::Message;

use super::{Made, NewCluster, Origin, ReseedError};
use crate::archive::Record;
use crate::disk::{Disk, Install, MetaKey, StateWrite, completed};
use crate::encoding::{DecodeError, object_to_wire};
use crate::key::Revision;
use crate::member::codec::{Mark, log_id_to_wire, peer_to_wire, vote_to_wire};
use crate::member::consensus::{Membership, Place, StoredMembership, Vote, log_id};
use crate::member::identity::{
    ClusterIdentity, cluster_key, identity_put, is_of_one_cluster, origin_put, save,
};
use crate::member::machine::replay;
use crate::member::options::ClusterSeed;
use crate::object::{Object, splice_revision};
use crate::state::{CLUSTER_RESOURCE, State};
use crate::transaction::Put;

/// Bytes of records that are written at once: the memory that filling needs.
const BATCH_BYTES: usize = 4 << 20;

/// Fills the empty `disk` with the `records` of the cluster of `origin`, for the cluster of `new`, whose log begins in `term`.
/// Durable when this returns; then the disk has been read again, and holds what was written.
pub(crate) async fn fill(
    disk: &impl Disk,
    origin: &Origin,
    new: &NewCluster,
    term: u64,
    records: impl Iterator<Item = Result<Record, ReseedError>>,
) -> Result<Made, ReseedError> {
    if new.beginning <= origin.revision {
        return Err(ReseedError::BeginsTooEarly { beginning: new.beginning, revision: origin.revision });
    }
    let mut filling = Filling::begin(disk, new)?;
    for record in records {
        filling.add(&record?)?;
    }
    let earlier = ClusterIdentity::read(&filling.own).ok_or(ReseedError::NoCluster)?;
    if earlier.cluster == new.seed.cluster {
        return Err(ReseedError::SameCluster(earlier.cluster));
    }
    let founder = wire::Founder { member: Some(peer_to_wire(&new.member)), directory: new.directory.clone() };
    let founding = wire::Founding { cluster: new.seed.cluster.to_string(), founders: vec![founder] };
    let seed = ClusterSeed { brand: earlier.brand.clone(), ..new.seed.clone() };
    filling.put(&identity_put(&seed, &founding))?;
    filling.put(&origin_put(new.beginning, &earlier))?;
    let objects = filling.objects;
    filling.commit(term).await?;
    save_vote_and_log(disk, new, term).await?;
    let identity = wire::Identity {
        node: new.member.id.0,
        name: new.member.name.to_string(),
        cluster: seed.cluster.to_string(),
        brand: seed.brand.to_string(),
        directory: new.directory.clone(),
        founding: Some(founding),
        starts: 1,
        unannounced: true,
        ..wire::Identity::default()
    };
    // Last, and everything written before becomes durable with it.
    save(disk, &identity).await?;
    check(disk, new, objects)?;
    let (cluster, brand) = (seed.cluster, seed.brand);
    Ok(Made { cluster, brand, beginning: new.beginning, objects, kept: None })
}

/// The vote keeps the member's next term above that of its log.
async fn save_vote_and_log(disk: &impl Disk, new: &NewCluster, term: u64) -> Result<(), ReseedError> {
    let vote = Vote::new(term, new.member.id.0);
    disk.save_meta(MetaKey::Vote, Bytes::from(vote_to_wire(&vote).encode_to_vec()), None)?;
    let purged = log_id_to_wire(&log_id(term, new.beginning)).encode_to_vec();
    disk.purge_through(new.beginning, Bytes::from(purged))?;
    Ok(())
}

/// Reads the filled disk as a member that starts will.
fn check(disk: &impl Disk, new: &NewCluster, objects: u64) -> Result<(), ReseedError> {
    let unfit = |reason: String| ReseedError::Unreadable { reason };
    let state = replay(disk)?.state;
    let found = state.fingerprint().objects();
    if found != objects || state.applied().0 != new.beginning || state.beginning() != state.applied() {
        let (applied, begins) = (state.applied(), state.beginning());
        return Err(unfit(format!(
            "{objects} objects were written at {}, and {found} read, at {applied}, beginning at {begins}",
            new.beginning
        )));
    }
    Ok(())
}

/// A disk that is being filled.
struct Filling<'a> {
    install: Box<dyn Install>,
    new: &'a NewCluster,
    batch: Vec<StateWrite>,
    bytes: usize,
    objects: u64,
    /// The store's own objects of the earlier cluster that the new one does not keep.
    own: State,
}

impl<'a> Filling<'a> {
    fn begin(disk: &impl Disk, new: &'a NewCluster) -> Result<Self, ReseedError> {
        let (batch, own) = (Vec::new(), State::default());
        Ok(Filling { install: disk.begin_install()?, new, batch, bytes: 0, objects: 0, own })
    }

    /// Adds an object of the earlier cluster, as if it was written again at the beginning.
    fn add(&mut self, record: &Record) -> Result<(), ReseedError> {
        let Record { resource, path, object } = record;
        if **resource == *CLUSTER_RESOURCE && is_of_one_cluster(path) {
            self.own.restore(&cluster_key(path), object.clone());
            return Ok(());
        }
        let (revision, beginning) = (object.revision.0, self.new.beginning);
        if revision >= beginning {
            return Err(ReseedError::BeginsTooEarly { beginning, revision });
        }
        let record = Some(renewed(object, beginning));
        self.write(StateWrite { resource: Box::from(&**resource), path: Box::from(&**path), record })
    }

    /// Adds an object of the new cluster's own.
    fn put(&mut self, put: &Put) -> Result<(), ReseedError> {
        let revision = Revision(self.new.beginning);
        let object = Object {
            revision,
            created: revision,
            written_ms: self.new.now_ms,
            json: splice_revision(&put.json, put.revision_at as usize, revision),
            revision_at: put.revision_at,
            index: put.index.clone(),
            protobuf: OnceLock::new(),
        };
        let record = Bytes::from(object_to_wire(&object).encode_to_vec());
        let (resource, path) = (Box::from(&**put.key.resource()), Box::from(&**put.key.path()));
        self.write(StateWrite { resource, path, record: Some(record) })
    }

    fn write(&mut self, write: StateWrite) -> Result<(), ReseedError> {
        self.objects += 1;
        self.bytes += write.path.len() + write.record.as_ref().map_or(0, Bytes::len);
        self.batch.push(write);
        if self.bytes >= BATCH_BYTES {
            self.bytes = 0;
            self.install.put(std::mem::take(&mut self.batch))?;
        }
        Ok(())
    }

    /// Makes the objects the disk's state, at a mark with the new membership.
    async fn commit(mut self, term: u64) -> Result<(), ReseedError> {
        self.install.put(std::mem::take(&mut self.batch))?;
        let (member, at) = (&self.new.member, log_id(term, self.new.beginning));
        let places = BTreeMap::from([(member.id.0, Place::of(member))]);
        let membership = Membership::new(vec![[member.id.0].into()], places);
        let membership = membership.map_err(|error| DecodeError::new("membership", error))?;
        let membership = StoredMembership::new(Some(at), membership);
        // Every resource last changed at the beginning, which the objects tell.
        let mark = Mark { log_id: Some(at), membership, changed: Some(BTreeMap::new()) }.encode();
        let install = self.install;
        let commit = |done| {
            install.commit(mark, done);
            Ok(())
        };
        completed("install", commit).await?;
        Ok(())
    }
}

/// The record of an object, as if this version was written at `revision`. The revision of its creation stays.
fn renewed(object: &Object, revision: u64) -> Bytes {
    let (before, behind) = object.json_around_revision();
    let digits = revision.to_string();
    let json = Bytes::from([before, digits.as_bytes(), behind].concat());
    Bytes::from(wire::StoredObject { revision, json, ..object_to_wire(object) }.encode_to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::object_from_wire;

    #[test]
    fn a_renewed_object_differs_in_its_revision_alone() {
        let json = Bytes::from_static(br#"{"metadata":{"resourceVersion":"7","x":1}}"#);
        let index = wire::Index { uid: "u".into(), fields: vec!["by position".into()], ..Default::default() };
        let stored = wire::StoredObject {
            revision: 7,
            created: 3,
            written_ms: 9,
            json,
            revision_at: 32,
            index: Some(index),
            format: 0,
        };
        let record = renewed(&object_from_wire(stored.clone()).unwrap(), 1_000_007);
        let json = Bytes::from_static(br#"{"metadata":{"resourceVersion":"1000007","x":1}}"#);
        let expected = wire::StoredObject { revision: 1_000_007, json, ..stored };
        assert_eq!(wire::StoredObject::decode(record.clone()).unwrap(), expected);
        assert!(object_from_wire(wire::StoredObject::decode(record).unwrap()).is_ok());
    }
}
