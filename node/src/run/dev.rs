//! `orch dev`: plans a development node from its flags, and prepares its data directory.
//!
//!     DATA_DIR/store           the store
//!     DATA_DIR/pki             certificates, as `orch certs init` lays them out, for the one member `dev`
//!     DATA_DIR/admin.conf      the administrator's client configuration
//!     DATA_DIR/scheduler.conf  the scheduler's
//!     DATA_DIR/orch.sock       the Unix socket of the running node
//!     DATA_DIR/brand           the cluster's brand
//!     DATA_DIR/endpoints.json  addresses of the running node
//!
//! Certificates and the key of service account tokens are made once and reused. A pair that is about to expire, or lacks a
//! required name, is made anew under the same authority, so that clients keep working.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use orch_proto::Brand;
use orch_proto::brand::ORCH;
use orch_raft::disk::rocks::layout::STORE;
use time::OffsetDateTime;

use super::brand::brand_of_data;
use super::capacity;
use super::error::RunError;
use super::occupancy::make_data_dir;
use super::plan::{Kind, Plan, Resolved, host_port, tokens};
use super::scheduler::Scheduler;
use crate::access::authorization::Strictness;
use crate::certs::{
    Authority, CertsError, Client, Layout, Leaf, Pair, inspect, is_about_to_expire, peer_leaf, replace_file,
    server_leaf, token_keys, write_new,
};
use crate::cli::{ClusterMember, DevArgs};
use crate::kubeconfig::Server;
use crate::server::{SOCKET_PATH_BYTES_MAX, is_socket_path};
use crate::tls::load_pair;

/// Name of the only member.
const NAME: &str = "dev";
/// Default of `--data-dir`.
const DATA_DIR: &str = "./orch-data";
/// Peer address of a node that does not listen for peers. No other member can be added to its cluster.
const NO_PEER_ADDRESS: &str = "127.0.0.1:0";
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(super) fn plan(arguments: &DevArgs) -> Result<Plan, RunError> {
    let shared = &arguments.shared;
    let data_dir = shared.data_dir.clone().unwrap_or_else(|| PathBuf::from(DATA_DIR));
    let tokens = tokens(shared)?;
    let space = capacity::space(&data_dir, shared.disk_reserve, shared.disk_quota)?;
    require_ours(&data_dir)?;
    let brand = brand_of_data(&data_dir, shared.brand.map(|brand| brand.0))?;
    let socket = socket(&data_dir)?;
    let layout = layout(&data_dir);
    let bind = shared.bind_address.unwrap_or(LOOPBACK);
    let hosts: Vec<String> = if bind.is_unspecified() { Vec::new() } else { vec![bind.to_string()] };
    make_data_dir(&data_dir)?;
    prepare(&layout, &hosts, brand.unwrap_or(&ORCH), OffsetDateTime::now_utc())?;
    let peer_listen = arguments.peer_port.map(|port| host_port("127.0.0.1", port));
    let peer = peer_listen.clone().unwrap_or_else(|| NO_PEER_ADDRESS.to_owned());
    let plain = arguments.insecure_port.map(|port| SocketAddr::new(LOOPBACK, port));
    let resolved = Resolved {
        kind: Kind::Dev { socket, plain, scheduler: scheduler(arguments.no_scheduler)? },
        data_dir,
        name: NAME.to_owned(),
        secure: SocketAddr::new(bind, shared.secure_port),
        advertise: if bind.is_unspecified() { LOOPBACK.to_string() } else { bind.to_string() },
        peer_listen,
        peer_advertise: peer.clone(),
        peer_flag: "peer-port",
        founders: vec![ClusterMember { name: NAME.to_owned(), address: peer }],
        join: None,
        layout,
        tokens,
        brand,
        space,
        strictness: Strictness::Dev,
    };
    resolved.plan(shared)
}

fn scheduler(is_unwanted: bool) -> Result<Scheduler, RunError> {
    if is_unwanted {
        return Ok(Scheduler::Unwanted);
    }
    let system = |source| RunError::System { action: "find its own program", source };
    Scheduler::beside_this_program().map_err(system)
}

/// Path of the configuration of `client` in `data_dir`.
pub(super) fn client_config(data_dir: &Path, client: Client) -> PathBuf {
    data_dir.join(format!("{}.conf", client.name()))
}

/// Writes the client configurations for the server at `url`, but for those whose content is up to date.
pub(super) fn write_client_configs(data_dir: &Path, brand: &Brand, url: &str) -> Result<(), RunError> {
    let layout = layout(data_dir);
    let authority = read(&layout.authority_certificate())?;
    let server = [Server { name: NAME.to_owned(), url: url.to_owned() }];
    for client in Client::ALL {
        let files = layout.client(client);
        let pair = Pair { certificate: read(&files.certificate)?, key: read(&files.key)? };
        let config = client.config(brand, &server, &authority, &pair);
        let path = client_config(data_dir, client);
        if !std::fs::read_to_string(&path).is_ok_and(|found| found == config) {
            replace_file(&path, &config)?;
        }
    }
    Ok(())
}

fn layout(data_dir: &Path) -> Layout {
    Layout::new(&data_dir.join("pki"))
}

/// Path of the Unix socket. Too long a path is refused rather than replaced, since clients find the socket by the
/// directory.
fn socket(data_dir: &Path) -> Result<PathBuf, RunError> {
    let path = data_dir.join("orch.sock");
    if is_socket_path(&path) {
        return Ok(path);
    }
    Err(RunError::Flags(format!(
        "--data-dir: {} has {} bytes, and the path of a Unix socket at most {SOCKET_PATH_BYTES_MAX}; choose a shorter path \
         (one relative to the current directory will do)",
        path.display(),
        path.as_os_str().len(),
    )))
}

/// Refuses a directory that has files but neither `pki` nor `store`.
fn require_ours(data_dir: &Path) -> Result<(), RunError> {
    let entries = match std::fs::read_dir(data_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(source) => {
            return Err(RunError::File { flag: "data-dir", path: data_dir.to_owned(), source });
        }
    };
    let names: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    // A freshly formatted volume contains this directory.
    let empty = names.iter().all(|name| name == "lost+found");
    if empty || names.iter().any(|name| name == "pki" || name == STORE) {
        return Ok(());
    }
    Err(RunError::NotOurs { path: data_dir.to_owned() })
}

/// Makes the authorities and the key of tokens if missing, and the pairs if missing, about to expire or lacking a name.
fn prepare(layout: &Layout, hosts: &[String], brand: &Brand, now: OffsetDateTime) -> Result<(), CertsError> {
    let authority = authority(&layout.authority_certificate(), &layout.authority_key(), "cluster-ca", now)?;
    let peers = authority_of_peers(layout, now)?;
    if !layout.token_key().exists() {
        let (key, public_key) = token_keys()?;
        replace_file(&layout.token_public_key(), &public_key)?;
        write_new(&layout.token_key(), &key)?;
    }
    let files = layout.member(NAME);
    let server = server_leaf(NAME, hosts, brand);
    renew_if_needed(&authority, &server, (&files.server_certificate, &files.server_key), now)?;
    let peer = peer_leaf(NAME, &["localhost".to_owned(), "127.0.0.1".to_owned()]);
    renew_if_needed(&peers, &peer, (&files.peer_certificate, &files.peer_key), now)?;
    for client in Client::ALL {
        let files = layout.client(client);
        renew_if_needed(&authority, &client.leaf(brand), (&files.certificate, &files.key), now)?;
    }
    Ok(())
}

fn authority_of_peers(layout: &Layout, now: OffsetDateTime) -> Result<Authority, CertsError> {
    authority(&layout.peer_authority_certificate(), &layout.peer_authority_key(), "peer-ca", now)
}

fn authority(
    certificate: &Path,
    key: &Path,
    name: &str,
    now: OffsetDateTime,
) -> Result<Authority, CertsError> {
    if certificate.exists() {
        return Authority::load(certificate, key);
    }
    let made = Authority::create(name, now)?;
    // Writes the key first: if the certificate exists, so does the key.
    replace_file(key, &made.pair.key)?;
    write_new(certificate, &made.pair.certificate)?;
    Ok(made)
}

fn renew_if_needed(
    authority: &Authority,
    leaf: &Leaf,
    (certificate, key): (&Path, &Path),
    now: OffsetDateTime,
) -> Result<(), CertsError> {
    if certificate.exists() && key.exists() {
        let found = inspect(certificate)?;
        let fits = |host: &String| found.iter().any(|facts| facts.hosts.contains(host));
        // A process that ended between the two files below left a key without its certificate.
        let is_pair = load_pair(certificate, key, now).is_ok();
        if is_pair && found.iter().all(|facts| !is_about_to_expire(facts, now)) && leaf.hosts.iter().all(fits)
        {
            return Ok(());
        }
    }
    let pair = authority.issue(leaf, now)?;
    replace_file(key, &pair.key)?;
    replace_file(certificate, &pair.certificate)
}

fn read(path: &Path) -> Result<String, CertsError> {
    std::fs::read_to_string(path).map_err(|source| CertsError::File {
        action: "read",
        path: path.to_owned(),
        source,
    })
}
