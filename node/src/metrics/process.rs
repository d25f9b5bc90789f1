//! The series of the process: start, processor time, memory and open files, as the kernel has them.
//!
//! Owns the reading of `/proc`. A value that cannot be read is left out.

use std::fmt::Write;
use std::fs;

use rustix::process::{Resource, getrlimit};

use super::catalog::metric;
use super::head;

/// Clock ticks of `/proc/self/stat` in a second: the same on every architecture of Linux that this runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Appends the series of this process to `text`.
pub(super) fn write(text: &mut String) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field, the program's name in parentheses, may hold spaces.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    // By the numbers of proc(5), which count from 1; the first two fields are cut off.
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<f64>().ok());
    let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    let seconds = |ticks: Option<f64>| ticks.map(|ticks| ticks / TICKS_PER_SECOND);
    series(text, "process_cpu_seconds_total", seconds(sum(field(14), field(15))));
    series(text, "process_start_time_seconds", sum(boot_seconds(), seconds(field(22))));
    series(text, "process_virtual_memory_bytes", field(23));
    series(text, "process_resident_memory_bytes", resident_bytes());
    // As in the reference, without a limit the largest number.
    #[expect(clippy::cast_precision_loss, reason = "a limit may be rounded")]
    let memory_max = getrlimit(Resource::As).current.unwrap_or(u64::MAX) as f64;
    series(text, "process_virtual_memory_max_bytes", Some(memory_max));
    let (received, transmitted) = network_bytes();
    series(text, "process_network_receive_bytes_total", received);
    series(text, "process_network_transmit_bytes_total", transmitted);
    #[expect(clippy::cast_precision_loss, reason = "a count of files is small")]
    let open = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as f64);
    series(text, "process_open_fds", open);
    #[expect(clippy::cast_precision_loss, reason = "a limit may be rounded")]
    let limit = getrlimit(Resource::Nofile).current.map(|limit| limit as f64);
    series(text, "process_max_fds", limit);
}

fn series(text: &mut String, name: &str, value: Option<f64>) {
    if let (Some(value), Some(metric)) = (value, metric(name)) {
        text.push_str(&head(name, metric.kind.name()));
        // A string takes every write.
        let _ = writeln!(text, "{name} {value}");
    }
}

/// When the machine started, in seconds since 1970.
fn boot_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

/// Bytes that the network namespace of the process has received and sent.
fn network_bytes() -> (Option<f64>, Option<f64>) {
    let text = fs::read_to_string("/proc/self/net/netstat").unwrap_or_default();
    network_bytes_in(&text)
}

/// The same of the content of that file: for each group a line of names, and one of their values.
fn network_bytes_in(text: &str) -> (Option<f64>, Option<f64>) {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let named: Vec<_> = names.split(' ').zip(values.split(' ')).collect();
    let value = |wanted: &str| {
        let (_, text) = named.iter().find(|(name, _)| *name == wanted)?;
        text.parse::<f64>().ok()
    };
    (value("InOctets"), value("OutOctets"))
}

fn resident_bytes() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok().map(|kib| kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_names() {
        let text = "TcpExt: A B\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 12 7\n";
        assert_eq!(network_bytes_in(text), (Some(12.0), Some(7.0)));
        assert_eq!(network_bytes_in("IpExt: InOctets\n"), (None, None));
        assert_eq!(network_bytes_in(""), (None, None));
    }
}
