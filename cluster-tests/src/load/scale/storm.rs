//! The work `watch-storm`: many watches at once, and all of them again after their connections were cut.
//!
//! With servers of its own each connection is of a user of its own in the group of all nodes, whose requests have the priority level of
//! kubelets, and the writer is a user of the level of everybody else. Elsewhere all are the administrator, who takes no seats of flow
//! control.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::change::{Bounds, round};
use super::identity::Authority;
use super::link::Link;
use super::options::Storm;
use super::pace::beside;
use super::report::{Report, Unit};
use super::stage::{self, Stage, node_name};
use super::watch::{Watch, follow, version_now};
use crate::load::target::Target;

/// Pods that change while all connections are cut, each of another watch's node.
const CHANGED_MAX: u32 = 100;
/// The writer's pod, on a node that no watch selects.
const UNWATCHED: &str = "unwatched";
/// Group of the watches' users: that of all nodes.
const WATCHERS: &str = "system:nodes";
/// Group of the writer.
const WRITERS: &str = "bench-users";
/// Time for events to arrive.
const ARRIVAL_MAX: Duration = Duration::from_secs(30);

/// Runs the work.
pub(super) fn run(options: &Storm) -> Result<Report> {
    let count = options.watches.connections()?;
    stage::run(&options.common, count, async |stage: &Stage| {
        let (watchers, writer) = clients(stage, count).await?;
        let link = |(place, targets)| Link::new(targets, place, &stage.crowd);
        let links = watchers.iter().enumerate().map(link).collect();
        let work = Work { options, stage, links, writer, report: Report::new("watch-storm") };
        Box::pin(work.measure()).await
    })
}

/// The servers as each of `count` connections has them, and the server of the writer.
async fn clients(stage: &Stage, count: u32) -> Result<(Vec<Arc<[Target]>>, Target)> {
    if !stage.is_started() {
        let watchers = (0..count).map(|_| stage.targets.clone()).collect();
        return Ok((watchers, stage.targets[0].clone()));
    }
    for group in [WATCHERS, WRITERS] {
        stage.grant_all(group).await?;
    }
    let authority = Authority::read(&stage.certificates().await?)?;
    let as_user = |name: &str, group| anyhow::Ok(stage.targets_as(authority.user(name, group)?));
    let watcher = |number: u32| as_user(&format!("watcher-{number}"), WATCHERS);
    let watchers = (0..count).map(watcher).collect::<Result<_>>()?;
    Ok((watchers, as_user("writer", WRITERS)?[0].clone()))
}

struct Work<'a> {
    options: &'a Storm,
    stage: &'a Stage,
    links: Vec<Arc<Link>>,
    writer: Target,
    report: Report,
}

impl Work<'_> {
    async fn measure(mut self) -> Result<Report> {
        self.report.count("watches", self.options.watches.count.into());
        self.report.count("connections", self.links.len() as u64);
        self.stage.make_pod(UNWATCHED, UNWATCHED).await?;
        let changed = self.options.watches.count.min(CHANGED_MAX);
        for number in 0..changed {
            self.stage.make_pod(&format!("missed-{number}"), &node_name(number)).await?;
        }
        let version = version_now(&self.stage.admin, "/api/v1/pods").await?;
        let calm = self.options.calm;
        let alone = async || {
            sleep(calm).await;
            anyhow::Ok(())
        };
        let before = self.phase("nothing else", alone).await?;
        self.report.add("memory before", Unit::Kilobytes, before as f64);

        let mut tasks = JoinSet::new();
        let (stage, options, links) = (self.stage, self.options, self.links.clone());
        let watches = options.watches.count;
        self.phase("all watches opened", async || {
            for number in 0..watches {
                let watch = Watch::of_node(number, &links, version);
                tasks.spawn(follow(watch, stage.crowd.clone(), |_| {}));
            }
            stage.wait_standing(watches.into(), options.common.patience).await
        })
        .await?;

        let missed = self.cut(changed).await?;
        let events = stage.crowd.events.load(Ordering::Acquire);
        self.phase("all watches resumed", async || {
            stage.crowd.open_gate();
            stage.wait_standing(watches.into(), options.common.patience).await
        })
        .await?;
        // Each of those changes concerns one watch.
        let wanted = events + missed;
        stage.wait("events", &stage.crowd.events, |count| count >= wanted, ARRIVAL_MAX).await?;
        self.report.latencies("pause of a watch", &stage.crowd.pauses());
        self.report.crowd(&stage.crowd);
        tasks.shutdown().await;
        Ok(self.report)
    }

    /// Cuts all connections and makes changes before any is opened again; their number.
    async fn cut(&mut self, changed: u32) -> Result<u64> {
        let crowd = &self.stage.crowd;
        let ended = crowd.ended.load(Ordering::Acquire);
        ensure!(
            ended == 0,
            "{ended} watches ended before their connections were cut: {:?}",
            crowd.failures()
        );
        crowd.close_gate();
        for link in &self.links {
            link.cut().await;
        }
        self.stage.wait_standing(0, self.options.common.patience).await?;
        let bounds = Bounds { writers: changed, changes: changed, time: self.options.common.patience };
        let missed = round(self.stage, "missed", bounds).await?;
        self.report.failures(&missed.tally.errors);
        Ok(missed.tally.operations)
    }

    /// Carries out `phase` beside the writer, and reports its time and its cost. Returns the most memory in it, in kilobytes.
    async fn phase(&mut self, title: &str, phase: impl AsyncFnOnce() -> Result<()>) -> Result<u64> {
        eprintln!("{title} ...");
        self.stage.meter.take_peak_kb();
        let (before, began) = (self.stage.meter.read(), Instant::now());
        let work = async {
            phase().await?;
            anyhow::Ok(began.elapsed())
        };
        let (took, writer) = beside((self.stage, &self.writer), UNWATCHED, self.options.writes, work).await?;
        let after = self.stage.meter.read();
        let peak_kb = self.stage.meter.take_peak_kb();
        self.report.time(format!("time, {title}"), took);
        self.report.time(format!("CPU of the servers, {title}"), before.cpu_until(&after));
        self.report.add(format!("most memory, {title}"), Unit::Kilobytes, peak_kb as f64);
        self.report.latencies(&format!("a change of the writer, {title}"), &writer);
        self.report.failures(&writer.errors);
        Ok(peak_kb)
    }
}
