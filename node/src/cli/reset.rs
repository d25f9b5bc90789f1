//! The flags of `orch reset`.

use std::path::PathBuf;

use clap::Args;

/// First part of `orch reset --help`. It is set at the command: at the flags the command's summary would replace it.
pub(super) const ABOUT: &str = "Take a stopped member's data away: its store, and the files that a running node leaves beside it.\n\n\
        Its member, its cluster and the last index of its log are shown first. Nothing is removed until you have \
        typed the member's name, or given it with --confirm. Certificates, client configurations and files that this program \
        did not make stay; so does the directory itself. It is refused while the node runs.\n\n\
        A member without its data never comes back under its name: the cluster refuses it, because it has forgotten what it \
        promised. So for a member of a living cluster, first `orch cluster remove NAME`, then this, then a new name.";

/// Flags of `orch reset`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        orch reset --data-dir /var/lib/orch\n  \
        orch reset --data-dir /var/lib/orch --confirm b      for scripts: refused unless it is member b's")]
pub struct ResetArgs {
    /// The member's data directory
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// The member's name, instead of typing it; of a store that cannot be read, the directory as given with --data-dir
    #[arg(long, value_name = "NAME")]
    pub confirm: Option<String>,
}
