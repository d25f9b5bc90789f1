//! Settings of admission: the plugins that run, and their configurations.

use super::{EventLimit, NodeSelectors, PluginSelection, PodSecuritySettings, TolerationLists};

/// The selected plugins and their configurations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The plugins that are asked.
    pub selection: PluginSelection,
    /// Of `PodSecurity`.
    pub pod_security: PodSecuritySettings,
    /// Of `PodNodeSelector`.
    pub node_selectors: NodeSelectors,
    /// Of `PodTolerationRestriction`.
    pub tolerations: TolerationLists,
    /// Of `EventRateLimit`; empty limits nothing.
    pub event_limits: Vec<EventLimit>,
    /// Of `DefaultTolerationSeconds`.
    pub toleration_seconds: TolerationSeconds,
}

/// How long pods stay on a node in trouble unless they say otherwise, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TolerationSeconds {
    /// On a node that is not ready.
    pub not_ready: i64,
    /// On a node that is unreachable.
    pub unreachable: i64,
}

impl Default for TolerationSeconds {
    /// The reference's five minutes.
    fn default() -> Self {
        TolerationSeconds { not_ready: 300, unreachable: 300 }
    }
}
