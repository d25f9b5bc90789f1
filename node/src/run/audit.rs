//! The audit of a node: from its flags to an auditor with open sinks.
//!
//! Owns checking the flags, opening the sinks once, reading the policy again when its file changes, and storing what is
//! left in the buffers when the node stops.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use orch_api::ambient::SystemAmbient;
use orch_api::audit::policy::PolicyError;
use orch_api::audit::{Auditor, Policy, Sink};
use orch_proto::Brand;
use tokio_util::sync::CancellationToken;

use super::error::RunError;
use crate::audit::{BatchOptions, LogOptions, LogSink, Mode, RotationOptions, Target, Throttle};
use crate::cli::{AuditArgs, AuditMode};
use crate::tls;

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

#[derive(Debug)]
struct Plan {
    policy_file: PathBuf,
    policy: Arc<ArcSwap<Policy>>,
    log: LogOptions,
    sinks: Mutex<Option<Sinks>>,
}

struct Sinks(Arc<LogSink>);

impl std::fmt::Debug for Sinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sinks")
    }
}

impl Audit {
    /// Checks the flags and reads the policy. Opens nothing.
    pub(super) fn plan(flags: &AuditArgs) -> Result<Audit, RunError> {
        let log = log_options(flags)?;
        let (policy_file, log) = match (&flags.audit_policy_file, log) {
            (Some(file), Some(log)) => (file.clone(), log),
            (None, Some(_)) => {
                tracing::warn!("no --audit-policy-file: nothing is audited");
                return Ok(Audit(None));
            }
            (Some(_), None) => {
                tracing::warn!("--audit-policy-file without --audit-log-path: nothing is audited");
                return Ok(Audit(None));
            }
            (None, None) => return Ok(Audit(None)),
        };
        let policy = read_policy(&policy_file)
            .map_err(|source| RunError::AuditPolicy { path: policy_file.clone(), source })?;
        let policy = Arc::new(ArcSwap::from_pointee(policy));
        Ok(Audit(Some(Arc::new(Plan { policy_file, policy, log, sinks: Mutex::default() }))))
    }

    /// Opens the sinks.
    pub(super) fn open(&self) -> Result<(), RunError> {
        self.0.as_ref().map_or(Ok(()), |plan| plan.sink().map(drop))
    }

    /// The auditor of a cluster of `brand`; `None` where nothing is audited.
    pub(super) fn auditor(&self, brand: &'static Brand) -> Result<Option<Arc<Auditor>>, RunError> {
        let Some(plan) = &self.0 else { return Ok(None) };
        let sink: Arc<dyn Sink> = plan.sink()?;
        Ok(Some(Auditor::new(brand, plan.policy.clone(), vec![sink], Arc::new(SystemAmbient))))
    }

    /// Reads the policy again when its file has changed, until `stopped`. A wrong one is not taken up.
    pub(super) fn follow(&self, stopped: CancellationToken) {
        let Some(plan) = self.0.clone() else { return };
        tokio::spawn(async move {
            let files = vec![plan.policy_file.clone()];
            let reload = || read_policy(&plan.policy_file).map(|policy| plan.policy.store(Arc::new(policy)));
            if let Err(error) = tls::follow("audit policy", files, reload, stopped).await {
                tracing::warn!(%error, "a changed audit policy is not taken up by itself");
            }
        });
    }

    /// Stores what is left in the buffers. Later events are lost.
    pub(super) async fn stop(&self) {
        let Some(plan) = &self.0 else { return };
        let sinks = plan.sinks.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Sinks(sink)) = sinks
            && let Err(error) = tokio::task::spawn_blocking(move || sink.stop()).await
        {
            tracing::warn!(%error, "the audit log was not closed");
        }
    }
}

impl Plan {
    fn sink(&self) -> Result<Arc<LogSink>, RunError> {
        let mut sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Sinks(sink)) = &*sinks {
            return Ok(sink.clone());
        }
        let sink = LogSink::open(&self.log).map_err(|source| {
            let path = match &self.log.target {
                Target::File(path, _) => path.clone(),
                Target::Stdout => PathBuf::from("-"),
            };
            RunError::AuditLog { path, source }
        })?;
        let sink = Arc::new(sink);
        *sinks = Some(Sinks(sink.clone()));
        Ok(sink)
    }
}

fn read_policy(path: &Path) -> Result<Policy, PolicyFileError> {
    if fs::metadata(path)?.len() > POLICY_BYTES_MAX {
        return Err(PolicyFileError::TooLarge);
    }
    Ok(Policy::parse(&fs::read_to_string(path)?)?)
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
    let mode = match flags.audit_log_mode {
        AuditMode::Batch => Mode::Batch(batch_options(flags)?),
        AuditMode::Blocking => Mode::Blocking,
        AuditMode::BlockingStrict => Mode::BlockingStrict,
    };
    let (event, batch) = (flags.audit_log_truncate_max_event_size, flags.audit_log_truncate_max_batch_size);
    let (event_bytes_max, batch_bytes_max) = match flags.audit_log_truncate_enabled {
        false => (usize::MAX, usize::MAX),
        true if event == 0 => return Err(flag("audit-log-truncate-max-event-size", "must be positive")),
        true if batch < event => {
            let reason = "must be at least --audit-log-truncate-max-event-size";
            return Err(flag("audit-log-truncate-max-batch-size", reason));
        }
        true => (event, batch),
    };
    Ok(Some(LogOptions { target, mode, event_bytes_max, batch_bytes_max }))
}

fn batch_options(flags: &AuditArgs) -> Result<BatchOptions, RunError> {
    let (buffer, batch) = (flags.audit_log_batch_buffer_size, flags.audit_log_batch_max_size);
    if buffer == 0 {
        return Err(flag("audit-log-batch-buffer-size", "must be positive"));
    }
    if batch == 0 || batch > buffer {
        let reason = "must be positive, and at most --audit-log-batch-buffer-size";
        return Err(flag("audit-log-batch-max-size", reason));
    }
    let throttle = flags.audit_log_batch_throttle_enable.then_some(Throttle {
        rate: flags.audit_log_batch_throttle_qps,
        burst: flags.audit_log_batch_throttle_burst,
    });
    if let Some(Throttle { rate, burst }) = throttle {
        if !(rate.is_finite() && rate > 0.0) {
            return Err(flag("audit-log-batch-throttle-qps", "must be positive"));
        }
        if burst == 0 {
            return Err(flag("audit-log-batch-throttle-burst", "must be positive"));
        }
    }
    Ok(BatchOptions { buffer, batch, wait: flags.audit_log_batch_max_wait, throttle })
}

fn flag(name: &str, reason: &str) -> RunError {
    RunError::Flags(format!("--{name} {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, parse};
    use crate::report::Causes;

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
            ("--audit-policy-file=/nonexistent/policy.yaml", "--audit-policy-file: /nonexistent/policy.yaml"),
        ] {
            let told = plan(&format!("{log} {flags}")).unwrap_err();
            assert!(told.contains(expected), "{flags}: {told}");
        }
    }

    #[test]
    fn a_policy_and_a_place_make_an_audit() {
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
        assert!(audit.auditor(&orch_proto::brand::ORCH).unwrap().is_some());
        for part in flags.split(' ') {
            assert!(plan(part).unwrap().0.is_none(), "{part} alone audits nothing");
        }
        assert!(plan("").unwrap().0.is_none());
    }
}
