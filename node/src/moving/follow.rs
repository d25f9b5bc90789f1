//! Following: the changes of the source, kind by kind, until it is given up for the target.
//!
//! Owns which kinds are watched, and that it goes on through outages of either server: their end is waited for, and told about.
//! `events` owns what becomes of a change.
//!
//! At the end, which a signal brings, everything is listed once more, so that nothing depends on the last events. A second signal breaks that off.

use std::collections::BTreeSet;
use std::io::{Write, sink};
use std::time::Duration;

use anyhow::bail;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, interval};

use super::copy::{Progress, Survey};
use super::events::{Broken, Ended};
use super::journal::OPEN_LINE;
use super::kinds::Kind;
use super::servers::{Pause, REFUSAL_MAX};
use super::stops::Stops;
use super::waiting::Pending;
use super::{Move, left_out};

/// Lists in a row whose version the source had forgotten before it was watched.
const GAPS_MAX: u32 = 10;
/// A watch that the source ends sooner is not begun anew at once.
const CLOSED_MIN: Duration = Duration::from_secs(1);
/// Between two lines about what was followed.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Between two lines about an outage.
const TELL_OUTAGE_EVERY: Duration = Duration::from_secs(60);

/// The end of one of the tasks of the following.
enum Task {
    /// The source does not serve the kind of this id any more.
    Watch(String),
    /// The kinds that are to be watched.
    Search(Vec<Kind>),
}

/// What was told last.
struct Told {
    changes: u64,
    outage: Option<Instant>,
}

impl Move<'_> {
    /// Copies changes until `stops`, and then lists everything once more.
    ///
    /// # Errors
    /// A server refuses this user for ten minutes, forgets versions faster than they are listed, or cannot be used at the end.
    pub(super) async fn follow(&self, mut stops: Stops, out: &mut impl Write) -> anyhow::Result<()> {
        writeln!(out, "following the source; stop its writers, then end this with Ctrl-C")?;
        out.flush()?;
        [&self.source, &self.target].iter().for_each(|pool| pool.set_patience(true));
        self.journal.lock().write_synced(OPEN_LINE)?;
        self.copied.lock().note_followed();
        let mut tasks: FuturesUnordered<LocalBoxFuture<'_, anyhow::Result<Task>>> = FuturesUnordered::new();
        let (mut watched, mut is_searching) = (BTreeSet::new(), false);
        let mut tell = interval(TELL_EVERY);
        let mut told = Told { changes: self.report.lock().total(), outage: None };
        self.is_declared.notify_one();
        loop {
            tokio::select! {
                () = stops.next() => break,
                () = self.is_declared.notified(), if !is_searching => {
                    is_searching = true;
                    tasks.push(self.search().boxed_local());
                }
                Some(ended) = tasks.next() => match ended? {
                    Task::Watch(id) => drop(watched.remove(&id)),
                    Task::Search(kinds) => {
                        is_searching = false;
                        for kind in kinds {
                            if watched.insert(kind.id()) {
                                tasks.push(self.watch_kind(kind).boxed_local());
                            }
                        }
                    }
                },
                _ = tell.tick() => {
                    // A kind may come into force later than its definition.
                    self.is_declared.notify_one();
                    self.tell(&mut told, out)?;
                }
            }
        }
        drop(tasks);
        writeln!(out, "listing everything once more")?;
        out.flush()?;
        [&self.source, &self.target].iter().for_each(|pool| pool.set_patience(false));
        *self.report.lock() = super::Report::default();
        self.list_anew()?;
        tokio::select! {
            done = self.copy_all(out) => done,
            () = stops.next() => bail!("the last list was broken off: the same command goes on with it"),
        }
    }

    fn tell(&self, told: &mut Told, out: &mut impl Write) -> std::io::Result<()> {
        let now = self.report.lock().total();
        if now > told.changes {
            writeln!(out, "{} changes followed", now - told.changes)?;
            told.changes = now;
        }
        let outages = [("source", self.source.outage()), ("target", self.target.outage())];
        let mut outages = outages.into_iter().filter_map(|(name, outage)| Some((name, outage?))).peekable();
        let is_due = told.outage.is_none_or(|at| at.elapsed() >= TELL_OUTAGE_EVERY);
        if outages.peek().is_some() && is_due {
            for (name, outage) in outages {
                let seconds = outage.since.elapsed().as_secs();
                writeln!(out, "waiting for the {name} for {seconds} s: {}", outage.reason)?;
            }
            told.outage = Some(Instant::now());
        }
        out.flush()
    }

    async fn search(&self) -> anyhow::Result<Task> {
        self.survey(Survey::Now).await?;
        let kinds = self.kinds.lock();
        let ids = kinds.all.iter().filter_map(|kind| kinds.shared.get(&kind.id()));
        let moves = |kind: &&Kind| left_out::of_kind(self.brand, kind, self.arguments.with_events).is_none();
        Ok(Task::Search(ids.filter(moves).cloned().collect()))
    }

    /// Follows one kind while it is served.
    async fn watch_kind(&self, kind: Kind) -> anyhow::Result<Task> {
        let (id, servers) = (kind.id(), &self.source.access.servers);
        let (mut at, mut gaps, mut pause) = (0, 0, Pause::new());
        let mut refused_since = None;
        loop {
            let version = self.copied.lock().version(&id).map(str::to_owned);
            let Some(version) = version else {
                let (mut waiting, mut out) = (Vec::new(), sink());
                self.copy_kind(&kind, &mut waiting, &mut Progress::new(&mut out)).await?;
                self.wait_for_homes(&kind, &waiting).await?;
                self.copy_waiting(waiting, Pending::Kind(&id)).await?;
                if self.copied.lock().version(&id).is_none() {
                    return Ok(Task::Watch(id));
                }
                continue;
            };
            let began = Instant::now();
            let outcome = self.watch_once(&kind, &id, &version, &servers[at % servers.len()]).await;
            if self.copied.lock().version(&id) != Some(&version) {
                (refused_since, pause) = (None, Pause::new());
                gaps = 0;
            }
            match outcome {
                Ok(Ended::Closed) => {
                    (refused_since, gaps) = (None, 0);
                    if began.elapsed() < CLOSED_MIN {
                        pause.wait().await;
                    }
                }
                Ok(Ended::Gap) => {
                    self.copied.lock().forget_version(&id);
                    gaps += 1;
                    if gaps > GAPS_MAX {
                        bail!(
                            "{id} cannot be followed: the source forgets its versions faster than they are listed"
                        );
                    }
                    // The first list follows at once: what was missed is to come soon.
                    if gaps > 1 {
                        pause.wait().await;
                    }
                }
                Ok(Ended::Undeclared) => {
                    self.copied.lock().forget_version(&id);
                    self.wait_until_served(&kind).await?;
                }
                Ok(Ended::Unserved) => {
                    self.copied.lock().forget_version(&id);
                    return Ok(Task::Watch(id));
                }
                Err(Broken::Final(error)) => return Err(error),
                Err(Broken::Refused(reason)) => {
                    let since = *refused_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > REFUSAL_MAX {
                        bail!("{id} cannot be watched: {reason}");
                    }
                    self.source.note_outage(reason);
                    at += 1;
                    pause.wait().await;
                }
                Err(Broken::Again(reason)) => {
                    self.source.note_outage(format!("{id}: {reason}"));
                    at += 1;
                    pause.wait().await;
                }
            }
        }
    }
}
