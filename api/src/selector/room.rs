//! Room for the parsed selectors of disruption budgets.
//!
//! Owns how many bytes of them a view holds, and each namespace's share: a quarter of what the others leave, so that the
//! budgets of one namespace do not push those of another out. It holds no selector.

use hashbrown::HashMap;

/// Bytes of the selectors that a view holds: sixty thousand selectors of ten labels. A parsed selector may take ten times the
/// bytes that are stored of it, so that those beyond are parsed each time they are asked.
const BYTES_MAX: usize = 64 << 20;

/// The part of what other namespaces leave that one may have.
const SHARE: usize = 4;

/// Bytes that are held, by namespaces.
#[derive(Debug)]
pub(crate) struct SelectorRoom {
    max: usize,
    held: usize,
    by_namespace: HashMap<String, usize>,
}

impl Default for SelectorRoom {
    fn default() -> Self {
        SelectorRoom::of(BYTES_MAX)
    }
}

impl SelectorRoom {
    /// Room of `max` bytes.
    pub(crate) fn of(max: usize) -> SelectorRoom {
        SelectorRoom { max, held: 0, by_namespace: HashMap::new() }
    }

    /// Whether a selector of `bytes` bytes has room in `namespace`.
    pub(crate) fn fits(&self, namespace: &str, bytes: usize) -> bool {
        let own = self.by_namespace.get(namespace).copied().unwrap_or_default();
        let others = self.held - own;
        own + bytes <= self.max.saturating_sub(others) / SHARE
    }

    /// Takes the room for a selector, if there is any.
    pub(crate) fn take(&mut self, namespace: &str, bytes: usize) -> bool {
        if !self.fits(namespace, bytes) {
            return false;
        }
        if bytes > 0 {
            self.held += bytes;
            *self.by_namespace.entry_ref(namespace).or_default() += bytes;
        }
        true
    }

    /// Gives back the room that a selector took.
    pub(crate) fn give_back(&mut self, namespace: &str, bytes: usize) {
        let Some(own) = self.by_namespace.get_mut(namespace) else { return };
        let bytes = bytes.min(*own);
        *own -= bytes;
        self.held -= bytes;
        if *own == 0 {
            self.by_namespace.remove(namespace);
        }
    }

    /// All selectors are gone.
    pub(crate) fn clear(&mut self) {
        *self = SelectorRoom::of(self.max);
    }

    /// Bytes that are taken.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_a_quarter_of_what_others_leave() {
        let mut room = SelectorRoom::of(400);
        assert!(room.take("a", 60) && room.take("a", 40) && !room.take("a", 1));
        assert!(room.take("b", 75) && !room.take("b", 1));
        for number in 0..100 {
            while room.take(&number.to_string(), 1) {}
        }
        assert!(room.held() < 400);
        room.give_back("a", 40);
        assert!(room.take("c", 1), "what one gives back others may have");
        room.give_back("a", 60);
        room.give_back("a", 60);
        assert!(!room.by_namespace.contains_key("a"));
    }
}
