//! A certificate authority and the pairs it signs.

use std::path::{Path, PathBuf};

use orch_serving::files;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::key::key_pair;
use super::signer::matching_certificate;

/// Validity of an authority. Replacing one touches every member and client, so it outlives the cluster's hardware.
const AUTHORITY_LIFE: Duration = Duration::days(3650);
/// Validity of a pair: long enough to renew once a year, short enough that a lost key does not matter for ever.
pub(super) const PAIR_LIFE: Duration = Duration::days(365);
/// Certificates are valid from this long before they are made: clocks differ between machines.
pub(super) const BACKDATED: Duration = Duration::minutes(10);

/// Making, writing or reading certificates failed.
#[derive(Debug, thiserror::Error)]
pub enum CertsError {
    /// The file to be made exists.
    #[error("{path} exists already and is not overwritten")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file operation failed.
    #[error("cannot {action} {path}")]
    File {
        /// The operation: `read`, `write`, `create directory`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// A file does not hold what its name implies.
    #[error("{path} is not {expected}: {reason}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The expected content: `a certificate`, `a private key`.
        expected: &'static str,
        /// The parser's error.
        reason: String,
    },
    /// Two members have the same name.
    #[error("member {name} is named twice")]
    MemberTwice {
        /// The name.
        name: String,
    },
    /// The member to renew has no certificates.
    #[error("{path} holds no member {name}")]
    NoSuchMember {
        /// The directory of members.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A step of a rotation that is not the next one.
    #[error("{path}: {reason}; the next step is `orch certs rotate-ca {step}`")]
    OutOfOrder {
        /// The file that shows it.
        path: PathBuf,
        /// The state of the rotation that the file shows.
        reason: String,
        /// The step that is due.
        step: &'static str,
    },
    /// The authority that would sign is not valid.
    #[error(
        "the authority in {path} is valid from {from} to {until}, and not now; if this machine's clock is right, replace it \
         (orch certs rotate-ca)"
    )]
    AuthorityNotValid {
        /// File of its certificate.
        path: PathBuf,
        /// Start of its validity.
        from: OffsetDateTime,
        /// End of its validity.
        until: OffsetDateTime,
    },
    /// A certificate could not be made.
    #[error("cannot make certificate {name}")]
    Make {
        /// Common name of the certificate.
        name: String,
        /// Error of the certificate library.
        source: rcgen::Error,
    },
}

/// Extended key usage of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Serving the API.
    Server,
    /// Identifying a user.
    Client,
    /// Both ends of peer connections.
    Peer,
}

/// A certificate to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Common name of the subject: a user, a member.
    pub common_name: String,
    /// Organization of the subject: a user's group. `None` for members.
    pub organization: Option<String>,
    /// Host names and IP addresses for which it is valid; empty for users.
    pub hosts: Vec<String>,
    /// Its extended key usage.
    pub purpose: Purpose,
}

/// A certificate and its private key.
#[derive(Clone)]
pub struct Pair {
    /// The certificate, PEM.
    pub certificate: String,
    /// The private key, PEM. Secret.
    pub key: String,
}

/// An authority with its private key.
pub struct Authority {
    /// Its certificate and key.
    pub pair: Pair,
    /// Start and end of its validity.
    validity: (OffsetDateTime, OffsetDateTime),
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes a new authority called `common_name`, valid from `now`.
    pub fn create(common_name: &str, now: OffsetDateTime) -> Result<Authority, CertsError> {
        let failed = |source| CertsError::Make { name: common_name.to_owned(), source };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = params(common_name, None, now, AUTHORITY_LIFE);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).map_err(failed)?;
        let pair = Pair { certificate: certificate.pem(), key: key.serialize_pem() };
        let validity = (params.not_before, params.not_after);
        Ok(Authority { pair, validity, issuer: Issuer::new(params, key) })
    }

    /// Reads an authority from its files. Of several certificates (a rotation is under way) that of the key counts.
    pub fn load(certificate: &Path, key: &Path) -> Result<Authority, CertsError> {
        let pair = Pair { certificate: read(certificate)?, key: read(key)? };
        let parsed = key_pair(key, &pair.key)?;
        let own = matching_certificate(certificate, key, &parsed)?;
        let unusable = |reason: String| CertsError::Content {
            path: certificate.to_owned(),
            expected: "an authority's certificate",
            reason,
        };
        let (_, facts) = X509Certificate::from_der(&own).map_err(|error| unusable(error.to_string()))?;
        let validity = facts.validity();
        let validity = (validity.not_before.to_datetime(), validity.not_after.to_datetime());
        let issuer = Issuer::from_ca_cert_der(&own, parsed).map_err(|error| unusable(error.to_string()))?;
        Ok(Authority { pair, validity, issuer })
    }

    /// Refuses an authority that is not valid at `now`; `path` is the file of its certificate.
    pub(super) fn require_valid(&self, path: &Path, now: OffsetDateTime) -> Result<(), CertsError> {
        let (from, until) = self.validity;
        match (from..=until).contains(&now) {
            true => Ok(()),
            false => Err(CertsError::AuthorityNotValid { path: path.to_owned(), from, until }),
        }
    }

    /// Signs a new pair, valid from `now`.
    pub fn issue(&self, leaf: &Leaf, now: OffsetDateTime) -> Result<Pair, CertsError> {
        self.issue_from(leaf, now, now)
    }

    /// Signs a new pair at `now` that is valid from `start` on, if that is earlier.
    pub(super) fn issue_from(
        &self,
        leaf: &Leaf,
        start: OffsetDateTime,
        now: OffsetDateTime,
    ) -> Result<Pair, CertsError> {
        let failed = |source| CertsError::Make { name: leaf.common_name.clone(), source };
        let key = KeyPair::generate().map_err(failed)?;
        let names = CertificateParams::new(leaf.hosts.clone()).map_err(failed)?.subject_alt_names;
        let mut params = params(&leaf.common_name, leaf.organization.as_deref(), now, PAIR_LIFE);
        params.not_before = params.not_before.min(start);
        params.subject_alt_names = names;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match leaf.purpose {
            Purpose::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Purpose::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            Purpose::Peer => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        };
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// Makes a key pair for signing service account tokens: private and public key as PEM.
pub(crate) fn token_keys() -> Result<(String, String), CertsError> {
    let failed = |source| CertsError::Make { name: "service-account".to_owned(), source };
    let key = KeyPair::generate().map_err(failed)?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

pub(super) fn read(path: &Path) -> Result<String, CertsError> {
    files::read_text(path, files::MATERIAL_BYTES_MAX).map_err(|source| CertsError::File {
        action: "read",
        path: path.to_owned(),
        source,
    })
}

fn params(
    common_name: &str,
    organization: Option<&str>,
    now: OffsetDateTime,
    life: Duration,
) -> CertificateParams {
    let mut name = DistinguishedName::new();
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name.push(DnType::CommonName, common_name);
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    params.not_before = now - BACKDATED;
    params.not_after = now + life;
    params
}
