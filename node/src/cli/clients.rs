//! The flags that bound what clients may take of this machine.

use clap::{Args, value_parser};

const NETWORK: &str = super::node::NETWORK;

/// Flags of what clients may take.
#[derive(Clone, Debug, Args)]
pub struct ClientArgs {
    /// Connections of clients at once; beyond, the user or address with the most gives one up [default: as many as file
    /// descriptors allow, 32Ki of memory each, in an eighth of the machine's]
    #[arg(long, value_name = "COUNT", value_parser = value_parser!(u32).range(64..), help_heading = NETWORK)]
    pub max_connections: Option<u32>,
    /// Watches at once, half of them for one user; beyond, one is refused with 429. Long selectors count as several
    /// [default: 12Ki of memory each, in an eighth of the machine's]
    #[arg(long, value_name = "COUNT", value_parser = value_parser!(u32).range(64..), help_heading = NETWORK)]
    pub max_watches: Option<u32>,
}
