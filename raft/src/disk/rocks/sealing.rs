//! Encryption of records on their way to the database and back.
//!
//! Owns the form of an encrypted body and the notes of the keys in use. A body is a version byte, the length of the key's
//! name (one byte), the name, and what the cipher made of the record. Version, name, the place of the record (log,
//! object or history) and its database key are authenticated with it, so a record is refused under another key or name.
//!
//! A note in `raft_meta` names each key that encrypted a record of a place, and holds the sealed form of a data key. It is
//! written before the first such record into the same write-ahead log, which a crash cuts from its end only, so that no
//! record is there without its key, and a start can name a missing key without reading every record. Notes go when a
//! rewrite has replaced all records of a key ([`super::rewrite`]).
//!
//! Invariant: a stored record under a key implies its note.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use rocksdb::WriteBatch;

use super::record::{self, Body};
use super::{CF_META, Core, Db, OpenError, failed, family};
use crate::disk::DiskError;
use crate::disk::cipher::{CipherError, KeyName, RecordCipher};
use crate::encoding::written_resources;

/// Form of an encrypted body.
const VERSION: u8 = 1;
/// Prefix of the keys of notes in `raft_meta`; the byte of the place and the key's name follow.
const NOTE_PREFIX: &[u8] = b"encrypted-with:";

/// The place of a record, with what decides about its key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// An entry of the log. Its resources are those that it writes.
    Entry,
    /// An object of this resource.
    Object(&'a str),
    /// A block of the history of this resource.
    History(&'a str),
}

/// A [`Place`] without its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Entry,
    Object,
    History,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Entry, Kind::Object, Kind::History];

    /// The byte on the disk. Never reused.
    fn byte(self) -> u8 {
        match self {
            Kind::Entry => b'l',
            Kind::Object => b'o',
            Kind::History => b'h',
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Kind::Entry => "log entries",
            Kind::Object => "objects",
            Kind::History => "history",
        }
    }
}

impl<'a> Place<'a> {
    pub(super) fn kind(self) -> Kind {
        match self {
            Place::Entry => Kind::Entry,
            Place::Object(_) => Kind::Object,
            Place::History(_) => Kind::History,
        }
    }

    /// The resources of a plain record here.
    pub(super) fn resources(self, plain: &'a [u8]) -> Result<Vec<&'a str>, DiskError> {
        match self {
            Place::Object(resource) | Place::History(resource) => Ok(vec![resource]),
            Place::Entry => written_resources(plain).map_err(|error| DiskError {
                operation: "encrypt",
                reason: format!("the resources of a log entry are unknown: {error}"),
            }),
        }
    }
}

type Note = (Kind, KeyName);

#[derive(Debug, Default)]
struct Notes {
    written: BTreeSet<Note>,
    // Keys met since a rewrite began: their notes stay. `None` while none runs.
    met: Option<BTreeSet<Note>>,
}

/// The keys of a disk; without a cipher, nothing is encrypted.
#[derive(Debug)]
pub(super) struct Sealing {
    cipher: Option<Arc<dyn RecordCipher>>,
    notes: Mutex<Notes>,
}

impl Sealing {
    /// Loads the notes, lets `cipher` open the data keys in them, and refuses keys that it lacks.
    pub(super) fn open(
        db: &Db,
        path: &Path,
        cipher: Option<Arc<dyn RecordCipher>>,
    ) -> Result<Sealing, OpenError> {
        let found = load_notes(db).map_err(|error| OpenError::damaged(path, error))?;
        if let Some(cipher) = &cipher {
            let stored: BTreeMap<&KeyName, &Bytes> =
                found.iter().map(|((_, key), sealed)| (key, sealed)).collect();
            let stored: Vec<(KeyName, Bytes)> =
                stored.into_iter().map(|(key, sealed)| (key.clone(), sealed.clone())).collect();
            cipher
                .unlock(&stored)
                .map_err(|source| OpenError::LockedKey { path: path.to_owned(), source })?;
        }
        let written: BTreeSet<Note> = found.into_iter().map(|(note, _)| note).collect();
        let lacks = |key: &KeyName| cipher.as_ref().is_none_or(|cipher| !cipher.holds(key.as_str()));
        if let Some((_, key)) = written.iter().find(|(_, key)| lacks(key)) {
            let kinds = Kind::ALL.into_iter().filter(|kind| written.contains(&(*kind, key.clone())));
            let records = kinds.map(Kind::plural).collect::<Vec<_>>().join(", ");
            return Err(OpenError::MissingKey { path: path.to_owned(), key: key.to_string(), records });
        }
        Ok(Sealing { cipher, notes: Mutex::new(Notes { written, met: None }) })
    }

    pub(super) fn cipher(&self) -> Option<&dyn RecordCipher> {
        self.cipher.as_deref()
    }

    /// See [`RecordCipher::revision`].
    pub(super) fn revision(&self) -> u64 {
        self.cipher.as_ref().map_or(0, |cipher| cipher.revision())
    }

    /// Names of the keys in the notes.
    fn noted_keys(&self) -> BTreeSet<KeyName> {
        self.notes.lock().written.iter().map(|(_, key)| key.clone()).collect()
    }
}

impl Core {
    /// Writes the value to store for the record `plain` at `place` under `key` into `value`.
    pub(super) fn seal_into(
        &self,
        place: Place<'_>,
        key: &[u8],
        plain: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<(), DiskError> {
        let Some(cipher) = self.sealing.cipher() else {
            record::seal_into(value, key, plain);
            return Ok(());
        };
        let Some(name) = cipher.writing_key(&place.resources(plain)?) else {
            record::seal_into(value, key, plain);
            return Ok(());
        };
        record::seal_encrypted_into(value, key, |body| {
            let head = head(&name);
            body.extend_from_slice(&head);
            cipher.encrypt(&name, &associated(place.kind(), &head, key), plain, body)
        })
        .map_err(refused("encrypt"))?;
        // Behind the encryption, so that no key is noted that cannot be used: a start would wait for it in vain.
        self.note_key(place.kind(), &name)
    }

    /// The record in the stored `value`; an error if it is damaged, in clear where that is not allowed, or cannot be decrypted.
    pub(super) fn unseal(
        &self,
        operation: &'static str,
        place: Place<'_>,
        key: &[u8],
        value: &[u8],
    ) -> Result<Bytes, DiskError> {
        match record::unseal_any(operation, key, value)? {
            Body::Plain(plain) => {
                if let Some(cipher) = self.sealing.cipher()
                    && !cipher.reads_plain(&place.resources(plain)?)
                {
                    return Err(DiskError {
                        operation,
                        reason: format!(
                            "the record under key {} is not encrypted, and the encryption configuration has no identity \
                             provider that allows this",
                            key.escape_ascii()
                        ),
                    });
                }
                Ok(Bytes::copy_from_slice(plain))
            }
            Body::Encrypted(body) => {
                let (head, name, sealed) = split(body).ok_or_else(|| DiskError {
                    operation,
                    reason: format!(
                        "the encrypted record under key {} has an unknown form",
                        key.escape_ascii()
                    ),
                })?;
                let Some(cipher) = self.sealing.cipher() else {
                    return Err(refused(operation)(CipherError::Missing(name.to_owned())));
                };
                let opened = cipher.decrypt(name, &associated(place.kind(), head, key), sealed);
                opened.map_err(refused(operation))
            }
        }
    }

    /// The key that encrypted the stored `value`; `None` if it is plain.
    pub(super) fn key_of(&self, key: &[u8], value: &[u8]) -> Result<Option<KeyName>, DiskError> {
        match record::unseal_any("rewrite", key, value)? {
            Body::Plain(_) => Ok(None),
            Body::Encrypted(body) => {
                let name = split(body).and_then(|(_, name, _)| KeyName::new(name));
                name.map(Some).ok_or_else(|| DiskError {
                    operation: "rewrite",
                    reason: format!(
                        "the encrypted record under key {} has an unknown form",
                        key.escape_ascii()
                    ),
                })
            }
        }
    }

    /// The key that a record would be written with now.
    pub(super) fn wanted_key(&self, place: Place<'_>, plain: &[u8]) -> Result<Option<KeyName>, DiskError> {
        let Some(cipher) = self.sealing.cipher() else { return Ok(None) };
        Ok(cipher.writing_key(&place.resources(plain)?))
    }

    /// Names of the keys that records need: those on the disk, and those that are being encrypted. Waits for the latter.
    pub(super) fn needed_keys(&self) -> BTreeSet<KeyName> {
        // A record gets its key and the key its note under one of these locks.
        drop(self.bounds.write());
        drop(self.generations.write());
        self.sealing.noted_keys()
    }

    /// Notes that records of `kind` need the key. A write of its own, so that it stands before the record in the
    /// write-ahead log, whichever thread is faster.
    pub(super) fn note_key(&self, kind: Kind, name: &KeyName) -> Result<(), DiskError> {
        let mut notes = self.sealing.notes.lock();
        let note = (kind, name.clone());
        if let Some(met) = &mut notes.met {
            met.insert(note.clone());
        }
        if notes.written.contains(&note) {
            return Ok(());
        }
        let at = note_key(kind, name);
        let sealed = self.sealing.cipher().map(|cipher| cipher.sealed(name)).unwrap_or_default();
        let mut batch = WriteBatch::default();
        batch.put_cf(&family(&self.db, CF_META)?, &at, record::seal(&at, &sealed));
        self.write("note a key", batch)?;
        notes.written.insert(note);
        Ok(())
    }

    /// Begins to collect the keys that records still have.
    pub(super) fn begin_meeting_keys(&self) {
        self.sealing.notes.lock().met = Some(BTreeSet::new());
    }

    /// Ends the collection of keys without removing a note.
    pub(super) fn end_meeting_keys(&self) {
        self.sealing.notes.lock().met = None;
    }

    /// Removes the notes of keys that were not met since, and returns those keys.
    pub(super) fn forget_other_keys(&self) -> Result<BTreeSet<KeyName>, DiskError> {
        let mut notes = self.sealing.notes.lock();
        let Some(met) = notes.met.take() else { return Ok(BTreeSet::new()) };
        let gone: Vec<Note> = notes.written.difference(&met).cloned().collect();
        let mut batch = WriteBatch::default();
        let meta = family(&self.db, CF_META)?;
        for (kind, name) in &gone {
            batch.delete_cf(&meta, note_key(*kind, name));
        }
        self.write("forget keys", batch)?;
        let still: BTreeSet<&KeyName> = met.iter().map(|(_, name)| name).collect();
        let unneeded = gone.into_iter().map(|(_, name)| name).filter(|name| !still.contains(name)).collect();
        notes.written = met;
        Ok(unneeded)
    }
}

fn refused(operation: &'static str) -> impl Fn(CipherError) -> DiskError {
    move |error| DiskError { operation, reason: error.to_string() }
}

fn head(name: &KeyName) -> Vec<u8> {
    let name = name.as_str().as_bytes();
    let mut head = Vec::with_capacity(2 + name.len());
    head.push(VERSION);
    // `KeyName` is no longer than 255 bytes.
    head.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    head.extend_from_slice(name);
    head
}

/// Head, key name and the cipher's bytes of an encrypted body; `None` if malformed.
fn split(body: &[u8]) -> Option<(&[u8], &str, &[u8])> {
    let (&[version, length], _) = body.split_first_chunk::<2>()?;
    let (head, sealed) = body.split_at_checked(2 + usize::from(length))?;
    let name = std::str::from_utf8(&head[2..]).ok()?;
    (version == VERSION).then_some((head, name, sealed))
}

/// Head and database key both tell their own length: the head by its second byte, and the key is the rest.
fn associated(kind: Kind, head: &[u8], key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + head.len() + key.len());
    bytes.push(kind.byte());
    bytes.extend_from_slice(head);
    bytes.extend_from_slice(key);
    bytes
}

fn note_key(kind: Kind, name: &KeyName) -> Vec<u8> {
    let mut key = NOTE_PREFIX.to_vec();
    key.push(kind.byte());
    key.extend_from_slice(name.as_str().as_bytes());
    key
}

/// The notes, each with the sealed form of its key, which is empty for a key of the configuration.
fn load_notes(db: &Db) -> Result<Vec<(Note, Bytes)>, DiskError> {
    let operation = "read the names of keys";
    let mut entries = db.raw_iterator_cf(&family(db, CF_META)?);
    let mut notes = Vec::new();
    entries.seek(NOTE_PREFIX);
    while let Some((at, value)) = entries.item().filter(|(at, _)| at.starts_with(NOTE_PREFIX)) {
        let sealed = Bytes::copy_from_slice(record::unseal(operation, at, value)?);
        let note = at[NOTE_PREFIX.len()..].split_first().and_then(|(byte, name)| {
            let kind = Kind::ALL.into_iter().find(|kind| kind.byte() == *byte)?;
            Some((kind, KeyName::new(std::str::from_utf8(name).ok()?)?))
        });
        let unknown = || DiskError { operation, reason: format!("{} names no key", at.escape_ascii()) };
        notes.push((note.ok_or_else(unknown)?, sealed));
        entries.next();
    }
    entries.status().map_err(failed(operation))?;
    Ok(notes)
}
