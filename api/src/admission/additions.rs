//! Conditions and operations that plugins add to the transaction of a write.
//!
//! Owns, too, what the plugins of one document say to each other between the two rounds of mutating admission: that there
//! has to be a second one, and what each remembers of the first.

use std::any::Any;
use std::sync::Arc;

use orch_raft::{Condition, Key, Operation, Revision};
use orch_rules::validate::tree::{child_mut, set};
use orch_schema::value::Value;

/// The `resourceVersion` of an object that is not stored yet.
pub(crate) const UNSET_REVISION: &str = "0";

/// The author of the allocator's additions: no position in a chain.
const ALLOCATOR: usize = usize::MAX;

/// The author of additions of a request's endpoint, such as an eviction.
const ENDPOINT: usize = usize::MAX - 1;

/// Conditions and operations of plugins, of the allocator and of the endpoint, which are applied with the write or not at
/// all.
#[derive(Clone, Debug, Default)]
pub struct Additions {
    /// The plugin that is being called, by its position in the chain.
    plugin: usize,
    conditions: Vec<(usize, Condition)>,
    operations: Vec<Operation>,
    replacements: Vec<(Key, Value)>,
    round: Round,
    /// The notes of plugins from the first round of mutating admission, by position in the chain.
    memories: Vec<(usize, Memory)>,
    /// A plugin returned a future while it mutated, and may have had effects.
    has_waited: bool,
}

/// A value that a plugin remembers of a document.
type Memory = Arc<dyn Any + Send + Sync>;

/// A round of mutating admission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Round {
    #[default]
    First,
    /// The first one, in which a plugin asked for another.
    FirstOfTwo,
    Second,
}

/// Counts of conditions, operations and replacements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Count of conditions.
    pub(crate) conditions: usize,
    operations: usize,
    replacements: usize,
}

impl Additions {
    /// Makes the write depend on `condition`: if that does not hold, nothing is applied.
    pub fn require(&mut self, condition: Condition) {
        self.conditions.push((self.plugin, condition));
    }

    /// Adds `operation` to the transaction of the write. Its resource must differ from those of the write and of all
    /// other operations, unless a transaction may change several of its objects (`pipeline::propose`): a watch resumes
    /// behind a revision, and would miss a second change of its resource there.
    pub fn operate(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// Replaces an object that many writes share, a counter for example, by `value` in its stored form: if the object is no
    /// longer of `revision`, the write is tried again, in turn with the others of this node.
    pub fn replace(&mut self, key: Key, revision: Revision, mut value: Value) {
        let is_new = self.replacements.last().is_none_or(|(last, _)| *last != key);
        assert!(is_new, "an object is replaced once in a transaction");
        // As it is encoded for the store, so that it need not be copied then.
        set(child_mut(&mut value, "metadata"), "resourceVersion", UNSET_REVISION);
        self.require(Condition::AtRevision(key.clone(), revision));
        self.replacements.push((key, value));
    }

    /// Asks for a second round of mutating admission, since the plugin that is being called has changed the object: all
    /// plugins are asked once more, on the object as it is after the first round. Nothing in the second round.
    pub fn ask_again(&mut self) {
        if self.round == Round::First {
            self.round = Round::FirstOfTwo;
        }
    }

    /// Whether this is the first round of mutating admission, and there will be a second one.
    pub(super) fn has_second_round(&self) -> bool {
        self.round == Round::FirstOfTwo
    }

    /// Whether this is the second round of mutating admission.
    pub fn is_second_round(&self) -> bool {
        self.round == Round::Second
    }

    /// Keeps `memory` for the plugin that is being called, until its next call about this document. Replaces an earlier one.
    pub fn remember<T: Any + Send + Sync>(&mut self, memory: T) {
        let plugin = self.plugin;
        // few: the plugins of a chain, here and below.
        self.memories.retain(|(of, _)| *of != plugin);
        self.memories.push((plugin, Arc::new(memory)));
    }

    /// The last value of this type that the plugin being called remembered of this document.
    pub fn remembered<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        // few: as above.
        let (_, memory) = self.memories.iter().find(|(of, _)| *of == self.plugin)?;
        Arc::clone(memory).downcast().ok()
    }

    /// Begins the second round of mutating admission, if a plugin asked for it in the first.
    pub(super) fn begin_second_round(&mut self) -> bool {
        let is_asked_for = self.round == Round::FirstOfTwo;
        if is_asked_for {
            self.round = Round::Second;
        }
        is_asked_for
    }

    /// Notes whether a mutating plugin's ruling was known at once.
    pub(super) fn note_ruling(&mut self, is_known: bool) {
        self.has_waited |= !is_known;
    }

    /// Whether a plugin returned a future while it mutated: it may have had effects and must not be asked again.
    pub(crate) fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// Adds those of `others`, which are of another document that is written with this one.
    pub(crate) fn extend(&mut self, others: &Additions) {
        self.conditions.extend_from_slice(&others.conditions);
        self.operations.extend_from_slice(&others.operations);
        self.replacements.extend_from_slice(&others.replacements);
    }

    /// The object whose turns the write takes after a conflict: the first one that it replaces.
    pub(crate) fn contended(&self) -> Option<&Key> {
        self.replacements.first().map(|(key, _)| key)
    }

    /// The objects to replace, in the order in which they were added.
    pub(crate) fn replacements(&self) -> &[(Key, Value)] {
        &self.replacements
    }

    /// Records the plugin at this position of the chain as the author of the additions from now on, and returns how many
    /// there are.
    pub(super) fn begin(&mut self, plugin: usize) -> Extent {
        self.plugin = plugin;
        self.extent()
    }

    /// Records the allocator as the author of the additions from now on. A write whose condition of these does not hold is
    /// given other values.
    pub(crate) fn begin_allotment(&mut self) {
        self.plugin = ALLOCATOR;
    }

    /// Whether condition number `at` is one of the allocator.
    pub(crate) fn is_allotment(&self, at: usize) -> bool {
        self.author(at) == Some(ALLOCATOR)
    }

    /// Records the endpoint of the request, which is no plugin, as the author of the additions from now on: a write is
    /// tried again when a condition of these does not hold.
    pub(crate) fn begin_endpoint(&mut self) {
        self.plugin = ENDPOINT;
    }

    /// Position in the chain of the plugin that added condition number `at`.
    pub(super) fn author(&self, at: usize) -> Option<usize> {
        self.conditions.get(at).map(|(plugin, _)| *plugin)
    }

    /// The number of conditions, operations and replacements up to now.
    pub(crate) fn extent(&self) -> Extent {
        let (operations, replacements) = (self.operations.len(), self.replacements.len());
        Extent { conditions: self.conditions.len(), operations, replacements }
    }

    /// Removes the additions made after `extent`.
    pub(crate) fn truncate(&mut self, extent: Extent) {
        let now = self.extent();
        assert!(
            extent.conditions <= now.conditions
                && extent.operations <= now.operations
                && extent.replacements <= now.replacements,
            "additions are taken back to an extent that they had"
        );
        self.conditions.truncate(extent.conditions);
        self.operations.truncate(extent.operations);
        self.replacements.truncate(extent.replacements);
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

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn quota() -> Key {
        Key::new(&"resourcequotas".into(), "ns", "q").unwrap()
    }

    #[test]
    #[should_panic(expected = "an object is replaced once in a transaction")]
    fn a_second_replacement_of_an_object_is_a_bug() {
        let mut additions = Additions::default();
        additions.replace(quota(), Revision(7), json!({"metadata": {"name": "q"}}));
        additions.replace(quota(), Revision(7), json!({"metadata": {"name": "q"}}));
    }

    #[test]
    #[should_panic(expected = "additions are taken back to an extent that they had")]
    fn an_extent_that_additions_never_had_is_a_bug() {
        let mut longer = Additions::default();
        longer.require(Condition::Absent(quota()));
        Additions::default().truncate(longer.extent());
    }
}
