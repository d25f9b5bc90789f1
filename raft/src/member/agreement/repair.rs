//! Repair: a member whose state differs pulls the state of a member of the majority.
//!
//! Owns the receiver's end of a pull: the frames of a snapshot, as a leader sends it, but requested by the receiver and outside of
//! the consensus protocol. The sender's end is `serving`. The receiver's vote and log stay as they are; it applies the entries after the received state
//! from its own log. A failure changes nothing, and a later round tries again.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::FutureExt;
use orch_proto::store as wire;
use prost::Message;
use wire::snapshot_frame::Kind;

use super::serving::PULL_TIMEOUT;
use crate::Runtime;
use crate::disk::{Disk, Install};
use crate::member::codec::Mark;
use crate::member::core::{Core, within};
use crate::member::log::Log;
use crate::member::service::receive_pulled;
use crate::state::State;
use crate::transport::{Peer, Purpose, Transport};

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Replaces this member's state by that of a member of the majority: the first whose state can be taken.
    pub(super) async fn repair(&self, majority: &BTreeSet<u64>) {
        if self.agreement.pause.is_on() {
            return;
        }
        let membership = self.membership();
        let place = |id: &u64| membership.membership().get_node(id).map(|place| place.peer(*id));
        // Followers first: the leader has enough to do.
        let leader = self.leader().map(|leader| leader.peer.id.0);
        let own = self.options.id().0;
        let mut sources: Vec<&u64> = majority.iter().filter(|id| **id != own).collect();
        sources.sort_by_key(|id| Some(**id) == leader);
        for peer in sources.into_iter().filter_map(place) {
            match self.repair_from(&peer).boxed().await {
                Ok(revision) => {
                    self.agreement.status.lock().repairs += 1;
                    self.agreement.pause.end();
                    return tracing::warn!(revision, from = %peer.name, "replaced this member's state by a peer's");
                }
                Err(reason) if self.warnings.may_warn("a state is not taken") => {
                    tracing::warn!(%reason, from = %peer.name, "this member's state was not replaced");
                }
                Err(_) => {}
            }
        }
        self.agreement.pause.lengthen();
    }

    async fn repair_from(&self, peer: &Peer) -> Result<u64, String> {
        let Ok(_alone) = self.installing.try_lock() else {
            return Err("a snapshot is being received".to_owned());
        };
        // The log must hold the entries after the state that the peer is going to send: it is not purged until that is here.
        let _held = self.holds.hold_whole();
        let pulled = within::<R, _>(PULL_TIMEOUT, self.pull_from(peer).boxed()).await;
        let (mark, state, install) = pulled.unwrap_or_else(|| Err("it took too long".to_owned()))?;
        // Without a deadline: a replacement given up half way would leave the state in memory behind the one on disk.
        let (disk, level) = (self.disk.clone(), self.feature.level.clone());
        let log = Log::<R, D>::open(disk, self.applied.clone(), self.fatal.clone(), level);
        let log = log.map_err(|error| error.to_string())?;
        let read = |from, to| log.read_certain(from, to);
        self.applied.replace(state, install, &mark, &read).await.map_err(|error| error.to_string())?;
        // The right state is published: what was derived from the wrong one, perhaps at the same revision, is derived anew.
        self.agreement.revoke();
        self.applied.announcements().wake_all();
        Ok(mark.revision().0)
    }

    /// Receives the state of `peer`, once this member has applied through its revision; fails if it does not in time.
    async fn pull_from(&self, peer: &Peer) -> Result<(Mark, State, Box<dyn Install>), String> {
        let opened = self.transport.open(peer, Purpose::Snapshot).await;
        let mut duplex = opened.map_err(|error| error.to_string())?;
        let pull = wire::SnapshotFrame { kind: Some(Kind::Pull(wire::SnapshotPull {})) };
        let asked = duplex.sender.send(Bytes::from(pull.encode_to_vec())).await;
        asked.map_err(|_| "the stream ended".to_owned())?;
        receive_pulled(self, peer.id, &mut duplex).await
    }
}
