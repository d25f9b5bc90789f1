//! A member's certificate, key and trusted authorities, replaceable while it runs.
//!
//! Mutual TLS with certificates of the peer authority, TLS 1.3 only, without session resumption: a resumed session
//! would skip the check of a certificate that may have been replaced since. A reload holds for new connections;
//! existing ones keep their credentials, and end when the certificate of their peer is on a revocation list
//! ([`super::revocable`]). Lists past their next update still count; certificates of authorities without a list pass. A
//! list of an authority that cannot be verified refuses new connections with its members, whoever connects.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig,
    SignatureScheme,
};

use super::chain::check_chain;
use super::identity::{PeerNameError, peer_name_of};
use super::material::{PeerTlsError, certificates, private_key, roots};

/// The only ALPN protocol.
const ALPN_HTTP2: &[u8] = b"h2";

/// A member's credentials for every peer connection. Clones share them: a reload reaches all clones.
#[derive(Clone)]
pub struct PeerTls {
    name: Arc<str>,
    current: Arc<ArcSwap<Credentials>>,
}

impl std::fmt::Debug for PeerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerTls").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PeerTls {
    /// Takes the certificates of the peer authority (one or more, so that an authority can be replaced), this
    /// member's certificate with its chain, and its private key, each as PEM. The certificate must be valid now and
    /// name `node_name` (see [`peer_name_of`]). Peers on one of the lists `revoked`, the newest first, are refused.
    pub fn from_pem(
        ca: &[u8],
        certificate: &[u8],
        key: &[u8],
        revoked: &[CertificateRevocationListDer<'static>],
        node_name: &str,
    ) -> Result<PeerTls, PeerTlsError> {
        PeerTls::from_pem_as_of(ca, certificate, key, revoked, node_name, UnixTime::now())
    }

    /// The same for a certificate that is valid at `as_of`, the end of its validity for a member that starts with one that has
    /// ended. Peers refuse it, and are refused or accepted as ever, until [`PeerTls::reload`] has a valid one.
    pub fn from_pem_as_of(
        ca: &[u8],
        certificate: &[u8],
        key: &[u8],
        revoked: &[CertificateRevocationListDer<'static>],
        node_name: &str,
        as_of: UnixTime,
    ) -> Result<PeerTls, PeerTlsError> {
        let name: Arc<str> = node_name.into();
        let credentials = Credentials::from_pem(ca, certificate, key, revoked, &name, as_of)?;
        Ok(PeerTls { name, current: Arc::new(ArcSwap::from_pointee(credentials)) })
    }

    /// Replaces authority, certificate and key for connections made from now on, and the revocation lists for all. After an
    /// error nothing has changed.
    pub fn reload(
        &self,
        ca: &[u8],
        certificate: &[u8],
        key: &[u8],
        revoked: &[CertificateRevocationListDer<'static>],
    ) -> Result<(), PeerTlsError> {
        let now = UnixTime::now();
        let credentials = Credentials::from_pem(ca, certificate, key, revoked, &self.name, now)?;
        self.current.store(Arc::new(credentials));
        Ok(())
    }

    /// Replaces the revocation lists alone, for all connections. After an error nothing has changed.
    pub fn revoke(&self, revoked: &[CertificateRevocationListDer<'static>]) -> Result<(), PeerTlsError> {
        let current = self.current.load();
        let (roots, own) = (Arc::clone(&current.roots), Arc::clone(&current.own));
        let credentials = Credentials::of(Arc::clone(&current.provider), roots, own, revoked)?;
        self.current.store(Arc::new(credentials));
        Ok(())
    }

    /// This member's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The credentials of connections that are made now.
    pub(super) fn credentials(&self) -> Arc<Credentials> {
        self.current.load_full()
    }

    /// Whether nothing was loaded after `credentials`.
    pub(super) fn uses(&self, credentials: &Arc<Credentials>) -> bool {
        Arc::ptr_eq(&self.current.load(), credentials)
    }

    pub(super) fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().server)
    }

    /// Configuration for one connection to member `expected`, or to any member if that is `None`.
    pub(super) fn client(&self, expected: Option<Arc<str>>) -> Result<ClientConfig, rustls::Error> {
        self.current.load().client(expected)
    }
}

/// Everything that one reload replaces.
pub(super) struct Credentials {
    provider: Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
    own: Arc<SingleCertAndKey>,
    members: Arc<dyn ClientCertVerifier>,
    server: Arc<ServerConfig>,
}

impl Credentials {
    fn from_pem(
        ca: &[u8],
        certificate: &[u8],
        key: &[u8],
        revoked: &[CertificateRevocationListDer<'static>],
        name: &Arc<str>,
        as_of: UnixTime,
    ) -> Result<Credentials, PeerTlsError> {
        let provider = Arc::new(ring::default_provider());
        let roots = Arc::new(roots(ca)?);
        let chain = certificates("certificate", certificate)?;
        check_own(&chain, &roots, &provider, name, as_of)?;
        let own = CertifiedKey::from_der(chain, private_key(key)?, &provider)
            .map_err(|error| PeerTlsError::KeyMismatch(error.to_string()))?;
        Credentials::of(provider, roots, Arc::new(SingleCertAndKey::from(own)), revoked)
    }

    fn of(
        provider: Arc<CryptoProvider>,
        roots: Arc<RootCertStore>,
        own: Arc<SingleCertAndKey>,
        revoked: &[CertificateRevocationListDer<'static>],
    ) -> Result<Credentials, PeerTlsError> {
        let unreadable = |item| move |reason| PeerTlsError::Unreadable { item, reason };
        let members =
            verifier(&provider, &roots, revoked).map_err(unreadable("authority or revocation list"))?;
        let server = server_config(&provider, &members, &own).map_err(unreadable("authority"))?;
        Ok(Credentials { provider, roots, own, members, server: Arc::new(server) })
    }

    /// Whether `chain` is on a revocation list. A list that cannot be verified says nothing: it ends no connection that there
    /// is, so that one wrong file does not stop a cluster.
    pub(super) fn has_revoked(&self, chain: &[CertificateDer<'_>]) -> bool {
        let Some((end, intermediates)) = chain.split_first() else { return false };
        let verified = self.members.verify_client_cert(end, intermediates, UnixTime::now());
        matches!(verified, Err(rustls::Error::InvalidCertificate(CertificateError::Revoked)))
    }

    fn client(&self, expected: Option<Arc<str>>) -> Result<ClientConfig, rustls::Error> {
        let verifier = NamedPeer {
            expected,
            roots: Arc::clone(&self.roots),
            members: Arc::clone(&self.members),
            algorithms: self.provider.signature_verification_algorithms,
        };
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(Arc::clone(&self.own) as _);
        config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(config)
    }
}

/// Verifies members that `roots` signed and `revoked` does not name.
fn verifier(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    revoked: &[CertificateRevocationListDer<'static>],
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider))
        .with_crls(revoked.iter().cloned())
        .allow_unknown_revocation_status()
        .build()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(ShortChain { verifier }))
}

/// A chain that outlives its session.
pub(super) fn owned(chain: &[CertificateDer<'_>]) -> Vec<CertificateDer<'static>> {
    chain.iter().map(|link| link.clone().into_owned()).collect()
}

fn server_config(
    provider: &Arc<CryptoProvider>,
    members: &Arc<dyn ClientCertVerifier>,
    own: &Arc<SingleCertAndKey>,
) -> Result<ServerConfig, String> {
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(Arc::clone(members))
        .with_cert_resolver(Arc::clone(own) as _);
    config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Checks the own certificate as every peer would at `as_of`, so that an error shows at start.
fn check_own(
    chain: &[CertificateDer<'static>],
    roots: &RootCertStore,
    provider: &CryptoProvider,
    name: &Arc<str>,
    as_of: UnixTime,
) -> Result<(), PeerTlsError> {
    let Some((own, intermediates)) = chain.split_first() else { return Err(PeerNameError::Missing.into()) };
    let algorithms = &provider.signature_verification_algorithms;
    verify_chain(own, intermediates, roots, algorithms, as_of)
        .map_err(|error| PeerTlsError::Untrusted(error.to_string()))?;
    let found = peer_name_of(own)?;
    if *found != **name {
        return Err(PeerTlsError::WrongName { expected: Arc::clone(name), found });
    }
    Ok(())
}

fn verify_chain(
    end: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: &RootCertStore,
    algorithms: &WebPkiSupportedAlgorithms,
    now: UnixTime,
) -> Result<(), rustls::Error> {
    check_chain(end, intermediates)?;
    let parsed = ParsedCertificate::try_from(end)?;
    verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms.all)
}

/// `verifier`, after a check of the length of the client's chain.
#[derive(Debug)]
struct ShortChain {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for ShortChain {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        check_chain(end, intermediates)?;
        self.verifier.verify_client_cert(end, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Accepts a server that the peer authority signed, that no revocation list names, and that is the expected member. The usual
/// check of host names would also accept a wildcard or another case of letters.
#[derive(Debug)]
struct NamedPeer {
    expected: Option<Arc<str>>,
    roots: Arc<RootCertStore>,
    /// Verifies members that connect: this side's revocation lists hold in both directions.
    members: Arc<dyn ClientCertVerifier>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for NamedPeer {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        verify_chain(end, intermediates, &self.roots, &self.algorithms, now)?;
        // A member connects and is connected to by one certificate: whom this side refuses as a client, for a revocation list
        // that cannot be verified as well, it refuses as a server.
        self.members.verify_client_cert(end, intermediates, now)?;
        let found = peer_name_of(end).map_err(|error| rustls::Error::General(error.to_string()))?;
        match &self.expected {
            Some(expected) if **expected != *found => Err(CertificateError::NotValidForNameContext {
                expected: server_name(expected)?,
                presented: vec![found],
            }
            .into()),
            Some(_) | None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, rustls::Error> {
    let name = super::identity::peer_dns_name(name);
    ServerName::try_from(name).map_err(|error| rustls::Error::General(error.to_string()))
}
