//! networking/v1: Ingress and NetworkPolicy.

mod ingress;
mod network_policy;

pub use ingress::Ingress;
pub use network_policy::NetworkPolicy;
