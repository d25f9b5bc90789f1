//! The configuration of a client: addresses, trust, identity, limits.
//!
//! Owns the parsed form that client configuration files, `--master` and service accounts lead to. It opens no
//! connection and reads no file; PEM that stands in a file is read when the client is made, and again while it runs,
//! because certificates and tokens are renewed in place.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use orch_serving::Secret;

use super::codec::ContentType;
use super::endpoint::{Endpoint, EndpointError};
use super::exec::ExecPlugin;

/// Requests a second, unless the configuration says otherwise: the reference's default for schedulers.
pub const QPS_DEFAULT: f32 = 50.0;

/// Requests at once, unless the configuration says otherwise.
pub const BURST_DEFAULT: u32 = 100;

/// How long a request that is no watch may take: half of the server's own limit, so that another address is asked
/// while the caller still cares.
pub const REQUEST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// The reason why there is no usable client configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The text is not of the form of a client configuration.
    #[error("not a client configuration file")]
    Format(#[source] serde_norway::Error),
    /// The configuration names something that it does not hold.
    #[error("{what} `{name}` is not in the configuration")]
    Missing {
        /// `context`, `cluster` or `user`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// No context is chosen.
    #[error("the configuration names no current context")]
    NoContext,
    /// A field holds what it cannot hold.
    #[error("{field}: {problem}")]
    Invalid {
        /// The field, for example `certificate-authority-data`.
        field: &'static str,
        /// The fault, without the value.
        problem: String,
    },
    /// A field that asks for something that this client cannot do.
    #[error("{field} is not supported: {advice}")]
    Unsupported {
        /// The field.
        field: &'static str,
        /// Advice to the operator.
        advice: &'static str,
    },
    /// An address cannot be used.
    #[error("cannot use the server address")]
    Endpoint(#[from] EndpointError),
    /// The process does not run in a cluster.
    #[error("not in a cluster: {0}")]
    NotInCluster(String),
    /// Certificates and keys that the TLS library refuses.
    #[error("cannot use the {what}")]
    Tls {
        /// Certificate authority, or client certificate.
        what: &'static str,
        /// Error of the library.
        #[source]
        source: rustls::Error,
    },
}

/// PEM, embedded or in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pem {
    /// The PEM itself.
    Inline(Secret),
    /// The file that holds it, read again when a certificate is needed.
    File(PathBuf),
}

/// The servers that are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Servers with a certificate of these authorities.
    Authority(Pem),
    /// Servers that the machine's own list of authorities covers.
    System,
    /// Every server (`insecure-skip-tls-verify`).
    Anyone,
}

/// A client certificate with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate and those between it and its authority.
    pub chain: Pem,
    /// Its private key.
    pub key: Pem,
}

/// Where the `Authorization` header comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum Bearer {
    /// No header.
    None,
    /// A fixed token.
    Token(Secret),
    /// A file with a token, read again each minute, since tokens of service accounts are replaced in place.
    File(PathBuf),
    /// User name and password.
    Basic {
        /// The user name.
        username: String,
        /// The password.
        password: Secret,
    },
    /// A program that prints a token or a certificate.
    Exec(Box<ExecPlugin>),
}

/// Another user on whose behalf requests are made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impersonation {
    /// The user's name; empty for no impersonation.
    pub user: String,
    /// The user's UID; empty for none.
    pub uid: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Further attributes of the user, by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The settings of a client.
#[derive(Debug, Clone)]
pub struct Config {
    /// Addresses of the API servers in the order of preference; never empty.
    pub endpoints: Vec<Endpoint>,
    /// The servers that are accepted.
    pub trust: Trust,
    /// The name that the server's certificate must have, where that is not the host of the address.
    pub tls_server_name: Option<String>,
    /// The client certificate; `None` for none, or where a program gives it.
    pub certificate: Option<Certificate>,
    /// Where the `Authorization` header comes from.
    pub bearer: Bearer,
    /// On whose behalf.
    pub impersonation: Impersonation,
    /// The context's namespace; empty where it states none.
    pub namespace: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The representation of bodies that are sent.
    pub content_type: ContentType,
    /// The representation of bodies that come back.
    pub accepted: ContentType,
    /// Requests a second on average; negative for no limit, 0 for [`QPS_DEFAULT`].
    pub qps: f32,
    /// Requests that may leave at once; 0 for [`BURST_DEFAULT`].
    pub burst: u32,
    /// How long a request that is no watch may take in all.
    pub request_timeout: Duration,
    /// Carries the requests in the place of sockets.
    #[cfg(any(test, feature = "simulation"))]
    pub simulated: Option<super::http::Simulated>,
}

impl Config {
    /// A configuration for `endpoints` without credentials.
    pub fn new(endpoints: Vec<Endpoint>) -> Self {
        Self {
            endpoints,
            trust: Trust::System,
            tls_server_name: None,
            certificate: None,
            bearer: Bearer::None,
            impersonation: Impersonation::default(),
            namespace: String::new(),
            user_agent: user_agent("scheduler"),
            content_type: ContentType::Protobuf,
            accepted: ContentType::Protobuf,
            qps: QPS_DEFAULT,
            burst: BURST_DEFAULT,
            request_timeout: REQUEST_TIMEOUT_DEFAULT,
            #[cfg(any(test, feature = "simulation"))]
            simulated: None,
        }
    }

    /// The same with another representation and other limits, as `--*-api-content-type`, `--*-api-qps` and
    /// `--*-api-burst` give them.
    #[must_use]
    pub fn with_limits(mut self, content_type: ContentType, qps: f32, burst: u32) -> Self {
        (self.content_type, self.qps, self.burst) = (content_type, qps, burst);
        self.accepted = content_type;
        self
    }

    /// The same with another representation of what comes back.
    #[must_use]
    pub fn accepting(mut self, accepted: ContentType) -> Self {
        self.accepted = accepted;
        self
    }
}

/// The `User-Agent` header of `component`: program, version, platform.
pub fn user_agent(component: &str) -> String {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("{component}/{} ({os}/{arch})", env!("CARGO_PKG_VERSION"))
}
