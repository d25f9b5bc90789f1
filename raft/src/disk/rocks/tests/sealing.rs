//! Encrypted records: what reaches the disk, missing keys, rewrites, records in the wrong place.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::time::Duration;

use orch_proto::store as wire;
use prost::Message;
use sha2::{Digest, Sha256};

use super::super::record::seal_encrypted_into;
use super::*;
use crate::disk::HistoryBlock;
use crate::disk::cipher::{CipherError, KeyName};

/// A string that stands in the content of a secret, and nowhere else.
const CANARY: &[u8] = b"canary-8d1f27c65ab04e93";
const SECRETS: &str = "secrets";
const CONFIG: &str = "configmaps";

/// Keys by name, of which the first encrypts secrets. A toy: it shows what the disk does with a cipher.
#[derive(Debug)]
struct Toy {
    keys: Vec<&'static str>,
    reads_plain: bool,
}

impl Toy {
    fn with(keys: &[&'static str]) -> Option<Arc<dyn RecordCipher>> {
        Some(Arc::new(Toy { keys: keys.to_vec(), reads_plain: false }))
    }

    fn over_plain(keys: &[&'static str]) -> Option<Arc<dyn RecordCipher>> {
        Some(Arc::new(Toy { keys: keys.to_vec(), reads_plain: true }))
    }
}

fn tag(key: &str, associated: &[u8], plain: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(key).chain_update(associated).chain_update(plain).finalize().into()
}

fn mask(key: &str, bytes: &[u8]) -> Vec<u8> {
    let stream = tag(key, b"", b"");
    bytes.iter().enumerate().map(|(at, byte)| byte ^ stream[at % 32]).collect()
}

impl RecordCipher for Toy {
    fn writing_key(&self, resources: &[&str]) -> Option<KeyName> {
        let key = self.keys.first().and_then(|key| KeyName::new(key));
        key.filter(|_| resources.contains(&SECRETS))
    }

    fn reads_plain(&self, resources: &[&str]) -> bool {
        self.reads_plain || !resources.contains(&SECRETS)
    }

    fn holds(&self, key: &str) -> bool {
        self.keys.contains(&key)
    }

    fn encrypt(
        &self,
        key: &KeyName,
        with: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CipherError> {
        out.extend_from_slice(&tag(key.as_str(), with, plain));
        out.extend_from_slice(&mask(key.as_str(), plain));
        Ok(())
    }

    fn decrypt(&self, key: &str, with: &[u8], sealed: &[u8]) -> Result<Bytes, CipherError> {
        if !self.holds(key) {
            return Err(CipherError::Missing(key.to_owned()));
        }
        let (stored, masked) = sealed.split_first_chunk::<32>().unwrap();
        let plain = mask(key, masked);
        (tag(key, with, &plain) == *stored)
            .then(|| plain.into())
            .ok_or_else(|| CipherError::Forged(key.to_owned()))
    }
}

fn open(path: &Path, cipher: Option<Arc<dyn RecordCipher>>) -> Result<RocksDisk, OpenError> {
    RocksDisk::open_locked(DataDirectory::lock(path)?, cipher)
}

/// The content of object number `number`; a secret's holds the canary.
fn content(resource: &str, number: u64) -> Bytes {
    let mut bytes = format!("{resource} {number} ").into_bytes();
    if resource == SECRETS {
        bytes.extend_from_slice(CANARY);
    }
    bytes.into()
}

/// A log entry that puts an object of each resource.
fn entry_of(resources: &[&str], index: u64) -> LogRecord {
    let put = |resource: &&str| {
        let key = Some(wire::Key { resource: (*resource).to_owned(), path: format!("ns/{index}") });
        let put = wire::Put { key, json: content(resource, index), ..wire::Put::default() };
        wire::Operation { kind: Some(wire::operation::Kind::Put(put)) }
    };
    let operations = resources.iter().map(put).collect();
    let transaction = wire::Transaction { operations, ..wire::Transaction::default() };
    let payload = Some(wire::entry::Payload::Transaction(transaction.encode_to_vec().into()));
    let entry = wire::Entry { log_id: Some(wire::LogId { term: 1, index }), payload, format: 0 };
    LogRecord { index, bytes: entry.encode_to_vec().into() }
}

/// Writes entries, objects and history of both resources, and syncs.
fn fill(disk: &RocksDisk) {
    let (sender, told) = channel();
    let log = vec![entry_of(&[CONFIG], 1), entry_of(&[CONFIG, SECRETS], 2), entry_of(&[], 3)];
    disk.append(log, Box::new(move |done| drop(sender.send(done)))).unwrap();
    told.recv().unwrap().unwrap();
    let object = |resource: &str, number: u64| StateWrite {
        resource: resource.into(),
        path: format!("ns/{number}").into(),
        record: Some(content(resource, number)),
    };
    let block = |resource: &str| HistoryBlock {
        resource: resource.into(),
        after: 1,
        through: 9,
        record: content(resource, 9),
    };
    let batch = StateBatch {
        generation: disk.generation().unwrap(),
        writes: (0..300).flat_map(|number| [object(CONFIG, number), object(SECRETS, number)]).collect(),
        history: vec![block(CONFIG), block(SECRETS)],
        mark: Some(Bytes::from_static(b"mark")),
        ..StateBatch::default()
    };
    assert_eq!(take(disk, batch), Ok(StateWritten::Written));
}

/// Checks that everything that [`fill`] wrote is read back.
fn check_content(disk: &RocksDisk) {
    let log = disk.read_log(1, 4, usize::MAX).unwrap();
    assert_eq!(log, [entry_of(&[CONFIG], 1), entry_of(&[CONFIG, SECRETS], 2), entry_of(&[], 3)]);
    let mut found = BTreeMap::new();
    disk.read_state(&mut |resource, path, record| {
        found.insert(format!("{resource} {path}"), record);
    })
    .unwrap();
    assert_eq!(found.len(), 600);
    assert_eq!(found["secrets ns/7"], content(SECRETS, 7));
    let generation = disk.generation().unwrap();
    for resource in [CONFIG, SECRETS] {
        let block = disk.read_history(generation, resource, 9).unwrap();
        assert_eq!(block, Some(content(resource, 9)));
    }
}

/// Names of the files below `path` that hold the canary.
fn files_with_canary(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        if bytes.windows(CANARY.len()).any(|window| window == CANARY) {
            found.push(path);
        }
    }
    found
}

#[test]
fn no_file_shows_the_content_of_an_encrypted_resource() {
    for cipher in [None, Toy::with(&["one"])] {
        let is_encrypted = cipher.is_some();
        let root = tempfile::tempdir().unwrap();
        let disk = open(root.path(), cipher.clone()).unwrap();
        fill(&disk);
        assert_eq!(files_with_canary(root.path()).is_empty(), is_encrypted, "in the write-ahead log");
        disk.rewrite(&mut |_| ControlFlow::Continue(())).unwrap();
        drop(disk);
        assert_eq!(files_with_canary(root.path()).is_empty(), is_encrypted, "in the tables");
        check_content(&open(root.path(), cipher).unwrap());
    }
}

#[test]
fn an_installed_state_is_encrypted() {
    let root = tempfile::tempdir().unwrap();
    let disk = open(root.path(), Toy::with(&["one"])).unwrap();
    let mut install = disk.begin_install().unwrap();
    let record = Some(content(SECRETS, 1));
    install.put(vec![StateWrite { resource: SECRETS.into(), path: "ns/1".into(), record }]).unwrap();
    let (sender, told) = channel();
    install.commit(Bytes::from_static(b"mark"), Box::new(move |done| drop(sender.send(done))));
    told.recv().unwrap().unwrap();
    assert!(files_with_canary(root.path()).is_empty());
    assert_eq!(read_state(&disk).unwrap(), [(SECRETS.into(), "ns/1".into(), content(SECRETS, 1))]);
    drop(disk);
    assert!(matches!(open(root.path(), None), Err(OpenError::MissingKey { .. })));
}

#[test]
fn a_start_without_a_needed_key_names_key_and_records() {
    let root = tempfile::tempdir().unwrap();
    fill(&open(root.path(), Toy::with(&["one"])).unwrap());
    for cipher in [None, Toy::with(&["two"])] {
        let Err(OpenError::MissingKey { key, records, .. }) = open(root.path(), cipher) else {
            panic!("opened without its key")
        };
        assert_eq!((key.as_str(), records.as_str()), ("one", "log entries, objects, history"));
    }
    check_content(&open(root.path(), Toy::with(&["two", "one"])).unwrap());
}

#[test]
fn a_look_at_a_store_needs_no_key() {
    let root = tempfile::tempdir().unwrap();
    let disk = open(root.path(), Toy::with(&["one"])).unwrap();
    fill(&disk);
    let last = disk.log_bounds().unwrap().map(|(_, last)| last);
    drop(disk);
    assert!(matches!(open(root.path(), None), Err(OpenError::MissingKey { .. })));
    let directory = DataDirectory::lock(root.path()).unwrap();
    let glance = Glance::at(&directory).unwrap().unwrap();
    assert_eq!(glance.last_index().unwrap(), last);
    assert!(last.is_some() && glance.meta(MetaKey::Identity).is_ok());
}

#[test]
fn after_a_rewrite_the_old_key_and_the_plain_records_are_gone() {
    let root = tempfile::tempdir().unwrap();
    fill(&open(root.path(), None).unwrap());
    let disk = open(root.path(), Toy::over_plain(&["one"])).unwrap();
    assert!(!files_with_canary(root.path()).is_empty());
    let done = disk.rewrite(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((done.progress.examined, done.progress.rewritten), (605, 302));
    assert!(files_with_canary(root.path()).is_empty());
    assert_eq!(
        disk.rewrite(&mut |_| ControlFlow::Continue(())).unwrap().progress.rewritten,
        0,
        "nothing is left to do"
    );
    check_content(&disk);
    drop(disk);

    let disk = open(root.path(), Toy::with(&["two", "one"])).unwrap();
    assert_eq!(disk.rewrite(&mut |_| ControlFlow::Continue(())).unwrap().unneeded, ["one"]);
    drop(disk);
    let disk = open(root.path(), Toy::with(&["two"])).unwrap();
    check_content(&disk);
    drop(disk);

    // Without a writing key, all of it is decrypted again.
    let disk = open(root.path(), Some(Arc::new(Decrypting))).unwrap();
    assert_eq!(disk.rewrite(&mut |_| ControlFlow::Continue(())).unwrap().unneeded, ["two"]);
    drop(disk);
    check_content(&open(root.path(), None).unwrap());
}

/// Reads records of the key `two` and writes plain ones.
#[derive(Debug)]
struct Decrypting;

impl RecordCipher for Decrypting {
    fn writing_key(&self, _: &[&str]) -> Option<KeyName> {
        None
    }

    fn reads_plain(&self, _: &[&str]) -> bool {
        true
    }

    fn holds(&self, key: &str) -> bool {
        key == "two"
    }

    fn encrypt(&self, key: &KeyName, _: &[u8], _: &[u8], _: &mut Vec<u8>) -> Result<(), CipherError> {
        Err(CipherError::Missing(key.to_string()))
    }

    fn decrypt(&self, key: &str, with: &[u8], sealed: &[u8]) -> Result<Bytes, CipherError> {
        Toy { keys: vec!["two"], reads_plain: false }.decrypt(key, with, sealed)
    }
}

#[test]
fn a_rewrite_that_was_ended_goes_on_and_keeps_its_notes() {
    let root = tempfile::tempdir().unwrap();
    fill(&open(root.path(), Toy::with(&["one"])).unwrap());
    let disk = open(root.path(), Toy::with(&["two", "one"])).unwrap();
    let mut steps = 0;
    let ended = disk.rewrite(&mut |_| {
        steps += 1;
        if steps == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let ended = ended.unwrap();
    assert_eq!((ended.end, &ended.unneeded), (RewriteEnd::Stopped, &Vec::new()));
    assert!(ended.progress.rewritten > 0, "{ended:?}");
    assert_eq!(disk.needed_keys(), ["one", "two"]);
    let done = disk.rewrite(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(done.progress.rewritten, 302 - ended.progress.rewritten);
    assert_eq!((done.end, done.unneeded), (RewriteEnd::Complete, vec!["one".to_owned()]));
    check_content(&disk);
}

#[test]
fn notes_stay_while_a_state_is_being_installed() {
    let root = tempfile::tempdir().unwrap();
    let disk = open(root.path(), Toy::with(&["one"])).unwrap();
    let mut install = disk.begin_install().unwrap();
    let record = Some(content(SECRETS, 1));
    install.put(vec![StateWrite { resource: SECRETS.into(), path: "ns/1".into(), record }]).unwrap();
    // The current state has no record of the key, the one to come has.
    assert_eq!(disk.rewrite(&mut |_| ControlFlow::Continue(())).unwrap().end, RewriteEnd::StateReplaced);
    assert_eq!(disk.needed_keys(), ["one"]);
    drop(install);
    assert_eq!(disk.rewrite(&mut |_| ControlFlow::Continue(())).unwrap().unneeded, ["one"]);
}

#[test]
fn plain_records_are_refused_where_only_encrypted_ones_are_allowed() {
    let root = tempfile::tempdir().unwrap();
    fill(&open(root.path(), None).unwrap());
    // Nothing reads these entries at a start; a leader would, for a member that is behind.
    let Err(OpenError::PlainEntries { resource, .. }) = open(root.path(), Toy::with(&["one"])) else {
        panic!("opened with entries in clear")
    };
    assert_eq!(resource, SECRETS);
    let disk = open(root.path(), Toy::over_plain(&["one"])).unwrap();
    disk.purge_through(2, Bytes::from_static(b"marker")).unwrap();
    drop(disk);
    let disk = open(root.path(), Toy::with(&["one"])).unwrap();
    assert_eq!(disk.read_log(3, 4, usize::MAX).unwrap(), [entry_of(&[], 3)]);
    let error = disk.read_state(&mut |_, _, _| {}).unwrap_err().to_string();
    assert!(error.contains("is not encrypted"), "{error}");
}

#[test]
fn purged_entries_go_with_a_rewrite_whatever_their_key() {
    let root = tempfile::tempdir().unwrap();
    let disk = open(root.path(), None).unwrap();
    disk.append(vec![entry_of(&[SECRETS], 1), entry_of(&[SECRETS], 2), entry_of(&[], 3)], Box::new(|_| {}))
        .unwrap();
    disk.purge_through(2, Bytes::from_static(b"marker")).unwrap();
    drop(disk);
    let disk = open(root.path(), Toy::with(&["one"])).unwrap();
    assert!(!files_with_canary(root.path()).is_empty(), "few entries are not swept");
    let done = disk.rewrite(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((done.end, done.progress.examined), (RewriteEnd::Complete, 1));
    assert!(files_with_canary(root.path()).is_empty());
    drop(disk);
    let disk = open(root.path(), None).unwrap();
    assert_eq!(disk.read_log(3, 4, usize::MAX).unwrap(), [entry_of(&[], 3)]);
}

/// Stores everything in clear until it is turned to the key `one`.
#[derive(Debug, Default)]
struct Turning {
    is_turned: AtomicBool,
}

impl Turning {
    fn toy() -> Toy {
        Toy { keys: vec!["one"], reads_plain: true }
    }
}

impl RecordCipher for Turning {
    fn writing_key(&self, resources: &[&str]) -> Option<KeyName> {
        Turning::toy().writing_key(resources).filter(|_| self.is_turned.load(Ordering::SeqCst))
    }

    fn revision(&self) -> u64 {
        self.is_turned.load(Ordering::SeqCst).into()
    }

    fn reads_plain(&self, _: &[&str]) -> bool {
        true
    }

    fn holds(&self, key: &str) -> bool {
        Turning::toy().holds(key)
    }

    fn encrypt(
        &self,
        key: &KeyName,
        with: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CipherError> {
        Turning::toy().encrypt(key, with, plain, out)
    }

    fn decrypt(&self, key: &str, with: &[u8], sealed: &[u8]) -> Result<Bytes, CipherError> {
        Turning::toy().decrypt(key, with, sealed)
    }
}

#[test]
fn a_rewrite_during_which_the_keys_change_is_not_complete() {
    let root = tempfile::tempdir().unwrap();
    let cipher = Arc::new(Turning::default());
    let disk = open(root.path(), Some(cipher.clone())).unwrap();
    fill(&disk);
    // The first two steps examine the log and the first half of the objects.
    let mut steps = 0;
    let ended = disk.rewrite(&mut |_| {
        steps += 1;
        cipher.is_turned.fetch_or(steps == 2, Ordering::SeqCst);
        ControlFlow::Continue(())
    });
    let ended = ended.unwrap();
    assert_eq!((ended.end, ended.unneeded), (RewriteEnd::KeysChanged, Vec::new()));
    assert!(!files_with_canary(root.path()).is_empty(), "the entry was examined before");
    let done = disk.rewrite(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(done.end, RewriteEnd::Complete);
    assert!(files_with_canary(root.path()).is_empty());
    check_content(&disk);
}

#[test]
fn a_rewrite_whose_compaction_fails_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    fill(&open(root.path(), None).unwrap());
    let disk = open(root.path(), Toy::over_plain(&["one"])).unwrap();
    let ended = disk.rewrite(&mut |progress| {
        if progress.compacted == 1 {
            // Every later compaction fails, which the database tells nobody.
            disk.core.db.cancel_all_background_work(true);
        }
        ControlFlow::Continue(())
    });
    assert!(!files_with_canary(root.path()).is_empty());
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("tables with older forms"), "{error}");
}

/// Waits in the middle of each encryption.
#[derive(Debug)]
struct Slow {
    entered: Mutex<Sender<()>>,
    released: Mutex<Receiver<()>>,
}

impl RecordCipher for Slow {
    fn writing_key(&self, resources: &[&str]) -> Option<KeyName> {
        Turning::toy().writing_key(resources)
    }

    fn reads_plain(&self, _: &[&str]) -> bool {
        true
    }

    fn holds(&self, key: &str) -> bool {
        Turning::toy().holds(key)
    }

    fn encrypt(
        &self,
        key: &KeyName,
        with: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CipherError> {
        self.entered.lock().send(()).unwrap();
        self.released.lock().recv().unwrap();
        Turning::toy().encrypt(key, with, plain, out)
    }

    fn decrypt(&self, key: &str, with: &[u8], sealed: &[u8]) -> Result<Bytes, CipherError> {
        Turning::toy().decrypt(key, with, sealed)
    }
}

#[test]
fn the_key_of_a_record_under_way_is_needed() {
    let root = tempfile::tempdir().unwrap();
    let ((enter, entered), (release, released)) = (channel(), channel());
    let cipher = Slow { entered: Mutex::new(enter), released: Mutex::new(released) };
    let disk = open(root.path(), Some(Arc::new(cipher))).unwrap();
    let (sender, told) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| disk.append(vec![entry_of(&[SECRETS], 1)], Box::new(|_| {})).unwrap());
        entered.recv().unwrap();
        // The key was chosen, and a reload must not drop it, though no record on the disk has it yet.
        scope.spawn(|| sender.send(disk.needed_keys()).unwrap());
        let early = told.recv_timeout(Duration::from_millis(50));
        release.send(()).unwrap();
        assert!(early.is_err(), "answered {early:?} while a record got its key");
        assert_eq!(told.recv().unwrap(), ["one"]);
    });
}

#[test]
fn a_record_is_refused_under_another_key_and_in_another_place() {
    let root = tempfile::tempdir().unwrap();
    let disk = open(root.path(), Toy::with(&["one"])).unwrap();
    fill(&disk);
    let family_name = disk.core.generations.read().family();
    let objects = family(&disk.core.db, &family_name).unwrap();
    let (from, to) =
        (record::state_key(SECRETS, "ns/1").unwrap(), record::state_key(SECRETS, "ns/2").unwrap());
    let value = disk.core.db.get_cf(&objects, &from).unwrap().unwrap();
    let record::Body::Encrypted(body) = record::unseal_any("t", &from, &value).unwrap() else {
        panic!("a secret in clear")
    };
    let mut moved = Vec::new();
    seal_encrypted_into(&mut moved, &to, |value| {
        value.extend_from_slice(body);
        Ok::<(), CipherError>(())
    })
    .unwrap();
    // The checksum is right: only the cipher can tell.
    disk.core.db.put_cf(&objects, &to, &moved).unwrap();
    let error = disk.read_state(&mut |_, _, _| {}).unwrap_err().to_string();
    assert!(error.contains("does not authenticate"), "{error}");
    let as_history = super::super::sealing::Place::History(SECRETS);
    assert!(disk.core.unseal("t", as_history, &from, &value).is_err());
}
