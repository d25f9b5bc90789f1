//! The member name in a peer certificate.
//!
//! A member's peer certificate carries one subject alternative name (DNS) `NAME.peer.orch`, where NAME is exactly the
//! member's configured name. The suffix keeps host names, which a certificate may also carry, from being taken for
//! names of members. The common name means nothing here.

use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Suffix of the DNS name, after the member's name.
const PEER_NAME_SUFFIX: &str = ".peer.orch";

/// The failure of [`peer_name_of`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerNameError {
    /// The certificate cannot be parsed.
    #[error("the certificate cannot be parsed: {0}")]
    Malformed(String),
    /// None of its names ends in [`PEER_NAME_SUFFIX`].
    #[error("the certificate carries no name ending in {PEER_NAME_SUFFIX}")]
    Missing,
    /// Several of its names end in [`PEER_NAME_SUFFIX`].
    #[error("the certificate carries several names ending in {PEER_NAME_SUFFIX}")]
    Several,
}

/// The subject alternative name (DNS) that the peer certificate of member `name` must carry.
pub fn peer_dns_name(name: &str) -> String {
    format!("{name}{PEER_NAME_SUFFIX}")
}

/// The name of the member that a certificate belongs to. The caller has checked the signature.
pub fn peer_name_of(certificate: &CertificateDer<'_>) -> Result<String, PeerNameError> {
    let malformed = |error: String| PeerNameError::Malformed(error);
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| malformed(error.to_string()))?;
    let names = parsed.subject_alternative_name().map_err(|error| malformed(error.to_string()))?;
    let names = names.map(|extension| extension.value.general_names.as_slice()).unwrap_or_default();
    let mut members = names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => name.strip_suffix(PEER_NAME_SUFFIX).filter(|name| !name.is_empty()),
        _ => None,
    });
    let name = members.next().ok_or(PeerNameError::Missing)?;
    if members.next().is_some() {
        return Err(PeerNameError::Several);
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn name_of(names: &[&str]) -> Result<String, PeerNameError> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        peer_name_of(CertificateParams::new(names).unwrap().self_signed(&key).unwrap().der())
    }

    #[test]
    fn only_the_name_with_the_suffix_names_a_member() {
        assert_eq!(name_of(&["localhost", "a.peer.orch", "10.0.0.1"]).unwrap(), "a");
        assert_eq!(name_of(&["a.b.peer.orch"]).unwrap(), "a.b");
        assert_eq!(name_of(&["A.peer.orch"]).unwrap(), "A");
        assert_eq!(name_of(&["a", "a.peer.orch.example"]), Err(PeerNameError::Missing));
        assert_eq!(name_of(&[".peer.orch"]), Err(PeerNameError::Missing));
        assert_eq!(name_of(&["a.peer.orch", "b.peer.orch"]), Err(PeerNameError::Several));
    }

    #[test]
    fn a_wildcard_names_nobody_in_particular() {
        // The asterisk is taken literally, and no member has this name.
        assert_eq!(name_of(&["*.peer.orch"]).unwrap(), "*");
    }

    #[test]
    fn bytes_that_are_no_certificate_are_malformed() {
        let error = peer_name_of(&CertificateDer::from(vec![0x30, 0x03, 1, 2]));
        assert!(matches!(error, Err(PeerNameError::Malformed(_))));
    }
}
