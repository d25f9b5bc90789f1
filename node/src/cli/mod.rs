//! The command line of the `orch` binary: commands, flags and their help.
//!
//! Owns the flags' names, defaults and help. Flags of `dev` and `serve` can also stand in a configuration file
//! (`--config`) under the same names; [`parse`] merges the two, and a flag wins over the file. It never opens a
//! port or touches a data directory.

mod address;
mod admission;
mod audit;
mod authentication;
mod authorization;
mod backup;
mod bypass;
mod certs;
mod clients;
mod cluster;
mod connect;
mod doctor;
mod duration;
mod encryption;
mod file;
mod flow;
mod front_proxy;
mod help;
mod kubeconfig;
mod migrate;
mod moving;
mod node;
mod oidc;
mod parse;
mod policy;
mod reset;
mod schedule;
mod service_accounts;
mod services;
mod signing;
mod size;
mod snapshot;
mod tracing;
mod webhooks;

pub(crate) use address::parse_server;
pub use admission::AdmissionArgs;
pub use audit::{AuditArgs, AuditFormat, AuditMode};
pub use authentication::AuthenticationArgs;
pub use authorization::{AuthorizationArgs, AuthorizationMode, AuthorizationModes};
pub use backup::BackupArgs;
pub use bypass::BypassArgs;
pub(crate) use certs::SECURE_PORT;
pub use certs::{
    AddMembersArgs, CertsCommand, InitArgs, InspectArgs, MemberSpec, RenewArgs, RotateArgs, RotationStep,
};
pub use clients::ClientArgs;
pub use cluster::{
    AccessArgs, AddArgs, ClusterAct, ClusterCommand, MemberArgs, Output, RecoverArgs, StatusArgs,
};
pub use connect::ConnectArgs;
pub use doctor::DoctorArgs;
pub(crate) use duration::parse_duration;
pub use encryption::{EncryptionArgs, EncryptionCommand, RewriteArgs};
pub use file::FileError;
pub use flow::FlowArgs;
pub use front_proxy::{FrontProxyArgs, RevocationArgs};
pub use kubeconfig::{AccountName, KubeconfigArgs};
pub use migrate::MigrateArgs;
pub use moving::{ExportArgs, ImportArgs};
pub use node::{
    Anonymous, BrandName, ClusterMember, DevArgs, FeatureGates, InitialCluster, LogFormat, ServeArgs,
    SharedArgs, check_member,
};
pub use oidc::{OidcArgs, RequiredClaims};
pub use parse::{ParseError, log_format, parse, parse_and_find_files};
pub use policy::{Expected, PolicyCommand, PolicyTestArgs, TriedOperation};
pub use reset::ResetArgs;
pub use schedule::{Cron, Schedule};
pub use service_accounts::ServiceAccountArgs;
pub use services::ServiceArgs;
pub use signing::SigningArgs;
pub(crate) use size::format_size;
pub use snapshot::{
    ExtractArgs, IdentityArgs, InspectSnapshotArgs, KeyFileArgs, KeyPlaceArgs, NewKeyArgs, RestoreArgs,
    SaveArgs, SnapshotCommand,
};
pub use tracing::TracingArgs;
pub use webhooks::WebhookArgs;

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};

/// The version of this program, with the release whose API it serves.
pub static VERSION: LazyLock<String> = LazyLock::new(orch_proto::version::program);

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "orch",
    version = &**VERSION,
    about = "A cluster control plane: an API server with its own replicated store, in one binary",
    long_about = "A cluster control plane in one binary.\n\n\
        `orch dev` starts everything a laptop needs and prints what to type next. `orch serve` is one member of a \
        cluster of three or five; any member answers any request, and no external database is needed.\n\n\
        What it is not: there is no kubelet, so nothing runs containers, and there are no workload controllers yet: a Deployment \
        makes no pods, unless the ecosystem's controller manager runs beside it. Clients of that ecosystem, `kubectl` above all, \
        need --brand kubernetes. docs/operations.md has recipes for all three.",
    after_help = "Examples:\n  \
        orch dev                         a node to try things on, data in ./orch-data\n  \
        orch certs init --dir certs --member a=10.0.0.1 --member b=10.0.0.2 --member c=10.0.0.3\n  \
        orch serve --config orch.toml    a member of a cluster\n  \
        orch cluster status              who leads, who is there\n  \
        orch completions bash > /etc/bash_completion.d/orch\n\n\
        `orch COMMAND --help` explains each flag.",
    arg_required_else_help = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start one node for development: no preparation, data beside you
    #[command(long_about = node::DEV_ABOUT)]
    Dev(Box<DevArgs>),
    /// Start a member of a cluster
    #[command(long_about = node::SERVE_ABOUT)]
    Serve(Box<ServeArgs>),
    /// Make, show and renew the certificates of a cluster
    #[command(subcommand)]
    Certs(CertsCommand),
    /// Show and change the members of a running cluster, recover one that has lost its majority, or migrate stored objects
    #[command(subcommand)]
    Cluster(ClusterAct),
    /// Save the state of a cluster, and look into saved ones
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Copy the objects of a running server of the same API into a cluster
    #[command(long_about = moving::IMPORT_ABOUT)]
    Import(ImportArgs),
    /// Write the objects of a server as manifests
    #[command(long_about = moving::EXPORT_ABOUT)]
    Export(ExportArgs),
    /// Encrypt stored records with the keys that new records get
    #[command(subcommand)]
    Encryption(EncryptionCommand),
    /// Try admission policies on objects
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Make a client configuration for a further user or a service account
    #[command(long_about = kubeconfig::ABOUT)]
    Kubeconfig(KubeconfigArgs),
    /// Check a machine and a data directory before a member starts on them
    #[command(long_about = doctor::ABOUT)]
    Doctor(DoctorArgs),
    /// Take a stopped member's data away
    #[command(long_about = reset::ABOUT)]
    Reset(ResetArgs),
    /// Print the version
    Version,
    /// Print a completion script for your shell
    #[command(after_help = "Examples:\n  \
        orch completions bash > /etc/bash_completion.d/orch\n  \
        orch completions zsh > ~/.zfunc/_orch\n  \
        orch completions fish > ~/.config/fish/completions/orch.fish")]
    Completions {
        /// The shell to print it for
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one for each command, into a directory
    #[command(after_help = "Examples:\n  orch man /usr/local/share/man/man1")]
    Man {
        /// Directory to write them into; it must exist
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

#[cfg(test)]
mod tests;
