//! Default limits of connections and watches for this machine.
//!
//! Owns the defaults of `--max-connections` and `--max-watches`: shares of memory and of file descriptors. Who gives way
//! when all are taken is decided elsewhere (`server::places`, the API's account of watches).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::capacity;
use crate::cli::ClientArgs;

/// Share of the machine's memory for connections, and as much for watches.
const MEMORY_SHARE: u64 = 8;

/// Memory of a machine that does not tell its own.
const MEMORY_MIN: u64 = 1 << 30;

/// Bytes of an idle connection with TLS and one watch, as measured (docs/performance.md): its session, the buffers of HTTP/2 and its task.
const CONNECTION_BYTES: u64 = 40 << 10;

/// File descriptors kept for everything else: the database's files, peers, files being opened.
const DESCRIPTORS_KEPT: u64 = 512;

/// Fewest connections, however few descriptors there are: those of the other parts of a cluster.
const CONNECTIONS_MIN: u64 = 64;

/// Fewest watches, however little memory there is: some hundred for each of a cluster's own programs.
const WATCHES_MIN: u64 = 2_000;

/// File descriptors that are asked for: a socket for each connection of the largest machines, and the database's files.
const DESCRIPTORS_WANTED: u64 = 1 << 20;

/// Most connections and watches of all clients at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Connections on all ports together.
    pub connections: usize,
    /// Watches, of which a user has half at most.
    pub watches: usize,
}

impl ClientLimits {
    /// The numbers in `flags`, else those that fit this machine. Descriptors bound connections in either case: those that
    /// [`raise_descriptors`] gets.
    pub(super) fn of(flags: &ClientArgs) -> ClientLimits {
        let memory = capacity::memory().unwrap_or(MEMORY_MIN);
        ClientLimits::within(flags, memory, allowed(getrlimit(Resource::Nofile)))
    }

    fn within(flags: &ClientArgs, memory: u64, descriptors: u64) -> ClientLimits {
        let share = memory / MEMORY_SHARE;
        let connections = flags.max_connections.map_or(share / CONNECTION_BYTES, u64::from);
        let allowed = descriptors.saturating_sub(DESCRIPTORS_KEPT);
        let connections = connections.min(allowed).max(CONNECTIONS_MIN);
        let fitting = || (share / orch_api::http::WATCH_BYTES).max(WATCHES_MIN);
        let watches = flags.max_watches.map_or_else(fitting, u64::from);
        let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        ClientLimits { connections: count(connections), watches: count(watches) }
    }
}

/// File descriptors that this process may have, once its soft limit is raised.
fn allowed(limit: Rlimit) -> u64 {
    limit.maximum.unwrap_or(DESCRIPTORS_WANTED).min(DESCRIPTORS_WANTED)
}

/// Raises the soft limit of file descriptors to what a large machine needs, or as far as the hard limit allows.
pub(super) fn raise_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    let allowed = allowed(limit);
    if limit.current.is_some_and(|current| current < allowed) {
        limit.current = Some(allowed);
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the limit on open files stays low");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(flags: (Option<u32>, Option<u32>), gib: u64, descriptors: u64) -> (usize, usize) {
        let flags = ClientArgs { max_connections: flags.0, max_watches: flags.1 };
        let limits = ClientLimits::within(&flags, gib << 30, descriptors);
        (limits.connections, limits.watches)
    }

    #[test]
    fn limits_follow_the_machine() {
        assert_eq!(limits((None, None), 1, 1 << 20), (3_276, 10_922));
        assert_eq!(limits((None, None), 24, 1 << 20), (78_643, 262_144));
        assert_eq!(limits((None, None), 24, 65_536).0, 65_024, "descriptors are left for the store");
        assert_eq!(limits((None, None), 24, 100).0, 64, "and there is a least number");
        assert_eq!(limits((None, None), 0, 1 << 20).1, 2_000);
    }

    #[test]
    fn flags_win_over_memory_and_not_over_descriptors() {
        assert_eq!(limits((Some(200_000), Some(1_000_000)), 1, 1 << 20), (200_000, 1_000_000));
        assert_eq!(limits((Some(200_000), None), 24, 1_024).0, 512);
    }
}
