//! The keys in use, and their reload.
//!
//! Owns the switch from one configuration to the next: new records get the keys of the newest one. Earlier ones go on being
//! used for reading until the process ends, since a record may be under way that was to get one of their keys, and records in
//! clear may be there that only an earlier one allows: an error at a read would end the member. The next start knows the
//! newest one only.
//!
//! Invariant: a configuration that lacks a key of stored records does not come into use.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use bytes::Bytes;
use orch_proto::Brand;
use orch_raft::disk::cipher::{CipherError, KeyName, RecordCipher};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::config::{Config, FILE_BYTES_MAX};
use super::kms::Pace;
use super::{EncryptionError, Keys};

/// Most reloads of one process: each keeps its configuration. People make them.
const RELOADS_MAX: usize = 256;

/// The keys of a node.
pub struct Keyring {
    path: PathBuf,
    brand: &'static Brand,
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
    /// Loads the keys in the file at `path`, for a cluster of `brand`. KMS plugins are asked when a disk is opened.
    ///
    /// # Errors
    /// The file cannot be read, or a field of it is wrong.
    pub fn load(path: &Path, brand: &'static Brand) -> Result<Keyring, EncryptionError> {
        Keyring::load_with(path, brand, Pace::default())
    }

    pub(super) fn load_with(
        path: &Path,
        brand: &'static Brand,
        pace: Pace,
    ) -> Result<Keyring, EncryptionError> {
        let text = read(path)?;
        let now = Arc::new(Keys::new(Config::parse(&text, brand)?, None, pace)?);
        let keys = ArcSwap::from_pointee(InUse { now, before: Vec::new() });
        let digest = Mutex::new(digest(&text));
        Ok(Keyring { path: path.to_owned(), brand, digest, keys })
    }

    /// Takes up the file if it has changed. `needed` gives the names of the keys that stored records need. Asks the plugins
    /// of the new configuration, and waits for their answers.
    ///
    /// # Errors
    /// The file is wrong, lacks a needed key, or names a plugin that fails: the keys in use stay.
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
        let keys = Keys::new(Config::parse(&text, self.brand)?, Some(&old.now), old.now.pace)?;
        let keys = Arc::new(keys);
        let looked = keys.look_at_plugins(Instant::now());
        looked.map_err(|(_, failure)| EncryptionError::Plugin(failure.to_string()))?;
        let lacking = || needed().into_iter().find(|key| !keys.holds(key));
        if let Some(key) = lacking() {
            return Err(EncryptionError::StillNeeded(key));
        }
        self.keys.store(Arc::new(old.followed_by(&keys)));
        // A record may have got its key between the look and the switch, and be the first of that key.
        if let Some(key) = lacking() {
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
    if std::fs::metadata(path)?.len() > FILE_BYTES_MAX {
        return Err(EncryptionError::TooLarge);
    }
    Ok(std::fs::read_to_string(path)?)
}

impl RecordCipher for Keyring {
    fn writing_key(&self, resources: &[&str]) -> Option<KeyName> {
        self.keys.load().now.writing_key(resources)
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

    /// The newest configuration with `key`, or else the newest.
    fn holder(&self, key: &str) -> &Keys {
        if self.now.holds(key) {
            return &self.now;
        }
        // few: the reloads of a process.
        self.before.iter().find(|keys| keys.holds(key)).unwrap_or(&self.now)
    }
}
