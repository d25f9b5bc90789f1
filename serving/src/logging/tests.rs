//! Tests: an event is one line; libraries fill no log and name no machine.

use std::sync::Arc;

use parking_lot::Mutex;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, fmt};

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
    let forged = "a\n2026-01-01T00:00:00Z  INFO the cluster is founded\r\u{1b}[2K\u{9b}2K\u{2028}\u{202e}b";
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        tracing::info!(%forged, shown = ?forged, plain = forged, "first {forged}");
        tracing::info!(count = 1, "second");
    });
    let text = String::from_utf8(lines.0.lock().clone()).unwrap();
    let [first, second] = text.lines().collect::<Vec<_>>()[..] else { panic!("two lines: {text:?}") };
    let escaped = r"a\n2026-01-01T00:00:00Z  INFO the cluster is founded\r\u{1b}[2K\u{9b}2K\u{2028}\u{202e}b";
    assert!(first.contains(&format!("first {escaped} forged={escaped} shown=\"a")), "{first}");
    assert!(!first.contains(|char: char| char.is_control() || char == '\u{202e}'), "{first:?}");
    assert_eq!(second.trim(), "INFO second count=1");
}

#[test]
fn a_stranger_cannot_make_a_library_fill_the_log_and_no_line_names_the_building_machine() {
    let lines = Lines::default();
    let written = lines.clone();
    let layer = fmt::layer().json().flatten_event(true).with_writer(move || written.clone());
    let layer = layer.with_filter(Limited::new(Targets::new().with_default(LevelFilter::WARN), &["own"]));
    let libraries = Libraries::new(&["quiet"]);
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
        warn("quiet::handshake", "a stranger");
        for _ in 0..3 {
            tracing::warn!(target: "own::server", "our own");
        }
    });
    let text = String::from_utf8(lines.0.lock().clone()).unwrap();
    assert!(!text.contains("a stranger"), "{text}");
    let of = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    assert_eq!((of("Illegal"), of("odd"), of("another"), of("our own")), (1, 1, 1, 3), "{text}");
    assert!(!text.contains("/root/") && !text.contains(".rs"), "{text}");
    assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{text}");
}

#[test]
fn warnings_of_a_library_hide_no_error_of_it() {
    let lines = Lines::default();
    let written = lines.clone();
    let layer = fmt::layer().with_writer(move || written.clone()).with_ansi(false);
    let layer = layer.with_filter(Limited::new(Targets::new().with_default(LevelFilter::WARN), &["own"]));
    let libraries = Libraries::new(&[]);
    let tell = |level: log::Level, text: &str| {
        let mut record = log::Record::builder();
        let record = record.level(level).target("rustls::conn");
        log::Log::log(&libraries, &record.args(format_args!("{text}")).build());
    };
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        for _ in 0..3 {
            tell(log::Level::Warn, "odd");
            tell(log::Level::Error, "broken");
            tracing::warn!(target: "tonic::transport", "slow");
            tracing::error!(target: "tonic::transport", "lost");
        }
    });
    let text = String::from_utf8(lines.0.lock().clone()).unwrap();
    let of = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    assert_eq!((of("odd"), of("broken"), of("slow"), of("lost")), (1, 1, 1, 1), "{text}");
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
fn verbosity_raises_the_level() {
    let levels = [0, 3, 4, 5, 6, u32::MAX].map(own_level);
    assert_eq!(levels, [Level::INFO, Level::INFO, Level::DEBUG, Level::DEBUG, Level::TRACE, Level::TRACE]);
}

#[test]
fn a_panic_of_any_thread_ends_the_process() {
    const CHILD: &str = "LOGGING_TEST_PANICS";
    if std::env::var_os(CHILD).is_some() {
        abort_at_panics(|| {});
        // A process that outlives the thread passes, which the parent takes for a failure.
        let _ = std::thread::spawn(|| panic!("wanted by the test")).join();
        return;
    }
    let name = "logging::tests::a_panic_of_any_thread_ends_the_process";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let child = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.status), Some(6), "{child:?}");
}
