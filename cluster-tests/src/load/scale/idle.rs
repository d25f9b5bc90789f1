//! The work `watch-idle`: memory of idle watches, and what changes cost that concern none or one of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::change::{Bounds, Round, round};
use super::link::Link;
use super::meter::Reading;
use super::options::{Idle, connections};
use super::report::{Report, Unit};
use super::stage::{self, Stage};
use super::watch::{Watch, follow, version_now};
use crate::load::wire::Call;

/// Pods of a node that no watch selects.
const UNWATCHED: &str = "unwatched";
/// Pods of the first watch's node.
const WATCHED: &str = "watched";
/// Changes before the first measured round, so that it does not pay for what is made once.
const WARMING: u32 = 200;
/// Streams last longer than the work, so that none ends and is opened again meanwhile.
const STREAM_SECONDS: u32 = 4 * 3600;
/// Time for the last events to arrive, and for surplus ones to be seen.
const ARRIVAL_MAX: Duration = Duration::from_secs(30);

/// Runs the work.
pub(super) fn run(options: &Idle) -> Result<Report> {
    let count = connections(options.watches, options.connections)?;
    stage::run(&options.common, count, async |stage: &Stage| {
        let work = Work { options, stage, report: Report::new("watch-idle") };
        Box::pin(work.measure(count)).await
    })
}

struct Work<'a> {
    options: &'a Idle,
    stage: &'a Stage,
    report: Report,
}

impl Work<'_> {
    async fn measure(mut self, count: u32) -> Result<Report> {
        self.report.count("watches", self.options.watches.into());
        self.report.count("connections", count.into());
        for writer in 0..self.options.writers {
            self.stage.make_pod(&format!("{UNWATCHED}-{writer}"), UNWATCHED).await?;
            self.stage.make_pod(&format!("{WATCHED}-{writer}"), &node(0)).await?;
        }
        round(self.stage, UNWATCHED, Bounds { changes: WARMING, ..self.bounds() }).await?;
        let before = self.round("without watches, before", UNWATCHED, 0).await?;
        let idle = self.settle().await?;
        eprintln!("{count} connections ...");
        let links = self.connect(count).await?;
        let connected = self.settle().await?;
        self.report.add("memory before", Unit::Kilobytes, idle.resident_kb as f64);
        self.report.add("memory of a connection", Unit::Kilobytes, idle.kb_each_until(&connected, count));
        let mut watches = self.watch(&links).await?;
        self.settled_with_watches(&connected).await?;
        let none = self.round("with watches, none concerned", UNWATCHED, 0).await?;
        let one = self.round("with watches, one concerned", WATCHED, 1).await?;
        let ended = self.stage.crowd.ended.load(Ordering::Acquire);
        ensure!(ended == 0, "{ended} watches ended: {:?}", self.stage.crowd.failures());
        watches.shutdown().await;
        drop(links);
        let closed = self.settle().await?;
        self.report.add("memory after all are closed", Unit::Kilobytes, closed.resident_kb as f64);
        let after = self.round("without watches, after", UNWATCHED, 0).await?;
        self.compare(&[before, after], &none, &one);
        self.report.crowd(&self.stage.crowd);
        Ok(self.report)
    }

    /// Opens `count` connections with a request on each, so that none counts as a stranger's.
    async fn connect(&self, count: u32) -> Result<Vec<Arc<Link>>> {
        let links: Vec<_> = (0..count as usize)
            .map(|place| Link::new(&self.stage.targets, place, &self.stage.crowd))
            .collect();
        try_join_all(links.iter().map(async |link| {
            let (_, mut line) = link.line(0).await;
            let path = format!("{}?limit=1", self.stage.pods());
            let call = Call { method: "GET", path: &path, content_type: "", body: b"" };
            let reply = line.exchange(&call).await?;
            ensure!(reply.status == 200, "the first request of a connection was answered {}", reply.status);
            anyhow::Ok(())
        }))
        .await?;
        Ok(links)
    }

    /// Starts all watches and waits until they stand.
    async fn watch(&mut self, links: &[Arc<Link>]) -> Result<JoinSet<()>> {
        eprintln!("{} watches ...", self.options.watches);
        let (began, mut tasks) = (Instant::now(), JoinSet::new());
        let version = version_now(&self.stage.admin, "/api/v1/pods").await?;
        for number in 0..self.options.watches {
            let watch = Watch {
                link: links[number as usize % links.len()].clone(),
                collection: "/api/v1/pods".to_owned(),
                selector: format!("&fieldSelector=spec.nodeName%3D{}", node(number)),
                version: Some(version),
                seconds: STREAM_SECONDS,
            };
            tasks.spawn(follow(watch, self.stage.crowd.clone(), |_| {}));
        }
        let (standing, wanted) = (&self.stage.crowd.standing, u64::from(self.options.watches));
        let patience = self.options.common.patience;
        self.stage.wait("watches stand", standing, |count| count == wanted, patience).await?;
        self.report.time("until all watches stood", began.elapsed());
        Ok(tasks)
    }

    async fn settled_with_watches(&mut self, connected: &Reading) -> Result<()> {
        let standing = self.settle().await?;
        self.report.add("memory with all watches", Unit::Kilobytes, standing.resident_kb as f64);
        let each = connected.kb_each_until(&standing, self.options.watches);
        self.report.add("memory of a watch", Unit::Kilobytes, each);
        let idle = self.stage.meter.read();
        sleep(self.options.settle).await;
        let cores = idle.cores_until(&self.stage.meter.read());
        self.report.add("cores used while nothing happens", Unit::Ratio, cores);
        Ok(())
    }

    /// Changes `pods`, each change of which concerns `concerned` watches, and checks the events.
    async fn round(&mut self, title: &str, pods: &str, concerned: u64) -> Result<Round> {
        eprintln!("changes {title} ...");
        let events = &self.stage.crowd.events;
        let before = events.load(Ordering::Acquire);
        let round = round(self.stage, pods, self.bounds()).await?;
        let wanted = before + round.tally.operations * concerned;
        self.stage.wait("events", events, |count| count >= wanted, ARRIVAL_MAX).await?;
        let seen = events.load(Ordering::Acquire);
        ensure!(seen == wanted, "{} events came to watches that they do not concern", seen - wanted);
        self.report.add(format!("CPU of a change, {title}"), Unit::Microseconds, round.cpu_us());
        self.report.add(format!("changes {title}"), Unit::PerSecond, round.rate());
        self.report.latencies(&format!("a change {title}"), &round.tally);
        self.report.failures(&round.tally.errors);
        Ok(round)
    }

    fn compare(&mut self, without: &[Round], none: &Round, one: &Round) {
        let base = without.iter().map(Round::cpu_us).sum::<f64>() / without.len() as f64;
        let watches = f64::from(self.options.watches);
        let ratio = |with: &Round| if base > 0.0 { with.cpu_us() / base } else { f64::NAN };
        self.report.add("CPU of a change, none concerned, beside no watches", Unit::Ratio, ratio(none));
        self.report.add("CPU of a change, one concerned, beside no watches", Unit::Ratio, ratio(one));
        let each = (none.cpu_us() - base) * 1000.0 / watches;
        self.report.add("CPU of a change for 1000 unconcerned watches", Unit::Microseconds, each);
    }

    async fn settle(&self) -> Result<Reading> {
        sleep(self.options.settle).await;
        Ok(self.stage.meter.read())
    }

    fn bounds(&self) -> Bounds {
        let Idle { writers, changes, round, .. } = *self.options;
        Bounds { writers, changes, time: round }
    }
}

fn node(number: u32) -> String {
    format!("bench-{number}")
}
