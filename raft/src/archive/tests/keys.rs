//! The cluster's keys before a snapshot.

use super::*;

fn bundle() -> KeyBundle {
    let mut bundle = KeyBundle::default();
    bundle.add("ca.crt", b"a certificate".to_vec()).unwrap();
    bundle.add("ca.key", b"canary of a key".to_vec()).unwrap();
    bundle
}

/// A file of format 2.
fn with_keys(bundle: &KeyBundle) -> Vec<u8> {
    let mut file = Vec::new();
    write_keys(&mut file, bundle, "0.1.0".into()).unwrap();
    file.extend_from_slice(&small_file());
    file
}

#[test]
fn keys_before_a_snapshot_are_read_and_the_snapshot_is_the_same() {
    let file = with_keys(&bundle());
    let mut reader = Reader::open(&file[..]).unwrap();
    assert_eq!(reader.keys(), Some(&bundle()));
    assert_eq!(reader.keys().unwrap().file("ca.key"), Some(&b"canary of a key"[..]));
    assert_eq!(reader.header(), &header(&some_objects()));
    assert!(reader.by_ref().all(|record| record.is_ok()));
    let plain = small_file();
    let alone = Reader::open(&plain[..]).unwrap();
    assert_eq!(
        (alone.keys(), alone.stream()),
        (None, reader.stream()),
        "the stream is named without the keys"
    );
    assert!(file.ends_with(&plain), "what a member sent stands behind the keys as it is");
}

#[test]
fn every_changed_bit_and_every_cut_of_a_file_with_keys_is_found() {
    let file = with_keys(&bundle());
    read(&file).unwrap();
    for bit in 0..8 * (file.len() - small_file().len()) {
        let mut changed = file.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let found = read(&changed);
        assert!(
            matches!(found, Err(ArchiveError::NotASnapshot | ArchiveError::Damaged { .. })),
            "bit {bit}: {found:?}"
        );
    }
    for length in 0..file.len() {
        let found = read(&file[..length]);
        assert!(
            matches!(found, Err(ArchiveError::Truncated { at }) if at == length as u64),
            "{length}: {found:?}"
        );
    }
    let twice = [&file[..file.len() - small_file().len()], &file].concat();
    assert!(matches!(read(&twice), Err(ArchiveError::Damaged { .. })), "keys twice");
}

#[test]
fn names_that_reach_out_of_a_folder_and_names_that_are_taken_are_refused() {
    for name in ["", ".", "..", ".hidden", "a/b", "/a", "a\u{1b}[2J", "a b", &"a".repeat(129)] {
        assert!(KeyBundle::default().add(name, Vec::new()).is_err(), "{name:?}");
    }
    let mut bundle = bundle();
    assert!(bundle.add("ca.key", Vec::new()).unwrap_err().contains("ca.key"));
    let large = wire::KeyBundle { files: vec![wire::KeyFile { name: "../a".into(), content: Vec::new() }] };
    assert!(KeyBundle::decode(&large.encode_to_vec()).is_err(), "also where a file says so");
    let mut large = KeyBundle::default();
    large.add("large", vec![0; KEYS_BYTES_MAX + 1]).unwrap();
    assert!(write_keys(&mut Vec::new(), &large, String::new()).is_err());
}

#[test]
fn a_bundle_shows_no_key_where_it_is_printed() {
    assert_eq!(format!("{:?}", bundle()), r#"{"ca.crt": 13, "ca.key": 15}"#);
}

/// A file of format 2, in hex, which every later program reads.
#[test]
fn files_of_the_second_format_are_read_for_ever() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/archive/golden/format-2.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let hex: String = with_keys(&bundle()).iter().map(|byte| format!("{byte:02x}")).collect();
        std::fs::write(path, hex + "\n").unwrap();
    }
    let file = from_hex(&std::fs::read_to_string(path).unwrap());
    assert_eq!(Reader::open(&file[..]).unwrap().keys(), Some(&bundle()));
    let (found, objects) = read(&file).unwrap();
    assert_eq!(found, header(&some_objects()));
    assert_eq!(encoded(&objects), encoded(&some_objects()));
}
