//! The header of an encrypted file: its key, wrapped for each public key, and an authentication of the whole.
//!
//!     age-encryption.org/v1
//!     -> X25519 SHARE
//!     WRAPPED KEY
//!     --- MAC
//!
//! Owns both directions. Stanzas of other kinds than X25519 are passed over, as the format asks for.

use std::io::{BufRead, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use super::keys::{Identity, Recipient, random_bytes};
use super::{FILE_KEY_BYTES, FIRST_LINE, FileKey, SealedError, derive};

/// HKDF's info of wrapping keys, as the format has it.
const WRAP: &[u8] = b"age-encryption.org/v1/X25519";

/// Bytes of a header: hundreds of recipients.
const HEADER_BYTES_MAX: u64 = 64 << 10;

/// Bytes of a wrapped key: the key and a tag.
const WRAPPED_BYTES: usize = FILE_KEY_BYTES + 16;

/// Characters of a full line of a stanza's body; a shorter line is its last.
const LINE_CHARACTERS: usize = 64;

/// The header that gives the key of a file to each of `recipients`.
pub(super) fn seal(key: &FileKey, recipients: &[Recipient]) -> Result<Vec<u8>, SealedError> {
    let mut header = FIRST_LINE.to_vec();
    for recipient in recipients {
        let ephemeral = StaticSecret::from(*random_bytes::<32>()?);
        let share = PublicKey::from(&ephemeral);
        let agreed = ephemeral.diffie_hellman(&recipient.0);
        if !agreed.was_contributory() {
            return Err(SealedError::WeakRecipient);
        }
        let wrapping = wrapping(agreed.as_bytes(), &share, &recipient.0);
        let mut wrapped = key.to_vec();
        let sealed = wrapping.seal_in_place_append_tag(zero_nonce(), Aad::empty(), &mut wrapped);
        sealed.expect("ChaCha20-Poly1305 takes sixteen bytes");
        let (share, wrapped) = (STANDARD_NO_PAD.encode(share), STANDARD_NO_PAD.encode(wrapped));
        header.extend_from_slice(format!("-> X25519 {share}\n{wrapped}\n").as_bytes());
    }
    header.extend_from_slice(b"---");
    let mac = STANDARD_NO_PAD.encode(hmac::sign(&mac_key(key), &header));
    header.extend_from_slice(format!(" {mac}\n").as_bytes());
    Ok(header)
}

/// Reads a header and returns the key of the file, which one of `identities` opens.
pub(super) fn open(source: &mut impl BufRead, identities: &[Identity]) -> Result<FileKey, SealedError> {
    let mut source = source.take(HEADER_BYTES_MAX);
    let mut header = Vec::new();
    if line(&mut source, &mut header)? != FIRST_LINE {
        return Err(SealedError::Header("its first line is another"));
    }
    let mut key = None;
    loop {
        let begin = line(&mut source, &mut header)?;
        let begin = String::from_utf8(begin).map_err(|_| SealedError::Header("it is not text"))?;
        let begin = begin.trim_end_matches('\n');
        if let Some(mac) = begin.strip_prefix("--- ") {
            let covered = header.len() - begin.len() - 1 + "---".len();
            let key: FileKey = key.ok_or(SealedError::WrongIdentity)?;
            let mac = decode(mac)?;
            return match hmac::verify(&mac_key(&key), &header[..covered], &mac) {
                Ok(()) => Ok(key),
                Err(_) => Err(SealedError::Header("its authentication fails")),
            };
        }
        let arguments = begin.strip_prefix("-> ").ok_or(SealedError::Header("a stanza has no beginning"))?;
        let mut body = String::new();
        loop {
            let next = line(&mut source, &mut header)?;
            let next = String::from_utf8(next).map_err(|_| SealedError::Header("it is not text"))?;
            let next = next.trim_end_matches('\n');
            body.push_str(next);
            if next.len() < LINE_CHARACTERS {
                break;
            }
        }
        if let (None, Some(share)) = (&key, arguments.strip_prefix("X25519 ")) {
            key = unwrap(share, &body, identities)?;
        }
    }
}

/// Reads a header that must be the one that was made for `key`.
pub(super) fn check(source: &mut impl BufRead, key: &FileKey) -> Result<(), SealedError> {
    let mut source = source.take(HEADER_BYTES_MAX);
    let mut header = Vec::new();
    loop {
        let next = line(&mut source, &mut header)?;
        if let Some(mac) = next.strip_prefix(b"--- ") {
            let covered = header.len() - next.len() + "---".len();
            let mac = str::from_utf8(mac).map_err(|_| SealedError::Header("it is not text"))?;
            let mac = decode(mac.trim_end_matches('\n'))?;
            let verified = hmac::verify(&mac_key(key), &header[..covered], &mac);
            return verified.map_err(|_| SealedError::Header("its authentication fails"));
        }
    }
}

/// The key of a stanza, if one of `identities` opens it.
fn unwrap(share: &str, body: &str, identities: &[Identity]) -> Result<Option<FileKey>, SealedError> {
    let share: [u8; 32] =
        decode(share)?.try_into().map_err(|_| SealedError::Header("a share is of another length"))?;
    let share = PublicKey::from(share);
    let wrapped = decode(body)?;
    // Before it is decrypted: a longer one could be made to open under two keys.
    if wrapped.len() != WRAPPED_BYTES {
        return Err(SealedError::Header("a wrapped key is of another length"));
    }
    for identity in identities {
        let agreed = identity.0.diffie_hellman(&share);
        if !agreed.was_contributory() {
            return Err(SealedError::Header("a share is a point that every key agrees with"));
        }
        let wrapping = wrapping(agreed.as_bytes(), &share, &identity.recipient().0);
        let mut opened = Zeroizing::new(wrapped.clone());
        if let Ok(found) = wrapping.open_in_place(zero_nonce(), Aad::empty(), &mut opened) {
            let mut key = Zeroizing::new([0; FILE_KEY_BYTES]);
            key.copy_from_slice(found);
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// The key that wraps the key of a file for `recipient`.
fn wrapping(agreed: &[u8; 32], share: &PublicKey, recipient: &PublicKey) -> LessSafeKey {
    let salt = [*share.as_bytes(), *recipient.as_bytes()].concat();
    chacha(&derive(agreed, &salt, WRAP))
}

/// A key of ChaCha20-Poly1305.
pub(super) fn chacha(key: &[u8; 32]) -> LessSafeKey {
    let key = UnboundKey::new(&CHACHA20_POLY1305, key);
    LessSafeKey::new(key.expect("ChaCha20-Poly1305 has keys of 32 bytes"))
}

/// A wrapping key is used once.
fn zero_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn mac_key(key: &FileKey) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &*derive(&**key, &[], b"header"))
}

fn decode(text: &str) -> Result<Vec<u8>, SealedError> {
    STANDARD_NO_PAD.decode(text).map_err(|_| SealedError::Header("a part of it is not base64"))
}

/// Reads a line with its end, and adds it to `header`.
fn line(source: &mut impl BufRead, header: &mut Vec<u8>) -> Result<Vec<u8>, SealedError> {
    let begin = header.len();
    source.read_until(b'\n', header)?;
    match header.last() {
        Some(b'\n') if header.len() > begin => Ok(header[begin..].to_vec()),
        _ => Err(SealedError::Header("it is cut short or too long")),
    }
}
