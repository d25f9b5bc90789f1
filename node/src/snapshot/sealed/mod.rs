//! Encryption of a file to public keys: version 1 of the age format (age-encryption.org/v1), with X25519 keys.
//!
//! Owns the keys' text (`keys`), the header that wraps a file's key for each public key (`header`), and the payload in
//! authenticated chunks (`payload`). The format is another's, so that a snapshot can be opened and keys be made by its
//! own programs. The primitives are ring's, and X25519 of `x25519-dalek`, because ring loads no private key for it.
//!
//! Encryption proves nothing about the writer: each holder of the public key can make a file.
//!
//! Invariant: no byte of a chunk is given out before the chunk was authenticated, and the end of the file is an error unless
//! the last chunk says that it is the last.

mod header;
mod keys;
mod payload;
#[cfg(test)]
mod tests;

use std::io;

use ring::hkdf::{HKDF_SHA256, Salt};
use zeroize::Zeroizing;

pub(crate) use self::keys::Recipient;
pub(super) use self::keys::{Identity, identities};
pub(super) use self::payload::Opener;
pub(crate) use self::payload::Sealer;

/// The line that an encrypted file begins with.
pub(super) const FIRST_LINE: &[u8] = b"age-encryption.org/v1\n";

/// Bytes of the key of a file.
const FILE_KEY_BYTES: usize = 16;

/// The key of one file, from which those of its header and its payload are derived.
pub(super) type FileKey = Zeroizing<[u8; FILE_KEY_BYTES]>;

/// An encrypted file cannot be made or opened. It never holds a key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SealedError {
    #[error("it is not a public key: expected age1 and 58 more characters")]
    NotARecipient,
    #[error("line {line} is not a private key: expected AGE-SECRET-KEY-1 and 58 more characters")]
    NotAnIdentity { line: usize },
    #[error("it holds no private key")]
    NoIdentity,
    #[error("a public key is a point that every key agrees with; make another one")]
    WeakRecipient,
    #[error("the system gives no random numbers")]
    NoRandomness,
    #[error("the head of the encrypted file is damaged: {0}")]
    Header(&'static str),
    #[error("none of the private keys opens it; use the one for a public key that it was encrypted to")]
    WrongIdentity,
    #[error("cannot read or write the encrypted file")]
    Io(#[from] io::Error),
}

/// HKDF with SHA-256: a key of 32 bytes from `secret`.
fn derive(secret: &[u8], salt: &[u8], info: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    let pseudorandom = Salt::new(HKDF_SHA256, salt).extract(secret);
    let info = [info];
    let expanded = pseudorandom.expand(&info, HKDF_SHA256).and_then(|expanded| expanded.fill(&mut *key));
    expanded.expect("a key of 32 bytes is one block of SHA-256");
    key
}
