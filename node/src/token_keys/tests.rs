//! Key files of every form, and the signatures that their keys make.

use std::fs;

use orch_api::authn::service_account::{Claims, ObjectRef};
use orch_proto::brand::ORCH;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384};
use tempfile::TempDir;

use super::*;

/// A key of 2048 bits for tests alone, in PKCS#1.
const RSA: &str = include_str!("rsa.pem");
/// A P-256 key for tests alone, in SEC1, behind the parameters that OpenSSL writes.
const SEC1: &str = include_str!("sec1.pem");

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

fn claims() -> Claims {
    Claims {
        audiences: vec!["shop".to_owned()],
        issued_at: 1000,
        expires_at: 2000,
        namespace: "ns".to_owned(),
        account: ObjectRef { name: "robot".to_owned(), uid: "u".to_owned() },
        ..Claims::default()
    }
}

#[test]
fn every_form_of_key_signs_tokens_that_its_public_key_verifies() {
    let folder = Folder::new();
    let p256 = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let p384 = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    for (name, text, algorithm) in [
        ("p256", p256.serialize_pem(), "ES256"),
        ("p384", p384.serialize_pem(), "ES384"),
        ("sec1", SEC1.to_owned(), "ES256"),
        ("rsa", RSA.to_owned(), "RS256"),
    ] {
        let signing = folder.file(name, &text);
        let keys = KeyFiles { signing: Some(signing.clone()), verifying: Vec::new() }.load().unwrap();
        let signer = keys.signer().unwrap();
        assert_eq!(signer.key().algorithm(), algorithm, "{name}");
        let others = KeyFiles { signing: None, verifying: vec![signing] }.load().unwrap();
        assert_eq!(others.verifying(), keys.verifying(), "{name}: the file verifies without signing");
        assert!(others.signer().is_none());
        // Often enough that numbers of a signature begin with zeros.
        for at in 0..300 {
            let claims = Claims { issued_at: 1000 + at, ..claims() };
            let token = claims.sign("https://x", ORCH.label_domain, &**signer).unwrap();
            let issuers = ["https://x".to_owned()];
            let read = Claims::verify(
                token.as_bytes(),
                &issuers,
                ORCH.label_domain,
                others.verifying(),
                &claims.audiences,
                1500,
            );
            assert_eq!(read.unwrap(), claims, "{name}");
        }
    }
}

#[test]
fn public_keys_and_certificates_verify_and_do_not_sign() {
    let folder = Folder::new();
    let pair = KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::default().self_signed(&pair).unwrap();
    let private = folder.file("private", &pair.serialize_pem());
    let own = KeyFiles { signing: Some(private), verifying: Vec::new() }.load().unwrap();
    let several = format!("{}{}", pair.public_key_pem(), certificate.pem());
    let file = folder.file("several", &several);
    let keys = KeyFiles { signing: None, verifying: vec![file.clone()] }.load().unwrap();
    assert_eq!(keys.verifying(), own.verifying(), "one key, named twice");
    let refused = KeyFiles { signing: Some(file), verifying: Vec::new() }.load().unwrap_err().to_string();
    assert!(refused.contains("holds no private key"), "{refused}");
}

#[test]
fn unusable_files_are_refused_without_showing_them() {
    let folder = Folder::new();
    let cut = RSA.replace("MII", "MIJ");
    for (name, text, expected) in [
        ("empty", "", "holds no key"),
        ("text", "secret", "holds no key"),
        ("other", "-----BEGIN OTHER-----\nc2VjcmV0\n-----END OTHER-----\n", "holds no key"),
        ("cut", &cut, "a RSA PRIVATE KEY is damaged"),
        (
            "noise",
            "-----BEGIN PUBLIC KEY-----\nc2VjcmV0\n-----END PUBLIC KEY-----\n",
            "a PUBLIC KEY is damaged",
        ),
    ] {
        let verifying = vec![folder.file(name, text)];
        let error = KeyFiles { signing: None, verifying }.load().unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
        assert!(!error.contains("secret") && !error.contains("c2Vj"), "{error}");
    }
    let missing = KeyFiles { signing: Some(folder.0.path().join("none")), verifying: Vec::new() };
    assert!(matches!(missing.load(), Err(KeyFileError::Unreadable { .. })));
}

#[test]
fn a_private_key_is_not_shown() {
    let folder = Folder::new();
    let keys = KeyFiles { signing: Some(folder.file("rsa", RSA)), verifying: Vec::new() }.load().unwrap();
    let shown = format!("{:?}", keys.signer().unwrap());
    assert!(shown.starts_with("PrivateKey { public: VerifyingKey {") && shown.ends_with(".. }"), "{shown}");
}
