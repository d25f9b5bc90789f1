//! Features that nodes declare and pods need.
//!
//! Owns which fields of a pod need which feature of a node, and the compiled form of both sides: sorted names. Only what
//! an agent has to be able to do before the pod starts is here; features that later updates of a pod need are the API
//! server's to check.

use crate::api::core::v1;

use super::intern::{Interner, Symbol};

/// `restartPolicyRules` whose action restarts every container of the pod.
const RESTART_ALL: &str = "RestartAllContainersOnContainerExits";
/// `hostUsers: false` together with `hostNetwork: true`.
const OWN_USERS_ON_HOST_NETWORK: &str = "UserNamespacesHostNetworkSupport";

/// Names of features; sorted, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features(Box<[Symbol]>);

impl Features {
    /// The features that a pod needs of its node.
    pub fn needed(interner: &mut Interner, spec: &v1::PodSpec) -> Features {
        let mut needed = Vec::new();
        let mut containers = spec.init_containers.iter().chain(&spec.containers);
        if containers.any(restarts_all) {
            needed.push(RESTART_ALL);
        }
        if spec.host_network && spec.host_users == Some(false) {
            needed.push(OWN_USERS_ON_HOST_NETWORK);
        }
        Features::compile(interner, needed)
    }

    /// The features that a node declares.
    pub fn declared(interner: &mut Interner, status: &v1::NodeStatus) -> Features {
        Features::compile(interner, status.declared_features.iter().map(String::as_str))
    }

    fn compile<'a>(interner: &mut Interner, names: impl IntoIterator<Item = &'a str>) -> Features {
        let mut names: Vec<Symbol> = names.into_iter().map(|name| interner.intern(name)).collect();
        names.sort_unstable();
        names.dedup();
        Features(names.into())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of `others` are among them.
    pub fn include(&self, others: &Features) -> bool {
        others.0.iter().all(|name| self.0.binary_search(name).is_ok())
    }
}

fn restarts_all(container: &v1::Container) -> bool {
    container.restart_policy_rules.iter().any(|rule| rule.action == "RestartAllContainers")
}
