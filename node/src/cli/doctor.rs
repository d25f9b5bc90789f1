//! The flags of `orch doctor`.

use std::path::PathBuf;

use clap::Args;

use super::cluster::Output;
use super::node::parse_member_name;

/// First part of `orch doctor --help`, set at the command: at the flags its summary would replace it.
pub(super) const ABOUT: &str = "Check a machine and a data directory before a member starts on them.\n\n\
        It looks at the rights of the directory and at a store in it, measures how fast the disk syncs, and looks at room, limits of open files, memory, \
        the clock, the ports, and the certificates with their keys. Each finding names the fault and the next step. Nothing is changed. Run it \
        as the user that the member will run as.\n\n\
        Exit codes: 0 nothing is to be done, 3 a member starts and something should be done first, 4 a member does not start, 2 for a wrong flag.";

/// Flags of `orch doctor`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  \
        orch doctor --data-dir /var/lib/orch\n  \
        orch doctor --data-dir /var/lib/orch --certs-dir /etc/orch --name a --bind-address 10.0.0.1")]
pub struct DoctorArgs {
    /// Directory of the member's data; it need not exist
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// The member's certificates, as `orch certs init` lays them out
    #[arg(long, value_name = "DIR")]
    pub certs_dir: Option<PathBuf>,
    /// The member's name [default: the only one in the directory]
    #[arg(long, value_name = "NAME", requires = "certs_dir", value_parser = parse_member_name)]
    pub name: Option<String>,
    /// Address that the member will listen at
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub bind_address: String,
    /// Port for clients
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    pub secure_port: u16,
    /// Port for peers
    #[arg(long, value_name = "PORT", default_value_t = 6444)]
    pub peer_port: u16,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Text)]
    pub output: Output,
}
