//! Repair: a member whose state differs pulls the state of a member of the majority.
//!
//! Owns both ends of a pull: the frames of a snapshot, as a leader sends it, but requested by the receiver and outside of
//! the consensus protocol. The receiver's vote and log stay as they are; it applies the entries after the received state
//! from its own log. A failure changes nothing, and a later round tries again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use orch_proto::store as wire;
use prost::Message;
use wire::snapshot_frame::Kind;

use crate::Runtime;
use crate::disk::{Disk, Install};
use crate::member::codec::Mark;
use crate::member::core::{Core, within};
use crate::member::log::Log;
use crate::member::network::send_pulled;
use crate::member::service::receive_pulled;
use crate::state::State;
use crate::transport::{Duplex, Peer, Purpose, Transport};

/// Longest pause between two attempts, in rounds of the comparison: a minute. Each failure doubles the pause, because an
/// attempt makes each member asked read its state.
const ROUNDS_BETWEEN_MAX: u32 = 30;

/// Time to receive or send a state, five times what the library gives a snapshot. A slower transfer is begun again.
const PULL_TIMEOUT: Duration = Duration::from_secs(600);

/// How long the sender of a state waits for the receiver to have read it.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Failures in a row before the pause grows: a connection broke, or a member had just started.
const FAILURES_AT_ONCE: u32 = 2;

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

/// Sends this member's state to a member that pulls it.
pub(crate) async fn serve_pull<R: Runtime, D: Disk, T: Transport>(
    core: &Core<R, D, T>,
    duplex: &mut Duplex,
) -> Result<(), String> {
    core.agreement.may_serve().map_err(|error| error.to_string())?;
    let Ok(_alone) = core.agreement.sending.try_lock() else {
        return Err("another member is being repaired".to_owned());
    };
    let (state, mark) = core.applied.now();
    let sent = within::<R, _>(PULL_TIMEOUT, send_pulled(duplex, &mark, &state).boxed()).await;
    sent.ok_or("the member that asked reads too slowly")??;
    // The receiver ends the stream once it has all frames. Ending it here would cut off frames under way.
    within::<R, _>(END_TIMEOUT, duplex.receiver.recv()).await;
    Ok(())
}

/// The pause after failed attempts, counted in rounds of the comparison.
#[derive(Debug, Default)]
pub(super) struct Pause {
    failures: AtomicU32,
    rounds_left: AtomicU32,
}

impl Pause {
    /// Counts a round; `true` while the pause lasts.
    fn is_on(&self) -> bool {
        let counted =
            self.rounds_left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        counted.is_ok()
    }

    fn lengthen(&self) {
        let failures = self.failures.fetch_add(1, Ordering::AcqRel);
        let doublings = failures.saturating_sub(FAILURES_AT_ONCE);
        let rounds = 1u32.checked_shl(doublings).unwrap_or(ROUNDS_BETWEEN_MAX).min(ROUNDS_BETWEEN_MAX);
        self.rounds_left.store(rounds - 1, Ordering::Release);
    }

    fn end(&self) {
        self.failures.store(0, Ordering::Release);
        self.rounds_left.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_become_rare_and_never_cease() {
        let pause = Pause::default();
        let left_out = || {
            pause.lengthen();
            std::iter::repeat_with(|| pause.is_on()).take_while(|is_on| *is_on).count()
        };
        let all: Vec<usize> = (0..40).map(|_| left_out()).collect();
        assert_eq!(all[..9], [0, 0, 0, 1, 3, 7, 15, 29, 29]);
        assert_eq!(all[39], 29);
        pause.end();
        assert!(!pause.is_on());
    }
}
