//! The layout of keys and values in RocksDB.
//!
//! A value is a little-endian CRC-32 over its key and body, then the body: the checksum finds a flipped bit and also a
//! value that ended up under another key. The checksum of an encrypted body ([`super::sealing`]) also covers a mark, by
//! which the two forms are told apart: plain values look as they did before there was encryption. Log keys are big-endian so that they sort by index; a state key is the length
//! of the resource (two bytes, big-endian), the resource and the path, so that either may contain any byte.

use bytes::Bytes;

use super::{CF_META, Db, failed, family};
use crate::disk::{DiskError, MetaKey};

/// Bytes of checksum before each body.
const SEAL_BYTES: usize = 4;
/// Ends the checksum of an encrypted body.
const ENCRYPTED_MARK: &[u8] = b"encrypted";
/// Bytes of length before the resource in a state key.
const RESOURCE_LENGTH_BYTES: usize = 2;

/// The number of the current generation of the state.
pub(super) const META_GENERATION: &[u8] = b"generation";
/// The index up to which the log is purged. Written with [`MetaKey::Purged`], whose bytes only the caller can decode.
pub(super) const META_PURGED_INDEX: &[u8] = b"purged_index";

/// The database key of a small value.
pub(super) fn meta_key(key: MetaKey) -> &'static [u8] {
    match key {
        MetaKey::Identity => b"identity",
        MetaKey::Vote => b"vote",
        MetaKey::Committed => b"committed",
        MetaKey::Purged => b"purged",
        MetaKey::StateMark => b"state_mark",
        MetaKey::Quarantine => b"quarantine",
    }
}

/// The key of a log entry.
pub(super) fn log_key(index: u64) -> [u8; 8] {
    index.to_be_bytes()
}

/// The index of a log key.
pub(super) fn log_index(key: &[u8]) -> Result<u64, DiskError> {
    let bytes = key.try_into().map_err(|_| DiskError {
        operation: "read log",
        reason: format!("a key of {} bytes stands in the log", key.len()),
    })?;
    Ok(u64::from_be_bytes(bytes))
}

/// The key of a stored object.
pub(super) fn state_key(resource: &str, path: &str) -> Result<Vec<u8>, DiskError> {
    let length = u16::try_from(resource.len()).map_err(|_| DiskError {
        operation: "write state",
        reason: format!("a resource name of {} bytes", resource.len()),
    })?;
    let mut key = Vec::with_capacity(RESOURCE_LENGTH_BYTES + resource.len() + path.len());
    key.extend_from_slice(&length.to_be_bytes());
    key.extend_from_slice(resource.as_bytes());
    key.extend_from_slice(path.as_bytes());
    Ok(key)
}

/// Resource and path of a state key; `None` if malformed.
pub(super) fn split_state_key(key: &[u8]) -> Option<(&str, &str)> {
    let (length, rest) = key.split_first_chunk::<RESOURCE_LENGTH_BYTES>()?;
    let (resource, path) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    Some((std::str::from_utf8(resource).ok()?, std::str::from_utf8(path).ok()?))
}

/// The value to store for `body` under `key`.
pub(super) fn seal(key: &[u8], body: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(SEAL_BYTES + body.len());
    seal_into(&mut value, key, body);
    value
}

/// [`seal`] into a reused buffer.
pub(super) fn seal_into(value: &mut Vec<u8>, key: &[u8], body: &[u8]) {
    value.clear();
    value.extend_from_slice(&checksum(key, body).to_le_bytes());
    value.extend_from_slice(body);
}

/// A value for an encrypted body, which `write` appends.
pub(super) fn seal_encrypted_into<E>(
    value: &mut Vec<u8>,
    key: &[u8],
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    value.clear();
    value.extend_from_slice(&[0; SEAL_BYTES]);
    write(value)?;
    if let Some((seal, body)) = value.split_first_chunk_mut::<SEAL_BYTES>() {
        *seal = checksum_encrypted(key, body).to_le_bytes();
    }
    Ok(())
}

/// A stored body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body<'a> {
    /// As the caller wrote it.
    Plain(&'a [u8]),
    /// Encrypted.
    Encrypted(&'a [u8]),
}

/// The body of a stored value; an error if its checksum does not match.
pub(super) fn unseal_any<'a>(
    operation: &'static str,
    key: &[u8],
    value: &'a [u8],
) -> Result<Body<'a>, DiskError> {
    let damaged = || DiskError {
        operation,
        reason: format!("the record under key {} is damaged: checksum mismatch", key.escape_ascii()),
    };
    let (seal, body) = value.split_first_chunk::<SEAL_BYTES>().ok_or_else(damaged)?;
    let seal = u32::from_le_bytes(*seal);
    if seal == checksum(key, body) {
        Ok(Body::Plain(body))
    } else if seal == checksum_encrypted(key, body) {
        Ok(Body::Encrypted(body))
    } else {
        Err(damaged())
    }
}

/// The body of a stored value that is never encrypted; an error if its checksum does not match.
pub(super) fn unseal<'a>(
    operation: &'static str,
    key: &[u8],
    value: &'a [u8],
) -> Result<&'a [u8], DiskError> {
    match unseal_any(operation, key, value)? {
        Body::Plain(body) => Ok(body),
        Body::Encrypted(_) => Err(DiskError {
            operation,
            reason: format!("the record under key {} is encrypted, which it never is", key.escape_ascii()),
        }),
    }
}

/// Reads a value of `raft_meta`; `None` if it was never written.
pub(super) fn load(db: &Db, operation: &'static str, name: &[u8]) -> Result<Option<Bytes>, DiskError> {
    let stored = db.get_pinned_cf(&family(db, CF_META)?, name).map_err(failed(operation))?;
    stored.map(|value| unseal(operation, name, &value).map(Bytes::copy_from_slice)).transpose()
}

/// Reads a number of this adapter (eight bytes, big-endian); `None` if it was never written.
pub(super) fn load_number(db: &Db, operation: &'static str, name: &[u8]) -> Result<Option<u64>, DiskError> {
    let Some(body) = load(db, operation, name)? else { return Ok(None) };
    let bytes = body
        .as_ref()
        .try_into()
        .map_err(|_| DiskError { operation, reason: format!("{} is not a number", name.escape_ascii()) })?;
    Ok(Some(u64::from_be_bytes(bytes)))
}

/// The checksum of an encrypted body, which differs from that of the same bytes as a plain one.
fn checksum_encrypted(key: &[u8], body: &[u8]) -> u32 {
    let plain = checksum(key, body);
    let mut hasher = crc32fast::Hasher::new_with_initial(plain);
    hasher.update(ENCRYPTED_MARK);
    let marked = hasher.finalize();
    // The mark leaves one of the 2^32 checksums as it is.
    if marked == plain { !marked } else { marked }
}

fn checksum(key: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_breaks_the_seal() {
        let value = seal(b"key", b"some bytes");
        assert_eq!(unseal("t", b"key", &value).unwrap(), b"some bytes");
        for bit in 0..value.len() * 8 {
            let mut flipped = value.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal("t", b"key", &flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn an_encrypted_body_is_never_taken_for_a_plain_one() {
        // The second has the one checksum that the mark does not change.
        for end in [*b"1234", *b"\x86s\xd3-"] {
            let body = [&b"\x01\x03one-some bytes-"[..], &end].concat();
            let mut value = Vec::new();
            let write = |value: &mut Vec<u8>| {
                value.extend_from_slice(&body);
                Ok::<(), DiskError>(())
            };
            seal_encrypted_into(&mut value, b"key", write).unwrap();
            assert_eq!(unseal_any("t", b"key", &value).unwrap(), Body::Encrypted(&body));
            assert_eq!(unseal_any("t", b"key", &seal(b"key", &body)).unwrap(), Body::Plain(&body));
        }
    }

    #[test]
    fn a_value_under_another_key_is_refused() {
        assert!(unseal("t", b"other", &seal(b"key", b"body")).is_err());
        assert!(unseal("t", b"key", b"abc").is_err());
    }

    #[test]
    fn state_keys_split_where_they_were_joined() {
        for (resource, path) in [("pods", "a/b"), ("", ""), ("x\0y", "/"), ("é", "ü")] {
            assert_eq!(split_state_key(&state_key(resource, path).unwrap()), Some((resource, path)));
        }
        assert_eq!(split_state_key(&[0, 9, b'a']), None);
        assert_eq!(split_state_key(&[0]), None);
        assert!(state_key(&"r".repeat(70_000), "x").is_err());
    }
}
