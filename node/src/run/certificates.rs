//! The certificates of a node: which of them are watched, those inside its configurations included, and the renewal of a member's
//! own at its start.
//!
//! Owns no file: [`crate::certs`] reads and writes those of certificates, [`crate::egress`] and [`crate::access`] read
//! configurations.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use orch_serving::Causes;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;

use super::authorization::AuthorizationPlan;
use super::plan::PeerFiles;
use super::service_accounts::ServiceAccountPlan;
use crate::access::issuers;
use crate::certs::{
    CertificateUse, Client, Configured, ConfiguredCertificate, ConfiguredCertificates, Expiries, Layout,
    OwnPair, WatchedFiles, Webhook, renew_own,
};
use crate::cli::SharedArgs;
use crate::egress::{TargetCertificates, read_certificates};
use crate::tls::TlsFiles;

/// The files of a node whose age is watched. Authorities inside objects of the API (of admission webhooks, for example) are not
/// among them.
pub(super) fn watched(
    tls: &TlsFiles,
    peer: &PeerFiles,
    accounts: &ServiceAccountPlan,
    layout: &Layout,
    authorization: &AuthorizationPlan,
    shared: &SharedArgs,
) -> WatchedFiles {
    let mut certificates = vec![
        (CertificateUse::Serving, tls.certificate.clone()),
        (CertificateUse::Peer, peer.certificate.clone()),
        (CertificateUse::ClientAuthority, tls.client_authorities.clone()),
        (CertificateUse::PeerAuthority, peer.authority.clone()),
        (CertificateUse::PodAuthority, accounts.root_ca_file.clone()),
    ];
    certificates.extend(
        Client::ALL.map(|client| (CertificateUse::Client(client), layout.client(client).certificate)),
    );
    let signing = &shared.signing;
    let optional = [
        (CertificateUse::ServingAuthority, &tls.server_authority),
        (CertificateUse::FrontProxyAuthority, &shared.front_proxy.requestheader_client_ca_file),
        (CertificateUse::Kubelet, &shared.connect.kubelet_client_certificate),
        (CertificateUse::Proxy, &shared.webhooks.proxy_client_cert_file),
        (CertificateUse::KubeletAuthority, &shared.connect.kubelet_certificate_authority),
        (CertificateUse::IssuerAuthority, &shared.authentication.oidc.oidc_ca_file),
        (CertificateUse::SigningAuthority, &signing.cluster_signing_cert_file),
        (CertificateUse::SigningAuthority, &signing.cluster_signing_kube_apiserver_client_cert_file),
        (CertificateUse::SigningAuthority, &signing.cluster_signing_kubelet_client_cert_file),
        (CertificateUse::SigningAuthority, &signing.cluster_signing_kubelet_serving_cert_file),
        (CertificateUse::SigningAuthority, &signing.cluster_signing_legacy_unknown_cert_file),
    ];
    let given = |(used_as, path): (CertificateUse, &Option<PathBuf>)| Some((used_as, path.clone()?));
    certificates.extend(optional.into_iter().filter_map(given));
    let configurations = Configurations {
        token: shared.authentication.authentication_token_webhook_config_file.clone(),
        audit: shared.audit.audit_webhook_config_file.clone(),
        authentication: shared.authentication.authentication_config.clone(),
        authorization: authorization.clone(),
    };
    let configured: Option<Arc<dyn ConfiguredCertificates>> = Some(Arc::new(configurations));
    WatchedFiles { certificates, configured, token_keys: accounts.files.clone() }
}

/// The configurations of a node that have certificates of other servers.
#[derive(Debug)]
struct Configurations {
    /// Client configuration of the token webhook.
    token: Option<PathBuf>,
    /// Client configuration of the audit webhook.
    audit: Option<PathBuf>,
    /// The file of `--authentication-config`, with its issuers.
    authentication: Option<PathBuf>,
    authorization: AuthorizationPlan,
}

impl ConfiguredCertificates for Configurations {
    fn read(&self) -> Configured {
        let mut found = Configured::default();
        let single = [(Webhook::Token, &self.token), (Webhook::Audit, &self.audit)];
        for (webhook, path) in single {
            path.iter().for_each(|path| add_webhook(&mut found, webhook, path.clone()));
        }
        found.files.extend(self.authorization.file().map(ToOwned::to_owned));
        match self.authorization.webhooks() {
            Ok(paths) => {
                paths.into_iter().for_each(|path| add_webhook(&mut found, Webhook::Authorization, path));
            }
            Err(error) => warn_unreadable(&error),
        }
        if let Some(path) = &self.authentication {
            found.files.push(path.clone());
            match issuers::authorities(path) {
                Ok(all) => found.certificates.extend(all.into_iter().map(|pem| ConfiguredCertificate {
                    used_as: CertificateUse::IssuerAuthority,
                    path: path.clone(),
                    pem: pem.into_bytes(),
                })),
                Err(error) => warn_unreadable(&error),
            }
        }
        found
    }
}

/// Adds the certificates in the client configuration of `webhook` at `path`.
fn add_webhook(found: &mut Configured, webhook: Webhook, path: PathBuf) {
    let read = read_certificates(&path);
    found.files.push(path);
    let TargetCertificates { authority, client } = match read {
        Ok(certificates) => certificates,
        Err(error) => return warn_unreadable(&error),
    };
    let all =
        [(CertificateUse::WebhookAuthority(webhook), authority), (CertificateUse::Webhook(webhook), client)];
    for (used_as, material) in all {
        let Some(material) = material else { continue };
        found.files.push(material.path.clone());
        let (path, pem) = (material.path, material.pem);
        found.certificates.push(ConfiguredCertificate { used_as, path, pem });
    }
}

fn warn_unreadable(error: &dyn Error) {
    tracing::warn!(error = %Causes(error), "cannot tell when a certificate of a configuration expires");
}

/// Starts the task that watches when certificates end.
pub(super) fn follow_expiry(expiries: Expiries, stopped: CancellationToken) {
    tokio::spawn(async move {
        if let Err(error) = expiries.follow(stopped).await {
            tracing::warn!(%error, "the expiry of certificates is not watched");
        }
    });
}

/// Renews those of the own pairs of member `name` in `layout` that have ended, or are about to, and whose authority's key is
/// there. A pair that cannot be renewed is served as it is, with a warning: its directory may be of a kind that is only read.
pub(super) fn renew_own_pairs(layout: &Layout, name: &str, shared: &SharedArgs) {
    let now = OffsetDateTime::now_utc();
    // A certificate of a flag is in other hands.
    let server = Some(OwnPair::Server).filter(|_| shared.tls_cert_file.is_none());
    for pair in server.into_iter().chain([OwnPair::Peer]) {
        match renew_own(layout, name, pair, now) {
            Ok(None) => {}
            Ok(Some(renewed)) => {
                let (file, previous_end) = (renewed.certificate.display(), renewed.previous_end);
                tracing::info!(?pair, %file, %previous_end, "renewed a certificate of this member");
            }
            Err(error) => {
                tracing::warn!(?pair, error = %Causes(&error), "a certificate of this member is not renewed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use orch_proto::brand::ORCH;
    use serde_json::json;
    use time::Duration;

    use super::*;
    use crate::access::authorization::Strictness;
    use crate::certs::{Authority, admin_leaf};
    use crate::cli::{Cli, Command, parse};
    use crate::run::authorization;

    /// Writes a client configuration that embeds an authority and names the files of a pair, and returns its path.
    fn client_config(directory: &Path, authority: &Authority) -> PathBuf {
        let pair = authority.issue(&admin_leaf(), OffsetDateTime::now_utc()).unwrap();
        std::fs::write(directory.join("hook.crt"), &pair.certificate).unwrap();
        std::fs::write(directory.join("hook.key"), &pair.key).unwrap();
        let embedded = STANDARD.encode(&authority.pair.certificate);
        let config = json!({
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster":
                {"server": "https://127.0.0.1:1/", "certificate-authority-data": embedded}}],
            "users": [{"name": "u", "user": {"client-certificate": "hook.crt", "client-key": "hook.key"}}],
        });
        let path = directory.join("hook.conf");
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    #[test]
    fn certificates_of_other_servers_are_found_inside_every_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let made = OffsetDateTime::now_utc() - Duration::days(1);
        let authority = Authority::create("hooks", made).unwrap();
        let hook = client_config(directory.path(), &authority);
        let issuers = directory.path().join("issuers.yaml");
        let embedded = authority.pair.certificate.replace("\r\n", "\n").replace('\n', "\n      ");
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    \
             url: https://issuer.example\n    certificateAuthority: |\n      {embedded}\n"
        );
        std::fs::write(&issuers, text).unwrap();
        let line = format!(
            "orch dev --authorization-mode RBAC,Webhook --authorization-webhook-config-file {}",
            hook.display()
        );
        let Cli { command } = parse(line.split_whitespace().map(Into::into).collect()).unwrap();
        let Command::Dev(arguments) = command else { panic!("{line}") };
        let authorization =
            authorization::plan(&arguments.shared.authorization, Strictness::Serve, &ORCH).unwrap();
        let configurations = Configurations {
            token: Some(hook.clone()),
            audit: Some(directory.path().join("none.conf")),
            authentication: Some(issuers.clone()),
            authorization,
        };
        let found = configurations.read();
        let certificate = directory.path().join("hook.crt");
        let of_a_webhook = [(true, &hook), (false, &certificate)];
        let mut expected = Vec::new();
        for webhook in [Webhook::Token, Webhook::Authorization] {
            expected.extend(of_a_webhook.map(|(is_authority, path)| match is_authority {
                true => (CertificateUse::WebhookAuthority(webhook), path.clone()),
                false => (CertificateUse::Webhook(webhook), path.clone()),
            }));
        }
        expected.push((CertificateUse::IssuerAuthority, issuers.clone()));
        let uses = found.certificates.iter().map(|found| (found.used_as, found.path.clone()));
        assert_eq!(uses.collect::<Vec<_>>(), expected);
        let followed = [&hook, &certificate, &issuers, &directory.path().join("none.conf")];
        assert!(followed.iter().all(|path| found.files.contains(path)), "{:?}", found.files);
        let watched = Expiries::new(WatchedFiles {
            configured: Some(Arc::new(configurations)),
            ..WatchedFiles::default()
        });
        watched.look(false);
        let names: Vec<&str> = watched.all().iter().map(|expiry| expiry.used_as.name()).collect();
        assert_eq!(names.len(), expected.len(), "{names:?}");
        assert!(names.contains(&"webhook_token") && names.contains(&"authority_issuer"), "{names:?}");
    }
}
