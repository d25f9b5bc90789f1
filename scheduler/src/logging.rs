//! Log lines: destination, form, verbosity, and the time of writing.
//!
//! Lines go to standard error, as text or JSON, one for each event: control characters and line breaks of their texts are
//! written escaped. `--v` raises the level of this project's crates only, since libraries print headers at their finest levels,
//! and a header can be a bearer token. Lines wait at most `--log-flush-frequency`; warnings and errors are written at
//! once, with what waits before them.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use orch_serving::logging::{Limited, abort_at_panics, log_libraries, one_line_fields, own_level};
use parking_lot::Mutex;
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterFn, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, fmt};

use crate::config::flags::{LogFlags, VmodulePattern};

/// Crates whose level follows `--v`.
const OWN: [&str; 3] = ["scheduler", "orch_scheduler", "orch_serving"];
/// Libraries whose warnings strangers cause.
const STRANGERS: [&str; 2] = ["rustls", "h2"];
/// Bytes that wait at most: more lines are written than flushed one by one.
const WAITING_BYTES_MAX: usize = 64 << 10;

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Format {
    /// The form that `--logging-format` calls `name`.
    pub fn named(name: &str) -> Option<Format> {
        match name {
            "text" => Some(Format::Text),
            "json" => Some(Format::Json),
            _ => None,
        }
    }

    /// Writes a fault that comes before the log, as text or as a line of the form that the log would have had.
    pub fn tell(self, fault: &str) {
        match self {
            // Standard error may be closed; the fault then has no other destination than the exit code.
            Format::Text => drop(writeln!(io::stderr(), "{fault}")),
            Format::Json => {
                let layer =
                    fmt::layer().with_writer(io::stderr).with_target(false).json().flatten_event(true);
                tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
                    tracing::error!(err = fault.strip_prefix("Error: ").unwrap_or(fault), "command failed");
                });
            }
        }
    }
}

/// The verbosity of log lines. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Verbosity(Arc<std::sync::atomic::AtomicU32>);

impl Verbosity {
    /// Sets it.
    pub fn set(&self, level: u32) {
        self.0.store(level, std::sync::atomic::Ordering::Relaxed);
        // Clears tracing's cache of call sites.
        tracing::callsite::rebuild_interest_cache();
    }

    fn level(&self) -> u32 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// Writes the lines that wait.
#[derive(Clone, Debug)]
pub struct Flusher(Lines);

impl Flusher {
    /// Writes them now.
    pub fn flush(&self) {
        self.0.0.lock().flush();
    }
}

/// Another logger is installed in the process.
#[derive(Debug, thiserror::Error)]
pub enum LoggerError {
    /// One of `tracing`.
    #[error(transparent)]
    Events(#[from] tracing::subscriber::SetGlobalDefaultError),
    /// One of `log`.
    #[error(transparent)]
    Libraries(#[from] log::SetLoggerError),
}

/// Installs the process's logger.
///
/// # Errors
/// Another one is installed.
pub fn start(flags: &LogFlags) -> Result<(Verbosity, Flusher), LoggerError> {
    let verbosity = Verbosity::default();
    verbosity.set(flags.verbosity);
    let frequency = flags.log_flush_frequency.duration();
    let lines = Lines::new(frequency);
    let layer = fmt::layer().with_writer(lines.clone()).with_target(flags.verbosity > 0).with_ansi(false);
    let filter = Limited::new(filter(verbosity.clone(), &flags.vmodule), &OWN);
    let layer = match Format::named(&flags.logging_format) {
        Some(Format::Json) => layer.json().flatten_event(true).with_filter(filter).boxed(),
        Some(Format::Text) | None => layer.fmt_fields(one_line_fields()).with_filter(filter).boxed(),
    };
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;
    // Nothing else in this program installs a logger of the `log` crate.
    log_libraries(&STRANGERS)?;
    let flusher = Flusher(lines);
    if !frequency.is_zero() {
        let regular = flusher.clone();
        // A thread and not a task: lines are written although every task is busy. It ends with the process.
        #[expect(
            clippy::disallowed_methods,
            reason = "tasks may all be busy, and lines are written nevertheless"
        )]
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(frequency);
                regular.flush();
            }
        });
    }
    let last = flusher.clone();
    abort_at_panics(move || last.flush());
    Ok((verbosity, flusher))
}

fn filter(
    verbosity: Verbosity,
    vmodule: &[VmodulePattern],
) -> FilterFn<impl Fn(&tracing::Metadata<'_>) -> bool + use<>> {
    let vmodule = vmodule.to_vec();
    filter_fn(move |metadata| {
        let target = metadata.target();
        let is_own = OWN.iter().any(|own| target == *own || target.starts_with(&format!("{own}::")));
        if !is_own {
            // These modules warn of bytes that any stranger sends to the port, once for each connection.
            let is_of_strangers = STRANGERS.contains(&target.split("::").next().unwrap_or_default());
            let loudest = if is_of_strangers { LevelFilter::ERROR } else { LevelFilter::WARN };
            return *metadata.level() <= loudest;
        }
        let by_module = vmodule.iter().find(|pattern| {
            target.split("::").any(|module| matches(pattern.pattern.as_bytes(), module.as_bytes()))
        });
        let level = by_module.map_or_else(|| verbosity.level(), |pattern| pattern.level);
        *metadata.level() <= own_level(level)
    })
}

/// Whether `text` is of the form `pattern`, in which `*` stands for any text and `?` for one byte.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            matches(rest, text) || text.split_first().is_some_and(|(_, shorter)| matches(pattern, shorter))
        }
        (Some((first, rest)), Some((byte, shorter))) => {
            (*first == b'?' || first == byte) && matches(rest, shorter)
        }
        _ => false,
    }
}

/// Lines on their way to standard error.
#[derive(Clone, Debug)]
struct Lines(Arc<Mutex<Waiting>>);

#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    waits: bool,
}

impl Lines {
    fn new(frequency: Duration) -> Lines {
        Lines(Arc::new(Mutex::new(Waiting { bytes: Vec::new(), waits: !frequency.is_zero() })))
    }
}

impl Waiting {
    fn flush(&mut self) {
        // Standard error may be closed; lines then have no other destination.
        let _ = io::stderr().write_all(&self.bytes);
        self.bytes.clear();
    }
}

/// A line that is being written.
struct Line {
    lines: Lines,
    is_urgent: bool,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut waiting = self.lines.0.lock();
        waiting.bytes.extend_from_slice(bytes);
        if self.is_urgent || !waiting.waits || waiting.bytes.len() > WAITING_BYTES_MAX {
            waiting.flush();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Lines {
    type Writer = Line;

    fn make_writer(&'w self) -> Line {
        Line { lines: self.clone(), is_urgent: true }
    }

    fn make_writer_for(&'w self, metadata: &tracing::Metadata<'_>) -> Line {
        Line { lines: self.clone(), is_urgent: *metadata.level() <= Level::WARN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(verbosity: u32, vmodule: &str, target: &'static str, level: Level) -> bool {
        let arguments: Vec<std::ffi::OsString> =
            vec!["scheduler".into(), format!("--vmodule={vmodule}").into()];
        let flags = crate::config::flags::parse(arguments).unwrap().flags.logs;
        let state = Verbosity::default();
        state.set(verbosity);
        let lines = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = Arc::clone(&lines);
        let count = tracing_subscriber::fmt::layer().with_writer(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            io::sink()
        });
        let layer = count.with_filter(filter(state, &flags.vmodule));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            // Targets and levels of events are constants.
            match (target, level) {
                ("orch_scheduler::queue", Level::DEBUG) => {
                    tracing::debug!(target: "orch_scheduler::queue", "x")
                }
                ("orch_scheduler::serve::tls", Level::DEBUG) => {
                    tracing::debug!(target: "orch_scheduler::serve::tls", "x")
                }
                ("h2::codec", Level::INFO) => tracing::info!(target: "h2::codec", "x"),
                ("rustls::msgs", Level::WARN) => tracing::warn!(target: "rustls::msgs", "x"),
                ("hyper::proto", Level::WARN) => tracing::warn!(target: "hyper::proto", "x"),
                _ => unreachable!("not a case of the test"),
            }
        });
        lines.load(std::sync::atomic::Ordering::Relaxed) > 0
    }

    #[test]
    fn verbosity_and_patterns_choose_lines() {
        for (verbosity, vmodule, target, level, expected) in [
            (0, "", "orch_scheduler::queue", Level::DEBUG, false),
            (4, "", "orch_scheduler::queue", Level::DEBUG, true),
            (0, "queue=4", "orch_scheduler::queue", Level::DEBUG, true),
            (0, "que?e=4", "orch_scheduler::queue", Level::DEBUG, true),
            (0, "queue=4", "orch_scheduler::serve::tls", Level::DEBUG, false),
            (0, "ser*=4", "orch_scheduler::serve::tls", Level::DEBUG, true),
            (10, "", "h2::codec", Level::INFO, false),
            (0, "", "rustls::msgs", Level::WARN, false),
            (0, "", "hyper::proto", Level::WARN, true),
        ] {
            assert_eq!(shown(verbosity, vmodule, target, level), expected, "{verbosity} {vmodule} {target}");
        }
    }

    #[test]
    fn lines_wait_unless_they_are_urgent_or_nothing_waits() {
        let waiting = |frequency: u64, is_urgent: bool| {
            let lines = Lines::new(Duration::from_secs(frequency));
            Line { lines: lines.clone(), is_urgent }.write_all(b"").unwrap();
            lines.0.lock().bytes.extend_from_slice(b"\n");
            Line { lines: lines.clone(), is_urgent }.write_all(b"\n").unwrap();
            lines.0.lock().bytes.len()
        };
        assert_eq!(waiting(5, false), 2);
        assert_eq!(waiting(5, true), 0);
        assert_eq!(waiting(0, false), 0);
    }
}
