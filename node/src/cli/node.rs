//! The flags of `orch dev` and `orch serve`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use orch_api::controllers::Selection;
use orch_api::pipeline::Features;
use orch_api::watch::BATCH_DELAY_MAX;
use orch_proto::Brand;

use super::address::{parse_host_port, parse_port, parse_reachable_host, parse_reachable_host_port};
use super::admission::AdmissionArgs;
use super::audit::AuditArgs;
use super::authentication::AuthenticationArgs;
use super::authorization::AuthorizationArgs;
use super::backup::BackupArgs;
use super::certs::SECURE_PORT;
use super::clients::ClientArgs;
use super::connect::ConnectArgs;
use super::duration::parse_duration;
use super::encryption::EncryptionArgs;
use super::flow::FlowArgs;
use super::front_proxy::{FrontProxyArgs, RevocationArgs};
use super::service_accounts::ServiceAccountArgs;
use super::services::ServiceArgs;
use super::signing::SigningArgs;
use super::size::parse_size;
use super::tracing::TracingArgs;
use super::webhooks::WebhookArgs;

pub(super) const NETWORK: &str = "Network";
const IDENTITY: &str = "Certificates and identity";
const STORE: &str = "Store";
const LOOPS: &str = "Background loops";
const LOGS: &str = "Configuration and logs";

/// First part of `orch dev --help`. It is set at the command: at `DevArgs` the command's summary would replace it.
pub(super) const DEV_ABOUT: &str = "Start one node for development.\n\n\
        On the first start it makes a certificate authority, a server certificate and an administrator's client \
        configuration (admin.conf) in the data directory, and reuses them afterwards. Delete the directory to start \
        afresh.\n\n\
        Two doors: HTTPS, where you are who your certificate or token says, and the Unix socket DATA_DIR/orch.sock, which \
        you alone may open and where every request acts as the administrator. --insecure-port adds the same on a port of \
        the loopback interface, for clients that know no sockets: every program of this machine can use it. Never forward \
        either of them to a network.\n\n\
        The scheduler, the program that lies beside this one, runs with the node.\n\n\
        A node for development listens for no peers unless --peer-port is given.";

/// Flags of `orch dev`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  \
        orch dev\n  \
        curl --unix-socket orch-data/orch.sock http://orch/readyz\n  \
        orch dev --data-dir /tmp/try --secure-port 0      a second one: any free port\n  \
        orch dev --insecure-port 8080                     plain HTTP on 127.0.0.1:8080, too\n  \
        orch dev --brand kubernetes                       then: kubectl --kubeconfig orch-data/admin.conf get namespaces")]
pub struct DevArgs {
    /// Flags that `serve` has too.
    #[command(flatten)]
    pub shared: SharedArgs,
    /// Also serve plain HTTP on this port of 127.0.0.1, where every request acts as the administrator; 0 picks a free one
    #[arg(long, value_name = "PORT", value_parser = parse_port, help_heading = NETWORK)]
    pub insecure_port: Option<u16>,
    /// Listen for peers on this port of 127.0.0.1; 0 picks a free one. For a cluster that is to grow, give it at the first
    /// start
    #[arg(long, value_name = "PORT", value_parser = parse_port, help_heading = NETWORK)]
    pub peer_port: Option<u16>,
    /// Do not start the scheduler, the program `scheduler` beside this one: pods wait for one that is started by hand
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set, help_heading = STORE)]
    pub no_scheduler: bool,
}

/// First part of `orch serve --help`. It is set at the command: at `ServeArgs` the command's summary would replace it.
pub(super) const SERVE_ABOUT: &str = "Start a member of a cluster.\n\n\
        Make the certificates once with `orch certs init`, give every member the same --initial-cluster, start them in \
        any order, and once all of them run tell any of them `orch cluster found`. No later start founds anything: a \
        member with an empty data directory waits. A cluster of one is allowed.\n\n\
        Every flag can stand in a file given with --config instead, under the same name.";

/// Flags of `orch serve`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  \
        orch certs init --dir certs --member a=10.0.0.1 --member b=10.0.0.2 --member c=10.0.0.3\n\n  \
        orch serve --name a --certs-dir certs --data-dir /var/lib/orch \\\n    \
        --initial-cluster a=10.0.0.1:6444,b=10.0.0.2:6444,c=10.0.0.3:6444\n  \
        orch cluster found --kubeconfig certs/admin.conf      (once, when all members run)\n\n\
        The same as a file, `orch serve --config orch.toml`:\n  \
        name = \"a\"\n  \
        certs-dir = \"certs\"\n  \
        data-dir = \"/var/lib/orch\"\n  \
        [initial-cluster]\n  \
        a = \"10.0.0.1:6444\"\n  \
        b = \"10.0.0.2:6444\"\n  \
        c = \"10.0.0.3:6444\"")]
pub struct ServeArgs {
    /// Flags that `dev` has too.
    #[command(flatten)]
    pub shared: SharedArgs,
    /// This member's name: a key of --initial-cluster, and the name in its peer certificate
    #[arg(long, value_name = "NAME", value_parser = parse_member_name, help_heading = NETWORK)]
    pub name: Option<String>,
    /// Address or host name under which clients reach this member [default: the host of its peer address]
    #[arg(long, value_name = "HOST", value_parser = parse_reachable_host, help_heading = NETWORK)]
    pub advertise_address: Option<String>,
    /// Where this member listens for its peers [default: its entry in --initial-cluster]
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_host_port, help_heading = NETWORK)]
    pub peer_address: Option<String>,
    /// All members a new cluster is founded with; the same on each of them. Later starts ignore it
    #[arg(long, value_name = "NAME=HOST:PORT,...", help_heading = NETWORK)]
    pub initial_cluster: Option<InitialCluster>,
    /// Join a running cluster through the peer address of any of its members, instead of --initial-cluster
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_host_port, conflicts_with = "initial_cluster", help_heading = NETWORK)]
    pub join: Option<String>,
    /// Directory made by `orch certs init`: the authorities, and this member's pairs under members/NAME
    #[arg(long, value_name = "DIR", help_heading = IDENTITY)]
    pub certs_dir: Option<PathBuf>,
}

/// Flags of every node.
#[derive(Clone, Debug, Args)]
pub struct SharedArgs {
    /// Where the node keeps its data [default: ./orch-data for dev, /var/lib/orch for serve]
    #[arg(long, value_name = "DIR", help_heading = STORE)]
    pub data_dir: Option<PathBuf>,
    /// Address to listen on for HTTPS [default: 127.0.0.1 for dev, 0.0.0.0 for serve]
    #[arg(long, value_name = "IP", help_heading = NETWORK)]
    pub bind_address: Option<IpAddr>,
    /// Port of HTTPS; 0 picks a free one, printed and written to DATA_DIR/endpoints.json
    #[arg(long, value_name = "PORT", default_value_t = SECURE_PORT, value_parser = parse_port, help_heading = NETWORK)]
    pub secure_port: u16,
    /// Flags of the encryption of records.
    #[command(flatten)]
    pub encryption: EncryptionArgs,
    /// File of static bearer tokens, one user a line: token,user,uid,"group1,group2". It is read again when it changes
    #[arg(long, value_name = "FILE", help_heading = IDENTITY)]
    pub token_auth_file: Option<PathBuf>,
    /// Authorities whose client certificates identify users: common name = user, organizations = groups
    #[arg(long, value_name = "FILE", help_heading = IDENTITY)]
    pub client_ca_file: Option<PathBuf>,
    /// Flags of front proxies.
    #[command(flatten)]
    pub front_proxy: FrontProxyArgs,
    /// Flags of revoked certificates.
    #[command(flatten)]
    pub revocation: RevocationArgs,
    /// Server certificate, followed by its intermediates [default: the one of the data or certificate directory]
    #[arg(long, value_name = "FILE", help_heading = IDENTITY)]
    pub tls_cert_file: Option<PathBuf>,
    /// Private key of --tls-cert-file
    #[arg(long, value_name = "FILE", help_heading = IDENTITY)]
    pub tls_private_key_file: Option<PathBuf>,
    /// Serve requests without credentials as system:anonymous instead of refusing them [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        action = ArgAction::Set, help_heading = IDENTITY)]
    pub anonymous_auth: Option<bool>,
    /// How other servers and configured issuers say who a user is.
    #[command(flatten)]
    pub authentication: AuthenticationArgs,
    /// Who decides what a user may do.
    #[command(flatten)]
    pub authorization: AuthorizationArgs,
    /// Product names on the wire: orch, or kubernetes, which serves that ecosystem's clients. Chosen when the cluster is
    /// made and kept [default: orch for a new cluster]
    #[arg(long, value_name = "BRAND", help_heading = STORE)]
    pub brand: Option<BrandName>,
    /// How long changes stay available to watches and to lists at an older version
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_duration, help_heading = STORE)]
    pub watch_history: Duration,
    /// How long a watch gathers changes that follow one another closely, to send them together. A watch that was quiet sends
    /// its event at once. 0s sends each by itself; 1s is the most
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = parse_batch_delay, help_heading = STORE)]
    pub watch_batch_delay: Duration,
    /// Memory for those changes; older ones go to the disk: 40Mi, 1Gi [default: a 512th of the machine's, 16Mi to 256Mi]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = STORE)]
    pub watch_history_memory: Option<u64>,
    /// Disk space for them; beyond it the resource with the most loses its oldest [default: a 32nd of what is free,
    /// 256Mi to 8Gi]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = STORE)]
    pub watch_history_disk: Option<u64>,
    /// Bytes that all objects together may have; what would add to more is refused, deletions never. The same on every
    /// member: the leader's counts. 0 is no limit
    #[arg(long, value_name = "SIZE", default_value = "4Gi", value_parser = parse_size, help_heading = STORE)]
    pub state_quota: u64,
    /// Disk space that is left for the log, compaction and deletions: with less, what would add to the state is refused.
    /// 0 is none [default: a 32nd of the disk, 512Mi to 2Gi, but at most two fifths]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = STORE)]
    pub disk_reserve: Option<u64>,
    /// Disk space that the store may take, the reserve included; 0 is all that the disk has
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = parse_size, help_heading = STORE)]
    pub disk_quota: u64,
    /// How long an event is kept
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration, help_heading = STORE)]
    pub event_ttl: Duration,

    /// Flags of admission plugins.
    #[command(flatten)]
    pub admission: AdmissionArgs,
    /// Flags of tokens.
    #[command(flatten)]
    pub service_accounts: ServiceAccountArgs,
    /// Background loops to run: `*` for all, NAME for this one, -NAME for all but this one; separated by commas. Names are
    /// those of the reference; its loops that are no part of orch are accepted and change nothing.
    #[arg(long, value_name = "LIST", default_value = "*", allow_hyphen_values = true, help_heading = LOOPS)]
    pub controllers: Selection,
    /// Flags of services.
    #[command(flatten)]
    pub services: ServiceArgs,
    /// The built-in signers of certificates.
    #[command(flatten)]
    pub signing: SigningArgs,
    /// Flags of flow control.
    #[command(flatten)]
    pub flow: FlowArgs,
    /// Flags of connections and watches.
    #[command(flatten)]
    pub clients: ClientArgs,
    /// Features to turn on or off: NAME=true|false, separated by commas; NAME is APIListChunking or ServerSideFieldValidation
    #[arg(long, value_name = "NAME=BOOL,...", default_value = "", hide_default_value = true, help_heading = STORE)]
    pub feature_gates: FeatureGates,
    /// Flags of the audit.
    #[command(flatten)]
    pub audit: AuditArgs,
    /// Flags of requests that are passed on.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// Flags of webhooks and aggregated servers.
    #[command(flatten)]
    pub webhooks: WebhookArgs,
    /// Flags of traces.
    #[command(flatten)]
    pub tracing: TracingArgs,
    /// Flags of scheduled backups.
    #[command(flatten)]
    pub backup: BackupArgs,
    /// File with the same names as these flags, in TOML or YAML; a flag wins over the file
    #[arg(long, value_name = "FILE", help_heading = LOGS)]
    pub config: Option<PathBuf>,
    /// How log lines look
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text, help_heading = LOGS)]
    pub log_format: LogFormat,
    /// Explain every flag
    #[arg(long, action = ArgAction::HelpLong, help_heading = LOGS)]
    pub help_all: Option<bool>,
    /// How much to log: 0 changes of state, 4 decisions, 6 and more every step
    #[arg(long, value_name = "LEVEL", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=10), help_heading = LOGS)]
    pub v: u8,
    /// Every flag of the command with its value, by command line, file or default, in order of names. Empty where it was not parsed
    #[arg(skip)]
    pub flags: Vec<(String, String)>,
}

/// Whether requests without credentials are served; see `--anonymous-auth`.
pub type Anonymous = orch_api::authn::AnonymousAccess;

impl SharedArgs {
    /// The value of `--anonymous-auth`.
    pub fn anonymous(&self) -> Anonymous {
        if self.anonymous_auth == Some(true) { Anonymous::Allowed } else { Anonymous::Refused }
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A brand, parsed from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrandName(pub &'static Brand);

impl FromStr for BrandName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Brand::named(name).map(BrandName).ok_or_else(|| "the brands are orch and kubernetes".to_owned())
    }
}

/// Feature gates by name, and whether each is on. Holds known names only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates(pub BTreeMap<String, bool>);

impl FromStr for FeatureGates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut gates = BTreeMap::new();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, value) =
                entry.split_once('=').ok_or_else(|| format!("{entry:?} is not NAME=true|false"))?;
            let value =
                value.trim().parse().map_err(|_| format!("{name} must be true or false, not {value:?}"))?;
            let name = name.trim();
            if !Features::default().set(name, value) {
                return Err(format!(
                    "there is no feature {name:?}; there are {}",
                    Features::NAMES.join(", ")
                ));
            }
            gates.insert(name.to_owned(), value);
        }
        Ok(FeatureGates(gates))
    }
}

/// A member's name and peer address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMember {
    /// Its name.
    pub name: String,
    /// `HOST:PORT` of its peer port.
    pub address: String,
}

/// The founders of a cluster, in the order given; never empty, names and addresses distinct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitialCluster(pub Vec<ClusterMember>);

impl FromStr for InitialCluster {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut members: Vec<ClusterMember> = Vec::new();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, address) =
                entry.split_once('=').ok_or_else(|| format!("{entry:?} is not NAME=HOST:PORT"))?;
            let member = ClusterMember {
                name: parse_member_name(name)?,
                address: parse_reachable_host_port(address)?,
            };
            if members.iter().any(|other| other.name == member.name) {
                return Err(format!("member {name} is named twice"));
            }
            if members.iter().any(|other| other.address == member.address) {
                return Err(format!("address {address} is given to two members"));
            }
            members.push(member);
        }
        if members.is_empty() {
            Err("at least one member is needed".to_owned())
        } else {
            Ok(InitialCluster(members))
        }
    }
}

/// Parses the time for which watches gather changes.
fn parse_batch_delay(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        delay if delay <= BATCH_DELAY_MAX => Ok(delay),
        _ => Err("longer than a second, for which every watch would hold back its events".to_owned()),
    }
}

/// Parses a member's name: lower-case letters, digits, `-` and `.`, at most 63, because it becomes part of certificates
/// and file names.
pub(super) fn parse_member_name(name: &str) -> Result<String, String> {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let fits = (1..=63).contains(&name.len()) && name.chars().all(is_inner);
    let is_label = |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
    if !fits || !name.split('.').all(is_label) {
        return Err(format!(
            "{name:?} is not a member name: lower-case letters, digits, '-' and '.', at most 63, a letter or digit at both ends and \
             beside each '.'"
        ));
    }
    Ok(name.to_owned())
}

/// Checks a member's name and peer address by the rules of the flags.
pub fn check_member(name: &str, address: &str) -> Result<(), String> {
    parse_member_name(name)?;
    parse_reachable_host_port(address).map(|_| ())
}
