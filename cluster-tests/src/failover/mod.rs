//! The pause in writes when the leader is killed, as a distribution over many kills.
//!
//! Owns the course of a measurement: a cluster of three processes, writers through every member, one watcher at each.
//! The leader is killed with SIGKILL and restarted, as often as asked. After each kill it records the time until every
//! surviving member has acknowledged a write that was sent after the kill. `crate::counting` records the acknowledged numbers
//! and the events seen; the end compares them. Before the kills it may leave the cluster alone under the same
//! writers and count changes of term: with no member killed there must be none.

mod report;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::cluster::{Cluster, Options as ClusterOptions};
use crate::counting::{Doors, Followers, MEMBERS, Writers, make_namespace};
pub use report::Report;
use report::Sample;

/// Writes that each member acknowledges before the next kill: a cluster without load shows no pause.
const WRITES_MIN: usize = 50;

/// A cluster that acknowledges no write for this long after a kill has failed.
const RESUME_TIME_MAX: Duration = Duration::from_secs(30);

/// Measures how long writes pause when the leader is killed.
#[derive(Clone, Debug, Parser)]
pub struct Options {
    /// Number of times the leader is killed.
    #[arg(long, default_value_t = 20)]
    pub kills: usize,
    /// Clients that write all the time, spread over the members.
    #[arg(long, default_value_t = 24)]
    pub writers: usize,
    /// Seconds of writes without a kill before, in which the term must not change.
    #[arg(long, default_value_t = 10)]
    pub calm_seconds: u64,
    /// Pause the leader (SIGSTOP) instead: its connections stay open, and only missing heartbeats tell.
    #[arg(long)]
    pub silent: bool,
}

/// Carries out a measurement.
pub fn run(options: &Options) -> Result<Report> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(measure(options))
}

async fn measure(options: &Options) -> Result<Report> {
    let mut cluster = Cluster::start(ClusterOptions::nodes(MEMBERS)).await?;
    let doors = Doors::default();
    for node in 0..MEMBERS {
        doors.set(node, cluster.client(node)?);
    }
    let leader = cluster.leader().await?;
    make_namespace(&cluster.client(leader)?).await?;
    let writers = Writers::start(options.writers, &doors).await?;
    let followers = Followers::start(MEMBERS, &doors).await?;
    let mut report = Report::default();

    let before = cluster.status(leader).await?.term;
    let calm = Instant::now();
    sleep(Duration::from_secs(options.calm_seconds)).await;
    report.calm = calm.elapsed();
    report.calm_writes = writers.count();
    report.calm_terms = cluster.status(leader).await?.term - before;

    for _ in 0..options.kills {
        writers.wait_for_more(WRITES_MIN, RESUME_TIME_MAX).await?;
        report.samples.push(kill_once(&mut cluster, &doors, &writers, &followers, options.silent).await?);
    }
    let (acknowledged, failed_writers) = writers.stop().await;
    report.failed_writers = failed_writers;
    report.writes = acknowledged.iter().map(Vec::len).sum();
    let seen = followers.finish(&acknowledged).await?;
    (report.lost, report.broken_watches) = (seen.lost, seen.broken);
    Ok(report)
}

/// Kills the leader, measures until the others acknowledge writes again, and brings it back.
async fn kill_once(
    cluster: &mut Cluster,
    doors: &Doors,
    writers: &Writers,
    followers: &Followers,
    silent: bool,
) -> Result<Sample> {
    let leader = cluster.leader().await?;
    followers.expect_end(leader);
    doors.close(leader);
    let signal = if silent { Signal::STOP } else { Signal::KILL };
    let pid = cluster.pids().get(leader).copied().and_then(|pid| i32::try_from(pid).ok());
    kill_process(pid.and_then(Pid::from_raw).context("the leader does not run")?, signal)?;
    // The leader does nothing more from here on. Reaping it takes some milliseconds, which count.
    writers.await_from(Instant::now());
    if silent {
        cluster.pause(leader)?;
    } else {
        cluster.kill(leader)?;
    }
    let mut pauses = Vec::new();
    for door in (0..MEMBERS).filter(|door| *door != leader) {
        pauses.push(writers.resumed_after(door, RESUME_TIME_MAX).await?);
    }
    if silent {
        cluster.resume(leader)?;
    } else {
        cluster.respawn(leader)?;
    }
    cluster.wait_ready(leader).await?;
    doors.set(leader, cluster.client(leader)?);
    let slowest = pauses.iter().max().copied().context("there are survivors")?;
    Ok(Sample { pauses, slowest })
}
