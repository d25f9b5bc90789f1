//! The settings of a node, resolved from flags: no defaults and no paths are decided after this.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orch_api::admission::Settings;
use orch_api::authn::{AnonymousAccess, TokenTable};
use orch_api::connect::Connector;
use orch_api::controllers::Selection;
use orch_api::pipeline::Features;
use orch_api::signing::CertificateSigner;
use orch_proto::Brand;
use orch_proto::brand::ORCH;
use orch_raft::member::SpaceOptions;
use orch_serving::files::{self, MATERIAL_BYTES_MAX};

use super::audit::Audit;
use super::authentication::AuthenticationPlan;
use super::authorization::AuthorizationPlan;
use super::backup::BackupPlan;
use super::clients::ClientLimits;
use super::error::RunError;
use super::scheduler::Scheduler;
use super::service_accounts::ServiceAccountPlan;
use super::services::ServicePlan;
use super::webhooks::WebhookPlan;
use super::{admission, authentication, authorization, certificates, encryption, service_accounts, services};
use crate::access::authorization::Strictness;
use crate::certs::{Expiries, Layout};
use crate::cli::{ClusterMember, FrontProxyArgs, SharedArgs};
use crate::encryption::Keyring;
use crate::tls::{MaterialError, TlsFiles};
use crate::traces::{self, TracesPlan};

/// Settings of a node to start.
#[derive(Debug)]
pub struct Plan {
    /// Kind of node, with the listeners that only it has.
    pub kind: Kind,
    /// The data directory.
    pub data_dir: PathBuf,
    /// The node's name among the members.
    pub name: String,
    /// Listen address of HTTPS; port 0 takes a free one.
    pub secure: SocketAddr,
    /// Host under which clients reach the node.
    pub advertise: String,
    /// Listen address for peers, `HOST:PORT`; `None` without a peer port.
    pub peer_listen: Option<String>,
    /// Address under which peers reach the node, `HOST:PORT`; port 0 is replaced by the chosen one.
    pub peer_advertise: String,
    /// The flag that chose the peer port, for errors.
    pub peer_flag: &'static str,
    /// Founders of a new cluster, this member among them; empty for a member that joins.
    pub founders: Vec<ClusterMember>,
    /// `HOST:PORT` of a member of the cluster to join.
    pub join: Option<String>,
    /// Certificates of the API port.
    pub tls: TlsFiles,
    /// The flags that name files of `tls`, for errors.
    pub tls_flags: Vec<(&'static str, PathBuf)>,
    /// Certificates of the peer port.
    pub peer_tls: PeerFiles,
    /// The certificates and token keys whose age is watched.
    pub expiries: Expiries,
    /// Keys with which records are encrypted on the disk; `None` without `--encryption-provider-config`.
    pub keys: Option<Arc<Keyring>>,
    /// `--encryption-provider-config-automatic-reload`.
    pub reloads_keys: bool,
    /// Users with static tokens; empty without `--token-auth-file`.
    pub tokens: TokenTable,
    /// The file of those tokens.
    pub token_file: Option<PathBuf>,
    /// Service account tokens and bootstrap tokens.
    pub service_accounts: ServiceAccountPlan,
    /// The admission plugins that are asked, and their configurations.
    pub admission: Settings,
    /// Flags of front proxies; `run::front_proxy` resolves them.
    pub front_proxy: FrontProxyArgs,
    /// Whether requests without credentials are served.
    pub anonymous: AnonymousAccess,
    /// Methods of authentication that ask other servers.
    pub authentication: AuthenticationPlan,
    /// The authorizers of requests.
    pub authorization: AuthorizationPlan,
    /// The brand of the data, else the value of `--brand`, if any.
    pub brand: Option<&'static Brand>,
    /// How long history is kept.
    pub watch_history: Duration,
    /// Longest time for which a watch gathers changes.
    pub watch_batch_delay: Duration,
    /// Bytes of memory for history; `None` takes the default of the machine.
    pub watch_history_memory: Option<u64>,
    /// Bytes on the disk for history; `None` takes the default of the disk.
    pub watch_history_disk: Option<u64>,
    /// Bytes that all objects of the cluster may have; 0 for no limit.
    pub state_quota: u64,
    /// Disk reserve and quota, in bytes.
    pub space: SpaceOptions,
    /// How long events are kept.
    pub event_ttl: Duration,
    /// Ranges of services.
    pub services: ServicePlan,
    /// The background loops that run.
    pub controllers: Selection,
    /// The authority of the built-in signers; `None` where this node has no key to sign with.
    pub signer: Option<Arc<dyn CertificateSigner>>,
    /// Feature gates.
    pub features: Features,
    /// Settings of flow control.
    pub flow: orch_api::flow::Options,
    /// Bounds of connections and watches.
    pub clients: ClientLimits,
    /// Which requests are audited, and where.
    pub audit: Audit,
    /// Connections to other servers, by which requests for logs, streams and proxies are passed on.
    pub connector: Connector,
    /// Connections to webhooks that objects name.
    pub webhooks: WebhookPlan,
    /// Traces that are recorded; `None` without `--tracing-config-file`.
    pub traces: Option<TracesPlan>,
    /// Scheduled backups; `None` without `--backup-schedule`.
    pub backup: Option<BackupPlan>,
    /// Every flag with its value, for people.
    pub flags: Vec<(String, String)>,
}

impl Plan {
    /// The error of certificates or keys of the API port, with the flag that names the file.
    pub(super) fn material(&self, source: MaterialError) -> RunError {
        let named = source.path().and_then(|path| self.tls_flags.iter().find(|(_, named)| named == path));
        let origin = named
            .map_or_else(|| "certificates of the HTTPS port".to_owned(), |(flag, _)| format!("--{flag}"));
        RunError::Material { origin, source }
    }
}

/// The settings that `orch dev` and `orch serve` each resolve in their own way. The rest of a plan is the same for both.
pub(super) struct Resolved {
    pub(super) kind: Kind,
    pub(super) data_dir: PathBuf,
    pub(super) name: String,
    pub(super) secure: SocketAddr,
    pub(super) advertise: String,
    pub(super) peer_listen: Option<String>,
    pub(super) peer_advertise: String,
    pub(super) peer_flag: &'static str,
    pub(super) founders: Vec<ClusterMember>,
    pub(super) join: Option<String>,
    /// The certificate directory, which has the files of `name`.
    pub(super) layout: Layout,
    pub(super) tokens: TokenTable,
    /// The brand of the data, else that of `--brand`, if any.
    pub(super) brand: Option<&'static Brand>,
    pub(super) space: SpaceOptions,
    pub(super) strictness: Strictness,
}

impl Resolved {
    /// The plan with the flags that both kinds of nodes share. Reads the files that they name, and writes nothing.
    pub(super) fn plan(self, shared: &SharedArgs) -> Result<Plan, RunError> {
        let layout = self.layout;
        let brand = self.brand.unwrap_or(&ORCH);
        let files = layout.member(&self.name);
        let own = (files.server_certificate, files.server_key);
        let authority = layout.authority_certificate();
        let accounts = service_accounts::plan(&shared.service_accounts, layout.token_key(), &authority)?;
        let tls = tls_files(shared, own, authority)?;
        let peer_tls = PeerFiles {
            authority: layout.peer_authority_certificate(),
            certificate: files.peer_certificate,
            key: files.peer_key,
            revocations: shared.revocation.peer_crl_file.clone(),
        };
        let authorization = authorization::plan(&shared.authorization, self.strictness, brand)?;
        let (admission, hook_files) = admission::plan(&shared.admission)?;
        let watched = certificates::watched(&tls, &peer_tls, &accounts, &layout, &authorization, shared);
        Ok(Plan {
            backup: super::backup::plan(&shared.backup, &self.name)?,
            kind: self.kind,
            data_dir: self.data_dir,
            name: self.name,
            secure: self.secure,
            advertise: self.advertise,
            peer_listen: self.peer_listen,
            peer_advertise: self.peer_advertise,
            peer_flag: self.peer_flag,
            founders: self.founders,
            join: self.join,
            tls,
            tls_flags: tls_flags(shared),
            peer_tls,
            expiries: Expiries::new(watched),
            tokens: self.tokens,
            keys: encryption::keys(&shared.encryption)?,
            reloads_keys: shared.encryption.encryption_provider_config_automatic_reload,
            token_file: shared.token_auth_file.clone(),
            front_proxy: shared.front_proxy.clone(),
            service_accounts: accounts,
            admission,
            services: services::plan(&shared.services)?,
            anonymous: shared.anonymous(),
            authentication: authentication::plan(shared, brand)?,
            authorization,
            brand: self.brand,
            watch_history: shared.watch_history,
            watch_batch_delay: shared.watch_batch_delay,
            watch_history_memory: shared.watch_history_memory,
            watch_history_disk: shared.watch_history_disk,
            state_quota: shared.state_quota,
            space: self.space,
            event_ttl: shared.event_ttl,
            controllers: shared.controllers.clone(),
            signer: super::signing::signer(&shared.signing, &layout)?,
            features: features(shared),
            flow: super::flow::options(shared),
            flags: shared.flags.clone(),
            clients: ClientLimits::of(&shared.clients),
            audit: Audit::plan(&shared.audit)?,
            connector: super::connect::connector(&shared.connect)?,
            webhooks: WebhookPlan::of(&shared.webhooks, &hook_files, self.strictness)?,
            traces: recorded_traces(shared)?,
        })
    }
}

/// Kind of node, with the listeners that only it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `orch dev`.
    Dev {
        /// Path of the Unix socket, where every client is the administrator.
        socket: PathBuf,
        /// Listen address of plain HTTP on the loopback interface; `None` without `--insecure-port`.
        plain: Option<SocketAddr>,
        /// The scheduler that runs beside it.
        scheduler: Scheduler,
    },
    /// `orch serve`.
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
    /// Revocation lists of the authority.
    pub revocations: Vec<PathBuf>,
}

/// Reads the file of `--token-auth-file`; without the flag, an empty table.
pub(super) fn tokens(shared: &SharedArgs) -> Result<TokenTable, RunError> {
    shared.token_auth_file.as_deref().map_or_else(|| Ok(TokenTable::default()), read_tokens)
}

/// Reads a file of static tokens.
pub(super) fn read_tokens(path: &Path) -> Result<TokenTable, RunError> {
    let unreadable = |source| RunError::File { flag: "token-auth-file", path: path.to_owned(), source };
    let text = files::read(path, MATERIAL_BYTES_MAX).map_err(unreadable)?;
    let table =
        TokenTable::parse(&text).map_err(|source| RunError::Tokens { path: path.to_owned(), source })?;
    for warning in table.warnings() {
        tracing::warn!(path = %path.display(), "token file: {warning}");
    }
    Ok(table)
}

/// The feature gates of `--feature-gates`. The flag's parser has refused unknown names.
fn features(shared: &SharedArgs) -> Features {
    let mut features = Features::default();
    for (name, &on) in &shared.feature_gates.0 {
        let is_known = features.set(name, on);
        debug_assert!(is_known, "there is no feature {name}");
    }
    features
}

/// The traces that the file of `--tracing-config-file` asks for.
fn recorded_traces(shared: &SharedArgs) -> Result<Option<TracesPlan>, RunError> {
    let read = shared.tracing.tracing_config_file.as_deref().map(traces::read).transpose();
    read.map_err(|source| RunError::Access { flag: "tracing-config-file", source })
}

/// The given flags of the API port's files.
fn tls_flags(shared: &SharedArgs) -> Vec<(&'static str, PathBuf)> {
    let single = [
        ("tls-cert-file", &shared.tls_cert_file),
        ("tls-private-key-file", &shared.tls_private_key_file),
        ("client-ca-file", &shared.client_ca_file),
        ("requestheader-client-ca-file", &shared.front_proxy.requestheader_client_ca_file),
    ];
    let single = single.into_iter().filter_map(|(flag, path)| Some((flag, path.clone()?)));
    single
        .chain(shared.revocation.client_crl_file.iter().map(|path| ("client-crl-file", path.clone())))
        .collect()
}

/// The files of the API port: certificate and key from the flags, or else the node's `own`, which `authority` has
/// signed.
fn tls_files(shared: &SharedArgs, own: (PathBuf, PathBuf), authority: PathBuf) -> Result<TlsFiles, RunError> {
    let (certificate, key, server_authority) = match (&shared.tls_cert_file, &shared.tls_private_key_file) {
        (Some(certificate), Some(key)) => (certificate.clone(), key.clone(), None),
        (None, None) => (own.0, own.1, Some(authority.clone())),
        _ => {
            let reason = "--tls-cert-file and --tls-private-key-file go together";
            return Err(RunError::Flags(reason.to_owned()));
        }
    };
    super::front_proxy::headers(&shared.front_proxy)?;
    let client_authorities = shared.client_ca_file.clone().unwrap_or(authority);
    let (proxies, revocations) =
        (super::front_proxy::files(&shared.front_proxy), shared.revocation.client_crl_file.clone());
    Ok(TlsFiles { certificate, key, client_authorities, server_authority, proxies, revocations })
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
