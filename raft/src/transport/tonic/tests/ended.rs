//! A member whose own certificate has ended.

use rustls::pki_types::UnixTime;

use super::*;

#[tokio::test]
async fn a_member_with_a_certificate_that_has_ended_is_refused_until_it_has_a_new_one() {
    let authority = Authority::new();
    let served = serve(authority.tls("a")).await;
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![peer_dns_name("b")]).unwrap();
    params.not_after = rcgen::date_time_ymd(2024, 1, 1);
    let certificate = params.signed_by(&key, &authority.issuer).unwrap().pem();
    let (ca, pem, secret) = (authority.pem.as_bytes(), certificate.as_bytes(), key.serialize_pem());
    let secret = secret.as_bytes();
    let at = |ca, name, s: i64| {
        let as_of = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(s).unwrap()));
        PeerTls::from_pem_as_of(ca, pem, secret, &[], name, as_of)
    };
    let end = params.not_after.unix_timestamp();
    assert!(matches!(PeerTls::from_pem(ca, pem, secret, &[], "b"), Err(PeerTlsError::Untrusted(_))));
    assert!(matches!(at(ca, "b", end + 1), Err(PeerTlsError::Untrusted(_))));
    assert!(matches!(at(ca, "c", end), Err(PeerTlsError::WrongName { .. })), "all else is checked");
    let stranger = Authority::new();
    assert!(matches!(at(stranger.pem.as_bytes(), "b", end), Err(PeerTlsError::Untrusted(_))));
    let ended = at(ca, "b", end).unwrap();
    let caller = transport(2, ended.clone());
    call(&caller, &served.peer, Purpose::Control, b"x").await.unwrap_err();
    let called = serve(ended.clone()).await;
    let peer = transport(3, authority.tls("c"));
    call(&peer, &called.peer, Purpose::Control, b"x").await.unwrap_err();
    let (renewed, key) = authority.issue("b");
    ended.reload(ca, renewed.as_bytes(), key.as_bytes(), &[]).unwrap();
    // A link for another purpose does not wait after the failures.
    call(&caller, &served.peer, Purpose::Append, b"x").await.unwrap();
    call(&peer, &called.peer, Purpose::Append, b"x").await.unwrap();
}
