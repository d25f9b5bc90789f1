//! The flags of `orch cluster`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use orch_raft::member::reseed::BEGINNING_MAX;

use super::address::{parse_reachable_host_port, parse_server};
use super::bypass::{self, BypassArgs};
use super::duration::parse_duration;
use super::migrate::{self, MigrateArgs};
use super::node::parse_member_name;

/// What to do with a cluster.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  \
    orch cluster found --kubeconfig certs/admin.conf\n  \
    orch cluster status\n  \
    orch cluster status --kubeconfig certs/admin.conf --output json\n  \
    orch cluster add d 10.0.0.4:6444 --kubeconfig certs/admin.conf\n\n\
    To add a member: make its certificates with `orch certs add`, `orch cluster add NAME HOST:PORT`, start it with \
    `orch serve --join`, wait until `orch cluster status` shows it caught up, `orch cluster promote NAME`.")]
pub enum ClusterAct {
    /// Through a member that runs.
    #[command(flatten)]
    Running(ClusterCommand),
    /// Make a new cluster of one stopped member's data, after the majority is lost for good
    #[command(long_about = RECOVER_ABOUT)]
    Recover(RecoverArgs),
    /// Write every object of a custom kind in its storage version, with progress; may be broken off and given again
    #[command(long_about = migrate::ABOUT)]
    MigrateStorage(MigrateArgs),
    /// Leave the admission webhooks of a configuration out for a time, which ends by itself
    #[command(long_about = bypass::ABOUT)]
    BypassWebhook(BypassArgs),
}

/// First part of `orch cluster recover --help`, set at the command: at the flags its summary would replace it.
const RECOVER_ABOUT: &str = "Make a new cluster of what one stopped member has, after the majority of its cluster is lost for good.\n\n\
        It shows what is there and what may be lost, and asks for the cluster's id before it changes any entry or object. Run it on every \
        member that is left, and recover the one with the highest term and, where these are equal, the highest entry. Until it \
        was confirmed the member can be started as before.\n\n\
        The new cluster has another id and this member alone, every object, and versions beyond all that were given out. The \
        members of the old one cannot take part in it: empty their data directories, and add them as new ones. The old store \
        stays beside the new one, as DATA_DIR/store.before, with every secret in it.";

/// Flags of `orch cluster recover`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        orch cluster recover --data-dir /var/lib/orch                    looks, and asks\n  \
        orch cluster recover --data-dir /var/lib/orch --confirm ID       for scripts")]
pub struct RecoverArgs {
    /// Directory of the data of the member, which does not run
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// The keys of the data, if it is encrypted
    #[arg(long, value_name = "FILE")]
    pub encryption_provider_config: Option<PathBuf>,
    /// The id of the cluster that is given up, instead of typing it
    #[arg(long, value_name = "ID")]
    pub confirm: Option<String>,
    /// Where peers will reach the member [default: as before]
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_reachable_host_port)]
    pub peer_address: Option<String>,
    /// Begin at this revision at least: one that the old cluster certainly never reached
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true,
        value_parser = clap::value_parser!(u64).range(0..=BEGINNING_MAX))]
    pub revision_floor: u64,
}

/// What to do with the members of a running cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show who leads, who is there and how far each one is
    #[command(long_about = STATUS_ABOUT)]
    Status(StatusArgs),
    /// Found a new cluster, once: all members of --initial-cluster run and have empty data directories
    Found(ClusterArgs),
    /// Add a member that receives everything and does not vote yet
    Add(AddArgs),
    /// Give a member that has caught up a vote
    Promote(MemberArgs),
    /// Remove a member; its name is never used again
    Remove(MemberArgs),
    /// Hand the lead over to a member
    TransferLeader(MemberArgs),
    /// Take back a change of the voters that was begun and never completed
    Undo(ClusterArgs),
}

/// Flags of the commands about the whole cluster.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// How to reach the cluster.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// How to reach the cluster.
#[derive(Debug, Args)]
pub struct AccessArgs {
    /// The administrator's client configuration: the servers of its current context's cluster are tried in order
    /// [default: the files of $KUBECONFIG, else ./orch-data/admin.conf]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Ask this server instead, as who the client configuration says; repeat for several, which are tried in order
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', value_parser = parse_server)]
    pub server: Vec<String>,
}

/// First part of `orch cluster status --help`, set at the command: at the flags its summary would replace it.
const STATUS_ABOUT: &str = "Show who leads, who is there and how far each one is.\n\n\
        Any member answers, also about those that are dead. The columns:\n\n  \
        ROLE        leader, voter, or learner, which receives everything and has no vote\n  \
        STATE       up: the member answers the server that was asked. down: it does not\n  \
        LAST HEARD  time since a member that answers had an answer from it; never: not since they started\n  \
        LAG         entries of the log, committed by now, that it had not applied when it was last heard, and for how long\n  \
        ADDRESS     where its peers reach it\n  \
        SYNC        time until its disk had written entries of the last minute: of half of them, and of 99 of 100\n  \
        CLOCK       its clock, before (+) or behind (-) that of the server that was asked\n  \
        DISK LEFT   what its store may still take of its disk\n  \
        FEATURES    highest feature level of its program; the cluster uses the lowest of all\n\n\
        What has to be done comes first, each with the next step. Exit codes: 0 healthy, 3 the cluster serves and something has to be done, 4 \
        clients are refused or will be soon, 1 no server answers.\n\n\
        A server that does not answer, is not ready, or was removed from the cluster is passed over.";

/// Flags of `orch cluster status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        orch cluster status\n  \
        orch cluster status --kubeconfig certs/admin.conf\n  \
        orch cluster status --watch\n  \
        orch cluster status --kubeconfig certs/admin.conf --server 10.0.0.2:6443 --output json")]
pub struct StatusArgs {
    /// How to reach the cluster.
    #[command(flatten)]
    pub access: AccessArgs,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Print it again after this time, until Ctrl-C [default without a value: 2s]
    #[arg(short, long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "2s", value_parser = parse_duration)]
    pub watch: Option<Duration>,
}

/// Flags of `orch cluster add`.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// How to reach the cluster.
    #[command(flatten)]
    pub access: AccessArgs,
    /// The new member's name, which no member ever had
    #[arg(value_parser = parse_member_name)]
    pub name: String,
    /// Where its peers will reach it
    #[arg(value_name = "HOST:PORT", value_parser = parse_reachable_host_port)]
    pub address: String,
}

/// Flags of the commands about one member.
#[derive(Debug, Args)]
pub struct MemberArgs {
    /// How to reach the cluster.
    #[command(flatten)]
    pub access: AccessArgs,
    /// The member
    #[arg(value_parser = parse_member_name)]
    pub name: String,
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// Everything that the text is made of, and no explanation of it.
    Json,
}
