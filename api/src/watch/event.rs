//! The events that a change causes for one watch.
//!
//! Owns the selection (namespace, name, selectors) and its transitions: an object that enters the selection is ADDED,
//! one that leaves it DELETED, whatever happened to the object itself. Matching never reads an object's bytes.

use std::sync::Arc;

use orch_raft::object::SharedObject;
use orch_raft::{Change, Collection, Interest, Revision};

use crate::render::EventType;
use crate::selector::Selector;

/// The selection of a watch.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// `NAMESPACE/`; empty for all namespaces.
    pub prefix: String,
    /// The path of the only followed object, if the request names one.
    pub path: Option<String>,
    /// Label and field selector.
    pub selector: Selector,
}

/// One event: its type, the object, and the revision shown instead of the object's own, if any.
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
    /// The event that `change` causes for this watch; `None` if the change is outside the selection.
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

    /// The narrowest thing that the selection demands: what names one object, then fields, labels, the namespace. Whatever
    /// the selection shows, before or after a change, has it.
    pub(super) fn interest(&self) -> Interest {
        let Selector { labels, fields } = &self.selector;
        if let Some(path) = &self.path {
            return Interest::Object(path.as_str().into());
        }
        if let Some(name) = fields.required_name() {
            return Interest::Name(name.into());
        }
        if let Some((name, place, value)) = fields.required_values().next() {
            return Interest::Field { name: name.into(), place, value: value.into() };
        }
        if let Some((key, value)) = labels.required_values().next() {
            return Interest::Label { key: key.into(), value: value.into() };
        }
        match self.prefix.strip_suffix('/').or_else(|| fields.required_namespace()) {
            Some(namespace) => Interest::Namespace(namespace.into()),
            None => Interest::Everything,
        }
    }

    /// The objects behind the path `after` that the selectors still have to match, in order of paths.
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
