//! The process that loses power: uses a disk as a running member does, and prints its operations and the promises it
//! gets.
//!
//! Owns every call of [`Disk`] in this folder. One thread writes the log's side, one the state's, as in a member:
//! further appends follow before one is durable, the state follows the log, the log is purged only up to the state, and
//! an installed state may be ahead of the log. It never ends by itself.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use orch_raft::disk::rocks::RocksDisk;
use orch_raft::disk::{
    Disk, DiskError, Generation, HistoryBlock, LogRecord, MetaKey, OnDurable, StateBatch, StateWrite,
    StateWritten,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::model::{
    Fact, LogShown, Operation, Shown, StateShown, Stream, has_history, is_large, place_of, value, writer_of,
};

/// Entries kept in the log: more than the sweeper of purged entries does in one step.
const LOG_ENTRIES_MAX: u64 = 7_000;
/// Bytes of large entries kept in the log. Small, since every crash copies the directory.
const LARGE_ENTRIES_MAX: u64 = 300;
/// Appends in flight to the disk.
const IN_FLIGHT_MAX: usize = 24;
/// Number of distinct objects.
const PATHS: u64 = 160;
const RESOURCE: &str = "things";

/// Writes a line to standard output, in one piece: each becomes one record of the trace.
fn say(fact: &Fact) {
    let mut line = serde_json::to_vec(fact).expect("a fact is plain data");
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line).and_then(|()| output.flush()).expect("standard output is a null device");
}

/// Opens the disk, prints its content, and works until the process is killed. `first_number` is the number of its first
/// operation.
pub fn work(path: &Path, seed: u64, first_number: u64) -> Result<()> {
    let opened = RocksDisk::open(path).map_err(anyhow::Error::from).and_then(|disk| Ok((show(&disk)?, disk)));
    let (shown, disk) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            say(&Fact::Refused(format!("{error:#}")));
            return Err(error);
        }
    };
    say(&Fact::Shown(shown.clone()));
    let (disk, shared) = (Arc::new(disk), Arc::new(Shared::new(&shown)));
    let state = {
        let mut worker = StateWorker {
            disk: Arc::clone(&disk),
            shared: Arc::clone(&shared),
            chance: StdRng::seed_from_u64(seed ^ 1),
            number: first_number,
            generation: disk.generation()?,
            newest_block: shown.state.history.last().copied().unwrap_or(0),
        };
        thread::spawn(move || worker.run())
    };
    let log = LogWorker::new(disk, Arc::clone(&shared), seed, first_number).run();
    shared.change(|progress| progress.is_over = true);
    let state = state.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the thread of the state panicked")));
    let failed = log.and(state);
    if let Err(error) = &failed {
        say(&Fact::Refused(format!("{error:#}")));
    }
    failed
}

/// Reads everything on the disk and checks every value.
fn show(disk: &RocksDisk) -> Result<Shown> {
    let small = |key, place| -> Result<Option<u64>> {
        let Some(bytes) = disk.meta(key)? else { return Ok(None) };
        writer_of(&bytes, place)
            .map(Some)
            .with_context(|| format!("{key:?} holds other bytes than were written"))
    };
    let pair = |key| -> Result<Option<(u64, u64)>> {
        let Some(bytes) = disk.meta(key)? else { return Ok(None) };
        let place = bytes.get(8..16).context("a mark is short")?;
        let place = u64::from_le_bytes(place.try_into()?);
        let number = writer_of(&bytes, place)
            .with_context(|| format!("{key:?} holds other bytes than were written"))?;
        Ok(Some((number, place)))
    };
    let mut log = LogShown {
        vote: small(MetaKey::Vote, 0)?,
        committed: small(MetaKey::Committed, 0)?,
        purged: pair(MetaKey::Purged)?,
        entries: BTreeMap::new(),
    };
    if let Some((first, last)) = disk.log_bounds()? {
        let records = disk.read_log(first, last + 1, usize::MAX)?;
        ensure!(
            u64::try_from(records.len())? == last - first + 1,
            "the log from {first} to {last} is not whole"
        );
        for record in records {
            let writer = writer_of(&record.bytes, record.index);
            let writer = writer
                .with_context(|| format!("entry {} holds other bytes than were written", record.index))?;
            log.entries.insert(record.index, writer);
        }
    }
    let mut state = StateShown { mark: pair(MetaKey::StateMark)?, ..StateShown::default() };
    let mut damaged = None;
    disk.read_state(&mut |_, path, bytes| match writer_of(&bytes, place_of(path)) {
        Some(number) => drop(state.objects.insert(path.to_owned(), number)),
        None => damaged = Some(path.to_owned()),
    })?;
    ensure!(damaged.is_none(), "object {damaged:?} holds other bytes than were written");
    let generation = disk.generation()?;
    for span in disk.history()? {
        let record = disk.read_history(generation, &span.resource, span.through)?;
        let record =
            record.with_context(|| format!("block {span:?} of the history is listed and not there"))?;
        ensure!(writer_of(&record, span.through) == Some(span.through), "block {span:?} holds other bytes");
        state.history.insert(span.through);
    }
    Ok(Shown { log, state })
}

/// Progress of both threads.
#[derive(Debug, Default)]
struct Progress {
    first: u64,
    last: u64,
    // The log is never cut before this index.
    applied: u64,
    // The applied index of the newest state write whose call has returned.
    written: u64,
    log_operations: u64,
    is_over: bool,
}

#[derive(Debug)]
struct Shared {
    progress: Mutex<Progress>,
    changed: Condvar,
}

impl Shared {
    fn new(shown: &Shown) -> Shared {
        let purged = shown.log.purged.map_or(0, |(_, index)| index);
        let last = shown.log.entries.last_key_value().map_or(purged, |(index, _)| *index);
        let applied = shown.state.mark.map_or(0, |(_, applied)| applied);
        let first = purged + 1;
        let progress = Progress { first, last, applied, written: applied, ..Progress::default() };
        Shared { progress: Mutex::new(progress), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Progress) -> T) -> T {
        let outcome = change(&mut self.lock());
        self.changed.notify_all();
        outcome
    }
}

/// The thread of log, vote and small values.
struct LogWorker {
    disk: Arc<RocksDisk>,
    shared: Arc<Shared>,
    chance: StdRng,
    number: u64,
    sender: Sender<Result<(), DiskError>>,
    durable: Receiver<Result<(), DiskError>>,
    in_flight: usize,
    // Writes in flight at a time, in this run of the process.
    in_flight_max: usize,
}

impl LogWorker {
    fn new(disk: Arc<RocksDisk>, shared: Arc<Shared>, seed: u64, number: u64) -> LogWorker {
        let (sender, durable) = channel();
        let mut chance = StdRng::seed_from_u64(seed);
        let in_flight_max = chance.random_range(1..=IN_FLIGHT_MAX);
        LogWorker { disk, shared, chance, number, sender, durable, in_flight: 0, in_flight_max }
    }

    fn run(&mut self) -> Result<()> {
        while !self.shared.lock().is_over {
            let operation = self.choose();
            self.step(operation)?;
            while self.in_flight >= self.in_flight_max {
                self.durable.recv()??;
                self.in_flight -= 1;
            }
        }
        Ok(())
    }

    fn choose(&mut self) -> Operation {
        let is_large = is_large(self.number);
        let mut progress = self.shared.lock();
        let Progress { first, last, applied, written, .. } = *progress;
        if written > last {
            // An installed state is ahead of the log, which continues after it.
            (progress.first, progress.last) = (written + 1, written);
            return Operation::Purge(written);
        }
        let entries_max = if is_large { LARGE_ENTRIES_MAX } else { LOG_ENTRIES_MAX };
        if last.saturating_sub(first) > entries_max && written > first {
            progress.first = written + 1;
            return Operation::Purge(written);
        }
        match self.chance.random_range(0..100) {
            0..8 => Operation::Vote,
            8..16 => Operation::Committed,
            16..20 if last > applied.max(first) => {
                progress.last = self.chance.random_range(applied.max(first)..last);
                Operation::Truncate(progress.last)
            }
            20..24 if written > first => {
                let through = self.chance.random_range(first..=written);
                progress.first = through + 1;
                Operation::Purge(through)
            }
            kind => {
                let most = if is_large {
                    3
                } else if kind < 40 {
                    600
                } else {
                    12
                };
                progress.last = last + self.chance.random_range(1..=most);
                Operation::Append(last + 1, progress.last)
            }
        }
    }

    fn step(&mut self, operation: Operation) -> Result<()> {
        let number = self.number;
        self.number += 1;
        say(&Fact::Try(Stream::Log, number, operation.clone()));
        let small = |place| Bytes::from(value(number, place));
        match operation {
            Operation::Vote => {
                let on_durable = self.on_durable(number);
                self.disk.save_meta(MetaKey::Vote, small(0), Some(on_durable))?;
            }
            Operation::Committed => self.disk.save_meta(MetaKey::Committed, small(0), None)?,
            Operation::Append(first, last) => {
                let records = (first..=last).map(|index| LogRecord { index, bytes: small(index) }).collect();
                let on_durable = self.on_durable(number);
                self.disk.append(records, on_durable)?;
            }
            Operation::Truncate(after) => self.disk.truncate_after(Some(after))?,
            Operation::Purge(through) => self.disk.purge_through(through, small(through))?,
            Operation::Write(..) | Operation::Install(..) => {}
        }
        say(&Fact::Done(Stream::Log, number));
        self.shared.change(|progress| progress.log_operations += 1);
        Ok(())
    }

    fn on_durable(&mut self, number: u64) -> OnDurable {
        let sender = self.sender.clone();
        self.in_flight += 1;
        Box::new(move |result| {
            if result.is_ok() {
                say(&Fact::Durable(Stream::Log, number));
            }
            // The receiver is gone after a failure.
            drop(sender.send(result));
        })
    }
}

/// The thread of the applied state.
struct StateWorker {
    disk: Arc<RocksDisk>,
    shared: Arc<Shared>,
    chance: StdRng,
    number: u64,
    generation: Generation,
    newest_block: u64,
}

impl StateWorker {
    fn run(&mut self) -> Result<()> {
        let mut operations_seen = 0;
        loop {
            operations_seen += self.chance.random_range(0..4);
            let mut progress = self.shared.lock();
            while progress.log_operations < operations_seen && !progress.is_over {
                progress = self.shared.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
            }
            if progress.is_over {
                return Ok(());
            }
            operations_seen = progress.log_operations;
            // Every appended entry is taken for committed.
            progress.applied = progress.applied.max(progress.last);
            let is_install = self.chance.random_range(0..40) == 0;
            if is_install && self.chance.random_bool(0.5) {
                progress.applied += self.chance.random_range(0..50);
            }
            let applied = progress.applied;
            drop(progress);
            let done = if is_install { self.install(applied) } else { self.write(applied).map(|()| true) };
            if done.inspect_err(|_| self.shared.change(|progress| progress.is_over = true))? {
                self.shared.change(|progress| progress.written = applied);
            }
        }
    }

    fn path(&mut self) -> String {
        format!("space/{}", self.chance.random_range(0..PATHS))
    }

    fn write(&mut self, applied: u64) -> Result<()> {
        let number = self.next_number();
        let count = if is_large(number) { 4 } else { 16 };
        let objects: BTreeMap<String, bool> = (0..self.chance.random_range(0..=count))
            .map(|_| (self.path(), self.chance.random_bool(0.8)))
            .collect();
        say(&Fact::Try(Stream::State, number, Operation::Write(applied, objects.clone())));
        let writes = objects.iter().map(|(path, is_written)| object(number, path, *is_written)).collect();
        let mut batch = StateBatch { generation: self.generation, writes, ..StateBatch::default() };
        batch.mark = Some(Bytes::from(value(number, applied)));
        if has_history(number) {
            let record = Bytes::from(value(number, number));
            let after = std::mem::replace(&mut self.newest_block, number);
            batch.history.push(HistoryBlock { resource: RESOURCE.into(), after, through: number, record });
        }
        let (sender, written) = channel();
        // The receiver waits below.
        self.disk.write_state(batch, Box::new(move |result| drop(sender.send(result))));
        ensure!(written.recv()?? == StateWritten::Written, "a write of the current state was dropped");
        say(&Fact::Done(Stream::State, number));
        Ok(())
    }

    /// Installs a new state, or begins to and gives up; `true` if it was installed.
    fn install(&mut self, applied: u64) -> Result<bool> {
        let number = self.next_number();
        let paths: Vec<String> = (0..self.chance.random_range(0..40)).map(|_| self.path()).collect();
        let is_abandoned = self.chance.random_bool(0.2);
        if !is_abandoned {
            say(&Fact::Try(Stream::State, number, Operation::Install(applied, paths.clone())));
        }
        let mut install = self.disk.begin_install()?;
        for part in paths.chunks(7) {
            install.put(part.iter().map(|path| object(number, path, true)).collect())?;
        }
        if is_abandoned {
            return Ok(false);
        }
        let (sender, installed) = channel();
        // The receiver waits below.
        install
            .commit(Bytes::from(value(number, applied)), Box::new(move |result| drop(sender.send(result))));
        self.generation = installed.recv()??;
        self.newest_block = 0;
        say(&Fact::Durable(Stream::State, number));
        say(&Fact::Done(Stream::State, number));
        Ok(true)
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number - 1
    }
}

fn object(number: u64, path: &str, is_written: bool) -> StateWrite {
    let record = is_written.then(|| Bytes::from(value(number, place_of(path))));
    StateWrite { resource: RESOURCE.into(), path: path.into(), record }
}
