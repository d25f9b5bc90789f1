//! Reloads that are refused because stored records could not be read after the next start.

use super::*;

/// A key of the file whose secret is 32 bytes of the base64 digit `digit`.
fn local(name: &str, digit: char) -> String {
    let secret: String = std::iter::repeat_n(digit, 43).collect();
    format!("{{secretbox: {{keys: [{{name: {name}, secret: {secret}=}}]}}}}")
}

#[test]
fn another_secret_under_the_name_of_a_key_in_use_is_refused() {
    let place = Place::new();
    place.configure(&[&local("key", 'A')]);
    let (keys, disk) = place.open().unwrap();
    write(&disk, "a");
    let reload = || keys.reload(|| disk.needed_keys());
    for providers in [vec![local("key", 'E')], vec![local("new", 'Q'), local("key", 'E')]] {
        let providers: Vec<&str> = providers.iter().map(String::as_str).collect();
        place.configure(&providers);
        let error = reload().unwrap_err();
        assert!(matches!(&error, EncryptionError::OtherSecret(key) if key == "secretbox:key"), "{error}");
    }
    write(&disk, "b");
    assert_eq!(names(&disk), ["a", "b"]);
    drop((disk, keys));
    let told = place.refusal();
    assert!(told.contains("key secretbox:key cannot be used: it has another secret"), "{told}");
    place.configure(&[&local("key", 'A')]);
    let (keys, disk) = place.open().unwrap();
    assert_eq!(names(&disk), ["a", "b"]);

    // A name that no record needs any more may be given again.
    let reload = || keys.reload(|| disk.needed_keys());
    place.configure(&[&local("new", 'Q'), &local("key", 'A')]);
    assert_eq!(reload().unwrap(), Reload::Taken);
    assert_eq!(disk.rewrite(&mut |_| ControlFlow::Continue(())).unwrap().unneeded, ["secretbox:key"]);
    place.configure(&[&local("new", 'Q')]);
    assert_eq!(reload().unwrap(), Reload::Taken);
    place.configure(&[&local("key", 'E'), &local("new", 'Q')]);
    assert_eq!(reload().unwrap(), Reload::Taken);
    write(&disk, "c");
    assert_eq!(names(&disk), ["a", "b", "c"]);
}

#[test]
fn a_plugin_that_moved_and_cannot_open_stored_keys_changes_nothing() {
    let place = Place::new();
    let plugin = Pretend::start(place.path(), "one");
    let (keys, disk) = place.open().unwrap();
    write(&disk, "a");
    let key = writing_key(&keys);
    let elsewhere = tempfile::tempdir().unwrap();
    let other = Pretend::start(elsewhere.path(), "other");
    place.configure(&[&plugin_in(elsewhere.path(), "2s")]);
    let reload = || keys.reload(|| disk.needed_keys());
    let error = reload().unwrap_err().to_string();
    assert!(error.contains(&key) && error.contains("there is no such key"), "{error}");
    assert_eq!(writing_key(&keys), key, "new records get no key of the refused plugin");
    // The same id is not yet the same key.
    other.behaviour.lock().turn_to("one");
    other.behaviour.lock().opened = Some(vec![1; 32]);
    let error = reload().unwrap_err().to_string();
    assert!(error.contains(&key) && error.contains("it opened the key to another one"), "{error}");
    write(&disk, "b");
    other.behaviour.lock().opened = None;
    assert_eq!(reload().unwrap(), Reload::Taken);
    assert_eq!(writing_key(&keys), key, "the stored key is used again");
    write(&disk, "c");
    drop((disk, keys, plugin));
    let (_, disk) = place.open().unwrap();
    assert_eq!(names(&disk), ["a", "b", "c"]);
    drop((disk, other));
}

#[test]
fn the_revision_changes_with_each_change_of_the_writing_key() {
    let place = Place::new();
    let plugin = Pretend::start(place.path(), "one");
    let (keys, disk) = place.open().unwrap();
    let (first, old) = (keys.revision(), writing_key(&keys));
    plugin.behaviour.lock().turn_to("two");
    wait_until("a new data key", || writing_key(&keys) != old);
    wait_until("a new revision", || keys.revision() != first);
    let second = keys.revision();
    place.configure(&[&local("local", 'A')]);
    assert_eq!(keys.reload(|| disk.needed_keys()).unwrap(), Reload::Taken);
    assert!(keys.revision() > second);
    drop((disk, plugin));
}
