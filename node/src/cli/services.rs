//! Flags of services: the ranges of their cluster addresses and node ports.

use clap::Args;
use orch_api::allocation::NodePorts;

const SERVICES: &str = "Services";

/// Flags of services.
#[derive(Clone, Debug, Args)]
pub struct ServiceArgs {
    /// Range of the cluster addresses of services, or one of each address family, the default family first. The cluster
    /// keeps those that it was made with; a second family may be added
    #[arg(long, value_name = "CIDR[,CIDR]", value_delimiter = ',', default_value = "10.0.0.0/24", help_heading = SERVICES)]
    pub service_cluster_ip_range: Vec<String>,
    /// Ports that services may open on nodes, the same on every member
    #[arg(long, value_name = "FIRST-LAST", default_value = "30000-32767", help_heading = SERVICES)]
    pub service_node_port_range: NodePorts,
}
