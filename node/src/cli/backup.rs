//! The flags of scheduled backups.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::schedule::Schedule;
use crate::object_store::Place;

const HEADING: &str = "Backups";

/// Flags of scheduled backups.
#[derive(Clone, Debug, Args)]
pub struct BackupArgs {
    /// Save a snapshot into --backup-dir at this interval, such as 6h, or at the times of a cron expression in UTC, such as
    /// "30 2 * * *". Each member that has the flag saves its own
    #[arg(long, value_name = "DURATION|CRON", requires = "backup_dir", help_heading = HEADING)]
    pub backup_schedule: Option<Schedule>,
    /// Existing folder for the snapshots of this member, best on another disk. Snapshots of one cluster only
    #[arg(long, value_name = "DIR", requires = "backup_schedule", help_heading = HEADING)]
    pub backup_dir: Option<PathBuf>,
    /// Number of this member's snapshots that are kept in the folder, and in the bucket; older ones are removed after the next
    /// one is saved there and has passed its test
    #[arg(long, value_name = "NUMBER", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..),
        help_heading = HEADING)]
    pub backup_keep: u16,
    /// Encrypt the snapshots to this public key (`orch snapshot new-key`); without it they show every secret in clear. Repeat
    /// for several
    #[arg(long, value_name = "KEY", value_delimiter = ',', help_heading = HEADING)]
    pub backup_encrypt_to: Vec<String>,
    /// Copy the snapshots of --backup-dir to this place of an S3-compatible server
    #[arg(long, value_name = "s3://BUCKET/PREFIX", requires = "backup_dir", help_heading = HEADING)]
    pub backup_s3: Option<Place>,
    /// The server, such as https://s3.example.com:9000 [default: Amazon's of the region]
    #[arg(long, value_name = "URL", requires = "backup_s3", help_heading = HEADING)]
    pub backup_s3_endpoint: Option<String>,
    /// The region of the bucket
    #[arg(long, value_name = "REGION", default_value = "us-east-1", help_heading = HEADING)]
    pub backup_s3_region: String,
    /// Name the bucket in the path of requests instead of the host, as most servers but Amazon's want it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set, help_heading = HEADING)]
    pub backup_s3_path_style: bool,
    /// File with aws_access_key_id and aws_secret_access_key, in the form of Amazon's tools [default: AWS_ACCESS_KEY_ID and
    /// AWS_SECRET_ACCESS_KEY in the environment]. Read again for each copy
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub backup_s3_credentials_file: Option<PathBuf>,
    /// Authorities that the server's certificate is verified by, in PEM [default: those of the machine]
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub backup_s3_ca_file: Option<PathBuf>,
}
