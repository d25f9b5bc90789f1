//! The work `kubelets`: a fleet of simulated kubelets, a writer that binds pods to their nodes, and the death of the leader.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::bound::{Bound, bind};
use super::identity::Authority;
use super::kubelet::{self, Fleet};
use super::link::Link;
use super::meter::Reading;
use super::options::{Credentials, Kubelets};
use super::report::{Report, Unit};
use super::stage::{self, LOOK_INTERVAL, Stage, node_name, pod};
use crate::load::fixture::each;
use crate::load::tally::Tally;

/// Time for the last pods to be seen.
const ARRIVAL_MAX: Duration = Duration::from_secs(30);
/// End of the name of the namespace of nodes' leases, under every brand.
const LEASES_END: &str = "-node-lease";
/// Start of the name of the group of leases, under every brand.
const GROUP_START: &str = "coordination.";

/// Runs the work.
pub(super) fn run(options: &Kubelets) -> Result<Report> {
    options.check()?;
    stage::run(&options.common, options.nodes, async |stage: &Stage| {
        let work = Work { options, stage, report: Report::new("kubelets") };
        Box::pin(work.measure()).await
    })
}

struct Work<'a> {
    options: &'a Kubelets,
    stage: &'a Stage,
    report: Report,
}

impl Work<'_> {
    async fn measure(mut self) -> Result<Report> {
        let (options, stage) = (self.options, self.stage);
        self.report.count("kubelets", options.nodes.into());
        self.report.count("watches", self.watches());
        eprintln!("the objects of {} nodes ...", options.nodes);
        self.make_objects().await?;
        let fleet = self.fleet().await?;
        let before = stage.meter.read();
        eprintln!("{} kubelets ...", options.nodes);
        let kubelets = self.start(&fleet).await?;
        let standing = stage.meter.read();
        self.report_memory(&before, &standing);

        eprintln!("{} pods a second for {:?} ...", options.pods, options.duration);
        let (made, events) = (changes(&fleet), stage.crowd.events.load(Ordering::Acquire));
        let stop = AtomicBool::new(false);
        let bindings = bind(stage, &fleet.bound, options.nodes, options.pods, &stop);
        let course = async {
            let outcome = self.course(&fleet).await;
            stop.store(true, Ordering::Release);
            outcome
        };
        let (bindings, course) = futures::join!(bindings, course);
        let (bindings, ()) = (bindings?, course?);
        let after = stage.meter.read();
        let made = changes(&fleet) - made + bindings.operations;
        let events = stage.crowd.events.load(Ordering::Acquire) - events;
        self.report_cost(&standing, &after, made, events);

        let (seen, bound) = (&fleet.bound.seen, fleet.bound.bound.load(Ordering::Acquire));
        // A binding whose answer was lost with the leader is seen, too.
        stage.wait("pods seen by their kubelet", seen, |count| count >= bound, ARRIVAL_MAX).await?;
        self.report.count("pods bound and seen", bound);
        self.report.latencies("pod bound to pod seen", &fleet.bound.delays());
        self.report.latencies("a write of the writer", &bindings);
        self.report.latencies("renewal of a lease", &fleet.renewals.lock());
        self.report.latencies("status of a node", &fleet.statuses.lock());
        self.report.latencies("status of a pod", &fleet.pod_statuses.lock());
        self.report.latencies("pause of a watch", &stage.crowd.pauses());
        self.report.crowd(&stage.crowd);
        drop(kubelets);
        Ok(self.report)
    }

    fn watches(&self) -> u64 {
        u64::from(self.options.nodes) * u64::from(self.options.watches_each())
    }

    /// Makes the config maps and secrets of every node, and a pod that refers to them: without it the kubelet may not read
    /// them.
    async fn make_objects(&self) -> Result<()> {
        let Kubelets { config_maps, secrets, nodes, .. } = *self.options;
        let path = |kind: &str| format!("/api/v1/namespaces/{}/{kind}", self.stage.namespace);
        let data = json!({"data": "x".repeat(self.options.size as usize)});
        let post = async |path: &str, name: &str, body: Value| {
            let answer = self.stage.admin.post(path, &body).await?;
            answer.success().with_context(|| format!("cannot make {name}"))?;
            anyhow::Ok(())
        };
        let (maps, hidden) = (path("configmaps"), path("secrets"));
        let map =
            async |name: &str| post(&maps, name, json!({"metadata": {"name": name}, "data": data})).await;
        if config_maps > 0 {
            map(&kubelet::config_map("", 0)).await?;
        }
        each(nodes, async |number| {
            let node = node_name(number);
            for number in 1..config_maps {
                map(&kubelet::config_map(&node, number)).await?;
            }
            for number in 0..secrets {
                let name = kubelet::secret(&node, number);
                post(&hidden, &name, json!({"metadata": {"name": name}, "stringData": data})).await?;
            }
            let name = format!("base-{number}");
            let mut base = pod(&name, Some(&node));
            base["spec"]["volumes"] = volumes(&node, config_maps, secrets);
            post(&self.stage.pods(), &name, base).await
        })
        .await
    }

    async fn fleet(&self) -> Result<Arc<Fleet>> {
        let Kubelets { config_maps, secrets, lease_period, status_period, .. } = *self.options;
        Ok(Arc::new(Fleet {
            crowd: self.stage.crowd.clone(),
            bound: Bound::new(self.options.pods, self.options.duration + self.options.common.patience)?,
            namespace: format!("/api/v1/namespaces/{}", self.stage.namespace),
            leases: leases(self.stage).await?,
            config_maps,
            secrets,
            lease_period,
            status_period,
            registered: AtomicU64::new(0),
            renewals: Mutex::new(Tally::new()?),
            statuses: Mutex::new(Tally::new()?),
            pod_statuses: Mutex::new(Tally::new()?),
        }))
    }

    /// Starts the kubelets and waits until all watches stand.
    async fn start(&mut self, fleet: &Arc<Fleet>) -> Result<JoinSet<()>> {
        let (options, stage) = (self.options, self.stage);
        let authority = match options.credentials() {
            Credentials::Own => Some(Authority::read(&stage.certificates().await?)?),
            Credentials::Shared => None,
        };
        let mut links = Vec::new();
        for number in 0..options.nodes {
            let identity = authority.as_ref().map(|authority| authority.node(&node_name(number)));
            let targets = match identity {
                Some(identity) => stage.targets_as(identity?),
                None => stage.targets.clone(),
            };
            links.push(Link::new(&targets, number as usize, &stage.crowd));
        }
        let (began, mut tasks) = (Instant::now(), JoinSet::new());
        for (number, link) in (0..).zip(links) {
            tasks.spawn(kubelet::run(fleet.clone(), number, link));
        }
        let (patience, nodes, watches) = (options.common.patience, u64::from(options.nodes), self.watches());
        stage.wait("nodes registered", &fleet.registered, |count| count == nodes, patience).await?;
        stage.wait_standing(watches, patience).await?;
        self.report.time("until all kubelets were registered and watched", began.elapsed());
        Ok(tasks)
    }

    /// The time in which pods are bound, with the leader's death in the middle where that is asked for.
    async fn course(&mut self, fleet: &Fleet) -> Result<()> {
        let (options, crowd) = (self.options, &self.stage.crowd);
        sleep(options.duration / 2).await;
        if options.kill_leader {
            self.report.latencies("pod bound to pod seen, before the kill", &fleet.bound.delays());
            let ended = crowd.ended.load(Ordering::Acquire);
            let (bound, watches) = (fleet.bound.bound.load(Ordering::Acquire), self.watches());
            crowd.excuse();
            eprintln!("the leader is killed ...");
            let killed = self.stage.kill_leader().await?;
            let patience = options.common.patience;
            // The kernel closes the sockets of a killed process, so that all its streams end at once.
            self.stage.wait("streams ended", &crowd.ended, |count| count > ended, patience).await?;
            self.stage.wait_standing(watches, patience).await?;
            self.report.time("kill of the leader to all watches standing", killed.elapsed());
            self.stage.wait("pods bound", &fleet.bound.bound, |count| count > bound, patience).await?;
            self.report.time("kill of the leader to the next pod bound, at most", killed.elapsed());
        }
        sleep(options.duration / 2).await;
        ensure!(crowd.standing.load(Ordering::Acquire) > 0, "no watch stands: {:?}", crowd.failures());
        Ok(())
    }

    fn report_memory(&mut self, before: &Reading, standing: &Reading) {
        let (nodes, watches) = (self.options.nodes, self.watches());
        self.report.add("memory before", Unit::Kilobytes, before.resident_kb as f64);
        self.report.add("memory with all kubelets", Unit::Kilobytes, standing.resident_kb as f64);
        let each = before.kb_each_until(standing, nodes);
        self.report.add("memory of a kubelet: connection, watches, node, lease", Unit::Kilobytes, each);
        let each = before.kb_each_until(standing, u32::try_from(watches).unwrap_or(u32::MAX));
        self.report.add("memory of a watch, with its part of the connection", Unit::Kilobytes, each);
        self.report.time("CPU of the servers until all stood", before.cpu_until(standing));
    }

    fn report_cost(&mut self, before: &Reading, after: &Reading, made: u64, events: u64) {
        let seconds = (after.at - before.at).as_secs_f64().max(1e-9);
        self.report.count("changes: leases, statuses, pods, bindings", made);
        self.report.add("rate of changes", Unit::PerSecond, made as f64 / seconds);
        self.report.add("rate of events", Unit::PerSecond, events as f64 / seconds);
        let cpu = before.cpu_until(after).as_secs_f64();
        self.report.add("CPU of a change", Unit::Microseconds, cpu * 1e6 / made.max(1) as f64);
        self.report.add("cores used by the servers", Unit::Ratio, before.cores_until(after));
        self.report.add("memory after", Unit::Kilobytes, after.resident_kb as f64);
        self.report.add("most memory", Unit::Kilobytes, self.stage.meter.take_peak_kb() as f64);
    }
}

fn volumes(node: &str, config_maps: u32, secrets: u32) -> Value {
    let maps = (0..config_maps).map(|number| {
        json!({"name": format!("c{number}"), "configMap": {"name": kubelet::config_map(node, number)}})
    });
    let hidden = (0..secrets).map(|number| {
        json!({"name": format!("s{number}"), "secret": {"secretName": kubelet::secret(node, number)}})
    });
    maps.chain(hidden).collect()
}

/// Writes of the kubelets so far.
fn changes(fleet: &Fleet) -> u64 {
    [&fleet.renewals, &fleet.statuses, &fleet.pod_statuses].map(|tally| tally.lock().operations).iter().sum()
}

/// Path of the leases of nodes, which waits for their namespace: the server makes it after its start.
async fn leases(stage: &Stage) -> Result<String> {
    let group = stage.group(GROUP_START).await?;
    let began = Instant::now();
    loop {
        let namespaces = stage.admin.get("/api/v1/namespaces").await?.success()?;
        let mut names = namespaces["items"].as_array().into_iter().flatten();
        let found = names
            .find_map(|item| item["metadata"]["name"].as_str().filter(|name| name.ends_with(LEASES_END)));
        if let Some(namespace) = found {
            return Ok(format!("/apis/{group}/v1/namespaces/{namespace}/leases"));
        }
        ensure!(began.elapsed() < ARRIVAL_MAX, "there is no namespace for the leases of nodes");
        sleep(LOOK_INTERVAL).await;
    }
}
