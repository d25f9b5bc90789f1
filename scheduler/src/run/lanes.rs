//! The order of writes to one pod and for it.
//!
//! Owns the write of a pod that is under way, and the writes that wait for it. Patches that wait become one. A binding waits for
//! the patch under way, which could arrive after it and say that a pod with a node has none, and drops the patch that
//! waits, which would certainly say that. A claim that is given up is out of the way before the next binding reserves it.
//!
//! Pure: it decides which write may start, and its caller carries the write out. Patches start only when the caller has room for
//! them; a binding does not wait for that room.
//!
//! Invariant: of one pod, at most one write is under way.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use crate::plan::decision::UnusableClaim;

use super::binding::{Job, PodRef};

/// A write.
#[derive(Debug)]
pub(super) enum Write {
    /// Of a pod's status.
    Patch(PodRef, Value),
    /// Of a claim that is of no use to its pod.
    GiveUp(UnusableClaim, PodRef),
    /// The writes and the binding of a pod.
    Bind(Box<Job>),
}

impl Write {
    /// The UID of the pod.
    pub(super) fn uid(&self) -> &Arc<str> {
        match self {
            Write::Patch(pod, _) | Write::GiveUp(_, pod) => &pod.uid,
            Write::Bind(job) => &job.pod.uid,
        }
    }

    fn is_patch(&self) -> bool {
        matches!(self, Write::Patch(..))
    }
}

/// The turn of a patch that waits for room. A binding that comes first makes it void.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn(u64);

/// A write that may start.
#[derive(Debug)]
pub(super) enum Start {
    /// At once.
    Now(Write),
    /// Once there is room for a patch: [`Lanes::begin`] returns the patch.
    InTurn(Turn),
}

/// The end of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The pod is bound: its status needs no more patches.
    Bound,
    /// Every other outcome.
    Otherwise,
}

/// The writes of one pod.
struct Lane {
    turn: Turn,
    is_under_way: bool,
    // The writes behind the one under way. Where no write is under way, the first is a patch without room.
    waiting: VecDeque<Write>,
}

/// The writes of all pods.
#[derive(Default)]
pub(super) struct Lanes {
    lanes: HashMap<Arc<str>, Lane>,
    turns: u64,
}

impl Lanes {
    /// Takes in a write, and returns the write that may start.
    pub(super) fn add(&mut self, write: Write) -> Option<Start> {
        let uid = write.uid().clone();
        match self.lanes.get_mut(&uid) {
            None => {
                let lane = Lane { turn: Turn(0), is_under_way: false, waiting: [write].into() };
                self.lanes.insert(uid.clone(), lane);
                self.start(&uid)
            }
            Some(lane) => {
                lane.add(write);
                // A patch that is first has its turn already.
                let is_free =
                    !lane.is_under_way && lane.waiting.front().is_some_and(|first| !first.is_patch());
                if is_free { self.start(&uid) } else { None }
            }
        }
    }

    /// There is room for a patch; returns the patch of this turn. `None`: another write took its place.
    pub(super) fn begin(&mut self, uid: &Arc<str>, turn: Turn) -> Option<Write> {
        let lane = self.lanes.get_mut(uid).filter(|lane| lane.turn == turn && !lane.is_under_way)?;
        lane.is_under_way = true;
        lane.waiting.pop_front()
    }

    /// The write under way has ended; returns the write that may start.
    pub(super) fn ended(&mut self, uid: &Arc<str>, how: Ended) -> Option<Start> {
        let lane = self.lanes.get_mut(uid)?;
        lane.is_under_way = false;
        if how == Ended::Bound {
            lane.waiting.retain(|write| !write.is_patch());
        }
        self.start(uid)
    }

    /// Begins the first write that waits for a pod, or gives it its turn. Every earlier turn is void.
    fn start(&mut self, uid: &Arc<str>) -> Option<Start> {
        let lane = self.lanes.get_mut(uid)?;
        self.turns += 1;
        lane.turn = Turn(self.turns);
        match lane.waiting.front() {
            None => {
                self.lanes.remove(uid);
                None
            }
            Some(Write::Patch(..)) => Some(Start::InTurn(lane.turn)),
            Some(_) => {
                lane.is_under_way = true;
                lane.waiting.pop_front().map(Start::Now)
            }
        }
    }
}

impl Lane {
    fn add(&mut self, write: Write) {
        match write {
            Write::Patch(pod, patch) => match self.waiting.back_mut() {
                Some(Write::Patch(before, waiting)) => {
                    merge(waiting, patch);
                    *before = pod;
                }
                _ => self.waiting.push_back(Write::Patch(pod, patch)),
            },
            Write::GiveUp(claim, pod) => {
                // few: the claims of one pod.
                let is_known = |held: &Write| matches!(held, Write::GiveUp(held, _) if *held == claim);
                if !self.waiting.iter().any(is_known) {
                    self.waiting.push_back(Write::GiveUp(claim, pod));
                }
            }
            Write::Bind(job) => {
                self.waiting.retain(|write| !write.is_patch());
                self.waiting.push_back(Write::Bind(job));
            }
        }
    }
}

/// Makes the patch `first` have the effect of both, `second` after it.
fn merge(first: &mut Value, second: Value) {
    match (first["status"].as_object_mut(), second["status"].as_object()) {
        (Some(into), Some(from)) => into.extend(from.clone()),
        _ => *first = second,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::decision::ClaimName;

    fn pod(version: &str) -> PodRef {
        PodRef { namespace: "d".into(), name: "p".into(), uid: "u".into(), version: version.into() }
    }

    fn patch(version: &str, reason: &str) -> Write {
        Write::Patch(pod(version), json!({ "status": { "conditions": [reason] } }))
    }

    fn bind() -> Write {
        Write::Bind(Box::new(Job::plain(pod(""))))
    }

    fn give_up() -> Write {
        let claim = ClaimName { namespace: "d".to_owned(), name: "c".to_owned() };
        Write::GiveUp(UnusableClaim::Deallocate(claim), pod(""))
    }

    fn turn(start: Option<Start>) -> Turn {
        match start {
            Some(Start::InTurn(turn)) => turn,
            other => panic!("no turn: {other:?}"),
        }
    }

    fn is_binding(start: Option<&Start>) -> bool {
        matches!(start, Some(Start::Now(Write::Bind(_))))
    }

    fn uid() -> Arc<str> {
        "u".into()
    }

    #[test]
    fn a_binding_waits_for_the_patch_under_way_and_drops_the_one_that_waits() {
        let mut lanes = Lanes::default();
        let first = turn(lanes.add(patch("1", "a")));
        assert!(lanes.begin(&uid(), first).is_some());
        assert!(lanes.add(patch("1", "b")).is_none());
        assert!(lanes.add(bind()).is_none(), "the patch is under way");
        assert!(is_binding(lanes.ended(&uid(), Ended::Otherwise).as_ref()));
        assert!(lanes.ended(&uid(), Ended::Bound).is_none());
        assert!(lanes.lanes.is_empty());
    }

    #[test]
    fn a_binding_does_not_wait_until_there_is_room_for_a_patch() {
        let mut lanes = Lanes::default();
        let first = turn(lanes.add(patch("1", "a")));
        assert!(is_binding(lanes.add(bind()).as_ref()));
        assert!(lanes.begin(&uid(), first).is_none(), "its patch was dropped");
        assert!(lanes.add(patch("1", "b")).is_none());
        assert!(lanes.begin(&uid(), first).is_none(), "an old turn is void");
        let second = turn(lanes.ended(&uid(), Ended::Otherwise));
        assert!(lanes.begin(&uid(), second).is_some(), "what came behind the binding is told");
    }

    #[test]
    fn nothing_more_is_said_of_a_bound_pod() {
        let mut lanes = Lanes::default();
        assert!(is_binding(lanes.add(bind()).as_ref()));
        assert!(lanes.add(patch("1", "a")).is_none());
        assert!(lanes.add(give_up()).is_none());
        let next = lanes.ended(&uid(), Ended::Bound);
        assert!(matches!(next, Some(Start::Now(Write::GiveUp(..)))), "{next:?}");
        assert!(lanes.ended(&uid(), Ended::Otherwise).is_none());
    }

    #[test]
    fn a_claim_is_given_up_before_the_binding_that_may_reserve_it() {
        let mut lanes = Lanes::default();
        let first = turn(lanes.add(patch("1", "a")));
        assert!(lanes.add(give_up()).is_none());
        assert!(lanes.add(give_up()).is_none());
        let next = lanes.add(bind());
        assert!(matches!(next, Some(Start::Now(Write::GiveUp(..)))), "{next:?}");
        assert!(lanes.begin(&uid(), first).is_none());
        assert!(is_binding(lanes.ended(&uid(), Ended::Otherwise).as_ref()), "it is given up once");
    }

    #[test]
    fn the_later_patch_wins_member_by_member() {
        let mut lanes = Lanes::default();
        let both = json!({ "status": { "conditions": [1], "nominatedNodeName": "a" } });
        let first = turn(lanes.add(Write::Patch(pod("1"), both)));
        assert!(lanes.add(patch("2", "b")).is_none());
        let Some(Write::Patch(pod, patch)) = lanes.begin(&uid(), first) else { panic!("a patch waits") };
        assert_eq!(patch, json!({ "status": { "conditions": ["b"], "nominatedNodeName": "a" } }));
        assert_eq!(&*pod.version, "2");
    }
}
