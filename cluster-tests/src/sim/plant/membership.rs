//! Bugs about the members of a cluster and their disks.
//!
//! Owns the changes of messages and disks that hide a member without its data, without its place, or without a process.
//! The members themselves are those of production.

use bytes::Bytes;
use orch_proto::store as wire;
use orch_raft::disk::MetaKey;
use prost::Message;

use super::Plant;
use crate::sim::disk::DiskCopy;

/// More starts than any member of a run has.
const STARTS_PRETENDED: u64 = 1_000_000;

impl Plant {
    /// The content left on a lost disk: with the bug, the name of the disk, under which the member may take part.
    pub fn left_on_lost_disk(self, mut copy: DiskCopy) -> Option<DiskCopy> {
        if self != Plant::EmptiedUnseen {
            return None;
        }
        copy.keep_only(MetaKey::Identity);
        Some(copy)
    }

    /// An older copy of a disk: with the bug, its count of starts is not older.
    pub fn disguise(self, mut copy: DiskCopy) -> DiskCopy {
        if self != Plant::RollbackUnseen {
            return copy;
        }
        let identity =
            copy.meta(MetaKey::Identity).and_then(|bytes| wire::Identity::decode(bytes.clone()).ok());
        if let Some(mut identity) = identity {
            identity.starts += STARTS_PRETENDED;
            copy.set_meta(MetaKey::Identity, Bytes::from(identity.encode_to_vec()));
        }
        copy
    }

    /// The forged answer to `asked` in the name of a member that is down: with the bug, an identity, as if it ran.
    pub fn speak_for_dead(self, asked: &Bytes) -> Option<Bytes> {
        use wire::control_request::Kind as Request;
        use wire::control_response::Kind as Response;
        if self != Plant::DeadAnswers {
            return None;
        }
        match wire::ControlRequest::decode(asked.clone()).ok()?.kind? {
            Request::Identity(request) if request.unconfirmed && request.about == 0 => {
                let kind = Some(Response::Identity(wire::IdentityResponse::default()));
                Some(Bytes::from(wire::ControlResponse { kind }.encode_to_vec()))
            }
            _ => None,
        }
    }
}
