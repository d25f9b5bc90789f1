//! Everything a node is started with, resolved from flags: no defaults and no files are decided after this.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use orch_api::authn::{AnonymousAccess, TokenTable};
use orch_api::pipeline::Features;
use orch_proto::Brand;
use orch_raft::member::SpaceOptions;

use super::error::RunError;
use crate::cli::{ClusterMember, SharedArgs};
use crate::tls::TlsFiles;

/// A node to be.
#[derive(Debug)]
pub struct Plan {
    /// What kind of node.
    pub kind: Kind,
    /// Its directory.
    pub data_dir: PathBuf,
    /// Its name among the members.
    pub name: String,
    /// Address of HTTPS.
    pub secure: SocketAddr,
    /// Host under which clients reach it.
    pub advertise: String,
    /// Where it listens for peers, `HOST:PORT`; `None` where it does not.
    pub peer_listen: Option<String>,
    /// Where peers reach it, `HOST:PORT`; a port of 0 is replaced by the one chosen.
    pub peer_advertise: String,
    /// The flag that chose the peer port, for errors.
    pub peer_flag: &'static str,
    /// The members a new cluster starts with, this one among them.
    pub founders: Vec<ClusterMember>,
    /// A member of the cluster to join.
    pub join: Option<String>,
    /// Certificates of the API port.
    pub tls: TlsFiles,
    /// Certificates of the peer port.
    pub peer_tls: PeerFiles,
    /// Users with static tokens.
    pub tokens: TokenTable,
    /// Whether requests without credentials are served.
    pub anonymous: AnonymousAccess,
    /// The brand asked for.
    pub brand: Option<&'static Brand>,
    /// How long history is kept.
    pub watch_history: Duration,
    /// Bytes of memory for it, if chosen.
    pub watch_history_memory: Option<u64>,
    /// Bytes on the disk for it, if chosen.
    pub watch_history_disk: Option<u64>,
    /// Bytes that all objects of the cluster may have; 0 for no limit.
    pub state_quota: u64,
    /// Bytes of the disk to be left alone, and bytes that the store may take.
    pub space: SpaceOptions,
    /// How long events are kept.
    pub event_ttl: Duration,
    /// What is turned on.
    pub features: Features,
}

/// What kind of node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For development.
    Dev {
        /// The Unix socket, where everybody who may open it is the administrator.
        socket: PathBuf,
        /// Address of plain HTTP on the loopback interface, if it is wanted.
        plain: Option<SocketAddr>,
    },
    /// A member of a cluster.
    Serve,
}

/// Certificates of the peer port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFiles {
    /// The peer authority.
    pub authority: PathBuf,
    /// This member's certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Reads the token file, if there is one.
pub(super) fn tokens(shared: &SharedArgs) -> Result<TokenTable, RunError> {
    let Some(path) = &shared.token_auth_file else { return Ok(TokenTable::default()) };
    let text = std::fs::read(path).map_err(|source| RunError::File {
        flag: "token-auth-file",
        path: path.clone(),
        source,
    })?;
    let table = TokenTable::parse(&text).map_err(|source| RunError::Tokens { path: path.clone(), source })?;
    for warning in table.warnings() {
        tracing::warn!(path = %path.display(), "token file: {warning}");
    }
    Ok(table)
}

/// The features that `--feature-gates` leaves on. The flag's parser has refused unknown names.
pub(super) fn features(shared: &SharedArgs) -> Features {
    let mut features = Features::default();
    for (name, &on) in &shared.feature_gates.0 {
        let is_known = features.set(name, on);
        debug_assert!(is_known, "there is no feature {name}");
    }
    features
}

/// The certificate and key of the API port: the ones given, or else the node's own, which `authority` has signed.
pub(super) fn tls_files(
    shared: &SharedArgs,
    own: (PathBuf, PathBuf),
    authority: PathBuf,
) -> Result<TlsFiles, RunError> {
    let (certificate, key, server_authority) = match (&shared.tls_cert_file, &shared.tls_private_key_file) {
        (Some(certificate), Some(key)) => (certificate.clone(), key.clone(), None),
        (None, None) => (own.0, own.1, Some(authority.clone())),
        _ => {
            let reason = "--tls-cert-file and --tls-private-key-file go together";
            return Err(RunError::Flags(reason.to_owned()));
        }
    };
    let client_authorities = shared.client_ca_file.clone().unwrap_or(authority);
    Ok(TlsFiles { certificate, key, client_authorities, server_authority })
}

/// `HOST` of `HOST:PORT`, without brackets.
pub(crate) fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// `HOST:PORT`, with an IPv6 host in brackets.
pub(crate) fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
