//! Failures of starting or running a node.

use std::path::PathBuf;

use orch_raft::disk::rocks::{OpenError, RemakeError};
use orch_raft::member::StartError;
use orch_raft::transport::tonic::{ClusterPinError, PeerTlsError};

use super::audit::PolicyFileError;
use crate::certs::CertsError;
use crate::connect::KubeletTrustError;
use crate::egress::{ProxyPairError, TargetFileError};
use crate::encryption::EncryptionError;
use crate::server::{BindError, SocketError};
use crate::tls::MaterialError;
use crate::token_keys::KeyFileError;

/// Failures of starting or running a node.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A flag is missing, has a bad value or does not go with another: a usage error.
    #[error("{0}")]
    Flags(String),
    /// A file that a flag names cannot be read.
    #[error("--{flag}: cannot read {path}")]
    File {
        /// The flag.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The certificate for aggregated servers cannot be used.
    #[error("--proxy-client-cert-file, --proxy-client-key-file")]
    ProxyPair(#[source] ProxyPairError),
    /// The client configuration of a plugin for webhooks cannot be used.
    #[error("--admission-control-config-file")]
    HookUsers(#[source] TargetFileError),
    /// The token file is wrong.
    #[error("--token-auth-file: {path}")]
    Tokens {
        /// The file.
        path: PathBuf,
        /// The line and its fault.
        source: orch_api::authn::TokenFileError,
    },
    /// The keys of service account tokens cannot be loaded.
    #[error("{origin}")]
    TokenKeys {
        /// The flag that names the file, or what it is for.
        origin: &'static str,
        /// The file and its fault.
        source: KeyFileError,
    },
    /// The certificates for kubelets cannot be loaded.
    #[error("{flags}")]
    Kubelets {
        /// The flags that name the files.
        flags: &'static str,
        /// The file and its fault.
        source: KubeletTrustError,
    },
    /// The authority of a built-in signer cannot sign.
    #[error("--cluster-signing-{signer}cert-file, --cluster-signing-{signer}key-file")]
    Signing {
        /// The part of the flags' names that tells the signer; empty for the common authority.
        signer: &'static str,
        /// The file and its fault.
        source: CertsError,
    },
    /// A configuration of authentication, authorization or admission cannot be used.
    #[error("--{flag}")]
    Access {
        /// The flag.
        flag: &'static str,
        /// The fault in its file.
        source: crate::access::ConfigFileError,
    },
    /// The data directory cannot be made.
    #[error("--data-dir: cannot make {path}")]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The data directory holds files of other programs.
    #[error(
        "{path} holds other files and no data of this program; choose an empty directory with --data-dir"
    )]
    NotOurs {
        /// The directory.
        path: PathBuf,
    },
    /// A certificate could not be made or read.
    #[error(transparent)]
    Certs(#[from] CertsError),
    /// A certificate or key of the API port is missing or wrong.
    #[error("{origin}")]
    Material {
        /// The flag that names the file, or its place.
        origin: String,
        /// The file and its fault.
        source: MaterialError,
    },
    /// A certificate or key of the peer port is wrong.
    #[error("{path}")]
    PeerMaterial {
        /// The member's peer certificate.
        path: PathBuf,
        /// The fault of the certificate, its key or its authority.
        source: PeerTlsError,
    },
    /// The keys of the disk cannot be loaded.
    #[error("--encryption-provider-config: {path}")]
    Encryption {
        /// The file of `--encryption-provider-config`.
        path: PathBuf,
        /// The fault in it.
        source: EncryptionError,
    },
    /// The audit policy cannot be used.
    #[error("--audit-policy-file: {path}")]
    AuditPolicy {
        /// The file.
        path: PathBuf,
        /// The fault in it.
        source: PolicyFileError,
    },
    /// The webhook of the audit cannot be used.
    #[error("--audit-webhook-config-file")]
    AuditWebhook(#[source] TargetFileError),
    /// The audit log cannot be opened.
    #[error("--audit-log-path: cannot open {path}")]
    AuditLog {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The data directory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A store in the data directory is being made, or was not completed.
    #[error(transparent)]
    Remake(#[from] RemakeError),
    /// The data directory is not this member's, or cannot be read.
    #[error("data directory {path}")]
    Member {
        /// The directory.
        path: PathBuf,
        /// The member's reason.
        source: StartError,
    },
    /// A port cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The Unix socket cannot be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A host name has no address.
    #[error("--{flag}: cannot resolve {address}: {reason}")]
    Resolve {
        /// The flag.
        flag: &'static str,
        /// `HOST:PORT`.
        address: String,
        /// The resolver's error.
        reason: String,
    },
    /// A file of the data directory cannot be read, written or removed.
    #[error("cannot {action} {path}")]
    DataFile {
        /// `read`, `write`, `remove`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The cluster has another brand.
    #[error("--brand {asked}: this cluster was made with --brand {found}, which cannot be changed")]
    Brand {
        /// The flag's value.
        asked: String,
        /// The cluster's brand.
        found: String,
    },
    /// The cluster was made by a version that knows more brands.
    #[error("this version does not know the brand {0} of the cluster")]
    UnknownBrand(String),
    /// The cluster's identity cannot be used.
    #[error("cluster identity")]
    Cluster(#[from] ClusterPinError),
    /// A system call failed.
    #[error("cannot {action}")]
    System {
        /// The attempt, for the message: `start threads`.
        action: &'static str,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The store failed for good; the data on disk is as of its last acknowledged write.
    #[error("the store stopped: {0}")]
    Fatal(String),
    /// The peer port failed.
    #[error("the peer port stopped: {0}")]
    Peers(String),
    /// A second signal came while stopping.
    #[error("stopped at once by a second signal")]
    Interrupted,
}

impl RunError {
    /// Whether the error is a usage error.
    pub fn is_usage(&self) -> bool {
        matches!(self, RunError::Flags(_))
    }
}
