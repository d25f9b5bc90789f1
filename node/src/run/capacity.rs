//! What this machine has, and the share of it that history may use.
//!
//! Owns the defaults of sizes that scale with the machine. Where the system does not say what it has, the least is
//! taken.

use std::path::Path;

use orch_raft::member::SpaceOptions;

use super::error::RunError;
use crate::cli::format_size;

const MIB: u64 = 1 << 20;

/// A 512th of the memory: 46 MiB of 24 GiB, beside a state that is usually larger.
const MEMORY_SHARE: u64 = 512;
const MEMORY_MIN: u64 = 16 * MIB;
const MEMORY_MAX: u64 = 256 * MIB;

/// A 32nd of the free space: five minutes of 10,000 renewed leases a second take about 2 GiB.
const DISK_SHARE: u64 = 32;
const DISK_MIN: u64 = 256 * MIB;
const DISK_MAX: u64 = 8 << 30;

/// Neither history nor log takes more than a 16th of a disk that is small for a server.
const SMALL_DISK_SHARE: u64 = 16;

/// Bytes of the log: a member that lags by more is sent the state.
const LOG_MAX: u64 = 256 * MIB;

/// A 32nd of the disk. Until members know of each other that one is short, four seconds pass: at 50 MB/s of writes, each
/// of which is in the log and in the state, 400 MB. What memory holds of history goes to the disk first (256 MiB at most), a
/// compaction needs some 100 MiB beside what is there, the write-ahead log 32 MiB. A larger disk is filled no faster. Of one
/// that is small for a server, two fifths at most are left alone: what a compaction needs is no less there.
const RESERVE_SHARE: u64 = 32;
const RESERVE_MIN: u64 = 512 * MIB;
const RESERVE_MAX: u64 = 2 << 30;
const RESERVE_FIFTHS_MAX: u64 = 2;

/// Bytes that the store may ever take: of the disk of `data_dir`, or of the nearest directory above it that is there.
fn disk(data_dir: &Path, quota: Option<u64>) -> u64 {
    let disk = data_dir.ancestors().find_map(|path| rustix::fs::statvfs(path).ok());
    let total = disk.map(|found| found.f_blocks.saturating_mul(found.f_frsize));
    total.unwrap_or(u64::MAX).min(quota.unwrap_or(u64::MAX))
}

/// Bytes of entries that the log keeps.
pub(super) fn log(data_dir: &Path, quota: Option<u64>) -> u64 {
    (disk(data_dir, quota) / SMALL_DISK_SHARE).min(LOG_MAX)
}

/// The least quota: a store without objects takes some of it, and its write-ahead log alone 32 MiB when it is written to.
const QUOTA_MIN: u64 = 64 * MIB;

/// Reserves that must fit into what the store may take: below one and a half of them in room, history is given up.
const RESERVES_MIN: u64 = 2;

/// Bytes of the disk of `data_dir` to be left alone, and bytes of it that the store may take, as the flags `reserve` and
/// `quota` have it; a quota of 0 is none. Fails when they leave no room for objects.
pub(super) fn space(data_dir: &Path, reserve: Option<u64>, quota: u64) -> Result<SpaceOptions, RunError> {
    space_of(disk(data_dir, None), reserve, Some(quota).filter(|bytes| *bytes > 0)).map_err(RunError::Flags)
}

/// The same of a disk of `total` bytes.
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

/// The reserve of a disk of `total` bytes.
fn reserve_of(total: u64) -> u64 {
    (total / RESERVE_SHARE).clamp(RESERVE_MIN, RESERVE_MAX).min(total / 5 * RESERVE_FIFTHS_MAX)
}

/// Bytes of the largest ballast: opening the database writes its write-ahead log of 32 MiB out as tables, and the log, the
/// identity and the first deletions need some room after that.
const BALLAST_MAX: u64 = 48 * MIB;

/// Bytes of a reserve that are kept for a start on a full disk.
pub(super) fn ballast(reserve: u64) -> u64 {
    (reserve / 4).min(BALLAST_MAX)
}

/// Bytes of memory for history.
pub(super) fn history_memory() -> u64 {
    let total = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_memory(&text));
    total.map_or(MEMORY_MIN, |total| (total / MEMORY_SHARE).clamp(MEMORY_MIN, MEMORY_MAX))
}

/// Bytes for history on the disk of `data_dir`, where the store may take `quota` bytes of it.
pub(super) fn history_disk(data_dir: &Path, quota: Option<u64>) -> u64 {
    let free = data_dir.ancestors().find_map(|path| rustix::fs::statvfs(path).ok());
    let free = free.map(|found| found.f_bavail.saturating_mul(found.f_frsize));
    let share = free.map_or(DISK_MIN, |free| (free / DISK_SHARE).clamp(DISK_MIN, DISK_MAX));
    share.min(disk(data_dir, quota) / SMALL_DISK_SHARE)
}

/// Bytes of `MemTotal` in the system's table.
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
    fn the_systems_table_is_read() {
        assert_eq!(total_memory("MemTotal:       24612345 kB\nMemFree: 1 kB\n"), Some(24_612_345 * 1024));
        assert_eq!(total_memory("MemFree: 1 kB\n"), None);
    }
}
