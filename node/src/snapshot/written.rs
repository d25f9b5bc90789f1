//! A snapshot that is written to its end and has no name yet.
//!
//! Owns the restore test of it, over the bytes that are on the disk, and the giving of its name. Dropped without a name it
//! is removed. The key of an encrypted file is kept so long, so that the test needs no private key.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use anyhow::{Context as _, bail};
use orch_raft::Fingerprint;
use orch_raft::archive::{Header, Reader};
use orch_raft::member::reseed;
use sha2::{Digest as _, Sha256};

use super::sealed::{FileKey, Opener};
use super::sink::Output;
use super::source::{Source, is_sealed};
use crate::object_store::Digest;

/// The outcome of a restore test.
pub(crate) struct Tested {
    /// Objects that the restore gave back.
    pub(crate) objects: u64,
    /// The digest of the bytes that were read for it.
    pub(crate) digest: Digest,
}

/// A file whose bytes are hashed while they are read.
struct Hashed<'a> {
    file: File,
    seen: &'a mut Seen,
}

/// The bytes that were read.
#[derive(Default)]
struct Seen {
    hash: Sha256,
    bytes: u64,
}

impl Read for Hashed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.seen.hash.update(&buffer[..read]);
        self.seen.bytes += u64::try_from(read).map_err(io::Error::other)?;
        Ok(read)
    }
}

impl Seen {
    fn digest(self) -> Digest {
        Digest { sha256: self.hash.finalize().into(), bytes: self.bytes }
    }
}

/// Verifies the snapshot at `path` as far as that is possible without a private key, and returns the digest of the bytes that
/// were read for it: all of a plain file, nothing of an encrypted one.
pub(crate) fn prove(path: &Path) -> anyhow::Result<Digest> {
    let name = path.display();
    let mut file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    let is_sealed = is_sealed(&mut file).with_context(|| format!("cannot read {name}"))?;
    let mut seen = Seen::default();
    let mut source = Hashed { file, seen: &mut seen };
    if is_sealed {
        io::copy(&mut source, &mut io::sink()).with_context(|| format!("cannot read {name}"))?;
    } else {
        let verified = Reader::open(source).and_then(Reader::verify);
        verified.with_context(|| format!("{name} is not what was saved"))?;
    }
    Ok(seen.digest())
}

/// A snapshot that is written to its end.
pub(crate) struct Written {
    output: Output,
    /// The key of an encrypted file.
    key: Option<FileKey>,
}

impl Written {
    pub(super) fn new(output: Output, key: Option<FileKey>) -> Written {
        Written { output, key }
    }

    /// Reads the file again from the disk and restores it into memory, a part at a time: it must hold the objects of
    /// `saved`, and be of `header`. Of an encrypted file all is authenticated and decrypted but the wrapping of its key,
    /// which only the private key opens.
    ///
    /// # Errors
    /// The file cannot be read, is not whole, cannot be restored, or gives back another state.
    pub(crate) fn rehearse(&self, header: &Header, saved: Fingerprint) -> anyhow::Result<Tested> {
        let name = self.output.name();
        let Output::File(draft) = &self.output else { bail!("{name} cannot be read again") };
        let mut seen = Seen::default();
        let file = Hashed { file: draft.read_back()?, seen: &mut seen };
        let source = match &self.key {
            None => Source::Plain(file),
            Some(key) => {
                let opener = Opener::with_key(BufReader::new(file), key);
                Source::Sealed(Box::new(opener.with_context(|| format!("{name}, read again"))?))
            }
        };
        let mut reader = Reader::open(source).with_context(|| format!("{name}, read again"))?;
        if reader.header() != header {
            bail!("{name}, read again, begins with another header than was written");
        }
        let objects = reseed::rehearse(header, saved, &mut reader);
        let objects = objects.with_context(|| format!("the restore test of {name}"))?;
        drop(reader);
        Ok(Tested { objects, digest: seen.digest() })
    }

    /// Gives a file its name: it has it, and is durable, when this returns.
    ///
    /// # Errors
    /// The file cannot be made durable or get its name.
    pub(crate) fn commit(self) -> anyhow::Result<()> {
        let name = self.output.name();
        match self.output {
            Output::File(draft) => Ok(draft.commit()?),
            Output::Stdout => Ok(io::stdout().flush().with_context(|| format!("cannot write {name}"))?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;

    use orch_raft::State;
    use orch_raft::archive::write_state;
    use tokio::sync::mpsc::channel;

    use super::super::copy::{Copied, copy_unnamed};
    use super::super::draft::Existing;
    use super::super::sealed::{Identity, Recipient};
    use super::super::sink::Sink;
    use super::super::testing::some_state;
    use super::*;

    /// A snapshot of `state` that has no name yet.
    fn written(folder: &Path, state: &State, recipients: &[Recipient]) -> Copied {
        let origin = Header { cluster: "one".into(), time_ms: 1_700_000_000_000, ..Header::default() };
        let stream = write_state(Vec::new(), &origin, state).unwrap();
        let (sender, receiver) = channel(1);
        sender.try_send(Ok(stream.into())).unwrap();
        drop(sender);
        let output = Output::file(&folder.join("monday"), Existing::Refuse).unwrap();
        copy_unnamed(io::empty(), receiver, Sink::new(output, recipients).unwrap(), None).unwrap()
    }

    fn names(folder: &Path) -> Vec<PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into()).collect()
    }

    fn recipients() -> [Vec<Recipient>; 2] {
        [Vec::new(), vec![Identity::generate().unwrap().recipient()]]
    }

    #[test]
    fn a_file_is_restored_from_the_disk_before_it_gets_its_name() {
        let state = some_state(20);
        for recipients in recipients() {
            let folder = tempfile::tempdir().unwrap();
            let Copied { header, written, .. } = written(folder.path(), &state, &recipients);
            assert_eq!(names(folder.path()), [Path::new(".monday.partial")]);
            let Tested { objects, digest } = written.rehearse(&header, state.fingerprint()).unwrap();
            assert_eq!(objects, 21);
            written.commit().unwrap();
            let target = folder.path().join("monday");
            assert_eq!(prove(&target).unwrap(), digest);
            let mut content = std::fs::read(&target).unwrap();
            assert_eq!(digest.sha256, <[u8; 32]>::from(Sha256::digest(&content)));
            let middle = content.len() / 2;
            content[middle] ^= 1;
            std::fs::write(&target, content).unwrap();
            match recipients.is_empty() {
                true => assert!(prove(&target).is_err()),
                false => assert_ne!(prove(&target).unwrap(), digest),
            }
            assert_eq!(names(folder.path()), [Path::new("monday")]);
        }
    }

    #[test]
    fn a_byte_that_changed_on_the_disk_and_a_file_cut_there_fail_the_test_and_leave_nothing() {
        let state = some_state(20);
        for recipients in recipients() {
            let folder = tempfile::tempdir().unwrap();
            let partial = folder.path().join(".monday.partial");
            let length = {
                let _copied = written(folder.path(), &state, &recipients);
                std::fs::metadata(&partial).unwrap().len()
            };
            for at in (0..length).step_by(31) {
                let Copied { header, written, .. } = written(folder.path(), &state, &recipients);
                let file = OpenOptions::new().read(true).write(true).open(&partial).unwrap();
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).unwrap();
                file.write_all_at(&[byte[0] ^ 4], at).unwrap();
                assert!(written.rehearse(&header, state.fingerprint()).is_err(), "byte {at} of {length}");
            }
            let Copied { header, written, .. } = written(folder.path(), &state, &recipients);
            OpenOptions::new().write(true).open(&partial).unwrap().set_len(length - 1).unwrap();
            assert!(written.rehearse(&header, state.fingerprint()).is_err());
            drop(written);
            assert!(names(folder.path()).is_empty());
        }
    }

    #[test]
    fn a_whole_file_of_another_state_fails_the_test() {
        let (state, other) = (some_state(20), some_state(21));
        let folder = tempfile::tempdir().unwrap();
        let Copied { header, written, .. } = written(folder.path(), &state, &[]);
        let told = format!("{:#}", written.rehearse(&header, other.fingerprint()).err().unwrap());
        assert!(told.contains("restore test") && told.contains("21 objects"), "{told}");
        let another = Header { member: "z".into(), ..header };
        let told = written.rehearse(&another, state.fingerprint()).err().unwrap().to_string();
        assert!(told.contains("another header"), "{told}");
    }
}
