//! TLS, identities, and secrets.

use std::sync::Arc;

use orch_serving::Secret;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde_json::json;

use crate::api::core::v1::Node;
use crate::client::testing::FakeApi;
use crate::client::{Bearer, Certificate, Client, Config, Error, Pem, Reason, Trust};

/// An authority, and a server that it vouches for as `localhost`.
struct Pki {
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Pki {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { authority: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    fn pem(&self) -> Pem {
        Pem::Inline(Secret::new(self.authority.pem()))
    }

    /// A certificate and its key, in DER and PEM.
    fn issue(&self, name: &str, purpose: ExtendedKeyUsagePurpose) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.authority).unwrap(), key)
    }

    fn client(&self) -> Certificate {
        let (certificate, key) = self.issue("scheduler", ExtendedKeyUsagePurpose::ClientAuth);
        Certificate {
            chain: Pem::Inline(Secret::new(certificate.pem())),
            key: Pem::Inline(Secret::new(key.serialize_pem())),
        }
    }

    /// The TLS of a server that demands certificates of this authority, if `demands`.
    fn server(&self, demands: bool) -> rustls::ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = if demands {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from(self.authority.der().to_vec())).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let (certificate, key) = self.issue("localhost", ExtendedKeyUsagePurpose::ServerAuth);
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config
    }
}

async fn server(pki: &Pki, demands: bool) -> (FakeApi, Config) {
    let api = FakeApi::start_tls(pki.server(demands)).await;
    api.store().put("nodes", json!({ "metadata": { "name": "n" } }));
    let mut config = Config::new(vec![api.named_endpoint()]);
    config.trust = Trust::Authority(pki.pem());
    (api, config)
}

async fn get(config: &Config) -> Result<Node, Error> {
    Client::new(config, FakeApi::brand()).unwrap().get::<Node>("", "n").await
}

#[tokio::test]
async fn a_server_of_the_authority_is_trusted_and_no_other() {
    let (pki, other) = (Pki::new(), Pki::new());
    let (_api, mut config) = server(&pki, false).await;
    get(&config).await.unwrap();
    config.trust = Trust::Authority(other.pem());
    assert!(matches!(get(&config).await.unwrap_err(), Error::Connect { .. }));
    config.trust = Trust::Anyone;
    get(&config).await.unwrap();
}

#[tokio::test]
async fn the_name_in_the_certificate_counts() {
    let pki = Pki::new();
    let (api, mut config) = server(&pki, false).await;
    config.endpoints = vec![api.endpoint()];
    assert!(
        matches!(get(&config).await.unwrap_err(), Error::Connect { .. }),
        "the certificate has no address"
    );
    config.tls_server_name = Some("localhost".to_owned());
    get(&config).await.unwrap();
}

#[tokio::test]
async fn a_client_certificate_is_presented() {
    let pki = Pki::new();
    let (_api, mut config) = server(&pki, true).await;
    assert!(get(&config).await.is_err(), "the server demands one");
    config.certificate = Some(pki.client());
    get(&config).await.unwrap();
    config.certificate = Some(Pki::new().client());
    assert!(get(&config).await.is_err(), "of another authority");
}

#[tokio::test]
async fn a_certificate_that_is_none_is_told_without_its_content() {
    let pki = Pki::new();
    let (_api, mut config) = server(&pki, true).await;
    let nothing = || Pem::Inline(Secret::new("s3cret"));
    config.certificate = Some(Certificate { chain: nothing(), key: nothing() });
    let error = crate::client::chain(&get(&config).await.unwrap_err());
    assert!(error.contains("holds no certificate") && !error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn tokens_are_sent_and_renewed_after_a_refusal() {
    let api = FakeApi::start().await;
    api.store().put("nodes", json!({ "metadata": { "name": "n" } }));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "one").unwrap();
    api.require_token("one");
    let mut config = api.config();
    config.bearer = Bearer::File(path.clone());
    let client = Client::new(&config, FakeApi::brand()).unwrap();
    client.get::<Node>("", "n").await.unwrap();
    std::fs::write(&path, "two").unwrap();
    api.require_token("two");
    client.get::<Node>("", "n").await.unwrap();
    api.require_token("three");
    assert!(client.get::<Node>("", "n").await.unwrap_err().is(Reason::Unauthorized));
}
