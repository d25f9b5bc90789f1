//! The flags of `orch import` and `orch export`.

use std::path::PathBuf;

use clap::Args;

use super::address::parse_server;
use super::cluster::AccessArgs;

/// First part of `orch import --help`, set at the command: at the flags its summary would replace it.
pub(super) const IMPORT_ABOUT: &str = "Copy the objects of a running server of the same API into a cluster.\n\n\
        Every kind that the source keeps objects of is copied, definitions of custom kinds first: with uids, creation times, owners, finalizers, \
        managed fields and status. Versions are the target's own, so clients list again when they move over. Admission at the target is not asked. \
        Left out is what tells who is alive or belongs to the target: leases, events, requests for certificates, the service of the API. \
        docs/guides/move-in.md has the list, and the way of a move from the first try to the cut-over.\n\n\
        What was copied stands in the state file: broken off at any time, the same command goes on, and ends the same. What the target refused is tried again by \
        each run. With --follow it goes on copying every change, through outages of either server, until Ctrl-C, and then compares everything once more.\n\n\
        Exit codes: 0 where everything is copied, 3 where objects do not fit, were not tried or are held at the source, 1 for any other failure, 2 for a wrong flag.";

/// Flags of `orch import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        orch import --kubeconfig old.conf --dry-run                   what would not fit\n  \
        orch import --kubeconfig old.conf --to certs/admin.conf       copy, or go on with a copy\n  \
        orch import --kubeconfig old.conf --to certs/admin.conf --follow")]
pub struct ImportArgs {
    /// The client configuration of the source
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,
    /// The context of the source in it [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The administrator's client configuration of the target [default: the files of $KUBECONFIG, else ./orch-data/admin.conf]
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// Ask this server of the target instead; repeat for several, which are tried in order
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', value_parser = parse_server)]
    pub server: Vec<String>,
    /// Where the progress is kept
    #[arg(long, value_name = "STATE", default_value = "orch-import.state")]
    pub state: PathBuf,
    /// Copy nothing, and tell what would not fit
    #[arg(long)]
    pub dry_run: bool,
    /// Go on copying changes, until Ctrl-C
    #[arg(long, conflicts_with = "dry_run")]
    pub follow: bool,
    /// Have every object of the target give way that has the name of one of the source
    #[arg(long)]
    pub replace: bool,
    /// Copy events, too
    #[arg(long)]
    pub with_events: bool,
}

impl ImportArgs {
    /// How to reach the target.
    pub fn target(&self) -> AccessArgs {
        AccessArgs { kubeconfig: self.to.clone(), server: self.server.clone() }
    }
}

/// First part of `orch export --help`, set at the command: at the flags its summary would replace it.
pub(super) const EXPORT_ABOUT: &str = "Write the objects of a server as manifests, into a directory or as one stream of YAML.\n\n\
        Manifests are what a person would have written: without uids, times, versions and status, and without objects that a controller makes \
        of others; nothing in them names the uid of another object, because a server that takes them gives objects new ones. --exact keeps all of it, and is not \
        to be applied to another server: its garbage collector would delete what has owners. Secrets are among them, in files that only their owner reads. Kinds and objects that \
        `orch import` leaves out are left out here, too. A list is of one moment, two lists are not: for a copy of one moment save a \
        snapshot (`orch snapshot save`).\n\n\
        Into a directory, the same command goes on where one was broken off, and a later one removes the manifests of objects that are gone.";

/// Flags of `orch export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        orch export --dir manifests\n  \
        orch export --kubeconfig certs/admin.conf > all.yaml")]
pub struct ExportArgs {
    /// The client configuration of the server [default: the files of $KUBECONFIG, else ./orch-data/admin.conf]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context in it [default: its current one]
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub context: Option<String>,
    /// Directory to write into, as KIND/NAMESPACE/NAME.yaml [default: one stream to standard output]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Keep identity and status, and every object
    #[arg(long)]
    pub exact: bool,
    /// Write events, too
    #[arg(long)]
    pub with_events: bool,
}

impl ExportArgs {
    /// How to reach the server that the environment names.
    pub fn access(&self) -> AccessArgs {
        AccessArgs { kubeconfig: self.kubeconfig.clone(), server: Vec::new() }
    }
}
