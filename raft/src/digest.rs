//! A digest of the whole state at a revision, for tests and simulations that check that members agree. Members
//! themselves compare the fingerprints that the state maintains (`member::agreement`).
//!
//! Owns the content and the order of the digest: resources by name, objects by path, each with its revisions and bytes.
//! Two members that applied the same entries have the same digest at every revision that both can still rebuild.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::key::Revision;
use crate::state::{Compacted, State};

/// SHA-256 over a state.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

/// Why a digest cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// The revision is not applied here yet.
    #[error("revision {requested} is not applied yet; the newest is {applied}")]
    NotApplied {
        /// The revision asked for.
        requested: Revision,
        /// The newest revision applied here.
        applied: Revision,
    },
    /// The revision can no longer be rebuilt here.
    #[error(transparent)]
    Compacted(#[from] Compacted),
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The digest of `state` as it was at `revision`. Reads every object: for checks, not for requests.
///
/// # Errors
/// The revision is newer than the state, or older than its history.
pub fn digest(state: &State, revision: Revision) -> Result<Digest, DigestError> {
    let applied = state.applied();
    if revision > applied {
        return Err(DigestError::NotApplied { requested: revision, applied });
    }
    if revision < state.floor() {
        return Err(Compacted { requested: revision, oldest: state.floor() }.into());
    }
    let mut hash = Sha256::new();
    for (resource, collection) in state.collections() {
        let collection = collection.at(revision)?;
        // A resource whose last object was removed counts the same as one that never had an object.
        if collection.is_empty() {
            continue;
        }
        part(&mut hash, resource.as_bytes());
        hash.update((collection.len() as u64).to_be_bytes());
        for (path, object) in collection.range_from("") {
            part(&mut hash, path.as_bytes());
            hash.update(object.revision.0.to_be_bytes());
            hash.update(object.created.0.to_be_bytes());
            part(&mut hash, &object.json);
        }
    }
    Ok(Digest(hash.finalize().into()))
}

/// Hashes the length, then the bytes: without the length, the parts "ab", "c" and "a", "bc" would give one digest.
fn part(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_be_bytes());
    hash.update(bytes);
}
