//! An operator who changes the membership during faults: adds and removes members, transfers leadership, replaces a
//! member whose disk was lost, and requests changes that must be refused. It founds the cluster first. In some runs it
//! leaves just a majority of the newest voters, which must elect a leader; in some it loses the cluster, and makes another one
//! of a survivor or a snapshot.
//!
//! It takes part in some runs only. It finishes every change it began, in the calm after the faults at the latest, so
//! that the run ends with a membership that all members know. A name is never used twice.

mod hazards;
mod remaking;
mod thinning;

use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_raft::member::ChangeError;
use orch_raft::transport::NodeId;

use super::ghost;
use super::plant::Occasion;
use super::process::MemberStore;
use super::runtime::NodeRuntime;
use super::session::Session;
use super::world::{Handle, World};

/// Percentage of runs with an operator.
const RUNS_PERCENT: u64 = 40;

/// Pause between two attempts at one change.
const RETRY: Duration = Duration::from_millis(250);

/// Fewest voters the operator leaves: with one member lost, the others are still a quorum.
const VOTERS_MIN: usize = 3;

/// Time within which a member that must not start has to end.
const REFUSAL_MAX: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
enum Step {
    Transfer,
    Grow,
    Shrink,
    Replace,
    RollBack,
    Corner,
}

/// The operator of a run.
pub struct Operator {
    session: Session,
}

impl Operator {
    /// Its requests count as those of client `number`.
    pub fn new(world: &World, number: u64) -> Self {
        Operator { session: Session::new(world, number) }
    }

    /// Changes the cluster while clients write.
    pub async fn operate(self) {
        let dice = self.session.dice().clone();
        let mut due = self.step_due();
        let (mut thins, mut remaking) = (self.thins(), self.remaking());
        let takes_part = dice.percent(RUNS_PERCENT) || due.is_some() || remaking.is_some();
        if !takes_part && !self.must_thin() {
            return;
        }
        let weights = [
            (Step::Transfer, 3),
            (Step::Grow, 3),
            (Step::Shrink, 2),
            (Step::Replace, 2),
            (Step::RollBack, 2),
            (Step::Corner, 4),
        ];
        while self.world().is_busy() {
            NodeRuntime::sleep(dice.millis(300..2500)).await;
            if !self.world().is_busy() {
                return;
            }
            if let Some(kind) = remaking.take_if(|_| self.may_remake()) {
                self.world().trace().event(format_args!("operator: makes the cluster anew: {kind:?}"));
                Box::pin(self.remake(kind)).await;
                continue;
            }
            if std::mem::take(&mut thins) {
                self.world().trace().event("operator: thins the voters out");
                self.thin().await;
                continue;
            }
            let drawn = dice.weighted(&weights);
            let step = due.take().unwrap_or(drawn);
            self.world().trace().event(format_args!("operator: {step:?}"));
            match step {
                Step::Transfer => self.transfer().await,
                Step::Grow => self.grow().await,
                Step::Shrink if self.world().members().len() > VOTERS_MIN => {
                    self.remove(self.session.pick()).await;
                }
                Step::Shrink => {}
                Step::Replace => self.replace().await,
                Step::RollBack => self.roll_back().await,
                Step::Corner => self.corner().await,
            }
        }
    }

    /// The first step; `None` if it is left to chance.
    fn step_due(&self) -> Option<Step> {
        let due = [
            (Occasion::LostDisk, Step::Replace),
            (Occasion::OlderCopy, Step::RollBack),
            (Occasion::Corner, Step::Corner),
        ];
        due.into_iter().find(|(occasion, _)| self.world().is_due(*occasion)).map(|(_, step)| step)
    }

    fn world(&self) -> &World {
        self.session.world()
    }

    /// Founds the cluster; repeats the request until all founders are up.
    pub async fn found(self) {
        self.world().keep_early_copies();
        while self.world().failure().is_none() {
            let via = self.session.pick();
            let asked = self.session.request(via, |store: Handle| async move { store.inner().found().await });
            let answer = asked.await;
            self.world().trace().event(format_args!("operator: found via n{}: {answer:?}", via.0));
            if answer == Ok(Ok(())) {
                return;
            }
            NodeRuntime::sleep(RETRY).await;
        }
    }

    /// Requests one leadership transfer; its outcome does not matter.
    async fn transfer(&self) {
        let (to, via) = (self.session.pick(), self.session.pick());
        let asked = self
            .session
            .request(via, move |store: Handle| async move { store.inner().transfer_leader(to).await });
        let answer = asked.await;
        self.world().trace().event(format_args!("operator: lead to n{}: {answer:?}", to.0));
    }

    /// Adds a learner under a new name, if there is one left.
    async fn add(&self) -> Option<NodeId> {
        let fresh = self.world().enlist()?;
        self.world().start(fresh);
        self.add_learner(fresh).await;
        Some(fresh)
    }

    /// Has `node` added as a learner.
    async fn add_learner(&self, node: NodeId) {
        let peer = self.world().peer(node).clone();
        let adding = move |store: MemberStore| {
            let peer = peer.clone();
            async move { store.add_learner(&peer).await }
        };
        self.insist(&format!("add n{}", node.0), adding, |_| false).await;
    }

    /// Has the learner `node` promoted.
    async fn promote(&self, node: NodeId) {
        let promoting = move |store: MemberStore| async move { store.promote(node).await };
        self.insist(&format!("promote n{}", node.0), promoting, |_| false).await;
        self.world().trace().event(format_args!("operator: n{} is a voter", node.0));
    }

    /// Adds a voter under a new name, if there is one left.
    async fn grow(&self) {
        let Some(fresh) = self.add().await else { return };
        self.promote(fresh).await;
    }

    /// Removes a member for ever.
    async fn remove(&self, member: NodeId) {
        let removing = move |store: MemberStore| async move { store.remove(member).await };
        let gone = move |store: &MemberStore| {
            let status = store.status();
            // Until the removal is committed, the removed member may be needed.
            status.leader.as_ref() == Some(&status.node)
                && !status.changing
                && !status.uncommitted
                && status.members.iter().all(|one| one.peer.id != member)
        };
        self.world().set_leaving(member, true);
        self.insist(&format!("remove n{}", member.0), removing, gone).await;
        self.see_off(member).await;
    }

    /// Waits for a removed member to end. Its certificate may stay in use.
    async fn see_off(&self, member: NodeId) {
        self.wait_end(member, "was removed").await;
        self.world().retire(member);
        ghost::rise(self.world(), member);
    }

    /// A member loses its disk: under its old name it must refuse to start, so another member replaces it.
    async fn replace(&self) {
        let member = self.session.pick();
        // Before the founding no member can be replaced: founding needs every founder. In a cluster of two the quorum
        // is both, so a member that lost its disk can neither go on nor be removed.
        let is_small = self.world().members().len() < 3;
        if is_small || self.world().leader().is_none() || !self.world().has_spare() {
            return;
        }
        self.world().lose_disk(member);
        self.world().start(member);
        self.wait_end(member, "lost its disk").await;
        self.remove(member).await;
        self.grow().await;
    }

    /// Waits until the process of a member that must not go on has ended.
    async fn wait_end(&self, member: NodeId, why: &str) {
        let mut began = NodeRuntime::elapsed();
        while self.world().process(member).is_some() && self.world().failure().is_none() {
            NodeRuntime::sleep(RETRY).await;
            // Without a member to ask it must wait: the time counts from the calm on.
            if !self.world().is_calm() {
                began = NodeRuntime::elapsed();
            }
            if NodeRuntime::elapsed() - began > REFUSAL_MAX {
                let status = self.world().store(member).map(|store| store.inner().status());
                return self.world().fail(format_args!("n{} {why} and still runs: {status:?}", member.0));
            }
        }
    }

    /// Requests the change at one member after another until it is made, or is seen to have been made.
    async fn insist<F>(
        &self,
        what: &str,
        change: impl Fn(MemberStore) -> F + Clone + Send + 'static,
        made: impl Fn(&MemberStore) -> bool + Clone + Send + 'static,
    ) where
        F: Future<Output = Result<(), ChangeError>> + Send,
    {
        while self.world().failure().is_none() {
            let (via, change, made) = (self.session.pick(), change.clone(), made.clone());
            let asked = self.session.request(via, move |store: Handle| async move {
                let store = store.inner().clone();
                if made(&store) { Ok(()) } else { change(store).await }
            });
            let answer = asked.await;
            self.world().trace().event(format_args!("operator: {what} via n{}: {answer:?}", via.0));
            if answer == Ok(Ok(())) {
                return;
            }
            NodeRuntime::sleep(RETRY).await;
        }
    }
}
