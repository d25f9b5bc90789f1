//! Observation of the members: after each step of a process, and of the whole state when a run asks for it.
//!
//! Owns the calls of the oracles. Their first finding ends the run.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use orch_raft::transport::NodeId;
use orch_raft::{Revision, State, Store};

use super::lives::Process;
use super::{Handle, World};
use crate::sim::ledger::Cursor;

impl World {
    /// Checks `node` after one of its steps.
    pub(super) fn observe(&self, node: NodeId) {
        let Some(process) = self.process(node) else { return };
        self.look_for_panics(node, &process);
        let disk = &self.member(node).disk;
        if let Err(breach) = self.protocol_of(node, |protocol| protocol.observe_vote(node, disk)) {
            self.fail(breach);
        }
        // Changes that members which were given up apply among themselves are no part of the ledger.
        if let Some(store) = process.store.as_ref().filter(|_| self.is_of_current(node)) {
            self.look_for_quarantine(node, store);
            let state = store.inner().state();
            self.0.versions.observe(&state);
            self.compare(node, &state, &mut process.seen.lock());
        }
    }

    /// Checks an answer of `node` to a call of `asker`.
    pub(super) fn overhear(&self, asker: NodeId, node: NodeId, asked: &Bytes, answered: &Bytes) {
        let heard = self.protocol_of(node, |protocol| protocol.overhear(node, asked, answered));
        heard.unwrap_or_else(|breach| self.fail(breach));
        self.look_for_intrusion(asker, node, asked, answered);
    }

    /// A quarantine is a bug unless the run spoiled the member's state.
    fn look_for_quarantine(&self, node: NodeId, store: &Handle) {
        let spoiled = self.member(node).rotten.load(Ordering::Relaxed);
        if let (false, Err(reason)) = (spoiled, store.inner().may_serve()) {
            self.fail(format_args!("n{} was not spoiled: {reason}", node.0));
        }
    }

    /// Checks the whole state of `node`, whatever was observed before.
    pub fn observe_whole(&self, node: NodeId) {
        if let Some(store) = self.store(node) {
            self.compare(node, &store.state(), &mut Cursor::default());
        }
    }

    fn compare(&self, node: NodeId, state: &State, seen: &mut Cursor) {
        if self.member(node).rotten.load(Ordering::Relaxed) {
            return;
        }
        if let Err(disagreement) = self.0.ledger.observe(node, state, seen) {
            self.fail(disagreement);
        }
    }

    /// The stored state of a member is wrong and not repaired.
    pub fn has_rotten(&self) -> bool {
        self.0.members.values().any(|member| member.rotten.load(Ordering::Relaxed))
    }

    /// The stored state of `node` is wrong and not repaired; `false` for an unknown id.
    pub(super) fn is_rotten(&self, node: NodeId) -> bool {
        self.0.members.get(&node).is_some_and(|member| member.rotten.load(Ordering::Relaxed))
    }

    /// Records that the stored state of `node` is wrong, which the members must detect and repair, or that it is
    /// repaired.
    pub fn set_rotten(&self, node: NodeId, rotten: bool) {
        self.member(node).rotten.store(rotten, Ordering::Relaxed);
    }

    /// Applied revision of the process of `node`, if it serves.
    pub fn applied(&self, node: NodeId) -> Option<Revision> {
        Some(self.store(node)?.state().applied())
    }

    /// Checks every member's log. Called as often as the run can afford.
    pub fn observe_logs(&self) {
        let members = &self.0.members;
        let logs = members.iter().try_for_each(|(node, member)| {
            self.protocol_of(*node, |protocol| protocol.observe_log(*node, &member.disk))
        });
        let applied = |node: &NodeId| self.applied(*node).unwrap_or_default();
        let all = || {
            let current = members.keys().filter(|node| self.is_of_current(**node));
            let mut current = current.map(|node| (*node, applied(node)));
            current.try_for_each(|(node, applied)| {
                self.protocol(|protocol| protocol.observe_applied(node, applied))
            })
        };
        if let Err(breach) = logs.and_then(|()| all()) {
            self.fail(breach);
        }
    }

    pub(super) fn look_for_panics(&self, node: NodeId, process: &Process) {
        for message in process.group.take_panics() {
            self.fail(format_args!("n{} panicked: {message}", node.0));
        }
    }
}
