//! Flags of the audit, under the reference's names.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};

use super::duration::parse_duration;

/// Heading of these flags in `--help`.
const AUDIT: &str = "Audit";

/// Flags of the audit.
#[derive(Clone, Debug, Args)]
pub struct AuditArgs {
    /// Which requests are audited and at which level: a Policy as of the reference. Without it nothing is audited. Read
    /// again when it changes, and on SIGHUP
    #[arg(long, value_name = "FILE", help_heading = AUDIT)]
    pub audit_policy_file: Option<PathBuf>,
    /// Where events are written, one JSON document a line; - is standard output
    #[arg(long, value_name = "PATH", help_heading = AUDIT)]
    pub audit_log_path: Option<PathBuf>,
    /// Form of the lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = AuditFormat::Json, help_heading = AUDIT)]
    pub audit_log_format: AuditFormat,
    /// Days for which rotated files are kept; 0 for ever
    #[arg(long, value_name = "DAYS", default_value_t = 0, help_heading = AUDIT)]
    pub audit_log_maxage: u32,
    /// Rotated files that are kept; 0 for all
    #[arg(long, value_name = "COUNT", default_value_t = 0, help_heading = AUDIT)]
    pub audit_log_maxbackup: u32,
    /// Megabytes at which the file is rotated; 0 for 100
    #[arg(long, value_name = "MB", default_value_t = 0, help_heading = AUDIT)]
    pub audit_log_maxsize: u32,
    /// Compress rotated files with gzip
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set, help_heading = AUDIT)]
    pub audit_log_compress: bool,
    /// What a request waits for: batch for nothing (events are dropped while the buffer is full), blocking for its events to
    /// be written, blocking-strict likewise, and a request whose arrival cannot be written fails before anything is done
    #[arg(long, value_name = "MODE", value_enum, default_value_t = AuditMode::Blocking, help_heading = AUDIT)]
    pub audit_log_mode: AuditMode,
    /// Events that wait to be written, in mode batch
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, help_heading = AUDIT)]
    pub audit_log_batch_buffer_size: usize,
    /// Events that are written at once, in mode batch
    #[arg(long, value_name = "COUNT", default_value_t = 1, help_heading = AUDIT)]
    pub audit_log_batch_max_size: usize,
    /// How long a batch waits to fill, in mode batch
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration, help_heading = AUDIT)]
    pub audit_log_batch_max_wait: Duration,
    /// Limit the batches a second, in mode batch
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set, help_heading = AUDIT)]
    pub audit_log_batch_throttle_enable: bool,
    /// Batches a second, if they are limited
    #[arg(long, value_name = "RATE", default_value_t = 0.0, help_heading = AUDIT)]
    pub audit_log_batch_throttle_qps: f64,
    /// Batches at once after a pause, if they are limited
    #[arg(long, value_name = "COUNT", default_value_t = 0, help_heading = AUDIT)]
    pub audit_log_batch_throttle_burst: u32,
    /// Cut events and batches that are too long
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set, help_heading = AUDIT)]
    pub audit_log_truncate_enabled: bool,
    /// Bytes of an event above which its objects are left out, and without them the event
    #[arg(long, value_name = "BYTES", default_value_t = 100 << 10, help_heading = AUDIT)]
    pub audit_log_truncate_max_event_size: usize,
    /// Bytes of a batch above which it is divided
    #[arg(long, value_name = "BYTES", default_value_t = 10 << 20, help_heading = AUDIT)]
    pub audit_log_truncate_max_batch_size: usize,
    /// Where events are posted in batches: a client configuration (kubeconfig) whose server is the URL
    #[arg(long, value_name = "FILE", help_heading = AUDIT)]
    pub audit_webhook_config_file: Option<PathBuf>,
    /// As --audit-log-mode, for the webhook
    #[arg(long, value_name = "MODE", value_enum, default_value_t = AuditMode::Batch, help_heading = AUDIT)]
    pub audit_webhook_mode: AuditMode,
    /// Pause before a batch is posted a second time; it grows with each of five attempts
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration, help_heading = AUDIT)]
    pub audit_webhook_initial_backoff: Duration,
    /// Events that wait to be posted, in mode batch
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, help_heading = AUDIT)]
    pub audit_webhook_batch_buffer_size: usize,
    /// Events of one batch, in mode batch
    #[arg(long, value_name = "COUNT", default_value_t = 400, help_heading = AUDIT)]
    pub audit_webhook_batch_max_size: usize,
    /// How long a batch waits to fill, in mode batch
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration, help_heading = AUDIT)]
    pub audit_webhook_batch_max_wait: Duration,
    /// Limit the batches a second, in mode batch
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "true", action = ArgAction::Set, help_heading = AUDIT)]
    pub audit_webhook_batch_throttle_enable: bool,
    /// Batches a second, if they are limited
    #[arg(long, value_name = "RATE", default_value_t = 10.0, help_heading = AUDIT)]
    pub audit_webhook_batch_throttle_qps: f64,
    /// Batches at once after a pause, if they are limited
    #[arg(long, value_name = "COUNT", default_value_t = 15, help_heading = AUDIT)]
    pub audit_webhook_batch_throttle_burst: u32,
    /// Cut events and batches that are too long
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set, help_heading = AUDIT)]
    pub audit_webhook_truncate_enabled: bool,
    /// Bytes of an event above which its objects are left out, and without them the event
    #[arg(long, value_name = "BYTES", default_value_t = 100 << 10, help_heading = AUDIT)]
    pub audit_webhook_truncate_max_event_size: usize,
    /// Bytes of a batch above which it is divided
    #[arg(long, value_name = "BYTES", default_value_t = 10 << 20, help_heading = AUDIT)]
    pub audit_webhook_truncate_max_batch_size: usize,
}

/// Form of the lines of an audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuditFormat {
    /// One JSON document a line.
    Json,
    /// Some members of each event as text, without any object.
    Legacy,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuditMode {
    /// For nothing. Events that find the buffer full are dropped and counted.
    Batch,
    /// For its events to be stored. Those that cannot be stored are counted.
    Blocking,
    /// As blocking, and if the event of a request's arrival cannot be stored, the request fails.
    BlockingStrict,
}
