//! A simulated kubelet: its connection, its watches, its lease, and the statuses of its node and of the pods that it gets.
//!
//! It follows the reference's kubelet in what reaches the server: one HTTP/2 connection; watches that list first and end
//! after five to ten minutes; a lease renewed by update every ten seconds; a status patch every five minutes. It runs no
//! pod: a pod that it gets is running at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use orch_api::ambient::{Ambient, SystemAmbient};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use super::bound::{self, Bound};
use super::event::Event;
use super::link::{Crowd, Link};
use super::requests::Requests;
use super::retry::{Retry, random_part};
use super::schedule::{Jitter, LEASE_LATER, STATUS_AROUND, Schedule};
use super::stage::node_name;
use super::watch::{Watch, follow};
use crate::load::tally::Tally;
use crate::load::wire::Call;

/// Seconds after which a watch asks to be ended, as the reference's clients choose them.
const STREAM_SECONDS: std::ops::Range<u32> = 300..600;
/// Seconds without a renewal after which a node counts as dead, the reference's default.
const LEASE_SECONDS: u32 = 40;
/// Watches of every kubelet: its pods, all services, its node.
pub(super) const WATCHES_FIXED: u32 = 3;

/// The values that all kubelets of a run share.
pub(super) struct Fleet {
    pub(super) crowd: Arc<Crowd>,
    pub(super) bound: Arc<Bound>,
    /// Path of the namespace of the pods.
    pub(super) namespace: String,
    /// Path of the leases of nodes.
    pub(super) leases: String,
    pub(super) config_maps: u32,
    pub(super) secrets: u32,
    pub(super) lease_period: Duration,
    pub(super) status_period: Duration,
    /// Kubelets whose node is made.
    pub(super) registered: AtomicU64,
    pub(super) renewals: Mutex<Tally>,
    pub(super) statuses: Mutex<Tally>,
    pub(super) pod_statuses: Mutex<Tally>,
}

/// Config map `number` of the node `node`; the first is the same for all.
pub(super) fn config_map(node: &str, number: u32) -> String {
    if number == 0 { "shared".to_owned() } else { format!("config-{node}-{number}") }
}

/// Secret `number` of the node `node`.
pub(super) fn secret(node: &str, number: u32) -> String {
    format!("secret-{node}-{number}")
}

/// Runs kubelet `number` over `link`, for ever.
pub(super) async fn run(fleet: Arc<Fleet>, number: u32, link: Arc<Link>) {
    let mut random = StdRng::seed_from_u64(u64::from(number));
    let kubelet = Kubelet { name: node_name(number), fleet, link };
    kubelet.register().await;
    let (pods_to, pods) = mpsc::unbounded_channel();
    let mut watches = JoinSet::new();
    kubelet.watch(&mut watches, &mut random, pods_to);
    let (now, fleet) = (Instant::now(), &kubelet.fleet);
    let leases = Schedule::new(fleet.lease_period, Jitter::Later(LEASE_LATER), now, &mut random);
    let statuses = Schedule::new(fleet.status_period, Jitter::Around(STATUS_AROUND), now, &mut random);
    let (first, second) = (StdRng::from_rng(&mut random), StdRng::from_rng(&mut random));
    futures::join!(kubelet.renew(leases, first), kubelet.report(statuses, second), kubelet.start_pods(pods));
}

struct Kubelet {
    name: String,
    fleet: Arc<Fleet>,
    link: Arc<Link>,
}

impl Kubelet {
    fn requests(&self) -> Requests {
        Requests::new(&self.link, &self.fleet.crowd)
    }

    /// Makes the node object.
    async fn register(&self) {
        let offer = json!({"cpu": "64", "memory": "256Gi", "pods": "110"});
        let status = json!({"capacity": offer, "allocatable": offer});
        let body = json!({"metadata": {"name": self.name}, "status": status}).to_string();
        let call = Call {
            method: "POST",
            path: "/api/v1/nodes",
            content_type: "application/json",
            body: body.as_bytes(),
        };
        let (mut requests, mut retry) = (self.requests(), Retry::default());
        loop {
            let answer = requests.ask("make a node", &call, &[201, 409], None).await;
            if answer.is_some_and(|answer| matches!(answer.status, 201 | 409)) {
                break;
            }
            sleep(retry.pause(None, random_part())).await;
        }
        self.fleet.registered.fetch_add(1, Ordering::AcqRel);
    }

    /// Starts the watches. `pods` gets the numbers of new pods.
    fn watch(&self, tasks: &mut JoinSet<()>, random: &mut StdRng, pods: mpsc::UnboundedSender<u32>) {
        let Fleet { namespace, config_maps, secrets, .. } = &*self.fleet;
        let node = &self.name;
        let by_name = |name: &str| format!("&fieldSelector=metadata.name%3D{name}");
        let mut plain =
            vec![("/api/v1/services".to_owned(), String::new()), ("/api/v1/nodes".to_owned(), by_name(node))];
        let (maps, hidden) = (format!("{namespace}/configmaps"), format!("{namespace}/secrets"));
        plain.extend((0..*config_maps).map(|number| (maps.clone(), by_name(&config_map(node, number)))));
        plain.extend((0..*secrets).map(|number| (hidden.clone(), by_name(&secret(node, number)))));
        let mut watch = |collection, selector| Watch {
            link: self.link.clone(),
            collection,
            selector,
            version: None,
            seconds: random.random_range(STREAM_SECONDS),
        };
        let bound = self.fleet.bound.clone();
        let own = watch("/api/v1/pods".to_owned(), format!("&fieldSelector=spec.nodeName%3D{node}"));
        tasks.spawn(follow(own, self.fleet.crowd.clone(), move |event: &Event<'_>| {
            if let Some(number) = event.name().and_then(|name| bound.note(name)) {
                // It fails only when the kubelet ends.
                let _ = pods.send(number);
            }
        }));
        for (collection, selector) in plain {
            tasks.spawn(follow(watch(collection, selector), self.fleet.crowd.clone(), |_: &Event<'_>| {}));
        }
    }

    /// Makes the lease, and renews it.
    async fn renew(&self, mut schedule: Schedule, mut random: StdRng) {
        let mut requests = self.requests();
        let path = format!("{}/{}", self.fleet.leases, self.name);
        let mut version = None;
        loop {
            if version.is_none() {
                version = self.find_lease(&mut requests, &path).await;
            }
            sleep_until(schedule.next(Instant::now(), &mut random).into()).await;
            let Some(held) = version else { continue };
            let body = self.lease(Some(held));
            let call =
                Call { method: "PUT", path: &path, content_type: "application/json", body: body.as_bytes() };
            let answer = requests.ask("renew a lease", &call, &[200, 409], Some(&self.fleet.renewals)).await;
            // After a conflict, or an answer that was lost, the stored version is not known.
            version = answer.filter(|answer| answer.status == 200).and_then(|answer| answer.version);
        }
    }

    /// The version of the lease, which is made if there is none.
    async fn find_lease(&self, requests: &mut Requests, path: &str) -> Option<u64> {
        let call = Call { method: "GET", path, content_type: "", body: b"" };
        let found = requests.ask("get a lease", &call, &[200, 404], None).await?;
        if found.status == 200 {
            return found.version;
        }
        let body = self.lease(None);
        let leases = &self.fleet.leases;
        let call =
            Call { method: "POST", path: leases, content_type: "application/json", body: body.as_bytes() };
        let made = requests.ask("make a lease", &call, &[201], None).await?;
        made.version.filter(|_| made.status == 201)
    }

    fn lease(&self, version: Option<u64>) -> String {
        let mut metadata = json!({"name": self.name});
        if let Some(version) = version {
            metadata["resourceVersion"] = json!(version.to_string());
        }
        let renewed = SystemAmbient.now().micros_text();
        let spec = json!({
            "holderIdentity": self.name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": renewed,
        });
        json!({"metadata": metadata, "spec": spec}).to_string()
    }

    /// Patches the node's status.
    async fn report(&self, mut schedule: Schedule, mut random: StdRng) {
        let mut requests = self.requests();
        let path = format!("/api/v1/nodes/{}/status", self.name);
        loop {
            sleep_until(schedule.next(Instant::now(), &mut random).into()).await;
            let condition = json!({
                "type": "Ready", "status": "True", "reason": "KubeletReady",
                "message": "kubelet is posting ready status", "lastHeartbeatTime": SystemAmbient.now().seconds_text(),
            });
            let body = json!({"status": {"conditions": [condition]}}).to_string();
            patch(&mut requests, "report a node's status", &path, &body, &self.fleet.statuses).await;
        }
    }

    /// Reports each pod that comes as running.
    async fn start_pods(&self, mut pods: mpsc::UnboundedReceiver<u32>) {
        let mut requests = self.requests();
        let collection = format!("{}/pods", self.fleet.namespace);
        let body =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        let body = body.to_string();
        while let Some(number) = pods.recv().await {
            let path = format!("{}/status", bound::path(&collection, number));
            patch(&mut requests, "report a pod's status", &path, &body, &self.fleet.pod_statuses).await;
        }
    }
}

async fn patch(requests: &mut Requests, kind: &str, path: &str, body: &str, tally: &Mutex<Tally>) {
    let content_type = "application/strategic-merge-patch+json";
    let call = Call { method: "PATCH", path, content_type, body: body.as_bytes() };
    requests.ask(kind, &call, &[200], Some(tally)).await;
}
