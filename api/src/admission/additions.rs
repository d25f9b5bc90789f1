//! Conditions and operations that plugins add to the transaction of a write.

use orch_raft::{Condition, Operation};

/// Conditions and operations of plugins, which are applied with the write or not at all.
#[derive(Clone, Debug, Default)]
pub struct Additions {
    /// The plugin that is being called, by its position in the chain.
    plugin: usize,
    conditions: Vec<(usize, Condition)>,
    operations: Vec<Operation>,
}

/// Counts of conditions and operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Count of conditions.
    pub(crate) conditions: usize,
    operations: usize,
}

impl Additions {
    /// Makes the write depend on `condition`: if that does not hold, nothing is applied.
    pub fn require(&mut self, condition: Condition) {
        self.conditions.push((self.plugin, condition));
    }

    /// Adds `operation` to the transaction of the write. Its resource must differ from those of the write and of all
    /// other operations: a watch resumes behind a revision, and would miss a second change of its resource there.
    pub fn operate(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// Records the plugin at this position of the chain as the author of the additions from now on.
    pub(super) fn begin(&mut self, plugin: usize) {
        self.plugin = plugin;
    }

    /// Records the endpoint of the request, which is no plugin, as the author of the additions from now on: a write is
    /// tried again when a condition of these does not hold.
    pub(crate) fn begin_endpoint(&mut self) {
        self.plugin = usize::MAX;
    }

    /// Position in the chain of the plugin that added condition number `at`.
    pub(super) fn author(&self, at: usize) -> Option<usize> {
        self.conditions.get(at).map(|(plugin, _)| *plugin)
    }

    /// The number of conditions and operations up to now.
    pub(crate) fn extent(&self) -> Extent {
        Extent { conditions: self.conditions.len(), operations: self.operations.len() }
    }

    /// Removes the additions made after `extent`.
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
