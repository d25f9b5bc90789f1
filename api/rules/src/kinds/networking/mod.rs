//! networking/v1: Ingress, NetworkPolicy, and what cluster addresses are taken from and by.

mod ingress;
mod ip_address;
mod network_policy;
mod service_cidr;

pub use ingress::Ingress;
pub use ip_address::IpAddress;
pub use network_policy::NetworkPolicy;
pub use service_cidr::ServiceCidr;
