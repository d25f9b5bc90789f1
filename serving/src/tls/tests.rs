//! Faults of PEM texts and pairs, and subjects of certificates.

use rcgen::{CertificateParams, CustomExtension, DnType, DnValue, KeyPair};
use rustls::pki_types::CertificateDer;

use super::*;

fn certificate(params: CertificateParams) -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap(), key)
}

#[test]
fn a_damaged_text_and_an_empty_one_are_told_apart() {
    let (made, key) = certificate(CertificateParams::new(vec!["a".to_owned()]).unwrap());
    let pem = made.pem();
    assert_eq!(certificates(pem.as_bytes()).unwrap().len(), 1);
    assert_eq!(authorities(pem.as_bytes()).unwrap().len(), 1);
    assert_eq!(certificates(b"").unwrap_err(), PemFault::Empty);
    assert_eq!(certificates(key.serialize_pem().as_bytes()).unwrap_err(), PemFault::Empty);
    let cut = &pem[..pem.len() / 2];
    assert_eq!(certificates(cut.as_bytes()).unwrap_err(), PemFault::Malformed);
    assert!(private_key(pem.as_bytes()).is_none());
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let params = || CertificateParams::new(vec!["a".to_owned()]).unwrap();
    let ((made, key), (_, other)) = (certificate(params()), certificate(params()));
    let chain = || certificates(made.pem().as_bytes()).unwrap();
    let of = |key: &KeyPair| private_key(key.serialize_pem().as_bytes()).unwrap();
    assert!(pair(chain(), &of(&key)).is_ok());
    assert_eq!(pair(chain(), &of(&other)).unwrap_err(), PairFault::Mismatch);
    let damaged = vec![CertificateDer::from(vec![1, 2, 3])];
    assert!(matches!(pair(damaged, &of(&key)), Err(PairFault::Certificate(_))));
}

#[test]
fn a_subject_has_a_name_organizations_and_one_uid() {
    let uid = DnType::CustomDnType(UID_ATTRIBUTE.iter().unwrap().collect());
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "alice");
    params.distinguished_name.push(DnType::OrganizationName, "dev");
    params.distinguished_name.push(uid, DnValue::Utf8String("u-1".to_owned()));
    params.custom_extensions.push(CustomExtension::from_oid_content(&[1, 2, 3], vec![5, 0]));
    let (made, _) = certificate(params);
    let subject = Subject::of(made.der()).unwrap();
    assert_eq!((subject.common_name.as_str(), subject.uid.as_deref()), ("alice", Some("u-1")));
    assert_eq!(subject.organizations, ["dev"]);
    assert!(!subject.not_after.is_zero());
    assert!(Subject::of(&CertificateDer::from(vec![1])).is_err());
}
