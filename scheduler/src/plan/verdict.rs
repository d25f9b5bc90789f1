//! The result of a filter for one node, packed into 64 bits.
//!
//! Owns the encoding: the plugin that refused the node, whether the eviction of pods could change that, and which of
//! the plugin's reasons hold. Thousands of equal verdicts are counted without a string.

use crate::objects::intern::Interner;
use crate::objects::pod::LocalShape;

use super::profile::Plugin;

/// The result of a filter for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verdict(u64);

const PLUGIN_BITS: u32 = 8;
const UNRESOLVABLE: u64 = 1 << PLUGIN_BITS;
const REASONS_SHIFT: u32 = PLUGIN_BITS + 1;
/// Beyond the plugins of [`Plugin::ALL`].
const ABSENT: u64 = 255;
const NOT_SELECTED: u64 = 254;
const EXTENDER: u64 = 253;

/// Reasons of NodeResourcesFit: bits of [`Verdict::reasons`]. Those of further resources follow, in the order of the
/// pod's requests.
pub mod fit {
    /// The node takes no more pods.
    pub const PODS: u64 = 1;
    /// CPU.
    pub const CPU: u64 = 1 << 1;
    /// Memory.
    pub const MEMORY: u64 = 1 << 2;
    /// Ephemeral storage.
    pub const EPHEMERAL: u64 = 1 << 3;
    /// The first further resource.
    pub const SCALARS_SHIFT: usize = 4;
    /// Further resources that are told apart; no pod asks for as many.
    pub const SCALARS_MAX: usize = 50;
}

/// Whether the eviction of pods could make the node fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolvable {
    /// It could.
    Yes,
    /// It could not.
    No,
}

impl Verdict {
    /// The pod fits.
    pub const FITS: Verdict = Verdict(0);
    /// There is no node in the slot.
    pub const ABSENT: Verdict = Verdict(ABSENT | UNRESOLVABLE);
    /// The pod names other nodes (PreFilter of NodeAffinity).
    pub const NOT_SELECTED: Verdict = Verdict(NOT_SELECTED | UNRESOLVABLE);

    /// A plugin refuses the node.
    pub fn refused(plugin: Plugin, resolvable: Resolvable, reasons: u64) -> Verdict {
        let unresolvable = if resolvable == Resolvable::No { UNRESOLVABLE } else { 0 };
        Verdict((plugin as u64 + 1) | unresolvable | reasons << REASONS_SHIFT)
    }

    /// An extender refuses the node; `reason` is an index of the plan's own texts.
    pub fn extender(resolvable: Resolvable, reason: usize) -> Verdict {
        let unresolvable = if resolvable == Resolvable::No { UNRESOLVABLE } else { 0 };
        Verdict(EXTENDER | unresolvable | (reason as u64) << REASONS_SHIFT)
    }

    /// Whether an extender refused.
    pub fn is_extenders(self) -> bool {
        self.0 & 0xff == EXTENDER
    }

    /// Whether the pod fits.
    pub fn fits(self) -> bool {
        self.0 == 0
    }

    /// Whether the eviction of pods could change the verdict.
    pub fn is_resolvable(self) -> bool {
        self.0 & UNRESOLVABLE == 0
    }

    /// Whether there is no node.
    pub fn is_absent(self) -> bool {
        self == Verdict::ABSENT
    }

    /// The plugin that refused.
    pub fn plugin(self) -> Option<Plugin> {
        let number = self.0 & 0xff;
        Plugin::ALL.into_iter().find(|plugin| *plugin as u64 + 1 == number)
    }

    /// The plugin's reasons.
    pub fn reasons(self) -> u64 {
        self.0 >> REASONS_SHIFT
    }

    /// The reasons as texts. `own` are texts that the plan itself made.
    pub fn texts(self, local: &LocalShape, interner: &Interner, own: &[String]) -> Vec<String> {
        match self.0 & 0xff {
            0 | ABSENT => return Vec::new(),
            NOT_SELECTED => return vec!["node(s) didn't satisfy plugin(s) [NodeAffinity]".into()],
            EXTENDER => return own_text(own, self.reasons()),
            _ => {}
        }
        match self.plugin() {
            Some(Plugin::NodeResourcesFit) => fit_texts(self.reasons(), local, interner),
            Some(Plugin::DynamicResources) => own_text(own, self.reasons()),
            Some(plugin) => {
                let texts = reason_texts(plugin).iter().enumerate();
                let held = texts.filter(|(bit, _)| self.reasons() & (1 << bit) != 0);
                held.map(|(_, text)| (*text).to_owned()).collect()
            }
            None => Vec::new(),
        }
    }
}

fn own_text(own: &[String], index: u64) -> Vec<String> {
    usize::try_from(index).ok().and_then(|index| own.get(index)).cloned().into_iter().collect()
}

/// The reasons of a plugin, from bit 0 on.
fn reason_texts(plugin: Plugin) -> &'static [&'static str] {
    match plugin {
        Plugin::NodeUnschedulable => &["node(s) were unschedulable"],
        Plugin::NodeName => &["node(s) didn't match the requested node name"],
        Plugin::TaintToleration => &["node(s) had untolerated taint(s)"],
        Plugin::NodeAffinity => &[
            "node(s) didn't match Pod's node affinity/selector",
            "node(s) didn't match scheduler-enforced node affinity",
        ],
        Plugin::NodePorts => &["node(s) didn't have free ports for the requested pod ports"],
        Plugin::VolumeRestrictions => &[
            "node(s) had no available disk",
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
        ],
        Plugin::NodeVolumeLimits => &["node(s) exceed max volume count"],
        Plugin::VolumeBinding => &[
            "node(s) didn't match PersistentVolume's node affinity",
            "node(s) didn't find available persistent volumes to bind",
            "node(s) did not have enough free storage",
            "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        ],
        Plugin::NodeDeclaredFeatures => &["node(s) didn't match Pod's required features"],
        Plugin::VolumeZone => &["node(s) had no available volume zone"],
        Plugin::PodTopologySpread => &[
            "node(s) didn't match pod topology spread constraints",
            "node(s) didn't match pod topology spread constraints (missing required label)",
        ],
        Plugin::InterPodAffinity => &[
            "node(s) didn't match pod affinity rules",
            "node(s) didn't match pod anti-affinity rules",
            "node(s) didn't satisfy existing pods anti-affinity rules",
        ],
        _ => &[],
    }
}

fn fit_texts(reasons: u64, local: &LocalShape, interner: &Interner) -> Vec<String> {
    let named = [
        (fit::PODS, "Too many pods"),
        (fit::CPU, "Insufficient cpu"),
        (fit::MEMORY, "Insufficient memory"),
        (fit::EPHEMERAL, "Insufficient ephemeral-storage"),
    ];
    let named = named.iter().filter(|(bit, _)| reasons & bit != 0).map(|(_, text)| (*text).to_owned());
    let scalars = local.requests.total.scalars.iter().take(fit::SCALARS_MAX).enumerate();
    let scalars = scalars
        .filter(|(at, _)| reasons & (1 << (fit::SCALARS_SHIFT + at)) != 0)
        .map(|(_, (name, _))| format!("Insufficient {}", interner.text(*name)));
    named.chain(scalars).collect()
}
