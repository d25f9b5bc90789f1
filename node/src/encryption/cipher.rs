//! Authenticated encryption of one record under one key.
//!
//! Owns the algorithms and their nonces, which are random and stand before what they encrypt. It knows no configuration and
//! no name of a key.

use bytes::Bytes;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

const AES_NONCE_BYTES: usize = 12;
const XCHACHA_NONCE_BYTES: usize = 24;

/// How a key encrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// AES-GCM with 128 or 256 bits and a random nonce of 96 bits.
    AesGcm,
    /// XChaCha20-Poly1305: a key for each record is derived from a random nonce of 192 bits.
    XChaCha,
}

/// Why a record was not encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SealError {
    #[error("the system gives no random numbers")]
    NoRandomness,
    #[error("the record is too large")]
    TooLarge,
}

/// A key that can be used.
pub(super) enum Cipher {
    Aes(Box<LessSafeKey>),
    XChaCha(Box<XChaCha20Poly1305>),
}

impl Cipher {
    /// `None` if the algorithm takes no secret of this length.
    pub(super) fn new(algorithm: Algorithm, secret: &[u8]) -> Option<Cipher> {
        match algorithm {
            Algorithm::AesGcm => {
                let algorithm = if secret.len() == 16 { &AES_128_GCM } else { &AES_256_GCM };
                let key = UnboundKey::new(algorithm, secret).ok()?;
                Some(Cipher::Aes(Box::new(LessSafeKey::new(key))))
            }
            Algorithm::XChaCha => {
                let cipher = XChaCha20Poly1305::new_from_slice(secret).ok()?;
                Some(Cipher::XChaCha(Box::new(cipher)))
            }
        }
    }

    /// Encrypts `plain` and appends nonce, content and tag to `out`. `associated` is authenticated and not stored.
    pub(super) fn seal(&self, associated: &[u8], plain: &[u8], out: &mut Vec<u8>) -> Result<(), SealError> {
        match self {
            Cipher::Aes(cipher) => {
                let nonce = random::<AES_NONCE_BYTES>().ok_or(SealError::NoRandomness)?;
                let start = out.len() + AES_NONCE_BYTES;
                out.reserve(AES_NONCE_BYTES + plain.len() + cipher.algorithm().tag_len());
                out.extend_from_slice(&nonce);
                out.extend_from_slice(plain);
                let nonce = Nonce::assume_unique_for_key(nonce);
                let tag = cipher.seal_in_place_separate_tag(nonce, Aad::from(associated), &mut out[start..]);
                out.extend_from_slice(tag.map_err(|_| SealError::TooLarge)?.as_ref());
            }
            Cipher::XChaCha(cipher) => {
                let nonce = random::<XCHACHA_NONCE_BYTES>().ok_or(SealError::NoRandomness)?;
                let payload = Payload { msg: plain, aad: associated };
                let sealed = cipher.encrypt(XNonce::from_slice(&nonce), payload);
                out.extend_from_slice(&nonce);
                out.extend_from_slice(&sealed.map_err(|_| SealError::TooLarge)?);
            }
        }
        Ok(())
    }

    /// Decrypts what [`Cipher::seal`] appended for the same `associated` bytes; `None` for anything else.
    pub(super) fn open(&self, associated: &[u8], sealed: &[u8]) -> Option<Bytes> {
        match self {
            Cipher::Aes(cipher) => {
                let (nonce, body) = sealed.split_first_chunk::<AES_NONCE_BYTES>()?;
                let mut body = body.to_vec();
                let nonce = Nonce::assume_unique_for_key(*nonce);
                let length = cipher.open_in_place(nonce, Aad::from(associated), &mut body).ok()?.len();
                body.truncate(length);
                Some(body.into())
            }
            Cipher::XChaCha(cipher) => {
                let (nonce, body) = sealed.split_at_checked(XCHACHA_NONCE_BYTES)?;
                let payload = Payload { msg: body, aad: associated };
                cipher.decrypt(XNonce::from_slice(nonce), payload).ok().map(Bytes::from)
            }
        }
    }
}

/// Random bytes of the system; `None` if it gives none.
pub(super) fn random<const BYTES: usize>() -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}
