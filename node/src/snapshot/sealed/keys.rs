//! Public and private keys as text, in Bech32.
//!
//! Owns the one way from text to a key. A private key is never printed, but for the one command that makes it.

use std::fmt;

use bech32::primitives::decode::CheckedHrpstring;
use bech32::{Bech32, Hrp};
use rand::TryRngCore;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use super::SealedError;

/// The part of a public key before its data.
const PUBLIC: Hrp = Hrp::parse_unchecked("age");

/// The part of a private key before its data. It is written in upper case.
const PRIVATE: Hrp = Hrp::parse_unchecked("age-secret-key-");

/// A public key that files are encrypted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recipient(pub(super) PublicKey);

impl Recipient {
    /// Parses `age1...`.
    pub(crate) fn parse(text: &str) -> Result<Recipient, SealedError> {
        let key = data(text.trim(), PUBLIC).ok_or(SealedError::NotARecipient)?;
        Ok(Recipient(PublicKey::from(*key)))
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = bech32::encode::<Bech32>(PUBLIC, self.0.as_bytes()).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

/// A private key.
pub(in crate::snapshot) struct Identity(pub(super) StaticSecret);

impl Identity {
    /// Makes a private key.
    pub(in crate::snapshot) fn generate() -> Result<Identity, SealedError> {
        Ok(Identity(StaticSecret::from(*random_bytes::<32>()?)))
    }

    /// Its public key.
    pub(in crate::snapshot) fn recipient(&self) -> Recipient {
        Recipient(PublicKey::from(&self.0))
    }

    /// The text of the key, which opens every file that is encrypted to it.
    pub(in crate::snapshot) fn secret_text(&self) -> Zeroizing<String> {
        let secret = Zeroizing::new(self.0.to_bytes());
        let text = bech32::encode_upper::<Bech32>(PRIVATE, &*secret);
        Zeroizing::new(text.expect("a key of 32 bytes is within Bech32's length"))
    }
}

/// The private keys in the text of a file: one a line, with empty lines and comments (`#`) between them.
pub(in crate::snapshot) fn identities(text: &str) -> Result<Vec<Identity>, SealedError> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let key = data(line, PRIVATE).ok_or(SealedError::NotAnIdentity { line: number + 1 })?;
        found.push(Identity(StaticSecret::from(*key)));
    }
    if found.is_empty() { Err(SealedError::NoIdentity) } else { Ok(found) }
}

/// The 32 bytes of a key in Bech32 behind `hrp`.
fn data(text: &str, hrp: Hrp) -> Option<Zeroizing<[u8; 32]>> {
    let checked = CheckedHrpstring::new::<Bech32>(text).ok()?;
    let mut key = Zeroizing::new([0; 32]);
    let mut bytes = checked.byte_iter();
    if checked.hrp() != hrp || bytes.len() != key.len() {
        return None;
    }
    key.iter_mut().zip(&mut bytes).for_each(|(to, from)| *to = from);
    Some(key)
}

/// Random bytes of the system.
pub(super) fn random_bytes<const N: usize>() -> Result<Zeroizing<[u8; N]>, SealedError> {
    let mut bytes = Zeroizing::new([0; N]);
    rand::rngs::OsRng.try_fill_bytes(&mut *bytes).map_err(|_| SealedError::NoRandomness)?;
    Ok(bytes)
}
