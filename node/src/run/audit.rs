//! The audit of a node: from its flags to an auditor with open sinks.
//!
//! Owns checking the flags, opening the sinks once, reading the policy again when its file changes, and storing what is
//! left in the buffers when the node stops.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use orch_api::ambient::SystemAmbient;
use orch_api::audit::policy::PolicyError;
use orch_api::audit::{Auditor, Policy, Sink};
use orch_api::egress::{Egress, Url};
use orch_proto::Brand;
use orch_serving::files;
use orch_serving::stamps;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::error::RunError;
use crate::audit::{
    BatchOptions, LineFormat, LogOptions, Mode, RotationOptions, SinkOptions, Target, Throttle,
    WebhookOptions, Worker, open_log, start_webhook,
};
use crate::cli::{AuditArgs, AuditFormat, AuditMode};
use crate::egress::{TargetFile, read_target};

/// Bytes of the largest policy file: some thousand rules. A larger file is taken for the wrong one.
const POLICY_BYTES_MAX: u64 = 1 << 20;

/// Bytes of a file before it is rotated, where `--audit-log-maxsize` is 0.
const ROTATED_BYTES: u64 = 100 * MEGABYTE;

/// A megabyte as `--audit-log-maxsize` counts it.
const MEGABYTE: u64 = 1 << 20;

/// A day, the unit of `--audit-log-maxage`.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A policy file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFileError {
    /// It cannot be read.
    #[error("cannot read it")]
    Unreadable(#[from] std::io::Error),
    /// It is larger than 1 MiB.
    #[error("it is larger than {POLICY_BYTES_MAX} bytes")]
    TooLarge,
    /// It is no policy, or a wrong one.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// The audit of a node. Clones share the sinks.
#[derive(Clone, Debug)]
pub struct Audit(Option<Arc<Plan>>);

struct Plan {
    policy_file: PathBuf,
    policy: Arc<ArcSwap<Policy>>,
    log: Option<LogOptions>,
    webhook: Option<WebhookPlan>,
    /// Empty until they are opened, and again when the node has stopped.
    sinks: Mutex<Vec<Arc<Worker>>>,
}

/// A webhook, with the server to ask.
struct WebhookPlan {
    options: WebhookOptions,
    egress: Arc<dyn Egress>,
    url: Url,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("policy_file", &self.policy_file).finish_non_exhaustive()
    }
}

impl Audit {
    /// Checks the flags, and reads the policy and the webhook's configuration. Opens nothing.
    pub(super) fn plan(flags: &AuditArgs) -> Result<Audit, RunError> {
        let (log, webhook) = (log_options(flags)?, webhook_plan(flags)?);
        let has_sink = log.is_some() || webhook.is_some();
        let Some(policy_file) = flags.audit_policy_file.clone() else {
            if has_sink {
                tracing::warn!("no --audit-policy-file: nothing is audited");
            }
            return Ok(Audit(None));
        };
        // Read also where there is no sink: a fault in the file is reported at the start.
        let policy = read_policy(&policy_file)
            .map_err(|source| RunError::AuditPolicy { path: policy_file.clone(), source })?;
        if !has_sink {
            let sinks = "--audit-log-path or --audit-webhook-config-file";
            tracing::warn!("--audit-policy-file without {sinks}: nothing is audited");
            return Ok(Audit(None));
        }
        let policy = Arc::new(ArcSwap::from_pointee(policy));
        Ok(Audit(Some(Arc::new(Plan { policy_file, policy, log, webhook, sinks: Mutex::default() }))))
    }

    /// Opens the sinks. Called once, on the runtime.
    pub(super) fn open(&self) -> Result<(), RunError> {
        let Some(plan) = &self.0 else { return Ok(()) };
        let mut opened = Vec::new();
        if let Some(log) = &plan.log {
            let sink = open_log(log).map_err(|source| {
                let path = match &log.target {
                    Target::File(path, _) => path.clone(),
                    Target::Stdout => PathBuf::from("-"),
                };
                RunError::AuditLog { path, source }
            })?;
            opened.push(Arc::new(sink));
        }
        if let Some(WebhookPlan { options, egress, url }) = &plan.webhook {
            let sink = start_webhook(*options, egress.clone(), url.clone(), Handle::current());
            let sink = sink.map_err(|source| RunError::System { action: "start threads", source })?;
            opened.push(Arc::new(sink));
        }
        *plan.sinks() = opened;
        Ok(())
    }

    /// The auditor of a cluster of `brand`, with the sinks that are open; `None` where nothing is audited.
    pub(super) fn auditor(&self, brand: &'static Brand) -> Option<Arc<Auditor>> {
        let plan = self.0.as_ref()?;
        let sinks = plan.sinks().iter().cloned().map(|sink| sink as Arc<dyn Sink>).collect();
        Some(Auditor::new(brand, plan.policy.clone(), sinks, Arc::new(SystemAmbient)))
    }

    /// Reads the policy again when its file has changed, until `stopped`. A wrong one is not taken up.
    pub(super) fn follow(&self, stopped: CancellationToken) {
        let Some(plan) = self.0.clone() else { return };
        tokio::spawn(async move {
            let files = vec![plan.policy_file.clone()];
            let reload = || read_policy(&plan.policy_file).map(|policy| plan.policy.store(Arc::new(policy)));
            if let Err(error) = stamps::follow("audit policy", files, reload, stopped).await {
                tracing::warn!(%error, "a changed audit policy is not taken up by itself");
            }
        });
    }

    /// Stores what is left in the buffers. Later events are lost.
    pub(super) async fn stop(&self) {
        let Some(plan) = &self.0 else { return };
        let sinks = std::mem::take(&mut *plan.sinks());
        for sink in sinks {
            let stopped = tokio::task::spawn_blocking(move || sink.stop());
            if let Err(error) = stopped.await {
                tracing::warn!(%error, "the audit was not brought to its end");
            }
        }
    }
}

impl Plan {
    fn sinks(&self) -> MutexGuard<'_, Vec<Arc<Worker>>> {
        self.sinks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_policy(path: &Path) -> Result<Policy, PolicyFileError> {
    match files::read_text(path, POLICY_BYTES_MAX) {
        Err(error) if error.kind() == ErrorKind::FileTooLarge => Err(PolicyFileError::TooLarge),
        read => Ok(Policy::parse(&read?)?),
    }
}

/// The settings of `--audit-log-path`; `None` without the flag.
fn log_options(flags: &AuditArgs) -> Result<Option<LogOptions>, RunError> {
    let Some(path) = &flags.audit_log_path else { return Ok(None) };
    let target = if path == Path::new("-") {
        Target::Stdout
    } else {
        let megabytes = u64::from(flags.audit_log_maxsize);
        let rotation = RotationOptions {
            bytes_max: if megabytes == 0 { ROTATED_BYTES } else { megabytes * MEGABYTE },
            age_max: flags.audit_log_maxage * DAY,
            backups_max: usize::try_from(flags.audit_log_maxbackup).unwrap_or(usize::MAX),
            compresses: flags.audit_log_compress,
        };
        Target::File(path.clone(), rotation)
    };
    let given = SinkFlags {
        prefix: "audit-log",
        mode: flags.audit_log_mode,
        buffer: flags.audit_log_batch_buffer_size,
        batch: flags.audit_log_batch_max_size,
        wait: flags.audit_log_batch_max_wait,
        is_throttled: flags.audit_log_batch_throttle_enable,
        rate: flags.audit_log_batch_throttle_qps,
        burst: flags.audit_log_batch_throttle_burst,
        is_cut: flags.audit_log_truncate_enabled,
        event_bytes_max: flags.audit_log_truncate_max_event_size,
        batch_bytes_max: flags.audit_log_truncate_max_batch_size,
    };
    let format = match flags.audit_log_format {
        AuditFormat::Json => LineFormat::Json,
        AuditFormat::Legacy => LineFormat::Legacy,
    };
    Ok(Some(LogOptions { target, format, sink: given.options()? }))
}

/// The settings of `--audit-webhook-config-file`; `None` without the flag.
fn webhook_plan(flags: &AuditArgs) -> Result<Option<WebhookPlan>, RunError> {
    let Some(path) = &flags.audit_webhook_config_file else { return Ok(None) };
    let given = SinkFlags {
        prefix: "audit-webhook",
        mode: flags.audit_webhook_mode,
        buffer: flags.audit_webhook_batch_buffer_size,
        batch: flags.audit_webhook_batch_max_size,
        wait: flags.audit_webhook_batch_max_wait,
        is_throttled: flags.audit_webhook_batch_throttle_enable,
        rate: flags.audit_webhook_batch_throttle_qps,
        burst: flags.audit_webhook_batch_throttle_burst,
        is_cut: flags.audit_webhook_truncate_enabled,
        event_bytes_max: flags.audit_webhook_truncate_max_event_size,
        batch_bytes_max: flags.audit_webhook_truncate_max_batch_size,
    };
    let sink = given.options()?;
    let TargetFile { target, url } = read_target(path).map_err(RunError::AuditWebhook)?;
    let options = WebhookOptions { sink, initial_backoff: flags.audit_webhook_initial_backoff };
    Ok(Some(WebhookPlan { options, egress: Arc::new(target), url }))
}

/// The flags that both sinks have.
struct SinkFlags {
    /// Prefix of their names.
    prefix: &'static str,
    mode: AuditMode,
    buffer: usize,
    batch: usize,
    wait: Duration,
    is_throttled: bool,
    rate: f64,
    burst: u32,
    is_cut: bool,
    event_bytes_max: usize,
    batch_bytes_max: usize,
}

impl SinkFlags {
    /// The settings that the flags ask for.
    fn options(&self) -> Result<SinkOptions, RunError> {
        let (mode, (event_bytes_max, batch_bytes_max)) = (self.mode()?, self.bounds()?);
        Ok(SinkOptions { mode, event_bytes_max, batch_bytes_max })
    }

    fn mode(&self) -> Result<Mode, RunError> {
        match self.mode {
            AuditMode::Blocking => return Ok(Mode::Blocking),
            AuditMode::BlockingStrict => return Ok(Mode::BlockingStrict),
            AuditMode::Batch => {}
        }
        if self.buffer == 0 {
            return Err(self.fault("batch-buffer-size", "must be positive"));
        }
        if self.batch == 0 || self.batch > self.buffer {
            return Err(self.fault("batch-max-size", "must be positive, and at most the buffer's size"));
        }
        let throttle = self.is_throttled.then_some(Throttle { rate: self.rate, burst: self.burst });
        if let Some(Throttle { rate, burst }) = throttle {
            if !(rate.is_finite() && rate > 0.0) {
                return Err(self.fault("batch-throttle-qps", "must be positive"));
            }
            if burst == 0 {
                return Err(self.fault("batch-throttle-burst", "must be positive"));
            }
        }
        Ok(Mode::Batch(BatchOptions { buffer: self.buffer, batch: self.batch, wait: self.wait, throttle }))
    }

    /// Bytes of the longest event and of the longest batch.
    fn bounds(&self) -> Result<(usize, usize), RunError> {
        match (self.event_bytes_max, self.batch_bytes_max) {
            _ if !self.is_cut => Ok((usize::MAX, usize::MAX)),
            (0, _) => Err(self.fault("truncate-max-event-size", "must be positive")),
            (event, batch) if batch < event => {
                Err(self.fault("truncate-max-batch-size", "must be at least the size of an event"))
            }
            bounds => Ok(bounds),
        }
    }

    fn fault(&self, name: &str, reason: &str) -> RunError {
        RunError::Flags(format!("--{}-{name} {reason}", self.prefix))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cli::{Cli, Command, parse};
    use orch_serving::Causes;

    fn plan(flags: &str) -> Result<Audit, String> {
        let line = format!("orch dev {flags}");
        let Cli { command } = parse(line.split_whitespace().map(Into::into).collect()).unwrap();
        let Command::Dev(arguments) = command else { panic!("{line}") };
        Audit::plan(&arguments.shared.audit).map_err(|error| Causes(&error).to_string())
    }

    #[test]
    fn wrong_flags_are_named() {
        let log = "--audit-log-path=audit.log";
        for (flags, expected) in [
            ("--audit-log-mode=batch --audit-log-batch-buffer-size=0", "--audit-log-batch-buffer-size"),
            ("--audit-log-mode=batch --audit-log-batch-max-size=0", "--audit-log-batch-max-size"),
            ("--audit-log-mode=batch --audit-log-batch-max-size=20000", "--audit-log-batch-max-size"),
            ("--audit-log-mode=batch --audit-log-batch-throttle-enable", "--audit-log-batch-throttle-qps"),
            (
                "--audit-log-mode=batch --audit-log-batch-throttle-enable --audit-log-batch-throttle-qps=1",
                "--audit-log-batch-throttle-burst",
            ),
            ("--audit-log-truncate-enabled --audit-log-truncate-max-event-size=0", "-max-event-size must"),
            ("--audit-log-truncate-enabled --audit-log-truncate-max-batch-size=1", "-max-batch-size must"),
            ("--audit-webhook-config-file=/nonexistent/hook.conf", "/nonexistent/hook.conf"),
            ("--audit-policy-file=/nonexistent/policy.yaml", "--audit-policy-file: /nonexistent/policy.yaml"),
        ] {
            let told = plan(&format!("{log} {flags}")).unwrap_err();
            assert!(told.contains(expected), "{flags}: {told}");
        }
    }

    #[tokio::test]
    async fn a_policy_and_a_place_make_an_audit() {
        let directory = tempfile::tempdir().unwrap();
        let (policy, log) = (directory.path().join("policy.yaml"), directory.path().join("audit.log"));
        let flags = format!("--audit-policy-file={} --audit-log-path={}", policy.display(), log.display());
        let rules = |rules: &str| {
            let text = format!("apiVersion: audit.orch.io/v1\nkind: Policy\nrules: {rules}\n");
            fs::write(&policy, text).unwrap();
        };
        rules("[{level: All}]");
        let told = plan(&flags).unwrap_err();
        assert!(told.contains("policy.yaml") && told.contains("rules[0].level"), "{told}");
        rules("[{level: Metadata}]");
        let audit = plan(&flags).unwrap();
        assert!(!log.exists(), "a plan writes nothing");
        audit.open().unwrap();
        assert!(log.exists());
        assert!(audit.auditor(&orch_proto::brand::ORCH).is_some());
        for part in flags.split(' ') {
            assert!(plan(part).unwrap().0.is_none(), "{part} alone audits nothing");
        }
        assert!(plan("").unwrap().0.is_none());
    }
}
