//! Flags of the servers that objects of the API name: webhooks and aggregated servers.

use clap::Args;

const HEADING: &str = "Webhooks and aggregated servers";

/// Flags of webhooks.
#[derive(Clone, Copy, Debug, Args)]
pub struct WebhookArgs {
    /// Call no webhook on this machine: for clusters that are hosted for others, whose users must not reach what listens there
    #[arg(long, help_heading = HEADING)]
    pub deny_loopback_webhooks: bool,
    /// Reach services of webhooks and aggregated servers at their ready endpoints. Without it they are reached at their cluster
    /// addresses, which something on this machine must route
    #[arg(long, help_heading = HEADING)]
    pub enable_aggregator_routing: bool,
}
