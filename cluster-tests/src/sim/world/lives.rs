//! The members' processes: they start, serve, are killed, and shut down.
//!
//! Owns one run of a process from its start to its end. Between runs only the disk of its member remains.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use orch_raft::transport::NodeId;
use parking_lot::Mutex;

use super::{Handle, World};
use crate::sim::ledger::Cursor;
use crate::sim::plant::PlantedStore;
use crate::sim::process::{self, SimMember};
use crate::sim::runtime::TaskGroup;
use crate::sim::server::Server;

/// A member's process, from its start to its end; the next start makes another.
#[derive(Clone)]
pub struct Process {
    /// Its tasks.
    pub group: TaskGroup,
    /// The member's store; `None` while the process is still loading.
    pub store: Option<Handle>,
    /// Its API, once it knows its cluster.
    pub server: Option<Server>,
    /// The member itself, until it is told to shut down.
    pub(super) member: Arc<Mutex<Option<SimMember>>>,
    pub(super) seen: Arc<Mutex<Cursor>>,
}

impl World {
    /// Starts the process of `node` on its disk, unless it runs, is held, or has left the cluster and was taken out of
    /// service.
    pub fn start(&self, node: NodeId) {
        let member = self.member(node);
        let is_held = member.held.load(Ordering::Relaxed);
        if is_held || member.process.lock().is_some() || !self.may_run(node) {
            return;
        }
        let start = member.starts.fetch_add(1, Ordering::Relaxed);
        self.0.trace.event(format_args!("start n{} ({start})", node.0));
        if !self.has_lost_disk(node) {
            let kept = self.protocol_of(node, |protocol| protocol.observe_start(node, &member.disk));
            kept.unwrap_or_else(|breach| self.fail(breach));
        }
        let weak = Arc::downgrade(&self.0);
        let group = TaskGroup::observed(move || {
            if let Some(inner) = weak.upgrade() {
                World(inner).observe(node);
            }
        });
        let process = Process {
            group: group.clone(),
            store: None,
            server: None,
            member: Arc::default(),
            seen: Arc::default(),
        };
        *member.process.lock() = Some(process);
        let (world, own) = (self.clone(), group.clone());
        group.spawn(async move {
            match process::start(&world, node, start, &own).await {
                Ok(started) => world.started(node, start, &own, started),
                Err(error) => process::exit(&world, node, &error.to_string()),
            }
        });
    }

    /// Kills the process of `node` between two polls. With `power_lost`, its disk loses unsynced writes.
    pub fn kill(&self, node: NodeId, power_lost: bool) {
        let member = self.member(node);
        let Some(process) = member.process.lock().take() else { return };
        let how = if power_lost { "power lost at" } else { "kill" };
        self.0.trace.event(format_args!("{how} n{}", node.0));
        self.0.network.detach(node);
        process.group.kill();
        self.look_for_panics(node, &process);
        if power_lost { member.disk.crash() } else { member.disk.close() }
    }

    /// Shuts the process of `node` down in good order, and waits for it.
    pub async fn shut_down(&self, node: NodeId) {
        let Some(process) = self.process(node) else { return };
        let Some(member) = process.member.lock().take() else { return };
        self.0.trace.event(format_args!("shut down n{}", node.0));
        let ended = process.group.spawn(member.shutdown()).await;
        let current = self.process(node).is_some_and(|now| now.group == process.group);
        if ended.is_ok() && current {
            self.kill(node, false);
        }
    }

    /// Ends every process and connection. Their tasks hold the world and the world holds them: without this, a run's
    /// memory would leak.
    pub fn end(&self) {
        self.0.members.keys().for_each(|node| self.kill(*node, false));
        self.0.network.break_connections();
        self.0.network.unobserve();
        self.0.points.disarm();
    }

    fn started(&self, node: NodeId, start: u64, group: &TaskGroup, started: SimMember) {
        let member = self.member(node);
        let mut process = member.process.lock();
        if let Some(process) = process.as_mut().filter(|process| process.group == *group) {
            let (plant, disk) = (self.0.setup.plant, member.disk.clone());
            let store = PlantedStore::new(started.handle(), plant, disk);
            process.store = Some(store.clone());
            *process.member.lock() = Some(started);
            group.spawn(process::serve_api(self.clone(), node, start, store, group.clone()));
        }
    }

    /// Records that the process of `node` serves its API.
    pub fn serves(&self, node: NodeId, group: &TaskGroup, server: Server) {
        let mut process = self.member(node).process.lock();
        if let Some(process) = process.as_mut().filter(|process| process.group == *group) {
            process.server = Some(server);
        }
    }
}
