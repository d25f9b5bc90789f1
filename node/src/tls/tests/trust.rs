//! Authorities of clients and of front proxies, and the certificates that they revoked.

use std::path::PathBuf;
use std::time::SystemTime;

use base64::Engine;
use rcgen::{CertificateRevocationListParams, Issuer, KeyIdMethod, KeyPair, RevokedCertParams};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{Files, now, presented, refused};
use crate::certs::{Authority, Leaf, Pair, Purpose};
use crate::tls::{ClientAuthorities, Identified, ProxyFiles, Reloader, Tls, TlsFiles};

fn client(authority: &Authority, name: &str) -> Pair {
    let leaf = Leaf {
        common_name: name.to_owned(),
        organization: None,
        hosts: Vec::new(),
        purpose: Purpose::Client,
    };
    authority.issue(&leaf, now()).unwrap()
}

/// A list of `authority`, issued at `at`, that revokes `pair`.
pub(crate) fn revocation_list(
    authority: &Authority,
    pair: &Pair,
    at: OffsetDateTime,
) -> rcgen::CertificateRevocationList {
    let der = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
    let (_, parsed) = X509Certificate::from_der(&der).unwrap();
    let revoked = RevokedCertParams {
        serial_number: parsed.raw_serial().to_vec().into(),
        revocation_time: at,
        reason_code: None,
        invalidity_date: None,
    };
    let key = KeyPair::from_pem(&authority.pair.key).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&authority.pair.certificate, key).unwrap();
    let list = CertificateRevocationListParams {
        this_update: at,
        next_update: at + Duration::days(7),
        crl_number: 1_u64.into(),
        issuing_distribution_point: None,
        revoked_certs: vec![revoked],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    list.signed_by(&issuer).unwrap()
}

fn identify(clients: &ClientAuthorities, pair: &Pair) -> Identified {
    clients.identify(Some(&presented(pair)), SystemTime::now()).unwrap()
}

/// `user` and `proxy`, as far as the certificate identifies them.
fn judge(clients: &ClientAuthorities, pair: &Pair) -> (bool, bool) {
    let found = identify(clients, pair);
    assert_eq!(found.valid_for.is_some(), found.certificate.is_ok() || found.is_front_proxy);
    (found.certificate.is_ok(), found.is_front_proxy)
}

fn load(set: &TlsFiles) -> ClientAuthorities {
    Tls::load(set, now()).unwrap().clients
}

#[test]
fn several_authorities_in_one_file_are_trusted() {
    let files = Files::new();
    let second = Authority::create("second", now()).unwrap();
    let both = format!("{}{}", files.authority.pair.certificate, second.pair.certificate);
    let clients = load(&TlsFiles { client_authorities: files.write("both.crt", &both), ..files.set() });
    for authority in [&files.authority, &second] {
        assert_eq!(judge(&clients, &client(authority, "ann")), (true, false));
    }
    let third = Authority::create("third", now()).unwrap();
    assert_eq!(judge(&clients, &client(&third, "ann")), (false, false));
}

#[test]
fn proxies_are_of_their_own_authority_and_have_an_allowed_name() {
    let files = Files::new();
    let proxies = Authority::create("proxies", now()).unwrap();
    let authorities = files.write("proxies.crt", &proxies.pair.certificate);
    let with = |names: &[&str]| {
        let allowed_names = names.iter().map(|&name| name.to_owned()).collect();
        let proxies = Some(ProxyFiles { authorities: authorities.clone(), allowed_names });
        load(&TlsFiles { proxies, ..files.set() })
    };
    let (any, named) = (with(&[]), with(&["front", "second"]));
    let (front, other) = (client(&proxies, "front"), client(&proxies, "other"));
    assert_eq!((judge(&any, &front), judge(&any, &other)), ((false, true), (false, true)));
    assert_eq!((judge(&named, &front), judge(&named, &other)), ((false, true), (false, false)));
    let user = client(&files.authority, "front");
    assert_eq!((judge(&any, &user), judge(&named, &user)), ((true, false), (true, false)));
    let hints = named.handshake().root_hint_subjects().len();
    assert_eq!(hints, 2, "clients are told both authorities");
}

#[test]
fn an_authority_of_clients_and_proxies_needs_allowed_names() {
    let files = Files::new();
    let authorities = files.write("proxies.crt", &files.authority.pair.certificate);
    let with = |allowed_names: Vec<String>| TlsFiles {
        proxies: Some(ProxyFiles { authorities: authorities.clone(), allowed_names }),
        ..files.set()
    };
    let message = refused(Tls::load(&with(Vec::new()), now()), files.directory.path());
    assert!(
        message.contains("contain overlapping certificates; --requestheader-allowed-names must"),
        "{message}"
    );
    let clients = load(&with(vec!["front".to_owned()]));
    assert_eq!(judge(&clients, &client(&files.authority, "front")), (true, true));
    assert_eq!(judge(&clients, &client(&files.authority, "ann")), (true, false));
}

#[test]
fn revoked_certificates_identify_nobody() {
    let files = Files::new();
    let proxies = Authority::create("proxies", now()).unwrap();
    let (ann, bob) = (client(&files.authority, "ann"), client(&files.authority, "bob"));
    let front = client(&proxies, "front");
    let list = |authority, pair, days| revocation_list(authority, pair, now() - Duration::days(days));
    let write_der = |name: &str, der: &[u8]| -> PathBuf {
        let path = files.directory.path().join(name);
        std::fs::write(&path, der).unwrap();
        path
    };
    let (of_ann, of_front) = (list(&files.authority, &ann, 1), list(&proxies, &front, 1));
    let pem = format!("{}{}", of_ann.pem().unwrap(), of_front.pem().unwrap());
    let overdue = list(&files.authority, &ann, 30).pem().unwrap();
    let older = files.write("older.pem", &list(&files.authority, &bob, 2).pem().unwrap());
    for (case, revocations) in [
        ("PEM, both in one file", vec![files.write("both.pem", &pem)]),
        ("DER", vec![write_der("a.crl", of_ann.der()), write_der("f.crl", of_front.der())]),
        ("an overdue one", vec![files.write("old.pem", &overdue), write_der("f.crl", of_front.der())]),
        ("the newest of one authority", vec![older, files.write("both.pem", &pem)]),
    ] {
        let authorities = files.write("proxies.crt", &proxies.pair.certificate);
        let proxies = Some(ProxyFiles { authorities, allowed_names: Vec::new() });
        let clients = load(&TlsFiles { proxies, revocations, ..files.set() });
        assert_eq!(judge(&clients, &ann), (false, false), "{case}");
        assert_eq!(judge(&clients, &bob), (true, false), "{case}");
        assert_eq!(judge(&clients, &front), (false, false), "{case}");
    }
    let foreign = Authority::create("ca", now()).unwrap();
    let forged = list(&foreign, &bob, 1).pem().unwrap();
    let revocations = vec![files.write("forged.pem", &forged)];
    let clients = load(&TlsFiles { revocations, ..files.set() });
    assert_eq!(judge(&clients, &bob), (false, false), "a list that does not verify lets nobody pass");
}

#[test]
fn a_file_that_is_no_revocation_list_is_named() {
    let files = Files::new();
    for (text, expected) in [
        ("", "list.pem: unusable revocation list: "),
        ("nothing", "list.pem: unusable revocation list: "),
        (files.authority.pair.certificate.as_str(), "list.pem holds no revocation list in PEM form"),
        ("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n", "list.pem: unusable revocation list: "),
    ] {
        let revocations = vec![files.write("list.pem", text)];
        let message =
            refused(Tls::load(&TlsFiles { revocations, ..files.set() }, now()), files.directory.path());
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn a_revocation_takes_effect_though_another_file_is_broken() {
    let files = Files::new();
    let list = files.directory.path().join("list.pem");
    let (ann, bob) = (client(&files.authority, "ann"), client(&files.authority, "bob"));
    std::fs::write(&list, revocation_list(&files.authority, &ann, now()).pem().unwrap()).unwrap();
    let set = TlsFiles { revocations: vec![list.clone()], ..files.set() };
    let reloader = Reloader::load(set.clone()).unwrap();
    let judged = || [&ann, &bob].map(|pair| judge(&reloader.current().clients, pair).0);
    assert_eq!(judged(), [false, true]);
    let expired = files
        .authority
        .issue(&crate::certs::server_leaf("a", &[], &orch_proto::brand::ORCH), now() - Duration::days(400))
        .unwrap();
    let whole = std::fs::read_to_string(&set.client_authorities).unwrap();
    // Each other file in turn: a server certificate that has expired, authorities that cannot be read.
    for broken in ["server", "authorities"] {
        match broken {
            "server" => drop(files.pair("server", &expired)),
            _ => std::fs::write(&set.client_authorities, "nonsense").unwrap(),
        }
        let later = now() + Duration::seconds(1);
        std::fs::write(&list, revocation_list(&files.authority, &bob, later).pem().unwrap()).unwrap();
        reloader.reload().unwrap_err();
        assert_eq!(judged(), [true, false], "{broken}");
        std::fs::write(&set.client_authorities, &whole).unwrap();
        files.pair("server", &files.server_pair());
        std::fs::write(&list, revocation_list(&files.authority, &ann, later).pem().unwrap()).unwrap();
        reloader.reload().unwrap();
        assert_eq!(judged(), [false, true]);
    }
    // An authority that was taken away.
    files.pair("server", &expired);
    let other = Authority::create("other", now()).unwrap();
    std::fs::write(&set.client_authorities, &other.pair.certificate).unwrap();
    reloader.reload().unwrap_err();
    assert_eq!(judged(), [false, false]);
}

#[test]
fn a_reload_that_changes_no_authority_judges_alike() {
    let files = Files::new();
    let list = files.directory.path().join("list.pem");
    let pair = client(&files.authority, "ann");
    std::fs::write(&list, revocation_list(&files.authority, &pair, now()).pem().unwrap()).unwrap();
    let set = TlsFiles { revocations: vec![list.clone()], ..files.set() };
    let reloader = Reloader::load(set).unwrap();
    assert!(reloader.files().contains(&list), "a change of the list is noticed");
    let first = reloader.current();
    files.pair("server", &files.server_pair());
    reloader.reload().unwrap();
    assert!(reloader.current().clients.is_same_as(&first.clients));
    let other = client(&files.authority, "bob");
    std::fs::write(&list, revocation_list(&files.authority, &other, now()).pem().unwrap()).unwrap();
    reloader.reload().unwrap();
    let second = reloader.current();
    assert!(!second.clients.is_same_as(&first.clients));
    let before = identify(&first.clients, &other).roles();
    assert!(identify(&second.clients, &other).lost_since(before));
    assert!(!identify(&second.clients, &pair).lost_since(identify(&first.clients, &pair).roles()));
}

#[test]
fn a_list_that_is_broken_holds_up_no_list_of_another_file() {
    let files = Files::new();
    let second = Authority::create("second", now()).unwrap();
    let both = format!("{}{}", files.authority.pair.certificate, second.pair.certificate);
    let path = |name: &str| files.directory.path().join(name);
    let (first_list, second_list) = (path("first.pem"), path("second.pem"));
    let (ann, bob, eve) = (client(&files.authority, "ann"), client(&second, "bob"), client(&second, "eve"));
    let write = |path: &PathBuf, list: &rcgen::CertificateRevocationList| {
        std::fs::write(path, list.pem().unwrap()).unwrap();
    };
    write(&first_list, &revocation_list(&files.authority, &ann, now()));
    write(&second_list, &revocation_list(&second, &bob, now()));
    let set = TlsFiles {
        client_authorities: files.write("both.crt", &both),
        revocations: vec![first_list.clone(), second_list.clone()],
        ..files.set()
    };
    let reloader = Reloader::load(set).unwrap();
    let judged = || [&ann, &bob, &eve].map(|pair| judge(&reloader.current().clients, pair).0);
    assert_eq!(judged(), [false, false, true]);
    let later = now() + Duration::seconds(1);
    for broken in ["nonsense".to_owned(), String::new(), delta_list(&files.authority)] {
        std::fs::write(&first_list, &broken).unwrap();
        write(&second_list, &revocation_list(&second, &eve, later));
        let message = refused(reloader.reload(), files.directory.path());
        assert!(message.starts_with("first.pem: unusable revocation list: "), "{message}");
        assert_eq!(judged(), [false, true, false], "{broken}");
        write(&second_list, &revocation_list(&second, &bob, later));
        reloader.reload().unwrap_err();
    }
    std::fs::remove_file(&first_list).unwrap();
    reloader.reload().unwrap_err();
    assert_eq!(judged(), [false, false, true], "a file that is gone keeps its list");
}

/// A delta list (RFC 5280, 5.2.4), signed by `authority`. The library makes none: the number's extension of a list is renamed
/// to that of a delta, which nobody reads as far as the signature.
fn delta_list(authority: &Authority) -> String {
    let der = revocation_list(authority, &client(authority, "any"), now()).der().to_vec();
    // 2.5.29.20, the number of the list; 2.5.29.27 says that it is a delta.
    let at = der.windows(5).position(|window| window == [6, 3, 0x55, 0x1d, 20]).unwrap();
    let mut der = der;
    der[at + 4] = 27;
    let text = base64::prelude::BASE64_STANDARD.encode(der);
    format!("-----BEGIN X509 CRL-----\n{text}\n-----END X509 CRL-----\n")
}

#[test]
fn a_certificate_on_a_list_of_its_authority_is_revoked_whatever_place_the_list_is_for() {
    use rcgen::{CertificateParams, CrlDistributionPoint, CrlIssuingDistributionPoint, DnType};
    let files = Files::new();
    let key = KeyPair::from_pem(&files.authority.pair.key).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&files.authority.pair.certificate, key).unwrap();
    let of = |name: &str, place: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        params.crl_distribution_points = vec![CrlDistributionPoint { uris: vec![place.to_owned()] }];
        let own = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&own, &issuer).unwrap();
        Pair { certificate: certificate.pem(), key: own.serialize_pem() }
    };
    let (ann, bob) = (of("ann", "http://old.example/list"), of("bob", "http://old.example/list"));
    let der = CertificateDer::from_pem_slice(ann.certificate.as_bytes()).unwrap();
    let (_, parsed) = X509Certificate::from_der(&der).unwrap();
    let list = CertificateRevocationListParams {
        this_update: now(),
        next_update: now() + Duration::days(7),
        crl_number: 1_u64.into(),
        issuing_distribution_point: Some(CrlIssuingDistributionPoint {
            distribution_point: CrlDistributionPoint { uris: vec!["http://new.example/list".to_owned()] },
            scope: None,
        }),
        revoked_certs: vec![RevokedCertParams {
            serial_number: parsed.raw_serial().to_vec().into(),
            revocation_time: now(),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let text = list.signed_by(&issuer).unwrap().pem().unwrap();
    let clients = load(&TlsFiles { revocations: vec![files.write("list.pem", &text)], ..files.set() });
    assert_eq!((judge(&clients, &ann), judge(&clients, &bob)), ((false, false), (true, false)));
}
