//! Reads a client configuration file: which server is asked, whom it is trusted by, and who asks.
//!
//! Owns the members that count here: the cluster and the user of the current context. Members that would run a program
//! are refused by name. No error quotes a secret.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::RootCertStore;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};

use crate::config::{Node, parse_document, system_text};

/// A client configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The file is not there, or cannot be read.
    #[error("stat {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: String,
    },
    /// A member is missing or wrong.
    #[error("{}: {field}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The member.
        field: &'static str,
        /// Its fault.
        reason: String,
    },
}

/// A server to ask.
#[derive(Clone)]
pub struct Target {
    /// Scheme, host and port: `https://HOST:PORT`.
    pub(super) base: http::Uri,
    /// TLS; `None` for plain HTTP.
    pub(super) tls: Option<Arc<ClientConfig>>,
    /// Name in the server's certificate.
    pub(super) server_name: Option<ServerName<'static>>,
    pub(super) bearer: Option<Bearer>,
}

/// A bearer token, or the file that it is read from each time: such tokens are replaced while the process runs.
#[derive(Clone)]
pub(super) enum Bearer {
    Token(String),
    File(PathBuf),
}

/// The members of a file that count.
struct Members<'n> {
    path: &'n Path,
    cluster: &'n Node,
    user: &'n Node,
}

impl Target {
    /// Reads the client configuration at `path`.
    pub fn read(path: &Path) -> Result<Target, TargetError> {
        let text = std::fs::read_to_string(path).map_err(|error| TargetError::Unreadable {
            path: path.to_owned(),
            reason: system_text(&error),
        })?;
        let fault = |field, reason: String| TargetError::Content { path: path.to_owned(), field, reason };
        let document = parse_document(&text).map_err(|reason| fault("document", reason))?.root;
        let null = Node::Null;
        let members = members(path, &document, &null)?;
        let server =
            members.text(members.cluster, "server").ok_or_else(|| fault("server", "missing".into()))?;
        let base: http::Uri = server.parse().map_err(|_| fault("server", "is no URL".into()))?;
        let host = base.host().ok_or_else(|| fault("server", "has no host".into()))?;
        if members.text(members.cluster, "proxy-url").is_some() {
            return Err(fault("proxy-url", "is not supported for reviews".into()));
        }
        for field in ["exec", "auth-provider", "username"] {
            if members.user.member(field).is_some() {
                return Err(fault("user", format!("{field} is not supported for reviews")));
            }
        }
        let tls = match base.scheme_str() {
            Some("https") => Some(Arc::new(members.tls()?)),
            Some("http") => None,
            _ => return Err(fault("server", "is neither https nor http".into())),
        };
        let name = members.text(members.cluster, "tls-server-name").unwrap_or(host);
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let server_name = match tls.is_some() {
            true => {
                Some(ServerName::try_from(name).map_err(|_| fault("server", "has no usable name".into()))?)
            }
            false => None,
        };
        let bearer = match members.text(members.user, "token") {
            Some(token) => Some(Bearer::Token(token.to_owned())),
            None => members.text(members.user, "tokenFile").map(|file| Bearer::File(members.beside(file))),
        };
        Ok(Target { base, tls, server_name, bearer })
    }
}

/// Finds the cluster and the user of the current context.
fn members<'n>(path: &'n Path, document: &'n Node, null: &'n Node) -> Result<Members<'n>, TargetError> {
    let fault = |field, reason: String| TargetError::Content { path: path.to_owned(), field, reason };
    let named = |list: &str, name: &str, member: &str| {
        let items = document.member(list).map(Node::items).unwrap_or_default();
        let found = items.iter().find(|item| item.member("name").and_then(Node::text) == Some(name));
        found.and_then(|item| item.member(member))
    };
    let current = document.member("current-context").and_then(Node::text).unwrap_or_default();
    let context = named("contexts", current, "context")
        .ok_or_else(|| fault("current-context", format!("there is no context {current:?}")))?;
    let text = |member: &str| context.member(member).and_then(Node::text).unwrap_or_default();
    let cluster = named("clusters", text("cluster"), "cluster")
        .ok_or_else(|| fault("cluster", format!("there is no cluster {:?}", text("cluster"))))?;
    let user = named("users", text("user"), "user").unwrap_or(null);
    Ok(Members { path, cluster, user })
}

impl Members<'_> {
    fn text<'n>(&self, node: &'n Node, member: &str) -> Option<&'n str> {
        node.member(member).and_then(Node::text).filter(|text| !text.is_empty())
    }

    fn fault(&self, field: &'static str, reason: impl std::fmt::Display) -> TargetError {
        TargetError::Content { path: self.path.to_owned(), field, reason: reason.to_string() }
    }

    /// A path of the file, which is relative to the file's directory.
    fn beside(&self, file: &str) -> PathBuf {
        self.path.parent().map_or_else(|| PathBuf::from(file), |directory| directory.join(file))
    }

    /// The content of a member that is inline (`NAME-data`, in base64) or a path.
    fn material(&self, node: &Node, name: &'static str) -> Result<Option<Vec<u8>>, TargetError> {
        if let Some(data) = self.text(node, &format!("{name}-data")) {
            return STANDARD.decode(data).map(Some).map_err(|_| self.fault(name, "is no base64"));
        }
        let Some(file) = self.text(node, name) else { return Ok(None) };
        std::fs::read(self.beside(file)).map(Some).map_err(|error| self.fault(name, system_text(&error)))
    }

    fn tls(&self) -> Result<ClientConfig, TargetError> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| self.fault("cluster", error))?;
        let is_insecure = self.cluster.member("insecure-skip-tls-verify") == Some(&Node::Bool(true));
        let builder = if is_insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified))
        } else {
            let mut roots = RootCertStore::empty();
            let field = "certificate-authority";
            let text = self.material(self.cluster, field)?.ok_or_else(|| self.fault(field, "missing"))?;
            for certificate in CertificateDer::pem_slice_iter(&text) {
                let certificate = certificate.map_err(|error| self.fault(field, error))?;
                roots.add(certificate).map_err(|error| self.fault(field, error))?;
            }
            builder.with_root_certificates(roots)
        };
        let certificate = self.material(self.user, "client-certificate")?;
        let key = self.material(self.user, "client-key")?;
        match (certificate, key) {
            (Some(certificate), Some(key)) => {
                let chain: Vec<_> = CertificateDer::pem_slice_iter(&certificate)
                    .collect::<Result<_, _>>()
                    .map_err(|error| self.fault("client-certificate", error))?;
                // The parser's error may quote the key.
                let key = PrivateKeyDer::from_pem_slice(&key)
                    .map_err(|_| self.fault("client-key", "holds no private key in PEM form"))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| self.fault("client-certificate", error))
            }
            (None, None) => Ok(builder.with_no_client_auth()),
            (Some(_), None) => Err(self.fault("client-key", "missing")),
            (None, Some(_)) => Err(self.fault("client-certificate", "missing")),
        }
    }
}

/// Accepts any server certificate: `insecure-skip-tls-verify`.
#[derive(Debug)]
struct Unverified;

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}
