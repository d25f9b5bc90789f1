//! Clusters made anew within a run, and the members that each was made without.
//!
//! Owns the cluster that each disk belongs to, with the observations of its protocol, and the visits of members that were
//! given up: they run on their old disks, and no client asks them.
//!
//! Invariant: no process of any cluster runs while a new one is made.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use orch_raft::Revision;
use orch_raft::transport::{NodeId, Peer};

use super::World;
use crate::sim::consensus::Protocol;
use crate::sim::eras::Era;
use crate::sim::faults;
use crate::sim::intrusion::{Promise, promised};

impl World {
    /// Cuts the power of every member, until a new cluster is begun or [`World::resume_all`]. Nothing that any member is asked
    /// meanwhile is done later.
    pub fn lose_quorum(&self) {
        self.0.upheavals.fetch_add(1, Ordering::Relaxed);
        self.set_truce(true);
        self.members().into_iter().for_each(|node| self.hold(node));
        faults::mend(self);
        // The operator installs the newest program with the new cluster.
        self.members().into_iter().for_each(|node| self.versions().upgrade(node));
    }

    /// Starts all members again: no cluster is made anew.
    pub fn resume_all(&self) {
        self.members().into_iter().for_each(|node| self.release(node));
        self.set_truce(false);
    }

    /// Number of times that all members were stopped for a new cluster: a client that asked before knows nothing of what
    /// becomes of it.
    pub fn upheavals(&self) -> u64 {
        self.0.upheavals.load(Ordering::Relaxed)
    }

    /// Begins the cluster that was made on the disk of `node`, whose log begins at `beginning` of `term`, and starts it.
    pub fn begin_anew(&self, node: NodeId, term: u64, beginning: Revision) {
        self.trace().event(format_args!("n{} begins a new cluster at {beginning} of term {term}", node.0));
        let cluster = {
            let mut protocols = self.0.protocols.lock();
            protocols.push(Protocol::beginning(node, term, beginning.0));
            protocols.len() - 1
        };
        self.0.eras.lock().push(Era { began: self.history().now(), beginning });
        *self.0.founders.lock() = vec![node];
        self.0.roster.lock().clear();
        self.0.early.lock().clear();
        self.duties(|duties| duties.forget());
        // No answer of the new cluster is older, whether a client knows its beginning or not.
        self.acknowledge(beginning);
        self.admit(node, cluster);
    }

    /// Takes `node` into the current cluster, with an empty disk.
    pub fn admit_empty(&self, node: NodeId) {
        self.trace().event(format_args!("n{} gets an empty disk and joins", node.0));
        self.kill(node, true);
        self.disk(node).wipe();
        let cluster = self.0.protocols.lock().len() - 1;
        self.admit(node, cluster);
    }

    fn admit(&self, node: NodeId, cluster: usize) {
        let member = self.member(node);
        member.cluster.store(cluster, Ordering::Relaxed);
        for mark in [&member.disk_lost, &member.leaving, &member.rotten] {
            mark.store(false, Ordering::Relaxed);
        }
        self.0.roster.lock().insert(node);
        self.release(node);
    }

    /// Starts `node`, which was given up, on its old disk.
    pub fn visit(&self, node: NodeId) {
        self.trace().event(format_args!("n{} comes back with its old disk", node.0));
        self.0.visitors.lock().insert(node);
        self.release(node);
    }

    /// Ends [`World::visit`].
    pub fn see_out(&self, node: NodeId) {
        self.0.visitors.lock().remove(&node);
        self.hold(node);
    }

    /// `node` was given up, and runs on its old disk.
    pub fn is_visiting(&self, node: NodeId) -> bool {
        self.0.visitors.lock().contains(&node)
    }

    /// The clusters made anew, oldest first.
    pub fn eras(&self) -> Vec<Era> {
        self.0.eras.lock().clone()
    }

    /// The founders of the current cluster.
    pub fn founders(&self) -> Vec<Peer> {
        self.0.founders.lock().iter().map(|node| self.peer(*node).clone()).collect()
    }

    /// `node` has a disk of the current cluster.
    pub(super) fn is_of_current(&self, node: NodeId) -> bool {
        self.member(node).cluster.load(Ordering::Relaxed) + 1 == self.0.protocols.lock().len()
    }

    /// Calls `work` with the observations of the cluster that the disk of `node` belongs to.
    pub(super) fn protocol_of<R>(&self, node: NodeId, work: impl FnOnce(&mut Protocol) -> R) -> R {
        let cluster = self.member(node).cluster.load(Ordering::Relaxed);
        work(&mut self.0.protocols.lock()[cluster])
    }

    /// Calls `work` with the observations of the current cluster.
    pub(super) fn protocol<R>(&self, work: impl FnOnce(&mut Protocol) -> R) -> R {
        let mut protocols = self.0.protocols.lock();
        let newest = protocols.len() - 1;
        work(&mut protocols[newest])
    }

    /// Fails the run where members of two clusters vote for each other, or where one of the current cluster follows one that
    /// was given up.
    pub(super) fn look_for_intrusion(&self, asker: NodeId, node: NodeId, asked: &Bytes, answered: &Bytes) {
        let cluster = |node: NodeId| Some(self.0.members.get(&node)?.cluster.load(Ordering::Relaxed));
        let clusters = cluster(asker).zip(cluster(node));
        if clusters.is_none_or(|(one, other)| one == other) {
            return;
        }
        match promised(asked, answered) {
            Some(Promise::Vote(term)) => self.fail(format_args!(
                "n{} votes for n{} in term {term}, and one of them is of a cluster that was given up",
                node.0, asker.0
            )),
            Some(Promise::Follows(term)) if self.is_of_current(node) => self.fail(format_args!(
                "n{} follows n{} in term {term}, which is of a cluster that was given up",
                node.0, asker.0
            )),
            Some(Promise::Follows(_)) | None => {}
        }
    }
}
