//! The pod security standards: what a pod may ask of its node at the levels `baseline` and `restricted`.
//!
//! Owns the levels, their versions, the labels of namespaces that name them, and the checks with the versions in which
//! they changed. It knows no namespace and refuses nothing: the admission plugin `PodSecurity` asks it.
//!
//! A check belongs to a level and has revisions; of a policy's version the newest revision that is not newer counts. The
//! level `restricted` has the checks of `baseline`, too, but those that a stricter check replaces. Violations are listed
//! in the order of the checks' names, `baseline` first, as the reference lists them (vectors/admission).

mod host;
mod isolation;
mod level;
mod pod;
mod restricted;
#[cfg(test)]
mod tests;

use orch_proto::Brand;
use orch_schema::value::Value;

pub use level::{Level, LevelVersion, Mode, Policy, Version, WRONG_LEVEL, WRONG_VERSION, label};
use pod::Pod;

/// A check that a pod does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Short text: `host namespaces`.
    pub reason: &'static str,
    /// The values that break the rule: `hostNetwork=true`.
    pub detail: String,
}

/// A rule of the standards.
struct Check {
    name: &'static str,
    /// Oldest first.
    revisions: &'static [Revision],
}

/// A check as it stands from one version on.
struct Revision {
    /// Minor version of the first policy with this revision.
    since: u64,
    run: fn(&Pod<'_>) -> Option<Violation>,
    /// The check of `baseline` that this one replaces.
    replaces: Option<&'static str>,
}

const fn since(minor: u64, run: fn(&Pod<'_>) -> Option<Violation>) -> Revision {
    Revision { since: minor, run, replaces: None }
}

const fn instead_of(name: &'static str, minor: u64, run: fn(&Pod<'_>) -> Option<Violation>) -> Revision {
    Revision { since: minor, run, replaces: Some(name) }
}

/// The checks of the level `baseline`, by name.
const BASELINE: [Check; 12] = [
    Check { name: "appArmorProfile", revisions: &[since(0, isolation::app_armor)] },
    Check { name: "capabilities_baseline", revisions: &[since(0, isolation::capabilities)] },
    Check { name: "hostNamespaces", revisions: &[since(0, host::namespaces)] },
    Check { name: "hostPathVolumes", revisions: &[since(0, host::paths)] },
    Check { name: "hostPorts", revisions: &[since(0, host::ports)] },
    Check { name: "hostProbesAndHostLifecycle", revisions: &[since(34, host::probes)] },
    Check { name: "privileged", revisions: &[since(0, host::privileged)] },
    Check {
        name: "procMount",
        revisions: &[
            since(0, isolation::proc_mount),
            since(35, isolation::proc_mount_outside_user_namespaces),
        ],
    },
    Check {
        name: "seLinuxOptions",
        revisions: &[since(0, isolation::se_linux), since(31, isolation::se_linux_with_engine)],
    },
    Check {
        name: "seccompProfile_baseline",
        revisions: &[since(0, isolation::seccomp_annotations), since(19, isolation::seccomp)],
    },
    Check {
        name: "sysctls",
        revisions: &[
            since(0, isolation::sysctls_of_0),
            since(27, isolation::sysctls_of_27),
            since(29, isolation::sysctls_of_29),
            since(32, isolation::sysctls_of_32),
        ],
    },
    Check { name: "windowsHostProcess", revisions: &[since(0, host::processes)] },
];

/// The further checks of the level `restricted`, by name.
const RESTRICTED: [Check; 7] = [
    Check {
        name: "allowPrivilegeEscalation",
        revisions: &[since(8, restricted::escalation), since(25, restricted::escalation_but_on_windows)],
    },
    Check {
        name: "capabilities_restricted",
        revisions: &[
            instead_of("capabilities_baseline", 22, restricted::capabilities),
            instead_of("capabilities_baseline", 25, restricted::capabilities_but_on_windows),
        ],
    },
    Check { name: "procMount_restricted", revisions: &[instead_of("procMount", 35, isolation::proc_mount)] },
    Check { name: "restrictedVolumes", revisions: &[instead_of("hostPathVolumes", 0, restricted::volumes)] },
    Check {
        name: "runAsNonRoot",
        revisions: &[since(0, restricted::non_root), since(35, restricted::non_root_outside_user_namespaces)],
    },
    Check {
        name: "runAsUser",
        revisions: &[since(23, restricted::user), since(35, restricted::user_outside_user_namespaces)],
    },
    Check {
        name: "seccompProfile_restricted",
        revisions: &[
            instead_of("seccompProfile_baseline", 19, restricted::seccomp),
            instead_of("seccompProfile_baseline", 25, restricted::seccomp_but_on_windows),
        ],
    },
];

impl Check {
    /// The revision in a policy of this minor version; `None`: the check is newer.
    fn revision(&self, minor: u64) -> Option<&Revision> {
        // few: of constants.
        self.revisions.iter().rev().find(|revision| revision.since <= minor)
    }
}

/// The checks of `policy` that a pod with this metadata and this spec does not pass.
pub fn evaluate(policy: LevelVersion, brand: &Brand, metadata: &Value, spec: &Value) -> Vec<Violation> {
    let minor = match policy.version {
        Version::Latest => u64::MAX,
        Version::Minor(minor) => minor,
    };
    let of = |checks: &'static [Check]| {
        checks.iter().filter_map(move |check| Some((check.name, check.revision(minor)?)))
    };
    let (baseline, further): (Vec<_>, Vec<_>) = match policy.level {
        Level::Privileged => return Vec::new(),
        Level::Baseline => (of(&BASELINE).collect(), Vec::new()),
        Level::Restricted => (of(&BASELINE).collect(), of(&RESTRICTED).collect()),
    };
    let pod = Pod { brand, metadata, spec };
    // few: the checks of one level.
    let is_replaced = |name: &str| further.iter().any(|(_, revision)| revision.replaces == Some(name));
    let kept = baseline.iter().filter(|(name, _)| !is_replaced(name));
    kept.chain(&further).filter_map(|(_, revision)| (revision.run)(&pod)).collect()
}

/// Violations with their values: `hostPort (container "c" uses hostPort 80), privileged (...)`.
pub fn details(violations: &[Violation]) -> String {
    let shown = |violation: &Violation| match violation.detail.as_str() {
        "" => violation.reason.to_owned(),
        detail => format!("{} ({detail})", violation.reason),
    };
    violations.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// Violations without their values: `hostPort, privileged`.
pub fn reasons(violations: &[Violation]) -> String {
    violations.iter().map(|violation| violation.reason).collect::<Vec<_>>().join(", ")
}
