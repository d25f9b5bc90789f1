//! The width of a request: how many seats it takes.
//!
//! Owns the estimate, as in the reference: a list, and a watch with initial events, takes a seat for each 100 kB
//! that it goes through, up to a megabyte; a write one for each ten watches that get its event whatever its object has (those of
//! everything, of its namespace and of itself, and of values that most objects have, not those of other nodes' pods);
//! everything else one. A watch without a version counts as one with initial events, which it gets. Beyond
//! the reference, a write whose large body is still to come takes two: its client decides how long it keeps them, and a
//! flow's wide requests share half of the seats. The estimate is made before the request is looked at closely, and errs on
//! the cheap side.

use std::sync::Arc;

use hashbrown::HashMap;
use orch_raft::{Interest, ObjectPath};
use parking_lot::RwLock;

use super::FlowRequest;
use crate::authz::Attributes;
use crate::follow::shrink;
use crate::request::{Query, Verb};

/// Bytes of objects for each seat.
const BYTES_PER_SEAT: usize = 100_000;

/// Most bytes that count: lists are sent piece by piece.
const BYTES_MAX: usize = 1_000_000;

/// Seats of a write whose body is still to come: the fewest of a wide request.
const SEATS_WITH_BODY: u32 = 2;

/// Watches of a written object for each seat.
const WATCHES_PER_SEAT: u32 = 10;

/// The estimate for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    /// Its seats, before the bounds of its level.
    pub seats: u32,
    /// For a write: the watches that get its event.
    pub watches: Option<u32>,
}

/// Estimates the work of a request.
pub(super) fn estimate(request: FlowRequest<'_>, watchers: &Watchers) -> Estimate {
    let seats = |seats| Estimate { seats, watches: None };
    let (Some(verb), Attributes::Resource(asked)) = (request.verb, request.asked) else { return seats(1) };
    match verb {
        // Restricted to one name, by path or field selector.
        Verb::List | Verb::Watch | Verb::DeleteCollection if !asked.name.is_empty() => seats(1),
        Verb::Watch if !has_initial_events(request.query) => seats(1),
        Verb::List | Verb::Watch | Verb::DeleteCollection => {
            let collection = request.applied.state.collection(request.storage);
            let all = collection.len();
            let limit = request.query.integer("limit").ok().flatten().filter(|limit| *limit > 0);
            let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(all).min(all);
            let bytes = collection.object_bytes() / all.max(1) * limit;
            seats(u32::try_from(bytes.min(BYTES_MAX).div_ceil(BYTES_PER_SEAT)).unwrap_or(u32::MAX))
        }
        Verb::Get => seats(1),
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => {
            let watches = watchers.count(request.storage, asked.namespace, asked.name);
            let of_body = if request.body_bytes > 0 { SEATS_WITH_BODY } else { 1 };
            let seats = if watches < WATCHES_PER_SEAT { 1 } else { watches.div_ceil(WATCHES_PER_SEAT) };
            let seats = seats.max(of_body);
            Estimate { seats, watches: Some(watches) }
        }
    }
}

/// Whether a watch begins with the objects there are.
fn has_initial_events(query: &Query) -> bool {
    query.optional_flag("sendInitialEvents").unwrap_or(matches!(query.text("resourceVersion"), "" | "0"))
}

/// The watches under way, by collection and by the changes that wake them. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watchers(Arc<RwLock<HashMap<Arc<str>, Counts>>>);

/// A watch under way.
#[derive(Debug)]
pub(crate) struct Watcher {
    watchers: Watchers,
    storage: Arc<str>,
    interest: Arc<Interest>,
}

/// Counts of the watches of one collection. Those by the value of a label, or of a field that few objects share, are left
/// out: a write wakes them by what its object has or had, which is not known before, and as a rule few of them.
///
/// Invariant: no count is 0 but that of everything.
#[derive(Debug, Default)]
struct Counts {
    everything: u32,
    namespaces: ByText,
    names: ByText,
    /// By namespace, then by name.
    objects: HashMap<String, ByText>,
}

type ByText = HashMap<String, u32>;

impl Watchers {
    /// Counts a watch that is filed under `interest`, until the result is dropped.
    pub(super) fn add(&self, storage: &Arc<str>, interest: &Arc<Interest>) -> Watcher {
        self.0.write().entry(storage.clone()).or_default().add(interest);
        Watcher { watchers: self.clone(), storage: storage.clone(), interest: interest.clone() }
    }

    /// The watches that get an event of the object `name` of `namespace`. `name`: empty where it is not known yet.
    fn count(&self, storage: &str, namespace: &str, name: &str) -> u32 {
        let all = self.0.read();
        let Some(counts) = all.get(storage) else { return 0 };
        let count = |of: Option<&ByText>, text: &str| of.and_then(|of| of.get(text)).copied().unwrap_or(0);
        counts.everything
            + count(Some(&counts.namespaces), namespace)
            + count(Some(&counts.names), name)
            + count(counts.objects.get(namespace), name)
    }
}

impl Counts {
    fn add(&mut self, interest: &Interest) {
        match interest {
            Interest::Everything => self.everything += 1,
            Interest::Namespace(namespace) => *self.namespaces.entry_ref(&**namespace).or_default() += 1,
            Interest::Name(name) => *self.names.entry_ref(&**name).or_default() += 1,
            Interest::Object(path) => {
                let (namespace, name) = ObjectPath::of(path).parts();
                *self.objects.entry_ref(namespace).or_default().entry_ref(name).or_default() += 1;
            }
            Interest::Field { namespace: None, is_common: true, .. } => self.everything += 1,
            Interest::Field { namespace: Some(namespace), is_common: true, .. } => {
                *self.namespaces.entry_ref(&**namespace).or_default() += 1;
            }
            Interest::Field { .. } | Interest::Label { .. } => {}
        }
    }

    fn remove(&mut self, interest: &Interest) {
        match interest {
            Interest::Everything => self.everything = self.everything.saturating_sub(1),
            Interest::Namespace(namespace) => take(&mut self.namespaces, namespace),
            Interest::Name(name) => take(&mut self.names, name),
            Interest::Object(path) => {
                let (namespace, name) = ObjectPath::of(path).parts();
                if let Some(names) = self.objects.get_mut(namespace) {
                    take(names, name);
                    if names.is_empty() {
                        self.objects.remove(namespace);
                        shrink(&mut self.objects);
                    }
                }
            }
            Interest::Field { namespace: None, is_common: true, .. } => {
                self.everything = self.everything.saturating_sub(1);
            }
            Interest::Field { namespace: Some(namespace), is_common: true, .. } => {
                take(&mut self.namespaces, namespace);
            }
            Interest::Field { .. } | Interest::Label { .. } => {}
        }
    }
}

fn take(counts: &mut ByText, text: &str) {
    if let Some(count) = counts.get_mut(text) {
        *count -= 1;
        if *count == 0 {
            counts.remove(text);
            shrink(counts);
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(counts) = self.watchers.0.write().get_mut(&self.storage) {
            counts.remove(&self.interest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use orch_schema::json;

    use super::*;
    use crate::authn::User;
    use crate::authz::ResourceAttributes;
    use crate::controllers::testing::Fixture;

    const MAPS: &str = "configmaps";

    /// The estimate for a request with `verb` and `query` for config maps, of the name `name` in `namespace` where there
    /// is one.
    fn estimated(
        fixture: &Fixture,
        watchers: &Watchers,
        verb: Verb,
        (namespace, name, query): (&str, &str, &str),
    ) -> Estimate {
        let (user, applied, query) = (User::default(), fixture.applied(), Query::parse(query));
        let asked = ResourceAttributes { resource: MAPS, namespace, name, ..Default::default() };
        let request = FlowRequest {
            user: &user,
            asked: Attributes::Resource(asked),
            verb: Some(verb),
            query: &query,
            storage: MAPS,
            applied: &applied,
            limit: Duration::from_secs(60),
            body_bytes: 0,
        };
        estimate(request, watchers)
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_takes_a_seat_for_each_ten_watches_that_get_its_event() {
        let (fixture, watchers) = (Fixture::new(), Watchers::default());
        let (maps, pods): (Arc<str>, Arc<str>) = (MAPS.into(), "pods".into());
        let mut under_way = Vec::new();
        let mut watch = |storage: &Arc<str>, namespace: &str, count: usize| {
            let interest = match namespace {
                "" => Interest::Everything,
                namespace => Interest::Namespace(namespace.into()),
            };
            let interest = Arc::new(interest);
            under_way.extend((0..count).map(|_| watchers.add(storage, &interest)));
        };
        let write = |verb| estimated(&fixture, &watchers, verb, ("ns", "a", ""));
        let writes = [Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];
        for (storage, namespace, more, seats, watches) in [
            (&maps, "ns", 0, 1, 0),
            (&maps, "ns", 9, 1, 9),
            (&maps, "", 1, 1, 10),
            (&maps, "", 1, 2, 11),
            (&maps, "other", 50, 2, 11),
            (&pods, "ns", 50, 2, 11),
            (&maps, "ns", 89, 10, 100),
            (&maps, "", 900, 100, 1000),
        ] {
            watch(storage, namespace, more);
            for verb in writes {
                let expected = Estimate { seats, watches: Some(watches) };
                assert_eq!(write(verb), expected, "{verb:?} after {more} more in {namespace:?} of {storage}");
            }
        }
        assert_eq!(
            estimated(&fixture, &watchers, Verb::Get, ("ns", "a", "")).seats,
            1,
            "reads reach no watch"
        );
        drop(under_way);
        assert_eq!(write(Verb::Update), Estimate { seats: 1, watches: Some(0) }, "watches that ended");
    }

    #[tokio::test(start_paused = true)]
    async fn watches_that_a_write_does_not_wake_take_no_seats() {
        let (fixture, watchers) = (Fixture::new(), Watchers::default());
        let maps: Arc<str> = MAPS.into();
        let field = |value: String, namespace: Option<&str>, is_common| {
            Arc::new(Interest::Field {
                name: "spec.nodeName".into(),
                place: 0,
                value: value.into(),
                namespace: namespace.map(Into::into),
                is_common,
            })
        };
        let of_nodes: Vec<_> =
            (0..2_000).map(|at| watchers.add(&maps, &field(format!("n{at}"), None, false))).collect();
        let others = ["ns/b", "other/a", "a"].map(|path| Arc::new(Interest::Object(path.into())));
        let others: Vec<_> =
            others.iter().cycle().take(300).map(|interest| watchers.add(&maps, interest)).collect();
        let write = |verb, name| estimated(&fixture, &watchers, verb, ("ns", name, ""));
        assert_eq!(write(Verb::Update, "a"), Estimate { seats: 1, watches: Some(0) });
        let own = [Interest::Object("ns/a".into()), Interest::Name("a".into())].map(Arc::new);
        let own: Vec<_> = own.iter().cycle().take(20).map(|interest| watchers.add(&maps, interest)).collect();
        assert_eq!(write(Verb::Update, "a"), Estimate { seats: 2, watches: Some(20) });
        assert_eq!(write(Verb::Update, "b"), Estimate { seats: 10, watches: Some(100) });
        assert_eq!(
            write(Verb::Create, ""),
            Estimate { seats: 1, watches: Some(0) },
            "the name is in the body"
        );
        let common = [None, Some("ns"), Some("other")].map(|namespace| field(String::new(), namespace, true));
        let common: Vec<_> =
            common.iter().cycle().take(30).map(|interest| watchers.add(&maps, interest)).collect();
        assert_eq!(write(Verb::Create, ""), Estimate { seats: 2, watches: Some(20) }, "most objects have it");
        drop((of_nodes, others, own, common));
        let all = watchers.0.read();
        let counts = &all[MAPS];
        assert_eq!(counts.everything, 0);
        assert!(counts.namespaces.is_empty() && counts.names.is_empty() && counts.objects.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_takes_a_seat_for_each_100_kilobytes_that_it_goes_through() {
        let (fixture, watchers) = (Fixture::new(), Watchers::default());
        fixture.namespace("ns").await;
        for at in 0..5 {
            let object = json!({"metadata": {"name": format!("m{at}")}, "data": {"k": "x".repeat(60_000)}});
            fixture.create(MAPS, "ns", object).await;
        }
        let seats = |verb, asked| estimated(&fixture, &watchers, verb, asked).seats;
        for (verb, asked, expected) in [
            (Verb::List, ("ns", "", ""), 4),
            (Verb::List, ("", "", "resourceVersion=0"), 4),
            (Verb::List, ("ns", "", "limit=1"), 1),
            (Verb::List, ("ns", "", "limit=2"), 2),
            (Verb::List, ("ns", "", "limit=5000"), 4),
            (Verb::List, ("ns", "m0", ""), 1),
            (Verb::DeleteCollection, ("ns", "", ""), 4),
            (Verb::Watch, ("ns", "", ""), 4),
            (Verb::Watch, ("ns", "", "resourceVersion=0"), 4),
            (Verb::Watch, ("ns", "", "resourceVersion=7"), 1),
            (Verb::Watch, ("ns", "", "sendInitialEvents=false"), 1),
            (Verb::Watch, ("ns", "", "sendInitialEvents=true"), 4),
            (Verb::Watch, ("ns", "m0", "sendInitialEvents=true"), 1),
        ] {
            assert_eq!(seats(verb, asked), expected, "{verb:?} {asked:?}");
        }
        for at in 5..40 {
            let object = json!({"metadata": {"name": format!("m{at}")}, "data": {"k": "x".repeat(60_000)}});
            fixture.create(MAPS, "ns", object).await;
        }
        assert_eq!(seats(Verb::List, ("ns", "", "")), 10, "lists are sent piece by piece");
    }
}
