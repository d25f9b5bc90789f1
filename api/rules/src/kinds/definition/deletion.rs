//! The first deletion of a definition, which marks it in a way of its own: its objects go before it.
//!
//! Owns the finalizer that holds the definition until they are gone. Whoever deletes them, and removes it, is the loop of
//! definitions.

use orch_proto::Brand;
use orch_schema::json;
use orch_schema::value::Value;

use super::conditions::{Condition, Termination, set_condition};
use crate::kinds::Context;
use crate::validate::tree::{Tree, child_mut, set};

/// The finalizer of a definition whose objects may be left.
pub fn finalizer(brand: &Brand) -> String {
    format!("customresourcecleanup.{}", brand.group("apiextensions"))
}

/// `old` after its first deletion; `None`: it is being deleted already.
pub(super) fn marked(context: &Context<'_>, old: &Value) -> Option<Value> {
    if old.at("metadata").has("deletionTimestamp") {
        return None;
    }
    let mut new = old.clone();
    let (metadata, own) = (child_mut(&mut new, "metadata"), json!(finalizer(context.brand)));
    set(metadata, "deletionTimestamp", context.now);
    let mut finalizers = metadata.items("finalizers").to_vec();
    // once: for one definition.
    if !finalizers.contains(&own) {
        finalizers.push(own);
        set(metadata, "finalizers", finalizers);
    }
    let condition = Condition::terminating(Termination::Pending);
    set_condition(&mut new, context.brand, &condition, context.now);
    Some(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::CONTEXT;

    #[test]
    fn the_first_deletion_marks_a_definition_and_a_second_one_is_that_of_every_object() {
        let old = json!({"metadata": {"name": "w.example.com", "generation": 3, "finalizers": ["example.com/hold"]}});
        let new = marked(&CONTEXT, &old).unwrap();
        let metadata = new.at("metadata");
        assert_eq!(metadata.text("deletionTimestamp"), CONTEXT.now);
        let expected = json!(["example.com/hold", "customresourcecleanup.apiextensions.orch.io"]);
        assert_eq!((metadata.at("finalizers"), metadata.int("generation")), (&expected, Some(3)));
        assert!(!metadata.has("deletionGracePeriodSeconds"));
        let condition = &new.at("status").items("conditions")[0];
        assert_eq!(
            (condition.text("type"), condition.text("reason")),
            ("Terminating", "InstanceDeletionPending")
        );
        assert!(marked(&CONTEXT, &new).is_none());
    }
}
