//! networking/v1: Ingress, IngressClass and NetworkPolicy.

mod ingress;
mod ingress_class;
mod network_policy;

pub use ingress::Ingress;
pub use ingress_class::IngressClass;
pub(crate) use ingress_class::validate_domain_prefixed_path;
pub use network_policy::NetworkPolicy;
