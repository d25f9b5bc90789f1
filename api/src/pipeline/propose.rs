//! The transaction of a write: its own operation with what admission adds, proposed as one entry of the log.
//!
//! Owns the check that an entry changes one object of a resource at most.

use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;

use orch_raft::{Condition, Key, Operation, Outcome, Put, Store, Transaction};
use orch_schema::value::Value;

use super::Pipeline;
use crate::admission::Additions;
use crate::allocation::{ADDRESSES, CLAIMS};
use crate::error::ApiError;
use crate::registry::Resource;

/// Resources of which one transaction may change several objects: the quotas that a write is charged to, and the addresses
/// of a service of two families. Watches of them resume before such a revision. Claims are no API objects: nobody watches
/// them.
const CHANGED_TOGETHER: [&str; 3] = ["resourcequotas", ADDRESSES, CLAIMS];

impl<S: Store> Pipeline<S> {
    /// Proposes `operation`, if `condition` and those of admission hold, with the operations that admission adds.
    pub(super) async fn propose(
        &self,
        condition: Condition,
        operation: Operation,
        additions: &Additions,
    ) -> Result<Outcome, ApiError> {
        let mut operations: Vec<Operation> = iter::once(operation).chain(additions.operations()).collect();
        for (key, value) in additions.replacements() {
            operations.push(Operation::Put(self.replacement(key, value)?));
        }
        let transaction = Transaction {
            proposed_ms: self.ambient.now().millis(),
            conditions: iter::once(condition).chain(additions.conditions()).collect(),
            operations,
        };
        if let Some(key) = repeated(&transaction.operations) {
            let (resource, path) = (key.resource(), key.path());
            let message = format!("a transaction changes two objects of {resource}, one of them {path}");
            return Err(ApiError::Internal(message));
        }
        Ok(self.store.propose(transaction).await?)
    }

    /// The put of an object that admission replaces with a write.
    fn replacement(&self, key: &Key, value: &Value) -> Result<Put, ApiError> {
        let is_stored = |resource: &&Arc<Resource>| {
            *resource.storage == **key.resource() && resource.is_storage_version()
        };
        // few: the served resources.
        let resource = self.registry.resources().find(is_stored);
        let resource = resource
            .ok_or_else(|| ApiError::Internal(format!("{} is replaced and not served", key.resource())))?;
        self.put(resource, key.clone(), &mut value.clone())
    }
}

/// The key of a second change of one resource, which a watch that resumes behind a revision would miss, but for
/// [`CHANGED_TOGETHER`]; of those each object changes once, too.
fn repeated(operations: &[Operation]) -> Option<&Key> {
    let (mut resources, mut together) = (BTreeSet::new(), BTreeSet::new());
    let mut keys = operations.iter().map(|operation| match operation {
        Operation::Put(put) => &put.key,
        Operation::Delete(key) => key,
    });
    // set: both are one.
    keys.find(|key| match is_changed_together(key.resource()) {
        true => !together.insert((key.resource(), key.path())),
        false => !resources.insert(key.resource()),
    })
}

/// Whether one transaction may change several objects of `resource`.
pub(crate) fn is_changed_together(resource: &str) -> bool {
    // few: three resources.
    CHANGED_TOGETHER.contains(&resource)
}
