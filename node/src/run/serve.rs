//! `orch serve`: plans a member of a cluster from its flags.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::brand::brand_of_data;
use super::capacity;
use super::certificates;
use super::error::RunError;
use super::plan::{Kind, Plan, Resolved, host_of, host_port, tokens};
use crate::access::authorization::Strictness;
use crate::certs::Layout;
use crate::cli::{ClusterMember, ServeArgs};

/// Default of `--data-dir`.
const DATA_DIR: &str = "/var/lib/orch";

pub(super) fn plan(arguments: &ServeArgs) -> Result<Plan, RunError> {
    let shared = &arguments.shared;
    let name = arguments.name.clone().ok_or_else(|| missing("name", "this member's name"))?;
    let certs = arguments.certs_dir.as_ref();
    let certs = certs.ok_or_else(|| missing("certs-dir", "the directory made by `orch certs init`"))?;
    let peers = peers(arguments, &name)?;
    let layout = certificate_directory(certs, &name)?;
    certificates::renew_own_pairs(&layout, &name, shared);
    let bind = shared.bind_address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let advertise = arguments.advertise_address.clone();
    let data_dir = shared.data_dir.clone().unwrap_or_else(|| PathBuf::from(DATA_DIR));
    let space = capacity::space(&data_dir, shared.disk_reserve, shared.disk_quota)?;
    let brand = brand_of_data(&data_dir, shared.brand.map(|brand| brand.0))?;
    let resolved = Resolved {
        kind: Kind::Serve,
        data_dir,
        name,
        secure: SocketAddr::new(bind, shared.secure_port),
        advertise: advertise.unwrap_or_else(|| host_of(&peers.advertise).to_owned()),
        peer_listen: Some(peers.listen),
        peer_advertise: peers.advertise,
        peer_flag: if arguments.peer_address.is_some() { "peer-address" } else { "initial-cluster" },
        founders: peers.founders,
        join: arguments.join.clone(),
        layout,
        tokens: tokens(shared)?,
        brand,
        space,
        strictness: Strictness::Serve,
    };
    resolved.plan(shared)
}

/// Peer addresses of this member and of the founders.
struct Peers {
    listen: String,
    advertise: String,
    founders: Vec<ClusterMember>,
}

fn peers(arguments: &ServeArgs, name: &str) -> Result<Peers, RunError> {
    let founders = arguments.initial_cluster.clone().map(|cluster| cluster.0).unwrap_or_default();
    if founders.is_empty() && arguments.join.is_none() {
        return Err(missing(
            "initial-cluster",
            "the members of a new cluster, or --join HOST:PORT a member of a running one",
        ));
    }
    let own = founders.iter().find(|member| member.name == name).map(|member| member.address.clone());
    if own.is_none() && !founders.is_empty() {
        let names: Vec<_> = founders.iter().map(|member| member.name.as_str()).collect();
        let names = names.join(", ");
        return Err(RunError::Flags(format!(
            "--initial-cluster names {names} but not this member, --name {name}"
        )));
    }
    let listen = arguments.peer_address.clone().or_else(|| own.clone());
    let listen = listen.ok_or_else(|| missing("peer-address", "where this member listens for its peers"))?;
    let advertise = match own {
        Some(own) => own,
        None => advertised(arguments, &listen)?,
    };
    Ok(Peers { listen, advertise, founders })
}

/// Peer address of a member that joins: its listen address, or with a wildcard its `--advertise-address`.
fn advertised(arguments: &ServeArgs, listen: &str) -> Result<String, RunError> {
    if !host_of(listen).parse::<IpAddr>().is_ok_and(|address| address.is_unspecified()) {
        return Ok(listen.to_owned());
    }
    let host = arguments.advertise_address.as_deref();
    let host = host.ok_or_else(|| {
        missing("advertise-address", "how peers reach this member, since it listens on every address")
    })?;
    let port = listen.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or_default();
    Ok(host_port(host, port))
}

/// The certificate directory. Checks that it, and the member in it, exist.
fn certificate_directory(certs: &std::path::Path, name: &str) -> Result<Layout, RunError> {
    let layout = Layout::new(certs);
    if !certs.is_dir() {
        return Err(RunError::Flags(format!("--certs-dir: there is no directory {}", certs.display())));
    }
    if layout.members().is_dir() && !layout.members().join(name).is_dir() {
        let reason = format!("--certs-dir: {} holds no member {name}", layout.members().display());
        return Err(RunError::Flags(reason));
    }
    Ok(layout)
}

fn missing(flag: &str, what: &str) -> RunError {
    RunError::Flags(format!("--{flag} is missing: {what}"))
}
