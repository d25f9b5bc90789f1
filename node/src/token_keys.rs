//! Keys of service account tokens from PEM files: the one that signs, and those that verify.
//!
//! Owns the forms of key files (private keys in PKCS#1, PKCS#8 and SEC1, public keys, certificates; RSA, P-256 and P-384) and
//! the signatures. Invariant: no error and no `Debug` output shows a part of a private key.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orch_api::authn::service_account::{Curve, Keys, PublicKey, Signer, SigningFailed, VerifyingKey};
use orch_serving::files;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use rustls::sign::SigningKey;
use x509_parser::oid_registry::{OID_EC_P256, OID_NIST_EC_P384};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey as ParsedKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Largest key file: some hundred keys. A larger one is taken for the wrong file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The file holds no key of the wanted kind.
    #[error("{path} holds no {expected} in PEM form")]
    Empty {
        /// The file.
        path: PathBuf,
        /// `private key` or `key`.
        expected: &'static str,
    },
    /// A key in the file is damaged, or of a kind that tokens cannot use.
    #[error("{path}: a {label} is damaged, or neither RSA of 2048 bits and more, nor P-256, nor P-384")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The label of its PEM block.
        label: String,
    },
}

/// The files of a node's keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFiles {
    /// File of the private key that signs; `None`: this node makes no tokens.
    pub signing: Option<PathBuf>,
    /// Files of further keys that verify.
    pub verifying: Vec<PathBuf>,
}

impl KeyFiles {
    /// Reads all files.
    ///
    /// # Errors
    /// A file cannot be read, or holds no usable key.
    pub fn load(&self) -> Result<Keys, KeyFileError> {
        let signer = self.signing.as_deref().map(load_signer).transpose()?;
        let mut others = Vec::new();
        for path in &self.verifying {
            others.extend(load_verifying(path)?);
        }
        Ok(Keys::new(signer, others))
    }

    /// Every file, for those who look whether one has changed.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.signing.iter().chain(&self.verifying).cloned().collect()
    }
}

/// A private key that signs.
struct PrivateKey {
    secret: Arc<dyn SigningKey>,
    scheme: SignatureScheme,
    public: VerifyingKey,
    /// Bytes of each of the two numbers of a signature; `None` for RSA, whose signatures are one number.
    number_bytes: Option<usize>,
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("public", &self.public).finish_non_exhaustive()
    }
}

impl Signer for PrivateKey {
    fn key(&self) -> &VerifyingKey {
        &self.public
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SigningFailed> {
        let signer = self.secret.choose_scheme(&[self.scheme]).ok_or(SigningFailed)?;
        let signature = signer.sign(message).map_err(|_| SigningFailed)?;
        match self.number_bytes {
            None => Ok(signature),
            Some(bytes) => fixed_form(&signature, bytes).ok_or(SigningFailed),
        }
    }
}

/// The first private key in the file at `path`.
fn load_signer(path: &Path) -> Result<Arc<dyn Signer>, KeyFileError> {
    for block in blocks(path)? {
        if let Some(secret) = private_key(&block) {
            let unusable = || unusable(path, &block);
            let secret = any_supported_type(&secret).map_err(|_| unusable())?;
            return private(secret).map(|key| Arc::new(key) as Arc<dyn Signer>).ok_or_else(unusable);
        }
    }
    Err(KeyFileError::Empty { path: path.to_owned(), expected: "private key" })
}

fn private(secret: Arc<dyn SigningKey>) -> Option<PrivateKey> {
    let (public, curve) = {
        let encoded = secret.public_key()?;
        verifying_key(&encoded)?
    };
    let (scheme, number_bytes) = match curve {
        None => (SignatureScheme::RSA_PKCS1_SHA256, None),
        Some(Curve::P256) => (SignatureScheme::ECDSA_NISTP256_SHA256, Some(32)),
        Some(Curve::P384) => (SignatureScheme::ECDSA_NISTP384_SHA384, Some(48)),
    };
    Some(PrivateKey { secret, scheme, public, number_bytes })
}

/// The public keys in the file at `path`, those of its private keys and certificates included.
fn load_verifying(path: &Path) -> Result<Vec<VerifyingKey>, KeyFileError> {
    let mut keys = Vec::new();
    for block in blocks(path)? {
        let found = match (block.label.as_str(), private_key(&block)) {
            (_, Some(secret)) => {
                any_supported_type(&secret).ok().and_then(|secret| verifying_key(&secret.public_key()?))
            }
            ("PUBLIC KEY", None) => verifying_key(&block.contents),
            ("CERTIFICATE", None) => X509Certificate::from_der(&block.contents)
                .ok()
                .and_then(|(_, certificate)| verifying_key(certificate.public_key().raw)),
            _ => continue,
        };
        keys.push(found.ok_or_else(|| unusable(path, &block))?.0);
    }
    if keys.is_empty() {
        return Err(KeyFileError::Empty { path: path.to_owned(), expected: "key" });
    }
    Ok(keys)
}

/// The PEM blocks of a file. Damaged ones are refused.
fn blocks(path: &Path) -> Result<Vec<Pem>, KeyFileError> {
    let text = files::read(path, FILE_BYTES_MAX)
        .map_err(|source| KeyFileError::Unreadable { path: path.to_owned(), source })?;
    let empty = || KeyFileError::Empty { path: path.to_owned(), expected: "key" };
    // The parser's error may quote the file.
    Pem::iter_from_buffer(&text).collect::<Result<_, _>>().map_err(|_| empty())
}

fn unusable(path: &Path, block: &Pem) -> KeyFileError {
    KeyFileError::Unusable { path: path.to_owned(), label: block.label.clone() }
}

/// The private key of a block; `None` for blocks of other things.
fn private_key(block: &Pem) -> Option<PrivateKeyDer<'_>> {
    let der = block.contents.as_slice();
    Some(match block.label.as_str() {
        "RSA PRIVATE KEY" => PrivatePkcs1KeyDer::from(der).into(),
        "EC PRIVATE KEY" => PrivateSec1KeyDer::from(der).into(),
        "PRIVATE KEY" => PrivatePkcs8KeyDer::from(der).into(),
        _ => return None,
    })
}

/// The key whose `SubjectPublicKeyInfo` is `encoded`, and its curve if it has one.
fn verifying_key(encoded: &[u8]) -> Option<(VerifyingKey, Option<Curve>)> {
    let (rest, info) = SubjectPublicKeyInfo::from_der(encoded).ok()?;
    if !rest.is_empty() {
        return None;
    }
    match info.parsed().ok()? {
        ParsedKey::RSA(key) => {
            let number = |bytes: &[u8]| {
                let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
                bytes[zeros..].to_vec()
            };
            let (modulus, exponent) = (number(key.modulus), number(key.exponent));
            // Shorter keys verify nothing: refused here, where the operator sees it.
            if modulus.len() < 256 {
                return None;
            }
            Some((VerifyingKey::new(encoded, PublicKey::Rsa { modulus, exponent }), None))
        }
        ParsedKey::EC(point) => {
            let name = info.algorithm.parameters.as_ref()?.as_oid().ok()?;
            let (curve, bytes) = match name {
                name if name == OID_EC_P256 => (Curve::P256, 65),
                name if name == OID_NIST_EC_P384 => (Curve::P384, 97),
                _ => return None,
            };
            let point = point.data().to_vec();
            let is_point = point.len() == bytes && point.first() == Some(&4);
            let key = VerifyingKey::new(encoded, PublicKey::Elliptic { curve, point });
            is_point.then_some((key, Some(curve)))
        }
        _ => None,
    }
}

/// The two numbers of an ECDSA signature in DER, `bytes` long each (RFC 7518, section 3.4). `None`: it is no such
/// signature.
fn fixed_form(signature: &[u8], bytes: usize) -> Option<Vec<u8>> {
    // Both numbers together have less than 128 bytes, so that every length is one byte.
    let [0x30, length, numbers @ ..] = signature else { return None };
    let (first, rest) = integer(numbers)?;
    let (second, rest) = integer(rest)?;
    if usize::from(*length) != numbers.len() || !rest.is_empty() {
        return None;
    }
    let mut fixed = Vec::with_capacity(2 * bytes);
    for number in [first, second] {
        fixed.resize(fixed.len() + bytes.checked_sub(number.len())?, 0);
        fixed.extend_from_slice(number);
    }
    Some(fixed)
}

/// The bytes of the positive integer at the start of `der`, without leading zeros, and the rest.
fn integer(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let [0x02, length, rest @ ..] = der else { return None };
    let (number, rest) = rest.split_at_checked(usize::from(*length))?;
    let zeros = number.iter().take_while(|&&byte| byte == 0).count();
    Some((&number[zeros..], rest))
}

#[cfg(test)]
mod tests;
