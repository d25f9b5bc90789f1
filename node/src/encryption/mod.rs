//! Encryption of records at rest.
//!
//! Owns the keys of `--encryption-provider-config` and what they do to a record; the store decides which records there
//! are. Keys stay in memory: nothing here logs or shows them.

mod config;
mod rewrite;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use orch_proto::Brand;
use orch_raft::disk::cipher::{CipherError, KeyName, RecordCipher};
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

pub use self::config::ConfigError;
use self::config::{Algorithm, Config, Key, Provider};
pub use self::rewrite::{RewriteError, rewrite};

const AES_NONCE_BYTES: usize = 12;
const XCHACHA_NONCE_BYTES: usize = 24;

/// Why the keys cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum EncryptionError {
    /// The file cannot be read.
    #[error("cannot read the encryption configuration")]
    File(#[from] std::io::Error),
    /// The file is larger than a configuration can be.
    #[error("the encryption configuration is larger than 1 MiB")]
    TooLarge,
    /// The file is no configuration.
    #[error("encryption configuration: {0}")]
    Config(#[from] ConfigError),
}

/// The keys of a node.
struct Keys {
    config: Config,
    names: Vec<KeyName>,
    ciphers: Vec<Cipher>,
    random: SystemRandom,
}

enum Cipher {
    Aes(Box<LessSafeKey>),
    XChaCha(Box<XChaCha20Poly1305>),
}

impl Cipher {
    fn new(key: &Key) -> Option<Cipher> {
        match key.algorithm {
            Algorithm::AesGcm => {
                let algorithm = if key.secret.len() == 16 { &AES_128_GCM } else { &AES_256_GCM };
                UnboundKey::new(algorithm, &key.secret)
                    .ok()
                    .map(|key| Cipher::Aes(Box::new(LessSafeKey::new(key))))
            }
            Algorithm::XChaCha => {
                let cipher = XChaCha20Poly1305::new_from_slice(&key.secret).ok()?;
                Some(Cipher::XChaCha(Box::new(cipher)))
            }
        }
    }
}

/// Loads the keys in the file at `path`, for a cluster of `brand`.
///
/// # Errors
/// The file cannot be read, or a field of it is wrong.
pub fn load(path: &Path, brand: &Brand) -> Result<Arc<dyn RecordCipher>, EncryptionError> {
    if std::fs::metadata(path)?.len() > config::FILE_BYTES_MAX {
        return Err(EncryptionError::TooLarge);
    }
    Ok(Arc::new(Keys::new(Config::parse(&std::fs::read_to_string(path)?, brand)?)))
}

impl Keys {
    fn new(config: Config) -> Keys {
        // The parser has checked names and lengths.
        let names = config.keys.iter().filter_map(|key| KeyName::new(&key.name)).collect();
        let ciphers = config.keys.iter().filter_map(Cipher::new).collect();
        Keys { config, names, ciphers, random: SystemRandom::new() }
    }

    /// The providers of a resource; `None` where the configuration does not name it.
    fn providers(&self, resource: &str) -> Option<&[Provider]> {
        // few: the entries of a file.
        let entry = self.config.entries.iter().find(|entry| entry.covers(resource))?;
        Some(&entry.providers)
    }

    fn cipher(&self, key: &str) -> Option<&Cipher> {
        // few: the keys of a file.
        let place = self.config.keys.iter().position(|own| own.name == key)?;
        self.ciphers.get(place)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("names", &self.names).finish_non_exhaustive()
    }
}

impl RecordCipher for Keys {
    fn writing_key(&self, resources: &[&str]) -> Option<KeyName> {
        let first = |resource: &&str| match self.providers(resource)?.first()? {
            Provider::Keys(places) => self.names.get(*places.first()?).cloned(),
            Provider::Identity => None,
        };
        resources.iter().find_map(first)
    }

    fn reads_plain(&self, resources: &[&str]) -> bool {
        resources.iter().all(|resource| {
            let providers = self.providers(resource);
            providers.is_none_or(|all| all.iter().any(|provider| matches!(provider, Provider::Identity)))
        })
    }

    fn holds(&self, key: &str) -> bool {
        self.cipher(key).is_some()
    }

    fn encrypt(
        &self,
        key: &KeyName,
        associated: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CipherError> {
        let unusable =
            |reason: &str| CipherError::Unusable { key: key.to_string(), reason: reason.to_owned() };
        let cipher = self.cipher(key.as_str()).ok_or_else(|| CipherError::Missing(key.to_string()))?;
        let no_randomness = || unusable("the system gives no random numbers");
        match cipher {
            Cipher::Aes(cipher) => {
                let mut nonce = [0; AES_NONCE_BYTES];
                self.random.fill(&mut nonce).map_err(|_| no_randomness())?;
                let start = out.len() + AES_NONCE_BYTES;
                out.reserve(AES_NONCE_BYTES + plain.len() + cipher.algorithm().tag_len());
                out.extend_from_slice(&nonce);
                out.extend_from_slice(plain);
                let nonce = Nonce::assume_unique_for_key(nonce);
                let tag = cipher.seal_in_place_separate_tag(nonce, Aad::from(associated), &mut out[start..]);
                out.extend_from_slice(tag.map_err(|_| unusable("the record is too large"))?.as_ref());
            }
            Cipher::XChaCha(cipher) => {
                let mut nonce = [0; XCHACHA_NONCE_BYTES];
                self.random.fill(&mut nonce).map_err(|_| no_randomness())?;
                let payload = Payload { msg: plain, aad: associated };
                let sealed = cipher.encrypt(XNonce::from_slice(&nonce), payload);
                out.extend_from_slice(&nonce);
                out.extend_from_slice(&sealed.map_err(|_| unusable("the record is too large"))?);
            }
        }
        Ok(())
    }

    fn decrypt(&self, key: &str, associated: &[u8], sealed: &[u8]) -> Result<Bytes, CipherError> {
        let cipher = self.cipher(key).ok_or_else(|| CipherError::Missing(key.to_owned()))?;
        let forged = || CipherError::Forged(key.to_owned());
        match cipher {
            Cipher::Aes(cipher) => {
                let (nonce, body) = sealed.split_first_chunk::<AES_NONCE_BYTES>().ok_or_else(forged)?;
                let mut body = body.to_vec();
                let nonce = Nonce::assume_unique_for_key(*nonce);
                let length = cipher.open_in_place(nonce, Aad::from(associated), &mut body);
                let length = length.map_err(|_| forged())?.len();
                body.truncate(length);
                Ok(body.into())
            }
            Cipher::XChaCha(cipher) => {
                let (nonce, body) = sealed.split_at_checked(XCHACHA_NONCE_BYTES).ok_or_else(forged)?;
                let payload = Payload { msg: body, aad: associated };
                let plain = cipher.decrypt(XNonce::from_slice(nonce), payload);
                plain.map(Bytes::from).map_err(|_| forged())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use orch_proto::brand::ORCH;

    use super::*;

    fn keys(providers: &str) -> Keys {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n\
             resources:\n- resources: [secrets]\n  providers: [{providers}]\n"
        );
        Keys::new(Config::parse(&text, &ORCH).unwrap())
    }

    fn provider(kind: &str, name: &str, fill: u8) -> String {
        format!("{{{kind}: {{keys: [{{name: {name}, secret: {}}}]}}}}", STANDARD.encode([fill; 32]))
    }

    #[test]
    fn what_was_encrypted_opens_in_its_place_alone() {
        for kind in ["aesgcm", "secretbox"] {
            let own = keys(&provider(kind, "a", 1));
            let key = own.writing_key(&["configmaps", "secrets"]).unwrap();
            let mut sealed = Vec::new();
            own.encrypt(&key, b"place", b"canary", &mut sealed).unwrap();
            assert!(!sealed.windows(6).any(|window| window == b"canary"));
            assert_eq!(own.decrypt(key.as_str(), b"place", &sealed).unwrap().as_ref(), b"canary");
            let forged = Err(CipherError::Forged(key.to_string()));
            assert_eq!(own.decrypt(key.as_str(), b"other", &sealed), forged);
            let other = keys(&provider(kind, "a", 2));
            assert_eq!(other.decrypt(key.as_str(), b"place", &sealed), forged, "another key of this name");
            for at in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                assert_eq!(own.decrypt(key.as_str(), b"place", &changed), forged, "byte {at}");
                assert_eq!(own.decrypt(key.as_str(), b"place", &sealed[..at]), forged, "cut at {at}");
            }
            let mut again = Vec::new();
            own.encrypt(&key, b"place", b"canary", &mut again).unwrap();
            assert_ne!(sealed, again, "each record has its own nonce");
        }
    }

    #[test]
    fn the_first_provider_writes_and_all_of_them_read() {
        let both = keys(&format!("{}, {}", provider("secretbox", "new", 1), provider("aesgcm", "old", 2)));
        assert_eq!(both.writing_key(&["secrets"]).unwrap().as_str(), "secretbox:new");
        assert!(both.holds("aesgcm:old") && !both.holds("aesgcm:new"));
        assert!(!both.reads_plain(&["secrets"]) && both.reads_plain(&["configmaps"]));
        assert_eq!(both.writing_key(&["configmaps"]), None);
        let plain = keys(&format!("{{identity: {{}}}}, {}", provider("aesgcm", "old", 2)));
        assert_eq!(plain.writing_key(&["secrets"]), None);
        assert!(plain.reads_plain(&["secrets"]));
        let shown = format!("{both:?}");
        assert!(shown.contains("secretbox:new") && !shown.contains("1, 1, 1"), "{shown}");
    }
}
