//! The flags of requests that are passed on to kubelets, pods and services, under the reference's names where it has them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use orch_api::connect::AddressRange;

use super::duration::parse_duration;

const HEADING: &str = "Kubelets, and proxies of pods, services and nodes";

/// Flags of requests that are passed on.
#[derive(Clone, Debug, Args)]
pub struct ConnectArgs {
    /// Authorities that the certificates of kubelets are verified by. Without it they are not verified
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub kubelet_certificate_authority: Option<PathBuf>,
    /// Certificate that kubelets are shown
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub kubelet_client_certificate: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub kubelet_client_key: Option<PathBuf>,
    /// Types of node addresses by which kubelets are reached, the preferred one first
    #[arg(long, value_name = "TYPES", value_delimiter = ',',
        default_value = "Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP", help_heading = HEADING)]
    pub kubelet_preferred_address_types: Vec<String>,
    /// Longest time to connect to a kubelet
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration, help_heading = HEADING)]
    pub kubelet_timeout: Duration,
    /// Addresses of this machine, of its link and of metadata services to which requests may be passed on nevertheless, as
    /// ranges: 127.0.0.0/8. All other addresses are always allowed [default: none]
    #[arg(long, value_name = "RANGES", value_delimiter = ',', help_heading = HEADING)]
    pub proxy_local_addresses: Vec<AddressRange>,
}
