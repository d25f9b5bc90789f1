//! Ranges of services, from flags, and the addresses of the members behind the API's own service.

use std::collections::BTreeSet;
use std::{fmt, fs};

use orch_api::allocation::{Allocator, NodePorts};
use orch_api::controllers::{Members, ServiceDefaults};

use super::error::RunError;
use super::store::Handle;
use crate::cli::ServiceArgs;

/// Where the kernel tells the machine's name.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// Ranges of services.
#[derive(Clone, Debug)]
pub struct ServicePlan {
    defaults: ServiceDefaults,
    node_ports: NodePorts,
}

/// Checks the values of the flags.
pub(super) fn plan(arguments: &ServiceArgs) -> Result<ServicePlan, RunError> {
    // The port is known when the node listens.
    let defaults = ServiceDefaults::parse(&arguments.service_cluster_ip_range, 0)
        .map_err(|reason| RunError::Flags(format!("--service-cluster-ip-range: {reason}")))?;
    Ok(ServicePlan { defaults, node_ports: arguments.service_node_port_range })
}

impl ServicePlan {
    /// The allocator of the API.
    pub(super) fn allocator(&self) -> Allocator {
        Allocator::new(self.node_ports)
    }

    /// The default ranges and service, which the loops keep; `port` is that of HTTPS.
    pub(super) fn defaults(&self, port: u16) -> ServiceDefaults {
        self.defaults.at_port(port)
    }
}

/// This node and the other members, for the endpoints of the API's service.
pub(super) struct ApiMembers {
    handle: Handle,
    name: String,
    address: (String, u16),
}

impl ApiMembers {
    /// The node called `name`, which clients reach at `host` and `port`.
    pub(super) fn new(handle: Handle, name: String, host: String, port: u16) -> ApiMembers {
        ApiMembers { handle, name, address: (host, port) }
    }
}

impl Members for ApiMembers {
    fn own_name(&self) -> String {
        self.name.clone()
    }

    fn own_address(&self) -> (String, u16) {
        self.address.clone()
    }

    fn hostname(&self) -> Option<String> {
        let name = fs::read_to_string(HOSTNAME).ok()?;
        Some(name.trim().to_owned()).filter(|name| !name.is_empty())
    }

    fn names(&self) -> BTreeSet<String> {
        self.handle.status().members.into_iter().map(|member| member.peer.name.to_string()).collect()
    }
}

impl fmt::Debug for ApiMembers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiMembers({} at {:?})", self.name, self.address)
    }
}
