//! The flags of scheduled backups.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::duration::parse_duration;

const HEADING: &str = "Backups";

/// Shortest interval: each backup reads the whole state.
const EVERY_MIN: Duration = Duration::from_secs(60);

/// Flags of scheduled backups.
#[derive(Clone, Debug, Args)]
pub struct BackupArgs {
    /// Save a snapshot into --backup-dir at this interval, such as 6h. Each member that has the flag saves its own
    #[arg(long, value_name = "DURATION", value_parser = parse_interval, requires = "backup_dir", help_heading = HEADING)]
    pub backup_schedule: Option<Duration>,
    /// Existing folder for the snapshots of this member, best on another disk. Snapshots of one cluster only
    #[arg(long, value_name = "DIR", requires = "backup_schedule", help_heading = HEADING)]
    pub backup_dir: Option<PathBuf>,
    /// Number of this member's snapshots that are kept; older ones are removed after the next one is saved and verified
    #[arg(long, value_name = "NUMBER", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..),
        help_heading = HEADING)]
    pub backup_keep: u16,
    /// Encrypt the snapshots to this public key (`orch snapshot new-key`); without it they show every secret in clear. Repeat
    /// for several
    #[arg(long, value_name = "KEY", value_delimiter = ',', help_heading = HEADING)]
    pub backup_encrypt_to: Vec<String>,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let every = parse_duration(text)?;
    if every < EVERY_MIN { Err("the shortest interval is 1m".to_owned()) } else { Ok(every) }
}
