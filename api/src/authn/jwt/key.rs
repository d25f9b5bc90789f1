//! Public keys of issuers (RFC 7517) and the algorithms that they verify.
//!
//! Owns which algorithm a key takes: that of its own `alg`, or else one of its kind. Keys of other kinds and purposes
//! are left out. Symmetric keys are none: whoever knows one can sign.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::Value;

/// Keys of one issuer that are held: issuers rotate a few.
const KEYS_MAX: usize = 64;

/// An algorithm of signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
}

impl Algorithm {
    /// The algorithm called `name` in headers and keys; `none` and symmetric ones are not.
    pub(super) fn named(name: &str) -> Option<Algorithm> {
        Some(match name {
            "RS256" => Algorithm::Rs256,
            "RS384" => Algorithm::Rs384,
            "RS512" => Algorithm::Rs512,
            "PS256" => Algorithm::Ps256,
            "PS384" => Algorithm::Ps384,
            "PS512" => Algorithm::Ps512,
            "ES256" => Algorithm::Es256,
            "ES384" => Algorithm::Es384,
            _ => return None,
        })
    }

    fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
            Algorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
            Algorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
            Algorithm::Ps384 => &RSA_PSS_2048_8192_SHA384,
            Algorithm::Ps512 => &RSA_PSS_2048_8192_SHA512,
            Algorithm::Es256 | Algorithm::Es384 => return None,
        })
    }
}

/// A public key of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) id: String,
    /// The only algorithm that the key takes; `None`: any of its kind.
    algorithm: Option<Algorithm>,
    numbers: Numbers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Numbers {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
}

impl Key {
    /// The keys of the set `document`; `None` if it is no key set. Keys that are not understood are left out.
    pub(super) fn set(document: &Value) -> Option<Vec<Key>> {
        let keys = document["keys"].as_array()?;
        Some(keys.iter().filter_map(Key::of).take(KEYS_MAX).collect())
    }

    fn of(jwk: &Value) -> Option<Key> {
        let text = |member: &str| jwk[member].as_str();
        let number = |member: &str| BASE64_URL_SAFE_NO_PAD.decode(text(member)?).ok();
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let operations = jwk["key_ops"].as_array();
        // few: the operations of one key.
        if operations.is_some_and(|all| !all.iter().any(|operation| operation == "verify")) {
            return None;
        }
        let numbers = match (text("kty")?, text("crv")) {
            ("RSA", _) => {
                let trimmed = |bytes: Vec<u8>| bytes.into_iter().skip_while(|&byte| byte == 0).collect();
                Numbers::Rsa { modulus: trimmed(number("n")?), exponent: trimmed(number("e")?) }
            }
            ("EC", Some("P-256")) => Numbers::P256(point(&number("x")?, &number("y")?, 32)?),
            ("EC", Some("P-384")) => Numbers::P384(point(&number("x")?, &number("y")?, 48)?),
            _ => return None,
        };
        let algorithm = match text("alg") {
            None => None,
            Some(name) => Some(Algorithm::named(name)?),
        };
        let key = Key { id: text("kid").unwrap_or_default().to_owned(), algorithm, numbers };
        let is_of_its_kind = algorithm.is_none_or(|algorithm| key.is_of_kind(algorithm));
        is_of_its_kind.then_some(key)
    }

    fn is_of_kind(&self, algorithm: Algorithm) -> bool {
        match &self.numbers {
            Numbers::Rsa { .. } => algorithm.rsa().is_some(),
            Numbers::P256(_) => algorithm == Algorithm::Es256,
            Numbers::P384(_) => algorithm == Algorithm::Es384,
        }
    }

    /// Whether the key takes `algorithm`.
    pub(super) fn takes(&self, algorithm: Algorithm) -> bool {
        match self.algorithm {
            Some(own) => own == algorithm,
            None => self.is_of_kind(algorithm),
        }
    }

    /// Whether `signature` of `message` was made by `algorithm` with the private key.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.takes(algorithm) {
            return false;
        }
        match &self.numbers {
            Numbers::Rsa { modulus, exponent } => algorithm.rsa().is_some_and(|parameters| {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(parameters, message, signature).is_ok()
            }),
            Numbers::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
            }
            Numbers::P384(point) => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(message, signature).is_ok()
            }
        }
    }
}

/// The uncompressed form of a point whose coordinates have `length` bytes.
fn point(x: &[u8], y: &[u8], length: usize) -> Option<Vec<u8>> {
    (x.len() == length && y.len() == length).then(|| [&[4], x, y].concat())
}
