//! `StorageObjectInUseProtection`: gives a new PersistentVolumeClaim a finalizer, so that it outlives the pods that use
//! it.

use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_schema::json;
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Ruling, View, rule};

#[derive(Debug)]
pub(super) struct StorageObjectInUseProtection;

impl Plugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("persistentvolumeclaims", &[Operation::Create])
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        claim: &'a mut Value,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let protection = json!(attributes.brand.label("pvc-protection"));
        let metadata = child_mut(claim, "metadata");
        let mut finalizers = metadata.items("finalizers").to_vec();
        // once: one finalizer is looked for.
        if !finalizers.contains(&protection) {
            finalizers.push(protection);
            set(metadata, "finalizers", finalizers);
        }
        rule(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use orch_rules::Action;

    use super::*;
    use crate::admission::testing::{Objects, attributes, mutate};

    #[test]
    fn a_new_claim_is_protected_once() {
        let mut claim = json!({"metadata": {"finalizers": ["a/b"]}, "spec": {}});
        let create = attributes("persistentvolumeclaims", Operation::Create);
        for _ in 0..2 {
            mutate(&create, &mut claim, &Objects::default()).unwrap();
            assert_eq!(claim["metadata"]["finalizers"], json!(["a/b", "orch.io/pvc-protection"]));
        }
        let mut claim = json!({"metadata": {}});
        mutate(&Attributes { action: Action::Status, ..create }, &mut claim, &Objects::default()).unwrap();
        assert_eq!(claim, json!({"metadata": {}}), "only the object itself");
    }
}
