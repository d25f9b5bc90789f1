//! Hazards by operators or machines that a cluster must withstand.
//!
//! Owns two steps. An older copy of a member's disk is put back, as a virtual machine's snapshot would be: the member
//! must refuse to run on it. And with one of three members down, the removal of a healthy member is requested: it must
//! not be begun.

use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_proto::store as wire;
use orch_raft::Store;
use orch_raft::disk::MetaKey;
use orch_raft::member::{CLUSTER_RESOURCE, ChangeError};
use orch_raft::transport::NodeId;
use prost::Message;

use super::{Operator, RETRY};
use crate::sim::runtime::NodeRuntime;
use crate::sim::world::Handle;

/// Time that a step waits for its condition before it is given up.
const PATIENCE: Duration = Duration::from_secs(6);

/// Percentage of older copies that are from before the founding, where the member is a founder.
const EARLY_PERCENT: u64 = 40;

/// Timeout of a removal: a refusal comes after silent members had two seconds to answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(4);

/// Longest silence of a member before a removal is requested.
const SILENCE_MS_MAX: u64 = 600;

impl Operator {
    /// Puts an older copy of a member's disk back, then replaces the member.
    pub(super) async fn roll_back(&self) {
        // As for a lost disk: in a cluster of two no member can be replaced.
        if self.world().members().len() < 3 || !self.world().has_spare() {
            return;
        }
        let member = self.session.pick();
        // A copy from before the founding, or of now.
        let early = self.world().early_copy(member).filter(|_| self.session.dice().percent(EARLY_PERCENT));
        let copy = early.unwrap_or_else(|| self.world().disk(member).copy());
        let identity =
            copy.meta(MetaKey::Identity).and_then(|bytes| wire::Identity::decode(bytes.clone()).ok());
        let Some(identity) = identity.filter(|_| !self.world().has_lost_disk(member)) else { return };
        self.world().kill(member, true);
        self.world().start(member);
        // The copy must lack a start that the cluster knows of, and no entry that only this member helped to commit:
        // otherwise its loss could not be detected.
        if !self.comes(|| self.starts_known(member) > identity.starts).await {
            return;
        }
        self.world().hold(member);
        let end = self.world().disk(member).last_index().unwrap_or_default();
        let others_have_it = || {
            let others = self.world().members().into_iter().filter(|other| *other != member);
            others.map(|other| self.world().applied(other)).all(|at| at.is_some_and(|at| at.0 >= end))
        };
        if !self.comes(others_have_it).await {
            return self.world().release(member);
        }
        self.world().roll_back(member, copy);
        self.world().release(member);
        self.wait_end(member, "has an older copy of its disk").await;
        self.remove(member).await;
        self.grow().await;
    }

    /// With one of three members down, requests the removal of one that is up.
    pub(super) async fn corner(&self) {
        let members = self.world().members();
        let down = self.session.pick();
        let Some(leader) = self.world().leader().filter(|leader| *leader != down) else { return };
        let healthy = members.iter().copied().find(|member| ![down, leader].contains(member));
        // A spare replaces a removed member: in a cluster of two neither could be repaired or replaced.
        let Some(healthy) = healthy.filter(|_| members.len() == 3 && self.world().has_spare()) else {
            return;
        };
        self.world().hold(down);
        // At first the leader still has fresh acknowledgements of the member that is down.
        NodeRuntime::sleep(self.session.dice().millis(0..SILENCE_MS_MAX)).await;
        self.world().set_leaving(healthy, true);
        let removing = move |store: Handle| async move { store.inner().remove(healthy).await };
        let answer = self.session.patient(ANSWERED_WITHIN).request(leader, removing).await;
        self.world().trace().event(format_args!("operator: cornered via n{}: {answer:?}", leader.0));
        let is_changing = |member: &NodeId| {
            let store = self.world().store(*member);
            store.is_some_and(|store| store.inner().status().changing)
        };
        if members.iter().any(is_changing) {
            let reason = format!("a change was begun that cannot be committed while n{} is down", down.0);
            self.world().fail(reason);
        }
        self.world().release(down);
        match answer {
            Ok(Err(ChangeError::Refused { .. })) => self.world().set_leaving(healthy, false),
            // The request may have been lost, or may still be done once all members are back.
            _ => {
                self.remove(healthy).await;
                self.grow().await;
            }
        }
    }

    /// Waits for a condition; `false` after [`PATIENCE`].
    async fn comes(&self, condition: impl Fn() -> bool) -> bool {
        let began = NodeRuntime::elapsed();
        while !condition() {
            if NodeRuntime::elapsed() - began > PATIENCE || self.world().failure().is_some() {
                return false;
            }
            NodeRuntime::sleep(RETRY).await;
        }
        true
    }

    /// The newest start of `member` that the leader has applied; 0 without a leader.
    fn starts_known(&self, member: NodeId) -> u64 {
        let leader = self.world().leader().and_then(|leader| self.world().store(leader));
        let Some(store) = leader else { return 0 };
        let state = store.state();
        let name = format!("member-{:016x}", member.0);
        let known = state
            .collection(CLUSTER_RESOURCE)
            .get(&name)
            .and_then(|object| object.index.fields.value("starts", 1).parse().ok());
        known.unwrap_or(0)
    }
}
