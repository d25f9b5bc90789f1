//! Limits of the machine on connections: file descriptors of this process and of the servers, and local ports.
//!
//! Checked before the first connection is opened, so that a load which cannot fit says so instead of failing halfway.

use std::fs;

use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors of a process for everything but connections: the database's files, logs, peers, the runtime.
const KEPT: u64 = 512;

/// Raises this process's soft limit of open files to the hard one, which processes that it starts inherit.
pub(super) fn raise() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).context("cannot raise the limit of open files to the hard limit")
}

/// An error that says what to do if this process may not open `connections`.
pub(super) fn check_own(connections: u32) -> Result<()> {
    let own = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    fits(connections.into(), own, "this process")
}

/// The same if `connections` do not fit when spread over as many servers as `servers` says. `pids` are processes of the
/// servers, where known.
pub(super) fn check_servers(connections: u32, servers: usize, pids: &[u32]) -> Result<()> {
    let of_one = u64::from(connections).div_ceil(servers.max(1) as u64);
    for pid in pids {
        let text = fs::read_to_string(format!("/proc/{pid}/limits"));
        let text = text.with_context(|| format!("cannot read the limits of process {pid}"))?;
        fits(of_one, open_files(&text).unwrap_or(u64::MAX), &format!("the server's process {pid}"))?;
    }
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    if let Some(ports) = ports(&range).filter(|ports| *ports < of_one) {
        bail!(
            "{of_one} connections to one server do not fit: there are {ports} local ports for them \
             (net.ipv4.ip_local_port_range); ask for fewer --connections"
        );
    }
    Ok(())
}

fn fits(connections: u64, limit: u64, of: &str) -> Result<()> {
    if connections.saturating_add(KEPT) > limit {
        bail!(
            "{connections} connections do not fit: {of} may have {limit} open files and needs {KEPT} for itself; raise \
             its hard limit (`ulimit -Hn` as root, LimitNOFILE= of a unit) or ask for fewer connections"
        );
    }
    Ok(())
}

/// The soft limit in `/proc/PID/limits`; `None` if unlimited or unknown.
fn open_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Number of ports in `FIRST LAST`.
fn ports(range: &str) -> Option<u64> {
    let mut ends = range.split_whitespace().map(|end| end.parse::<u64>().ok());
    let (first, last) = (ends.next()??, ends.next()??);
    Some(last.saturating_sub(first) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_leave_room_for_the_process_itself() {
        let limits =
            "Limit  Soft  Hard  Units\nMax open files            20000                20001   files\n";
        assert_eq!(open_files(limits), Some(20_000));
        assert_eq!(open_files("Max open files unlimited unlimited files"), None);
        assert_eq!(ports("32768\t60999\n"), Some(28_232));
        assert_eq!(ports(""), None);
        assert!(fits(1000, 1512, "it").is_ok());
        assert!(fits(1001, 1512, "it").unwrap_err().to_string().contains("1001 connections do not fit: it"));
    }

    #[test]
    fn this_process_may_open_its_hard_limit() {
        raise().unwrap();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        check_own(1).unwrap();
        check_servers(1, 1, &[std::process::id()]).unwrap();
        assert!(check_own(u32::MAX).is_err() && check_servers(u32::MAX, 1, &[]).is_err());
    }
}
