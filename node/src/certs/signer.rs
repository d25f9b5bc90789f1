//! The built-in signers' authority: a certificate and a key in files.
//!
//! Owns reading them. They are read for each signature, so that a rotated authority signs from the next one on. A file
//! may hold several certificates (a rotation is under way): the one that belongs to the key counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use orch_api::signing::{BuiltinSigner, CertificateSigner, SigningAuthority, SigningError, Template};
use orch_serving::Causes;
use orch_serving::tls::MALFORMED_PEM;
use rcgen::{KeyPair, PublicKeyData, SigningKey};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::authority::{CertsError, read};
use super::encoding::{IssuerFields, algorithm, certificate, signed_part};
use super::key::key_pair;
use super::pem::to_pem;

/// Bytes of a serial number; more than the 64 bits of chance that authorities are asked for.
const SERIAL_BYTES: usize = 16;

/// The files of an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningFiles {
    /// The authority's certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Signs with authorities in files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSigner {
    /// The authority of each signer that this node answers for.
    pub authorities: BTreeMap<BuiltinSigner, SigningFiles>,
    /// Longest validity of what it signs, in seconds.
    pub life_s_max: i64,
}

impl CertificateSigner for FileSigner {
    fn signs_for(&self, signer: BuiltinSigner) -> bool {
        self.authorities.contains_key(&signer)
    }

    fn authority(&self, signer: BuiltinSigner) -> Result<Box<dyn SigningAuthority>, SigningError> {
        let files = self.authorities.get(&signer);
        let files =
            files.ok_or_else(|| SigningError::Authority("there is none for this signer".to_owned()))?;
        let loaded = FileAuthority::load(&files.certificate, &files.key);
        let loaded = loaded.map_err(|error| SigningError::Authority(Causes(&error).to_string()))?;
        Ok(Box::new(loaded))
    }

    fn life_s_max(&self) -> i64 {
        self.life_s_max
    }
}

/// An authority read from its files.
pub struct FileAuthority {
    name: Vec<u8>,
    key_id: Option<Vec<u8>>,
    not_after_s: i64,
    algorithm: Vec<u8>,
    key: KeyPair,
}

impl FileAuthority {
    /// Reads the authority: the certificate in `certificate` that belongs to the key in `key`.
    pub fn load(certificate: &Path, key: &Path) -> Result<FileAuthority, CertsError> {
        let pair = key_pair(key, &read(key)?)?;
        let der = matching_certificate(certificate, key, &pair)?;
        let unusable = |reason: String| CertsError::Content {
            path: certificate.to_owned(),
            expected: "an authority's certificate",
            reason,
        };
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| unusable(error.to_string()))?;
        if !parsed.is_ca() {
            return Err(unusable("it may not sign certificates".to_owned()));
        }
        let key_id = parsed.extensions().iter().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
            _ => None,
        });
        let algorithm =
            signature_algorithm(&pair).ok_or_else(|| unusable("unknown kind of key".to_owned()))?;
        Ok(FileAuthority {
            name: parsed.subject().as_raw().to_vec(),
            key_id,
            not_after_s: parsed.validity().not_after.timestamp(),
            algorithm,
            key: pair,
        })
    }
}

impl SigningAuthority for FileAuthority {
    fn not_after_s(&self) -> i64 {
        self.not_after_s
    }

    fn sign(&self, template: &Template) -> Result<String, SigningError> {
        let mut serial = [0_u8; SERIAL_BYTES];
        let drawn = SystemRandom::new().fill(&mut serial);
        drawn.map_err(|_| SigningError::Sign("no randomness".to_owned()))?;
        // Positive, of constant length, and never zero.
        serial[0] = serial[0] & 0x7f | 0x40;
        let issuer = IssuerFields {
            name: &self.name,
            key_id: self.key_id.as_deref(),
            algorithm: &self.algorithm,
            serial: &serial,
        };
        let failed = |reason: &dyn std::fmt::Display| SigningError::Sign(reason.to_string());
        let part = signed_part(template, &issuer).map_err(|error| failed(&error))?;
        let signature = self.key.sign(&part).map_err(|error| failed(&error))?;
        Ok(to_pem("CERTIFICATE", &certificate(&part, &self.algorithm, &signature)))
    }
}

/// The certificate in `path` that belongs to `pair`, DER.
pub(super) fn matching_certificate(
    path: &Path,
    key: &Path,
    pair: &KeyPair,
) -> Result<CertificateDer<'static>, CertsError> {
    let text = read(path)?;
    let unusable = |reason: String| CertsError::Content {
        path: path.to_owned(),
        expected: "an authority's certificate",
        reason,
    };
    let own = pair.subject_public_key_info();
    for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
        let certificate = certificate.map_err(|_| unusable(MALFORMED_PEM.to_owned()))?;
        let (_, parsed) =
            X509Certificate::from_der(&certificate).map_err(|error| unusable(error.to_string()))?;
        if parsed.public_key().raw == own.as_slice() {
            return Ok(certificate);
        }
    }
    Err(unusable(format!("none of its certificates belongs to the key in {}", key.display())))
}

/// `AlgorithmIdentifier` of the signatures that a key makes, DER.
fn signature_algorithm(pair: &KeyPair) -> Option<Vec<u8>> {
    let is = |kind: &'static rcgen::SignatureAlgorithm| pair.is_compatible(kind);
    Some(if is(&rcgen::PKCS_ECDSA_P256_SHA256) {
        algorithm(&[1, 2, 840, 10_045, 4, 3, 2], false)
    } else if is(&rcgen::PKCS_ECDSA_P384_SHA384) {
        algorithm(&[1, 2, 840, 10_045, 4, 3, 3], false)
    } else if is(&rcgen::PKCS_ED25519) {
        algorithm(&[1, 3, 101, 112], false)
    } else if is(&rcgen::PKCS_RSA_SHA256) {
        algorithm(&[1, 2, 840, 113_549, 1, 1, 11], true)
    } else {
        return None;
    })
}
