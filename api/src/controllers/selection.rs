//! `--controllers`: the loops that run.
//!
//! Owns the flag's syntax and the names: those of the reference. A name stands for a loop of this server or for one of
//! the reference that runs elsewhere; any other is refused.

use std::collections::BTreeSet;
use std::str::FromStr;

/// Loops of this server that can be left out.
pub(super) const OWN: [&str; 19] = [
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "clusterrole-aggregation-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "ipallocator-repair-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "namespace-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "service-cidr-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "token-cleaner-controller",
    "validatingadmissionpolicy-status-controller",
    "volumeattributesclass-protection-controller",
];

/// Loops of the reference's controller manager, which are no part of this server: naming them changes nothing.
const ELSEWHERE: [&str; 32] = [
    "bootstrap-signer-controller",
    "cloud-node-lifecycle-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "device-taint-eviction-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "ephemeral-volume-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "node-ipam-controller",
    "node-lifecycle-controller",
    "node-route-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "pod-garbage-collector-controller",
    "podcertificaterequest-cleaner-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "resourceclaim-controller",
    "selinux-warning-controller",
    "service-lb-controller",
    "statefulset-controller",
    "storage-version-migrator-controller",
    "storageversion-garbage-collector-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
    "ttl-controller",
];

/// The loops that are left out. By default none is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(BTreeSet<&'static str>);

impl Selection {
    /// Whether the loop called `name` runs.
    pub fn runs(&self, name: &str) -> bool {
        !self.0.contains(name)
    }
}

impl FromStr for Selection {
    type Err = String;

    /// Parses `*` (all), `NAME` (this one) and `-NAME` (not this one), separated by commas. Without a `*` only the named
    /// ones run.
    fn from_str(text: &str) -> Result<Self, String> {
        let (mut all, mut on, mut off) = (false, BTreeSet::new(), BTreeSet::new());
        for term in text.split(',').map(str::trim).filter(|term| !term.is_empty()) {
            let (name, set) = match term.strip_prefix('-') {
                Some(name) => (name, &mut off),
                None => (term, &mut on),
            };
            // few: the controllers, named in a flag.
            let own = OWN.into_iter().find(|own| *own == name);
            if term == "*" {
                all = true;
            } else if let Some(own) = own {
                set.insert(own);
            } else if !ELSEWHERE.contains(&name) {
                return Err(format!("there is no controller {name:?}; there are {}", OWN.join(", ")));
            }
        }
        let left_out = OWN.into_iter().filter(|name| off.contains(name) || !all && !on.contains(name));
        Ok(Selection(left_out.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_named_one_by_one_or_all_but_some() {
        for (text, expected) in [
            ("*", &OWN[..]),
            ("*,-volumeattributesclass-protection-controller", &OWN[..OWN.len() - 1]),
            ("volumeattributesclass-protection-controller", &OWN[OWN.len() - 1..]),
            ("*,-volumeattributesclass-protection-controller,-deployment-controller", &OWN[..OWN.len() - 1]),
            ("", &[]),
        ] {
            let selection: Selection = text.parse().unwrap();
            let running: Vec<_> = OWN.into_iter().filter(|name| selection.runs(name)).collect();
            assert_eq!(running, expected, "{text}");
        }
        assert!("*,-nonesuch".parse::<Selection>().unwrap_err().contains("nonesuch"));
        assert!(OWN.into_iter().all(|name| Selection::default().runs(name)));
        assert!(ELSEWHERE.is_sorted());
    }

    #[test]
    fn the_recipe_for_a_controller_manager_leaves_out_exactly_the_loops_that_run_here() {
        // The repair of addresses is a part of the reference's API server: its controller manager does not know the name.
        let named = OWN.into_iter().filter(|name| *name != "ipallocator-repair-controller");
        let left_out: Vec<String> = named.map(|name| format!(",-{name}")).collect();
        let flag = format!("--controllers=*{}\n", left_out.concat());
        let document = include_str!("../../../docs/operations.md");
        assert!(document.contains(&flag), "docs/operations.md needs the line {flag}");
    }
}
