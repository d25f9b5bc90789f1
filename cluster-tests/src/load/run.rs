//! A whole benchmark: from the command line to the report.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use orch_proto::brand::ORCH;

use super::driver::{Load, Outcome, drive};
use super::elsewhere::Elsewhere;
use super::options::{Options, WorkName};
use super::report::{Report, Row};
use super::server::Servers;
use super::target::Target;
use super::work::{Kind, Script, payload};
use super::{bindings, fanout, fixture, flood, process, scheduling, stalled};
use crate::cluster::Cluster;

/// Objects that gets and patches choose from.
const OBJECTS: u32 = 1000;

/// Runs the works of `options`, one after the other, and reports the measurements. Progress goes to standard error.
pub fn run(options: &Options) -> Result<Report> {
    let mut bench = Bench::prepare(options)?;
    let mut rows = Vec::new();
    for name in WorkName::expand(&options.works) {
        eprintln!("{} ...", name.word());
        let calls = bench.hook_calls();
        let outcome = bench.work(name).with_context(|| format!("the work {} failed", name.word()))?;
        if options.hook.is_some() {
            eprintln!("{} calls of the webhook", bench.hook_calls() - calls);
        }
        rows.push(Row::new(name, bench.clients(name), bench.load.targets.len(), outcome));
    }
    let mut memory = process::memory(&bench.load.pids)?;
    memory.append(&mut bench.schedulers);
    bench.clean_up();
    Ok(Report::new(options, rows, memory, bench.ready_ms))
}

struct Bench<'a> {
    options: &'a Options,
    /// For what is made and removed around the works: the administrator's.
    setup: Target,
    load: Load,
    payload: Arc<str>,
    /// Prefix of this run's namespaces.
    prefix: String,
    namespaces: Vec<String>,
    /// Milliseconds from start until the slowest server was ready; `None` if the servers ran before.
    ready_ms: Option<u64>,
    /// The webhook that is asked, and the aggregated server.
    elsewhere: Option<Elsewhere>,
    /// Its processes live as long as the run.
    cluster: Option<Cluster>,
    /// Memory of the schedulers of schedule works.
    schedulers: Vec<process::Memory>,
}

impl<'a> Bench<'a> {
    fn prepare(options: &'a Options) -> Result<Self> {
        let Servers { cluster, targets, pids } = options.server.open()?;
        let setup = targets.first().context("there is no server")?.clone();
        let targets = match options.bindings {
            Some(count) => {
                eprintln!("{count} bindings ...");
                bindings::make(&setup, &ORCH, count)?;
                targets.iter().map(bindings::bound).collect()
            }
            None => targets,
        };
        let load = Load {
            targets,
            threads: options.threads,
            clients: 1,
            duration: options.duration,
            count: options.count,
            protocol: options.protocol(),
            pids,
            stages: options.stages,
        };
        let payload = payload(options.size);
        let is_elsewhere = options.hook.is_some() || options.works.contains(&WorkName::GetAggregated);
        let delay = Duration::from_millis(options.hook.unwrap_or_default());
        let elsewhere = is_elsewhere.then(|| Elsewhere::start(delay, &payload)).transpose()?;
        if let Some(elsewhere) = elsewhere.as_ref().filter(|_| options.hook.is_some()) {
            elsewhere.be_asked(&setup)?;
        }
        let stamp = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        Ok(Self {
            options,
            setup,
            load,
            payload,
            prefix: format!("bench-{stamp}"),
            namespaces: Vec::new(),
            elsewhere,
            ready_ms: cluster.as_ref().map(Cluster::ready_ms),
            cluster,
            schedulers: Vec::new(),
        })
    }

    /// Calls of the webhook so far.
    fn hook_calls(&self) -> u64 {
        self.elsewhere.as_ref().map_or(0, Elsewhere::calls)
    }

    /// Number of clients of a work; for the watch work, of watchers.
    fn clients(&self, name: WorkName) -> u32 {
        match name {
            WorkName::Watch => self.options.watchers,
            _ => self.options.clients.unwrap_or(name.clients()),
        }
    }

    fn work(&mut self, name: WorkName) -> Result<Outcome> {
        let created = Arc::new(AtomicU64::new(u64::from(OBJECTS)));
        let (namespace, kind) = match name {
            WorkName::Create => (self.namespace("create", 0)?, Kind::Create(Arc::default())),
            WorkName::Get => (self.namespace("get", OBJECTS)?, Kind::Get { objects: OBJECTS, any: false }),
            WorkName::GetAny => (self.namespace("get", OBJECTS)?, Kind::Get { objects: OBJECTS, any: true }),
            WorkName::GetAggregated => {
                let elsewhere = self.elsewhere.as_ref().context("there is no aggregated server")?;
                elsewhere.be_aggregated(&self.setup)?;
                (self.namespace("aggregated", 0)?, Kind::GetAggregated { objects: OBJECTS })
            }
            WorkName::MergePatch => (self.namespace("get", OBJECTS)?, Kind::Patch { objects: OBJECTS }),
            WorkName::List => (self.namespace("list", self.options.objects)?, Kind::List),
            WorkName::ListChunked => (self.namespace("list", self.options.objects)?, Kind::Chunked),
            WorkName::Mixed => (self.namespace("mixed", OBJECTS)?, Kind::Mixed { objects: OBJECTS, created }),
            WorkName::Watch => return self.watch(),
            WorkName::Schedule => return self.schedule(),
            name if name.is_flood() => return self.flood(name),
            _ => bail!("`{}` is not one work", name.word()),
        };
        let load = Load { clients: self.clients(name), ..self.load.clone() };
        drive(&load, |client| Script::new(kind.clone(), &namespace, &self.payload, client))
    }

    fn watch(&mut self) -> Result<Outcome> {
        let namespace = self.namespace("watch", fanout::OBJECTS)?;
        let version = fixture::version(&self.load.targets[0], &namespace)?;
        let writers = self.options.clients.unwrap_or(WorkName::Watch.clients());
        let load = Load { clients: writers, ..self.load.clone() };
        fanout::watch(&load, &namespace, &version, self.options.watchers)
    }

    fn schedule(&mut self) -> Result<Outcome> {
        let namespace = self.namespace("schedule", 0)?;
        let cluster = self.cluster.as_ref();
        let cluster = cluster.context("a scheduler is started beside servers of one's own: --start NODES")?;
        let (fleet, pods) = (self.options.fleet, self.options.pods);
        let scheduled = scheduling::schedule(&self.load, cluster, &namespace, fleet, pods)?;
        self.schedulers.push(scheduled.memory);
        Ok(scheduled.outcome)
    }

    fn flood(&mut self, name: WorkName) -> Result<Outcome> {
        let objects = self.options.objects;
        let namespace = self.namespace("flood", objects)?;
        fixture::open_to_all(&self.load.targets[0], &namespace)?;
        let kind = match name {
            WorkName::FloodPatch => Kind::Patch { objects },
            WorkName::FloodList | WorkName::FloodStalled => Kind::List,
            _ => Kind::Get { objects, any: false },
        };
        let flooding =
            flood::As { token: &self.options.flood_token, clients: self.options.flood_clients, kind };
        let kind = Kind::Get { objects, any: false };
        let timed = flood::As { token: &self.options.timed_token, clients: self.clients(name), kind };
        let run = |flooding: &[flood::As<'_>]| {
            flood::flood(&self.load, &namespace, &self.payload, flooding, &timed)
        };
        if name != WorkName::FloodStalled {
            return run(&[flooding]);
        }
        // One writer: each of its changes is an event for every watcher.
        let writing =
            flood::As { token: &self.options.flood_token, clients: 1, kind: Kind::Patch { objects } };
        let version = fixture::version(&self.setup, &namespace)?;
        let watching = flood::as_user(&self.load, &self.options.flood_token);
        let watchers = self.options.watchers;
        stalled::beside_stalled_watchers(&watching, &namespace, &version, watchers, || {
            run(&[flooding, writing])
        })
    }

    /// Name of this run's namespace `word`, which is created with `objects` objects at the first call.
    fn namespace(&mut self, word: &str, objects: u32) -> Result<String> {
        let name = format!("{}-{word}", self.prefix);
        if !self.namespaces.contains(&name) {
            fixture::make_namespace(&self.setup, &name)?;
            self.namespaces.push(name.clone());
            if objects > 0 {
                fixture::fill(&self.load, &name, &self.payload, objects)?;
            }
        }
        Ok(name)
    }

    /// Removes the namespaces, unless they are to be kept or the servers end anyway. Reports those that cannot be
    /// removed.
    fn clean_up(&self) {
        if self.options.keep || self.cluster.is_some() {
            return;
        }
        for namespace in &self.namespaces {
            if let Err(error) = fixture::remove(&self.setup, namespace) {
                eprintln!("the namespace {namespace} stays behind: {error:#}");
            }
        }
    }
}
