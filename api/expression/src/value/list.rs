//! Lists: those of documents, and made ones.

use std::sync::Arc;

use orch_schema::value::Value;

use super::Val;
use crate::schema::ListShape;

/// A list.
#[derive(Clone, Debug)]
pub enum List<'v> {
    /// Of a document.
    Json(&'v [Value]),
    /// Of a document, with a declaration.
    Declared(&'v ListShape, &'v Vec<Value>),
    /// Of values that were made before the evaluation.
    Lent(&'v [Val<'v>]),
    /// Made by the evaluation.
    Made(Arc<Vec<Val<'v>>>),
    /// The sum of one of a document that is a set or has keys, and of another, which is so as well.
    Joined(&'v ListShape, Arc<Vec<Val<'v>>>),
}

impl<'v> List<'v> {
    /// Number of items.
    #[expect(clippy::len_without_is_empty, reason = "the language has `size` only")]
    pub fn len(&self) -> usize {
        match self {
            List::Json(items) => items.len(),
            List::Declared(_, items) => items.len(),
            List::Lent(items) => items.len(),
            List::Made(items) | List::Joined(_, items) => items.len(),
        }
    }

    /// The item at `at`.
    pub fn get(&self, at: usize) -> Option<Val<'v>> {
        match self {
            List::Json(items) => items.get(at).map(Val::json),
            List::Declared(shape, items) => items.get(at).map(|item| shape.item.read(item)),
            List::Lent(items) => items.get(at).cloned(),
            List::Made(items) | List::Joined(_, items) => items.get(at).cloned(),
        }
    }

    /// The items in order.
    pub fn iter(&self) -> impl Iterator<Item = Val<'v>> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// The identity of the items, where that is not their place.
    pub(crate) fn identity(&self) -> Option<&'v ListShape> {
        match self {
            List::Declared(shape, _) | List::Joined(shape, _) => {
                Some(*shape).filter(|shape| shape.has_identity())
            }
            List::Json(_) | List::Lent(_) | List::Made(_) => None,
        }
    }

    /// The items as a list of its own, for a change.
    pub(crate) fn into_items(self) -> Vec<Val<'v>> {
        match self {
            List::Made(items) => Arc::unwrap_or_clone(items),
            other => other.iter().collect(),
        }
    }
}
