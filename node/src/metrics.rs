//! The metrics of the process: the recorder, and the text of `/metrics`.
//!
//! Owns the catalog of metrics ([`catalog`]), the recorder that every crate's counters, gauges and histograms go to, and the series
//! of the process itself, which are read from the kernel when somebody asks. Names and types are those of the reference.
//! It opens no port: the API serves the text to users with the right to its path.

mod buckets;
pub mod catalog;
mod lives;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::{KeyName, Recorder, SharedString};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use orch_api::metrics::Exposition;
use tokio_util::sync::CancellationToken;

use self::catalog::{CATALOG, Kind};
pub(crate) use self::lives::Life;

/// Time between two passes over the histograms, which keep single values until then: five for each request, at 100,000
/// requests a second four megabytes.
const UPKEEP_EVERY: Duration = Duration::from_secs(1);

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Installs the recorder of the process. Later calls have no effect.
pub fn install() {
    RECORDER.get_or_init(|| {
        let recorder = buckets::set(PrometheusBuilder::new()).build_recorder();
        let handle = recorder.handle();
        describe(&recorder);
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!("another recorder of metrics is installed already: /metrics stays empty");
        }
        handle
    });
}

/// Gives `recorder` the help of every metric.
fn describe(recorder: &impl Recorder) {
    for metric in CATALOG {
        for name in metric.names() {
            let (name, help) = (KeyName::from(name), SharedString::from(metric.description()));
            match metric.kind {
                Kind::Counter => recorder.describe_counter(name, None, help),
                Kind::Gauge => recorder.describe_gauge(name, None, help),
                Kind::Histogram => recorder.describe_histogram(name, None, help),
            }
        }
    }
}

/// Series that are read where they are kept, when somebody asks for the page.
pub(crate) trait Source: Send + Sync + 'static {
    /// Appends the series.
    fn write(&self, text: &mut String);
}

/// The text of `/metrics` with the series of `source`, and the upkeep of its histograms until `stopping`. Needs a Tokio runtime.
pub(crate) fn exposition(
    stopping: CancellationToken,
    source: Option<Arc<dyn Source>>,
) -> Arc<dyn Exposition> {
    install();
    let handle = RECORDER.get().cloned();
    if let Some(handle) = handle.clone() {
        tokio::spawn(stopping.run_until_cancelled_owned(async move {
            loop {
                tokio::time::sleep(UPKEEP_EVERY).await;
                handle.run_upkeep();
            }
        }));
    }
    Arc::new(Page { handle, source })
}

/// The recorder's series and those of the process.
struct Page {
    handle: Option<PrometheusHandle>,
    /// `None` before the node has a store.
    source: Option<Arc<dyn Source>>,
}

impl Exposition for Page {
    fn render(&self) -> String {
        let mut text = self.handle.as_ref().map(PrometheusHandle::render).unwrap_or_default();
        lives::write(&mut text);
        orch_serving::process::write_series(&mut text, &|_| true);
        if let Some(source) = &self.source {
            source.write(&mut text);
        }
        text
    }

    fn head(&self, name: &str, kind: &str) -> String {
        head(name, kind)
    }
}

/// The lines before the series called `name` of a page.
pub(crate) fn head(name: &str, kind: &str) -> String {
    let help = catalog::metric(name).map(|metric| format!("# HELP {name} {}\n", metric.description()));
    format!("{}# TYPE {name} {kind}\n", help.unwrap_or_default())
}

/// The text of `/metrics` before the API is there. Its few histograms are kept up later.
pub(crate) fn text() -> String {
    install();
    Page { handle: RECORDER.get().cloned(), source: None }.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_text_has_what_was_counted_and_the_process() {
        install();
        metrics::counter!("apiserver_tls_handshake_errors_total").increment(2);
        metrics::histogram!("apiserver_flowcontrol_request_wait_duration_seconds").record(0.03);
        let text = exposition(CancellationToken::new(), None).render();
        for expected in [
            "# HELP apiserver_tls_handshake_errors_total [ALPHA] Connections that ended in their TLS handshake.\n# TYPE apiserver_tls_handshake_errors_total counter\n",
            "apiserver_tls_handshake_errors_total 2\n",
            "apiserver_flowcontrol_request_wait_duration_seconds_bucket{le=\"0.05\"} 1\n",
            "# HELP process_start_time_seconds Start, in seconds since 1970.\n# TYPE process_start_time_seconds gauge\n",
            "# TYPE process_cpu_seconds_total counter\n",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let resident = text.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        assert!(resident.unwrap().parse::<u64>().unwrap() > 1 << 20, "{text}");
    }
}
