//! Records the stacks of running servers with `perf`, and the switches of their threads.
//!
//! Owns the program `perf` and its file. Stacks are unwound by the tables of the programs, so that those of the release profile serve; a
//! processor without counters serves, too, because a clock takes the samples. `perf` needs the right to look at the servers.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{Profile, stage_of_frame};

/// Samples of each processor in a second; an odd number, so that no timer keeps step.
const FREQUENCY: &str = "997";

/// Stacks, 16 KiB of each: nested futures take much of one.
const CALL_GRAPH: &str = "dwarf,16384";

/// Longest wait for `perf` to begin.
const BEGIN_MAX: Duration = Duration::from_secs(10);

/// Pause between looks whether it has begun, and the time that it takes from its file to its first sample.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Switches of all threads of some processes, by the names of the threads.
type Switches = BTreeMap<String, u64>;

/// A recording under way.
pub(in crate::load) struct Recording {
    perf: Child,
    directory: TempDir,
    pids: Vec<u32>,
    before: Switches,
}

impl Recording {
    /// Begins to record the processes `pids`.
    pub(in crate::load) fn begin(pids: &[u32]) -> Result<Recording> {
        ensure!(
            !pids.is_empty(),
            "stages are those of servers on this machine: --start NODES or --pids is wanted"
        );
        let directory = tempfile::tempdir()?;
        let list = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let file = directory.path().join("perf.data");
        let mut perf = Command::new("perf")
            .args([
                "record",
                "-q",
                "-e",
                "cpu-clock",
                "-F",
                FREQUENCY,
                "--call-graph",
                CALL_GRAPH,
                "-p",
                &list,
                "-o",
            ])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run perf (Debian's package linux-perf)")?;
        let deadline = Instant::now() + BEGIN_MAX;
        while !file.exists() {
            ensure!(perf.try_wait()?.is_none(), "perf ended at once: may it look at other processes?");
            ensure!(Instant::now() < deadline, "perf does not begin");
            sleep(LOOK_EVERY);
        }
        sleep(LOOK_EVERY);
        Ok(Recording { perf, directory, pids: pids.to_vec(), before: switches(pids)? })
    }

    /// Ends the recording and groups its samples.
    pub(in crate::load) fn end(mut self) -> Result<Profile> {
        let after = switches(&self.pids)?;
        let id = i32::try_from(self.perf.id()).ok().and_then(Pid::from_raw).context("perf has no id")?;
        kill_process(id, Signal::INT)?;
        self.perf.wait()?;
        let mut profile = read(&self.directory.path().join("perf.data"))?;
        for (name, count) in after {
            profile.add_switches(&name, count.saturating_sub(self.before.get(&name).copied().unwrap_or(0)));
        }
        Ok(profile)
    }
}

/// The samples of the file, grouped.
fn read(file: &PathBuf) -> Result<Profile> {
    let mut script = Command::new("perf")
        .args(["script", "--no-inline", "-F", "comm,ip,sym", "-i"])
        .arg(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run perf script")?;
    let output = script.stdout.take().context("perf script has no output")?;
    let profile = grouped(BufReader::new(output))?;
    ensure!(script.wait()?.success(), "perf script failed");
    Ok(profile)
}

/// The samples of `text`: the name of a thread, the frames from the innermost, each with its address, and an empty line.
fn grouped(text: impl BufRead) -> Result<Profile> {
    let (mut profile, mut sample) = (Profile::default(), None::<Sample>);
    // A program has some ten thousand functions.
    let mut known: HashMap<String, Option<&'static str>> = HashMap::new();
    for line in text.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        match (line.trim(), &mut sample) {
            ("", _) => {
                if let Some(Sample { thread, stage }) = sample.take() {
                    profile.add(&thread, stage);
                }
            }
            (thread, None) => sample = Some(Sample { thread: thread.to_owned(), stage: None }),
            (frame, Some(sample)) if sample.stage.is_none() => {
                let name = frame.split_once(' ').map_or("", |(_, name)| name);
                sample.stage = match known.get(name) {
                    Some(stage) => *stage,
                    None => *known.entry(name.to_owned()).or_insert(stage_of_frame(name)),
                };
            }
            (_, Some(_)) => {}
        }
    }
    Ok(profile)
}

/// A sample that is being read.
struct Sample {
    thread: String,
    /// That of the first frame which names one.
    stage: Option<&'static str>,
}

/// Switches of all threads so far. A thread that ends meanwhile is left out.
fn switches(pids: &[u32]) -> Result<Switches> {
    let mut all = Switches::new();
    for pid in pids {
        let tasks = fs::read_dir(format!("/proc/{pid}/task"));
        for task in tasks.with_context(|| format!("cannot read the threads of process {pid}"))? {
            if let Ok(status) = fs::read_to_string(task?.path().join("status")) {
                let (name, count) = switches_of(&status);
                *all.entry(name.to_owned()).or_default() += count;
            }
        }
    }
    Ok(all)
}

/// Name and switches of one thread.
fn switches_of(status: &str) -> (&str, u64) {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map_or("", str::trim)
    };
    let count = |name: &str| field(name).parse::<u64>().unwrap_or(0);
    (field("Name:"), count("voluntary_ctxt_switches:") + count("nonvoluntary_ctxt_switches:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "connections \n\t          1559a3 __memmove_avx_unaligned_erms\n\t          2a11f0 orch_schema::json::reader::Reader::text\n\
        \t          9f0012 tokio::runtime::task::raw::poll\n\nstore \n\tffffffff81a0 [unknown]\n\t           77f0 rocksdb::DBImpl::WriteImpl\n\n\
        store \n\t               0 [unknown]\n\n";

    #[test]
    fn the_innermost_frame_that_names_a_stage_decides() {
        let profile = grouped(RECORDED.as_bytes()).unwrap();
        assert_eq!(profile.samples, 3);
        let stages: Vec<_> = profile.stages.into_iter().collect();
        assert_eq!(stages, [("decode", 1), ("log", 1), ("other", 1)]);
        let threads: Vec<_> =
            profile.threads.iter().map(|(name, thread)| (&**name, thread.samples)).collect();
        assert_eq!(threads, [("connections", 1), ("store", 2)]);
    }

    #[test]
    fn switches_of_both_kinds_are_counted() {
        let status =
            "Name:\tstore\nState:\tS\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(switches_of(status), ("store", 15));
        assert!(switches(&[std::process::id()]).unwrap().values().sum::<u64>() > 0);
    }
}
