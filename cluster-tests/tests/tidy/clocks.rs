//! Loops do not wait by the time of day.
//!
//! Owns the rule: in `api/src/controllers` the time of day is read only to compare it with a time that an object holds, or to write
//! one. An operator, or a machine that comes back from sleep, sets it by hours, and a wait that was computed from it takes as
//! long, or never ends. `Store::elapsed` is the clock of waits. No test can tell the two uses apart, so each place is marked on its
//! line or the one before: `// date: ` and the time that it is compared with.

use super::check;
use super::tree::{Source, sources};

/// Folder of the loops.
const FOLDER: &str = "api/src/controllers/";

/// Reads of the time of day.
const READS: [&str; 2] = ["now_ms()", ".now()"];

const REASON: &str = "// date: ";

#[test]
fn loops_do_not_wait_by_the_time_of_day() {
    let loops: Vec<Source> =
        sources("rs").into_iter().filter(|source| source.name.starts_with(FOLDER)).collect();
    assert!(loops.len() > 20, "{} files", loops.len());
    check("loops wait by `Store::elapsed`", loops.iter().flat_map(unexplained));
}

/// The places that read the time of day without a reason.
fn unexplained(source: &Source) -> Vec<String> {
    if source.name.ends_with("/tests.rs") || source.name.ends_with("/testing.rs") {
        return Vec::new();
    }
    let product = source.product();
    let lines: Vec<&str> = product.lines().collect();
    let reads =
        |line: &str| !line.trim_start().starts_with("//") && READS.iter().any(|read| line.contains(read));
    let has_reason = |at: usize| lines[at.saturating_sub(1)..=at].iter().any(|line| line.contains(REASON));
    let found = lines.iter().enumerate().filter(|(at, line)| reads(line) && !has_reason(*at));
    found.map(|(at, line)| format!("{}:{}: {}", source.name, at + 1, line.trim())).collect()
}

#[test]
fn a_read_of_the_time_of_day_needs_a_reason() {
    let found = |line: &str| {
        let text = format!("fn f() {{\n    {line}\n}}\n#[cfg(test)]\nmod tests {{ x.now_ms(); }}\n");
        unexplained(&Source { name: format!("{FOLDER}x.rs"), text }).len()
    };
    for line in ["let now = client.now_ms();", "wait(client.now())"] {
        assert_eq!(found(line), 1, "{line}");
        assert_eq!(found(&format!("// date: leases say when.\n    {line}")), 0, "{line}");
    }
    for line in ["let now = store.elapsed();", "// client.now_ms()", "client.now_text()"] {
        assert_eq!(found(line), 0, "{line}");
    }
}
