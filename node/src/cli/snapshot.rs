//! The flags of `orch snapshot`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use orch_raft::member::reseed::BEGINNING_MAX;

use super::address::{parse_port, parse_reachable_host, parse_reachable_host_port};
use super::certs::SECURE_PORT;
use super::cluster::{AccessArgs, Output};
use super::node::parse_member_name;
use super::size::parse_size;

const IDENTITY: &str = "The cluster's identity";

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
    #[command(long_about = SAVE_ABOUT)]
    Save(SaveArgs),
    /// Verify a snapshot and show what is in it
    Inspect(InspectSnapshotArgs),
    /// Take objects out of a snapshot, as YAML
    #[command(long_about = EXTRACT_ABOUT)]
    Extract(ExtractArgs),
    /// Make the data of a new cluster of one member from a snapshot
    #[command(long_about = RESTORE_ABOUT)]
    Restore(RestoreArgs),
    /// Make a pair of keys: snapshots are encrypted to the public one
    NewKey(NewKeyArgs),
}

/// First part of `orch snapshot save --help`, set at the command: at the flags its summary would replace it.
const SAVE_ABOUT: &str = "Save the state of a running cluster to a file.\n\n\
        Any member streams it, and serves on meanwhile. The file is of one revision and has every write that was answered \
        before the command began. It is verified while it is written, and takes its name only when it is whole and on the \
        disk: what has the name is a snapshot, whatever happens meanwhile.\n\n\
        A stream that breaks is resumed over a new connection, as long as a member has its state: for two minutes after it \
        broke. Else the snapshot begins anew, and says so. Until the end the file is called PATH.part. Where the command was \
        interrupted, the same command resumes it, unless it is encrypted; such a snapshot is of the first command's time.\n\n\
        The file holds every object, secrets and the keys of the cluster's tokens among them, IN CLEAR, also where the \
        members encrypt their disks. --encrypt-to encrypts it to a public key, whose private part only a restore needs.\n\n\
        It does not hold the cluster's identity: the authorities, the keys of service account tokens and of encryption at rest, which are files \
        and not objects. --with-identity puts those of --certs-dir into the encrypted file, read on this machine: no member sends \
        them. With them a blank machine becomes the cluster again, and its clients go on with the credentials that they have.";

/// Flags of `orch snapshot save`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        orch snapshot save\n  \
        orch snapshot save /backup/monday.snapshot --kubeconfig certs/admin.conf --encrypt-to age1... --rate-limit 50MiB\n  \
        orch snapshot save monday.snapshot --kubeconfig certs/admin.conf --encrypt-to age1... --with-identity --certs-dir certs\n  \
        orch snapshot save - --encrypt-to age1... | ssh backup 'cat > monday.snapshot'")]
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
    /// Read at most this many bytes of the compressed stream a second, such as 50MiB [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    pub rate_limit: Option<u64>,
    /// Take what the member has applied, without asking the leader: for a cluster that has lost its quorum. The newest
    /// writes may be missing
    #[arg(long)]
    pub held: bool,
    /// The cluster's identity.
    #[command(flatten)]
    pub keys: KeyFileArgs,
}

/// The cluster's identity, which a snapshot may hold.
#[derive(Clone, Debug, Default, Args)]
pub struct KeyFileArgs {
    /// Save the cluster's identity, too: the authorities with their keys, the keys of service account tokens, and those of
    /// encryption at rest. Only into an encrypted snapshot
    #[arg(long, requires_all = ["encrypt_to", "certs_dir"], help_heading = IDENTITY)]
    pub with_identity: bool,
    /// Directory made by `orch certs init`, with ca.key and peer-ca.key in it
    #[arg(long, value_name = "DIR", requires = "with_identity", help_heading = IDENTITY)]
    pub certs_dir: Option<PathBuf>,
    /// The keys of encryption at rest that the members are started with
    #[arg(long, value_name = "FILE", requires = "with_identity", help_heading = IDENTITY)]
    pub encryption_provider_config: Option<PathBuf>,
    /// A further file that the members' flags name, such as earlier keys of tokens or other authorities of clients; repeat for
    /// several
    #[arg(long, value_name = "FILE", requires = "with_identity", help_heading = IDENTITY)]
    pub identity_file: Vec<PathBuf>,
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

/// First part of `orch snapshot extract --help`, set at the command: at the flags its summary would replace it.
const EXTRACT_ABOUT: &str = "Take objects out of a snapshot, as YAML.\n\n\
        The snapshot is verified whole first. Objects are in the version that they are stored in.";

/// Flags of `orch snapshot extract`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        orch snapshot extract monday.snapshot --resource secrets --namespace default --name db\n  \
        orch snapshot extract monday.snapshot --namespace default --output default/")]
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

/// First part of `orch snapshot restore --help`, set at the command: at the flags its summary would replace it.
const RESTORE_ABOUT: &str = "Make the data of a new cluster of one member from a snapshot.\n\n\
        The snapshot is proved whole before anything of it is at its place; a directory with a store, or with other files, is \
        refused. The cluster has another id, every object of the snapshot, and versions beyond all that can have been given out \
        since: 100,000 for each second, a million at least. Clients list anew once. Other members join it as new ones.\n\n\
        Where the snapshot holds the cluster's identity, its files are put into --certs-dir, with new certificates of this member, of \
        the administrator and of the scheduler: what clients have goes on working, at the new addresses.";

/// Flags of `orch snapshot restore`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        orch snapshot restore monday.snapshot --data-dir /var/lib/orch\n  \
        orch snapshot restore monday.snapshot --data-dir /var/lib/orch --name a --peer-address 10.0.0.1:6444\n  \
        orch snapshot restore monday.snapshot --identity backup.key --data-dir /var/lib/orch --name a --peer-address 10.0.0.1:6444 --host api.example.com")]
pub struct RestoreArgs {
    /// The snapshot
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The private keys.
    #[command(flatten)]
    pub identity: IdentityArgs,
    /// Directory of the data of the member to be: empty, or absent
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// The member's name, as in its certificate [default: the member that the snapshot is from]
    #[arg(long, value_name = "NAME", value_parser = parse_member_name)]
    pub name: Option<String>,
    /// Where peers will reach it [default: the address that the snapshot has for it]
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_reachable_host_port)]
    pub peer_address: Option<String>,
    /// Keys with which the records are encrypted on the disk: those that the member will be started with
    #[arg(long, value_name = "FILE")]
    pub encryption_provider_config: Option<PathBuf>,
    /// Begin at this revision at least: one that the old cluster certainly never reached
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true,
        value_parser = clap::value_parser!(u64).range(0..=BEGINNING_MAX))]
    pub revision_floor: u64,
    /// The cluster's identity.
    #[command(flatten)]
    pub keys: KeyPlaceArgs,
}

/// Where the cluster's identity goes, if the snapshot holds it.
#[derive(Clone, Debug, Args)]
pub struct KeyPlaceArgs {
    /// Directory for the cluster's identity; absent, or one that holds the same [default: certs in the data directory]
    #[arg(long, value_name = "DIR", help_heading = IDENTITY)]
    pub certs_dir: Option<PathBuf>,
    /// Further address or host name by which clients reach the member, for its certificate: repeat for several. The host of its peer
    /// address is always in it
    #[arg(long, value_name = "HOST", value_parser = parse_reachable_host, help_heading = IDENTITY)]
    pub host: Vec<String>,
    /// Port of HTTPS that the new client configurations name
    #[arg(long, value_name = "PORT", default_value_t = SECURE_PORT, value_parser = parse_port, help_heading = IDENTITY)]
    pub secure_port: u16,
    /// Leave the cluster's identity in the snapshot: the certificates are elsewhere
    #[arg(long, help_heading = IDENTITY)]
    pub without_identity: bool,
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
