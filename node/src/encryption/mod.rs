//! Encryption of records at rest.
//!
//! Owns the keys of `--encryption-provider-config` and what they do to a record; the store decides which records there
//! are. Keys stay in memory: nothing here logs or shows them.
//!
//!     Keyring                  the keys in use; a reload replaces them
//!       Keys                   those of one configuration file
//!         Cipher               a key of the file
//!         Plugin -> DataKeys   a KMS plugin, and the keys that it has sealed

mod cipher;
mod config;
mod keyring;
mod kms;
mod rewrite;
mod rewriter;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use orch_raft::disk::cipher::{CipherError, KeyName, RecordCipher};

use self::cipher::Cipher;
pub use self::config::ConfigError;
use self::config::{Config, Provider};
pub use self::keyring::{Keyring, Reload};
use self::kms::{Failure, PREFIX, Pace, Plugin, plugin_of};
pub use self::rewrite::{RewriteError, rewrite};
pub use self::rewriter::{Rewriter, View};

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
    /// The system starts no thread for a KMS plugin.
    #[error("cannot start a thread for a KMS plugin")]
    Thread(#[source] std::io::Error),
    /// A plugin whose keys are to encrypt new records cannot be used.
    #[error("{0}")]
    Plugin(String),
    /// The process keeps the configurations of its reloads.
    #[error("the encryption configuration was reloaded too often; restart the node to take it up")]
    TooManyReloads,
    /// A reloaded configuration has another secret under the name of a key in use.
    #[error("key {0} is in use with another secret; give the new key a name of its own")]
    OtherSecret(String),
    /// A reloaded configuration lacks a key.
    #[error(
        "stored records need key {0}, which the configuration lacks (`orch encryption rewrite` replaces it)"
    )]
    StillNeeded(String),
}

/// The keys of one configuration.
struct Keys {
    config: Config,
    names: Vec<KeyName>,
    ciphers: Vec<Arc<Cipher>>,
    plugins: Vec<Arc<Plugin>>,
    pace: Pace,
}

impl Keys {
    /// Starts the plugins of `config`; those that `before` has are kept.
    fn new(config: Config, before: Option<&Keys>, pace: Pace) -> Result<Keys, EncryptionError> {
        // The parser has checked names and lengths.
        let names = config.keys.iter().filter_map(|key| KeyName::new(&key.name)).collect();
        let ciphers = config.keys.iter().filter_map(|key| Cipher::new(key.algorithm, &key.secret));
        let ciphers = ciphers.map(Arc::new).collect();
        let mut plugins = Vec::with_capacity(config.plugins.len());
        for plugin in &config.plugins {
            let known = before.and_then(|before| before.plugin(&plugin.name));
            plugins.push(match known {
                Some(known) if known.config() == plugin => Arc::clone(known),
                // One that has moved has to open the data keys itself: it may be another service.
                _ => Arc::new(Plugin::start(plugin.clone(), pace).map_err(EncryptionError::Thread)?),
            });
        }
        Ok(Keys { config, names, ciphers, plugins, pace })
    }

    /// The providers of a resource; `None` where the configuration does not name it.
    fn providers(&self, resource: &str) -> Option<&[Provider]> {
        // few: the entries of a file.
        let entry = self.config.entries.iter().find(|entry| entry.covers(resource))?;
        Some(&entry.providers)
    }

    fn plugin(&self, name: &str) -> Option<&Arc<Plugin>> {
        // few: the plugins of a file.
        self.plugins.iter().find(|plugin| plugin.config().name == name)
    }

    /// The plugin that seals the data key `key`; `None` for other keys, and where it is not in the configuration.
    fn plugin_of(&self, key: &str) -> Option<&Arc<Plugin>> {
        plugin_of(key).and_then(|plugin| self.plugin(plugin))
    }

    /// The place of a key of the file in [`Config::keys`].
    fn place(&self, key: &str) -> Option<usize> {
        // few: the keys of a file.
        self.config.keys.iter().position(|own| own.name == key)
    }

    /// The secret of a key of the file.
    fn secret(&self, key: &str) -> Option<&[u8]> {
        Some(&self.config.keys.get(self.place(key)?)?.secret)
    }

    /// Checks that a key of the file is the one that made `check`, see [`RecordCipher::sealed`].
    fn require_same_key(&self, name: &KeyName, check: &[u8]) -> Result<(), CipherError> {
        match self.cipher(name.as_str()) {
            // Records of earlier versions have no check.
            Some(cipher) if !check.is_empty() && cipher.open(name.as_str().as_bytes(), check).is_none() => {
                Err(unusable(name, &"it has another secret than the key that encrypted stored records"))
            }
            // The disk refuses a key that is missing.
            _ => Ok(()),
        }
    }

    /// Ends the threads of the plugins that `others` does not use.
    fn retire_plugins_except(&self, others: &Keys) {
        for plugin in &self.plugins {
            let kept = others.plugin(&plugin.config().name);
            if !kept.is_some_and(|kept| Arc::ptr_eq(kept, plugin)) {
                plugin.retire();
            }
        }
    }

    fn cipher(&self, key: &str) -> Option<Arc<Cipher>> {
        if let Some(plugin) = plugin_of(key) {
            return self.plugin(plugin)?.cipher(key);
        }
        self.ciphers.get(self.place(key)?).cloned()
    }

    /// Gets a data key of each plugin that encrypts new records, and looks at the others.
    fn look_at_plugins(&self, deadline: Instant) -> Result<(), (KeyName, Failure)> {
        for (at, plugin) in self.plugins.iter().enumerate() {
            match self.config.writes(at) {
                true => plugin.look(deadline).map_err(|failure| (key_to_come(plugin), failure))?,
                // Its stored keys are open: it is needed for nothing until the next start. The health tells.
                false => drop(plugin.look(Instant::now())),
            }
        }
        Ok(())
    }
}

/// A name for the data keys of a plugin that has sealed none. No cipher has it: a record that asks for it is refused and never
/// written in clear.
fn key_to_come(plugin: &Plugin) -> KeyName {
    let name = format!("{PREFIX}:{}:none", plugin.config().name);
    KeyName::new(&name).expect("a plugin's name has at most 128 bytes")
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (names, plugins) = (&self.names, &self.plugins);
        f.debug_struct("Keys").field("names", names).field("plugins", plugins).finish_non_exhaustive()
    }
}

/// Whether records may be read in clear by these providers.
fn allow_plain(providers: &[Provider]) -> bool {
    // few: the providers of an entry.
    providers.iter().any(|provider| matches!(provider, Provider::Identity))
}

fn unusable(key: &KeyName, reason: &impl ToString) -> CipherError {
    CipherError::Unusable { key: key.to_string(), reason: reason.to_string() }
}

impl RecordCipher for Keys {
    fn writing_key(&self, resources: &[&str]) -> Option<KeyName> {
        let first = |resource: &&str| match self.providers(resource)?.first()? {
            Provider::Keys(places) => self.names.get(*places.first()?).cloned(),
            Provider::Kms(place) => {
                let plugin = self.plugins.get(*place)?;
                Some(plugin.current().unwrap_or_else(|| key_to_come(plugin)))
            }
            Provider::Identity => None,
        };
        resources.iter().find_map(first)
    }

    fn revision(&self) -> u64 {
        self.plugins.iter().map(|plugin| plugin.changes()).sum()
    }

    fn reads_plain(&self, resources: &[&str]) -> bool {
        resources.iter().all(|resource| self.providers(resource).is_none_or(allow_plain))
    }

    fn forbids_plain(&self) -> bool {
        // few: the entries of a file.
        !self.config.entries.iter().all(|entry| allow_plain(&entry.providers))
    }

    fn holds(&self, key: &str) -> bool {
        self.cipher(key).is_some()
    }

    fn unlock(&self, stored: &[(KeyName, Bytes)]) -> Result<(), CipherError> {
        let deadline = Instant::now() + self.pace.start;
        for (name, sealed) in stored {
            match self.plugin_of(name.as_str()) {
                Some(plugin) => {
                    plugin.open(name, sealed, deadline).map_err(|failure| unusable(name, &failure))?;
                }
                None => self.require_same_key(name, sealed)?,
            }
        }
        self.look_at_plugins(deadline).map_err(|(key, failure)| unusable(&key, &failure))
    }

    fn sealed(&self, key: &KeyName) -> Bytes {
        if let Some(plugin) = self.plugin_of(key.as_str()) {
            return plugin.sealed(key.as_str());
        }
        let mut check = Vec::new();
        let made = self.cipher(key.as_str()).is_some_and(|cipher| {
            // No record is encrypted with a name alone as its associated bytes.
            cipher.seal(key.as_str().as_bytes(), &[], &mut check).is_ok()
        });
        if made { check.into() } else { Bytes::new() }
    }

    fn encrypt(
        &self,
        key: &KeyName,
        associated: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CipherError> {
        let cipher = self.cipher(key.as_str()).ok_or_else(|| CipherError::Missing(key.to_string()))?;
        cipher.seal(associated, plain, out).map_err(|error| unusable(key, &error))
    }

    fn decrypt(&self, key: &str, associated: &[u8], sealed: &[u8]) -> Result<Bytes, CipherError> {
        let cipher = self.cipher(key).ok_or_else(|| CipherError::Missing(key.to_owned()))?;
        cipher.open(associated, sealed).ok_or_else(|| CipherError::Forged(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn keys(providers: &str) -> Keys {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n\
             resources:\n- resources: [secrets]\n  providers: [{providers}]\n"
        );
        Keys::new(Config::parse(&text).unwrap(), None, Pace::default()).unwrap()
    }

    fn provider(kind: &str, name: &str, fill: u8) -> String {
        format!("{{{kind}: {{keys: [{{name: {name}, secret: {}}}]}}}}", STANDARD.encode([fill; 32]))
    }

    #[test]
    fn an_encrypted_record_opens_in_its_place_alone() {
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
