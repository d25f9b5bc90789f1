//! `/flagz` and `/statusz`: pages about the process.
//!
//! Owns their content. As in the reference they are plain text whose form may change, or documents for those who ask for their kinds
//! (`orch_serving::zpages`), and take the right to their paths. No flag's value is a secret: flags name files.

use std::fmt::Write;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, WARNING, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, StatusCode};
use orch_proto::Brand;
use orch_proto::version::{GIT_VERSION, MAJOR_MINOR, RELEASE};
use orch_serving::zpages::{Page, first_parts};
use serde_json::{Map, Value, json};
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

/// The name of the program on both pages: the reference's, under every brand.
const COMPONENT: &str = "apiserver";

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

    fn flags(&self, accept: &str) -> Response {
        let mut text = head("flagz");
        for (name, value) in &self.flags {
            // A string takes every write.
            let _ = writeln!(text, "{name}={value}");
        }
        let flags: Map<String, Value> =
            self.flags.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        self.answer(("flagz", "Flagz"), text, json!({"flags": flags}), accept)
    }

    fn status(&self, accept: &str) -> Response {
        let (at, clock) = self.started;
        let at = at.replace_nanosecond(0).unwrap_or(at);
        // A year beyond 9999 has no such form.
        let started = at.format(&Rfc3339).unwrap_or_else(|_| at.to_string());
        let up = clock.elapsed().as_secs();
        let text = format!(
            "{}Started: {started}\nUp: {up} s\nVersion: {GIT_VERSION}\nProgram: orch {}\nPaths: {}\n",
            head("statusz"),
            orch_proto::version::program(),
            LISTED.join(" ")
        );
        let fields = json!({
            "startTime": started, "uptimeSeconds": up, "goVersion": "", "binaryVersion": RELEASE,
            "emulationVersion": MAJOR_MINOR, "paths": first_parts(&LISTED),
        });
        self.answer(("statusz", "Statusz"), text, fields, accept)
    }

    fn answer(
        &self,
        (name, kind): (&'static str, &'static str),
        text: String,
        fields: Value,
        accept: &str,
    ) -> Response {
        let (group, fields) = (self.brand.group("config"), fields.as_object().cloned().unwrap_or_default());
        let page = Page { name, kind, component: COMPONENT.to_owned(), group, text, fields };
        let answer = page.answer(accept);
        let mut response = Response::new(Body::from(answer.body));
        *response.status_mut() = StatusCode::from_u16(answer.code).unwrap_or_default();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        let warning = answer.warning.and_then(|warning| HeaderValue::try_from(warning).ok());
        headers.extend(warning.map(|warning| (WARNING, warning)));
        response
    }
}

fn head(page: &str) -> String {
    format!("\n{COMPONENT} {page}\n{NOTE}\n\n")
}

/// Both paths, to be put behind the gate.
pub(super) fn router(pages: Arc<Pages>) -> Router {
    Router::new().route(FLAGS_PATH, get(flags)).route(STATUS_PATH, get(status)).with_state(pages)
}

async fn flags(State(pages): State<Arc<Pages>>, headers: HeaderMap) -> Response {
    pages.flags(accept(&headers))
}

async fn status(State(pages): State<Arc<Pages>>, headers: HeaderMap) -> Response {
    pages.status(accept(&headers))
}

fn accept(headers: &HeaderMap) -> &str {
    headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::{KUBERNETES, ORCH};

    use super::*;
    use crate::cli::{Cli, Command, parse};

    async fn body(response: Response) -> String {
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn every_flag_is_shown_with_its_value_and_the_status_with_its_time() {
        let line = "orch serve --name=a --encrypt-nothing";
        assert!(parse(line.split(' ').map(Into::into).collect()).is_err());
        let line = "orch serve --name=a --backup-encrypt-to=age1x,age1y --v=2 --join h:1";
        let Cli { command } = parse(line.split(' ').map(Into::into).collect()).unwrap();
        let Command::Serve(arguments) = command else { panic!("{line}") };
        let pages = Pages::new(&ORCH, arguments.shared.flags);
        let text = body(pages.flags("")).await;
        assert!(text.starts_with("\napiserver flagz\nFor people"), "{text}");
        for line in ["name=a", "backup-encrypt-to=age1x,age1y", "v=2", "join=h:1", "backup-keep=7", "config="]
        {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!text.contains("help"), "{text}");
        let names: Vec<&str> =
            text.lines().skip(4).filter_map(|line| Some(line.split_once('=')?.0)).collect();
        assert!(names.len() > 80 && names.is_sorted(), "{names:?}");

        let document = pages.flags("application/json;v=v1beta1;g=config.orch.io;as=Flagz");
        let document: Value = serde_json::from_str(&body(document).await).unwrap();
        assert_eq!((&document["kind"], &document["flags"]["name"]), (&json!("Flagz"), &json!("a")));

        let pages = Pages::new(&KUBERNETES, Vec::new());
        let document = pages.status("application/json;v=v1beta1;g=config.k8s.io;as=Statusz");
        let document: Value = serde_json::from_str(&body(document).await).unwrap();
        assert_eq!(
            (&document["metadata"]["name"], &document["binaryVersion"]),
            (&json!("apiserver"), &json!(RELEASE))
        );
        assert_eq!(document["paths"][0], "/flagz");
        let status = body(pages.status("*/*")).await;
        for part in ["apiserver statusz", "Started: 20", "Up: 0 s", "Version: v1.", "Program: orch 0."] {
            assert!(status.contains(part), "{part}: {status}");
        }
    }
}
