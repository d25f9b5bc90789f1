//! Oracle of availability: a connected majority of running members has a leader that takes writes.
//!
//! Runs from the founding until the calm, which has checks of its own. Whenever members that are whole and reach each
//! other are a majority of the newest voters, and stay so for [`SERVED_WITHIN`] while nothing around them changes, a
//! write must be answered as applied meanwhile: a client's, or, if clients have nothing to write, one of the oracle's
//! own. It changes nothing else.
//!
//! The newest voters are more than a majority may know: an uncommitted membership change in the log of a running member
//! needs its own majorities, and without them nothing is owed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_raft::transport::NodeId;

use super::clients;
use super::network::Passage;
use super::runtime::{NodeRuntime, spawn_detached};
use super::session::Session;
use super::world::{Condition, World};

/// Virtual time within which a majority must have taken a write. Several delays may add up: a stream over a cut link is
/// given up after three seconds; a receiver waits ten for the next frame of a snapshot; reports about a peer, and the
/// contact with the lost leader, hold for two; an accusation is checked again after one. The elections themselves take
/// half a second each.
pub const SERVED_WITHIN: Duration = Duration::from_secs(20);

/// Time without a client's write after which the oracle proposes one itself.
const ASK_AFTER: Duration = Duration::from_secs(10);

/// Polling interval: shorter than an election, so that no member comes and goes unseen.
const LOOK: Duration = Duration::from_millis(50);

/// Polls between two writes of the oracle.
const LOOKS_PER_WRITE: u64 = 10;

/// Client number of the oracle.
const ONLOOKER: u64 = 102;

/// Everything that a majority's ability to elect a leader may depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Picture {
    /// Members and their numbers of starts; `None` for a member that is down.
    members: BTreeMap<NodeId, Option<u64>>,
    /// Pairs of members that do not reach each other.
    apart: BTreeSet<(NodeId, NodeId)>,
    voters: Vec<BTreeSet<u64>>,
}

impl Picture {
    /// The current picture; `None` while an intermittent fault is in force, or before there are voters.
    fn take(world: &World) -> Option<Self> {
        let members: Option<BTreeMap<NodeId, Option<u64>>> = world
            .members()
            .into_iter()
            .map(|node| match world.condition(node) {
                Condition::Whole(starts) => Some((node, Some(starts))),
                Condition::Away => Some((node, None)),
                Condition::Ailing => None,
            })
            .collect();
        let members = members.filter(|_| world.network().is_usual())?;
        let living: Vec<NodeId> = whole(&members).collect();
        let mut apart = BTreeSet::new();
        for (one, other) in living.iter().flat_map(|one| living.iter().map(move |other| (*one, *other))) {
            if one < other {
                match world.network().passage(one, other) {
                    Passage::BothWays => {}
                    Passage::NoWay => drop(apart.insert((one, other))),
                    Passage::OneWay => return None,
                }
            }
        }
        let voters = world.voter_sets(&living)?;
        Some(Picture { members, apart, voters })
    }

    /// Whole members that all reach each other and are majorities of all voter sets.
    fn majority(&self) -> Option<Vec<NodeId>> {
        let meets = |one: NodeId, other: NodeId| !self.apart.contains(&(one.min(other), one.max(other)));
        let around = |node: NodeId| -> Vec<NodeId> {
            whole(&self.members).filter(|other| meets(node, *other)).collect()
        };
        let is_majority = |group: &[NodeId]| {
            let votes = |set: &BTreeSet<u64>| group.iter().filter(|node| set.contains(&node.0)).count();
            !self.voters.is_empty() && self.voters.iter().all(|set| 2 * votes(set) > set.len())
        };
        let is_whole =
            |group: &[NodeId]| group.iter().all(|one| group.iter().all(|other| meets(*one, *other)));
        whole(&self.members).map(around).find(|group| is_whole(group) && is_majority(group))
    }
}

fn whole(members: &BTreeMap<NodeId, Option<u64>>) -> impl Iterator<Item = NodeId> {
    members.iter().filter(|(_, starts)| starts.is_some()).map(|(node, _)| *node)
}

/// Runs until its task is ended.
pub async fn watch(world: World) {
    let session = Session::new(&world, ONLOOKER);
    let (mut last, mut taken, mut since) = (None, 0, NodeRuntime::elapsed());
    let mut looks: u64 = 0;
    while world.failure().is_none() {
        NodeRuntime::sleep(LOOK).await;
        world.observe_logs();
        let picture = Picture::take(&world);
        let majority = picture.as_ref().and_then(Picture::majority);
        let now = NodeRuntime::elapsed();
        if picture != last || majority.is_none() || taken != world.taken() {
            (last, taken, since) = (picture, world.taken(), now);
            continue;
        }
        let (waited, Some(majority)) = (now - since, majority) else { continue };
        looks += 1;
        if waited >= ASK_AFTER && looks.is_multiple_of(LOOKS_PER_WRITE) {
            let (session, via) = (session.clone(), majority[session.dice().index(majority.len())]);
            drop(spawn_detached(async move { clients::write_once(&session, via).await }));
        }
        if waited >= SERVED_WITHIN {
            let voters = last.map(|picture| picture.voters);
            return world.fail(format_args!(
                "{majority:?} live, reach each other and are a majority of the voters {voters:?}, and no write is taken for \
                 {SERVED_WITHIN:?}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(whole: &[u64], away: &[u64], apart: &[(u64, u64)], voters: &[&[u64]]) -> Picture {
        let living = whole.iter().map(|id| (NodeId(*id), Some(1)));
        Picture {
            members: living.chain(away.iter().map(|id| (NodeId(*id), None))).collect(),
            apart: apart.iter().map(|(one, other)| (NodeId(*one), NodeId(*other))).collect(),
            voters: voters.iter().map(|set| set.iter().copied().collect()).collect(),
        }
    }

    #[test]
    fn something_is_owed_by_a_connected_majority_of_every_set_of_voters() {
        let three: &[u64] = &[1, 2, 3];
        let owed = |picture: &Picture| picture.majority().map(|group| group.len());
        assert_eq!(owed(&picture(&[1, 2], &[3], &[], &[three])), Some(2));
        assert_eq!(owed(&picture(&[1], &[2, 3], &[], &[three])), None);
        assert_eq!(owed(&picture(&[1, 2], &[3], &[(1, 2)], &[three])), None);
        assert_eq!(owed(&picture(&[1, 2, 3], &[], &[(1, 2), (1, 3)], &[three])), Some(2), "one is cut off");
        assert_eq!(owed(&picture(&[1, 2], &[3], &[], &[three, &[2, 3, 4]])), None, "a change is under way");
        assert_eq!(owed(&picture(&[1, 4], &[2, 3], &[], &[three])), None, "a learner has no vote");
        assert_eq!(owed(&picture(&[1, 2], &[], &[], &[])), None);
    }
}
