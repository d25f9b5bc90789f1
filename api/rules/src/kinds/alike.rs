//! Updates that write an amount in another way: `1Gi` for `1073741824`.
//!
//! Owns the value that an update is judged against. The reference compares amounts by value wherever it refuses a change
//! and where it raises the generation; the new text is stored all the same. Rules compare values without their types, so
//! that they are given the stored object with its amounts written as the new one writes them.

use orch_schema::value::Value;
use orch_schema::{Schema, TypeId, written_alike};

use super::{Context, Strategy};
use crate::validate::carry_system_fields;
use crate::validate::tree::{Tree, carry, child_mut};

/// The object that the prepared `new` is compared with; `None` where that is `old` itself. Amounts that are only written in
/// another way leave the generation of `new` as it was.
pub fn judged_against(
    schema: &Schema,
    type_id: TypeId,
    strategy: &dyn Strategy,
    context: &Context<'_>,
    old: &Value,
    new: &mut Value,
) -> Option<Value> {
    let alike = written_alike(schema, type_id, old, new)?;
    let mut again = new.clone();
    carry_system_fields(alike.at("metadata"), child_mut(&mut again, "metadata"));
    strategy.prepare_for_update(context, &alike, &mut again);
    carry(again.at("metadata"), child_mut(new, "metadata"), "generation");
    Some(alike)
}

#[cfg(test)]
mod tests {
    use orch_schema::json;
    use orch_schema::testing::orch;

    use super::*;
    use crate::kinds::strategy_for;
    use crate::kinds::testing::{CONTEXT, created};

    /// The errors and the generation of an update of a `resource` of type `name`.
    fn updated(resource: &str, name: &str, old: Value, new: Value) -> (Vec<String>, i64) {
        let strategy = strategy_for(resource).unwrap();
        let old = created(&*strategy, old);
        let mut new = created(&*strategy, new);
        carry_system_fields(&old["metadata"], child_mut(&mut new, "metadata"));
        strategy.prepare_for_update(&CONTEXT, &old, &mut new);
        let type_id = orch().find_type(name).unwrap();
        let alike = judged_against(orch(), type_id, &*strategy, &CONTEXT, &old, &mut new);
        let errors = strategy.validate_update(&CONTEXT, alike.as_ref().unwrap_or(&old), &new);
        let paths = errors.iter().map(|error| error.path.to_string()).collect();
        (paths, new["metadata"]["generation"].as_i64().unwrap_or(0))
    }

    #[test]
    fn an_amount_written_in_another_way_is_no_change() {
        let limits = |amount: &str| json!({"limits": {"memory": amount}, "requests": {"memory": amount}});
        let pod = |amount: &str| json!({"spec": {"containers": [{"name": "c", "image": "i", "resources": limits(amount)}]}});
        let template = |amount: &str| {
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i", "resources": limits(amount)}],
            }})
        };
        let job = |amount: &str| json!({"spec": {"template": template(amount)}});
        let claim = |amount: &str| {
            let spec =
                json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": amount}}});
            json!({"spec": spec})
        };
        for (resource, name, of) in [
            ("pods", "core.v1.Pod", &pod as &dyn Fn(&str) -> Value),
            ("jobs.batch", "batch.v1.Job", &job),
            ("persistentvolumeclaims", "core.v1.PersistentVolumeClaim", &claim),
        ] {
            let (errors, generation) = updated(resource, name, of("1Gi"), of("1073741824"));
            assert_eq!((errors.len(), generation), (0, generation.min(1)), "{resource}: {errors:?}");
            let (errors, _) = updated(resource, name, of("1Gi"), of("2Gi"));
            assert!(!errors.is_empty(), "{resource}");
        }
    }
}
