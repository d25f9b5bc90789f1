//! Destination, format and verbosity of log lines.
//!
//! Lines go to standard error. `--v` raises the level of this project's crates only: the libraries below print headers
//! at their finest levels, and a header can be a bearer token. For the same reason no environment variable overrides
//! the filter.
//!
//! Invariant: an event is one line, whatever texts of clients, peers and other servers its fields hold: control
//! characters, line breaks and changes of direction are written escaped. Here rather than where events are made, because
//! the message of an error quotes text as well.

use std::fmt::{self as text, Write};
use std::io::IsTerminal;

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, fmt};

use crate::cli::LogFormat;

/// Crates whose level follows `--v`.
const OWN: [&str; 4] = ["orch", "orch_node", "orch_api", "orch_raft"];

/// Installs the process's logger. Fails if one is installed.
pub fn start(format: LogFormat, verbosity: u8) -> Result<(), TryInitError> {
    let filter = filter(verbosity);
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(verbosity > 0);
    let lines = lines.with_ansi(std::io::stderr().is_terminal());
    let layer = match format {
        LogFormat::Text => lines.fmt_fields(one_line_fields()).with_filter(filter).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    };
    tracing_subscriber::registry().with(layer).try_init()
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
