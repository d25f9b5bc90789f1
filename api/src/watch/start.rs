//! The start of a watch.
//!
//! Owns from which revision a watch begins, by `resourceVersion`, `resourceVersionMatch` and `sendInitialEvents`, and how long it
//! lasts.

use std::sync::Arc;
use std::time::Duration;

use orch_raft::{Change, Revision, Store};
use orch_rules::validate::{ListOptions, validate_list_options};

use super::converting::Conversions;
use super::cursor::Reading;
use super::event::Scope;
use super::output::Output;
use super::timers::Timers;
use super::{Beginning, Ending, Phase, Watch};
use crate::error::ApiError;
use crate::flow::InitialEvents;
use crate::index::Reach;
use crate::pipeline::{Pipeline, Request, is_changed_together, revision_parameter};
use crate::render::Renderer;

/// Lifetime of a watch without `timeoutSeconds`: this plus a random part of up to as much again, so that clients do not
/// all reconnect together.
const LIFE_MIN: Duration = Duration::from_secs(30 * 60);

/// Longest lifetime that a client may ask for.
const LIFE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

impl<S: Store> Watch<S> {
    /// Starts the watch of `request`. Once `ending` is given, it ends with a bookmark, if the client asked for
    /// bookmarks.
    ///
    /// # Errors
    /// Bad options and selectors; a revision that this cluster does not reach; no quorum for a start at the newest
    /// state. A start before the history, or before the kind was defined, is no error here: the first event reports it.
    pub async fn start(
        pipeline: Arc<Pipeline<S>>,
        request: Request<'_>,
        renderer: Renderer,
        ending: Ending,
    ) -> Result<Watch<S>, ApiError> {
        let revocations = pipeline.store.revocations();
        pipeline.store.may_serve()?;
        let query = request.query;
        // Every option is parsed before any is validated. `limit` has no effect on a watch, but is checked.
        query.integer("limit")?;
        let timeout = query.integer("timeoutSeconds")?;
        let options = ListOptions {
            watch: true,
            resource_version: query.text("resourceVersion"),
            resource_version_match: query.text("resourceVersionMatch"),
            continue_token: query.text("continue"),
            send_initial_events: query.optional_flag("sendInitialEvents"),
        };
        let errors = validate_list_options(options);
        if !errors.is_empty() {
            return Err(ApiError::Invalid { subject: request.options_subject("ListOptions"), errors });
        }
        let revision = revision_parameter(options.resource_version)?;
        let life = life(timeout, pipeline.ambient.random());
        let (selector, wants_bookmarks) = (pipeline.selector(request)?, query.flag("allowWatchBookmarks"));
        // As in the reference, a start without a version, or at 0, has initial events.
        let asks_initial = options.with_defaults().send_initial_events;

        let scope = scope(request, selector);
        let subscription = pipeline.store.subscribe_to(&request.resource.storage, scope.interest());
        let Start { phase, position, reads_back, too_old } =
            start_at(&pipeline, request, &scope, (asks_initial, revision)).await?;
        let mut timers = Timers::new(&pipeline.store, life, ending);
        if wants_bookmarks {
            timers.start_bookmark(&pipeline.store);
        }
        let mut watch = Watch {
            output: Output::new(renderer),
            storage: request.resource.storage.clone(),
            scope,
            subscription,
            revocations,
            initial_events: InitialEvents::new(matches!(phase, Phase::Initial { .. })),
            phase,
            position,
            reads_back,
            is_behind: false,
            reading: Reading::default(),
            conversions: Conversions::default(),
            has_caught_up: false,
            framed: None,
            owes_initial_end: wants_bookmarks && asks_initial == Some(true),
            timers,
            pipeline,
        };
        if let Some(error) = too_old {
            watch.end_with(&error);
        }
        Ok(watch)
    }
}

/// Where a watch starts.
struct Start {
    phase: Phase,
    position: Revision,
    reads_back: bool,
    /// Ends the watch at once.
    too_old: Option<ApiError>,
}

/// The start of a watch from `revision`; `asks_initial`: with or without initial events.
async fn start_at<S: Store>(
    pipeline: &Pipeline<S>,
    request: Request<'_>,
    scope: &Scope,
    (asks_initial, revision): (Option<bool>, Option<Revision>),
) -> Result<Start, ApiError> {
    let (store, resource) = (&pipeline.store, request.resource);
    let following = |position| Start { phase: Phase::Following, position, reads_back: false, too_old: None };
    match (asks_initial, revision) {
        (None | Some(false), Some(revision)) if revision.0 != 0 => {
            let position = resume_at(store, &resource.storage, revision);
            // Changes of an earlier kind under the same name are not those of this one.
            let too_old =
                resource.defined_after(revision).map(|defined| ApiError::too_old(revision, defined));
            let reads_back = position.is_none();
            Ok(Start { reads_back, too_old, ..following(position.unwrap_or(revision)) })
        }
        (Some(false), _) => Ok(following(pipeline.state_for(revision).await?.applied())),
        _ => {
            let state = pipeline.state_for(revision).await?;
            let (collection, position) = (state.collection(&resource.storage), state.applied());
            let (read, namespace) = ((&*collection, position), scope.namespace());
            let lookup = match scope.path {
                Some(_) => None,
                None => pipeline.indexes.lookup(store, resource, read, namespace, &scope.selector).await,
            };
            let beginning = Arc::new(Beginning { collection, lookup });
            Ok(Start { phase: Phase::Initial { beginning, after: "".into() }, ..following(position) })
        }
    }
}

/// The cursor of a watch that resumes at `revision`. Where that revision changed several objects, the cursor stands before
/// it: a client whose connection broke between their events sees all of them again, rather than missing one. `None`: only
/// the disk can tell, which [`Watch::look`] asks.
fn resume_at(store: &impl Store, storage: &Arc<str>, revision: Revision) -> Option<Revision> {
    if !is_changed_together(storage) {
        return Some(revision);
    }
    let state = store.state();
    let collection = state.collection(storage);
    let changes = collection.changes_after(before(revision)).ok()?;
    Some(if has_several(changes, revision) { before(revision) } else { revision })
}

/// The same, as the disk tells it: some milliseconds.
pub(super) fn resume_from_disk(store: &impl Store, storage: &Arc<str>, revision: Revision) -> Revision {
    match store.past_changes(storage, before(revision)) {
        Ok(past) if has_several(past.iter(), revision) => before(revision),
        // Changes that are no longer held are told of by the first look.
        Ok(_) | Err(_) => revision,
    }
}

fn before(revision: Revision) -> Revision {
    Revision(revision.0 - 1)
}

/// Whether `changes`, from `revision` on or before it, have several of it.
fn has_several<'a>(changes: impl Iterator<Item = &'a Change>, revision: Revision) -> bool {
    changes
        .filter(|change| change.revision >= revision)
        .take_while(|change| change.revision == revision)
        .nth(1)
        .is_some()
}

/// The selection by path and selectors.
fn scope(request: Request<'_>, selector: crate::selector::Selector) -> Scope {
    let target = request.target;
    let prefix = if target.namespace.is_empty() { String::new() } else { format!("{}/", target.namespace) };
    let path = match Reach::of(request.resource, target, &selector) {
        Reach::One(path) => Some(path),
        Reach::Namespace(_) => None,
    };
    Scope { prefix, path, selector }
}

/// The lifetime of a watch; zero if the client asks for a negative one. `random`: 128 random bits.
fn life(asked_seconds: Option<i64>, random: u128) -> Duration {
    match asked_seconds.filter(|&seconds| seconds != 0) {
        Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(LIFE_MAX),
        None => {
            let spread = LIFE_MIN.as_secs();
            LIFE_MIN + Duration::from_secs(u64::try_from(random % u128::from(spread)).unwrap_or(0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_lasts_as_long_as_asked_and_else_half_an_hour_to_an_hour() {
        assert_eq!(life(Some(1), 0), Duration::from_secs(1));
        assert_eq!(life(Some(i64::MAX), 0), LIFE_MAX);
        assert_eq!(life(Some(-1), 7), Duration::ZERO);
        for asked in [None, Some(0)] {
            assert_eq!(life(asked, 0), LIFE_MIN);
            assert!(life(asked, u128::MAX) < LIFE_MIN * 2);
        }
    }
}
