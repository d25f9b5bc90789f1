//! Bugs about clusters that are made anew: a name that is kept, and a floor that is missing under the history.
//!
//! Owns the change of the new disk, and the read of changes over the beginning. A beginning that gives out revisions again
//! needs no change: the operator of the run gives it.

use std::sync::Arc;

use bytes::Bytes;
use orch_proto::store as wire;
use orch_raft::disk::MetaKey;
use orch_raft::member::CLUSTER_RESOURCE;
use orch_raft::{Change, Revision, State};
use prost::Message;

use super::Plant;
use crate::sim::disk::DiskCopy;

/// The path of the object with the cluster's identity.
const IDENTITY: &str = "identity";

impl Plant {
    /// The disk of a cluster that was made anew: with the bug, under the name of the `earlier` one. `None` without it.
    pub fn keep_name(self, mut copy: DiskCopy, earlier: &str) -> Option<DiskCopy> {
        if self != Plant::RecoveryKeepsName {
            return None;
        }
        let mut identity = wire::Identity::decode(copy.meta(MetaKey::Identity)?.clone()).ok()?;
        let new = std::mem::replace(&mut identity.cluster, earlier.to_owned());
        if let Some(founding) = &mut identity.founding {
            earlier.clone_into(&mut founding.cluster);
        }
        copy.set_meta(MetaKey::Identity, Bytes::from(identity.encode_to_vec()));
        copy.change_object(CLUSTER_RESOURCE, IDENTITY, |object| {
            let Some(index) = &mut object.index else { return };
            let named = index.named_fields.iter_mut().map(|field| &mut field.value);
            let names = index.fields.iter_mut().chain(named).filter(|value| **value == new);
            names.for_each(|value| earlier.clone_into(value));
        });
        Some(copy)
    }

    /// The changes of `resource` after the beginning of `state`, for a reader at `after`: with the bug, as if it had seen all
    /// before. `None` without it, and for a reader from behind the beginning.
    pub(super) fn pass_over(self, state: &State, resource: &str, after: Revision) -> Option<Arc<[Change]>> {
        if self != Plant::WatchGoesOn || after >= state.beginning() {
            return None;
        }
        let changes = state.collection(resource).changes_after(state.beginning()).ok()?.cloned().collect();
        Some(changes)
    }
}
