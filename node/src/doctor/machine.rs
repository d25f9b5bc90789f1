//! The machine: limits of the process, memory, the clock, and the ports.

use std::net::TcpListener;
use std::path::Path;

use rustix::process::{Resource, getrlimit};
use time::OffsetDateTime;

use super::Check;
use super::certificates::bare;
use crate::admin::bytes;
use crate::cli::DoctorArgs;
use crate::run::host_port;

/// Open files that a member needs: RocksDB's tables, peers, and some hundred clients.
const FILES_MIN: u64 = 4096;
/// Memory that a member needs before it has objects.
const MEMORY_MIN: u64 = 512 << 20;
/// Files that a client of NTP leaves while it works.
const TIME_CLIENTS: [&str; 5] = [
    "/run/systemd/timesync/synchronized",
    "/run/chrony/chronyd.pid",
    "/run/chronyd.pid",
    "/run/ntpd.pid",
    "/run/ntpsec/ntpd.pid",
];
/// No clock shows an earlier year: 2026-01-01, in seconds since 1970.
const EPOCH_MIN: i64 = 1_767_225_600;

/// The machine, as this process sees it.
pub(super) struct Machine {
    pub(super) now: OffsetDateTime,
    /// The hard limit of open files; `None` without one.
    pub(super) files: Option<u64>,
    /// Bytes of memory; `None` where the system does not tell.
    pub(super) memory: Option<u64>,
    /// Whether a client of NTP works.
    pub(super) keeps_time: bool,
}

impl Machine {
    pub(super) fn of_this_process(now: OffsetDateTime) -> Machine {
        Machine {
            now,
            files: getrlimit(Resource::Nofile).maximum,
            memory: crate::run::memory_of_machine(),
            keeps_time: TIME_CLIENTS.iter().any(|path| Path::new(path).exists()),
        }
    }
}

/// The checks of the machine for the member of `arguments`.
pub(super) fn checks(arguments: &DoctorArgs, machine: &Machine) -> Vec<Check> {
    let mut checks = vec![version(), files(machine.files), memory(machine.memory), clock(machine)];
    let address = &arguments.bind_address;
    checks.push(port("secure-port", "--secure-port", address, arguments.secure_port));
    checks.push(port("peer-port", "--peer-address", address, arguments.peer_port));
    checks
}

fn version() -> Check {
    Check::passed("version", format!("orch {}", *crate::cli::VERSION))
}

fn files(limit: Option<u64>) -> Check {
    let shown = limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string());
    let mut check = Check::passed("open-files", shown);
    if limit.is_some_and(|limit| limit < FILES_MIN) {
        let message = format!("a member needs {FILES_MIN} open files, and one for each client");
        check.warn(message, "LimitNOFILE=1048576 in its unit, or ulimit -Hn in the shell that starts it");
    }
    check
}

fn memory(found: Option<u64>) -> Check {
    let mut check = Check::passed("memory", found.map_or_else(|| "unknown".to_owned(), bytes));
    if found.is_some_and(|found| found < MEMORY_MIN) {
        let message = format!("a member needs {}, and twice the size of its objects", bytes(MEMORY_MIN));
        check.warn(message, "use a larger machine, or raise the memory limit of its unit or container");
    }
    check
}

fn clock(machine: &Machine) -> Check {
    let shown = machine.now.format(&time::format_description::well_known::Rfc3339);
    let mut check = Check::passed("clock", shown.unwrap_or_else(|_| machine.now.to_string()));
    let next = "have the clock kept by NTP: timedatectl set-ntp true, or install chrony";
    if machine.now.unix_timestamp() < EPOCH_MIN {
        check.fault(
            "the clock stands before this program was made: certificates and tokens would not be valid yet",
            next,
        );
    } else if !machine.keeps_time {
        check.warn(
            "no client of NTP was seen on this machine",
            format!("{next}; in a container look at its host"),
        );
    }
    check
}

/// Whether the port is free.
fn port(name: &'static str, flag: &str, address: &str, port: u16) -> Check {
    let bare = bare(address);
    let mut check = Check::passed(name, host_port(bare, port));
    if let Err(error) = TcpListener::bind((bare, port)) {
        let (message, next) = match error.kind() {
            std::io::ErrorKind::AddrInUse => (
                "another process listens there".to_owned(),
                format!("see which: ss -ltnp 'sport = :{port}'; stop it, or choose another port with {flag}"),
            ),
            std::io::ErrorKind::AddrNotAvailable => (
                "no interface of this machine has that address".to_owned(),
                "see the addresses: ip -brief address; choose one with --bind-address".to_owned(),
            ),
            std::io::ErrorKind::PermissionDenied => (
                "this user may not listen there".to_owned(),
                format!(
                    "choose a port above 1023 with {flag}, or AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit"
                ),
            ),
            _ => {
                (error.to_string(), format!("choose another address or port with --bind-address and {flag}"))
            }
        };
        check.fault(message, next);
    }
    check
}
