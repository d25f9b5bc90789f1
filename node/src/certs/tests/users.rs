//! Certificates of further users, and a job that makes a directory at each start.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::Duration;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{arguments, made, now};
use crate::certs::{User, init, user_pair};

#[test]
fn a_user_s_certificate_names_it_and_its_groups_and_opens_a_client_s_connection() {
    let (_directory, layout) = made(&[("a", &["10.0.0.1"])]);
    let user = User { name: "ann".to_owned(), groups: vec!["devs".to_owned(), "ops".to_owned()] };
    let made = user_pair(&layout, &user, Some(std::time::Duration::from_secs(7200)), now()).unwrap();
    let der = CertificateDer::from_pem_slice(made.pair.certificate.as_bytes()).unwrap();
    let (rest, parsed) = X509Certificate::from_der(&der).unwrap();
    assert!(rest.is_empty() && !parsed.is_ca());
    assert_eq!(parsed.subject().to_string(), "O=devs, O=ops, CN=ann");
    assert_eq!(parsed.validity().not_after.timestamp(), made.not_after.unix_timestamp());
    assert!((made.not_after - now() - Duration::hours(2)).abs() < Duration::minutes(1));
    let extended = parsed.extended_key_usage().unwrap().unwrap().value;
    assert!(extended.client_auth && !extended.server_auth);
    let roots = crate::tls::load_authorities(&layout.authority_certificate(), now()).unwrap();
    let trust = crate::tls::TrustMaterial { users: roots, proxies: None, revocations: Default::default() };
    let clients = crate::tls::ClientAuthorities::new(&trust).unwrap();
    let identified =
        clients.identify(Some(std::slice::from_ref(&der)), std::time::SystemTime::now()).unwrap();
    assert!(identified.certificate.is_ok(), "{:?}", identified.certificate);
}

#[test]
fn a_user_s_certificate_does_not_outlive_its_authority() {
    let (_directory, layout) = made(&[("a", &["10.0.0.1"])]);
    let user = User { name: "ann".to_owned(), groups: Vec::new() };
    let late = now() + Duration::days(3600);
    let made = user_pair(&layout, &user, None, late).unwrap();
    assert!(made.not_after < late + Duration::days(60), "{}", made.not_after);
}

#[test]
fn a_directory_is_made_once_where_a_job_asks_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut asked = arguments(directory.path(), &[("a", &["10.0.0.1"])]);
    asked.if_absent = true;
    assert!(!init(&asked, now()).unwrap().is_empty());
    let before = std::fs::read(directory.path().join("ca.crt")).unwrap();
    assert!(init(&asked, now()).unwrap().is_empty());
    assert_eq!(std::fs::read(directory.path().join("ca.crt")).unwrap(), before);
    std::fs::remove_file(directory.path().join("admin.key")).unwrap();
    let told = init(&asked, now()).unwrap_err().to_string();
    assert!(told.contains("exists already"), "half a directory is an error: {told}");
}
