//! The export of spans over OTLP.
//!
//! Owns the queue, the batches and the connection, which are those of the OpenTelemetry crates, and the translation of spans. A
//! collector that does not answer costs the spans, a warning in ten seconds, and nothing else.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter as OtlpExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanExporter, SpanLinks, SpanProcessor,
};
use orch_api::ambient::{Ambient, SystemAmbient};
use orch_bounded::WarningLimit;
use orch_spans::{Attribute, FinishedSpan, Sources, TraceContext};
use tonic::transport::Endpoint;

use super::TracesPlan;

/// The service that the spans are of: the reference's name, under every brand.
const SERVICE: &str = "apiserver";

/// Spans that wait for the collector; more are dropped.
const QUEUE_MAX: usize = 4096;

/// Spans in one request to the collector.
const BATCH_MAX: usize = 512;

/// Longest time that a span waits for others to go with it: people look at traces seconds later.
const BATCH_DELAY: Duration = Duration::from_secs(1);

/// Longest request to the collector, connecting included.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for the last spans when the process ends.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// Time and ids of spans: those of requests.
const SOURCES: Sources = Sources { now_micros: || SystemAmbient.now().0, random: || SystemAmbient.random() };

/// Limits the log: each batch may fail.
static FAILED: WarningLimit = WarningLimit::new();

/// The export of this process's spans, which began when the recorder was installed.
#[derive(Debug)]
pub struct Exporting(Arc<BatchSpanProcessor>);

/// The fault of a collector's address.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// It is not `HOST:PORT`.
    #[error("the endpoint {endpoint} cannot be dialled")]
    Endpoint {
        /// As the file has it.
        endpoint: String,
        /// The parser's error.
        source: tonic::transport::Error,
    },
    /// The exporter cannot be made.
    #[error("spans cannot be exported")]
    Exporter(#[source] opentelemetry_otlp::ExporterBuildError),
}

impl Exporting {
    /// Records spans from now on and sends them to the collector of `plan`, as those of the member `node`. Within a runtime, on which
    /// the connection lives.
    ///
    /// # Errors
    /// The endpoint is not `HOST:PORT`, or the exporter cannot be made.
    pub fn start(plan: &TracesPlan, node: &str) -> Result<Exporting, ExportError> {
        let endpoint = Endpoint::from_shared(format!("http://{}", plan.endpoint))
            .map_err(|source| ExportError::Endpoint { endpoint: plan.endpoint.clone(), source })?;
        let channel = endpoint.connect_timeout(TIMEOUT).timeout(TIMEOUT).connect_lazy();
        let exporter = OtlpExporter::builder().with_tonic().with_channel(channel).with_timeout(TIMEOUT);
        let exporter = Told(exporter.build().map_err(ExportError::Exporter)?);
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_MAX)
            .with_max_export_batch_size(BATCH_MAX)
            .with_scheduled_delay(BATCH_DELAY);
        let mut processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches.build()).build();
        processor.set_resource(&resource(node));
        let processor = Arc::new(processor);
        let (taking, scope) = (processor.clone(), InstrumentationScope::builder("orch").build());
        let take = move |span| taking.on_end(data(span, scope.clone()));
        if !orch_spans::install(plan.sampling, SOURCES, take) {
            tracing::debug!("spans are recorded already");
        }
        Ok(Exporting(processor))
    }

    /// Sends the spans that wait, for two seconds at most. The recorder drops what comes after.
    pub async fn stop(self) {
        let stopped = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(FLUSH_MAX)).await;
        match stopped {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the last spans were not sent"),
            Err(error) => tracing::warn!(%error, "the export of spans ended badly"),
        }
    }
}

/// The names under which a collector shows the spans of this process.
fn resource(node: &str) -> Resource {
    let attributes = [
        KeyValue::new("service.instance.id", node.to_owned()),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ];
    Resource::builder_empty().with_service_name(SERVICE).with_attributes(attributes).build()
}

/// An exporter whose failures are logged.
#[derive(Debug)]
struct Told(OtlpExporter);

impl SpanExporter for Told {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let exported = self.0.export(batch).await;
        if let Err(error) = &exported
            && let Some(left_out) = FAILED.pass()
        {
            tracing::warn!(%error, spans, left_out, "the collector of traces does not take spans");
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

/// The span as the OpenTelemetry crates know it.
fn data(span: FinishedSpan, scope: InstrumentationScope) -> SpanData {
    let mut links = SpanLinks::default();
    links.links.extend(span.link.map(|link| Link::new(place(link, true), Vec::new(), 0)));
    let parent = span.parent.map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.to_be_bytes()));
    SpanData {
        span_context: place(span.context, false),
        parent_span_id: parent,
        parent_span_is_remote: span.is_parent_remote,
        span_kind: match span.kind {
            orch_spans::SpanKind::Server => SpanKind::Server,
            orch_spans::SpanKind::Client => SpanKind::Client,
            orch_spans::SpanKind::Internal => SpanKind::Internal,
        },
        name: span.name,
        start_time: time(span.began_micros),
        end_time: time(span.ended_micros),
        attributes: span.attributes.into_iter().map(attribute).collect(),
        dropped_attributes_count: 0,
        events: Default::default(),
        links,
        status: match span.failure {
            Some(reason) => Status::Error { description: Cow::Owned(reason.as_str().to_owned()) },
            None => Status::Unset,
        },
        instrumentation_scope: scope,
    }
}

fn attribute(attribute: Attribute) -> KeyValue {
    match attribute {
        Attribute::Text(name, text) => KeyValue::new(name, text.into_cow()),
        Attribute::Number(name, number) => KeyValue::new(name, number),
    }
}

fn place(context: TraceContext, is_remote: bool) -> SpanContext {
    let flags = if context.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let (trace, span) = (context.trace_id.to_be_bytes(), context.span_id.to_be_bytes());
    // The library knows the keys of level 1 of the recommendation alone.
    let state = context.state.as_str().parse().unwrap_or(TraceState::NONE);
    SpanContext::new(TraceId::from_bytes(trace), SpanId::from_bytes(span), flags, is_remote, state)
}

fn time(micros: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(micros)
}
