//! Replaces an older program by this one in a cluster of three processes, one member after another, under load.
//!
//! Owns the course: members of the older program, writers through each and a watcher at each; one member replaced and put back
//! while the others are older; all of them replaced, the leader last; the feature level that follows; the older program
//! started again, which is refused where the cluster has agreed on a level that it lacks, and let in otherwise; the last
//! reads. `crate::counting` records what is acknowledged and seen. Progress goes to standard error.

mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use orch_raft::FEATURE_LEVEL_MAX;
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::cluster::{Cluster, Options as ClusterOptions, Status, program};
use crate::counting::{Doors, Followers, MEMBERS, Writers, collection, make_namespace, name, numbered};
pub use report::Report;
use report::{Ending, Step};

/// Writes that each member acknowledges after each step: the load is there, and the member takes part in it.
const WRITES_MIN: usize = 50;

/// A cluster that acknowledges no write for this long has failed.
const RESUME_TIME_MAX: Duration = Duration::from_secs(30);

/// Time for a member to stop: requests under way have ten seconds, and the lead is handed over.
const STOP_TIME_MAX: Duration = Duration::from_secs(30);

/// Time for an older program to refuse its data. It loads the state first.
const REFUSAL_TIME_MAX: Duration = Duration::from_secs(30);

/// Time for the members to agree on a feature level: the leader asks every other second.
const LEVEL_TIME_MAX: Duration = Duration::from_secs(30);

/// Polling interval of the feature level.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Starts of the older program that are refused: a supervisor starts it again and again.
const REFUSALS: usize = 2;

/// The start of the message of a program that lacks the agreed level.
const REFUSAL: &str = "this program is too old: the cluster agreed on feature level";

/// Replaces an older program member by member under load, and tries to go back.
#[derive(Clone, Debug, Parser)]
pub struct Options {
    /// The older `orch` program (`make upgrade FROM=REVISION` builds it)
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,
    /// Clients that write all the time, spread over the members
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    pub writers: usize,
    /// Seconds of writes between two steps
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    pub seconds: u64,
}

/// Carries out an upgrade.
///
/// # Errors
/// A step fails: a member does not start, stop or agree in time, or the older program is refused or let in against the levels.
pub fn run(options: &Options) -> Result<Report> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(Box::pin(carry_out(options)))
}

/// An upgrade under way.
struct Upgrade<'a> {
    options: &'a Options,
    cluster: Cluster,
    doors: Doors,
    writers: Writers,
    followers: Followers,
    began: Instant,
    steps: Vec<Step>,
}

async fn carry_out(options: &Options) -> Result<Report> {
    let (old, new) = (options.from.canonicalize()?, program("orch")?);
    let mut upgrade = Upgrade::begin(options, &old).await?;
    let level = upgrade.first_level().await?;
    let versions = [version(&old)?, version(&new)?];
    upgrade.tell(&format!(
        "{MEMBERS} members of `{}` serve at feature level {level}, {} writers",
        versions[0], options.writers
    ));
    ensure!(level <= FEATURE_LEVEL_MAX, "{} is newer than this program, not older", old.display());

    let first = upgrade.follower().await?;
    upgrade.replace(first, &new, "replaced").await?;
    upgrade.replace(first, &old, "put back while the others are older").await?;
    upgrade.replace_all(&new, level).await?;
    upgrade.wait_level(FEATURE_LEVEL_MAX).await?;
    upgrade.tell(&format!("all members of `{}` agree on feature level {FEATURE_LEVEL_MAX}", versions[1]));
    let ending = match level < FEATURE_LEVEL_MAX {
        true => upgrade.is_refused(&old, &new).await?,
        false => upgrade.is_let_in(&old, &new).await?,
    };
    upgrade.finish(versions, level, ending).await
}

impl<'a> Upgrade<'a> {
    /// Starts a cluster of the program `old`, and the load.
    async fn begin(options: &'a Options, old: &Path) -> Result<Upgrade<'a>> {
        let members = ClusterOptions { program: Some(old.to_owned()), ..ClusterOptions::nodes(MEMBERS) };
        let cluster = Cluster::start(members).await?;
        let doors = Doors::default();
        for node in 0..MEMBERS {
            doors.set(node, cluster.client(node)?);
        }
        make_namespace(&cluster.client(0)?).await?;
        let writers = Writers::start(options.writers, &doors).await?;
        let followers = Followers::start(MEMBERS, &doors).await?;
        let (began, steps) = (Instant::now(), Vec::new());
        Ok(Upgrade { options, cluster, doors, writers, followers, began, steps })
    }

    fn tell(&self, text: &str) {
        eprintln!("{:7.1} s  {text}", self.began.elapsed().as_secs_f64());
    }

    /// A member that does not lead.
    async fn follower(&self) -> Result<usize> {
        Ok((self.cluster.leader().await? + 1) % MEMBERS)
    }

    /// Replaces the members one by one, the leader last. Until the last one is replaced, the level stays at `level`.
    async fn replace_all(&mut self, new: &Path, level: u32) -> Result<()> {
        let mut left: Vec<usize> = (0..MEMBERS).collect();
        while !left.is_empty() {
            let leader = self.cluster.leader().await?;
            let agreed = self.cluster.status(leader).await?.feature_level;
            ensure!(agreed == level, "feature level {agreed} with a member that supports {level}");
            let at = left.iter().position(|node| *node != leader).unwrap_or(0);
            let node = left.swap_remove(at);
            let what = if node == leader { "replaced while it led" } else { "replaced" };
            self.replace(node, new, what).await?;
        }
        Ok(())
    }

    /// Stops member `node` in good order and starts it with `program`.
    async fn replace(&mut self, node: usize, program: &Path, what: &str) -> Result<()> {
        let began = Instant::now();
        self.writers.await_from(began);
        self.take_away(node).await?;
        self.bring_back(node, program).await?;
        let away = began.elapsed();
        let mut pause = Duration::ZERO;
        for door in (0..MEMBERS).filter(|door| *door != node) {
            pause = pause.max(self.writers.resumed_after(door, RESUME_TIME_MAX).await?);
        }
        let what = format!("{} {what}", self.cluster.name(node));
        self.tell(&format!("{what}: away for {away:.1?}, the others wrote after {pause:.1?}"));
        self.steps.push(Step { what, away, pause });
        sleep(Duration::from_secs(self.options.seconds)).await;
        self.writers.wait_for_more(WRITES_MIN, RESUME_TIME_MAX).await
    }

    async fn take_away(&mut self, node: usize) -> Result<()> {
        self.followers.expect_end(node);
        self.doors.close(node);
        let ended = self.cluster.stop(node, STOP_TIME_MAX).await?;
        let name = self.cluster.name(node);
        ensure!(ended.code == Some(0), "{name} ended with {:?}\n{}", ended.code, ended.log);
        Ok(())
    }

    async fn bring_back(&mut self, node: usize, program: &Path) -> Result<()> {
        self.cluster.use_program(node, program);
        self.cluster.respawn(node)?;
        self.cluster.wait_ready(node).await?;
        self.doors.set(node, self.cluster.client(node)?);
        Ok(())
    }

    /// Starts the older program on the data of a member, which it must refuse each time, and then the newer one, which goes on.
    async fn is_refused(&mut self, old: &Path, new: &Path) -> Result<Ending> {
        let node = self.follower().await?;
        self.take_away(node).await?;
        self.cluster.use_program(node, old);
        let before = self.cluster.log(node)?.matches(REFUSAL).count();
        for time in 1..=REFUSALS {
            self.cluster.respawn(node)?;
            let ended = self.cluster.wait_end(node, REFUSAL_TIME_MAX).await?;
            let told = ended.log.matches(REFUSAL).count() - before;
            let is_refusal = ended.code.is_some_and(|code| code != 0) && told >= time;
            ensure!(is_refusal, "the older program ended with {:?}, not refused\n{}", ended.code, ended.log);
        }
        let text = self.cluster.log(node)?;
        let refusal =
            text.lines().rev().find(|line| line.contains(REFUSAL)).context("the refusal")?.to_owned();
        self.tell(&format!("the older program is refused: {refusal}"));
        self.bring_back(node, new).await?;
        self.writers.wait_for_more(WRITES_MIN, RESUME_TIME_MAX).await?;
        self.tell(&format!("{} goes on with the newer program", self.cluster.name(node)));
        Ok(Ending::Refused)
    }

    /// Puts a member back to the older program, which knows the agreed level, and forward again.
    async fn is_let_in(&mut self, old: &Path, new: &Path) -> Result<Ending> {
        let node = self.follower().await?;
        self.replace(node, old, "put back to a program of the same level").await?;
        self.replace(node, new, "replaced again").await?;
        Ok(Ending::LetIn)
    }

    /// The level that the older members agree on: the lowest that their programs support, as the leader knows it.
    async fn first_level(&self) -> Result<u32> {
        let agreed = |statuses: &[Status]| {
            let leader = statuses.iter().find(|status| status.leader_name() == Some(status.name.as_str()))?;
            let supported = leader.members.iter().map(|member| member.feature_level_max);
            let least = supported.collect::<Option<Vec<u32>>>()?.into_iter().min()?;
            statuses.iter().all(|status| status.feature_level == least).then_some(least)
        };
        self.until("no feature level that the older members agree on", agreed).await
    }

    /// Waits until every member has applied the feature level `level`.
    async fn wait_level(&self, level: u32) -> Result<()> {
        let is_applied =
            |statuses: &[Status]| statuses.iter().all(|status| status.feature_level == level).then_some(());
        self.until(&format!("not at feature level {level}"), is_applied).await
    }

    /// Asks every member for its status until `look` finds something.
    async fn until<T>(&self, lacking: &str, look: impl Fn(&[Status]) -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + LEVEL_TIME_MAX;
        loop {
            let seen = self.statuses().await;
            if let Some(found) = seen.as_ref().ok().and_then(|statuses| look(statuses)) {
                return Ok(found);
            }
            ensure!(Instant::now() < deadline, "{lacking} after {LEVEL_TIME_MAX:?}: {seen:?}");
            sleep(LOOK_INTERVAL).await;
        }
    }

    async fn statuses(&self) -> Result<Vec<Status>> {
        let mut found = Vec::new();
        for node in 0..MEMBERS {
            found.push(self.cluster.status(node).await?);
        }
        Ok(found)
    }

    /// Ends the load and compares what was acknowledged with what every watcher saw and every member reads.
    async fn finish(self, versions: [String; 2], level: u32, ending: Ending) -> Result<Report> {
        self.tell("the last reads");
        let Upgrade { cluster, writers, followers, steps, .. } = self;
        let (acknowledged, failed_writers) = writers.stop().await;
        let seen = followers.finish(&acknowledged).await?;
        let mut unread = 0;
        for node in 0..MEMBERS {
            unread += unread_at(&cluster, node, &acknowledged).await?;
        }
        let writes = acknowledged.iter().map(Vec::len).sum();
        let (lost, broken_watches) = (seen.lost, seen.broken);
        Ok(Report { versions, level, steps, ending, writes, lost, unread, broken_watches, failed_writers })
    }
}

/// Number of writers whose last acknowledged number member `node` does not read, nor a later one.
async fn unread_at(cluster: &Cluster, node: usize, acknowledged: &[Vec<u64>]) -> Result<usize> {
    let list = cluster.client(node)?.get(&collection()).await?.success()?;
    let items = list["items"].as_array().context("a list without items")?;
    let mut read = BTreeMap::new();
    for object in items {
        // Made by its writer, and not written yet.
        if !object["data"].is_null() {
            let (name, number) = numbered(object)?;
            read.insert(name, number);
        }
    }
    let newest = acknowledged.iter().enumerate().map(|(writer, numbers)| (name(writer), numbers.last()));
    let is_unread =
        |(name, last): &(String, Option<&u64>)| last.is_some_and(|last| read.get(name) < Some(last));
    Ok(newest.filter(is_unread).count())
}

/// The first line that `program version` prints.
fn version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("version").output();
    let output = output.with_context(|| format!("cannot run {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().with_context(|| format!("{} tells no version", program.display()))?.to_owned())
}
