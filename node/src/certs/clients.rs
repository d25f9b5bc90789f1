//! The clients for which a cluster's certificate directory holds a pair and a configuration.
//!
//! Owns their names and rights: the administrator, who may do everything, and the scheduler and a controller manager of the
//! ecosystem, who may do what the default roles of theirs allow.

use orch_api::authn::{GROUP_MASTERS, USER_ADMIN};
use orch_proto::Brand;

use super::authority::{Leaf, Pair, Purpose};
use crate::kubeconfig::{
    Server, kubeconfig, with_listed_servers, with_servers, without_listed_servers, without_servers,
};

/// A client of the cluster that comes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// The administrator.
    Admin,
    /// The scheduler; all its processes share the pair.
    Scheduler,
    /// A controller manager of the ecosystem, which runs beside the cluster.
    ControllerManager,
}

impl Client {
    /// Every one, in the order in which files are made.
    pub const ALL: [Client; 3] = [Client::Admin, Client::Scheduler, Client::ControllerManager];

    /// Stem of its files, and its name in its configuration.
    pub fn name(self) -> &'static str {
        match self {
            Client::Admin => "admin",
            Client::Scheduler => "scheduler",
            Client::ControllerManager => "controller-manager",
        }
    }

    /// The subject and purpose of its certificate in a cluster of `brand`.
    pub fn leaf(self, brand: &Brand) -> Leaf {
        match self {
            Client::Admin => admin_leaf(),
            Client::Scheduler | Client::ControllerManager => {
                client_leaf(format!("system:{}-{}", brand.component_prefix, self.name()), None)
            }
        }
    }

    /// Its configuration for a cluster with `servers`, which `authority` (PEM) has signed. Secret: it holds a private key.
    pub(crate) fn config(self, brand: &Brand, servers: &[Server], authority: &str, pair: &Pair) -> String {
        match self {
            Client::Admin | Client::ControllerManager => {
                kubeconfig(brand, self.name(), servers, authority, pair)
            }
            // The scheduler turns to another address of a list by itself; of several contexts it would use one.
            Client::Scheduler => {
                let urls: Vec<&str> = servers.iter().map(|server| server.url.as_str()).collect();
                let name = servers.first().map(|server| server.name.clone()).unwrap_or_default();
                kubeconfig(brand, self.name(), &[Server { name, url: urls.join(",") }], authority, pair)
            }
        }
    }

    /// Its `config` with those of `servers` that it lacks.
    pub(crate) fn with_servers(self, config: &str, servers: &[Server]) -> Result<String, String> {
        match self {
            Client::Admin | Client::ControllerManager => with_servers(config, self.name(), servers),
            Client::Scheduler => with_listed_servers(config, servers),
        }
    }

    /// Its `config` without the servers `gone`.
    pub(crate) fn without_servers(self, config: &str, gone: &[Server]) -> Result<String, String> {
        match self {
            Client::Admin | Client::ControllerManager => without_servers(config, gone),
            Client::Scheduler => without_listed_servers(config, gone),
        }
    }
}

/// The administrator's certificate.
pub fn admin_leaf() -> Leaf {
    client_leaf(USER_ADMIN.to_owned(), Some(GROUP_MASTERS.to_owned()))
}

fn client_leaf(common_name: String, organization: Option<String>) -> Leaf {
    Leaf { common_name, organization, hosts: Vec::new(), purpose: Purpose::Client }
}
