//! CPU time and memory of server processes on this machine, from `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

/// The kernel reports CPU time to user space in hundredths of a second on every Linux architecture that runs here.
const TICKS_PER_SECOND: u64 = 100;

/// Memory of one process, in kilobytes.
#[derive(Debug, Clone, Serialize)]
pub struct Memory {
    /// The program's name.
    pub program: String,
    /// Process id.
    pub pid: u32,
    /// Resident set size.
    pub rss_kb: u64,
    /// Proportional set size: shared pages divided among their users. `None` where the kernel does not report it.
    pub pss_kb: Option<u64>,
    /// Peak resident set size.
    pub peak_kb: u64,
}

/// User and system time used so far by all of `pids`.
pub(crate) fn cpu_time(pids: &[u32]) -> Result<Duration> {
    let mut ticks = 0;
    for pid in pids {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"));
        let text = text.with_context(|| format!("cannot read the CPU time of process {pid}"))?;
        ticks += stat_ticks(&text).with_context(|| format!("/proc/{pid}/stat is not as expected"))?;
    }
    Ok(Duration::from_millis(ticks * (1000 / TICKS_PER_SECOND)))
}

/// Memory of each of `pids`.
pub(crate) fn memory(pids: &[u32]) -> Result<Vec<Memory>> {
    pids.iter()
        .map(|pid| one(*pid).with_context(|| format!("cannot read the memory of process {pid}")))
        .collect()
}

/// Resident set of one process in kilobytes, without the shares of [`memory`], which walk all its pages.
pub(crate) fn resident_kb(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    field(&status, "VmRSS:").context("no VmRSS")
}

fn one(pid: u32) -> Result<Memory> {
    let program = fs::read_to_string(format!("/proc/{pid}/comm"))?.trim_end().to_owned();
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    Ok(Memory {
        program,
        pid,
        rss_kb: field(&status, "VmRSS:").context("no VmRSS")?,
        pss_kb: field(&rollup, "Pss:"),
        peak_kb: field(&status, "VmHWM:").context("no VmHWM")?,
    })
}

/// `utime` plus `stime`: fields 14 and 15, counted after the command, which may hold spaces and brackets.
fn stat_ticks(text: &str) -> Option<u64> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line[name.len()..].split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_an_odd_command() {
        let line = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 700 55 0 0 20 0";
        assert_eq!(stat_ticks(line), Some(755));
    }

    #[test]
    fn this_process_uses_memory() {
        let memory = memory(&[std::process::id()]).unwrap();
        assert!(memory[0].rss_kb > 0 && memory[0].peak_kb >= memory[0].rss_kb);
        assert!(cpu_time(&[u32::MAX]).is_err());
    }
}
