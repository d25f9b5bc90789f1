//! Lines of a program's log, whatever it logs: one event is one line, and clients and libraries cannot fill it.
//!
//! Owns the form of fields, the limit on events of libraries (one in ten seconds for each of their modules and each level:
//! strangers can cause them, as with a handshake that the TLS library finds odd, and their warnings must not hide an error), and the line of a panic. Each program owns its formats,
//! flags and destination.
//!
//! Invariant: no line has a path of the machine that built the program; places in the code are told from their crate on.
//!
//! Invariant: an event is one line, whatever texts of clients, peers and other servers its fields hold: control characters,
//! line breaks and changes of direction are written escaped. Here rather than where events are made, because the message of an
//! error quotes text as well.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::OnceLock;
use std::time::Instant;

use orch_bounded::WarningLimit;
use parking_lot::Mutex;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::{Context, Filter};

/// The level of a program's own crates at a verbosity of `--v`.
pub fn own_level(verbosity: u32) -> Level {
    match verbosity {
        0..=3 => Level::INFO,
        4..=5 => Level::DEBUG,
        _ => Level::TRACE,
    }
}

/// Has a panic logged, as a line like the others, and then ends the process: in the programs of tests as well, which are
/// compiled to unwind so that the libraries are compiled once for programs and tests. `written` is called after the line, for a
/// log whose lines wait.
pub fn abort_at_panics(written: impl Fn() + Send + Sync + 'static) {
    std::panic::set_hook(Box::new(move |panic| {
        let place =
            panic.location().map(|place| format!("{}:{}", without_machine(place.file()), place.line()));
        tracing::error!(place, "panicked: {}", panic.payload_as_str().unwrap_or("without a message"));
        written();
        std::process::abort();
    }));
}

/// The path of a source file from its crate on: the part before belongs to the machine that built the program.
fn without_machine(path: &str) -> &str {
    let after = |mark: &str| path.split_once(mark).and_then(|(_, rest)| Some(rest.split_once('/')?.1));
    match after("/registry/src/").or_else(|| after("/git/checkouts/")).or_else(|| after("/rustc/")) {
        Some(rest) => rest,
        // Paths of this workspace are relative; of others the file's name is left.
        None if path.starts_with('/') => path.rsplit('/').next().unwrap_or(path),
        None => path,
    }
}

/// Has warnings and errors logged that libraries log through the `log` crate, but for warnings of those whose crate is in
/// `quiet`.
///
/// # Errors
/// The `log` crate has another logger already.
pub fn log_libraries(quiet: &'static [&'static str]) -> Result<(), log::SetLoggerError> {
    log::set_logger(LIBRARIES.get_or_init(|| Libraries::new(quiet)))?;
    log::set_max_level(log::LevelFilter::Warn);
    Ok(())
}

/// The logger of the `log` crate, which keeps a reference for ever.
static LIBRARIES: OnceLock<Libraries> = OnceLock::new();

/// Logs records of the `log` crate. They have the file's path on the machine that built the program, which is left out.
struct Libraries {
    quiet: &'static [&'static str],
    limits: Limits,
}

impl Libraries {
    fn new(quiet: &'static [&'static str]) -> Libraries {
        Libraries { quiet, limits: Limits::default() }
    }
}

impl log::Log for Libraries {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        let library = metadata.target().split("::").next().unwrap_or_default();
        let loudest = if self.quiet.contains(&library) { log::Level::Error } else { log::Level::Warn };
        metadata.level() <= loudest
    }

    fn log(&self, record: &log::Record<'_>) {
        let library = record.target();
        if !self.enabled(record.metadata()) {
            return;
        }
        let level = if record.level() == log::Level::Error { Level::ERROR } else { Level::WARN };
        let Some(left_out) = self.limits.pass(library, level) else { return };
        match level {
            Level::ERROR => tracing::error!(target: LIBRARY, library, left_out, "{}", record.args()),
            _ => tracing::warn!(target: LIBRARY, library, left_out, "{}", record.args()),
        }
    }

    fn flush(&self) {}
}

/// Target of records of the `log` crate, which are limited already.
const LIBRARY: &str = "library";

/// Limits of events, by level and module of a library. Modules are names in the program, so they are few.
#[derive(Debug, Default)]
struct Limits(Mutex<BTreeMap<Level, BTreeMap<String, WarningLimit<Instant>>>>);

impl Limits {
    /// `Some` if an event of `module` at `level` may be logged now, with the number of those left out since the last.
    fn pass(&self, module: &str, level: Level) -> Option<u64> {
        let mut limits = self.0.lock();
        let limits = limits.entry(level).or_default();
        if !limits.contains_key(module) {
            limits.insert(module.to_owned(), WarningLimit::new());
        }
        limits.get(module)?.pass_at(Instant::now())
    }
}

/// A filter of events, with the limit of those that libraries log.
#[derive(Debug)]
pub struct Limited<F> {
    filter: F,
    own: &'static [&'static str],
    limits: Limits,
}

impl<F> Limited<F> {
    /// The events of `filter`; those of crates other than `own` are limited.
    pub fn new(filter: F, own: &'static [&'static str]) -> Limited<F> {
        Limited { filter, own, limits: Limits::default() }
    }

    /// Whether events of `target` are limited: those of libraries that do not log through the `log` crate.
    fn is_limited(&self, target: &str) -> bool {
        // few: the crates of a program.
        target != LIBRARY && !self.own.iter().any(|own| target.split("::").next() == Some(own))
    }
}

impl<S: Subscriber, F: Filter<S>> Filter<S> for Limited<F> {
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        self.filter.enabled(metadata, context)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        let interest = self.filter.callsite_enabled(metadata);
        // `always` would skip `enabled`, without which the registry does not expect that an event is left out: in builds with
        // debug assertions it panics.
        if interest.is_always() && self.is_limited(metadata.target()) {
            return Interest::sometimes();
        }
        interest
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.filter.max_level_hint()
    }

    fn event_enabled(&self, event: &Event<'_>, context: &Context<'_, S>) -> bool {
        let (target, level) = (event.metadata().target(), *event.metadata().level());
        self.filter.event_enabled(event, context)
            && (!self.is_limited(target) || self.limits.pass(target, level).is_some())
    }
}

/// Fields as `name=value`, the message without a name, in one line.
pub fn one_line_fields() -> impl for<'w> FormatFields<'w> + Send + Sync + 'static {
    let fields = debug_fn(|writer, field, value| {
        let mut line = OneLine(writer);
        match field.name() {
            "message" => write!(line, "{value:?}"),
            name => write!(line, "{name}={value:?}"),
        }
    });
    fields.delimited(" ")
}

/// Writes text without control characters and without characters that break a line or change its direction.
struct OneLine<W>(W);

impl<W: fmt::Write> fmt::Write for OneLine<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_unsafe = |char: char| {
            char.is_control() || matches!(char, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        let mut rest = text;
        while let Some(at) = rest.find(is_unsafe) {
            let (before, from) = rest.split_at(at);
            self.0.write_str(before)?;
            let mut chars = from.chars();
            if let Some(char) = chars.next() {
                write!(self.0, "{}", char.escape_default())?;
            }
            rest = chars.as_str();
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests;
