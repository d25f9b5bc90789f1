//! Keys that sign tokens in tests, and states with the objects that tokens name.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use orch_proto::brand::{API_AUDIENCE, ORCH};
use orch_schema::value::Value;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaPublicKeyComponents,
};

use super::{Curve, Keys, PublicKey, ServiceAccounts, Settings, Signer, SigningFailed, VerifyingKey};
use crate::admission::View;
use crate::admission::testing::Objects;

/// The issuer of tokens in tests.
pub(crate) const ISSUER: &str = API_AUDIENCE;

/// A key of 2048 bits for tests alone.
const RSA: &str = include_str!("testing_rsa.pem");

#[derive(Debug)]
struct EllipticKey {
    public: VerifyingKey,
    pair: EcdsaKeyPair,
}

#[derive(Debug)]
struct RsaKey {
    public: VerifyingKey,
    pair: RsaKeyPair,
}

/// A new P-256 key.
pub(crate) fn elliptic() -> Arc<dyn Signer> {
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let encoded = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, encoded.as_ref(), &SystemRandom::new()).unwrap();
    let point = pair.public_key().as_ref().to_vec();
    let public = VerifyingKey::new(&point, PublicKey::Elliptic { curve: Curve::P256, point: point.clone() });
    Arc::new(EllipticKey { public, pair })
}

/// The RSA key.
pub(crate) fn rsa() -> Arc<dyn Signer> {
    let body: String = RSA.lines().filter(|line| !line.starts_with('-')).collect();
    let pair = RsaKeyPair::from_der(&BASE64_STANDARD.decode(body).unwrap()).unwrap();
    let RsaPublicKeyComponents { n: modulus, e: exponent } =
        RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
    let public = VerifyingKey::new(&modulus.clone(), PublicKey::Rsa { modulus, exponent });
    Arc::new(RsaKey { public, pair })
}

impl Signer for EllipticKey {
    fn key(&self) -> &VerifyingKey {
        &self.public
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SigningFailed> {
        let signature = self.pair.sign(&SystemRandom::new(), message);
        signature.map(|signature| signature.as_ref().to_vec()).map_err(|_| SigningFailed)
    }
}

impl Signer for RsaKey {
    fn key(&self) -> &VerifyingKey {
        &self.public
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SigningFailed> {
        let mut signature = vec![0; self.pair.public().modulus_len()];
        let signed = self.pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature);
        signed.map(|()| signature).map_err(|_| SigningFailed)
    }
}

/// The tokens of a server with the default settings that signs with `signer`.
pub(crate) fn accounts(signer: Arc<dyn Signer>) -> ServiceAccounts {
    let settings = Settings {
        issuers: vec![ISSUER.to_owned()],
        audiences: vec![ISSUER.to_owned()],
        keys_url: "https://127.0.0.1:6443/openid/v1/jwks".to_owned(),
        life_s_max: None,
        extends_mounted: true,
    };
    ServiceAccounts::new(&ORCH, settings, Keys::new(Some(signer), Vec::new()))
}

/// A view with these objects: resource, namespace, name, and content.
pub(crate) fn view(objects: &[(&str, &str, &str, Value)]) -> View {
    let owned = objects.iter().map(|(resource, namespace, name, object)| {
        ((resource.to_string(), namespace.to_string(), name.to_string()), object.clone())
    });
    Objects(owned.collect()).view("ns")
}
