//! The traces of `PodSecurity`'s decisions: annotations of audit events, and counters.
//!
//! Owns their names. A series has a policy's version as it is, or `future` where this server does not know it, so that
//! labels of namespaces cannot make series without end.

use metrics::counter;
use orch_rules::pod_security::{LevelVersion, Mode, Version, label};

use super::{NAMESPACES, PODS};
use crate::admission::{Attributes, Operation};

/// Minor version of the newest policy that has a series of its own: the version of the interface that is served.
const MINOR_MAX: u64 = 36;

/// Whether a pod keeps to a policy.
#[derive(Clone, Copy)]
pub(super) enum Decision {
    Allow,
    Deny,
}

/// Adds an annotation to the audit events of the request.
pub(super) fn note(attributes: &Attributes<'_>, name: &str, text: impl FnOnce() -> String) {
    attributes.annotate(|| label(attributes.brand, name), text);
}

/// Notes that nothing was looked at, and why.
pub(super) fn exempt(attributes: &Attributes<'_>, reason: &str) {
    note(attributes, "exempt", || reason.to_owned());
    let (operation, resource) = (operation(attributes), resource(attributes));
    let subresource = attributes.action.subresource();
    counter!(
        "pod_security_exemptions_total",
        "request_operation" => operation, "resource" => resource, "subresource" => subresource
    )
    .increment(1);
}

/// Counts a decision.
pub(super) fn count(attributes: &Attributes<'_>, decision: Decision, mode: Mode, policy: LevelVersion) {
    let version = match policy.version {
        Version::Minor(minor) if minor > MINOR_MAX => "future".to_owned(),
        version => version.to_string(),
    };
    let decision = match decision {
        Decision::Allow => "allow",
        Decision::Deny => "deny",
    };
    counter!(
        "pod_security_evaluations_total",
        "decision" => decision, "mode" => mode.name(), "policy_level" => policy.level.name(), "policy_version" => version,
        "request_operation" => operation(attributes), "resource" => resource(attributes),
        "subresource" => attributes.action.subresource()
    )
    .increment(1);
}

fn operation(attributes: &Attributes<'_>) -> &'static str {
    match attributes.operation {
        Operation::Create => "create",
        Operation::Update | Operation::Delete | Operation::Connect => "update",
    }
}

fn resource(attributes: &Attributes<'_>) -> &'static str {
    match &*attributes.resource.storage {
        PODS => "pod",
        NAMESPACES => "namespace",
        _ => "controller",
    }
}
