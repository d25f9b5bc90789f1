//! Labels of namespaces.
//!
//! Owns them by name. A namespace that was not seen has no labels.

use hashbrown::HashMap;

use crate::objects::intern::Symbol;
use crate::objects::labels::Labels;

/// Labels by namespace.
#[derive(Debug, Default)]
pub struct Namespaces {
    labels: HashMap<Symbol, Labels>,
    none: Labels,
}

impl Namespaces {
    /// The labels of a namespace.
    pub fn labels(&self, namespace: Symbol) -> &Labels {
        self.labels.get(&namespace).unwrap_or(&self.none)
    }

    /// Sets the labels of a namespace. Returns whether they changed.
    pub(super) fn set(&mut self, namespace: Symbol, labels: Labels) -> bool {
        if *self.labels(namespace) == labels {
            return false;
        }
        self.labels.insert(namespace, labels);
        true
    }
}
