//! The transaction of a write: its own operation with what admission adds, proposed as one entry of the log.
//!
//! Owns the check that an entry changes one object of a resource at most, and the condition of a kind that is added while the node
//! runs: that its definition is as the resource was made of it (`definitions`).

use std::collections::BTreeSet;
use std::iter;

use orch_raft::{Condition, Key, Operation, Outcome, Put, Store, Transaction};
use orch_schema::value::Value;
use orch_spans::ActiveSpan;

use super::Pipeline;
use crate::admission::Additions;
use crate::allocation::{ADDRESSES, CLAIMS};
use crate::error::{ApiError, Subject};
use crate::exchange::{Exchange, Step};
use crate::registry::{Record, Resource};

/// Resources of which one transaction may change several objects: the quotas that a write is charged to, and the addresses
/// of a service of two families. Watches of them resume before such a revision. Claims are no API objects: nobody watches
/// them.
const CHANGED_TOGETHER: [&str; 3] = ["resourcequotas", ADDRESSES, CLAIMS];

impl<S: Store> Pipeline<S> {
    /// Proposes `operation` of the request `exchange` on an object of `resource`, if `condition` and those of admission hold, with the operations that
    /// admission adds.
    ///
    /// # Errors
    /// `UnknownPath`, `Conflict`: the definition of the kind is gone, or was changed.
    pub(super) async fn propose(
        &self,
        exchange: &Exchange,
        resource: &Resource,
        condition: Condition,
        operation: Operation,
        additions: &Additions,
    ) -> Result<Outcome, ApiError> {
        let mut operations: Vec<Operation> = iter::once(operation).chain(additions.operations()).collect();
        for (key, value) in additions.replacements() {
            operations.push(Operation::Put(self.replacement(key, value)?));
        }
        // The last one: the others keep their places.
        let defined = resource.record.as_ref().map(Record::condition);
        let transaction = Transaction {
            proposed_ms: self.ambient.now().millis(),
            conditions: iter::once(condition).chain(additions.conditions()).chain(defined).collect(),
            operations,
        };
        let last = transaction.conditions.len() - 1;
        if let Some(key) = repeated(&transaction.operations) {
            let (resource, path) = (key.resource(), key.path());
            let message = format!("a transaction changes two objects of {resource}, one of them {path}");
            return Err(ApiError::Internal(message));
        }
        let (began, span) = (self.ambient.now(), exchange.begin_span());
        let proposed = self.store.propose_traced(transaction, span.as_ref().map(ActiveSpan::context)).await;
        exchange.note_span(Step::Propose, span, None, (began, self.ambient.now()));
        match proposed? {
            Outcome::Refused { condition, current, .. } if condition == last && resource.record.is_some() => {
                Err(overtaken(resource, current.is_some()))
            }
            outcome => Ok(outcome),
        }
    }

    /// The put of an object that admission replaces with a write.
    fn replacement(&self, key: &Key, value: &Value) -> Result<Put, ApiError> {
        let registry = self.registry();
        let resource = registry.stored(key.resource());
        let resource = resource
            .ok_or_else(|| ApiError::Internal(format!("{} is replaced and not served", key.resource())))?;
        self.put_unset(resource, key.clone(), value)
    }
}

/// The error of a write of a kind whose definition was changed, or (`is_defined` is false) is gone.
fn overtaken(resource: &Resource, is_defined: bool) -> ApiError {
    if !is_defined {
        return ApiError::UnknownPath;
    }
    let reason = "the definition of the resource has been modified; please send the request again".to_owned();
    ApiError::Conflict { subject: Subject::resource(resource, ""), reason }
}

/// The key of a second change of one resource, which a watch that resumes behind a revision would miss, but for
/// [`CHANGED_TOGETHER`]; of those each object changes once, too.
fn repeated(operations: &[Operation]) -> Option<&Key> {
    if operations.len() < 2 {
        return None;
    }
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
