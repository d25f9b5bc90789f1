//! What a change is for one watcher.
//!
//! Owns the selection (namespace, name, selectors) and its transitions: what enters it is ADDED, what leaves it DELETED,
//! whatever happened to the object itself. Nothing here touches an object's bytes.

use std::sync::Arc;

use orch_raft::object::SharedObject;
use orch_raft::{Change, Collection, Revision};

use crate::render::EventType;
use crate::selector::Selector;

/// What a watcher follows.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// `NAMESPACE/`, or empty for all.
    pub prefix: String,
    /// The one path that is followed, if the request names an object.
    pub path: Option<String>,
    /// Both selectors.
    pub selector: Selector,
}

/// One event: what happened, the object to show, and the revision it is shown under if that is not its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event<'a> {
    pub kind: EventType,
    pub object: &'a SharedObject,
    pub revision: Option<Revision>,
}

impl<'a> Event<'a> {
    pub(super) fn added(object: &'a SharedObject) -> Self {
        Event { kind: EventType::Added, object, revision: None }
    }
}

impl Scope {
    /// What `change` is for this watcher; `None` when it is nothing.
    pub(super) fn event<'a>(&self, change: &'a Change) -> Option<Event<'a>> {
        if !self.covers(&change.path) {
            return None;
        }
        let selected = |object: &'a Option<SharedObject>| {
            object.as_ref().filter(|object| self.selector.matches(&change.path, object))
        };
        match (selected(&change.old), selected(&change.new)) {
            (None, None) => None,
            (None, Some(new)) => Some(Event::added(new)),
            (Some(_), Some(new)) => Some(Event { kind: EventType::Modified, object: new, revision: None }),
            (Some(old), None) => {
                Some(Event { kind: EventType::Deleted, object: old, revision: Some(change.revision) })
            }
        }
    }

    /// The objects behind `after` that the selector chooses from, in order of paths.
    pub(super) fn candidates<'a>(
        &'a self,
        collection: &'a Collection,
        after: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a SharedObject)> {
        let start = after.unwrap_or_else(|| self.path.as_deref().unwrap_or(&self.prefix));
        collection
            .range_from(start)
            .skip_while(move |(path, _)| after == Some(&**path))
            .take_while(|(path, _)| self.covers(path))
    }

    fn covers(&self, path: &str) -> bool {
        match &self.path {
            Some(only) => only == path,
            None => path.starts_with(&self.prefix),
        }
    }
}
