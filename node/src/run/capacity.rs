//! What this machine has, and the share of it that history may use.
//!
//! Owns the defaults of sizes that scale with the machine. Where the system does not say what it has, the least is
//! taken.

use std::path::Path;

const MIB: u64 = 1 << 20;

/// A 512th of the memory: 46 MiB of 24 GiB, beside a state that is usually larger.
const MEMORY_SHARE: u64 = 512;
const MEMORY_MIN: u64 = 16 * MIB;
const MEMORY_MAX: u64 = 256 * MIB;

/// A 32nd of the free space: five minutes of 10,000 renewed leases a second take about 2 GiB.
const DISK_SHARE: u64 = 32;
const DISK_MIN: u64 = 256 * MIB;
const DISK_MAX: u64 = 8 << 30;

/// Bytes of memory for history.
pub(super) fn history_memory() -> u64 {
    let total = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_memory(&text));
    total.map_or(MEMORY_MIN, |total| (total / MEMORY_SHARE).clamp(MEMORY_MIN, MEMORY_MAX))
}

/// Bytes for history on the disk of `data_dir`, or of the nearest directory above it that is there.
pub(super) fn history_disk(data_dir: &Path) -> u64 {
    let free = data_dir.ancestors().find_map(|path| rustix::fs::statvfs(path).ok());
    let free = free.map(|found| found.f_bavail.saturating_mul(found.f_frsize));
    free.map_or(DISK_MIN, |free| (free / DISK_SHARE).clamp(DISK_MIN, DISK_MAX))
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
        assert!((DISK_MIN..=DISK_MAX).contains(&history_disk(Path::new("/"))));
        assert!((DISK_MIN..=DISK_MAX).contains(&history_disk(Path::new("/no/such/directory"))));
    }

    #[test]
    fn the_systems_table_is_read() {
        assert_eq!(total_memory("MemTotal:       24612345 kB\nMemFree: 1 kB\n"), Some(24_612_345 * 1024));
        assert_eq!(total_memory("MemFree: 1 kB\n"), None);
    }
}
