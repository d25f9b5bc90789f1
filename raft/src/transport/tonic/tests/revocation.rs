//! Peers whose certificate is on a revocation list.

use rustls::pki_types::CertificateRevocationListDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::*;

/// A list of the authority that revokes `certificate`.
fn revoking(authority: &Authority, certificate: &str) -> CertificateRevocationListDer<'static> {
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let (_, parsed) = X509Certificate::from_der(&der).unwrap();
    let revoked = rcgen::RevokedCertParams {
        serial_number: parsed.raw_serial().to_vec().into(),
        revocation_time: rcgen::date_time_ymd(2026, 1, 1),
        reason_code: None,
        invalidity_date: None,
    };
    let list = rcgen::CertificateRevocationListParams {
        this_update: rcgen::date_time_ymd(2026, 1, 1),
        next_update: rcgen::date_time_ymd(2026, 2, 1),
        crl_number: 1_u64.into(),
        issuing_distribution_point: None,
        revoked_certs: vec![revoked],
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    list.signed_by(&authority.issuer).unwrap().der().clone()
}

#[tokio::test]
async fn a_revoked_peer_is_cut_off_in_both_directions_and_others_stay() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    let (certificate, key) = authority.issue("b");
    let (ca, pem, secret) = (authority.pem.as_bytes(), certificate.as_bytes(), key.as_bytes());
    let revoked = transport(2, PeerTls::from_pem(ca, pem, secret, &[], "b").unwrap());
    let other_tls = authority.tls("c");
    let other = transport(3, other_tls.clone());
    for transport in [&revoked, &other] {
        call(transport, &served.peer, Purpose::Control, b"x").await.unwrap();
    }
    let reload = |tls: &PeerTls, name: &str, list| {
        let (certificate, key) = authority.issue(name);
        tls.reload(ca, certificate.as_bytes(), key.as_bytes(), &[list]).unwrap();
    };
    reload(&served.tls, "a", revoking(&authority, &certificate));
    // The connection that there was, and one that would be new.
    for purpose in [Purpose::Control, Purpose::Append] {
        call(&revoked, &served.peer, purpose, b"x").await.unwrap_err();
        call(&other, &served.peer, purpose, b"x").await.unwrap();
    }
    let (certificate, key) = authority.issue("a");
    served.tls.reload(ca, certificate.as_bytes(), key.as_bytes(), &[]).unwrap();
    call(&other, &served.peer, Purpose::Snapshot, b"x").await.unwrap();
    reload(&other_tls, "c", revoking(&authority, &certificate));
    call(&other, &served.peer, Purpose::Snapshot, b"x").await.unwrap_err();
    call(&other, &served.peer, Purpose::Forward, b"x").await.unwrap_err();
}

/// The own certificate has expired, so that it cannot be loaded again: the list counts without it.
#[tokio::test]
async fn a_list_is_taken_up_without_the_other_files() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    let (certificate, key) = authority.issue("b");
    let (ca, pem, secret) = (authority.pem.as_bytes(), certificate.as_bytes(), key.as_bytes());
    let revoked = transport(2, PeerTls::from_pem(ca, pem, secret, &[], "b").unwrap());
    let other = transport(3, authority.tls("c"));
    for transport in [&revoked, &other] {
        call(transport, &served.peer, Purpose::Control, b"x").await.unwrap();
    }
    served.tls.revoke(&[revoking(&authority, &certificate)]).unwrap();
    for purpose in [Purpose::Control, Purpose::Append] {
        call(&revoked, &served.peer, purpose, b"x").await.unwrap_err();
        call(&other, &served.peer, purpose, b"x").await.unwrap();
    }
}

#[tokio::test]
async fn a_list_that_the_authority_did_not_sign_refuses_members_in_both_directions() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue("b");
    let (ca, pem, secret) = (authority.pem.as_bytes(), certificate.as_bytes(), key.as_bytes());
    // Authorities of these tests have one name and different keys.
    let list = [revoking(&Authority::new(), &certificate)];
    let suspicious = PeerTls::from_pem(ca, pem, secret, &list, "b").unwrap();
    let served = serve(authority.tls("a")).await;
    call(&transport(2, authority.tls("b")), &served.peer, Purpose::Control, b"x").await.unwrap();
    call(&transport(2, suspicious.clone()), &served.peer, Purpose::Control, b"x").await.unwrap_err();
    let served = serve(suspicious).await;
    call(&transport(3, authority.tls("a")), &served.peer, Purpose::Control, b"x").await.unwrap_err();
}
