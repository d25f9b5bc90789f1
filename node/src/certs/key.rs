//! Private keys of authorities from PEM files, in the forms that other tools write: PKCS#8, PKCS#1 and SEC1.
//!
//! Owns the wrapping of the latter two in PKCS#8, which is the only form that the certificate library reads. Invariant: no
//! error shows a part of a key.

use std::path::Path;

use rcgen::KeyPair;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use yasna::models::ObjectIdentifier;

use super::authority::CertsError;

/// Object identifiers of RSA keys, of elliptic curve keys, and of the curves P-256 and P-384.
const RSA: [u64; 7] = [1, 2, 840, 113_549, 1, 1, 1];
const ELLIPTIC: [u64; 6] = [1, 2, 840, 10_045, 2, 1];
const P256: [u64; 7] = [1, 2, 840, 10_045, 3, 1, 7];
const P384: [u64; 5] = [1, 3, 132, 0, 34];

/// The key pair whose private key `text`, read from `path`, holds.
pub(super) fn key_pair(path: &Path, text: &str) -> Result<KeyPair, CertsError> {
    // The parser's errors are left out: they may quote the file.
    let refused = |reason: &str| CertsError::Content {
        path: path.to_owned(),
        expected: "a private key",
        reason: reason.to_owned(),
    };
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes());
    let key = key.map_err(|_| refused("no key of a known kind in PEM form"))?;
    let forms = match &key {
        PrivateKeyDer::Pkcs8(key) => vec![key.secret_pkcs8_der().to_vec()],
        PrivateKeyDer::Pkcs1(key) => vec![wrapped(&RSA, None, key.secret_pkcs1_der())],
        // The key alone may not name its curve: the one that fits its length is taken.
        PrivateKeyDer::Sec1(key) => {
            [&P256[..], &P384].map(|curve| wrapped(&ELLIPTIC, Some(curve), key.secret_sec1_der())).to_vec()
        }
        _ => Vec::new(),
    };
    let pairs = forms.into_iter().find_map(|form| KeyPair::try_from(&PrivatePkcs8KeyDer::from(form)).ok());
    pairs.ok_or_else(|| {
        refused("a key that is damaged, or neither RSA of 2048 bits and more, nor P-256, nor P-384")
    })
}

/// `key` in PKCS#8 (RFC 5208), as one of `algorithm` with the parameter `curve`.
fn wrapped(algorithm: &[u64], curve: Option<&[u64]>, key: &[u8]) -> Vec<u8> {
    yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_u8(0);
            writer.next().write_sequence(|writer| {
                writer.next().write_oid(&ObjectIdentifier::from_slice(algorithm));
                match curve {
                    Some(curve) => writer.next().write_oid(&ObjectIdentifier::from_slice(curve)),
                    None => writer.next().write_null(),
                }
            });
            writer.next().write_bytes(key);
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_in_every_form_and_never_shown() {
        for (name, text) in [
            ("rsa.pem", include_str!("../token_keys/rsa.pem")),
            ("sec1.pem", include_str!("../token_keys/sec1.pem")),
            ("pkcs8.pem", &KeyPair::generate().unwrap().serialize_pem()),
        ] {
            assert!(key_pair(Path::new(name), text).is_ok(), "{name}");
            let damaged = text.replacen("MI", "XY", 1).replacen("MH", "XY", 1);
            let error = key_pair(Path::new(name), &damaged).unwrap_err().to_string();
            let shown = text.lines().nth(1).unwrap().get(..12).unwrap();
            assert!(error.starts_with(&format!("{name} is not a private key: ")), "{error}");
            assert!(!error.contains(shown), "{error}");
        }
        assert!(key_pair(Path::new("x"), "").unwrap_err().to_string().contains("no key of a known kind"));
    }
}
