//! `/flagz` and `/statusz`: pages about the process, for people.
//!
//! Owns their text. As in the reference they are plain text whose form may change, and take the right to their paths. No flag's value
//! is a secret: flags name files.

use std::fmt::Write;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use orch_proto::Brand;
use orch_proto::version::GIT_VERSION;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::Instant;

const FLAGS_PATH: &str = "/flagz";
const STATUS_PATH: &str = "/statusz";

/// The paths.
pub(super) const PATHS: [&str; 2] = [FLAGS_PATH, STATUS_PATH];

/// Paths about the process that the status lists.
const LISTED: [&str; 8] =
    [FLAGS_PATH, "/healthz", "/livez", "/metrics", "/metrics/slis", "/readyz", STATUS_PATH, "/version"];

const NOTE: &str = "For people: the form of this page may change at any time, and no program should read it.";

/// Arguments of the handlers.
pub(super) struct Pages {
    brand: &'static Brand,
    /// In order of names.
    flags: Vec<(String, String)>,
    /// When the process began to serve, by both clocks.
    started: (OffsetDateTime, Instant),
}

impl Pages {
    /// The pages of a node of `brand` with `flags` that begins to serve now.
    pub(super) fn new(brand: &'static Brand, flags: Vec<(String, String)>) -> Arc<Pages> {
        Arc::new(Pages { brand, flags, started: (OffsetDateTime::now_utc(), Instant::now()) })
    }

    fn flags(&self) -> String {
        let mut text = self.head("flagz");
        for (name, value) in &self.flags {
            // A string takes every write.
            let _ = writeln!(text, "{name}={value}");
        }
        text
    }

    fn status(&self) -> String {
        let (at, clock) = self.started;
        // A year beyond 9999 has no such form.
        let started = at.format(&Rfc3339).unwrap_or_else(|_| at.to_string());
        format!(
            "{}Started: {started}\nUp: {} s\nVersion: {GIT_VERSION}\nProgram: orch {}\nPaths: {}\n",
            self.head("statusz"),
            clock.elapsed().as_secs(),
            orch_proto::version::program(),
            LISTED.join(" ")
        )
    }

    fn head(&self, page: &str) -> String {
        format!("\n{}-apiserver {page}\n{NOTE}\n\n", self.brand.component_prefix)
    }
}

/// Both paths, to be put behind the gate.
pub(super) fn router(pages: Arc<Pages>) -> Router {
    Router::new()
        .route(FLAGS_PATH, get(async |State(pages): State<Arc<Pages>>| answer(pages.flags())))
        .route(STATUS_PATH, get(async |State(pages): State<Arc<Pages>>| answer(pages.status())))
        .with_state(pages)
}

fn answer(text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::{KUBERNETES, ORCH};

    use super::*;
    use crate::cli::{Cli, Command, parse};

    #[test]
    fn every_flag_is_shown_with_its_value_and_the_status_with_its_time() {
        let line = "orch serve --name=a --encrypt-nothing";
        assert!(parse(line.split(' ').map(Into::into).collect()).is_err());
        let line = "orch serve --name=a --backup-encrypt-to=age1x,age1y --v=2 --join h:1";
        let Cli { command } = parse(line.split(' ').map(Into::into).collect()).unwrap();
        let Command::Serve(arguments) = command else { panic!("{line}") };
        let pages = Pages::new(&ORCH, arguments.shared.flags);
        let text = pages.flags();
        assert!(text.starts_with("\norch-apiserver flagz\nFor people"), "{text}");
        for line in ["name=a", "backup-encrypt-to=age1x,age1y", "v=2", "join=h:1", "backup-keep=7", "config="]
        {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!text.contains("help"), "{text}");
        let names: Vec<&str> =
            text.lines().skip(4).filter_map(|line| Some(line.split_once('=')?.0)).collect();
        assert!(names.len() > 80 && names.is_sorted(), "{names:?}");

        let status = Pages::new(&KUBERNETES, Vec::new()).status();
        for part in ["kube-apiserver statusz", "Started: 20", "Up: 0 s", "Version: v1.", "Program: orch 0."] {
            assert!(status.contains(part), "{part}: {status}");
        }
    }
}
