//! Results of conversions by other servers, kept with their objects while these are unchanged.
//!
//! Owns the bound of what is kept, and the sharing of a question that is under way: watches that meet the same change ask once. Lists and
//! watches read what is kept, as those of the reference read its cache; a get and a write ask anew, and what they learn is kept.
//!
//! An entry belongs to one block of memory, that of the object, and to the form of one version as one definition declares it: another
//! object, a changed one and a changed definition have others. So an entry is never wrong, also not where a state was revoked; what
//! belongs to objects and definitions that are gone is not found again and leaves by chance.
//!
//! Invariant: a result that a stopped request has computed, which may not be whole, is not kept.

use std::collections::HashMap;
use std::fmt;
use std::mem::size_of;
use std::sync::{Arc, Weak};

use futures::future::{BoxFuture, FutureExt, Shared, WeakShared};
use orch_raft::object::SharedObject;
use orch_raft::{Object, WrittenAs};
use orch_schema::budget::count_step;
use parking_lot::Mutex;

use crate::error::ApiError;

/// Bytes of what is kept: 16,000 objects of two kilobytes, which no list then asks about.
pub(crate) const KEPT_BYTES_MAX: usize = 32 << 20;

/// Bytes of an entry beside its object's JSON: keys, index and counters.
const ENTRY_BYTES: usize = 600;

/// Objects in their new form, or the failure of all of them.
pub(crate) type Answered = Result<Arc<Vec<SharedObject>>, ApiError>;

/// A question under way. Each holder may drive it.
pub(crate) type Asking = Shared<BoxFuture<'static, Answered>>;

/// An object in another form, as far as it is known.
pub(crate) enum Known {
    /// Its new form.
    Shown(SharedObject),
    /// It is asked about: its place in the answer.
    Asked(Asking, usize),
}

/// The results of one node.
pub struct Kept {
    entries: Mutex<Entries>,
    bytes_max: usize,
}

/// Addresses of the object and of the form, which the entry keeps from being used again.
type Key = [usize; 2];

#[derive(Default)]
struct Entries {
    all: HashMap<Key, Entry>,
    /// The keys in any order, each at the place that its entry knows.
    keys: Vec<Key>,
    bytes: usize,
    /// State of the choice of what leaves.
    chance: u64,
}

struct Entry {
    place: usize,
    bytes: usize,
    result: Held,
    object: Weak<Object>,
    _form: Arc<WrittenAs>,
}

enum Held {
    Shown(SharedObject),
    /// Gone where everybody that asked has gone.
    Asked(WeakShared<BoxFuture<'static, Answered>>, usize),
}

impl Default for Kept {
    fn default() -> Self {
        Kept::within(KEPT_BYTES_MAX)
    }
}

fn key(form: &Arc<WrittenAs>, object: &SharedObject) -> Key {
    #[cfg(any(test, feature = "simulation"))]
    if super::planted::has(super::ConversionBug::KeepsByUid) {
        let of_uid = object
            .index
            .uid
            .bytes()
            .fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
        return [of_uid, Arc::as_ptr(form).addr()];
    }
    [Arc::as_ptr(object).addr(), Arc::as_ptr(form).addr()]
}

impl Kept {
    /// Keeps `bytes_max` bytes.
    pub(crate) fn within(bytes_max: usize) -> Kept {
        Kept { entries: Mutex::default(), bytes_max }
    }

    /// `object` in the form `form`.
    pub(crate) fn find(&self, form: &Arc<WrittenAs>, object: &SharedObject) -> Option<SharedObject> {
        match &self.entries.lock().all.get(&key(form, object))?.result {
            Held::Shown(shown) => Some(shown.clone()),
            Held::Asked(..) => None,
        }
    }

    /// Keeps `shown`, each the form `form` of the object at its place. Called behind the work that made them, on the same thread.
    pub(crate) fn keep(&self, form: &Arc<WrittenAs>, objects: &[SharedObject], shown: &[SharedObject]) {
        // Once a loop of a request was stopped, each later step says so.
        if shown.len() != objects.len() || !count_step() {
            return;
        }
        let mut entries = self.entries.lock();
        for (object, shown) in objects.iter().zip(shown) {
            let bytes = ENTRY_BYTES + shown.json.len();
            entries.put(form, object, Held::Shown(shown.clone()), bytes, self.bytes_max);
        }
    }

    /// `objects` in the form `form`. Those that are neither known nor under way are asked about together with `ask`.
    pub(crate) fn claim(
        self: &Arc<Self>,
        form: &Arc<WrittenAs>,
        objects: &[SharedObject],
        ask: impl FnOnce(Vec<SharedObject>) -> BoxFuture<'static, Result<Vec<SharedObject>, ApiError>>,
    ) -> Vec<Known> {
        let mut entries = self.entries.lock();
        let found: Vec<Option<Known>> =
            objects.iter().map(|object| entries.known(&key(form, object))).collect();
        let unknown = objects.iter().zip(&found).filter(|(_, found)| found.is_none());
        let unknown: Vec<SharedObject> = unknown.map(|(object, _)| object.clone()).collect();
        if unknown.is_empty() {
            return found.into_iter().flatten().collect();
        }
        let asking = self.asking(form.clone(), unknown.clone(), ask(unknown.clone()));
        if let Some(weak) = asking.downgrade() {
            for (at, object) in unknown.iter().enumerate() {
                entries.put(form, object, Held::Asked(weak.clone(), at), ENTRY_BYTES, self.bytes_max);
            }
        }
        let mut places = 0..;
        let own = || Known::Asked(asking.clone(), places.next().unwrap_or_default());
        let mut own = own;
        found.into_iter().map(|found| found.unwrap_or_else(&mut own)).collect()
    }

    /// `pending`, which keeps what it learns of `objects`.
    fn asking(
        self: &Arc<Self>,
        form: Arc<WrittenAs>,
        objects: Vec<SharedObject>,
        pending: BoxFuture<'static, Result<Vec<SharedObject>, ApiError>>,
    ) -> Asking {
        let kept = self.clone();
        let asking = async move {
            let answered = pending.await;
            match &answered {
                Ok(shown) => kept.keep(&form, &objects, shown),
                Err(_) => kept.forget(&form, &objects),
            }
            answered.map(Arc::new)
        };
        asking.boxed().shared()
    }

    /// Removes what is noted of questions about `objects`: whoever needs them next asks again.
    fn forget(&self, form: &Arc<WrittenAs>, objects: &[SharedObject]) {
        let mut entries = self.entries.lock();
        for object in objects {
            let key = key(form, object);
            if entries.all.get(&key).is_some_and(|entry| matches!(entry.result, Held::Asked(..))) {
                entries.remove(&key);
            }
        }
    }
}

impl Entries {
    fn known(&self, key: &Key) -> Option<Known> {
        match &self.all.get(key)?.result {
            Held::Shown(shown) => Some(Known::Shown(shown.clone())),
            Held::Asked(asking, at) => Some(Known::Asked(asking.upgrade()?, *at)),
        }
    }

    fn put(
        &mut self,
        form: &Arc<WrittenAs>,
        object: &SharedObject,
        result: Held,
        bytes: usize,
        bytes_max: usize,
    ) {
        let key = key(form, object);
        self.remove(&key);
        if bytes > bytes_max {
            return;
        }
        while self.bytes + bytes > bytes_max {
            self.remove_any();
        }
        let place = self.keys.len();
        self.keys.push(key);
        self.bytes += bytes;
        let (object, form) = (Arc::downgrade(object), form.clone());
        self.all.insert(key, Entry { place, bytes, result, object, _form: form });
    }

    fn remove(&mut self, key: &Key) {
        let Some(Entry { place, bytes, .. }) = self.all.remove(key) else { return };
        self.bytes -= bytes;
        self.keys.swap_remove(place);
        if let Some(moved) = self.keys.get(place)
            && let Some(entry) = self.all.get_mut(moved)
        {
            entry.place = place;
        }
    }

    /// Removes one of two entries that chance names: the one whose object is gone, if any. In the order of their coming, a list that is
    /// larger than the bound would find nothing the next time.
    fn remove_any(&mut self) {
        let mut any = || {
            // A linear congruence: it has to be uneven, and nobody gains by knowing it.
            self.chance =
                self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(self.chance >> 33).unwrap_or_default() % self.keys.len().max(1);
            self.keys.get(at).copied()
        };
        let (Some(one), Some(other)) = (any(), any()) else { return };
        let is_gone = |key: &Key| self.all.get(key).is_some_and(|entry| entry.object.strong_count() == 0);
        let leaves = if is_gone(&other) { other } else { one };
        self.remove(&leaves);
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries.lock();
        f.debug_struct("Kept").field("entries", &entries.all.len()).field("bytes", &entries.bytes).finish()
    }
}

const _: () = assert!(size_of::<Entry>() + 2 * size_of::<Key>() + size_of::<Object>() < ENTRY_BYTES);

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use orch_raft::{Index, Revision};

    use super::*;

    fn object(bytes: usize) -> SharedObject {
        Arc::new(Object {
            revision: Revision(1),
            created: Revision(1),
            written_ms: 0,
            json: vec![b' '; bytes].into(),
            revision_at: 0,
            index: Index::default(),
            protobuf: OnceLock::new(),
        })
    }

    fn form() -> Arc<WrittenAs> {
        Arc::new(WrittenAs { version: "v2".into(), definition: Revision(1) })
    }

    #[test]
    fn a_result_belongs_to_one_object_and_one_form_of_one_definition() {
        let (kept, of, one, shown) = (Kept::default(), form(), object(10), object(10));
        kept.keep(&of, std::slice::from_ref(&one), std::slice::from_ref(&shown));
        assert!(Arc::ptr_eq(&kept.find(&of, &one).unwrap(), &shown));
        assert!(kept.find(&form(), &one).is_none(), "an equal form of a newer definition");
        assert!(kept.find(&of, &object(10)).is_none(), "an equal object");
        let newer = object(11);
        kept.keep(&of, std::slice::from_ref(&one), std::slice::from_ref(&newer));
        assert!(Arc::ptr_eq(&kept.find(&of, &one).unwrap(), &newer));
        assert_eq!(kept.entries.lock().bytes, ENTRY_BYTES + 11);
    }

    #[test]
    fn kept_results_stay_within_their_bound_and_some_of_a_larger_list_are_found_again() {
        const ROOM: usize = 100;
        let (kept, of) = (Kept::within(ROOM * (ENTRY_BYTES + 10)), form());
        let objects: Vec<SharedObject> = (0..2 * ROOM).map(|_| object(10)).collect();
        for _ in 0..3 {
            for object in &objects {
                kept.keep(&of, std::slice::from_ref(object), &[self::object(10)]);
            }
        }
        let found = objects.iter().filter(|object| kept.find(&of, object).is_some()).count();
        assert_eq!(found, ROOM);
        let first = &objects[..ROOM];
        assert!(first.iter().any(|object| kept.find(&of, object).is_some()), "not only the newest ones stay");
        let entries = kept.entries.lock();
        assert!(entries.bytes <= kept.bytes_max && entries.keys.len() == entries.all.len());
        assert!(entries.all.iter().all(|(key, entry)| entries.keys[entry.place] == *key));
        drop(entries);
        kept.keep(&of, &[object(1)], &[object(kept.bytes_max)]);
        assert_eq!(kept.entries.lock().all.len(), ROOM, "one that is too large moves nothing out");
    }

    #[tokio::test]
    async fn a_question_under_way_is_shared_and_a_failed_one_is_asked_again() {
        let (kept, of, objects) = (Arc::new(Kept::default()), form(), [object(1), object(2)]);
        let asked = Arc::new(AtomicUsize::new(0));
        let claim = |objects: &[SharedObject], answer: Result<(), ApiError>| {
            let asked = asked.clone();
            kept.claim(&of, objects, move |unknown| {
                asked.fetch_add(1, Ordering::SeqCst);
                std::future::ready(answer.map(|()| unknown)).boxed()
            })
        };
        let failure = ApiError::Unconverted("no".to_owned());
        let first = claim(&objects[..1], Err(failure.clone()));
        let both = claim(&objects, Err(failure.clone()));
        assert_eq!(asked.load(Ordering::SeqCst), 2, "the second asks for the other object alone");
        for known in first.iter().chain(&both) {
            let Known::Asked(asking, 0) = known else { panic!("each stands alone in its question") };
            assert_eq!(asking.clone().await.unwrap_err(), failure);
        }
        let again = claim(&objects, Ok(()));
        assert_eq!(asked.load(Ordering::SeqCst), 3);
        let Known::Asked(asking, 1) = &again[1] else { panic!("the second of its question") };
        assert!(Arc::ptr_eq(&asking.clone().await.unwrap()[1], &objects[1]));
        assert!(claim(&objects, Ok(())).iter().all(|known| matches!(known, Known::Shown(_))));
        // Where everybody that asked has gone, the question is asked again.
        let third = [object(3)];
        drop(claim(&third, Ok(())));
        drop(claim(&third, Ok(())));
        assert_eq!(asked.load(Ordering::SeqCst), 5);
    }
}
