//! The flags of `orch certs`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};

use super::address::{parse_port, parse_reachable_host};
use super::node::{BrandName, parse_member_name};
use crate::certs::Role;

/// Default port of HTTPS.
pub(crate) const SECURE_PORT: u16 = 6443;

/// What to do with certificates.
#[derive(Debug, Subcommand)]
pub enum CertsCommand {
    /// Make every certificate a new cluster needs
    #[command(long_about = INIT_ABOUT)]
    Init(InitArgs),
    /// Make the certificates of members that are added to a cluster
    #[command(long_about = ADD_ABOUT)]
    Add(AddMembersArgs),
    /// Show what certificates say and how long they are valid
    Inspect(InspectArgs),
    /// Make the members' and the clients' certificates anew under the same authorities
    #[command(long_about = RENEW_ABOUT)]
    Renew(RenewArgs),
    /// Replace the authorities step by step, without turning anybody away
    #[command(long_about = ROTATE_ABOUT)]
    RotateCa(RotateArgs),
}

/// First part of `orch certs init --help`, set at the command: at the flags its summary would replace it.
const INIT_ABOUT: &str = "Make every certificate a new cluster needs, in one directory:\n\n  \
        ca.crt, ca.key             signs servers and clients\n  \
        peer-ca.crt, peer-ca.key   signs members, for the traffic between them only\n  \
        service-account.key, .pub  signs service account tokens\n  \
        admin.crt, admin.key       the administrator's certificate\n  \
        admin.conf                 the same as a client configuration file\n  \
        scheduler.crt, .key, .conf the scheduler's\n  \
        controller-manager.*       those of a controller manager of the ecosystem, where one runs beside the cluster\n  \
        members/NAME/              server.crt, server.key, peer.crt, peer.key of each member\n\n\
        Nothing is ever overwritten. A member needs ca.crt, peer-ca.crt, service-account.* and its own directory; \
        keep ca.key and peer-ca.key off the members, but for ca.key where members sign certificates on request.";

/// Flags of `orch certs init`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        orch certs init --dir certs --member a=10.0.0.1 --member b=10.0.0.2 --member c=10.0.0.3,c.example.com")]
pub struct InitArgs {
    /// Directory to make them in
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// A member, and the addresses and host names by which clients and peers reach it; repeat for each member
    #[arg(long = "member", value_name = "NAME=HOST[,HOST...]", required = true)]
    pub members: Vec<MemberSpec>,
    /// Port of HTTPS that the administrator's client configuration names
    #[arg(long, value_name = "PORT", default_value_t = SECURE_PORT, value_parser = parse_port)]
    pub secure_port: u16,
    /// Brand of the cluster, for the service names in the server certificates
    #[arg(long, value_name = "BRAND", default_value = "orch")]
    pub brand: BrandName,
    /// Do nothing where every one of these files is there already, as for a job that runs at each start
    #[arg(long)]
    pub if_absent: bool,
}

/// First part of `orch certs add --help`, set at the command: at the flags its summary would replace it.
const ADD_ABOUT: &str = "Make the certificates of members that are added to a cluster, under its authorities: \
        members/NAME/ with server.crt, server.key, peer.crt and peer.key.\n\n\
        Needs ca.key and peer-ca.key. No certificate is ever overwritten; admin.conf, scheduler.conf and controller-manager.conf get the new members \
        as further servers: give the new files to those that use them. A member needs ca.crt, peer-ca.crt, \
        service-account.* and its own directory.";

/// Flags of `orch certs add`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  orch certs add --dir certs --member d=10.0.0.4,d.example.com")]
pub struct AddMembersArgs {
    /// Directory made by `orch certs init`
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// A member, and the addresses and host names by which clients and peers reach it; repeat for each member
    #[arg(long = "member", value_name = "NAME=HOST[,HOST...]", required = true)]
    pub members: Vec<MemberSpec>,
    /// Port of HTTPS that the client configurations name for them [default: that of the members there]
    #[arg(long, value_name = "PORT", value_parser = parse_port)]
    pub secure_port: Option<u16>,
    /// Brand of the cluster, for the service names in the server certificates
    #[arg(long, value_name = "BRAND", default_value = "orch")]
    pub brand: BrandName,
}

/// Flags of `orch certs inspect`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  orch certs inspect certs\n  orch certs inspect orch-data/pki/members/dev/server.crt"
)]
pub struct InspectArgs {
    /// Certificate files, or directories made by `orch certs init`
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
}

/// First part of `orch certs renew --help`, set at the command: at the flags its summary would replace it.
const RENEW_ABOUT: &str = "Make the certificates of the members, the administrator and the scheduler anew under the same authorities, with the \
        same names and fresh keys.\n\n\
        Needs ca.key and peer-ca.key. Without --member, the client configurations also get every member that they lack, and lose those whose directory is gone. \
        Members read the new files by themselves within a minute, or at once on SIGHUP.";

/// Flags of `orch certs renew`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  orch certs renew --dir certs\n  orch certs renew --dir certs --member a"
)]
pub struct RenewArgs {
    /// Directory made by `orch certs init`
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Only this member's certificates; repeat for several [default: all members and clients]
    #[arg(long = "member", value_name = "NAME", value_parser = parse_member_name)]
    pub members: Vec<String>,
}

/// First part of `orch certs rotate-ca --help`, set at the command: at the flags its summary would replace it.
const ROTATE_ABOUT: &str = "Replace the authorities of a running cluster, in three steps:\n\n  \
        begin    makes a new authority beside the old one, and has both trusted\n  \
        issue    renews every pair under the new authority\n  \
        finish   drops the old authority\n\n\
        After each step give every member the new files, and wait until it has read them: within a minute, or at once on \
        SIGHUP; its log says that api and peer certificates were reloaded. Clients with a configuration of their own need the new ca.crt \
        before `issue`, and certificates that the old authority has signed end with `finish`.\n\n\
        A step that was interrupted can be given again.";

/// Flags of `orch certs rotate-ca`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        orch certs rotate-ca begin --dir certs\n  \
        orch certs rotate-ca issue --dir certs\n  \
        orch certs rotate-ca finish --dir certs\n  \
        orch certs rotate-ca begin --dir certs --peer      only the authority of the members")]
pub struct RotateArgs {
    /// The step to take
    #[arg(value_enum, value_name = "STEP")]
    pub step: RotationStep,
    /// Directory made by `orch certs init`
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Only the authority of the traffic between members
    #[arg(long, conflicts_with = "cluster")]
    pub peer: bool,
    /// Only the authority of servers and clients
    #[arg(long)]
    pub cluster: bool,
}

impl RotateArgs {
    /// The authorities to rotate.
    pub fn roles(&self) -> Vec<Role> {
        match (self.cluster, self.peer) {
            (true, false) => vec![Role::Cluster],
            (false, true) => vec![Role::Peer],
            _ => vec![Role::Cluster, Role::Peer],
        }
    }
}

/// A step of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RotationStep {
    /// The new authority is made and trusted.
    Begin,
    /// Every pair is renewed under the new authority.
    Issue,
    /// The old authority is dropped.
    Finish,
}

/// A member and the names its certificates carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSpec {
    /// Its name.
    pub name: String,
    /// Addresses and host names, never empty. The client configuration names the first.
    pub hosts: Vec<String>,
}

impl FromStr for MemberSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, hosts) =
            text.split_once('=').ok_or_else(|| format!("{text:?} is not NAME=HOST[,HOST...]"))?;
        let hosts =
            hosts.split(',').map(|host| parse_reachable_host(host.trim())).collect::<Result<_, _>>()?;
        Ok(MemberSpec { name: parse_member_name(name)?, hosts })
    }
}
