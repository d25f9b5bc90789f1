//! Reading a new cluster's disk back, as the member that starts on it will.
//!
//! Owns the comparison with what was written: every object by its fingerprint, the mark with the membership, the log, and the
//! member's identity. It changes nothing.

use orch_proto::store as wire;

use super::ReseedError;
use super::fill::Filled;
use crate::disk::{Disk, MetaKey};
use crate::member::identity::ClusterIdentity;
use crate::member::log::read_meta;
use crate::member::machine::{Replayed, replay};

/// Compares what is on `disk` with what it was filled with.
///
/// # Errors
/// It cannot be read, or is another.
pub fn check(disk: &impl Disk, filled: &Filled) -> Result<(), ReseedError> {
    let differs = |part: &str, found: String| {
        let reason = format!("{part} written to the new store and read again differ: {found} was read");
        Err(ReseedError::Unreadable { reason })
    };
    if let Some(bounds) = disk.log_bounds()? {
        return differs("no log entries", format!("{bounds:?}"));
    }
    let Replayed { state, mark, .. } = replay(disk)?;
    let (beginning, membership) = (state.beginning(), &mark.membership);
    if mark.log_id != filled.mark.log_id || beginning.0 != filled.made.beginning {
        return differs("the beginning", format!("{beginning}, with the mark at {:?}", mark.log_id));
    }
    if *membership != filled.mark.membership {
        return differs("the membership", format!("{membership:?}"));
    }
    let (expected, found) = (filled.fingerprint.objects(), state.fingerprint());
    if found != filled.fingerprint {
        return differs(&format!("{expected} objects"), format!("{} others", found.objects()));
    }
    let identity = read_meta::<wire::Identity>(disk, MetaKey::Identity, "identity")?;
    let cluster = ClusterIdentity::read(&state).map(|identity| identity.cluster);
    if identity.as_ref() != Some(&filled.identity) || cluster.as_ref() != Some(&filled.made.cluster) {
        let name = identity.map(|identity| identity.name);
        return differs("the identity", format!("that of member {name:?} of cluster {cluster:?}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::executor::block_on;
    use prost::Message;

    use super::super::tests::{anew, origin, records_of_state};
    use super::super::{fill, records};
    use super::*;
    use crate::disk::rocks::RocksDisk;
    use crate::disk::{StateBatch, StateWrite, completed};
    use crate::encoding::object_to_wire;
    use crate::key::Revision;
    use crate::member::consensus::{StoredMembership, log_id};
    use crate::member::identity::save;

    /// A disk that was filled, in a directory.
    fn filled() -> (tempfile::TempDir, RocksDisk, Filled) {
        let root = tempfile::tempdir().unwrap();
        let disk = RocksDisk::open(root.path()).unwrap();
        let records = records_of_state().into_iter().map(Ok);
        let filled = block_on(fill(&disk, &origin("one", 5), &anew("two", 1000), 1, records)).unwrap();
        (root, disk, filled)
    }

    /// The pod `path` on the disk becomes what `change` makes of it.
    fn change_pod(disk: &RocksDisk, path: &str, change: impl FnOnce(&mut wire::StoredObject)) {
        let Replayed { state, .. } = replay(disk).unwrap();
        let pod = records(&state).find(|record| &*record.path == path).unwrap();
        let mut stored = object_to_wire(&pod.object);
        change(&mut stored);
        let record = Some(Bytes::from(stored.encode_to_vec()));
        let write = StateWrite { resource: Box::from(&*pod.resource), path: Box::from(path), record };
        let generation = disk.generation().unwrap();
        let batch =
            StateBatch { generation, writes: vec![write], history: vec![], forgotten: vec![], mark: None };
        block_on(completed("write state", |done| {
            disk.write_state(batch, done);
            Ok(())
        }))
        .unwrap();
    }

    fn refused(disk: &RocksDisk, filled: &Filled) -> String {
        check(disk, filled).unwrap_err().to_string()
    }

    #[test]
    fn a_disk_that_holds_what_was_written_passes() {
        let (_root, disk, filled) = filled();
        check(&disk, &filled).unwrap();
        assert_eq!(replay(&disk).unwrap().state.applied(), Revision(1000));
    }

    #[test]
    fn objects_of_the_right_number_and_another_content_are_found() {
        let (_root, disk, filled) = filled();
        change_pod(&disk, "ns/x", |pod| pod.written_ms += 1);
        let refused = refused(&disk, &filled);
        assert!(refused.contains("6 objects") && refused.contains("6 others"), "{refused}");
    }

    #[test]
    fn another_member_beginning_or_membership_is_found() {
        let (_root, disk, filled) = filled();
        let expected = |change: &dyn Fn(&mut Filled)| {
            let (_root, _disk, mut other) = self::filled();
            change(&mut other);
            refused(&disk, &other)
        };
        let moved = expected(&|other| other.mark.log_id = Some(log_id(2, 1000)));
        assert!(moved.contains("the beginning"), "{moved}");
        let members = expected(&|other| other.mark.membership = StoredMembership::default());
        assert!(members.contains("the membership"), "{members}");
        let identity = wire::Identity { name: "b".into(), ..filled.identity.clone() };
        block_on(save(&disk, &identity)).unwrap();
        let other = refused(&disk, &filled);
        assert!(other.contains("the identity"), "{other}");
    }
}
