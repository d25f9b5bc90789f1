//! Cycles of a process, a power loss and the next process, from one seed.
//!
//! A directory goes through many power losses: during its first start, during recoveries, during work. All randomness
//! comes from the seed except the interleaving of a process's threads, so a seed does not repeat a run exactly. A
//! failure therefore keeps its evidence, if asked for: the files before and the trace.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, anyhow};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

use super::image::{self, Directory, Files, Lie, Writeback};
use super::judge::Judge;
use super::model::Fact;
use super::shim;
use super::trace::{self, Record};

/// Maximum of power losses of one directory before a new one is begun.
const CYCLES_MAX: u32 = 24;
/// Approximate number of file operations while a directory is created or recovered.
const START_OPERATIONS: u64 = 120;
/// File operations of a long run.
const WORK_OPERATIONS: u64 = 3_000;
/// Operation numbers reserved for one process.
const NUMBERS_PER_PROCESS: u64 = 1_000_000;
/// Longest duration of a sync in a run of the process, in microseconds.
const SYNC_MICROS: [u64; 3] = [0, 200, 2_000];

/// Planted bugs by name: syncs that a disk reports but does not do.
pub const LIES: [(&str, Lie); 6] = [
    ("all", Lie::All),
    ("directory", Lie::Directory),
    ("write-ahead-log", Lie::Files(".log")),
    ("tables", Lie::Files(".sst")),
    ("manifest", Lie::Files("MANIFEST-")),
    ("current", Lie::Files(".dbtmp")),
];

/// Seed, length and faults of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Seed of all randomness.
    pub seed: u64,
    /// Number of power losses.
    pub crashes: u32,
    /// Syncs that the disk lies about.
    pub lie: Lie,
    /// Order in which unsynced writes survive.
    pub writeback: Writeback,
    /// The program that is [`super::member::work`], called with `member DIRECTORY SEED NUMBER`.
    pub program: PathBuf,
    /// Directory for the evidence of a failure.
    pub evidence: Option<PathBuf>,
}

/// Counters of a run.
#[derive(Debug, Default, Clone, Copy)]
pub struct Report {
    /// Number of power losses so far.
    pub crashes: u32,
    /// Power losses before the disk was open.
    pub while_opening: u32,
    /// Power losses with unsynced writes.
    pub with_unsynced: u32,
    /// Disks judged.
    pub judged: u32,
    /// Promised operations.
    pub promised: usize,
    /// Unpromised operations that were lost.
    pub lost: usize,
    /// Bytes written to files.
    pub bytes: usize,
    /// Number of syncs.
    pub syncs: usize,
}

/// A promise of the disk that was not kept; every other error of [`run`] is a failure of the harness.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
pub struct BrokenPromise(anyhow::Error);

/// Runs until a promise is broken or the number of power losses is reached.
///
/// # Errors
/// [`BrokenPromise`] inside the error if the disk is at fault; otherwise the harness failed.
pub fn run(options: &Options) -> (Report, Result<()>) {
    let mut report = Report::default();
    let outcome = TempDir::new().map_err(anyhow::Error::from).and_then(|folder| {
        let library = shim::compile(folder.path())?;
        let mut chance = StdRng::seed_from_u64(options.seed);
        while report.crashes < options.crashes {
            let mut life = Lives::new(options, folder.path(), &library)?;
            for _ in 0..chance.random_range(1..=CYCLES_MAX) {
                if report.crashes == options.crashes {
                    break;
                }
                life.cycle(&mut chance, &mut report)?;
            }
        }
        Ok(())
    });
    (report, outcome)
}

/// One directory through its power losses.
struct Lives<'a> {
    options: &'a Options,
    library: &'a Path,
    // Canonical, since the shim compares paths as text.
    path: PathBuf,
    trace: PathBuf,
    files: Files,
    judge: Judge,
    number: u64,
}

impl<'a> Lives<'a> {
    fn new(options: &'a Options, folder: &Path, library: &'a Path) -> Result<Lives<'a>> {
        let path = folder.join("disk");
        fs::create_dir_all(&path)?;
        let files = Files::new();
        image::write(&path, &files)?;
        let (path, trace) = (path.canonicalize()?, folder.join("trace"));
        Ok(Lives { options, library, path, trace, files, judge: Judge::default(), number: 1 })
    }

    fn cycle(&mut self, chance: &mut StdRng, report: &mut Report) -> Result<()> {
        let at = if chance.random_bool(0.35) {
            chance.random_range(1..=START_OPERATIONS)
        } else {
            chance.random_range(START_OPERATIONS..=WORK_OPERATIONS)
        };
        let seed = chance.random();
        let number = self.number;
        self.number += NUMBERS_PER_PROCESS;
        let described = format!("power loss {} at operation {at}", report.crashes + 1);
        report.crashes += 1;
        let status = self.live(at, seed, number).context(described.clone())?;
        let bytes = fs::read(&self.trace)?;
        let after = self.judge_life(&bytes, status, chance, report).with_context(|| described)?;
        image::write(&self.path, &after)?;
        self.files = after;
        Ok(())
    }

    /// Runs the process until it is killed.
    fn live(&self, at: u64, seed: u64, number: u64) -> Result<ExitStatus> {
        drop(fs::remove_file(&self.trace));
        let micros = SYNC_MICROS[usize::try_from(seed % 3)?];
        let mut command = Command::new(&self.options.program);
        command.arg("member").arg(&self.path).arg(seed.to_string()).arg(number.to_string());
        command.env("LD_PRELOAD", self.library).env("POWER_ROOT", &self.path).env("POWER_TRACE", &self.trace);
        command.env("POWER_CRASH_AT", at.to_string()).env("POWER_SEED", (seed | 1).to_string());
        command.env("POWER_SYNC_MICROS", micros.to_string());
        let errors = File::create(self.trace.with_extension("errors"))?;
        command.stdin(Stdio::null()).stdout(File::create("/dev/null")?).stderr(errors);
        Ok(command.status()?)
    }

    /// Checks the facts that the process printed, and makes the content of the disk after the power loss.
    fn judge_life(
        &mut self,
        bytes: &[u8],
        status: ExitStatus,
        chance: &mut StdRng,
        report: &mut Report,
    ) -> Result<Files> {
        let records = trace::parse(bytes)?;
        let mut directory = Directory::new(self.files.clone(), self.options.lie);
        let mut is_open = false;
        let (promised, lost) = (self.judge.promised, self.judge.lost);
        for (time, record) in records.iter().enumerate() {
            directory.apply(time, record)?;
            match record {
                Record::Write(_, _, bytes) => report.bytes += bytes.len(),
                Record::SyncEnd(..) => report.syncs += 1,
                Record::Fact(line) => {
                    let fact: Fact = serde_json::from_slice(line).context("a line of the process")?;
                    is_open |= matches!(fact, Fact::Shown(_));
                    let heard = self.judge.hear(time, fact);
                    heard.map_err(|error| BrokenPromise(self.keep_evidence(&error, bytes)))?;
                }
                _ => {}
            }
        }
        report.promised += self.judge.promised - promised;
        report.lost += self.judge.lost - lost;
        report.judged += u32::from(is_open);
        report.while_opening += u32::from(!is_open);
        let is_killed = std::os::unix::process::ExitStatusExt::signal(&status) == Some(9);
        if !is_killed {
            let errors = fs::read_to_string(self.trace.with_extension("errors"))?;
            return Err(
                self.keep_evidence(&anyhow!("the process ended by itself: {status}\n{errors}"), bytes)
            );
        }
        let files = image::read(&self.path)?;
        directory.compare(&files).context("the shim did not see everything")?;
        let after = directory.lose_power(self.options.writeback, chance);
        report.with_unsynced += u32::from(after != files);
        Ok(after)
    }

    /// Copies the evidence of the failure, if asked for.
    fn keep_evidence(&self, error: &anyhow::Error, trace: &[u8]) -> anyhow::Error {
        let Some(to) = &self.options.evidence else { return anyhow!("{error:#}") };
        let keep = || -> Result<()> {
            fs::create_dir_all(to.join("before"))?;
            image::write(&to.join("before"), &self.files)?;
            Ok(fs::write(to.join("trace"), trace)?)
        };
        match keep() {
            Ok(()) => {
                anyhow!("{error:#}\nthe directory it was opened with and the trace are in {}", to.display())
            }
            Err(failed) => anyhow!("{error:#}\nthe evidence could not be kept: {failed:#}"),
        }
    }
}
