//! Destination, format and verbosity of log lines.
//!
//! Lines go to standard error. `--v` raises the level of this project's crates only: the libraries below print headers
//! at their finest levels, and a header can be a bearer token. For the same reason no environment variable overrides
//! the filter.
//!
//! Warnings of libraries are limited to one in ten seconds for each of their modules: strangers can cause them, as with a
//! handshake that the TLS library finds odd. A panic is a line as well, in the format of the others.
//!
//! Invariant: no line has a path of the machine that built the program; places in the code are told from their crate on.
//!
//! Invariant: an event is one line, whatever texts of clients, peers and other servers its fields hold: control
//! characters, line breaks and changes of direction are written escaped. Here rather than where events are made, because
//! the message of an error quotes text as well.

use std::collections::BTreeMap;
use std::fmt::{self as text, Write};
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::Context as _;
use orch_raft::warnings::WarningLimit;
use parking_lot::Mutex;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::{Context, Filter, SubscriberExt};
use tracing_subscriber::{Layer, fmt};

use crate::cli::LogFormat;

/// Crates whose level follows `--v`.
const OWN: [&str; 4] = ["orch", "orch_node", "orch_api", "orch_raft"];

/// The format of the process's log; unset before [`start`].
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Installs the process's logger, for the libraries below, too, and has panics logged. Fails if one is installed.
pub fn start(format: LogFormat, verbosity: u8) -> anyhow::Result<()> {
    let filter = Limited::new(filter(verbosity));
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(verbosity > 0);
    let lines = lines.with_ansi(std::io::stderr().is_terminal());
    let layer = match format {
        LogFormat::Text => lines.fmt_fields(one_line_fields()).with_filter(filter).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    };
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;
    log::set_logger(&LIBRARIES).context("another logger is installed already")?;
    log::set_max_level(log::LevelFilter::Warn);
    // The format is set once, with the logger.
    let _ = FORMAT.set(format);
    std::panic::set_hook(Box::new(|panic| {
        let place =
            panic.location().map(|place| format!("{}:{}", without_machine(place.file()), place.line()));
        tracing::error!(place, "panicked: {}", panic.payload_as_str().unwrap_or("without a message"));
    }));
    Ok(())
}

/// The format of the process's log; `None` before [`start`].
pub fn format() -> Option<LogFormat> {
    FORMAT.get().copied()
}

/// The path of a source file from its crate on: what lies before is of the machine that built the program.
fn without_machine(path: &str) -> &str {
    let after = |mark: &str| path.split_once(mark).and_then(|(_, rest)| Some(rest.split_once('/')?.1));
    match after("/registry/src/").or_else(|| after("/git/checkouts/")).or_else(|| after("/rustc/")) {
        Some(rest) => rest,
        // Paths of this workspace are relative; of others the file's name is left.
        None if path.starts_with('/') => path.rsplit('/').next().unwrap_or(path),
        None => path,
    }
}

/// Logs what libraries log through the `log` crate. Its records have the file's path on the machine that built the program,
/// which is left out.
static LIBRARIES: Libraries = Libraries(Limits::new());

struct Libraries(Limits);

impl log::Log for Libraries {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        let library = record.target();
        let Some(left_out) = self.0.pass(library).filter(|_| self.enabled(record.metadata())) else { return };
        match record.level() {
            log::Level::Error => tracing::error!(target: LIBRARY, library, left_out, "{}", record.args()),
            _ => tracing::warn!(target: LIBRARY, library, left_out, "{}", record.args()),
        }
    }

    fn flush(&self) {}
}

/// Target of records of the `log` crate, which are limited already.
const LIBRARY: &str = "library";

/// Limits of warnings, by module of a library. Modules are names in the program, so they are few.
#[derive(Debug)]
struct Limits(Mutex<BTreeMap<String, WarningLimit<Instant>>>);

impl Limits {
    const fn new() -> Limits {
        Limits(Mutex::new(BTreeMap::new()))
    }

    /// `Some` if a warning of `module` may be logged now, with the number of those left out since the last.
    fn pass(&self, module: &str) -> Option<u64> {
        let mut limits = self.0.lock();
        if !limits.contains_key(module) {
            limits.insert(module.to_owned(), WarningLimit::new());
        }
        limits.get(module)?.pass_at(Instant::now())
    }
}

/// The filter of events, with the limit of those that libraries log.
struct Limited {
    targets: Targets,
    limits: Limits,
}

impl Limited {
    fn new(targets: Targets) -> Limited {
        Limited { targets, limits: Limits::new() }
    }
}

impl<S: Subscriber> Filter<S> for Limited {
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        Filter::enabled(&self.targets, metadata, context)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        <Targets as Filter<S>>::callsite_enabled(&self.targets, metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        <Targets as Filter<S>>::max_level_hint(&self.targets)
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let target = event.metadata().target();
        let is_own = OWN.iter().any(|own| target.split("::").next() == Some(own));
        is_own || target == LIBRARY || self.limits.pass(target).is_some()
    }
}

/// Fields as `name=value`, the message without a name, in one line.
fn one_line_fields() -> impl for<'w> FormatFields<'w> + Send + Sync + 'static {
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

impl<W: text::Write> text::Write for OneLine<W> {
    fn write_str(&mut self, text: &str) -> text::Result {
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

fn filter(verbosity: u8) -> Targets {
    let own = match verbosity {
        0..=3 => Level::INFO,
        4..=5 => Level::DEBUG,
        _ => Level::TRACE,
    };
    // The consensus library warns of ordinary events in elections. The HTTP/2 library warns once for each connection of
    // an attack, which would fill the disk that holds the log.
    let quiet = ["openraft", "h2"].map(|name| (name, LevelFilter::ERROR));
    let targets = Targets::new().with_default(LevelFilter::WARN).with_targets(quiet);
    targets.with_targets(OWN.map(|name| (name, own)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_text_in_a_field_or_a_message_breaks_or_forges_a_line() {
        let lines = Lines::default();
        let written = lines.clone();
        let layer = fmt::layer().with_writer(move || written.clone()).with_ansi(false).without_time();
        let layer = layer.with_target(false).fmt_fields(one_line_fields());
        let forged =
            "a\n2026-01-01T00:00:00Z  INFO the cluster is founded\r\u{1b}[2K\u{9b}2K\u{2028}\u{202e}b";
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(%forged, shown = ?forged, plain = forged, "first {forged}");
            tracing::info!(count = 1, "second");
        });
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        let [first, second] = text.lines().collect::<Vec<_>>()[..] else { panic!("two lines: {text:?}") };
        let escaped =
            r"a\n2026-01-01T00:00:00Z  INFO the cluster is founded\r\u{1b}[2K\u{9b}2K\u{2028}\u{202e}b";
        assert!(first.contains(&format!("first {escaped} forged={escaped} shown=\"a")), "{first}");
        assert!(!first.contains(|char: char| char.is_control() || char == '\u{202e}'), "{first:?}");
        assert_eq!(second.trim(), "INFO second count=1");
    }

    #[test]
    fn a_stranger_cannot_make_a_library_fill_the_log_and_no_line_names_the_building_machine() {
        let lines = Lines::default();
        let written = lines.clone();
        let layer = fmt::layer().json().flatten_event(true).with_writer(move || written.clone());
        let layer = layer.with_filter(Limited::new(filter(0)));
        let libraries = Libraries(Limits::new());
        let warn = |target: &str, text: &str| {
            let path = Some("/root/.cargo/registry/src/index-1/x-1.0/src/y.rs");
            let mut record = log::Record::builder();
            let record = record.level(log::Level::Warn).target(target).file(path).module_path(path);
            log::Log::log(&libraries, &record.args(format_args!("{text}")).build());
        };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            for _ in 0..50 {
                warn("rustls::msgs::handshake", "Illegal SNI hostname received");
                tracing::warn!(target: "tonic::transport", "odd");
            }
            warn("rustls::other", "another");
            for _ in 0..3 {
                tracing::warn!(target: "orch_node::server", "our own");
            }
        });
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        let of = |part: &str| text.lines().filter(|line| line.contains(part)).count();
        assert_eq!((of("Illegal"), of("odd"), of("another"), of("our own")), (1, 1, 1, 3), "{text}");
        assert!(!text.contains("/root/") && !text.contains(".rs"), "{text}");
        assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{text}");
    }

    #[test]
    fn places_in_the_code_are_told_from_their_crate_on() {
        for (path, shown) in [
            ("/root/.cargo/registry/src/index.crates.io-1/rustls-0.23.1/src/x.rs", "rustls-0.23.1/src/x.rs"),
            ("/rustc/0123abc/library/core/src/option.rs", "library/core/src/option.rs"),
            ("node/src/run/mod.rs", "node/src/run/mod.rs"),
            ("/home/me/orch/node/src/lib.rs", "lib.rs"),
        ] {
            assert_eq!(without_machine(path), shown);
        }
    }

    #[test]
    fn libraries_stay_quiet_at_every_verbosity() {
        for verbosity in 0..=10 {
            let filter = filter(verbosity);
            for library in ["h2::codec", "hyper::proto", "rustls::server", "openraft::core"] {
                assert!(!filter.would_enable(library, &Level::INFO), "{library} at {verbosity}");
            }
        }
    }

    #[test]
    fn an_attack_fills_no_log() {
        for verbosity in [0, 10] {
            assert!(!filter(verbosity).would_enable("h2::proto::streams::recv", &Level::WARN));
        }
    }

    #[test]
    fn own_crates_grow_louder() {
        for (verbosity, level, shown) in [
            (0, Level::INFO, true),
            (0, Level::DEBUG, false),
            (4, Level::DEBUG, true),
            (6, Level::TRACE, true),
        ] {
            assert_eq!(
                filter(verbosity).would_enable("orch_api::http", &level),
                shown,
                "{level} at {verbosity}"
            );
        }
    }
}
