//! Pages about the process: configuration, flags, state, and the requests of pods.

use std::fmt::Write;
use std::sync::Arc;

use orch_proto::Brand;
use orch_serving::zpages::{Page, first_parts};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::config::component;
use crate::metrics::resources::{Ledger, render};
use crate::version;
use crate::wall_time::WallTime;

/// The content of the pages.
pub struct Pages {
    /// Names on the wire.
    pub brand: &'static Brand,
    /// The configuration in force, as a document.
    pub configuration: Value,
    /// The flags with their values.
    pub flags: Vec<(String, String)>,
    /// When the process started, by both clocks.
    pub started: (WallTime, Instant),
    /// Requests and limits of pods.
    pub pods: Arc<Ledger>,
}

/// Paths that the page about the state lists.
const PATHS: [&str; 11] = [
    "/configz",
    "/debug/pprof/",
    "/flagz",
    "/healthz",
    "/livez",
    "/metrics",
    "/metrics/resources",
    "/metrics/slis",
    "/readyz",
    "/statusz",
    "/debug/flags/v",
];

const NOTE: &str = "For people: the form of this page may change at any time, and no program should read it.";

impl Pages {
    /// `/configz`.
    pub(super) fn configuration(&self) -> Value {
        json!({"componentconfig": self.configuration})
    }

    /// `/flagz`.
    pub(super) fn flags(&self) -> Page {
        let mut text = format!("\n{} flagz\n{NOTE}\n\n", component(self.brand));
        for (name, value) in &self.flags {
            // A string takes every write.
            let _ = writeln!(text, "{name}={value}");
        }
        let flags: Map<String, Value> =
            self.flags.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        self.page(("flagz", "Flagz"), text, json!({"flags": flags}))
    }

    /// `/statusz`.
    pub(super) fn status(&self) -> Page {
        let (at, clock) = self.started;
        let started = at.rfc3339();
        let text = format!(
            "\n{} statusz\n{NOTE}\n\nStarted: {started}\nUp: {} s\nVersion: {}\nProgram: scheduler {}\nPaths: {}\n",
            component(self.brand),
            clock.elapsed().as_secs(),
            version::GIT_VERSION,
            env!("CARGO_PKG_VERSION"),
            PATHS.join(" ")
        );
        let fields = json!({
            "startTime": started, "uptimeSeconds": clock.elapsed().as_secs(), "goVersion": "",
            "binaryVersion": version::RELEASE, "emulationVersion": version::MAJOR_MINOR, "paths": first_parts(&PATHS),
        });
        self.page(("statusz", "Statusz"), text, fields)
    }

    fn page(&self, (name, kind): (&'static str, &'static str), text: String, fields: Value) -> Page {
        let fields = fields.as_object().cloned().unwrap_or_default();
        let (component, group) = (component(self.brand), self.brand.group("config"));
        Page { name, kind, component, group, text, fields }
    }

    /// `/metrics/resources`.
    pub(super) fn resources(&self) -> String {
        render(self.brand, &self.pods)
    }
}

/// A verbosity from a text.
pub(super) fn verbosity(text: &str) -> Result<u32, String> {
    crate::config::notation::parse_unsigned(text).map_err(|reason| reason.0)
}
