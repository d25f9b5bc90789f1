//! Filling an empty disk with the state of a new cluster.
//!
//! Owns the form of that disk: the objects at the beginning, the mark and a purged log there, a vote of the member for
//! itself, and the member's identity with a founding of its own. For the member that starts on it, it is the disk of a
//! voter that was sent a snapshot. The cluster has agreed on the feature level at which the beginning is known, whatever the
//! earlier one had agreed on: a program that does not know it refuses the disk, and is refused as a member.
//!
//! The objects go into any [`Install`], so that a restore test makes them in memory ([`super::rehearsal`]).

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use orch_proto::store as wire;
use prost::Message;

use super::{Made, NewCluster, Origin, ReseedError, require_known_level};
use crate::archive::Record;
use crate::disk::{Disk, Install, MetaKey, StateWrite, completed};
use crate::encoding::{DecodeError, LEVEL_BEGINNING, object_to_wire};
use crate::key::Revision;
use crate::member::codec::{Mark, log_id_to_wire, peer_to_wire, vote_to_wire};
use crate::member::consensus::{Membership, Place, StoredMembership, Vote, log_id};
use crate::member::feature::{agreed_feature_level, is_level, level_put};
use crate::member::identity::{
    ClusterIdentity, cluster_key, identity_put, is_of_one_cluster, origin_put, save,
};
use crate::member::options::ClusterSeed;
use crate::object::{Object, splice_revision};
use crate::state::{CLUSTER_RESOURCE, Fingerprint, State};
use crate::transaction::Put;

/// Bytes of records that are written at once: the memory that filling needs.
const BATCH_BYTES: usize = 4 << 20;

/// All contents of a disk that was filled, which [`super::check()`] compares.
pub struct Filled {
    /// Without the place of the old store, which is not known here.
    pub made: Made,
    pub(super) mark: Mark,
    pub(super) fingerprint: Fingerprint,
    pub(super) identity: wire::Identity,
}

/// Fills the empty `disk` with the `records` of the cluster of `origin`, for the cluster of `new`, whose log begins in `term`.
/// Durable when this returns.
///
/// # Errors
/// The disk or the source of the records failed; the records are of no cluster, or newer than the beginning; the new cluster
/// has the earlier one's name.
pub async fn fill(
    disk: &impl Disk,
    origin: &Origin,
    new: &NewCluster,
    term: u64,
    records: impl Iterator<Item = Result<Record, ReseedError>>,
) -> Result<Filled, ReseedError> {
    fill_as(disk, origin, new, term, records, another_name).await
}

/// The identity of the new cluster, whose name is never the earlier one's.
pub(super) fn another_name(earlier: &ClusterIdentity, new: &NewCluster) -> Result<ClusterSeed, ReseedError> {
    match earlier.cluster == new.seed.cluster {
        true => Err(ReseedError::SameCluster(earlier.cluster.clone())),
        false => Ok(ClusterSeed { brand: earlier.brand.clone(), ..new.seed.clone() }),
    }
}

/// [`fill`] with the identity that `seed` gives: a test plants the earlier one.
pub(crate) async fn fill_as(
    disk: &impl Disk,
    origin: &Origin,
    new: &NewCluster,
    term: u64,
    records: impl Iterator<Item = Result<Record, ReseedError>>,
    seed: impl FnOnce(&ClusterIdentity, &NewCluster) -> Result<ClusterSeed, ReseedError>,
) -> Result<Filled, ReseedError> {
    let installed = install(disk.begin_install()?, origin, new, term, records, seed).await?;
    let Installed { cluster, brand, founding, fingerprint, mark } = installed;
    save_vote_and_log(disk, new, term).await?;
    let identity = wire::Identity {
        node: new.member.id.0,
        name: new.member.name.to_string(),
        cluster: cluster.to_string(),
        brand: brand.to_string(),
        directory: new.directory.clone(),
        founding: Some(founding),
        starts: 1,
        unannounced: true,
        ..wire::Identity::default()
    };
    // Last, and everything written before becomes durable with it.
    save(disk, &identity).await?;
    let (beginning, objects) = (new.beginning, fingerprint.objects());
    let made = Made { cluster, brand, beginning, objects, kept: None };
    Ok(Filled { made, mark, fingerprint, identity })
}

/// A state that was installed.
pub(super) struct Installed {
    cluster: Arc<str>,
    brand: Arc<str>,
    founding: wire::Founding,
    /// Of all objects of the new cluster.
    pub(super) fingerprint: Fingerprint,
    mark: Mark,
}

/// Puts the objects of a new cluster into `install`: the `records` and its own. See [`fill_as`].
pub(super) async fn install(
    install: Box<dyn Install>,
    origin: &Origin,
    new: &NewCluster,
    term: u64,
    records: impl Iterator<Item = Result<Record, ReseedError>>,
    seed: impl FnOnce(&ClusterIdentity, &NewCluster) -> Result<ClusterSeed, ReseedError>,
) -> Result<Installed, ReseedError> {
    if new.beginning <= origin.revision {
        return Err(ReseedError::BeginsTooEarly { beginning: new.beginning, revision: origin.revision });
    }
    let mut filling = Filling::begin(install, new);
    for record in records {
        filling.add(&record?)?;
    }
    require_known_level(&filling.own)?;
    let earlier = ClusterIdentity::read(&filling.own).ok_or(ReseedError::NoCluster)?;
    let seed = seed(&earlier, new)?;
    let (cluster, brand) = (seed.cluster.clone(), seed.brand.clone());
    let founder = wire::Founder { member: Some(peer_to_wire(&new.member)), directory: new.directory.clone() };
    let founding = wire::Founding { cluster: cluster.to_string(), founders: vec![founder] };
    filling.put(&identity_put(&seed, &founding))?;
    filling.put(&origin_put(new.beginning, &earlier))?;
    let level = agreed_feature_level(&filling.own).max(LEVEL_BEGINNING);
    filling.put(&level_put(level))?;
    let fingerprint = filling.fingerprint;
    let mark = filling.commit(term).await?;
    Ok(Installed { cluster, brand, founding, fingerprint, mark })
}

/// The vote keeps the member's next term above that of its log.
async fn save_vote_and_log(disk: &impl Disk, new: &NewCluster, term: u64) -> Result<(), ReseedError> {
    let vote = Vote::new(term, new.member.id.0);
    disk.save_meta(MetaKey::Vote, Bytes::from(vote_to_wire(&vote).encode_to_vec()), None)?;
    let purged = log_id_to_wire(&log_id(term, new.beginning)).encode_to_vec();
    disk.purge_through(new.beginning, Bytes::from(purged))?;
    Ok(())
}

/// A state that is being installed.
struct Filling<'a> {
    install: Box<dyn Install>,
    new: &'a NewCluster,
    batch: Vec<StateWrite>,
    bytes: usize,
    /// Fingerprint of the objects added.
    fingerprint: Fingerprint,
    /// The store's own objects of the earlier cluster that the new one has in another form.
    own: State,
}

impl<'a> Filling<'a> {
    fn begin(install: Box<dyn Install>, new: &'a NewCluster) -> Self {
        let (batch, own, fingerprint) = (Vec::new(), State::default(), Fingerprint::default());
        Filling { install, new, batch, bytes: 0, fingerprint, own }
    }

    /// Adds an object of the earlier cluster, as if it was written again at the beginning.
    fn add(&mut self, record: &Record) -> Result<(), ReseedError> {
        let Record { resource, path, object } = record;
        if **resource == *CLUSTER_RESOURCE && (is_of_one_cluster(path) || is_level(path)) {
            self.own.restore(&cluster_key(path), object.clone());
            return Ok(());
        }
        let (revision, beginning) = (object.revision.0, self.new.beginning);
        if revision >= beginning {
            return Err(ReseedError::BeginsTooEarly { beginning, revision });
        }
        self.write(resource, path, &renewed(object, Revision(beginning)))
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
        self.write(put.key.resource(), put.key.path(), &object)
    }

    fn write(&mut self, resource: &str, path: &str, object: &Object) -> Result<(), ReseedError> {
        self.fingerprint.add(resource, path, object);
        let record = Bytes::from(object_to_wire(object).encode_to_vec());
        self.bytes += path.len() + record.len();
        let (resource, path) = (Box::from(resource), Box::from(path));
        self.batch.push(StateWrite { resource, path, record: Some(record) });
        if self.bytes >= BATCH_BYTES {
            self.bytes = 0;
            self.install.put(std::mem::take(&mut self.batch))?;
        }
        Ok(())
    }

    /// Makes the objects the disk's state, at a mark with the new membership, which it returns.
    async fn commit(mut self, term: u64) -> Result<Mark, ReseedError> {
        self.install.put(std::mem::take(&mut self.batch))?;
        let (member, at) = (&self.new.member, log_id(term, self.new.beginning));
        let places = BTreeMap::from([(member.id.0, Place::of(member))]);
        let membership = Membership::new(vec![[member.id.0].into()], places);
        let membership = membership.map_err(|error| DecodeError::new("membership", error))?;
        let membership = StoredMembership::new(Some(at), membership);
        // Every resource last changed at the beginning, which the objects tell.
        let mark = Mark { log_id: Some(at), membership, changed: Some(BTreeMap::new()) };
        let (install, encoded) = (self.install, mark.encode());
        let commit = |done| {
            install.commit(encoded, done);
            Ok(())
        };
        completed("install", commit).await?;
        Ok(mark)
    }
}

/// An object as if this version was written at `revision`. The revision of its creation stays.
fn renewed(object: &Object, revision: Revision) -> Object {
    let (before, behind) = object.json_around_revision();
    let digits = revision.0.to_string();
    Object {
        revision,
        created: object.created,
        written_ms: object.written_ms,
        json: Bytes::from([before, digits.as_bytes(), behind].concat()),
        revision_at: object.revision_at,
        index: object.index.clone(),
        protobuf: OnceLock::new(),
    }
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
        let made = renewed(&object_from_wire(stored.clone()).unwrap(), Revision(1_000_007));
        let json = Bytes::from_static(br#"{"metadata":{"resourceVersion":"1000007","x":1}}"#);
        let expected = wire::StoredObject { revision: 1_000_007, json, ..stored };
        assert_eq!(object_to_wire(&made), expected);
        assert!(object_from_wire(expected).is_ok());
    }
}
