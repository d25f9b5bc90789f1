//! `--enable-admission-plugins` and `--disable-admission-plugins`: the plugins that a node asks.
//!
//! Owns the names that the flags know, and which plugins are on by default: those of the reference. Rules that guard
//! rights are not named and cannot be turned off.

use std::collections::BTreeSet;

use super::{Chain, claim_status, service_account};

/// The flag of plugins that are turned on.
const TURNED_ON: &str = "--enable-admission-plugins";

/// The flag of plugins that are turned off.
const TURNED_OFF: &str = "--disable-admission-plugins";

/// Plugins of the reference that this server does not have: turning one off changes nothing, turning one on is refused.
const ELSEWHERE: [&str; 6] = [
    "ClusterTrustBundleAttest",
    "ImagePolicyWebhook",
    "JobValidation",
    "NodeDeclaredFeatureValidator",
    "PodGroupProtection",
    "PodGroupWorkloadExists",
];

/// Plugins that are off unless a flag turns them on, as in the reference.
const OFF: [&str; 12] = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "OwnerReferencesPermissionEnforcement",
    "PodNodeSelector",
    "PodTolerationRestriction",
];

/// Plugins that guard rights.
const UNNAMED: [&str; 1] = [claim_status::NAME];

/// The plugins that are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSelection(BTreeSet<String>);

impl Default for PluginSelection {
    /// The plugins that the reference has on by default.
    fn default() -> Self {
        PluginSelection(OFF.map(str::to_owned).into())
    }
}

impl PluginSelection {
    /// All plugins but those that wait for objects which only background loops make.
    pub fn without_loops() -> PluginSelection {
        let mut selection = PluginSelection::default();
        selection.0.insert(service_account::NAME.to_owned());
        selection
    }

    /// Every plugin of this server.
    pub(super) fn all() -> PluginSelection {
        PluginSelection(BTreeSet::new())
    }

    /// The plugins that are on by default and those of `on`, without those of `off`.
    ///
    /// # Errors
    /// A name is unknown, stands in both lists, or is turned on and no part of this server.
    pub fn parse(on: &[String], off: &[String]) -> Result<PluginSelection, String> {
        let chain = Chain::selected(&PluginSelection::all());
        // few: one name.
        let own: BTreeSet<&str> = chain.names().filter(|name| !UNNAMED.contains(name)).collect();
        let off: BTreeSet<String> = off.iter().filter(|name| !name.is_empty()).cloned().collect();
        for name in on.iter().filter(|name| !name.is_empty()) {
            if off.contains(name) {
                return Err(format!(
                    "{TURNED_ON} and {TURNED_OFF}: the plugin {name} is both turned on and turned off"
                ));
            }
            // few: the plugins of the reference, named in a flag.
            if ELSEWHERE.contains(&name.as_str()) && !own.contains(name.as_str()) {
                return Err(format!("{TURNED_ON}: the plugin {name} is no part of this server"));
            }
        }
        let known = |name: &&String| own.contains(name.as_str()) || ELSEWHERE.contains(&name.as_str());
        let named = on.iter().filter(|name| !name.is_empty()).map(|name| (TURNED_ON, name));
        let mut named = named.chain(off.iter().map(|name| (TURNED_OFF, name)));
        // few: names in two flags, here and below.
        match named.find(|(_, name)| !known(name)) {
            None => {
                // few: names in a flag.
                let default = OFF.iter().filter(|name| !on.iter().any(|on| on == *name));
                Ok(PluginSelection(default.map(|name| (*name).to_owned()).chain(off).collect()))
            }
            Some((flag, name)) => {
                let names: Vec<_> = own.into_iter().collect();
                Err(format!("{flag}: there is no admission plugin {name:?}; there are {}", names.join(", ")))
            }
        }
    }

    /// Whether the plugin called `name` is asked.
    pub(super) fn has(&self, name: &str) -> bool {
        !self.0.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(on: &str, off: &str) -> Result<PluginSelection, String> {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        PluginSelection::parse(&list(on), &list(off))
    }

    #[test]
    fn plugins_are_left_out_by_name() {
        let names = |selection: &PluginSelection| Chain::selected(selection).names().collect::<Vec<_>>();
        let all = names(&PluginSelection::default());
        assert!(all.contains(&"ServiceAccount") && all.contains(&"Priority"));
        let selected = parse("", "ServiceAccount,Priority").unwrap();
        let expected: Vec<_> =
            all.iter().copied().filter(|name| !["ServiceAccount", "Priority"].contains(name)).collect();
        assert_eq!(names(&selected), expected);
        assert_eq!(names(&parse("Priority", "AlwaysDeny").unwrap()), all);
        assert!(ELSEWHERE.is_sorted() && OFF.is_sorted());
        assert!(OFF.iter().all(|name| !all.contains(name) && !ELSEWHERE.contains(name)));
        let more = names(&parse("AlwaysPullImages,EventRateLimit", "").unwrap());
        assert_eq!(more.len(), all.len() + 2);
        assert_eq!(names(&PluginSelection::all()).len(), all.len() + OFF.len(), "each has a plugin");
    }

    #[test]
    fn names_that_mean_nothing_are_refused() {
        for (on, off, expected) in [
            ("", "Nonesuch", "there is no admission plugin \"Nonesuch\"; there are AlwaysAdmit,"),
            ("Nonesuch", "", "--enable-admission-plugins: there is no admission plugin"),
            ("", "RoleEscalation", "--disable-admission-plugins: there is no admission plugin"),
            ("", "ClaimStatus", "there is no admission plugin"),
            ("Priority", "Priority", "both turned on and turned off"),
            ("ImagePolicyWebhook", "", "no part of this server"),
        ] {
            let refused = parse(on, off).unwrap_err();
            assert!(refused.contains(expected), "{on} {off}: {refused}");
        }
    }
}
