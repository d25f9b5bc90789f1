//! Reading a collection: the revision, the page, the count of remaining objects.
//!
//! Owns which of `resourceVersion`, `limit` and `continue` go together and what they mean, and the use of continue tokens. Objects are shared, never copied: a list costs one
//! reference count per object.

use std::cell::Cell;
use std::sync::Arc;

use metrics::counter;
use orch_raft::object::SharedObject;
use orch_raft::{Collection, Compacted, Revision, Store};
use orch_rules::validate::{ListOptions, validate_list_options};
use orch_schema::budget::count_step;

use super::{Effort, ListAnswer, Pipeline, Request, revision_parameter};
use crate::error::ApiError;
use crate::index::{Lookup, Matching, Reach, Way};
use crate::paging::ContinueToken;
use crate::selector::Selector;

/// The state that a list reads.
enum Snapshot {
    /// The collection in the newest state.
    Newest(Arc<Collection>, Revision),
    /// The collection at a revision, perhaps from the history.
    At(Revision),
}

/// Where a page begins: the last path before it, and the number of objects up to that one if known.
#[derive(Clone, Copy, Default)]
struct Start<'a> {
    after: &'a str,
    sent: Option<u64>,
}

/// The end of a page that is not the last: its last path, the number of objects up to it, and that of those behind it, where
/// they are known.
struct Rest {
    last: Arc<str>,
    sent: Option<u64>,
    remaining: Option<u64>,
}

const EXPIRED: &str = "The resourceVersion for the provided list is too old.";
const EXPIRED_TOKEN: &str = "The provided continue parameter is too old to display a consistent list result. \
    You can start a new list without the continue parameter, or use the continue token in this response to retrieve \
    the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that \
    were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

impl<S: Store> Pipeline<S> {
    /// The page of the collection that the request asks for.
    pub(crate) async fn list(&self, request: Request<'_>) -> Result<ListAnswer, ApiError> {
        let query = request.query;
        let limit = query.integer("limit")?.and_then(|limit| usize::try_from(limit).ok());
        // A list has no duration; the parameter is checked all the same.
        query.integer("timeoutSeconds")?;
        let limit = limit.filter(|&limit| limit > 0 && self.features.list_chunking);
        let token = if self.features.list_chunking { query.text("continue") } else { "" };
        let version = query.text("resourceVersion");
        let options = ListOptions {
            watch: false,
            resource_version: version,
            resource_version_match: query.text("resourceVersionMatch"),
            continue_token: token,
            send_initial_events: query.optional_flag("sendInitialEvents"),
        };
        let errors = validate_list_options(options);
        if !errors.is_empty() {
            return Err(ApiError::Invalid { subject: request.options_subject("ListOptions"), errors });
        }
        let selector = self.selector(request)?;
        if !token.is_empty() {
            // `resourceVersion=0` asks for any state; such a list is not paged.
            let limit = limit.filter(|_| version != "0");
            return self.continue_list(request, token, limit, &selector).await;
        }
        let revision = revision_parameter(version)?;
        let (snapshot, limit) = match (options.resource_version_match, revision) {
            ("Exact", Some(revision)) => (Snapshot::At(revision), limit),
            ("", Some(revision)) if revision.0 != 0 && limit.is_some() => (Snapshot::At(revision), limit),
            (_, Some(Revision(0))) => (self.newest(request, Some(Revision(0))).await?, None),
            (_, revision) => (self.newest(request, revision).await?, limit),
        };
        self.page(request, snapshot, Start { after: "", sent: Some(0) }, limit, &selector).await
    }

    async fn newest(&self, request: Request<'_>, revision: Option<Revision>) -> Result<Snapshot, ApiError> {
        let state = self.state_for(revision).await?;
        Ok(Snapshot::Newest(state.collection(&request.resource.storage), state.applied()))
    }

    async fn continue_list(
        &self,
        request: Request<'_>,
        token: &str,
        limit: Option<usize>,
        selector: &Selector,
    ) -> Result<ListAnswer, ApiError> {
        if !matches!(request.query.text("resourceVersion"), "" | "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(ApiError::BadRequest(message.to_owned()));
        }
        let scope = (&*request.resource.storage, &*request.target.namespace);
        let opened = self.token_key.open(token, scope);
        let token = opened
            .map_err(|error| ApiError::BadRequest(format!("{error}: it was not given for this list")))?;
        // The answer has no token to go on with: the rest would be a list of another cluster than the beginning.
        if token.is_earlier {
            return Err(ApiError::Expired { message: EXPIRED.to_owned(), continue_token: None });
        }
        if token.is_expired(self.ambient.now()) {
            return Err(self.expired_token(request, &token.after));
        }
        let snapshot = match token.revision {
            Some(revision) => Snapshot::At(revision),
            None => self.newest(request, None).await?,
        };
        // The count of a token holds for the revision of its first page alone.
        let start = Start { after: &token.after, sent: token.sent.filter(|_| token.revision.is_some()) };
        self.page(request, snapshot, start, limit, selector).await.map_err(|error| match error {
            ApiError::Expired { .. } => self.expired_token(request, &token.after),
            other => other,
        })
    }

    /// A 410 with a continue token that resumes at the newest state.
    fn expired_token(&self, request: Request<'_>, after: &str) -> ApiError {
        let fresh = self.seal(request, None, Start { after, sent: None });
        ApiError::Expired { message: EXPIRED_TOKEN.to_owned(), continue_token: Some(fresh) }
    }

    fn seal(&self, request: Request<'_>, revision: Option<Revision>, next: Start<'_>) -> String {
        let Start { after, sent } = next;
        let (issued, after) = (self.ambient.now(), after.to_owned());
        let token = ContinueToken { revision, issued, after, sent, is_earlier: false };
        self.token_key.seal(&token, (&request.resource.storage, &request.target.namespace))
    }

    async fn page(
        &self,
        request: Request<'_>,
        snapshot: Snapshot,
        start: Start<'_>,
        limit: Option<usize>,
        selector: &Selector,
    ) -> Result<ListAnswer, ApiError> {
        let (collection, revision) = match snapshot {
            Snapshot::Newest(collection, revision) => (collection, revision),
            Snapshot::At(revision) => (self.collection_at(request, revision).await?, revision),
        };
        let reach = Reach::of(request.resource, request.target, selector);
        let lookup = match &reach {
            Reach::One(_) => None,
            Reach::Namespace(namespace) => {
                let read = (&*collection, revision);
                self.indexes.lookup(&self.store, request.resource, read, namespace, selector).await
            }
        };
        let selected = Selected::of(&collection, &reach, lookup.as_ref());
        let Page { objects, rest, effort } = selected.page(start, limit, selector);
        let next = rest.as_ref().map(|rest| Start { after: &rest.last, sent: rest.sent });
        let continue_token = next.map(|next| self.seal(request, Some(revision), next));
        let remaining = rest.and_then(|rest| rest.remaining);
        counter!("orch_lists_total", "way" => effort.way.name()).increment(1);
        Ok(ListAnswer { revision, continue_token, remaining, objects, effort })
    }

    async fn collection_at(
        &self,
        request: Request<'_>,
        revision: Revision,
    ) -> Result<Arc<Collection>, ApiError> {
        self.not_older_than(revision).await?;
        let expired = || ApiError::Expired { message: EXPIRED.to_owned(), continue_token: None };
        if request.resource.defined_after(revision).is_some() {
            return Err(expired());
        }
        let found = self.store.collection_at(&request.resource.storage, revision).await;
        found.map_err(|_: Compacted| expired())
    }
}

/// The source of a list.
struct Selected<'a> {
    collection: &'a Collection,
    reach: &'a Reach<'a>,
    lookup: Option<&'a Lookup>,
}

/// A page, and its end if it is not the last.
struct Page {
    objects: Vec<SharedObject>,
    rest: Option<Rest>,
    effort: Effort,
}

impl<'a> Selected<'a> {
    fn of(collection: &'a Collection, reach: &'a Reach<'a>, lookup: Option<&'a Lookup>) -> Self {
        Selected { collection, reach, lookup }
    }

    /// The selected objects from `start` on, at most `limit`.
    fn page(&self, start: Start<'_>, limit: Option<usize>, selector: &Selector) -> Page {
        match self.reach {
            Reach::One(path) => {
                let behind = self.collection.get(path).filter(|_| **path > *start.after);
                let found = behind.filter(|object| selector.matches(path, object)).cloned();
                let effort = Effort { way: Way::Path, visited: behind.into_iter().count() };
                Page { objects: found.into_iter().collect(), rest: None, effort }
            }
            Reach::Namespace(namespace) => self.page_of(namespace, start, limit, selector),
        }
    }

    fn page_of(&self, namespace: &str, start: Start<'_>, limit: Option<usize>, selector: &Selector) -> Page {
        let (everything, visited) = (selector.is_everything(), Cell::new(0));
        let mut matching = Matching::new(self.collection, self.lookup, namespace, start.after)
            .take_while(|_| count_step())
            .inspect(|_| visited.set(visited.get() + 1))
            .filter(|(path, object)| everything || selector.matches(path, object));
        let limit_or_all = limit.unwrap_or(usize::MAX);
        let expected = if everything { limit_or_all.min(self.collection.count(namespace)) } else { 0 };
        let (mut objects, mut last) = (Vec::with_capacity(expected), None);
        for (path, object) in matching.by_ref().take(limit_or_all) {
            last = Some(path);
            objects.push(object.clone());
        }
        let more = limit.and_then(|_| last.cloned().zip(matching.next()));
        let rest = more.map(|(last, _)| {
            let shown = number(objects.len());
            // A page that does not know how many were shown before it counts those behind it, once for all further pages.
            let all = everything.then(|| number(self.collection.count(namespace)));
            let sent = match (all, start.sent) {
                (None, _) => None,
                (Some(_), Some(sent)) => Some(sent + shown),
                (Some(all), None) => Some(all.saturating_sub(1 + number(matching.by_ref().count()))),
            };
            let remaining = all.zip(sent).map(|(all, sent)| all.saturating_sub(sent));
            Rest { last, sent, remaining }
        });
        let way = if self.lookup.is_some() { Way::Index } else { Way::Scan };
        Page { objects, rest, effort: Effort { way, visited: visited.get() } }
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use orch_raft::memory::MemoryStore;
    use orch_raft::{Index, Key, Operation, Put, Transaction};

    use super::*;

    async fn thousand() -> Arc<Collection> {
        let store = MemoryStore::default();
        let put = |at: usize| {
            let key =
                Key::new(&"configmaps".into(), if at < 1_000 { "n" } else { "o" }, &format!("m{at:04}"));
            let (key, json) = (key.unwrap(), bytes::Bytes::from_static(br#"{"v":""}"#));
            Operation::Put(Put { key, json, revision_at: 6, index: Index::default() })
        };
        let operations = (0..1_010).map(put).collect();
        store.propose(Transaction { operations, ..Transaction::default() }).await.unwrap();
        store.state().collection("configmaps")
    }

    #[tokio::test]
    async fn a_page_looks_at_its_objects_and_at_one_more_and_knows_how_many_remain() {
        let (collection, reach) = (thousand().await, Reach::Namespace("n"));
        let page = |after: &str, sent, limit| {
            let start = Start { after, sent };
            Selected::of(&collection, &reach, None).page(start, Some(limit), &Selector::default())
        };
        let counts = |page: &Page| {
            let rest = page.rest.as_ref().unwrap();
            (page.effort.visited, rest.sent, rest.remaining)
        };
        assert_eq!(counts(&page("", Some(0), 1)), (2, Some(1), Some(999)));
        assert_eq!(counts(&page("n/m0000", Some(1), 500)), (501, Some(501), Some(499)));
        // Behind an expired token it is not known how many were shown: the first page counts, the next ones do not.
        let first = page("n/m0499", None, 10);
        assert_eq!(counts(&first), (500, Some(510), Some(490)));
        let Rest { last, sent, .. } = first.rest.unwrap();
        assert_eq!(counts(&page(&last, sent, 10)), (11, Some(520), Some(480)));
        assert!(page("n/m0998", Some(999), 1).rest.is_none());
    }
}
