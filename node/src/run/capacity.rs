//! Memory and disk space of this machine, and the shares of history, log and reserve.
//!
//! Owns the defaults of sizes that scale with the machine. If the system does not report memory or free space, the
//! minimum is taken. A disk of unknown size counts as unlimited.

use std::path::Path;

use orch_raft::member::SpaceOptions;

use super::error::RunError;
use crate::cli::format_size;

const MIB: u64 = 1 << 20;

/// Share of memory for history: 46 MiB of 24 GiB, beside a state that is usually larger.
const MEMORY_SHARE: u64 = 512;
const MEMORY_MIN: u64 = 16 * MIB;
const MEMORY_MAX: u64 = 256 * MIB;

/// Share of the free space for history: five minutes of 10,000 renewed leases a second take about 2 GiB.
const DISK_SHARE: u64 = 32;
const DISK_MIN: u64 = 256 * MIB;
const DISK_MAX: u64 = 8 << 30;

/// Upper bound of the history's share, and of the log's, on a small disk.
const SMALL_DISK_SHARE: u64 = 16;

/// Bytes of the log: a member that lags by more is sent a snapshot.
const LOG_MAX: u64 = 256 * MIB;

/// Share of the disk that is the reserve. Members learn within four seconds that one of them is short: at 50 MB/s of
/// writes, each of which goes to the log and to the state, 400 MB. History in memory is written to the disk first (256
/// MiB at most), a compaction needs some 100 MiB more, the write-ahead log 32 MiB. A larger disk is filled no faster,
/// hence the maximum. On a small disk the reserve is at most two fifths: a compaction there needs no less.
const RESERVE_SHARE: u64 = 32;
const RESERVE_MIN: u64 = 512 * MIB;
const RESERVE_MAX: u64 = 2 << 30;
const RESERVE_FIFTHS_MAX: u64 = 2;

/// Most bytes the store may take: the size of the disk of `data_dir`, or of its nearest existing ancestor, and at most
/// `quota`.
fn disk(data_dir: &Path, quota: Option<u64>) -> u64 {
    let disk = data_dir.ancestors().find_map(|path| rustix::fs::statvfs(path).ok());
    let total = disk.map(|found| found.f_blocks.saturating_mul(found.f_frsize));
    total.unwrap_or(u64::MAX).min(quota.unwrap_or(u64::MAX))
}

/// Default bytes of log entries that are kept.
pub(super) fn log(data_dir: &Path, quota: Option<u64>) -> u64 {
    (disk(data_dir, quota) / SMALL_DISK_SHARE).min(LOG_MAX)
}

/// Least bytes of `--disk-quota`: a store without objects takes part of it, its write-ahead log alone 32 MiB once
/// written.
const QUOTA_MIN: u64 = 64 * MIB;

/// Reserves that must fit into the store's space: below one and a half of them in room, history is dropped.
const RESERVES_MIN: u64 = 2;

/// Reserve and quota of the disk of `data_dir`, from the flags `reserve` and `quota`; a quota of 0 is none. Fails when
/// they leave no room for objects.
pub(super) fn space(data_dir: &Path, reserve: Option<u64>, quota: u64) -> Result<SpaceOptions, RunError> {
    space_of(disk(data_dir, None), reserve, Some(quota).filter(|bytes| *bytes > 0)).map_err(RunError::Flags)
}

/// [`space`] for a disk of `total` bytes; `None` is no quota.
fn space_of(total: u64, reserve: Option<u64>, quota: Option<u64>) -> Result<SpaceOptions, String> {
    let reserve_bytes = reserve.unwrap_or_else(|| reserve_of(total.min(quota.unwrap_or(u64::MAX))));
    let least = reserve_bytes.saturating_mul(RESERVES_MIN);
    let quota_min = least.max(QUOTA_MIN);
    if let Some(quota) = quota.filter(|quota| *quota < quota_min) {
        return Err(format!(
            "--disk-quota: {} leaves no room for objects beside --disk-reserve, which is {}: at least {} is needed",
            format_size(quota),
            format_size(reserve_bytes),
            format_size(quota_min)
        ));
    }
    if reserve.is_some() && total < least {
        return Err(format!(
            "--disk-reserve: {} leaves no room for objects, with or without --disk-quota: the disk has {}, and half of it \
             is the most",
            format_size(reserve_bytes),
            format_size(total)
        ));
    }
    Ok(SpaceOptions { reserve_bytes, quota_bytes: quota })
}

/// Default reserve, in bytes, of a disk of `total` bytes.
fn reserve_of(total: u64) -> u64 {
    (total / RESERVE_SHARE).clamp(RESERVE_MIN, RESERVE_MAX).min(total / 5 * RESERVE_FIFTHS_MAX)
}

/// Bytes of the largest ballast: opening the database writes its write-ahead log of 32 MiB to tables, and the log, the
/// identity and the first deletions need some room after that.
const BALLAST_MAX: u64 = 48 * MIB;

/// Bytes of the ballast file, part of the reserve: it is freed for a start on a full disk.
pub(super) fn ballast(reserve: u64) -> u64 {
    (reserve / 4).min(BALLAST_MAX)
}

/// Default bytes of memory for history.
pub(super) fn history_memory() -> u64 {
    memory().map_or(MEMORY_MIN, |total| (total / MEMORY_SHARE).clamp(MEMORY_MIN, MEMORY_MAX))
}

/// Bytes of memory that this process may take: the machine's, or the limit of a control group that it is in. `None` where
/// the system tells neither.
pub(crate) fn memory() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_memory(&text));
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = group_limit(&groups, |path| std::fs::read_to_string(path).ok());
    machine.into_iter().chain(limit).min()
}

/// The least `memory.max` of the control group that `/proc/self/cgroup` names in the form of version 2, and of those
/// around it. In a container the group is the root of what is mounted, whatever the name.
fn group_limit(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let own = root.join(group.trim());
    let around = own.ancestors().take_while(|path| path.starts_with(root));
    around.filter_map(|path| read(&path.join("memory.max"))?.trim().parse().ok()).min()
}

/// Default bytes for history on the disk of `data_dir`, of which the store may take `quota`.
pub(super) fn history_disk(data_dir: &Path, quota: Option<u64>) -> u64 {
    let free = data_dir.ancestors().find_map(|path| rustix::fs::statvfs(path).ok());
    let free = free.map(|found| found.f_bavail.saturating_mul(found.f_frsize));
    let share = free.map_or(DISK_MIN, |free| (free / DISK_SHARE).clamp(DISK_MIN, DISK_MAX));
    share.min(disk(data_dir, quota) / SMALL_DISK_SHARE)
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total_memory(table: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_stay_within_their_bounds() {
        assert!((MEMORY_MIN..=MEMORY_MAX).contains(&history_memory()));
        let at = Path::new("/no/such/directory");
        assert!(history_disk(at, None) <= DISK_MAX);
        assert_eq!(history_disk(at, Some(1 << 30)), 64 * MIB, "a 16th of a small disk");
        assert_eq!(log(at, Some(1 << 30)), 64 * MIB);
        assert_eq!(log(at, Some(1 << 20)), MIB / 16);
    }

    #[test]
    fn a_reserve_is_a_thirty_second_within_bounds_and_two_fifths_at_most() {
        let gib = |count: u64| count << 30;
        let two_fifths = gib(1) / 5 * 2;
        for (total, reserve) in
            [(1, two_fifths), (2, 512 * MIB), (8, 512 * MIB), (32, gib(1)), (1000, gib(2))]
        {
            assert_eq!(reserve_of(gib(total)), reserve, "{total} GiB");
        }
        assert_eq!(space(Path::new("/"), None, gib(1)).unwrap().reserve_bytes, two_fifths);
    }

    #[test]
    fn a_quota_and_a_reserve_that_leave_no_room_are_refused_by_name() {
        let disk = 100 << 30;
        for (reserve, quota) in [(None, 64 * MIB), (Some(48 * MIB), 144 * MIB), (Some(0), 64 * MIB)] {
            assert_eq!(space_of(disk, reserve, Some(quota)).unwrap().quota_bytes, Some(quota));
        }
        for (reserve, quota) in
            [(None, MIB), (Some(0), MIB), (Some(MIB), 2 * MIB), (Some(64 * MIB), 127 * MIB)]
        {
            let refusal = space_of(disk, reserve, Some(quota)).unwrap_err();
            let named = refusal.starts_with("--disk-quota: ") && refusal.contains("--disk-reserve");
            assert!(named, "{refusal}");
        }
        assert!(space_of(disk, Some(disk / 2), None).is_ok());
        let refusal = space_of(disk, Some(disk / 2 + 1), None).unwrap_err();
        assert!(refusal.starts_with("--disk-reserve: ") && refusal.contains("--disk-quota"), "{refusal}");
        assert_eq!(
            space_of(40 * MIB, None, None).unwrap().reserve_bytes,
            16 * MIB,
            "a default is never refused"
        );
    }

    #[test]
    fn the_least_limit_of_the_control_groups_counts() {
        let limits = [("a/b", "max\n"), ("a", "2147483648\n"), (".", "max\n")];
        let read = |path: &Path| {
            let group = path.parent().unwrap().strip_prefix("/sys/fs/cgroup").unwrap();
            let group = if group == Path::new("") { Path::new(".") } else { group };
            limits.iter().find(|(name, _)| Path::new(name) == group).map(|(_, limit)| (*limit).to_owned())
        };
        assert_eq!(group_limit("0::/a/b\n", read), Some(2 << 30));
        assert_eq!(group_limit("0::/\n", read), None, "no limit");
        assert_eq!(group_limit("4:memory:/a\n", read), None, "not of version 2");
    }

    #[test]
    fn the_systems_table_is_read() {
        assert_eq!(total_memory("MemTotal:       24612345 kB\nMemFree: 1 kB\n"), Some(24_612_345 * 1024));
        assert_eq!(total_memory("MemFree: 1 kB\n"), None);
    }
}
