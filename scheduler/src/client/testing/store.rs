//! The store of the small API server: objects as JSON, one revision for all, and the history of changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Where an object is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) plural: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Place {
    pub(crate) fn new(plural: &str, namespace: &str, name: &str) -> Self {
        Self { plural: plural.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// A change in the history.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    pub(crate) revision: u64,
    pub(crate) kind: &'static str,
    pub(crate) place: Place,
    pub(crate) object: Value,
}

/// The refusal of a write: code, reason, message.
pub(crate) type Refused = (u16, &'static str, String);

/// The store. Clones are the same store.
#[derive(Clone, Default)]
pub(crate) struct Store {
    inner: Arc<Mutex<Inner>>,
    changed: Arc<Changed>,
}

struct Changed(watch::Sender<u64>);

impl Default for Changed {
    fn default() -> Self {
        Self(watch::channel(0).0)
    }
}

#[derive(Default)]
struct Inner {
    revision: u64,
    serial: u64,
    objects: BTreeMap<Place, Value>,
    history: Vec<Logged>,
    // History up to here is gone.
    compacted: u64,
    // Raised to break all watches.
    breaks: u64,
}

impl Store {
    /// Creates or replaces an object, without conditions.
    pub(crate) fn put(&self, plural: &str, object: Value) -> Value {
        let metadata = &object["metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
        let place = Place::new(plural, &text("namespace"), &text("name"));
        let mut inner = self.inner.lock();
        let stored = inner.store(place, object);
        drop(inner);
        self.tell();
        stored
    }

    pub(crate) fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        self.inner.lock().objects.get(&Place::new(plural, namespace, name)).cloned()
    }

    pub(crate) fn remove(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let removed = self.inner.lock().remove(&Place::new(plural, namespace, name));
        self.tell();
        removed
    }

    /// A name that no other object has.
    pub(crate) fn generated_name(&self, prefix: &str) -> String {
        let mut inner = self.inner.lock();
        inner.serial += 1;
        format!("{prefix}{}", inner.serial)
    }

    /// Creates an object.
    pub(crate) fn create(&self, place: &Place, object: Value) -> Result<Value, Refused> {
        let mut inner = self.inner.lock();
        if inner.objects.contains_key(place) {
            return Err((409, "AlreadyExists", format!("{} exists", place.name)));
        }
        let stored = inner.store(place.clone(), object);
        drop(inner);
        self.tell();
        Ok(stored)
    }

    /// Changes an object by `change`, which sees its present state and may refuse.
    pub(crate) fn change(
        &self,
        place: &Place,
        change: impl FnOnce(&Value) -> Result<Value, Refused>,
    ) -> Result<Value, Refused> {
        let mut inner = self.inner.lock();
        let Some(before) = inner.objects.get(place) else {
            return Err((404, "NotFound", format!("{} not found", place.name)));
        };
        let after = change(before)?;
        let stored = inner.store(place.clone(), after);
        drop(inner);
        self.tell();
        Ok(stored)
    }

    /// Deletes an object of this UID, or of any if that is empty.
    pub(crate) fn delete(&self, place: &Place, uid: &str) -> Result<Value, Refused> {
        let mut inner = self.inner.lock();
        let Some(before) = inner.objects.get(place) else {
            return Err((404, "NotFound", format!("{} not found", place.name)));
        };
        if !uid.is_empty() && before["metadata"]["uid"] != uid {
            return Err((409, "Conflict", "another uid".to_owned()));
        }
        let removed = inner.remove(place).expect("it was there");
        drop(inner);
        self.tell();
        Ok(removed)
    }

    /// All objects of a kind in the order of their names, and the revision.
    pub(crate) fn list(&self, plural: &str) -> (u64, Vec<(Place, Value)>) {
        let inner = self.inner.lock();
        let of_kind = inner.objects.iter().filter(|(place, _)| place.plural == plural);
        (inner.revision, of_kind.map(|(place, object)| (place.clone(), object.clone())).collect())
    }

    /// Changes of a kind after `revision`, up to the present one; `None` if they are gone.
    pub(crate) fn since(&self, plural: &str, revision: u64) -> Option<(u64, Vec<Logged>)> {
        let inner = self.inner.lock();
        if revision < inner.compacted {
            return None;
        }
        let new = inner.history.iter().filter(|one| one.revision > revision && one.place.plural == plural);
        Some((inner.revision, new.cloned().collect()))
    }

    /// Forgets the history.
    pub(crate) fn compact(&self) {
        let mut inner = self.inner.lock();
        inner.compacted = inner.revision;
        inner.history.clear();
    }

    /// Breaks all watches.
    pub(crate) fn break_watches(&self) {
        self.inner.lock().breaks += 1;
        self.tell();
    }

    pub(crate) fn breaks(&self) -> u64 {
        self.inner.lock().breaks
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.0.subscribe()
    }

    fn tell(&self) {
        self.changed.0.send_modify(|count| *count += 1);
    }
}

impl Inner {
    fn store(&mut self, place: Place, mut object: Value) -> Value {
        self.revision += 1;
        let before = self.objects.get(&place);
        let metadata = &mut object["metadata"];
        metadata["name"] = json!(place.name);
        if !place.namespace.is_empty() {
            metadata["namespace"] = json!(place.namespace);
        }
        match before {
            Some(before) => metadata["uid"] = before["metadata"]["uid"].clone(),
            None if metadata["uid"].is_string() => {}
            None => {
                self.serial += 1;
                metadata["uid"] = json!(format!("uid-{}", self.serial));
            }
        }
        metadata["resourceVersion"] = json!(self.revision.to_string());
        let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
        self.history.push(Logged {
            revision: self.revision,
            kind,
            place: place.clone(),
            object: object.clone(),
        });
        self.objects.insert(place, object.clone());
        object
    }

    fn remove(&mut self, place: &Place) -> Option<Value> {
        let mut object = self.objects.remove(place)?;
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let place = place.clone();
        self.history.push(Logged { revision: self.revision, kind: "DELETED", place, object: object.clone() });
        Some(object)
    }
}
