//! The namespace controller: deletes the content of terminating namespaces, then removes their finalizer.
//!
//! Owns the termination of a namespace: delete its content by the same two-phase deletion that any client uses, report
//! remaining content in its conditions, and when there is none, remove the cluster's finalizer from its spec, which
//! removes the namespace. Nothing can be created in it meanwhile: the store refuses (`Condition::NamespaceActive`), so
//! content that a pass has seen gone stays gone.
//!
//! A namespace that cannot be emptied delays no other: each has passes of its own, and is retried by itself. The first pass
//! comes a few hundredths of a second after the deletion (`turns::SETTLE`), in which clients see the namespace as the
//! deletion left it.

mod aggregated;
mod conditions;
mod content;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use orch_bounded::WarningLimit;
use orch_raft::{Change, ObjectPath, State, Store};
use orch_rules::Action;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;
use parking_lot::Mutex;

use self::conditions::Findings;
use self::content::ObjectToDelete;
use super::client::{Client, Moment, Place, Propagation, for_each, is_overtaken};
use super::queue::Queue;
use super::rounds::{Queued, Round, Rounds};
use super::turns::SETTLE;
use crate::error::ApiError;
use crate::follow::Derived;
use crate::registry::{Registry, Resource};

/// Storage resource of namespaces.
const NAMESPACES: &str = "namespaces";

/// Limits warnings of namespaces that cannot be emptied yet: a client may have filled any number of them.
static UNEMPTIED: WarningLimit<Moment> = WarningLimit::new();

/// Wait of the next pass for each object that the last one left: a pass goes over all that is left, so it takes about
/// the same share of a core whatever the size of the namespace.
const DELAY_PER_OBJECT: Duration = Duration::from_micros(20);

/// Objects deleted in one pass; the rest follows in the next, so that many namespaces terminate side by side.
const BATCH_MAX: usize = 500;

/// Concurrent deletions: enough to share a sync to disk, few beside the clients' writes.
const CONCURRENT_WRITES_MAX: usize = 16;

/// Passes under way: those whose deletions hang leave room for others.
const NAMESPACES_AT_ONCE: usize = 16;

/// The terminating namespaces, and the queue of passes.
#[derive(Debug)]
struct Work {
    /// Storage resources: `namespaces` first, then those of their content.
    sources: Vec<Arc<str>>,
    /// The number of objects that the last pass over each left.
    terminating: BTreeMap<Arc<str>, usize>,
    queue: Queue<Arc<str>>,
}

impl Work {
    /// No namespace yet, at the time `now`.
    fn new(served: &Registry, now: Duration) -> Self {
        let sources = Self::sources_in(served);
        let mut queue = Queue::default();
        queue.advance(now);
        Work { sources, terminating: BTreeMap::new(), queue }
    }

    fn sources_in(served: &Registry) -> Vec<Arc<str>> {
        let content = content::resources(served).into_iter().map(|resource| resource.storage.clone());
        std::iter::once(NAMESPACES.into()).chain(content).collect()
    }
}

impl Derived for Work {
    /// Content is followed only while a namespace is terminating.
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        let count = if self.terminating.is_empty() { 1 } else { self.sources.len() };
        self.sources.iter().take(count)
    }

    fn change(&mut self, source: &Arc<str>, change: &Change) {
        let Work { terminating, queue, .. } = self;
        if **source == *NAMESPACES {
            if change.new.as_ref().is_some_and(|namespace| namespace.index.terminating) {
                terminating.entry(change.path.clone()).or_default();
                queue.add(&change.path, SETTLE);
            } else {
                terminating.remove(&change.path);
            }
        } else if let Some((namespace, left)) = namespace_of(&change.path, terminating) {
            queue.add(namespace, delay(*left));
        }
    }

    fn rebuild(&mut self, state: &State) {
        self.terminating.clear();
        let namespaces = state.collection(NAMESPACES);
        for (name, _) in namespaces.range_from("").filter(|(_, namespace)| namespace.index.terminating) {
            self.terminating.insert(name.clone(), 0);
            self.queue.add(name, SETTLE);
        }
    }
}

impl Queued for Work {
    type Key = Arc<str>;

    fn queue(&mut self) -> &mut Queue<Arc<str>> {
        &mut self.queue
    }

    fn sources_of(served: &Registry) -> Option<Vec<Arc<str>>> {
        Some(Self::sources_in(served))
    }

    /// Added resources may have objects in terminating namespaces, and those taken out may have held the last ones.
    fn follow(&mut self, sources: Vec<Arc<str>>, _state: &State) {
        self.sources = sources;
        self.terminating.keys().for_each(|namespace| self.queue.add(namespace, SETTLE));
    }
}

/// The terminating namespace that the object at `path` is in.
fn namespace_of<'a>(
    path: &str,
    terminating: &'a BTreeMap<Arc<str>, usize>,
) -> Option<(&'a Arc<str>, &'a usize)> {
    terminating.get_key_value(ObjectPath::of(path).namespace())
}

/// The wait for the next pass over a namespace in which `left` objects are left.
fn delay(left: usize) -> Duration {
    DELAY_PER_OBJECT.saturating_mul(u32::try_from(left).unwrap_or(u32::MAX))
}

/// Result of a pass.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// Done, or waiting for others (finalizers) that hold this many objects, whose change makes the namespace due again.
    Settled { left: usize },
    /// There are more objects to delete.
    Unfinished,
}

/// Finishes the deletion of terminating namespaces. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let Some(namespaces) = client.stored_resource(NAMESPACES) else {
        return Err(ApiError::Internal("namespaces are not served".to_owned()));
    };
    let ender = NamespaceFinalizer { client, namespaces, content: Mutex::default() };
    let work = Work::new(&client.registry(), client.store().elapsed());
    let mut rounds =
        Rounds::new((client, "namespace"), work.sources.clone(), work, NAMESPACES_AT_ONCE).await?;
    loop {
        let Round { due, .. } = rounds.next(|work, name, result| end(client, work, name, result)).await;
        for name in due {
            rounds.start(name.clone(), ender.try_pass(name));
        }
    }
}

/// Takes in the result of a pass over the namespace `name`.
fn end<S: Store>(
    client: &Client<S>,
    Work { terminating, queue, .. }: &mut Work,
    name: &Arc<str>,
    result: Result<Progress, ApiError>,
) {
    match result {
        Ok(Progress::Settled { left }) => {
            if let Some(known) = terminating.get_mut(name) {
                *known = left;
            }
            queue.done(name);
        }
        Ok(Progress::Unfinished) => {
            queue.done(name);
            queue.add(name, Duration::ZERO);
        }
        Err(error) => {
            if let Some(left_out) = UNEMPTIED.pass_at(client.moment()) {
                tracing::warn!(%error, namespace = %name, left_out, "a namespace cannot be emptied yet");
            }
            queue.failed(name);
        }
    }
}

/// Runs passes over terminating namespaces.
struct NamespaceFinalizer<'a, S> {
    client: &'a Client<S>,
    namespaces: Arc<Resource>,
    /// The resources of the last pass, and what was served then.
    content: Mutex<Option<(Arc<Registry>, Content)>>,
}

/// The namespaced resources.
type Content = Arc<[Arc<Resource>]>;

impl<S: Store> NamespaceFinalizer<'_, S> {
    /// The namespaced resources that are served now.
    fn content(&self) -> Content {
        let (served, mut known) = (self.client.registry(), self.content.lock());
        match &*known {
            Some((of, content)) if Arc::ptr_eq(of, &served) => content.clone(),
            _ => {
                let content: Content = content::resources(&served).into();
                *known = Some((served, content.clone()));
                content
            }
        }
    }

    async fn try_pass(&self, name: Arc<str>) -> Result<Progress, ApiError> {
        match Box::pin(self.pass(&name)).await {
            // The namespace changed during the pass, and that change makes it due again.
            Err(error) if is_overtaken(&error) => Ok(Progress::Settled { left: 0 }),
            result => result,
        }
    }

    /// Deletes content, reports, and removes the finalizer when no content remains.
    async fn pass(&self, name: &str) -> Result<Progress, ApiError> {
        let state = self.client.most_recent().await?;
        let held = state.collection(NAMESPACES).get(name).is_some_and(|found| {
            found.index.terminating && self.finalizers_without_ours(&found.json).is_some()
        });
        if !held {
            return Ok(Progress::Settled { left: 0 });
        }
        let served = self.content();
        let doomed = content::doomed(&state, &served, name, BATCH_MAX);
        let failures = self.delete_all(doomed).await;
        // This node has applied the deletions of this pass.
        let state = self.client.store().state();
        let mut findings = content::findings(&state, &served, name);
        let failed = !failures.is_empty();
        findings.failures = failures;
        let is_elsewhere = aggregated::empty(self.client, name, &mut findings).await;
        self.report(&state, name, &findings).await?;
        if findings.is_clear() {
            return self.release(name).await.map(|()| Progress::Settled { left: 0 });
        }
        if failed || is_elsewhere || !findings.unserved.is_empty() {
            return Err(ApiError::Unavailable(format!("{findings:?}")));
        }
        let left = findings.remaining.values().sum();
        let more = content::doomed(&state, &served, name, 1);
        Ok(if more.is_empty() { Progress::Settled { left } } else { Progress::Unfinished })
    }

    /// Deletes the objects; returns the messages of failures, one for each resource.
    async fn delete_all(&self, doomed: Vec<ObjectToDelete>) -> Vec<String> {
        let results = for_each(doomed, CONCURRENT_WRITES_MAX, |doomed| async move {
            let place = Place { resource: &doomed.resource, path: &doomed.path };
            let result = self.client.delete(place, &doomed.uid, None, Propagation::Background).await;
            (doomed.resource.plural.clone(), result)
        });
        let failed = results.await.into_iter().filter_map(|(plural, result)| match result {
            Err(error) if !is_overtaken(&error) => Some((plural, error.to_string())),
            _ => None,
        });
        let by_resource: BTreeMap<String, String> = failed.collect();
        by_resource.into_values().collect()
    }

    /// Writes the findings to the namespace's status.
    async fn report(&self, state: &State, name: &str, findings: &Findings) -> Result<(), ApiError> {
        let Some(found) = state.collection(NAMESPACES).get(name).cloned() else { return Ok(()) };
        let namespace = decoded(&found.json);
        let status = namespace.at("status");
        let conditions = findings.conditions(status, &self.client.now_text());
        if conditions.is_none() && status.text("phase") == "Terminating" {
            return Ok(());
        }
        let mut patch = json!({
            "metadata": {"uid": found.index.uid, "resourceVersion": found.revision.to_string()},
            "status": {"phase": "Terminating"},
        });
        if let Some(conditions) = conditions {
            patch["status"]["conditions"] = Value::Array(conditions);
        }
        self.client.patch(self.place(name), Action::Status, &patch).await
    }

    /// Removes the cluster's finalizer from the namespace.
    async fn release(&self, name: &str) -> Result<(), ApiError> {
        let state = self.client.store().state();
        let Some(found) = state.collection(NAMESPACES).get(name).cloned() else { return Ok(()) };
        let Some(finalizers) = self.finalizers_without_ours(&found.json) else { return Ok(()) };
        let patch = json!({
            "metadata": {"uid": found.index.uid, "resourceVersion": found.revision.to_string()},
            "spec": {"finalizers": finalizers},
        });
        self.client.patch(self.place(name), Action::Finalize, &patch).await
    }

    /// The namespace's finalizers without the cluster's; `None` if it does not have that.
    fn finalizers_without_ours(&self, json: &[u8]) -> Option<Vec<Value>> {
        let ours = self.client.registry().brand.namespace_finalizer;
        let mut finalizers = decoded(json).at("spec").items("finalizers").to_vec();
        let before = finalizers.len();
        // once: for one namespace.
        finalizers.retain(|finalizer| finalizer != ours);
        (finalizers.len() < before).then_some(finalizers)
    }

    fn place<'a>(&'a self, name: &'a str) -> Place<'a> {
        Place { resource: &self.namespaces, path: name }
    }
}

fn decoded(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap_or_default()
}

#[cfg(test)]
mod tests;
