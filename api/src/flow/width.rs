//! The width of a request: how many seats it takes.
//!
//! Owns the estimate, as in the reference: a list, and a watch that asks for initial events, takes a seat for each 100 kB
//! that it goes through, up to a megabyte; a write one for each ten watches that get its event; everything else one. Beyond
//! the reference, a write whose large body is still to come takes two: its client decides how long it keeps them, and a
//! flow's wide requests share half of the seats. The estimate is made before the request is looked at closely, and errs on
//! the cheap side.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use hashbrown::HashMap;

use super::FlowRequest;
use crate::authz::Attributes;
use crate::request::Verb;

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
        Verb::Watch if request.query.optional_flag("sendInitialEvents") != Some(true) => seats(1),
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
            let watches = watchers.count(request.storage, asked.namespace);
            let of_body = if request.body_bytes > 0 { SEATS_WITH_BODY } else { 1 };
            let seats = if watches < WATCHES_PER_SEAT { 1 } else { watches.div_ceil(WATCHES_PER_SEAT) };
            let seats = seats.max(of_body);
            Estimate { seats, watches: Some(watches) }
        }
    }
}

/// The watches under way, by collection and namespace.
#[derive(Debug, Default)]
pub(crate) struct Watchers(RwLock<HashMap<Arc<str>, ByNamespace>>);

/// Counts of watches by namespace.
type ByNamespace = HashMap<String, Arc<AtomicU32>>;

/// A watch under way.
#[derive(Debug)]
pub(crate) struct Watcher(Arc<AtomicU32>);

impl Watchers {
    /// Counts a watch of `namespace`, empty for all, until the result is dropped.
    pub(super) fn add(&self, storage: &Arc<str>, namespace: &str) -> Watcher {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let of = all.entry(storage.clone()).or_default();
        let count = of.get(namespace).cloned().unwrap_or_else(|| {
            // Namespaces whose watches have ended are forgotten before another is added.
            of.retain(|_, count| count.load(Ordering::Relaxed) > 0);
            of.entry(namespace.to_owned()).or_default().clone()
        });
        count.fetch_add(1, Ordering::Relaxed);
        Watcher(count)
    }

    /// The watches that get an event of `namespace`.
    fn count(&self, storage: &str, namespace: &str) -> u32 {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(of) = all.get(storage) else { return 0 };
        let count = |namespace: &str| of.get(namespace).map_or(0, |count| count.load(Ordering::Relaxed));
        count("") + if namespace.is_empty() { 0 } else { count(namespace) }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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
    use crate::request::Query;

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
            under_way.extend((0..count).map(|_| watchers.add(storage, namespace)));
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
            (Verb::Watch, ("ns", "", ""), 1),
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
