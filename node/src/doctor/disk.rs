//! The data directory: rights, the store in it, room, and how fast its disk syncs.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orch_raft::disk::MetaKey;
use orch_raft::disk::rocks::layout::{FORMAT, STORE};
use orch_raft::disk::rocks::{DataDirectory, Glance, OpenError};
use orch_raft::member::DiskIdentity;

use super::Check;
use crate::admin::bytes;

/// Syncs that are measured: a second on a slow disk.
const SYNCS: usize = 50;
/// Bytes that each one writes: an entry of the log with a middling object.
const SYNC_BYTES: usize = 4096;
/// Half of the syncs of a disk that suits take less. An SSD takes 0.1 to 2 ms, a rotating disk 10.
const P50_MAX: Duration = Duration::from_millis(10);
/// A sync that takes longer lets a leader be taken for dead.
const WORST_MAX: Duration = Duration::from_millis(400);
/// Least room that a member needs beside its reserve.
const ROOM_MIN: u64 = 1 << 30;

/// The file that the measurement writes, and removes.
const PROBE: &str = ".orch-doctor";

/// The checks of `data_dir`, for the member called `name` where that is given.
pub(super) fn checks(data_dir: &Path, name: Option<&str>) -> Vec<Check> {
    let (permissions, place) = permissions(data_dir);
    let mut checks = vec![permissions];
    if data_dir.join(STORE).join(FORMAT).is_file() {
        checks.push(store(&data_dir.join(STORE), name));
    }
    if let Some(place) = place {
        checks.push(room(&place));
        checks.push(sync(&place));
    }
    checks
}

/// Whether a member can work in `data_dir`, and the directory that exists of it and its parents.
fn permissions(data_dir: &Path) -> (Check, Option<PathBuf>) {
    let mut check = Check::passed("data-directory", data_dir.display().to_string());
    let found = data_dir.ancestors().find(|path| path.symlink_metadata().is_ok());
    // A relative path has the empty one as its last ancestor.
    let place = match found {
        Some(place) if !place.as_os_str().is_empty() => place,
        _ => Path::new("."),
    };
    let next_owner = format!("chown -R USER: {}, with the user that the member runs as", place.display());
    let metadata = match fs::metadata(place) {
        Ok(metadata) if metadata.is_dir() => metadata,
        Ok(_) => {
            check.fault(format!("{} is no directory", place.display()), "name another one with --data-dir");
            return (check, None);
        }
        Err(error) => {
            check.fault(format!("{} cannot be read: {error}", place.display()), next_owner);
            return (check, None);
        }
    };
    let probe = place.join(PROBE);
    match File::create(&probe) {
        Ok(_) => drop(fs::remove_file(&probe)),
        Err(error) => {
            check.fault(format!("{} cannot be written: {error}", place.display()), next_owner);
            return (check, None);
        }
    }
    if place == data_dir {
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let message =
                format!("others than its owner may look into it (mode {mode:o}): it will hold secrets");
            check.warn(message, format!("chmod 700 {}", data_dir.display()));
        }
        let me = rustix::process::geteuid().as_raw();
        if metadata.uid() != me {
            let message = format!("it belongs to user {}, and this is user {me}", metadata.uid());
            check
                .warn(message, "run this as the user that the member runs as (sudo -u USER orch doctor ...)");
        }
    } else {
        check.looked_at += " (it will be made)";
    }
    (check, Some(place.to_owned()))
}

/// The store, if no process has it, which has to be that of the member called `name`.
fn store(path: &Path, name: Option<&str>) -> Check {
    let mut check = Check::passed("store", path.display().to_string());
    let directory = match DataDirectory::lock(path) {
        Ok(directory) => directory,
        Err(error) => {
            let next = match error {
                OpenError::InUse { .. } => {
                    "a member that runs needs no doctor: orch cluster status; else stop what holds it"
                }
                OpenError::Format { .. } => {
                    "a newer program wrote it: start that one, or name another directory with --data-dir"
                }
                _ => "give it to the user that the member runs as, or name another directory with --data-dir",
            };
            check.fault(error.to_string(), next);
            return check;
        }
    };
    let glance = match Glance::at(&directory) {
        Ok(Some(glance)) => glance,
        Ok(None) => {
            check.looked_at += ", which no member has used";
            return check;
        }
        Err(error) => {
            check.fault(error.to_string(), "a newer program may have written it; of a damaged one: orch cluster remove this member, then orch reset");
            return check;
        }
    };
    match (glance.meta(MetaKey::Identity), glance.last_index()) {
        (Ok(Some(encoded)), Ok(last)) => match DiskIdentity::decode(encoded) {
            Ok(identity) => {
                let last =
                    last.map_or_else(|| "without a log".to_owned(), |last| format!("log to entry {last}"));
                check.looked_at += &format!(", of member {}, {last}", identity.name);
                if let Some(name) = name.filter(|name| **name != *identity.name) {
                    let message = format!("the data belongs to member {}, not to {name}", identity.name);
                    let next = format!(
                        "start it with --name {}, or name another directory with --data-dir",
                        identity.name
                    );
                    check.fault(message, next);
                }
            }
            Err(error) => check.fault(error.to_string(), "start the program that wrote it, or a newer one"),
        },
        (Ok(None), _) => check.looked_at += ", which no member has used",
        (Err(error), _) | (_, Err(error)) => {
            check.fault(
                error.to_string(),
                "orch cluster remove this member, then orch reset, and join it under a new name",
            );
        }
    }
    check
}

fn room(place: &Path) -> Check {
    let mut check = Check::passed("room", place.display().to_string());
    match rustix::fs::statvfs(place) {
        Ok(found) => judge_room(&mut check, found.f_bavail.saturating_mul(found.f_frsize)),
        Err(error) => check.warn(format!("its free space is not known: {error}"), "use a local disk"),
    }
    check
}

/// Judges the free bytes of a disk.
pub(super) fn judge_room(check: &mut Check, free: u64) {
    check.looked_at = format!("{} free on the disk of {}", bytes(free), check.looked_at);
    if free < ROOM_MIN {
        let message = format!("a member needs {} at least, beside its reserve", bytes(ROOM_MIN));
        check.fault(message, "make room, or name a directory on another disk with --data-dir");
    }
}

/// Measures the disk of `place`.
fn sync(place: &Path) -> Check {
    let mut check = Check::passed("sync", place.display().to_string());
    match measure(place) {
        Ok(times) => judge(&mut check, &times),
        Err(error) => check.fault(
            format!("writing and syncing fails: {error}"),
            "look at the kernel log (dmesg) and the disk",
        ),
    }
    check
}

/// The times of [`SYNCS`] writes with a sync each, in order.
fn measure(place: &Path) -> std::io::Result<Vec<Duration>> {
    let path = place.join(PROBE);
    let measured = (|| {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
        let block = vec![0x5a_u8; SYNC_BYTES];
        let mut times = Vec::with_capacity(SYNCS);
        for _ in 0..SYNCS {
            let begun = Instant::now();
            file.write_all(&block)?;
            file.sync_data()?;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        Ok(times)
    })();
    // It may not have been made.
    drop(fs::remove_file(&path));
    measured
}

/// Judges times in order.
pub(super) fn judge(check: &mut Check, times: &[Duration]) {
    let p50 = times.get(times.len() / 2).copied().unwrap_or_default();
    let worst = times.last().copied().unwrap_or_default();
    check.looked_at =
        format!("{}: {} syncs, half within {p50:.1?}, all within {worst:.1?}", check.looked_at, times.len());
    let next = "use an SSD that nothing else writes to; network disks and rotating disks are too slow";
    if p50 > P50_MAX {
        check.warn(
            format!("the disk is slow: half of the syncs take {p50:.1?} and more, of at most {P50_MAX:?}"),
            next,
        );
    }
    if worst > WORST_MAX {
        check.warn(format!("a sync took {worst:.1?}: a leader with this disk would be taken for dead"), next);
    }
}
