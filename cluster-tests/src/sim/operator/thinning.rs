//! An operator who replaces members while one is down, until just a majority of the newest voters is left, the member
//! that was down among them.
//!
//! Owns the sequence: a learner is added; a member loses power or is cut off; the learner is promoted and a voter
//! removed, each of which may be refused for a known reason; then so many voters are stopped that the member that was
//! down is needed when it comes back. `majority` checks that the members left elect a leader, the other oracles that
//! they have lost nothing. At the end every stopped member runs again, and begun changes are finished.

use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_raft::member::ChangeError;
use orch_raft::transport::NodeId;

use super::{Operator, RETRY};
use crate::sim::clients;
use crate::sim::dice::Dice;
use crate::sim::faults;
use crate::sim::majority::SERVED_WITHIN;
use crate::sim::plant::Occasion;
use crate::sim::process::MemberStore;
use crate::sim::runtime::NodeRuntime;
use crate::sim::session::Gone;
use crate::sim::world::{Condition, Handle};

/// Percentage of operators that do this, once: one in eight.
const OPERATORS_PERCENT: u64 = 13;

/// Percentage of such members that keep their process and are cut off instead of losing power.
const CUT_OFF_PERCENT: u64 = 50;

/// Time for which a change is tried while a member is down: the member asked may be stopped, and a refusal takes the
/// two seconds in which silent members might answer.
const TRIED_FOR: Duration = Duration::from_secs(6);

/// Timeout of a change: a little more than a member's own deadline, so that its answer arrives.
const PATIENCE: Duration = Duration::from_secs(11);

/// Writes that the members left must take: the first may have been begun by an earlier leader.
const WRITES: u32 = 2;

/// Part of the refusal that lasts while the member is down.
const UNACQUAINTED: &str = "would not know";

/// Parts of the refusals that a change may get while a member is down.
const KNOWN_REFUSALS: [&str; 10] = [
    UNACQUAINTED,
    "has not received the last change of the voters yet",
    "would have no majority that answers",
    "has not caught up with the log yet",
    "another change of the members is under way",
    "could take over",
    "does not answer",
    "no quorum answers",
    "no leader was reached in time",
    // From the consensus library: the step before is not committed.
    "configuration change",
];

/// Outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Done,
    Refused,
    /// Unknown: it may still be done.
    Open,
}

impl Operator {
    /// This operator leaves just a majority in its run.
    pub(super) fn thins(&self) -> bool {
        self.thinning().percent(OPERATORS_PERCENT) || self.must_thin()
    }

    /// The run must include this sequence.
    pub(super) fn must_thin(&self) -> bool {
        self.world().is_due(Occasion::Thinning) || self.world().is_due(Occasion::Liar)
    }

    fn thinning(&self) -> Dice {
        self.world().dice("thinning")
    }

    /// Replaces members while one is down, and leaves just a majority for a while.
    pub(super) async fn thin(&self) {
        let (world, dice) = (self.world(), self.thinning());
        // In a run of minutes the network heals link by link, for as long as the whole sequence takes.
        if world.members().len() < 3 || world.minutes().is_some() || world.leader().is_none() {
            return;
        }
        let Some(fresh) = self.add().await else { return };
        let members: Vec<NodeId> = world.members().into_iter().filter(|node| *node != fresh).collect();
        let away = members[dice.index(members.len())];
        let rest: Vec<NodeId> = members.into_iter().filter(|node| *node != away).collect();
        let gone = rest[dice.index(rest.len())];
        self.send_away(away, dice.percent(CUT_OFF_PERCENT));
        NodeRuntime::sleep(dice.millis(0..2000)).await;
        let promoting = move |store: MemberStore| async move { store.promote(fresh).await };
        let promoted = self.attempt(&format!("promote n{}", fresh.0), away, promoting).await;
        world.set_leaving(gone, true);
        let removing = move |store: MemberStore| async move { store.remove(gone).await };
        let removed = self.attempt(&format!("remove n{}", gone.0), away, removing).await;
        match removed {
            Change::Done => self.see_off(gone).await,
            Change::Refused => world.set_leaving(gone, false),
            Change::Open => {}
        }
        // An open change may be made while the others are down, and would change the majority that was counted.
        match [promoted, removed].contains(&Change::Open) {
            true => self.bring_back(away),
            false => self.leave_a_majority(&dice, away, fresh).await,
        }
        if promoted != Change::Done {
            self.insist(&format!("promote n{}", fresh.0), promoting, |_| false).await;
        }
        if removed == Change::Open {
            self.remove(gone).await;
        }
    }

    /// Cuts the power of `node` for good, or all its links.
    fn send_away(&self, node: NodeId, cut_off: bool) {
        self.world().trace().event(format_args!("operator: n{} goes away, cut off: {cut_off}", node.0));
        match cut_off {
            true => self.world().network().sever(node),
            false => self.world().hold(node),
        }
    }

    fn bring_back(&self, node: NodeId) {
        self.world().trace().event(format_args!("operator: n{} comes back", node.0));
        self.world().network().rejoin(node);
        self.world().release(node);
    }

    /// Requests a change for a while, at one member after another except `away`.
    async fn attempt<F>(
        &self,
        what: &str,
        away: NodeId,
        change: impl Fn(MemberStore) -> F + Clone + Send + 'static,
    ) -> Change
    where
        F: Future<Output = Result<(), ChangeError>> + Send,
    {
        let (mut outcome, began) = (Change::Refused, NodeRuntime::elapsed());
        let session = self.session.patient(PATIENCE);
        while NodeRuntime::elapsed() - began < TRIED_FOR {
            let (via, change) = (session.pick(), change.clone());
            if via == away {
                continue;
            }
            let work = move |store: Handle| async move { change(store.inner().clone()).await };
            let answer = session.request(via, work).await;
            self.world().trace().event(format_args!("operator: {what} via n{}: {answer:?}", via.0));
            match answer {
                Ok(Ok(())) => return Change::Done,
                Ok(Err(ChangeError::Refused { reason })) => {
                    if !KNOWN_REFUSALS.iter().any(|known| reason.contains(known)) {
                        self.world().fail(format_args!("{what} is refused for no known reason: {reason}"));
                    }
                    if reason.contains(UNACQUAINTED) {
                        return outcome;
                    }
                }
                Err(Gone::NotSent) => {}
                Ok(Err(ChangeError::Unknown { .. })) | Err(Gone::Lost) => {
                    outcome = Change::Open;
                }
            }
            if self.world().failure().is_some() {
                return outcome;
            }
            NodeRuntime::sleep(RETRY).await;
        }
        outcome
    }

    /// Stops voters until, with `away` back and in a truce, just a majority is left, and lets those take writes.
    async fn leave_a_majority(&self, dice: &Dice, away: NodeId, fresh: NodeId) {
        let world = self.world();
        let Some(voters) = self.voters_at_rest() else { return self.bring_back(away) };
        let mut rest: Vec<NodeId> =
            voters.iter().copied().filter(|node| ![away, fresh].contains(node)).collect();
        // The member that was down and the newest one first; the other survivors are random.
        let mut living: Vec<NodeId> =
            [away, fresh].into_iter().filter(|node| voters.contains(node)).collect();
        while living.len() <= voters.len() / 2 && !rest.is_empty() {
            living.push(rest.remove(dice.index(rest.len())));
        }
        let stopped: Vec<NodeId> = voters.iter().copied().filter(|node| !living.contains(node)).collect();
        world.trace().event(format_args!("operator: of the voters {voters:?} only {living:?} live"));
        world.set_truce(true);
        stopped.iter().for_each(|node| world.hold(*node));
        faults::mend(world);
        self.bring_back(away);
        self.take_writes(&living).await;
        world.set_truce(false);
        stopped.into_iter().for_each(|node| world.release(node));
    }

    /// The voters of the newest membership; `None` while a change of them is under way.
    fn voters_at_rest(&self) -> Option<Vec<NodeId>> {
        let members = self.world().members();
        match self.world().voter_sets(&members)?.as_slice() {
            [voters] => {
                let voters: Vec<NodeId> = voters.iter().copied().map(NodeId).collect();
                voters.iter().all(|voter| members.contains(voter)).then_some(voters)
            }
            _ => None,
        }
    }

    /// Writes through the members left, for as long as they may take for it.
    async fn take_writes(&self, living: &[NodeId]) {
        let (world, began, mut written) = (self.world(), NodeRuntime::elapsed(), 0);
        let mut turn = 0;
        while written < WRITES && world.failure().is_none() {
            // By then the oracle has decided, unless a member cannot do its part for another reason.
            if NodeRuntime::elapsed() - began > SERVED_WITHIN * 2 {
                let conditions: Vec<(NodeId, Condition)> =
                    living.iter().map(|node| (*node, world.condition(*node))).collect();
                return world
                    .trace()
                    .event(format_args!("operator: those left take no write: {conditions:?}"));
            }
            let via = living[turn % living.len()];
            if clients::write_once(&self.session, via).await {
                written += 1;
            } else {
                NodeRuntime::sleep(RETRY).await;
            }
            turn += 1;
        }
        let took = NodeRuntime::elapsed() - began;
        world.trace().event(format_args!("operator: those left serve after {} ms", took.as_millis()));
    }
}
