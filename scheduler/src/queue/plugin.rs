//! The plugins that may reject a pod, as numbers and sets.
//!
//! Owns their names and which of them is which bit. Never says what a plugin does: hints are in [`super::hints`], filters
//! in the planner.

use std::fmt;

/// A plugin of the default configuration, or whoever else rejects pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the reference's, and each is the name of a plugin")]
pub enum Plugin {
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    /// HTTP extenders together: nothing is known of what they look at.
    Extender,
}

impl Plugin {
    /// All plugins, in the order of the default configuration.
    pub const ALL: [Plugin; 21] = [
        Plugin::SchedulingGates,
        Plugin::PrioritySort,
        Plugin::NodeUnschedulable,
        Plugin::NodeName,
        Plugin::TaintToleration,
        Plugin::NodeAffinity,
        Plugin::NodePorts,
        Plugin::NodeResourcesFit,
        Plugin::VolumeRestrictions,
        Plugin::NodeVolumeLimits,
        Plugin::VolumeBinding,
        Plugin::VolumeZone,
        Plugin::PodTopologySpread,
        Plugin::InterPodAffinity,
        Plugin::DynamicResources,
        Plugin::DefaultPreemption,
        Plugin::NodeResourcesBalancedAllocation,
        Plugin::ImageLocality,
        Plugin::DefaultBinder,
        Plugin::NodeDeclaredFeatures,
        Plugin::Extender,
    ];

    /// The name in configurations, metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Plugin::SchedulingGates => "SchedulingGates",
            Plugin::PrioritySort => "PrioritySort",
            Plugin::NodeUnschedulable => "NodeUnschedulable",
            Plugin::NodeName => "NodeName",
            Plugin::TaintToleration => "TaintToleration",
            Plugin::NodeAffinity => "NodeAffinity",
            Plugin::NodePorts => "NodePorts",
            Plugin::NodeResourcesFit => "NodeResourcesFit",
            Plugin::VolumeRestrictions => "VolumeRestrictions",
            Plugin::NodeVolumeLimits => "NodeVolumeLimits",
            Plugin::VolumeBinding => "VolumeBinding",
            Plugin::VolumeZone => "VolumeZone",
            Plugin::PodTopologySpread => "PodTopologySpread",
            Plugin::InterPodAffinity => "InterPodAffinity",
            Plugin::DynamicResources => "DynamicResources",
            Plugin::DefaultPreemption => "DefaultPreemption",
            Plugin::NodeResourcesBalancedAllocation => "NodeResourcesBalancedAllocation",
            Plugin::ImageLocality => "ImageLocality",
            Plugin::DefaultBinder => "DefaultBinder",
            Plugin::NodeDeclaredFeatures => "NodeDeclaredFeatures",
            Plugin::Extender => "Extender",
        }
    }

    /// The plugin called `name`.
    pub fn named(name: &str) -> Option<Plugin> {
        Plugin::ALL.into_iter().find(|plugin| plugin.name() == name)
    }

    fn bit(self) -> u32 {
        1 << (self as u8)
    }
}

/// A set of plugins.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginSet(u32);

impl PluginSet {
    /// No plugin.
    pub const NONE: PluginSet = PluginSet(0);

    /// Every plugin.
    pub fn all() -> PluginSet {
        Plugin::ALL.into_iter().collect()
    }

    /// Whether the set has no plugin.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `plugin` is in the set.
    pub fn contains(self, plugin: Plugin) -> bool {
        self.0 & plugin.bit() != 0
    }

    /// The set with `plugin`.
    #[must_use]
    pub fn with(self, plugin: Plugin) -> PluginSet {
        PluginSet(self.0 | plugin.bit())
    }

    /// What is in either set.
    #[must_use]
    pub fn union(self, other: PluginSet) -> PluginSet {
        PluginSet(self.0 | other.0)
    }

    /// What is in both sets.
    #[must_use]
    pub fn intersection(self, other: PluginSet) -> PluginSet {
        PluginSet(self.0 & other.0)
    }

    /// The plugins, in the order of the default configuration.
    pub fn iter(self) -> impl Iterator<Item = Plugin> {
        Plugin::ALL.into_iter().filter(move |plugin| self.contains(*plugin))
    }
}

impl FromIterator<Plugin> for PluginSet {
    fn from_iter<I: IntoIterator<Item = Plugin>>(plugins: I) -> PluginSet {
        plugins.into_iter().fold(PluginSet::NONE, PluginSet::with)
    }
}

impl fmt::Debug for PluginSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Plugin::name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_plugins() {
        for plugin in Plugin::ALL {
            assert_eq!(Plugin::named(plugin.name()), Some(plugin));
        }
        assert_eq!(Plugin::named("NodeResources"), None);
    }

    #[test]
    fn sets_hold_what_was_put_in() {
        for plugin in Plugin::ALL {
            let set = PluginSet::NONE.with(plugin);
            assert_eq!(set.iter().collect::<Vec<_>>(), [plugin]);
            assert!(PluginSet::all().contains(plugin));
            assert_eq!(set.intersection(PluginSet::all()), set);
            assert_eq!(set.union(PluginSet::all()), PluginSet::all());
        }
        assert!(PluginSet::NONE.is_empty());
    }
}
