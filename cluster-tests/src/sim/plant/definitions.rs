//! Bugs about definitions of custom kinds: a write without the condition on its definition, and a change of a definition that
//! claims to have left the schemas alone.
//!
//! Owns the change of the transactions. The record of a definition is an object beside it (`orch_api::definitions`).

use bytes::Bytes;
use orch_api::definitions::RECORDS;
use orch_raft::{Condition, Key, Operation, Put, State, Transaction};
use serde_json::{Value, json};

use super::Plant;

impl Plant {
    /// `transaction` as a program with the bug would propose it in `state`.
    pub(super) fn of_definitions(self, mut transaction: Transaction, state: &State) -> Transaction {
        match self {
            Plant::IgnoresDefinition => transaction.conditions.retain(|condition| !is_on_record(condition)),
            Plant::KeepsTables => {
                for operation in &mut transaction.operations {
                    if let Operation::Put(put) = operation
                        && is_record(&put.key)
                    {
                        keep_since(put, state);
                    }
                }
            }
            _ => {}
        }
        transaction
    }
}

fn is_record(key: &Key) -> bool {
    **key.resource() == *RECORDS
}

fn is_on_record(condition: &Condition) -> bool {
    matches!(condition, Condition::AtRevision(key, _) if is_record(key))
}

/// Has the record say that every schema is as it was in `state`.
fn keep_since(put: &mut Put, state: &State) {
    const HEAD: &str = r#"{"metadata":{"resourceVersion":""#;
    let Some(before) = state.object(&put.key) else { return };
    let told: Value = serde_json::from_slice(&before.json).unwrap_or_default();
    let kept =
        |version: &str| told["since"].get(version).cloned().unwrap_or_else(|| json!(before.revision.0));
    let since = json!({"v1": kept("v1"), "v2": kept("v2")});
    put.json = Bytes::from(format!("{HEAD}\"}},\"since\":{since}}}"));
    put.revision_at = u32::try_from(HEAD.len()).expect("a short literal");
}
