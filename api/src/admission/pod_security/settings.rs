//! The configuration of `PodSecurity`.

use std::collections::BTreeSet;

use orch_rules::pod_security::Policy;

/// The configuration of `PodSecurity`. By default namespaces without labels have no rule, and nobody is exempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSecuritySettings {
    /// Levels of namespaces without labels.
    pub defaults: Policy,
    /// Users whose pods are not looked at.
    pub exempt_users: BTreeSet<String>,
    /// Namespaces whose pods are not looked at.
    pub exempt_namespaces: BTreeSet<String>,
    /// Runtime classes whose pods are not looked at.
    pub exempt_runtime_classes: BTreeSet<String>,
}
