//! The data keys of a KMS plugin, in memory.
//!
//! A data key is random, made here, and sealed by the plugin. Its sealed form goes to the disk with the first record that
//! needs it, and is opened by the plugin at the next start. One of them is current: new records get it.
//!
//! Invariant: a data key that was handed out as current stays usable until the process ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use orch_proto::kms::stored::SealedKey;
use orch_proto::kms::v2::{DecryptRequest, EncryptResponse};
use orch_raft::disk::cipher::KeyName;
use parking_lot::RwLock;
use prost::Message;

use crate::encryption::cipher::{Algorithm, Cipher, random};

/// First part of the names of data keys.
pub(in crate::encryption) const PREFIX: &str = "kms";
/// Most data keys of one plugin in memory, stored ones not counted. One is added when the plugin's key changes; a plugin
/// that names a new key at each look would fill the memory otherwise.
const ADDED_MAX: usize = 256;
/// Bytes of a data key.
const SECRET_BYTES: usize = 32;
/// Bytes of the random part of a data key's name.
const ID_BYTES: usize = 8;

/// The name of the plugin in the name of a data key; `None` for other keys.
pub(in crate::encryption) fn plugin_of(key: &str) -> Option<&str> {
    let (prefix, rest) = key.split_once(':')?;
    let (plugin, _) = rest.split_once(':')?;
    (prefix == PREFIX).then_some(plugin)
}

/// A data key that the plugin has not sealed yet.
pub(super) struct FreshKey {
    name: KeyName,
    secret: [u8; SECRET_BYTES],
}

impl FreshKey {
    /// `None` if the system gives no random numbers.
    pub(super) fn make(plugin: &str) -> Option<FreshKey> {
        let id = u64::from_be_bytes(random::<ID_BYTES>()?);
        let name = KeyName::new(&format!("{PREFIX}:{plugin}:{id:016x}"))?;
        Some(FreshKey { name, secret: random()? })
    }

    pub(super) fn secret(&self) -> &[u8] {
        &self.secret
    }
}

struct DataKey {
    name: KeyName,
    key_id: String,
    cipher: Arc<Cipher>,
    sealed: Bytes,
}

/// All data keys of a plugin.
#[derive(Default)]
pub(super) struct DataKeys {
    by_name: RwLock<BTreeMap<String, Arc<DataKey>>>,
    current: ArcSwapOption<DataKey>,
    changes: AtomicU64,
}

impl DataKeys {
    /// Name of the key for new records; `None` before the plugin has sealed one.
    pub(super) fn current(&self) -> Option<KeyName> {
        self.current.load().as_ref().map(|key| key.name.clone())
    }

    /// The id of the plugin's key that sealed the current data key.
    pub(super) fn current_id(&self) -> Option<String> {
        self.current.load().as_ref().map(|key| key.key_id.clone())
    }

    /// How often another key became current. Counted after the change.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn make_current(&self, key: Arc<DataKey>) {
        self.current.store(Some(key));
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn cipher(&self, name: &str) -> Option<Arc<Cipher>> {
        self.by_name.read().get(name).map(|key| Arc::clone(&key.cipher))
    }

    /// The form of a key for the disk; empty if there is no such key.
    pub(super) fn sealed(&self, name: &str) -> Bytes {
        self.by_name.read().get(name).map(|key| key.sealed.clone()).unwrap_or_default()
    }

    /// Makes a key current that was sealed under `key_id`. `false` if there is none.
    pub(super) fn select(&self, key_id: &str) -> bool {
        let found = self.by_name.read().values().find(|key| key.key_id == key_id).cloned();
        found.map(|key| self.make_current(key)).is_some()
    }

    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.by_name.read().len()
    }

    /// Whether no further key may be added.
    pub(super) fn is_full(&self, opened: usize) -> bool {
        self.len() >= opened.saturating_add(ADDED_MAX)
    }

    /// Adds a key that the plugin has sealed, and makes it current.
    pub(super) fn add(&self, fresh: &FreshKey, answer: EncryptResponse) -> Result<(), String> {
        let cipher = Cipher::new(Algorithm::XChaCha, &fresh.secret).ok_or("the data key is unusable")?;
        let mut check = Vec::new();
        cipher.seal(fresh.name.as_str().as_bytes(), &[], &mut check).map_err(|error| error.to_string())?;
        let EncryptResponse { ciphertext, key_id, annotations } = answer;
        let sealed = SealedKey { key_id: key_id.clone(), ciphertext, annotations, check }.encode_to_vec();
        let name = fresh.name.clone();
        let key = Arc::new(DataKey { name, key_id, cipher: Arc::new(cipher), sealed: sealed.into() });
        self.by_name.write().insert(key.name.to_string(), Arc::clone(&key));
        self.make_current(key);
        Ok(())
    }

    /// Adds a stored key, which the plugin opened to `secret`.
    pub(super) fn add_opened(&self, name: &KeyName, sealed: &Bytes, secret: &[u8]) -> Result<(), String> {
        let stored = decode(sealed)?;
        let cipher = Cipher::new(Algorithm::XChaCha, secret)
            .ok_or_else(|| format!("it opened the key to {} bytes, not {SECRET_BYTES}", secret.len()))?;
        if cipher.open(name.as_str().as_bytes(), &stored.check).is_none() {
            return Err("it opened the key to another one".to_owned());
        }
        let (cipher, sealed) = (Arc::new(cipher), sealed.clone());
        let key = DataKey { name: name.clone(), key_id: stored.key_id, cipher, sealed };
        self.by_name.write().insert(name.to_string(), Arc::new(key));
        Ok(())
    }
}

/// The call that opens a stored key.
pub(super) fn opening(sealed: &Bytes) -> Result<DecryptRequest, String> {
    let SealedKey { key_id, ciphertext, annotations, .. } = decode(sealed)?;
    Ok(DecryptRequest { ciphertext, uid: String::new(), key_id, annotations })
}

fn decode(sealed: &Bytes) -> Result<SealedKey, String> {
    SealedKey::decode(sealed.as_ref()).map_err(|error| format!("its stored form is damaged: {error}"))
}
