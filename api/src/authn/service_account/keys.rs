//! Keys of service account tokens: verifying keys, and the trait through which tokens are signed.
//!
//! Owns the algorithm of each key, which is fixed by the key and never chosen by a token. It reads no file.

use std::fmt::Debug;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
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
    /// A point of an elliptic curve, uncompressed: 0x04, then x, then y.
    Elliptic {
        /// The curve.
        curve: Curve,
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

/// An elliptic curve, each with the one algorithm that RFC 7518 allows for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// P-256: algorithm ES256.
    P256,
    /// P-384: algorithm ES384.
    P384,
}

/// Signs tokens.
pub trait Signer: Debug + Send + Sync {
    /// The key that verifies the signatures.
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

/// The keys of a node: the one that signs new tokens, and all that verify tokens.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    signer: Option<Arc<dyn Signer>>,
    verifying: Vec<VerifyingKey>,
}

impl Keys {
    /// The keys of a node that signs with `signer` and verifies with its key and `others`. Without a signer no tokens
    /// are made.
    pub fn new(signer: Option<Arc<dyn Signer>>, others: Vec<VerifyingKey>) -> Keys {
        let own = signer.iter().map(|signer| signer.key().clone());
        let mut verifying: Vec<VerifyingKey> = Vec::new();
        for key in own.chain(others) {
            // few: the keys in an operator's files.
            if !verifying.contains(&key) {
                verifying.push(key);
            }
        }
        Keys { signer, verifying }
    }

    /// Signs new tokens; `None` where this node makes none.
    pub fn signer(&self) -> Option<&Arc<dyn Signer>> {
        self.signer.as_ref()
    }

    /// The keys that verify tokens, the signer's first.
    pub fn verifying(&self) -> &[VerifyingKey] {
        &self.verifying
    }

    /// The keys as a JSON Web Key Set (RFC 7517).
    pub(super) fn key_set(&self) -> Value {
        json!({"keys": self.verifying.iter().map(VerifyingKey::jwk).collect::<Vec<_>>()})
    }
}

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
            PublicKey::Elliptic { curve: Curve::P256, .. } => "ES256",
            PublicKey::Elliptic { curve: Curve::P384, .. } => "ES384",
            PublicKey::Rsa { .. } => "RS256",
        }
    }

    /// Whether `signature` of `message` was made with the private key.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let checked = match &self.key {
            PublicKey::Elliptic { curve: Curve::P256, point } => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            PublicKey::Elliptic { curve: Curve::P384, point } => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(message, signature)
            }
            PublicKey::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
        };
        checked.is_ok()
    }

    /// The key as a JSON Web Key (RFC 7517).
    fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let (id, algorithm) = (&self.id, self.algorithm());
        match &self.key {
            PublicKey::Elliptic { curve, point } => {
                let name = match curve {
                    Curve::P256 => "P-256",
                    Curve::P384 => "P-384",
                };
                let (x, y) = point.get(1..).unwrap_or_default().split_at(point.len() / 2);
                json!({
                    "use": "sig", "kty": "EC", "kid": id, "crv": name, "alg": algorithm,
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
