//! Sizes for people, and keys as files.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::cli::NewKeyArgs;

#[test]
fn sizes_are_readable() {
    for (bytes, expected) in [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1_600_000, "1.5 MiB"),
        (5 << 30, "5.0 GiB"),
    ] {
        assert_eq!(readable(bytes), expected);
    }
}

#[test]
fn a_new_key_is_a_file_for_its_owner_and_replaces_none() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = NewKeyArgs { file: folder.path().join("backup.key") };
    let mut out = Vec::new();
    new_key(&arguments, &mut out).unwrap();
    let public = String::from_utf8(out).unwrap();
    let file = std::fs::read_to_string(&arguments.file).unwrap();
    assert_eq!(sealed::identities(&file).unwrap()[0].recipient().to_string(), public.trim());
    assert_eq!(std::fs::metadata(&arguments.file).unwrap().permissions().mode() & 0o777, 0o600);
    let error = new_key(&arguments, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("exists"), "{error}");
    assert_eq!(std::fs::read_to_string(&arguments.file).unwrap(), file);
}
