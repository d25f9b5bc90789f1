//! networking/v1: Ingress, IngressClass, NetworkPolicy, and what cluster addresses are taken from and by.

mod ingress;
mod ingress_class;
mod ip_address;
mod network_policy;
mod service_cidr;

pub use ingress::Ingress;
pub use ingress_class::IngressClass;
pub use ip_address::IpAddress;
pub use network_policy::NetworkPolicy;
pub use service_cidr::ServiceCidr;
