//! `StorageObjectInUseProtection`: gives a new PersistentVolumeClaim a finalizer, so that it outlives the pods that use
//! it, a new PersistentVolume one, so that it outlives its claim, and a new VolumeAttributesClass one, so that it
//! outlives the claims and volumes that name it.

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
        finalizer_of(&attributes.resource.storage)
            .is_some_and(|(storage, _)| attributes.is(storage, &[Operation::Create]))
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(object) = object else { return rule(Ok(())) };
        let Some((_, name)) = finalizer_of(&attributes.resource.storage) else { return rule(Ok(())) };
        let protection = json!(attributes.brand.label(name));
        let metadata = child_mut(object, "metadata");
        let mut finalizers = metadata.items("finalizers").to_vec();
        // once: one finalizer is looked for.
        if !finalizers.contains(&protection) {
            finalizers.push(protection);
            set(metadata, "finalizers", finalizers);
        }
        rule(Ok(()))
    }
}

/// The kind, and the name of its finalizer below the brand's domain.
fn finalizer_of(storage: &str) -> Option<(&'static str, &'static str)> {
    match storage {
        "persistentvolumeclaims" => Some(("persistentvolumeclaims", "pvc-protection")),
        "persistentvolumes" => Some(("persistentvolumes", "pv-protection")),
        "volumeattributesclasses.storage" => Some(("volumeattributesclasses.storage", "vac-protection")),
        _ => None,
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
        let mut volume = json!({"metadata": {}, "spec": {}});
        let create_volume = attributes("persistentvolumes", Operation::Create);
        mutate(&create_volume, &mut volume, &Objects::default()).unwrap();
        assert_eq!(volume["metadata"]["finalizers"], json!(["orch.io/pv-protection"]));
        let mut claim = json!({"metadata": {}});
        mutate(&Attributes { action: Action::Status, ..create }, &mut claim, &Objects::default()).unwrap();
        assert_eq!(claim, json!({"metadata": {}}), "only the object itself");
    }
}
