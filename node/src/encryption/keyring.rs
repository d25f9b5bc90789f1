//! The keys in use, and their reload.
//!
//! Owns the switch from one configuration to the next: new records get the keys of the newest one. Earlier ones go on being
//! used for reading until the process ends, since a record may be under way that was to get one of their keys, and records in
//! clear may be there that only an earlier one allows: an error at a read would end the member. The next start knows the
//! newest one only.
//!
//! Invariant: a configuration that lacks a key of stored records does not come into use.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use bytes::Bytes;
use orch_raft::disk::cipher::{CipherError, KeyName, RecordCipher};
use orch_serving::files;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::config::{Config, FILE_BYTES_MAX};
use super::kms::Pace;
use super::{EncryptionError, Keys, unusable};

/// Most reloads of one process: each keeps its configuration. People make them.
const RELOADS_MAX: usize = 256;

/// The keys of a node.
pub struct Keyring {
    path: PathBuf,
    // Of the file that is in use.
    digest: Mutex<Digest>,
    keys: ArcSwap<InUse>,
}

type Digest = [u8; 32];

/// Configurations; the newest writes.
struct InUse {
    now: Arc<Keys>,
    // The newest first.
    before: Vec<Arc<Keys>>,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("path", &self.path).field("keys", &self.keys.load().now).finish()
    }
}

impl Keyring {
    /// Loads the keys in the file at `path`. KMS plugins are asked when a disk is opened.
    ///
    /// # Errors
    /// The file cannot be read, or a field of it is wrong.
    pub fn load(path: &Path) -> Result<Keyring, EncryptionError> {
        Keyring::load_with(path, Pace::default())
    }

    pub(super) fn load_with(path: &Path, pace: Pace) -> Result<Keyring, EncryptionError> {
        let text = read(path)?;
        let now = Arc::new(Keys::new(Config::parse(&text)?, None, pace)?);
        let keys = ArcSwap::from_pointee(InUse { now, before: Vec::new() });
        let digest = Mutex::new(digest(&text));
        Ok(Keyring { path: path.to_owned(), digest, keys })
    }

    /// Takes up the file if it has changed. `needed` gives the names of the keys that stored records need. Asks the plugins
    /// of the new configuration, and waits for their answers.
    ///
    /// # Errors
    /// The file is wrong, lacks a needed key, has another secret under the name of a key in use, or names a plugin that
    /// fails: the keys in use stay.
    pub fn reload(&self, needed: impl Fn() -> Vec<String>) -> Result<Reload, EncryptionError> {
        let mut in_use_digest = self.digest.lock();
        let text = read(&self.path)?;
        let found = digest(&text);
        if found == *in_use_digest {
            return Ok(Reload::Unchanged);
        }
        let old = self.keys.load_full();
        if old.before.len() == RELOADS_MAX {
            return Err(EncryptionError::TooManyReloads);
        }
        let keys = Keys::new(Config::parse(&text)?, Some(&old.now), old.now.pace)?;
        let keys = Arc::new(keys);
        let stored = needed();
        old.require_same_secrets(&keys, &stored)?;
        old.open_data_keys(&keys, &stored)?;
        let looked = keys.look_at_plugins(Instant::now());
        looked.map_err(|(_, failure)| EncryptionError::Plugin(failure.to_string()))?;
        let lacking = || needed().into_iter().find(|key| !keys.holds(key));
        if let Some(key) = lacking() {
            return Err(EncryptionError::StillNeeded(key));
        }
        self.keys.store(Arc::new(old.followed_by(&keys)));
        // A record may have got its key between the look and the switch, and be the first of that key.
        if let Some(key) = lacking() {
            keys.retire_plugins_except(&old.now);
            self.keys.store(Arc::new(InUse { now: keys, before: old.before.clone() }.followed_by(&old.now)));
            return Err(EncryptionError::StillNeeded(key));
        }
        old.now.retire_plugins_except(&keys);
        *in_use_digest = found;
        Ok(Reload::Taken)
    }

    /// Whether every KMS plugin was healthy when it was last looked at.
    pub fn plugins_are_healthy(&self) -> bool {
        // few: the plugins of a file.
        self.keys.load().now.plugins.iter().all(|plugin| plugin.is_healthy())
    }

    /// Whether the configuration names a KMS plugin.
    pub fn has_plugins(&self) -> bool {
        !self.keys.load().now.plugins.is_empty()
    }
}

/// The result of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// The file is the one in use.
    Unchanged,
    /// The keys of the file are in use.
    Taken,
}

fn digest(text: &str) -> Digest {
    Sha256::digest(text).into()
}

fn read(path: &Path) -> Result<String, EncryptionError> {
    match files::read_text(path, FILE_BYTES_MAX) {
        Err(error) if error.kind() == ErrorKind::FileTooLarge => Err(EncryptionError::TooLarge),
        read => Ok(read?),
    }
}

impl RecordCipher for Keyring {
    fn writing_key(&self, resources: &[&str]) -> Option<KeyName> {
        self.keys.load().now.writing_key(resources)
    }

    /// The number of the configuration in the high half, and the changes of its plugins' data keys in the low one.
    fn revision(&self) -> u64 {
        let in_use = self.keys.load();
        ((in_use.before.len() as u64) << u32::BITS) + in_use.now.revision()
    }

    fn forbids_plain(&self) -> bool {
        self.keys.load().now.forbids_plain()
    }

    fn reads_plain(&self, resources: &[&str]) -> bool {
        let in_use = self.keys.load();
        // few: the reloads of a process.
        in_use.now.reads_plain(resources) || in_use.before.iter().any(|keys| keys.reads_plain(resources))
    }

    fn holds(&self, key: &str) -> bool {
        self.keys.load().now.holds(key)
    }

    fn unlock(&self, stored: &[(KeyName, Bytes)]) -> Result<(), CipherError> {
        self.keys.load_full().now.unlock(stored)
    }

    fn sealed(&self, key: &KeyName) -> Bytes {
        self.keys.load().holder(key.as_str()).sealed(key)
    }

    fn encrypt(
        &self,
        key: &KeyName,
        associated: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CipherError> {
        self.keys.load().holder(key.as_str()).encrypt(key, associated, plain, out)
    }

    fn decrypt(&self, key: &str, associated: &[u8], sealed: &[u8]) -> Result<Bytes, CipherError> {
        self.keys.load().holder(key).decrypt(key, associated, sealed)
    }
}

impl InUse {
    fn followed_by(&self, keys: &Arc<Keys>) -> InUse {
        let before = std::iter::once(&self.now).chain(&self.before).cloned().collect();
        InUse { now: Arc::clone(keys), before }
    }

    /// Refuses another secret under the name of a key that the newest configuration has, or a name in `stored`: records of the
    /// two could not be told apart.
    fn require_same_secrets(&self, keys: &Keys, stored: &[String]) -> Result<(), EncryptionError> {
        for key in &keys.config.keys {
            let name = key.name.as_str();
            // few: the keys that stored records need.
            let is_used = self.now.holds(name) || stored.iter().any(|stored| stored == name);
            let known = self.holder(name).secret(name).filter(|_| is_used);
            if known.is_some_and(|known| known != key.secret.as_slice()) {
                return Err(EncryptionError::OtherSecret(key.name.clone()));
            }
        }
        Ok(())
    }

    /// Lets the plugins that were started for `keys` open the data keys in `stored`.
    fn open_data_keys(&self, keys: &Keys, stored: &[String]) -> Result<(), EncryptionError> {
        for name in stored.iter().filter(|name| !keys.holds(name)).filter_map(|name| KeyName::new(name)) {
            let sealed = self.holder(name.as_str()).sealed(&name);
            if let Some(plugin) = keys.plugin_of(name.as_str()) {
                let opened = plugin.open(&name, &sealed, Instant::now());
                opened.map_err(|failure| EncryptionError::Plugin(unusable(&name, &failure).to_string()))?;
            }
        }
        Ok(())
    }

    /// The newest configuration with `key`, or else the newest.
    fn holder(&self, key: &str) -> &Keys {
        if self.now.holds(key) {
            return &self.now;
        }
        // few: the reloads of a process.
        self.before.iter().find(|keys| keys.holds(key)).unwrap_or(&self.now)
    }
}
