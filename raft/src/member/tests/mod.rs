//! Small clusters in one thread under a virtual clock, with disks and network in memory.
//!
//! Owns one harness, `Cluster`, and many short scenarios of a few virtual seconds, one claim each. Disk faults and long
//! random runs belong to the simulator of the cluster tests.

mod acquaintance;
mod agreement;
mod arbitrary;
mod attacks;
mod casts;
mod contacts;
pub(in crate::member) mod disk;
mod forwarding;
mod foundings;
pub(crate) mod golden;
mod idle;
mod impostors;
mod liars;
mod membership;
mod net;
mod reads;
mod reseeding;
mod scenarios;
mod slow_disks;
mod snapshots;
mod space;
mod storms;
mod strangers;
mod succession;
mod suite;
mod trust;
mod versions;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft_rt::Instant;
use openraft_rt_sim::{SimInstant, SimRuntime};

use self::disk::MemoryDisk;
use self::net::{MemoryNetwork, MemoryTransport};
use super::*;
use crate::key::{Key, Revision};
use crate::object::Index;
use crate::store::{ProposeError, Store};
use crate::transaction::{Condition, Operation, Outcome, Put, Transaction};
use crate::transport::Peer;

pub(super) type SimMember = Member<SimRuntime, MemoryDisk, MemoryTransport>;
pub(super) type SimHandle = Handle<SimRuntime, MemoryDisk, MemoryTransport>;

/// Disk reserve of each member, in bytes; it applies to disks with limited space.
pub(super) const RESERVE_BYTES: u64 = 1000;

/// Runs a scenario on the simulated runtime with a seed.
pub(super) fn simulate<F: Future>(seed: u64, scenario: F) -> F::Output {
    use crate::Runtime;
    SimRuntime::with_seed(seed).block_on(scenario)
}

pub(super) struct Cluster {
    pub(super) network: MemoryNetwork,
    pub(super) disks: Vec<Arc<MemoryDisk>>,
    pub(super) members: Vec<Option<SimMember>>,
    pub(super) founders: Vec<Peer>,
    pub(super) log: LogOptions,
    pub(super) history: HistoryOptions,
    /// Highest feature level of members that run an older program; absent for the current one.
    pub(super) programs: BTreeMap<usize, u32>,
    starts: u64,
}

pub(super) fn peer(n: usize) -> Peer {
    let name = format!("n{n}");
    Peer { id: node_id(&name), address: format!("{name}:1").into(), name: name.into() }
}

impl Cluster {
    /// Starts `size` members on empty disks and founds their cluster.
    pub(super) async fn start(size: usize) -> Self {
        let mut cluster = Cluster::new(size);
        cluster.start_and_found().await;
        cluster
    }

    /// Starts the founders on empty disks, and founds the cluster through the last.
    pub(super) async fn start_and_found(&mut self) {
        for n in 0..self.founders.len() {
            self.restart(n).await.unwrap();
        }
        self.handle(self.founders.len() - 1).found().await.unwrap();
    }

    /// A cluster of `size` founders, none of them started.
    pub(super) fn new(size: usize) -> Self {
        Cluster {
            network: MemoryNetwork::default(),
            disks: (0..size).map(|_| Arc::default()).collect(),
            members: (0..size).map(|_| None).collect(),
            founders: (0..size).map(peer).collect(),
            log: LogOptions::default(),
            history: HistoryOptions::default(),
            programs: BTreeMap::new(),
            starts: 0,
        }
    }

    fn options(&mut self, n: usize) -> Options {
        self.starts += 1;
        let seed = ClusterSeed { cluster: "c".into(), brand: "orch".into(), token_key: [7; 32] };
        let epoch = SimInstant::now();
        let clock: Clock = Arc::new(move || {
            u64::try_from(SimInstant::now().saturating_duration_since(epoch).as_millis()).unwrap() + 1_000_000
        });
        let founders = if n < self.founders.len() { self.founders.clone() } else { Vec::new() };
        let mut options = Options::new(peer(n), founders, seed, self.starts, clock);
        options.timing = Timing { heartbeat_ms: 50, election_ms_min: 300, election_ms_max: 600 };
        options.log = self.log;
        options.history = self.history;
        options.space = SpaceOptions { reserve_bytes: RESERVE_BYTES, quota_bytes: None };
        if let Some(level) = self.programs.get(&n) {
            options.feature_level_max = *level;
        }
        options
    }

    /// Starts a member on its disk.
    pub(super) async fn restart(&mut self, n: usize) -> Result<(), StartError> {
        let options = self.options(n);
        let transport = self.network.transport(peer(n).id);
        let member = Member::start(options, self.disks[n].clone(), transport).await?;
        self.network.pin(peer(n).id, member.handle().identity().cluster);
        self.network.serve(peer(n).id, member.service());
        self.members[n] = Some(member);
        Ok(())
    }

    /// Starts a member that is not a founder, on an empty disk.
    pub(super) async fn join(&mut self) -> usize {
        self.disks.push(Arc::default());
        self.members.push(None);
        let n = self.members.len() - 1;
        self.restart(n).await.unwrap();
        n
    }

    /// Kills a member; its disk stays.
    pub(super) async fn kill(&mut self, n: usize) {
        self.network.unserve(peer(n).id);
        self.members[n].take().unwrap().kill().await;
    }

    pub(super) fn handle(&self, n: usize) -> SimHandle {
        self.members[n].as_ref().unwrap().handle()
    }

    pub(super) fn handles(&self) -> Vec<SimHandle> {
        self.members.iter().flatten().map(Member::handle).collect()
    }

    /// Waits until one of `among` leads and all of `among` follow it; returns its number.
    pub(super) async fn leader_among(&self, among: &[usize]) -> usize {
        eventually("a leader", || {
            let leaders: Vec<_> = among.iter().map(|n| self.handle(*n).status().leader).collect();
            let first = leaders.first()?.clone()?;
            let n = among.iter().copied().find(|n| peer(*n).id == first.id)?;
            let agreed = leaders.iter().all(|leader| leader.as_ref() == Some(&first));
            (agreed && self.handle(n).is_leader()).then_some(n)
        })
        .await
    }

    pub(super) async fn leader(&self) -> usize {
        let up: Vec<usize> = (0..self.members.len()).filter(|n| self.members[*n].is_some()).collect();
        self.leader_among(&up).await
    }
}

/// Waits until `condition` gives a value; fails after a virtual minute.
pub(super) async fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    use crate::Runtime;
    for _ in 0..6000 {
        if let Some(value) = condition() {
            return value;
        }
        SimRuntime::sleep(Duration::from_millis(10)).await;
    }
    panic!("never came: {what}");
}

pub(super) fn key(name: &str) -> Key {
    Key::new(&Arc::from("configmaps"), "ns", name).unwrap()
}

pub(super) fn put(name: &str, value: &str) -> Transaction {
    let head = r#"{"metadata":{"resourceVersion":""#;
    let json = Bytes::from(format!(r#"{head}"}},"data":"{value}"}}"#));
    let revision_at = u32::try_from(head.len()).unwrap();
    let put = Put { key: key(name), json, revision_at, index: Index::default() };
    Transaction { proposed_ms: 1, conditions: vec![], operations: vec![Operation::Put(put)] }
}

pub(super) fn create(name: &str, value: &str) -> Transaction {
    Transaction { conditions: vec![Condition::Absent(key(name))], ..put(name, value) }
}

pub(super) fn revision_of(outcome: Result<Outcome, ProposeError>) -> Revision {
    match outcome {
        Ok(Outcome::Applied { revision, .. }) => revision,
        other => panic!("not applied: {other:?}"),
    }
}

pub(super) fn value(handle: &SimHandle, name: &str) -> Option<String> {
    let state = handle.state();
    let object = state.object(&key(name))?;
    let json = std::str::from_utf8(&object.json).unwrap();
    Some(json.split(r#""data":""#).nth(1)?.trim_end_matches(r#""}"#).to_owned())
}
