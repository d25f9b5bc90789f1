//! Stores of one file that take each other's place, and what a crash behind each step leaves.

use super::*;

const TOKEN: &str = "token of the act";

/// A data directory whose store has one file, with `content`.
fn data_dir(content: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    make(&root.path().join(STORE), content);
    root
}

fn make(store: &Path, content: &str) {
    drop(DataDirectory::lock(store).unwrap());
    fs::write(store.join("file"), content).unwrap();
}

fn content(root: &Path, store: &str) -> Option<String> {
    fs::read_to_string(root.join(store).join("file")).ok()
}

fn names(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn of_survivor(root: &Path) -> Result<Remaking, RemakeError> {
    Remaking::of_survivor(root, TOKEN)
}

fn of_nothing(root: &Path) -> Result<Remaking, RemakeError> {
    Remaking::of_nothing(root, TOKEN)
}

#[test]
fn the_new_store_takes_the_place_of_the_old_one_which_is_kept() {
    let root = data_dir("old");
    let remaking = of_survivor(root.path()).unwrap();
    let refused = Remaking::require_whole(root.path()).unwrap_err().to_string();
    assert!(
        refused.contains("`orch cluster recover` is under way") && refused.contains("run it again"),
        "{refused}"
    );
    assert!(matches!(Remaking::undo_interrupted(root.path()), Err(RemakeError::InUse { .. })));
    make(&remaking.draft(), "new");
    assert_eq!(remaking.finish().unwrap(), Some(root.path().join(BEFORE)));
    assert_eq!(names(root.path()), [STORE, BEFORE]);
    assert_eq!(content(root.path(), STORE).unwrap(), "new");
    assert_eq!(content(root.path(), BEFORE).unwrap(), "old");
    Remaking::require_whole(root.path()).unwrap();
    let again = of_survivor(root.path()).unwrap_err().to_string();
    assert!(again.contains("store.before is still there"), "{again}");
}

#[test]
fn a_store_is_never_replaced_by_a_restore() {
    let root = data_dir("old");
    assert!(matches!(of_nothing(root.path()), Err(RemakeError::HasStore { .. })));
    assert_eq!(names(root.path()), [STORE]);
    let empty = root.path().join("elsewhere/deep");
    assert!(matches!(of_survivor(&empty), Err(RemakeError::NoStore { .. })));
    let remaking = of_nothing(&empty).unwrap();
    make(&remaking.draft(), "new");
    assert_eq!(remaking.finish().unwrap(), None);
    assert_eq!(names(&empty), [STORE]);

    let late = tempfile::tempdir().unwrap();
    let remaking = of_nothing(late.path()).unwrap();
    make(&remaking.draft(), "new");
    make(&late.path().join(STORE), "of a node that began before the mark");
    assert!(matches!(remaking.finish(), Err(RemakeError::HasStore { .. })));
    assert_eq!(names(late.path()), [STORE]);
    assert!(content(late.path(), STORE).unwrap().starts_with("of a node"));
}

/// Every step after which a crash can leave a recovery: the next one finds the old store at its place.
#[test]
fn an_interrupted_recovery_is_taken_back() {
    for last in
        [None, Some(None), Some(Some(Step::Proven)), Some(Some(Step::OldAway)), Some(Some(Step::NewIn))]
    {
        let root = data_dir("old");
        let remaking = of_survivor(root.path()).unwrap();
        if last.is_some() {
            make(&remaking.draft(), "new");
        }
        match last.flatten() {
            Some(last) => drop(remaking.finish_through(last).unwrap()),
            None => drop(remaking),
        }
        assert_eq!(
            names(root.path()).contains(&BEFORE.to_owned()),
            last.flatten() >= Some(Step::OldAway),
            "{last:?}"
        );
        assert!(Remaking::require_whole(root.path()).is_err(), "after {last:?}");
        assert!(of_survivor(root.path()).is_err(), "after {last:?}");
        Remaking::undo_interrupted(root.path()).unwrap();
        assert_eq!(names(root.path()), [STORE], "after {last:?}");
        assert_eq!(content(root.path(), STORE).unwrap(), "old", "after {last:?}");
    }
}

#[test]
fn an_interrupted_restore_begins_again() {
    for last in
        [None, Some(None), Some(Some(Step::Proven)), Some(Some(Step::OldAway)), Some(Some(Step::NewIn))]
    {
        let root = tempfile::tempdir().unwrap();
        let remaking = of_nothing(root.path()).unwrap();
        if last.is_some() {
            make(&remaking.draft(), "half");
        }
        match last.flatten() {
            Some(last) => drop(remaking.finish_through(last).unwrap()),
            None => drop(remaking),
        }
        let refused = Remaking::require_whole(root.path()).unwrap_err().to_string();
        assert!(refused.contains("`orch snapshot restore` is under way"), "after {last:?}: {refused}");
        let remaking = of_nothing(root.path()).unwrap();
        assert_eq!(names(root.path()), [MARK], "after {last:?}");
        remaking.abandon().unwrap();
        assert_eq!(names(root.path()), [""; 0], "after {last:?}");
    }
}

/// A mark that was never written whole tells nothing of the stores: least of all that one of an earlier recovery is to come back.
#[test]
fn an_empty_mark_puts_no_store_back() {
    for text in ["", "orch cluster recover\n", "orch cluster recover\ntok", "orch something\ntoken\n"] {
        let root = data_dir("in use since");
        make(&root.path().join(BEFORE), "given up");
        make(&root.path().join(DRAFT), "half");
        fs::write(root.path().join(MARK), text).unwrap();
        let refused = Remaking::require_whole(root.path()).unwrap_err().to_string();
        assert!(refused.contains("orch cluster recover"), "{refused}");
        Remaking::undo_interrupted(root.path()).unwrap();
        assert_eq!(names(root.path()), [STORE, BEFORE], "{text:?}");
        assert_eq!(content(root.path(), STORE).unwrap(), "in use since", "{text:?}");
        assert_eq!(content(root.path(), BEFORE).unwrap(), "given up", "{text:?}");
    }
    let root = tempfile::tempdir().unwrap();
    make(&root.path().join(BEFORE), "given up, or not");
    fs::write(root.path().join(MARK), "").unwrap();
    let unclear = Remaking::undo_interrupted(root.path()).unwrap_err();
    assert!(matches!(unclear, RemakeError::Unclear { .. }), "{unclear}");
    assert_eq!(names(root.path()), [MARK, BEFORE]);
}

#[test]
fn a_store_without_the_token_is_not_taken_away() {
    let root = tempfile::tempdir().unwrap();
    drop(of_nothing(root.path()).unwrap());
    make(&root.path().join(STORE), "of somebody");
    assert!(matches!(of_nothing(root.path()), Err(RemakeError::HasStore { .. })));
    assert_eq!(names(root.path()), [STORE]);

    let root = data_dir("old");
    let remaking = of_survivor(root.path()).unwrap();
    make(&remaking.draft(), "new");
    drop(remaking.finish_through(Step::OldAway).unwrap());
    make(&root.path().join(STORE), "of somebody");
    fs::write(root.path().join(STORE).join(PROOF), "token of another act").unwrap();
    let unclear = Remaking::undo_interrupted(root.path()).unwrap_err();
    assert!(matches!(unclear, RemakeError::Unclear { .. }), "{unclear}");
    assert_eq!(content(root.path(), STORE).unwrap(), "of somebody");
    assert_eq!(content(root.path(), BEFORE).unwrap(), "old");
}

#[test]
fn the_only_store_is_not_taken_away() {
    let root = data_dir("old");
    let remaking = of_survivor(root.path()).unwrap();
    make(&remaking.draft(), "new");
    drop(remaking.finish_through(Step::NewIn).unwrap());
    fs::remove_dir_all(root.path().join(BEFORE)).unwrap();
    let unclear = Remaking::undo_interrupted(root.path()).unwrap_err();
    assert!(matches!(unclear, RemakeError::Unclear { .. }), "{unclear}");
    assert_eq!(content(root.path(), STORE).unwrap(), "new");
}

#[test]
fn a_store_in_use_is_not_taken_away() {
    let root = data_dir("old");
    let remaking = of_survivor(root.path()).unwrap();
    make(&remaking.draft(), "new");
    drop(remaking.finish_through(Step::NewIn).unwrap());
    let used = DataDirectory::lock(&root.path().join(STORE)).unwrap();
    let refused = Remaking::undo_interrupted(root.path()).unwrap_err();
    assert!(matches!(refused, RemakeError::Store(OpenError::InUse { .. })), "{refused}");
    assert_eq!(content(root.path(), STORE).unwrap(), "new");
    drop(used);
    Remaking::undo_interrupted(root.path()).unwrap();
    assert_eq!(content(root.path(), STORE).unwrap(), "old");
}

#[test]
fn an_act_that_fails_leaves_everything_as_it_was() {
    // A file is where the new store would be.
    let root = data_dir("old");
    fs::write(root.path().join(DRAFT), "a file").unwrap();
    assert!(matches!(of_survivor(root.path()), Err(RemakeError::System { action: "remove", .. })));
    assert_eq!(names(root.path()), [STORE, DRAFT]);
    fs::remove_file(root.path().join(DRAFT)).unwrap();
    // A directory is where the mark would be written.
    fs::create_dir(root.path().join("REMAKING.new")).unwrap();
    assert!(matches!(of_survivor(root.path()), Err(RemakeError::System { action: "open", .. })));
    assert_eq!(names(root.path()), ["REMAKING.new", STORE]);
    fs::remove_dir(root.path().join("REMAKING.new")).unwrap();
    // No new store was made.
    let failed = of_survivor(root.path()).unwrap().finish().unwrap_err();
    assert!(matches!(failed, RemakeError::System { action: "write", .. }), "{failed}");
    assert_eq!(names(root.path()), [STORE]);
    assert_eq!(content(root.path(), STORE).unwrap(), "old");
    // The part of a mark that a crash left is overwritten.
    fs::write(root.path().join("REMAKING.new"), "orch cluster recover\na longer token than that of this act")
        .unwrap();
    Remaking::require_whole(root.path()).unwrap();
    let remaking = of_survivor(root.path()).unwrap();
    assert_eq!(
        fs::read_to_string(root.path().join(MARK)).unwrap(),
        format!("orch cluster recover\n{TOKEN}\n")
    );
    remaking.abandon().unwrap();
    assert_eq!(names(root.path()), [STORE]);
}
