//! `orch doctor`: whether a machine and a data directory are fit for a member, before it starts.
//!
//! Owns the list of checks, and the report. Each check names what it looked at; a finding names the fault and the next step. Nothing is
//! changed: the files that it writes to measure the disk are removed, and a store is only read, if no process has it.

mod certificates;
mod disk;
mod machine;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::process::ExitCode;

use serde_json::json;
use time::OffsetDateTime;

use self::machine::Machine;
use crate::cli::{DoctorArgs, Output};

/// Exit code where something should be done before the start.
const CODE_WARNING: u8 = 3;
/// Exit code where the start would fail, or the member do harm.
const CODE_FAULT: u8 = 4;

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    /// The member starts, and somebody will regret it.
    Warning,
    /// The start fails.
    Fault,
}

/// A check, and what it found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    /// A word for programs.
    name: &'static str,
    /// The subject of the check, with its figures.
    looked_at: String,
    findings: Vec<Finding>,
}

/// A fault with the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    severity: Severity,
    message: String,
    next: String,
}

impl Check {
    /// A check of what is fit.
    fn passed(name: &'static str, looked_at: impl Into<String>) -> Check {
        Check { name, looked_at: looked_at.into(), findings: Vec::new() }
    }

    fn warn(&mut self, message: impl Into<String>, next: impl Into<String>) {
        self.findings.push(Finding {
            severity: Severity::Warning,
            message: message.into(),
            next: next.into(),
        });
    }

    fn fault(&mut self, message: impl Into<String>, next: impl Into<String>) {
        self.findings.push(Finding { severity: Severity::Fault, message: message.into(), next: next.into() });
    }
}

/// Carries out the checks that `arguments` ask for, and prints them.
///
/// # Errors
/// The output cannot be written.
pub fn doctor(arguments: &DoctorArgs, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let checks = examine(arguments, &Machine::of_this_process(OffsetDateTime::now_utc()));
    match arguments.output {
        Output::Json => writeln!(out, "{:#}", document(&checks))?,
        Output::Text => write!(out, "{}", text(&checks))?,
    }
    Ok(ExitCode::from(code(&checks)))
}

fn examine(arguments: &DoctorArgs, machine: &Machine) -> Vec<Check> {
    let mut checks = disk::checks(&arguments.data_dir, arguments.name.as_deref());
    checks.extend(machine::checks(arguments, machine));
    if let Some(dir) = &arguments.certs_dir {
        let member = (arguments.name.as_deref(), &*arguments.bind_address);
        checks.extend(certificates::checks(dir, member, machine.now));
    }
    checks
}

fn worst(checks: &[Check]) -> Option<Severity> {
    checks.iter().flat_map(|check| &check.findings).map(|finding| finding.severity).max()
}

fn code(checks: &[Check]) -> u8 {
    match worst(checks) {
        None => 0,
        Some(Severity::Warning) => CODE_WARNING,
        Some(Severity::Fault) => CODE_FAULT,
    }
}

fn text(checks: &[Check]) -> String {
    let mut out = String::new();
    for check in checks {
        let mark = match worst(std::slice::from_ref(check)) {
            None => "ok",
            Some(Severity::Warning) => " !",
            Some(Severity::Fault) => "!!",
        };
        out += &format!("{mark} {}: {}\n", check.name, check.looked_at);
        for finding in &check.findings {
            out += &format!("     {}\n     -> {}\n", finding.message, finding.next);
        }
    }
    out += match worst(checks) {
        None => "\nnothing is to be done\n",
        Some(Severity::Warning) => "\na member starts here, and should not yet\n",
        Some(Severity::Fault) => "\na member does not start here\n",
    };
    out
}

fn document(checks: &[Check]) -> serde_json::Value {
    let of = |check: &Check| {
        let findings = check.findings.iter().map(|finding| {
            let severity = if finding.severity == Severity::Fault { "fault" } else { "warning" };
            json!({"severity": severity, "message": finding.message, "next": finding.next})
        });
        json!({"name": check.name, "lookedAt": check.looked_at, "findings": findings.collect::<Vec<_>>()})
    };
    json!({"checks": checks.iter().map(of).collect::<Vec<_>>(), "code": code(checks)})
}
