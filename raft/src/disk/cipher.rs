//! The interface between a disk and the keys with which it encrypts records.
//!
//! Owns the contract: which key writes a record, and what a key does to one. The keys, their configuration and the
//! algorithms are the node's. A disk without a cipher stores records as they are and pays nothing.
//!
//! Encryption ends at the disk: memory, peers and digests see plain records, so applying an entry stays deterministic, and
//! members may use different keys.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// Longest name of a key in bytes. It stands in every record that the key wrote, behind one byte of length.
pub const KEY_NAME_BYTES_MAX: usize = 255;

/// Names a key for as long as records need it. Holds no part of the key itself. Not secret: it is stored in clear.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(Arc<str>);

impl KeyName {
    /// A name; `None` if it is empty or longer than [`KEY_NAME_BYTES_MAX`].
    pub fn new(name: &str) -> Option<KeyName> {
        (1..=KEY_NAME_BYTES_MAX).contains(&name.len()).then(|| KeyName(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A record that was not encrypted or decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CipherError {
    /// The configuration lacks the key.
    #[error("key {0} is missing from the encryption configuration")]
    Missing(String),
    /// The record is not the one that the key wrote under this name.
    #[error("a record does not authenticate under key {0}: it was changed, or belongs to another place")]
    Forged(String),
    /// The key could not be used: no randomness, or its service does not answer.
    #[error("key {key} cannot be used: {reason}")]
    Unusable {
        /// The key's name.
        key: String,
        /// The error of the layer below.
        reason: String,
    },
}

/// Keys by resource. Called by the threads of the disk; an implementation may wait for a service, within its own deadline.
pub trait RecordCipher: Send + Sync + fmt::Debug + 'static {
    /// The key with which a record of objects of these resources (names in the store) is written; `None` stores it in
    /// clear. The answer may change while the disk is open.
    fn writing_key(&self, resources: &[&str]) -> Option<KeyName>;

    /// A number that changes after the answers of [`RecordCipher::writing_key`] have changed. Constant where they never do.
    fn revision(&self) -> u64 {
        0
    }

    /// Whether records of these resources may be read that were stored in clear.
    fn reads_plain(&self, resources: &[&str]) -> bool;

    /// Whether [`RecordCipher::reads_plain`] is false for some resource.
    fn forbids_plain(&self) -> bool {
        true
    }

    /// Whether records under `key` can be decrypted. Asked for each key that stored records need when a disk is opened.
    fn holds(&self, key: &str) -> bool;

    /// Opens data keys that a service keeps sealed, and checks the others: `stored` holds each key that stored records need,
    /// with what [`RecordCipher::sealed`] gave for it. Called once for each disk that is opened, before any other method;
    /// afterwards [`RecordCipher::writing_key`] names keys that can be used. May wait for a service, within a deadline.
    ///
    /// # Errors
    /// A key cannot be opened, a service does not answer, or a key is another one than that of the stored records.
    fn unlock(&self, stored: &[(KeyName, Bytes)]) -> Result<(), CipherError> {
        let _ = stored;
        Ok(())
    }

    /// The value that the disk keeps in clear beside the records of the key: the sealed form of a data key, or a value by which a key
    /// of the configuration is told from another one of its name. Shows no part of the key. May be empty.
    fn sealed(&self, key: &KeyName) -> Bytes {
        let _ = key;
        Bytes::new()
    }

    /// Encrypts `plain` with `key` and appends the result to `out`. `associated` is authenticated and not stored.
    fn encrypt(
        &self,
        key: &KeyName,
        associated: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CipherError>;

    /// Decrypts what [`RecordCipher::encrypt`] appended for the same key and `associated` bytes.
    fn decrypt(&self, key: &str, associated: &[u8], sealed: &[u8]) -> Result<Bytes, CipherError>;
}
