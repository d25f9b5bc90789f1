//! The certificates of a node at its start: which of them are watched, and the renewal of a member's own.
//!
//! Owns no file: [`crate::certs`] reads and writes them.

use std::path::PathBuf;

use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;

use super::plan::PeerFiles;
use super::service_accounts::ServiceAccountPlan;
use crate::certs::{CertificateUse, Client, Expiries, Layout, OwnPair, WatchedFiles, renew_own};
use crate::cli::SharedArgs;
use crate::report::Causes;
use crate::tls::TlsFiles;

/// The files of a node whose age is watched. Certificates inside client configurations (of webhooks, for example) are not among
/// them.
pub(super) fn watched(
    tls: &TlsFiles,
    peer: &PeerFiles,
    accounts: &ServiceAccountPlan,
    layout: &Layout,
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
        (CertificateUse::KubeletAuthority, &shared.connect.kubelet_certificate_authority),
        (CertificateUse::SigningAuthority, &signing.cluster_signing_cert_file),
        (CertificateUse::SigningAuthority, &signing.cluster_signing_kube_apiserver_client_cert_file),
        (CertificateUse::SigningAuthority, &signing.cluster_signing_kubelet_client_cert_file),
        (CertificateUse::SigningAuthority, &signing.cluster_signing_kubelet_serving_cert_file),
        (CertificateUse::SigningAuthority, &signing.cluster_signing_legacy_unknown_cert_file),
    ];
    let given = |(used_as, path): (CertificateUse, &Option<PathBuf>)| Some((used_as, path.clone()?));
    certificates.extend(optional.into_iter().filter_map(given));
    WatchedFiles { certificates, token_keys: accounts.files.clone() }
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
                let (file, expired) = (renewed.certificate.display(), renewed.expired);
                tracing::info!(?pair, %file, %expired, "renewed a certificate of this member");
            }
            Err(error) => {
                tracing::warn!(?pair, error = %Causes(&error), "a certificate of this member is not renewed");
            }
        }
    }
}
