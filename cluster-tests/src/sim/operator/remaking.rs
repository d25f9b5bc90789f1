//! An operator who makes the cluster anew: of a survivor's disk after the quorum is lost for good, or of a snapshot after
//! every member is lost.
//!
//! Owns both sequences. Reading a survivor, writing and reading a snapshot, filling the new disk and reading it back are the
//! product's own steps, over simulated disks. A store that takes the place of another one in a data directory is not
//! simulated: `raft/src/disk/rocks/remaking` has tests of that.
//!
//! Afterwards members that were given up may come back with their disks, and be added by mistake: they must not get the new
//! state. Then some join under their old names with empty disks. The ledger judges which objects the new cluster begins with; `eras`
//! what clients see over its beginning; `intrusion` whether members that were given up take part.

use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_proto::store as wire;
use orch_raft::archive::{ArchiveError, Header, Reader, Record, write_state};
use orch_raft::disk::MetaKey;
use orch_raft::member::reseed::{
    FIRST_TERM, NewCluster, Origin, ReseedError, Survivor, beginning, check, fill,
};
use orch_raft::member::{ChangeError, ClusterIdentity, ClusterSeed};
use orch_raft::transport::NodeId;
use orch_raft::{Revision, Store};
use prost::Message;

use super::{Operator, RETRY};
use crate::sim::clients;
use crate::sim::dice::Dice;
use crate::sim::history::Version;
use crate::sim::ledger::Model;
use crate::sim::majority::SERVED_WITHIN;
use crate::sim::plant::{Occasion, Plant};
use crate::sim::process::MemberStore;
use crate::sim::runtime::NodeRuntime;
use crate::sim::world::Handle;

/// Percentage of runs in which the cluster is made anew, once: one in eight.
const RUNS_PERCENT: u64 = 12;

/// Time in which no member runs, in milliseconds: every frame and request of before is lost by then.
const DOWN_MS_MIN: u64 = 200;
const DOWN_MS_MAX: u64 = 1500;

/// Longest time between a snapshot and the loss of all members, in milliseconds: what is written meanwhile is lost.
const SNAPSHOT_AGE_MS_MAX: u64 = 2500;

/// Percentage of restores in which the disks of the members are lost, too.
const DISKS_LOST_PERCENT: u64 = 50;

/// Percentage of visits that a planted bug needs with a single visitor, which hears of no leader but the new one.
const ALONE_PERCENT: u64 = 50;

/// Percentage of members that come back with the disk that was given up.
const VISITORS_PERCENT: u64 = 50;

/// Percentage of visits in which one of them is added by mistake.
const MISTAKES_PERCENT: u64 = 50;

/// Members that join the new cluster: with its first one they are three.
const JOINERS: usize = 2;

/// Time for which a member is added that should have had its disk emptied: it takes a second to learn that it does not answer.
const TRIED_FOR: Duration = Duration::from_millis(2500);

/// Time in which a learner has the state: of some objects, at once. A vote is given to none without it.
const SENT_WITHIN: Duration = Duration::from_secs(3);

/// Time for the promotion of a member that should have been refused.
const PROMOTED_WITHIN: Duration = Duration::from_secs(6);

/// Timeout of a change: a little more than a member's own deadline, so that its answer arrives.
const PATIENCE: Duration = Duration::from_secs(11);

/// Time for an election.
const ELECTED_WITHIN: Duration = Duration::from_secs(5);

/// The source of the new cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remaking {
    /// A survivor's disk.
    Recovery,
    /// A snapshot.
    Restore,
}

/// A point of the earlier cluster, and its objects.
struct Kept {
    origin: Origin,
    /// The term in which the new log begins.
    term: u64,
    records: Vec<Record>,
}

impl Kept {
    fn model(&self) -> Model {
        let of =
            |record: &Record| ((record.resource.clone(), record.path.clone()), Version::of(&record.object));
        self.records.iter().map(of).collect()
    }
}

impl Operator {
    /// The source of a new cluster in this run; `None` in most runs.
    pub(super) fn remaking(&self) -> Option<Remaking> {
        let world = self.world();
        let due = [(Occasion::Recovery, Remaking::Recovery), (Occasion::Restore, Remaking::Restore)];
        if world.setup().plant.is_some() {
            return due.into_iter().find(|(occasion, _)| world.is_due(*occasion)).map(|(_, kind)| kind);
        }
        let dice = world.dice("remaking");
        // In a run of minutes the network heals link by link, for as long as the whole sequence takes.
        let happens = dice.percent(RUNS_PERCENT) && world.minutes().is_none();
        happens.then(|| due[dice.index(due.len())].1)
    }

    /// The cluster is led, and large enough that a quorum can be lost.
    pub(super) fn may_remake(&self) -> bool {
        let (world, members) = (self.world(), self.world().members());
        world.leader().is_some()
            && members.len() >= 3
            && !members.iter().any(|node| world.has_lost_disk(*node))
    }

    /// Loses the cluster, makes another one, and lets members join it.
    pub(super) async fn remake(&self, kind: Remaking) {
        let (world, dice) = (self.world(), self.world().dice("making anew"));
        let made_of = match kind {
            Remaking::Recovery => self.lose_quorum(&dice).await,
            Remaking::Restore => self.lose_all(&dice).await,
        };
        let Some((first, kept)) = made_of else { return };
        let given_up: Vec<NodeId> = world.members().into_iter().filter(|node| *node != first).collect();
        if !Box::pin(self.begin(first, kept)).await {
            return;
        }
        let disks_are_left = kind == Remaking::Recovery || !dice.percent(DISKS_LOST_PERCENT);
        if disks_are_left {
            self.receive(&dice, first, &given_up).await;
        }
        for node in given_up.into_iter().take(JOINERS) {
            world.admit_empty(node);
            self.add_learner(node).await;
            self.promote(node).await;
        }
    }

    /// All members lose power, and one of those with the newest term is all that is left. `None` where no disk can be
    /// recovered: then all go on.
    async fn lose_quorum(&self, dice: &Dice) -> Option<(NodeId, Kept)> {
        let world = self.world();
        world.lose_quorum();
        NodeRuntime::sleep(dice.millis(DOWN_MS_MIN..DOWN_MS_MAX)).await;
        let mut survivors: Vec<(NodeId, Survivor)> =
            world.members().into_iter().filter_map(|node| Some((node, self.read(node)?))).collect();
        // Of two survivors the one with the higher term has more; of the others, an entry may have been replaced.
        let newest = survivors.iter().map(|(_, survivor)| survivor.found().term).max();
        survivors.retain(|(_, survivor)| Some(survivor.found().term) == newest);
        if survivors.is_empty() {
            world.resume_all();
            return None;
        }
        let (node, survivor) = &survivors[dice.index(survivors.len())];
        world.trace().event(format_args!(
            "operator: n{} is all that is left: {:?}",
            node.0,
            survivor.found()
        ));
        let records = survivor.records().collect::<Result<_, _>>();
        let records = records.map_err(|error| world.fail(error)).ok()?;
        Some((*node, Kept { origin: survivor.origin(), term: survivor.next_term(), records }))
    }

    /// The disk of `node`, which is stopped; `None` if it has no part of a cluster, or is the only voter.
    fn read(&self, node: NodeId) -> Option<Survivor> {
        match Survivor::read(&self.world().disk(node).open()) {
            Ok(survivor) => Some(survivor).filter(|survivor| survivor.found().doubts.is_empty()),
            Err(ReseedError::NoCluster | ReseedError::NotNeeded(_)) => None,
            Err(error) => {
                self.world().fail(format_args!("the disk of n{} cannot be recovered: {error}", node.0));
                None
            }
        }
    }

    /// Saves a snapshot, and all members are lost some time later. `None` where no member gives one.
    async fn lose_all(&self, dice: &Dice) -> Option<(NodeId, Kept)> {
        let world = self.world();
        let saved = self.save().await?;
        NodeRuntime::sleep(dice.millis(0..SNAPSHOT_AGE_MS_MAX)).await;
        world.lose_quorum();
        NodeRuntime::sleep(dice.millis(DOWN_MS_MIN..DOWN_MS_MAX)).await;
        let read = || -> Result<Kept, ArchiveError> {
            let reader = Reader::open(&saved[..])?;
            let Header { cluster, revision, time_ms, .. } = reader.header().clone();
            let origin = Origin { cluster, revision: revision.0, time_ms };
            Ok(Kept { origin, term: FIRST_TERM, records: reader.collect::<Result<_, _>>()? })
        };
        let kept = read().map_err(|error| world.fail(error)).ok()?;
        let members = world.members();
        Some((members[dice.index(members.len())], kept))
    }

    /// A snapshot of the state that a member has after a barrier.
    async fn save(&self) -> Option<Vec<u8>> {
        let via = self.session.pick();
        let (clock, member) = (self.world().clock(via), self.world().peer(via).name.to_string());
        let saving = move |store: Handle| async move {
            store.barrier().await.ok()?;
            let state = store.state();
            let ClusterIdentity { cluster, brand, .. } = ClusterIdentity::read(&state)?;
            let feature_level = store.inner().status().feature_level;
            let header =
                Header { cluster, brand, time_ms: clock(), feature_level, member, ..Header::default() };
            write_state(Vec::new(), &header, &state).ok()
        };
        let saved = self.session.request(via, saving).await.ok().flatten();
        let bytes = saved.as_ref().map(Vec::len);
        self.world().trace().event(format_args!("operator: snapshot of n{}: {bytes:?} bytes", via.0));
        saved
    }

    /// Makes the new cluster on the disk of `node`, and waits until it serves. `false` if the run has failed.
    async fn begin(&self, node: NodeId, kept: Kept) -> bool {
        let (world, model) = (self.world(), kept.model());
        let Kept { origin, term, records } = kept;
        let new = self.new_cluster(node, &origin);
        let (point, at) = (Revision(origin.revision), Revision(new.beginning));
        if let Err(difference) = world.ledger().make_anew(point, &model, at) {
            world.fail(difference);
            return false;
        }
        world.disk(node).wipe();
        let disk = world.disk(node).open();
        let filled = fill(&disk, &origin, &new, term, records.into_iter().map(Ok)).await;
        if let Err(error) = filled.and_then(|filled| check(&disk, &filled)) {
            world.fail(format_args!("no cluster can be made on n{}: {error}", node.0));
            return false;
        }
        let plant = world.setup().plant;
        if let Some(copy) = plant.and_then(|plant| plant.keep_name(world.disk(node).copy(), &origin.cluster))
        {
            world.disk(node).put_back(copy);
        }
        world.begin_anew(node, term, at);
        self.wait_served(node).await
    }

    fn new_cluster(&self, node: NodeId, origin: &Origin) -> NewCluster {
        let world = self.world();
        let (dice, now_ms) = (world.dice("new cluster"), world.clock(node)());
        let beginning = match world.setup().plant {
            Some(Plant::RevisionsReused) => origin.revision + 1,
            _ => beginning(origin, now_ms, 0),
        };
        let mut token_key = [0; 32];
        token_key[..8].copy_from_slice(&dice.number(0..u64::MAX).to_le_bytes());
        let cluster = format!("anew-{}", world.eras().len() + 1);
        let seed = ClusterSeed { cluster: cluster.into(), brand: "orch".into(), token_key };
        let directory = format!("{:016x}", dice.number(0..u64::MAX));
        NewCluster { member: world.peer(node).clone(), seed, directory, now_ms, beginning }
    }

    /// Waits until the cluster of one takes a write, and ends the truce.
    async fn wait_served(&self, node: NodeId) -> bool {
        let (world, began) = (self.world(), NodeRuntime::elapsed());
        while !clients::write_once(&self.session, node).await {
            if NodeRuntime::elapsed() - began > SERVED_WITHIN {
                world.fail(format_args!("the cluster made anew on n{} takes no write", node.0));
            }
            if world.failure().is_some() {
                return false;
            }
            NodeRuntime::sleep(RETRY).await;
        }
        world.set_truce(false);
        true
    }

    /// Members that were given up come back with their disks, while clients use the cluster of `first`.
    async fn receive(&self, dice: &Dice, first: NodeId, given_up: &[NodeId]) {
        let world = self.world();
        let is_due = world.is_due(Occasion::Recovery);
        let comes = |node: &&NodeId| self.knows_cluster(**node) && (is_due || dice.percent(VISITORS_PERCENT));
        let mut visitors: Vec<NodeId> = given_up.iter().filter(comes).copied().collect();
        if is_due && dice.percent(ALONE_PERCENT) {
            visitors.truncate(1);
        }
        let Some(mistaken) = visitors.first() else { return };
        visitors.iter().for_each(|node| world.visit(*node));
        NodeRuntime::sleep(dice.millis(300..2500)).await;
        if is_due || dice.percent(MISTAKES_PERCENT) {
            self.add_by_mistake(*mistaken, first, &visitors).await;
        }
        for node in &visitors {
            if self.has_new_state(*node) {
                world.fail(format_args!("n{} has the new cluster's state, and its old disk", node.0));
            }
            world.see_out(*node);
        }
    }

    fn knows_cluster(&self, node: NodeId) -> bool {
        let identity = self.world().disk(node).meta(MetaKey::Identity);
        identity
            .and_then(|bytes| wire::Identity::decode(bytes).ok())
            .is_some_and(|known| !known.cluster.is_empty())
    }

    /// `node`, which was given up, has applied the state of the current cluster.
    fn has_new_state(&self, node: NodeId) -> bool {
        let beginning = self.world().eras().last().map(|era| era.beginning);
        beginning.is_some_and(|beginning| self.world().applied(node) >= Some(beginning))
    }

    /// Has `node` added, which runs on its old disk: a member may be added before it is started on an empty one. It must not get
    /// the new state. Where it does, `first` has to be elected again, with the vote of that member.
    async fn add_by_mistake(&self, node: NodeId, first: NodeId, visitors: &[NodeId]) {
        let (world, peer) = (self.world(), self.world().peer(node).clone());
        let adding = move |store: MemberStore| {
            let peer = peer.clone();
            async move { store.add_learner(&peer).await }
        };
        self.is_done("add a member with its old disk", TRIED_FOR, adding).await;
        self.wait(SENT_WITHIN, || self.has_new_state(node)).await;
        if !self.has_new_state(node) {
            return;
        }
        visitors.iter().filter(|other| **other != node).for_each(|other| world.see_out(*other));
        // It registers its disk in the new state once it starts on it, without which it is not promoted.
        world.kill(node, true);
        world.start(node);
        let promoting = move |store: MemberStore| async move { store.promote(node).await };
        self.is_done("promote a member with its old disk", PROMOTED_WITHIN, promoting).await;
        world.kill(first, true);
        world.start(first);
        self.wait(ELECTED_WITHIN, || false).await;
        world.fail(format_args!("n{} was given up, and was added with its old disk", node.0));
    }

    /// Waits for `is_there`, or for as long as `within`, or until the run fails.
    async fn wait(&self, within: Duration, is_there: impl Fn() -> bool) {
        let began = NodeRuntime::elapsed();
        let is_over = || self.world().failure().is_some() || NodeRuntime::elapsed() - began > within;
        while !is_there() && !is_over() {
            NodeRuntime::sleep(RETRY).await;
        }
    }

    /// Requests a change for a while. `true` as soon as it is made.
    async fn is_done<F>(
        &self,
        what: &str,
        within: Duration,
        change: impl Fn(MemberStore) -> F + Clone + Send + 'static,
    ) -> bool
    where
        F: Future<Output = Result<(), ChangeError>> + Send,
    {
        let (session, began) = (self.session.patient(PATIENCE), NodeRuntime::elapsed());
        while NodeRuntime::elapsed() - began < within && self.world().failure().is_none() {
            let (via, change) = (session.pick(), change.clone());
            let work = move |store: Handle| async move { change(store.inner().clone()).await };
            let answer = session.request(via, work).await;
            self.world().trace().event(format_args!("operator: {what} via n{}: {answer:?}", via.0));
            if answer == Ok(Ok(())) {
                return true;
            }
            NodeRuntime::sleep(RETRY).await;
        }
        false
    }
}
