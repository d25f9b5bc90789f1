//! The spans of this process on their way to a collector.
//!
//! Owns the file of `--tracing-config-file` and the export over OTLP. Which spans there are, and which traces are recorded, is decided
//! where they begin (`orch_spans`). Invariant: no request waits for a collector; spans that find no room are dropped.

mod config;
mod export;

pub use config::{TracesPlan, read};
pub use export::{ExportError, Exporting};
