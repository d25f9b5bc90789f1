//! Upper bounds for the sizes of an expression's values.
//!
//! Owns [`Size`], bounds that are never too low for the value they stand for, and how they are combined. A bound covers
//! whatever type the value turns out to have: the bytes of a text, and the elements of a list or the entries of a map.

use std::sync::Arc;

/// Bytes that are copied or compared in the time of one step.
const BYTES_PER_STEP: u64 = 16;

/// Upper bounds of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Bytes of the value itself, if it is a text.
    pub(super) text: u64,
    /// Elements of a list, entries of a map.
    pub(super) elements: u64,
    /// Bounds of each element, or of each key and value.
    item: Option<Arc<Size>>,
    /// Bytes of each key, if it is a map whose keys are texts.
    pub(super) keys: Option<u64>,
    /// Values inside it, at any depth.
    pub(super) values: u64,
    /// Bytes of all texts in it, at any depth, itself included.
    pub(super) bytes: u64,
}

impl Size {
    /// A number, a truth, or another value of fixed size.
    pub(super) fn scalar() -> Size {
        Size::default()
    }

    pub(super) fn text(bytes: u64) -> Size {
        Size { text: bytes, bytes, ..Size::default() }
    }

    /// A list of `elements` values, or a map of as many entries, each of them bounded by `item`.
    pub(super) fn list(elements: u64, item: Size) -> Size {
        let values = elements.saturating_mul(item.values.saturating_add(1));
        let bytes = elements.saturating_mul(item.bytes);
        Size { text: 0, elements, item: Some(Arc::new(item)), keys: None, values, bytes }
    }

    /// The same value, with no more than `values` values and `bytes` bytes in all.
    pub(super) fn within(self, values: u64, bytes: u64) -> Size {
        Size { values: self.values.min(values), bytes: self.bytes.min(bytes), ..self }
    }

    /// An element, a key, or the value behind a key.
    pub(super) fn item(&self) -> Size {
        self.item.as_deref().cloned().unwrap_or_default()
    }

    /// The size of a loop's variable: a key of a map, an element of a list.
    pub(super) fn round(&self) -> Size {
        self.keys.map_or_else(|| self.item(), Size::text)
    }

    /// Any value inside this one, at any depth.
    pub(super) fn inner(&self) -> Size {
        let mut inner = Size::default();
        let mut level = self.item.as_deref();
        while let Some(one) = level {
            inner = inner.or(one);
            level = one.item.as_deref();
        }
        inner
    }

    /// A bound for this size and another.
    pub(super) fn or(&self, other: &Size) -> Size {
        let item = match (&self.item, &other.item) {
            (Some(one), Some(other)) if Arc::ptr_eq(one, other) => Some(one.clone()),
            (Some(one), Some(other)) => Some(Arc::new(one.or(other))),
            (one, other) => one.clone().or_else(|| other.clone()),
        };
        Size {
            text: self.text.max(other.text),
            elements: self.elements.max(other.elements),
            item,
            keys: self.keys.zip(other.keys).map(|(one, other)| one.max(other)),
            values: self.values.max(other.values),
            bytes: self.bytes.max(other.bytes),
        }
    }

    /// Two texts or lists, one behind the other.
    pub(super) fn with(&self, other: &Size) -> Size {
        Size {
            text: self.text.saturating_add(other.text),
            elements: self.elements.saturating_add(other.elements),
            values: self.values.saturating_add(other.values),
            bytes: self.bytes.saturating_add(other.bytes),
            ..self.or(other)
        }
    }

    /// Whether this bound holds for whatever `other` bounds.
    pub(super) fn covers(&self, other: &Size) -> bool {
        self.or(other) == *self
    }

    /// Steps of reading, copying or comparing the value as a whole.
    pub(super) fn steps(&self) -> u64 {
        self.values.saturating_add(self.bytes / BYTES_PER_STEP)
    }
}
