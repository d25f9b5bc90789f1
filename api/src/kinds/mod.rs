//! One small file for each kind whose rules only code can state; the rest of a kind is its message in `proto/`.
//!
//! Owns the table from kind to strategy. A strategy is pure: see `strategy`.

pub mod age;
pub mod batch;
pub mod config_map;
pub mod disruption_budget;
pub mod event;
pub mod lease;
pub mod namespace;
pub mod networking;
pub mod node;
mod object_meta;
pub mod pod;
pub mod priority_class;
pub mod rbac;
#[cfg(test)]
mod recorded;
pub mod secret;
pub mod service_account;
pub mod strategy;
#[cfg(test)]
pub(crate) mod testing;
pub mod volume_claim;
pub mod workload;

pub use crate::endpoint::Action;
pub use strategy::{Cell, Context, DefaultPropagation, NameRule, Plain, Strategy};

/// The strategy of a storage resource; `None` for a kind that is not served. `events` serves both spellings.
pub fn strategy_for(storage_resource: &str) -> Option<&'static dyn Strategy> {
    Some(match storage_resource {
        "clusterrolebindings.rbac.authorization" => &rbac::ClusterRoleBinding,
        "clusterroles.rbac.authorization" => &rbac::ClusterRole,
        "configmaps" => &config_map::ConfigMap,
        "cronjobs.batch" => &batch::CronJob,
        "daemonsets.apps" => &workload::DaemonSet,
        "deployments.apps" => &workload::Deployment,
        "events" => &event::Event,
        "ingresses.networking" => &networking::Ingress,
        "jobs.batch" => &batch::Job,
        "leases.coordination" => &lease::Lease,
        "namespaces" => &namespace::Namespace,
        "networkpolicies.networking" => &networking::NetworkPolicy,
        "nodes" => &node::Node,
        "persistentvolumeclaims" => &volume_claim::PersistentVolumeClaim,
        "poddisruptionbudgets.policy" => &disruption_budget::PodDisruptionBudget,
        "pods" => &pod::Pod,
        "priorityclasses.scheduling" => &priority_class::PriorityClass,
        "replicasets.apps" => &workload::ReplicaSet,
        "rolebindings.rbac.authorization" => &rbac::RoleBinding,
        "roles.rbac.authorization" => &rbac::Role,
        "secrets" => &secret::Secret,
        "serviceaccounts" => &service_account::ServiceAccount,
        "statefulsets.apps" => &workload::StatefulSet,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds with finished rules, by storage resource: plural name and group without its domain.
    const SERVED: &[&str] = &[
        "clusterrolebindings.rbac.authorization",
        "clusterroles.rbac.authorization",
        "configmaps",
        "cronjobs.batch",
        "daemonsets.apps",
        "deployments.apps",
        "events",
        "ingresses.networking",
        "jobs.batch",
        "leases.coordination",
        "namespaces",
        "networkpolicies.networking",
        "nodes",
        "persistentvolumeclaims",
        "poddisruptionbudgets.policy",
        "pods",
        "priorityclasses.scheduling",
        "replicasets.apps",
        "rolebindings.rbac.authorization",
        "roles.rbac.authorization",
        "secrets",
        "serviceaccounts",
        "statefulsets.apps",
    ];

    #[test]
    fn every_served_kind_has_a_strategy() {
        for resource in SERVED {
            assert!(strategy_for(resource).is_some(), "{resource}");
        }
        assert!(strategy_for("nonesuch").is_none());
        assert!(SERVED.is_sorted());
    }
}
