//! networking/v1: who may talk to whom, and how requests come in from outside.

mod ingress;
mod network_policy;

pub use ingress::Ingress;
pub use network_policy::NetworkPolicy;
