//! Requests for tests, signed by fresh keys.

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

/// A request as PEM: its common name, its organization (none where empty), and its alternative names.
pub(crate) fn request(common_name: &str, organization: &str, names: Vec<SanType>) -> String {
    let mut subject = DistinguishedName::new();
    if !organization.is_empty() {
        subject.push(DnType::OrganizationName, organization);
    }
    subject.push(DnType::CommonName, common_name);
    request_of(subject, names)
}

/// A request as PEM: its subject and its alternative names.
pub(crate) fn request_of(subject: DistinguishedName, names: Vec<SanType>) -> String {
    let mut params = CertificateParams::default();
    (params.distinguished_name, params.subject_alt_names) = (subject, names);
    let key = KeyPair::generate().unwrap();
    params.serialize_request(&key).unwrap().pem().unwrap()
}

/// A certificate as PEM, signed by itself.
pub(crate) fn certificate() -> String {
    let key = KeyPair::generate().unwrap();
    CertificateParams::default().self_signed(&key).unwrap().pem()
}
