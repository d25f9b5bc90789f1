//! Ports of the node that a pod takes.
//!
//! Owns the compiled form and when two of them conflict.

use crate::api::core::v1;

use super::intern::{Interner, Symbol};

/// A port of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// `None`: every address.
    address: Option<Symbol>,
    protocol: Symbol,
    port: i32,
}

impl HostPort {
    /// Whether both cannot be on one node.
    pub fn conflicts(&self, other: &HostPort) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || self.address.is_none() || other.address.is_none())
    }
}

/// The ports of a pod's containers and sidecars.
pub fn compile(interner: &mut Interner, spec: &v1::PodSpec) -> Box<[HostPort]> {
    let sidecars =
        spec.init_containers.iter().filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
    ports
        .filter(|port| port.host_port > 0)
        .map(|port| HostPort {
            address: (!matches!(port.host_ip.as_str(), "" | "0.0.0.0"))
                .then(|| interner.intern(&port.host_ip)),
            protocol: interner.intern(if port.protocol.is_empty() { "TCP" } else { &port.protocol }),
            port: port.host_port,
        })
        .collect()
}
