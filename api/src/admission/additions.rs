//! Conditions and operations that plugins add to the transaction of a write.

use orch_raft::{Condition, Operation};

/// Conditions and operations of plugins, to be applied with the write or not at all.
#[derive(Debug, Default)]
pub struct Additions {
    /// The plugin that is asked, by its place in the chain.
    plugin: usize,
    conditions: Vec<(usize, Condition)>,
    operations: Vec<Operation>,
}

/// How many conditions and operations there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Conditions.
    pub(crate) conditions: usize,
    operations: usize,
}

impl Additions {
    /// Has the write be applied only where `condition` holds.
    pub fn require(&mut self, condition: Condition) {
        self.conditions.push((self.plugin, condition));
    }

    /// Has `operation` be applied with the write. It is of another resource than the write and all other operations: a
    /// watch resumes behind a revision, and would miss a second change of its resource there.
    pub fn operate(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// Records the plugin at this place of the chain as the author of what is added from now on.
    pub(super) fn begin(&mut self, plugin: usize) {
        self.plugin = plugin;
    }

    /// Place in the chain of the plugin that added condition number `at`.
    pub(super) fn author(&self, at: usize) -> Option<usize> {
        self.conditions.get(at).map(|(plugin, _)| *plugin)
    }

    /// The number of conditions and operations up to now.
    pub(crate) fn extent(&self) -> Extent {
        Extent { conditions: self.conditions.len(), operations: self.operations.len() }
    }

    /// Takes back what was added after `extent`.
    pub(crate) fn truncate(&mut self, extent: Extent) {
        self.conditions.truncate(extent.conditions);
        self.operations.truncate(extent.operations);
    }

    /// The conditions, in the order in which they were added.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = Condition> {
        self.conditions.iter().map(|(_, condition)| condition.clone())
    }

    /// The operations, in the order in which they were added.
    pub(crate) fn operations(&self) -> impl Iterator<Item = Operation> {
        self.operations.iter().cloned()
    }
}
