//! Estimates the work of a request: large ones leave the threads that serve connections.
//!
//! Owns the bounds, each about half a millisecond of work, and the estimates of what a request takes: from its body, its
//! selectors, and the objects that it is over. It carries out nothing.

use orch_raft::object::SharedObject;
use orch_raft::{Collection, Store};
use orch_rules::Action;

use super::Api;
use crate::negotiate::Representation;
use crate::pipeline::Request;
use crate::request::Verb;

/// Bytes of a body, or of the stored object it changes, from which on a request goes to the pool: half a millisecond of
/// work, against some ten microseconds for handing it to the pool and back.
const LARGE_BYTES_MIN: usize = 64 * 1024;

/// Objects of a collection from which on the deletion of a collection goes to the pool, and a list that is not sent as
/// stored (a table, YAML, Protobuf, a converted kind).
pub(super) const MANY_OBJECTS_MIN: usize = 256;

/// Bytes of a collection's objects from which on such a list goes to the pool: the same as for one document.
pub(super) const RENDERED_BYTES_MIN: usize = LARGE_BYTES_MIN;

/// Objects of a collection from which on a list that is sent as stored, or matched against a selector, goes to the
/// pool: a tenth of a microsecond for each object. A client may ask for a hundred such lists at once.
pub(super) const GATHERED_OBJECTS_MIN: usize = 8 * 1024;

/// Product of a collection's objects and its selectors' bytes from which on matching takes as long: half a nanosecond each.
const MATCHED_MIN: usize = 1 << 20;

/// Bytes of selectors from which parsing them alone takes as long.
const SELECTOR_BYTES_MIN: usize = 4 * 1024;

impl<S: Store> Api<S> {
    /// Whether the request is over a document too large, or over too many objects, for a thread that serves connections.
    pub(super) fn is_large(&self, request: Request<'_>, representation: Representation) -> bool {
        // Any object of a declared kind may have to be converted.
        let as_stored = representation.is_as_stored(request.resource) && request.resource.staged().is_none();
        let state = || self.pipeline.store.state();
        let selectors = || {
            let texts = ["labelSelector", "fieldSelector"].map(|name| request.query.text(name).len());
            texts.iter().sum::<usize>()
        };
        match request.verb {
            Verb::Watch => selectors() >= SELECTOR_BYTES_MIN,
            Verb::Get if as_stored && request.action != Action::Scale => false,
            Verb::List => {
                let objects = state().collection(&request.resource.storage);
                selectors() >= SELECTOR_BYTES_MIN || is_long_list(&objects, request, as_stored, selectors())
            }
            _ if request.body.len() >= LARGE_BYTES_MIN => true,
            // Writes of sub-resources compile no expressions.
            Verb::Create | Verb::Update | Verb::Patch
                if request.action == Action::Object && request.resource.strategy.compiles_expressions() =>
            {
                true
            }
            Verb::Create if request.target.name.is_empty() => false,
            Verb::DeleteCollection => {
                let objects = state().collection(&request.resource.storage);
                let is_large = |object: &SharedObject| object.json.len() >= LARGE_BYTES_MIN;
                // The deletion decodes each object.
                selectors() >= SELECTOR_BYTES_MIN
                    || objects.len() >= MANY_OBJECTS_MIN
                    || objects.range_from("").any(|(_, object)| is_large(object))
            }
            Verb::Get | Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => {
                let key = request.stored_key();
                key.is_some_and(|key| state().object(&key).is_some_and(|o| o.json.len() >= LARGE_BYTES_MIN))
            }
        }
    }
}

/// Whether a list of `objects` takes long: by the objects of its namespace and by its limit, so that a page of a small
/// namespace is a small request in the largest cluster. `selectors`: their bytes.
fn is_long_list(objects: &Collection, request: Request<'_>, as_stored: bool, selectors: usize) -> bool {
    let namespace = &request.target.namespace;
    let looked_at = objects.count(namespace);
    if looked_at >= GATHERED_OBJECTS_MIN || looked_at.saturating_mul(selectors) >= MATCHED_MIN {
        return true;
    }
    if as_stored {
        return false;
    }
    // The first page holds the first objects, unless selectors pass over some.
    let limit = request.query.text("limit").parse().ok().filter(|limit| *limit > 0 && selectors == 0);
    let rendered = looked_at.min(limit.unwrap_or(usize::MAX));
    if rendered >= MANY_OBJECTS_MIN {
        return true;
    }
    // Where another page begins is in its token: any objects may be on it.
    if !request.query.text("continue").is_empty() {
        return objects.object_bytes() >= RENDERED_BYTES_MIN;
    }
    let first = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let page = objects.range_from(&first).take(rendered);
    page.map(|(_, object)| object.json.len()).sum::<usize>() >= RENDERED_BYTES_MIN
}
