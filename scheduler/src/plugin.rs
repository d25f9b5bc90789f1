//! The plugins and the extension points: the names that configuration, planner, queue and metrics have in common.
//!
//! Owns the one list of each, and which plugin has which extension points. The work of a plugin is in [`crate::plan`], which
//! changes of the cluster help a pod that it rejected in [`crate::queue::hints`].

/// The plugins, by the names of the configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of the configuration file, where they are described")]
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
}

/// Where plugins are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are those of the configuration file, where they are described")]
pub enum ExtensionPoint {
    PreEnqueue,
    QueueSort,
    PreFilter,
    Filter,
    PostFilter,
    PreScore,
    Score,
    Reserve,
    Permit,
    PreBind,
    Bind,
    PostBind,
}

impl ExtensionPoint {
    /// Every extension point, in the order in which profiles set them up.
    pub const ALL: [ExtensionPoint; 12] = [
        ExtensionPoint::PreFilter,
        ExtensionPoint::Filter,
        ExtensionPoint::PostFilter,
        ExtensionPoint::Reserve,
        ExtensionPoint::PreScore,
        ExtensionPoint::Score,
        ExtensionPoint::PreBind,
        ExtensionPoint::Bind,
        ExtensionPoint::PostBind,
        ExtensionPoint::Permit,
        ExtensionPoint::PreEnqueue,
        ExtensionPoint::QueueSort,
    ];

    /// Its name in metrics and messages.
    pub fn name(self) -> &'static str {
        match self {
            ExtensionPoint::PreEnqueue => "PreEnqueue",
            ExtensionPoint::QueueSort => "QueueSort",
            ExtensionPoint::PreFilter => "PreFilter",
            ExtensionPoint::Filter => "Filter",
            ExtensionPoint::PostFilter => "PostFilter",
            ExtensionPoint::PreScore => "PreScore",
            ExtensionPoint::Score => "Score",
            ExtensionPoint::Reserve => "Reserve",
            ExtensionPoint::Permit => "Permit",
            ExtensionPoint::PreBind => "PreBind",
            ExtensionPoint::Bind => "Bind",
            ExtensionPoint::PostBind => "PostBind",
        }
    }
}

use Plugin as P;

impl Plugin {
    /// Every plugin, in the order of the default configuration.
    pub const ALL: [Plugin; 20] = [
        P::SchedulingGates,
        P::PrioritySort,
        P::NodeUnschedulable,
        P::NodeName,
        P::TaintToleration,
        P::NodeAffinity,
        P::NodePorts,
        P::NodeResourcesFit,
        P::VolumeRestrictions,
        P::NodeVolumeLimits,
        P::VolumeBinding,
        P::VolumeZone,
        P::PodTopologySpread,
        P::InterPodAffinity,
        P::DynamicResources,
        P::DefaultPreemption,
        P::NodeResourcesBalancedAllocation,
        P::ImageLocality,
        P::DefaultBinder,
        P::NodeDeclaredFeatures,
    ];

    /// Its name in the configuration file, in metrics and in logs.
    pub fn name(self) -> &'static str {
        match self {
            P::SchedulingGates => "SchedulingGates",
            P::PrioritySort => "PrioritySort",
            P::NodeUnschedulable => "NodeUnschedulable",
            P::NodeName => "NodeName",
            P::TaintToleration => "TaintToleration",
            P::NodeAffinity => "NodeAffinity",
            P::NodePorts => "NodePorts",
            P::NodeResourcesFit => "NodeResourcesFit",
            P::VolumeRestrictions => "VolumeRestrictions",
            P::NodeVolumeLimits => "NodeVolumeLimits",
            P::VolumeBinding => "VolumeBinding",
            P::VolumeZone => "VolumeZone",
            P::PodTopologySpread => "PodTopologySpread",
            P::InterPodAffinity => "InterPodAffinity",
            P::DynamicResources => "DynamicResources",
            P::DefaultPreemption => "DefaultPreemption",
            P::NodeResourcesBalancedAllocation => "NodeResourcesBalancedAllocation",
            P::ImageLocality => "ImageLocality",
            P::DefaultBinder => "DefaultBinder",
            P::NodeDeclaredFeatures => "NodeDeclaredFeatures",
        }
    }

    /// The plugin of a name in the configuration file.
    pub fn named(name: &str) -> Option<Plugin> {
        Plugin::ALL.into_iter().find(|plugin| plugin.name() == name)
    }

    /// The weight of its score in the default configuration; 0 for a plugin that has none.
    pub fn default_weight(self) -> i32 {
        match self {
            P::TaintToleration => 3,
            P::NodeAffinity | P::PodTopologySpread | P::InterPodAffinity | P::DynamicResources => 2,
            P::NodeResourcesFit | P::NodeResourcesBalancedAllocation | P::ImageLocality => 1,
            _ => 0,
        }
    }

    /// The extension points at which it does something; `multiPoint` enables it at all of them.
    pub fn points(self) -> &'static [ExtensionPoint] {
        use ExtensionPoint::{
            Bind, Filter, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore, QueueSort, Reserve, Score,
        };
        match self {
            P::SchedulingGates => &[PreEnqueue],
            P::PrioritySort => &[QueueSort],
            P::NodeUnschedulable | P::NodeName => &[Filter],
            P::TaintToleration => &[Filter, PreScore, Score],
            P::NodeAffinity | P::NodeResourcesFit | P::PodTopologySpread | P::InterPodAffinity => {
                &[PreFilter, Filter, PreScore, Score]
            }
            P::NodePorts | P::VolumeRestrictions | P::NodeVolumeLimits | P::VolumeZone => {
                &[PreFilter, Filter]
            }
            P::VolumeBinding => &[PreFilter, Filter, Reserve, PreBind, PreScore, Score],
            P::DynamicResources => &[PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind],
            P::DefaultPreemption => &[PreEnqueue, PostFilter],
            P::NodeResourcesBalancedAllocation => &[PreScore, Score],
            P::ImageLocality => &[Score],
            P::DefaultBinder => &[Bind],
            P::NodeDeclaredFeatures => &[PreFilter, Filter],
        }
    }
}

/// A set of plugins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PluginSet(u32);

impl PluginSet {
    /// No plugin.
    pub const EMPTY: PluginSet = PluginSet(0);

    /// Adds a plugin.
    pub fn insert(&mut self, plugin: Plugin) {
        self.0 |= 1 << plugin as u32;
    }

    /// Whether `plugin` is in the set.
    pub fn contains(self, plugin: Plugin) -> bool {
        self.0 & (1 << plugin as u32) != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its plugins in the order of [`Plugin::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Plugin> {
        Plugin::ALL.into_iter().filter(move |plugin| self.contains(*plugin))
    }
}

impl FromIterator<Plugin> for PluginSet {
    fn from_iter<I: IntoIterator<Item = Plugin>>(plugins: I) -> PluginSet {
        let mut set = PluginSet::EMPTY;
        plugins.into_iter().for_each(|plugin| set.insert(plugin));
        set
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
}
