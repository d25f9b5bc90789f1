//! The flags of `orch snapshot`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::cluster::{AccessArgs, Output};
use super::size::parse_size;

/// Lowest `--rate-limit`: members end a stream that is read at half of it.
const RATE_MIN: u64 = 64 << 10;

/// What to do with snapshots: files with the whole state of a cluster at one revision.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  \
    orch snapshot save --kubeconfig certs/admin.conf\n  \
    orch snapshot new-key backup.key\n  \
    orch snapshot save backup.snapshot --encrypt-to age1...\n  \
    orch snapshot inspect backup.snapshot --identity backup.key\n  \
    orch snapshot extract backup.snapshot --resource configmaps --namespace default\n\n\
    A snapshot holds all objects, secrets among them, in clear unless it is encrypted.")]
pub enum SnapshotCommand {
    /// Save the state of a running cluster to a file
    Save(SaveArgs),
    /// Verify a snapshot and show what is in it
    Inspect(InspectSnapshotArgs),
    /// Take objects out of a snapshot, as YAML
    Extract(ExtractArgs),
    /// Make a pair of keys: snapshots are encrypted to the public one
    NewKey(NewKeyArgs),
}

/// Flags of `orch snapshot save`.
#[derive(Debug, Args)]
#[command(
    long_about = "Save the state of a running cluster to a file.\n\n\
        Any member streams it, and serves on meanwhile. The file is of one revision and has every write that was answered \
        before the command began. It is verified while it is written, and takes its name only when it is whole and on the \
        disk: what has the name is a snapshot, whatever happens meanwhile.\n\n\
        The file holds every object, secrets and the keys of the cluster's tokens among them, IN CLEAR, also where the \
        members encrypt their disks. --encrypt-to encrypts it to a public key, whose private part only a restore needs.",
    after_help = "Examples:\n  \
        orch snapshot save\n  \
        orch snapshot save /backup/monday.snapshot --kubeconfig certs/admin.conf --encrypt-to age1... --rate-limit 50MiB\n  \
        orch snapshot save - --encrypt-to age1... | ssh backup 'cat > monday.snapshot'"
)]
pub struct SaveArgs {
    /// How to reach the cluster.
    #[command(flatten)]
    pub access: AccessArgs,
    /// The file to write; - is standard output [default: orch-TIME.snapshot in this folder]
    // Another name than that of files which are read, and so must be there at the start.
    #[arg(value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Replace the file if it exists, once the new snapshot is whole
    #[arg(long)]
    pub replace: bool,
    /// Encrypt to this public key (age1...); repeat for several, each of whose private keys opens the file
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    pub encrypt_to: Vec<String>,
    /// Read at most so many bytes of the compressed stream a second, such as 50MiB [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    pub rate_limit: Option<u64>,
    /// Take what the member has applied, without asking the leader: for a cluster that has lost its quorum. The newest
    /// writes may be missing
    #[arg(long)]
    pub held: bool,
}

/// The private keys for an encrypted snapshot.
#[derive(Clone, Debug, Default, Args)]
pub struct IdentityArgs {
    /// File with the private key (AGE-SECRET-KEY-1...) of a snapshot that is encrypted; of several keys in it each is tried
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
}

/// Flags of `orch snapshot inspect`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    orch snapshot inspect monday.snapshot\n  \
    orch snapshot inspect monday.snapshot --identity backup.key --output json")]
pub struct InspectSnapshotArgs {
    /// The snapshot
    #[arg(value_name = "SNAPSHOT")]
    pub file: PathBuf,
    /// The private keys.
    #[command(flatten)]
    pub identity: IdentityArgs,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Flags of `orch snapshot extract`.
#[derive(Debug, Args)]
#[command(
    long_about = "Take objects out of a snapshot, as YAML.\n\n\
        The snapshot is verified whole first. Objects are in the version that they are stored in.",
    after_help = "Examples:\n  \
        orch snapshot extract monday.snapshot --resource secrets --namespace default --name db\n  \
        orch snapshot extract monday.snapshot --namespace default --output default/"
)]
pub struct ExtractArgs {
    /// The snapshot
    #[arg(value_name = "SNAPSHOT")]
    pub file: PathBuf,
    /// The private keys.
    #[command(flatten)]
    pub identity: IdentityArgs,
    /// Only objects of this resource: pods, deployments.apps
    #[arg(long)]
    pub resource: Option<String>,
    /// Only objects of this namespace
    #[arg(long)]
    pub namespace: Option<String>,
    /// Only objects of this name
    #[arg(long)]
    pub name: Option<String>,
    /// Write a file for each object into this folder, as RESOURCE/NAMESPACE/NAME.yaml [default: all to standard output]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Flags of `orch snapshot new-key`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    orch snapshot new-key backup.key\n\n\
    The public key is printed: give it to `orch snapshot save --encrypt-to`. Keep the file off the members: whoever has it \
    reads every snapshot that is encrypted to it. The format is that of age (age-encryption.org), whose own programs make \
    such keys and read such snapshots, too.")]
pub struct NewKeyArgs {
    /// The file to write the private key to; it must not exist
    #[arg(value_name = "PATH")]
    pub file: PathBuf,
}

/// Parses a rate: a size such as `50Mi`, which may end in `B` or `B/s`.
fn parse_rate(text: &str) -> Result<u64, String> {
    let size = text.strip_suffix("/s").unwrap_or(text);
    let rate = parse_size(size.strip_suffix('B').unwrap_or(size))?;
    match rate >= RATE_MIN {
        true => Ok(rate),
        false => {
            Err("the lowest rate is 64KiB a second: members end streams that are read more slowly".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_sizes_a_second() {
        for (text, expected) in
            [("50MiB", 50 << 20), ("50Mi", 50 << 20), ("1GiB/s", 1 << 30), ("65536", 1 << 16)]
        {
            assert_eq!(parse_rate(text), Ok(expected), "{text}");
        }
        for text in ["0", "65535", "50MB", "fast", "-1Mi"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }
}
