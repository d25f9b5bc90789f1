//! Round trips, and files that are refused.

mod keys;
mod streams;

use std::io;
use std::sync::OnceLock;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::encoding::object_to_wire;
use crate::fields::Fields;
use crate::key::Key;
use crate::labels::Labels;
use crate::object::{Index, Object, SharedObject};
use prost::Message;

/// The objects of a file, in order.
type Objects = BTreeMap<(Arc<str>, Arc<str>), SharedObject>;

fn object(revision: u64, text: &str) -> SharedObject {
    let json = format!("{{\"metadata\":{{\"resourceVersion\":\"{revision}\"}},\"data\":\"{text}\"}}");
    Arc::new(Object {
        revision: Revision(revision),
        created: Revision(revision.min(2)),
        written_ms: 1_700_000_000_000 + revision,
        json: Bytes::from(json),
        revision_at: 32,
        index: Index {
            uid: format!("uid-{revision}"),
            labels: Labels::new([("app", text)]),
            fields: Fields::new([("spec.nodeName", "n1")]),
            owners: vec!["7a".into()],
            terminating: revision.is_multiple_of(2),
            written_as: None,
        },
        protobuf: OnceLock::new(),
    })
}

fn header(objects: &Objects) -> Header {
    let mut resources: BTreeMap<Arc<str>, Count> = BTreeMap::new();
    for ((resource, _), object) in objects {
        let count = resources.entry(resource.clone()).or_default();
        count.add(Count { objects: 1, bytes: object.json.len() as u64 });
    }
    let members = vec![
        MemberEntry { name: "a".into(), address: "10.0.0.1:6444".into(), voter: true },
        MemberEntry { name: "b".into(), address: "10.0.0.2:6444".into(), voter: false },
    ];
    Header {
        cluster: "5f0c".into(),
        revision: Revision(90),
        time_ms: 1_700_000_000_123,
        brand: "orch".into(),
        feature_level: 1,
        program: "0.1.0".into(),
        member: "a".into(),
        members,
        resources,
    }
}

fn some_objects() -> Objects {
    let of = |resource: &str, path: &str, revision| {
        ((Arc::from(resource), Arc::from(path)), object(revision, path))
    };
    [
        of("_cluster", "identity", 2),
        of("pods", "default/a", 7),
        of("pods", "default/b", 9),
        of("secrets", "ns/key", 12),
    ]
    .into()
}

fn write(header: &Header, objects: &Objects, block_bytes: usize) -> Vec<u8> {
    let mut writer = Writer::with_blocks(Vec::new(), header, block_bytes).unwrap();
    for ((resource, path), object) in objects {
        writer.push(resource, path, object).unwrap();
    }
    writer.finish().unwrap()
}

fn read(file: &[u8]) -> Result<(Header, Objects), ArchiveError> {
    let mut reader = Reader::open(file)?;
    let mut objects = Objects::new();
    for record in &mut reader {
        let Record { resource, path, object } = record?;
        objects.insert((resource, path), object);
    }
    assert!(reader.next().is_none(), "a reader ends once");
    Ok((reader.header().clone(), objects))
}

fn encoded(objects: &Objects) -> Vec<(&str, &str, Vec<u8>)> {
    let record = |object: &SharedObject| object_to_wire(object).encode_to_vec();
    objects.iter().map(|((resource, path), object)| (&**resource, &**path, record(object))).collect()
}

fn small_file() -> Vec<u8> {
    let objects = some_objects();
    write(&header(&objects), &objects, BLOCK_BYTES)
}

proptest! {
    #[test]
    fn a_written_archive_is_read(
        texts in proptest::collection::btree_map(
            ("[a-c]{1,2}", proptest::option::of("[a-z]{1,3}"), "[a-z.-]{1,3}x"),
            "[a-z]{0,300}",
            0..40,
        ),
        block_bytes in 1_usize..2_000,
    ) {
        let objects: Objects = texts.into_iter().map(|((resource, namespace, name), text)| {
            let path = namespace.map_or(name.clone(), |namespace| format!("{namespace}/{name}"));
            ((Arc::from(resource), Arc::from(path)), object(3 + text.len() as u64 % 80, &text))
        }).collect();
        let header = header(&objects);
        let file = write(&header, &objects, block_bytes);
        let (found, read) = read(&file).unwrap();
        prop_assert_eq!(found, header);
        prop_assert_eq!(encoded(&read), encoded(&objects));
    }
}

#[test]
fn a_file_cut_anywhere_is_cut_short() {
    let file = small_file();
    for length in 0..file.len() {
        match read(&file[..length]) {
            Err(ArchiveError::Truncated { at }) => assert_eq!(at, length as u64),
            other => panic!("{length} of {} bytes: {other:?}", file.len()),
        }
    }
}

#[test]
fn every_changed_bit_is_found() {
    let file = small_file();
    read(&file).unwrap();
    for bit in 0..8 * file.len() {
        let mut changed = file.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        match read(&changed) {
            Err(ArchiveError::NotASnapshot) => assert!(bit / 8 < MAGIC.len(), "bit {bit}"),
            Err(ArchiveError::Damaged { at, .. }) => {
                assert!(at <= bit as u64 / 8, "bit {bit}, said near {at}")
            }
            other => panic!("bit {bit}: {other:?}"),
        }
    }
}

#[test]
fn bytes_behind_the_end_are_found() {
    let mut file = small_file();
    let end = file.len() as u64;
    file.push(0);
    assert!(matches!(read(&file), Err(ArchiveError::Trailing { at }) if at == end));
    file.truncate(file.len() - 1);
    file.extend_from_slice(&small_file());
    assert!(matches!(read(&file), Err(ArchiveError::Trailing { at }) if at == end));
    assert!(matches!(read(b"PK\x03\x04 something else"), Err(ArchiveError::NotASnapshot)));
}

#[test]
fn blocks_that_were_left_out_or_exchanged_are_found() {
    let objects = some_objects();
    let file = write(&header(&objects), &objects, 1);
    let mut blocks = Vec::new();
    let mut at = MAGIC.len();
    while at + DIGEST_BYTES < file.len() {
        let head = file[at..at + block::HEAD_BYTES].try_into().unwrap();
        let end = at + block::HEAD_BYTES + block::Head::decode(head).unwrap().packed as usize;
        blocks.push(&file[at..end]);
        at = end;
    }
    assert_eq!(blocks.len(), 2 + objects.len(), "a header, each object, a trailer");
    // With a right digest: only the blocks' order and the counts are wrong.
    let of = |order: &[usize]| {
        let mut file = MAGIC.to_vec();
        order.iter().for_each(|at| file.extend_from_slice(blocks[*at]));
        let digest = <sha2::Sha256 as sha2::Digest>::digest(&file);
        file.extend_from_slice(&digest);
        file
    };
    assert!(read(&of(&[0, 1, 2, 3, 4, 5])).is_ok());
    for order in [&[0, 1, 2, 4, 5][..], &[0, 1, 3, 2, 4, 5], &[0, 1, 2, 3, 3, 4, 5], &[0, 5], &[1, 5]] {
        assert!(matches!(read(&of(order)), Err(ArchiveError::Damaged { .. })), "{order:?}");
    }
    assert!(matches!(read(&of(&[0, 0, 5])), Err(ArchiveError::Damaged { .. })), "two headers");
}

#[test]
fn declared_lengths_are_refused_before_anything_is_allocated() {
    let head = block::Head { kind: block::BlockKind::Objects, plain: u32::MAX, packed: 1, checksum: 0 };
    let file = small_file();
    let header = file[MAGIC.len()..MAGIC.len() + block::HEAD_BYTES].try_into().unwrap();
    let begin = MAGIC.len() + block::HEAD_BYTES + block::Head::decode(header).unwrap().packed as usize;
    for head in [head, block::Head { plain: 1, packed: u32::MAX, ..head }] {
        let mut file = file[..begin].to_vec();
        file.extend_from_slice(&head.encode());
        match read(&file) {
            Err(ArchiveError::Damaged { reason, .. }) => assert!(reason.contains("limit"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}

/// A file with this header, and nothing behind it.
fn begin_with(header: &wire::Header) -> Vec<u8> {
    let packed = zstd::bulk::compress(&header.encode_to_vec(), 1).unwrap();
    let head = block::Head::of(block::BlockKind::Header, header.encoded_len(), &packed).unwrap();
    [&MAGIC[..], &head.encode(), &packed].concat()
}

#[test]
fn a_header_that_could_write_to_a_terminal_is_refused() {
    let bad = || "a\u{1b}[2J".to_owned();
    let sound = header_to_wire(&header(&some_objects()));
    let with = |change: &dyn Fn(&mut wire::Header)| {
        let mut header = sound.clone();
        change(&mut header);
        header
    };
    // Behind a sound header the file is cut short.
    assert!(Reader::open(&begin_with(&sound)[..]).is_ok());
    for header in [
        with(&|header| header.cluster = bad()),
        with(&|header| header.brand = bad()),
        with(&|header| header.program = bad()),
        with(&|header| header.member = bad()),
        with(&|header| header.members[1].name = bad()),
        with(&|header| header.members[1].address = bad()),
        with(&|header| header.resources[1].name = bad()),
        with(&|header| (header.format, header.program) = (FORMAT + 1, bad())),
    ] {
        match read(&begin_with(&header)) {
            Err(ArchiveError::Damaged { reason, .. }) => assert!(reason.contains("control"), "{reason}"),
            other => panic!("{header:?}: {other:?}"),
        }
    }
}

#[test]
fn a_newer_format_and_a_newer_level_are_refused_as_such() {
    for newer in [
        orch_proto::archive::Header {
            format: FORMAT_WITH_KEYS + 1,
            program: "9.1".into(),
            ..Default::default()
        },
        orch_proto::archive::Header { feature_level: 99, program: "9.1".into(), ..Default::default() },
    ] {
        match read(&begin_with(&newer)) {
            Err(ArchiveError::Newer(reason)) => assert!(reason.contains("9.1"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_path_that_reaches_out_of_its_folder_is_refused() {
    for (resource, path) in
        [("pods", "../a"), ("pods", "a/b/c"), ("pods", "/a"), ("pods", "a/"), ("..", "a"), ("a/b", "c")]
    {
        let objects: Objects = [((Arc::from(resource), Arc::from(path)), object(3, "x"))].into();
        let file = write(&header(&objects), &objects, BLOCK_BYTES);
        assert!(matches!(read(&file), Err(ArchiveError::Damaged { .. })), "{resource} {path}");
    }
}

#[test]
fn an_object_newer_than_the_snapshot_is_refused() {
    let objects: Objects = [((Arc::from("pods"), Arc::from("a/b")), object(91, "x"))].into();
    let file = write(&header(&objects), &objects, BLOCK_BYTES);
    assert!(matches!(read(&file), Err(ArchiveError::Damaged { .. })));
}

#[test]
fn a_state_is_written_whole_and_read_back() {
    let mut state = State::default();
    let objects = some_objects();
    for ((resource, path), object) in &objects {
        state.restore(&Key::from_stored(resource.clone(), path.clone()), object.clone());
    }
    state.finish_restore(Revision(90), Some(&BTreeMap::new()));
    let origin = header(&Objects::new());
    let file = write_state(Vec::new(), &origin, &state).unwrap();
    let (found, read) = read(&file).unwrap();
    assert_eq!(found, header(&objects));
    assert_eq!(encoded(&read), encoded(&objects));
    let (verified, rest) = Reader::open(&file[..]).unwrap().verify().unwrap();
    assert_eq!((verified, rest), (header(&objects), &[][..]));
}

#[test]
#[should_panic(expected = "in the order of their keys")]
fn objects_out_of_order_are_a_bug() {
    let objects = some_objects();
    let mut writer = Writer::begin(Vec::new(), &header(&objects)).unwrap();
    for ((resource, path), object) in objects.iter().rev() {
        writer.push(resource, path, object).unwrap();
    }
}

#[test]
#[should_panic(expected = "holds the objects that its header names")]
fn an_object_left_out_is_a_bug() {
    let writer = Writer::begin(Vec::new(), &header(&some_objects())).unwrap();
    writer.finish().unwrap();
}

#[test]
fn a_full_disk_is_an_error_of_the_writer() {
    struct Full(usize);
    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let objects = some_objects();
    let whole = small_file().len();
    let attempt = |room| -> io::Result<()> {
        let mut writer = Writer::begin(Full(room), &header(&objects))?;
        for ((resource, path), object) in &objects {
            writer.push(resource, path, object)?;
        }
        writer.finish().map(|_| ())
    };
    assert!(attempt(whole).is_ok());
    for room in 0..whole {
        assert_eq!(attempt(room).unwrap_err().kind(), io::ErrorKind::StorageFull, "room for {room}");
    }
}

/// A file of format 1, in hex, which every later program reads.
#[test]
fn files_of_the_first_format_are_read_for_ever() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/archive/golden/format-1.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let hex: String = small_file().iter().map(|byte| format!("{byte:02x}")).collect();
        std::fs::write(path, hex + "\n").unwrap();
    }
    let file = from_hex(&std::fs::read_to_string(path).unwrap());
    let (found, objects) = read(&file).unwrap();
    assert_eq!(found, header(&some_objects()));
    assert_eq!(encoded(&objects), encoded(&some_objects()));
}

fn from_hex(text: &str) -> Vec<u8> {
    let hex = text.trim();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}
