//! Confirmations, refusals, and the files that stay.

use std::os::unix::net::UnixListener;

use orch_raft::disk::rocks::RocksDisk;

use super::*;

/// A data directory with a store that no member has used, and files of others.
fn data() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    drop(RocksDisk::open(&root.path().join(STORE)).unwrap());
    for name in ["brand", "endpoints.json", "admin.conf", "notes"] {
        std::fs::write(root.path().join(name), "x").unwrap();
    }
    root
}

fn run(data_dir: &Path, confirm: Option<&str>, typed: &str) -> (Result<(), ResetError>, String) {
    let arguments = ResetArgs { data_dir: data_dir.to_owned(), confirm: confirm.map(str::to_owned) };
    let mut out = Vec::new();
    let done = reset(&arguments, &mut typed.as_bytes(), &mut out);
    (done, String::from_utf8(out).unwrap())
}

fn names(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn another_word_removes_nothing() {
    let root = data();
    for (confirm, typed) in [(Some("b"), ""), (None, "b\n"), (None, "")] {
        let (done, shown) = run(root.path(), confirm, typed);
        assert!(matches!(done, Err(ResetError::Unconfirmed { .. })), "{done:?}");
        assert!(shown.contains("no member has used"), "{shown}");
        assert_eq!(names(root.path()), ["admin.conf", "brand", "endpoints.json", "notes", "store"]);
    }
    assert!(RocksDisk::open(&root.path().join(STORE)).is_ok(), "the store is as it was");
}

#[test]
fn the_store_goes_and_what_is_no_data_stays() {
    let root = data();
    let socket = UnixListener::bind(root.path().join(SOCKET)).unwrap();
    drop(socket);
    let word = root.path().display().to_string();
    let (done, shown) = run(root.path(), None, &format!("{word}\n"));
    done.unwrap();
    assert!(shown.contains("Type ") && shown.contains("removed the data"), "{shown}");
    assert_eq!(names(root.path()), ["admin.conf", "notes"]);
}

#[test]
fn a_store_that_was_put_aside_stays_and_is_named() {
    let root = data();
    std::fs::create_dir(root.path().join("store.before")).unwrap();
    let (done, shown) = run(root.path(), Some(&root.path().display().to_string()), "");
    done.unwrap();
    let before = root.path().join("store.before");
    assert!(shown.contains(&format!("left {}: another store", before.display())), "{shown}");
    assert!(!shown.contains("store.new"), "{shown}");
    assert_eq!(names(root.path()), ["admin.conf", "notes", "store.before"]);
}

#[test]
fn a_file_with_the_name_of_the_socket_stays() {
    let root = data();
    std::fs::write(root.path().join(SOCKET), "x").unwrap();
    run(root.path(), Some(&root.path().display().to_string()), "").0.unwrap();
    assert_eq!(names(root.path()), ["admin.conf", "notes", "orch.sock"]);
}

#[test]
fn a_store_in_use_is_refused_and_the_holder_named() {
    let root = data();
    let _open = RocksDisk::open(&root.path().join(STORE)).unwrap();
    let (done, shown) = run(root.path(), Some(&root.path().display().to_string()), "");
    let told = done.unwrap_err().to_string();
    assert!(told.contains("is in use by process") && shown.is_empty(), "{told} {shown}");
}

#[test]
fn a_directory_without_a_store_is_refused_and_none_is_made() {
    let root = tempfile::tempdir().unwrap();
    let told = run(&root.path().join("mistyped"), Some("a"), "").0.unwrap_err().to_string();
    assert!(told.contains("holds no member's data"), "{told}");
    assert_eq!(names(root.path()), Vec::<String>::new());
}

#[test]
fn a_store_that_cannot_be_read_is_removed_by_the_name_of_its_directory() {
    let root = data();
    std::fs::remove_file(root.path().join("store/CURRENT")).unwrap();
    let (done, shown) = run(root.path(), Some(&root.path().display().to_string()), "");
    done.unwrap();
    assert!(shown.contains("cannot be read"), "{shown}");
    assert_eq!(names(root.path()), ["admin.conf", "notes"]);
}

#[test]
fn a_member_is_described() {
    let identity =
        DiskIdentity { name: "b".into(), cluster: Some("cluster-7".into()), brand: Some("orch".into()) };
    let text = description(Path::new("/data"), &Found::Member { identity, last_index: Some(42) });
    for expected in ["b (id ", "cluster-7 (orch)", "last index  42", "orch cluster remove b"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}
