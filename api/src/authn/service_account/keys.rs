//! Keys of service account tokens: verifying keys, and the trait through which tokens are signed.
//!
//! Owns the algorithm of each key, which is fixed by the key and never chosen by a token. It reads no file.

use std::fmt::Debug;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::{Value, json};

/// A public key that verifies tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyingKey {
    id: String,
    key: PublicKey,
}

/// The numbers of a public key, big-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// A point of the curve P-256, uncompressed: 0x04, then 32 bytes of x, then 32 bytes of y. Algorithm ES256.
    P256 {
        /// The point.
        point: Vec<u8>,
    },
    /// An RSA key of 2048 to 8192 bits. Algorithm RS256.
    Rsa {
        /// The modulus, without leading zeros.
        modulus: Vec<u8>,
        /// The exponent, without leading zeros.
        exponent: Vec<u8>,
    },
}

/// Signs tokens.
pub trait Signer: Debug + Send + Sync {
    /// The key that verifies what is signed.
    fn key(&self) -> &VerifyingKey;

    /// The signature of `message`, in the form that RFC 7518 gives for the key's algorithm.
    ///
    /// # Errors
    /// The key cannot be used now.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SigningFailed>;
}

/// The error of a signature that was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token cannot be signed")]
pub struct SigningFailed;

impl VerifyingKey {
    /// The key whose DER encoding as `SubjectPublicKeyInfo` is `encoded`. Its id is the digest of that encoding, as in the
    /// reference.
    pub fn new(encoded: &[u8], key: PublicKey) -> Self {
        VerifyingKey { id: BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, encoded)), key }
    }

    /// The id, `kid` of tokens.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Name of the algorithm, `alg` of tokens.
    pub fn algorithm(&self) -> &'static str {
        match self.key {
            PublicKey::P256 { .. } => "ES256",
            PublicKey::Rsa { .. } => "RS256",
        }
    }

    /// Whether `signature` of `message` was made with the private key.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.key {
            PublicKey::P256 { point } => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
            }
            PublicKey::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok()
            }
        }
    }

    /// The key as a JSON Web Key (RFC 7517).
    pub(super) fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let (id, algorithm) = (&self.id, self.algorithm());
        match &self.key {
            PublicKey::P256 { point } => {
                let (x, y) = point.get(1..).unwrap_or_default().split_at(point.len() / 2);
                json!({
                    "use": "sig", "kty": "EC", "kid": id, "crv": "P-256", "alg": algorithm,
                    "x": text(x), "y": text(y),
                })
            }
            PublicKey::Rsa { modulus, exponent } => json!({
                "use": "sig", "kty": "RSA", "kid": id, "alg": algorithm,
                "n": text(modulus), "e": text(exponent),
            }),
        }
    }
}
