//! Destination, format and verbosity of log lines.
//!
//! Lines go to standard error. `--v` raises the level of this project's crates only: the libraries below print headers
//! at their finest levels, and a header can be a bearer token. For the same reason no environment variable overrides
//! the filter. The form of a line and the limit on warnings of libraries are those of [`orch_serving::logging`].

use std::io::IsTerminal;
use std::sync::OnceLock;

use anyhow::Context as _;
use orch_serving::logging::{Limited, abort_at_panics, log_libraries, one_line_fields, own_level};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, fmt};

use crate::cli::LogFormat;

/// Crates whose level follows `--v`.
const OWN: [&str; 5] = ["orch", "orch_node", "orch_serving", "orch_api", "orch_raft"];

/// The format of the process's log; unset before [`start`].
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Installs the process's logger, for the libraries below, too, and has a panic logged before it ends the process. Fails if one is installed.
pub fn start(format: LogFormat, verbosity: u8) -> anyhow::Result<()> {
    let filter = Limited::new(filter(verbosity), &OWN);
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(verbosity > 0);
    let lines = lines.with_ansi(std::io::stderr().is_terminal());
    let layer = match format {
        LogFormat::Text => lines.fmt_fields(one_line_fields()).with_filter(filter).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    };
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;
    log_libraries(&[]).context("another logger is installed already")?;
    // The format is set once, with the logger.
    let _ = FORMAT.set(format);
    abort_at_panics(|| {});
    Ok(())
}

/// The format of the process's log; `None` before [`start`].
pub fn format() -> Option<LogFormat> {
    FORMAT.get().copied()
}

fn filter(verbosity: u8) -> Targets {
    let own = own_level(u32::from(verbosity));
    // The consensus library warns of ordinary events in elections. The HTTP/2 library warns once for each connection of
    // an attack, which would fill the disk that holds the log.
    let quiet = ["openraft", "h2"].map(|name| (name, LevelFilter::ERROR));
    let targets = Targets::new().with_default(LevelFilter::WARN).with_targets(quiet);
    targets.with_targets(OWN.map(|name| (name, own)))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

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
