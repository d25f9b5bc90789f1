//! Flags of the servers that objects of the API name: webhooks and aggregated servers.

use std::path::PathBuf;

use clap::Args;

const HEADING: &str = "Webhooks, aggregation";

/// Flags of webhooks and aggregated servers.
#[derive(Clone, Debug, Args)]
pub struct WebhookArgs {
    /// Call no webhook at an address of this machine, be it of loopback or of another interface, and pass no request on to an aggregated
    /// server at its loopback addresses: for clusters that are hosted for others, whose users must not reach what listens there
    #[arg(long, help_heading = HEADING)]
    pub deny_loopback_webhooks: bool,
    /// Pass requests on to aggregated servers at loopback addresses of this machine, too, as a node for development does by itself
    #[arg(long, help_heading = HEADING, conflicts_with = "deny_loopback_webhooks")]
    pub allow_loopback_aggregation: bool,
    /// Reach services of webhooks and aggregated servers at their ready endpoints. Without it they are reached at their cluster
    /// addresses, which something on this machine must route
    #[arg(long, help_heading = HEADING)]
    pub enable_aggregator_routing: bool,
    /// Certificate that aggregated servers are shown, by which they believe this server who its users are
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub proxy_client_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub proxy_client_key_file: Option<PathBuf>,
}
