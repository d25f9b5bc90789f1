//! The flags of encryption at rest, and of `orch encryption`.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};

use super::cluster::AccessArgs;

const STORE: &str = "Store";

/// Flags of every node.
#[derive(Clone, Debug, Default, Args)]
pub struct EncryptionArgs {
    /// Keys with which records are encrypted on the disk: an EncryptionConfiguration as of the reference, with the providers
    /// aesgcm, secretbox (XChaCha20-Poly1305), kms (v2) and identity. See docs/encryption.md
    #[arg(long, value_name = "FILE", help_heading = STORE)]
    pub encryption_provider_config: Option<PathBuf>,
    /// Take up a changed --encryption-provider-config without a restart
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set, help_heading = STORE)]
    pub encryption_provider_config_automatic_reload: bool,
}

/// What to do with records at rest.
#[derive(Debug, Subcommand)]
pub enum EncryptionCommand {
    /// Rewrite every record, with progress; goes on where an interrupted one ended
    #[command(after_help = "Examples:\n  \
        orch encryption rewrite --kubeconfig certs/admin.conf      every member in it, while they run\n  \
        orch encryption rewrite --kubeconfig certs/admin.conf --server 10.0.0.1:6443      this member alone\n  \
        orch encryption rewrite --data-dir /var/lib/orch --encryption-provider-config keys.yaml      one that is stopped")]
    Rewrite(RewriteArgs),
}

/// Flags of `orch encryption rewrite`.
#[derive(Debug, Args)]
pub struct RewriteArgs {
    /// How to reach running members: those of the client configuration are rewritten one after another
    #[command(flatten)]
    pub access: AccessArgs,
    /// Directory of the data of a node that does not run, instead of running members
    #[arg(long, value_name = "DIR", requires = "encryption_provider_config", conflicts_with = "server")]
    pub data_dir: Option<PathBuf>,
    /// The keys for --data-dir: the first provider of a resource writes, the others may still be needed to read
    #[arg(long, value_name = "FILE", requires = "data_dir")]
    pub encryption_provider_config: Option<PathBuf>,
}
