//! Permissions of peers: which requests this member answers to whom.
//!
//! | peer | may |
//! |---|---|
//! | any peer with a certificate | ask for the identity of the cluster |
//! | a peer that was not removed | ask for feature levels |
//! | a founder named in this member's flags | ask this member to decide the founding |
//! | a voter, or a peer that members vouch for (see vouching) | ask for a vote, lead |
//! | a member | send all requests |
//!
//! Invariant: no request in a made-up term is answered, and no peer gets a vote or an acknowledgement before this member's
//! disk was compared with that peer's records of it (see returning).

use std::sync::Arc;
use std::time::Duration;

use orch_proto::store as wire;
use wire::control_request::Kind as Request;

use super::Refusal;
use crate::Runtime;
use crate::disk::Disk;
use crate::encoding::DecodeError;
use crate::member::core::{Core, within};
use crate::member::trust::standing::Standing;
use crate::member::trust::vouching::Voucher;
use crate::transport::{NodeId, Transport};

/// The refusal of every request of a removed member but an identity request.
const REMOVED: &str = "the member was removed from the cluster";

/// The refusal of a stranger.
const NO_MEMBER: &str = "no member knows this one";

/// The refusal of a peer with which this disk is not compared yet.
const COMPARING: &str = "the member has just started and compares its disk first";

/// How long a stream waits for that comparison: several rounds of it. The peer opens another stream afterwards.
const COMPARING_TIMEOUT: Duration = Duration::from_secs(5);

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Refuses a call of a peer that may not make it.
    pub(super) async fn check_call(
        self: &Arc<Self>,
        from: NodeId,
        request: &Request,
        recall: Option<&wire::Recall>,
    ) -> Result<(), Refusal> {
        let standing = self.standing(from);
        match request {
            Request::Identity(_) => return Ok(()),
            _ if standing == Standing::Removed => return Err(REMOVED.to_owned()),
            Request::Feature(_) => return Ok(()),
            Request::Found(_) => return self.check_founder(from),
            _ => {}
        }
        if !self.joining.is_enrolled() {
            self.note_speaker(from, recall);
            return Err("the member does not take part yet".to_owned());
        }
        match request {
            Request::Vote(wire::VoteRequest { vote, .. })
            | Request::PreVote(wire::VoteRequest { vote, .. })
            | Request::Heartbeat(wire::AppendRequest { vote, .. }) => {
                self.check_leader_to_be(from, vote.as_ref(), recall).await
            }
            // Asked by a leader before it sends a snapshot; it promises nothing.
            Request::SnapshotOffset(_) if self.vouch(from).await.is_some() => Ok(()),
            _ if standing != Standing::Member => Err(NO_MEMBER.to_owned()),
            _ if self.is_compared(from) => Ok(()),
            _ => Err(COMPARING.to_owned()),
        }
    }

    /// Refuses a peer that may neither get a vote nor lead. `recall`: the peer's record of this member's disk.
    pub(super) async fn check_leader_to_be(
        self: &Arc<Self>,
        from: NodeId,
        vote: Option<&wire::Vote>,
        recall: Option<&wire::Recall>,
    ) -> Result<(), Refusal> {
        self.check_term(vote, false)?;
        let Some(voucher) = self.vouch(from).await else {
            self.hear_stranger(from, recall);
            return Err(NO_MEMBER.to_owned());
        };
        self.check_term(vote, !self.is_believed(from))?;
        if self.compare_with_recall(from, recall, voucher).await { Ok(()) } else { Err(COMPARING.to_owned()) }
    }

    /// Refuses a term that no election can have led to. `is_doubtful`: no member but the sender vouches for the term.
    fn check_term(&self, vote: Option<&wire::Vote>, is_doubtful: bool) -> Result<(), Refusal> {
        let term = vote.map_or(0, |vote| vote.term);
        if term <= self.term_limit(is_doubtful) {
            return Ok(());
        }
        Err(format!("term {term} cannot have come after term {}", self.term()))
    }

    /// Ends this member because `from` sent entries that only a newer program reads: no entry can be skipped. A peer that may
    /// have been removed is not followed, and cannot end this member.
    pub(super) async fn stop_for_newer(self: &Arc<Self>, from: NodeId, error: &DecodeError) {
        if self.vouch(from).await.is_some() && self.is_believed(from) {
            self.fatal.report(error);
        }
    }

    /// Refuses a peer that may not pull a state or forward writes. Where this member's own log may be old, other members must
    /// vouch for the peer.
    pub(crate) async fn check_member(self: &Arc<Self>, from: NodeId) -> Result<(), Refusal> {
        match self.standing(from) {
            Standing::Member if self.is_in_touch() || self.vouch(from).await == Some(Voucher::Another) => {
                let compared = within::<R, _>(COMPARING_TIMEOUT, self.wait_compared(from)).await;
                compared.ok_or_else(|| COMPARING.to_owned())
            }
            Standing::Member => Err("this member does not know whether it was removed".to_owned()),
            Standing::Removed => Err(REMOVED.to_owned()),
            Standing::Stranger => Err(NO_MEMBER.to_owned()),
        }
    }

    fn check_founder(&self, from: NodeId) -> Result<(), Refusal> {
        match self.options.initial_cluster.iter().any(|founder| founder.id == from) {
            true => Ok(()),
            false => Err("only founders found a cluster".to_owned()),
        }
    }
}
