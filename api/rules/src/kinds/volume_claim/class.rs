//! The classes of a claim: that of its storage, in a field or once in an annotation, and that of its attributes.
//!
//! Owns how each may change. Never looks whether a class is there.

use orch_proto::Brand;
use orch_proto::brand::{KUBERNETES, ORCH};
use orch_schema::value::Value;

use crate::validate::metadata::IMMUTABLE;
use crate::validate::tree::{Tree, carry};
use crate::validate::{FieldError, Path};

/// The annotation that named the class of a claim before there was a field for it.
pub(super) fn class_annotation(brand: &Brand) -> String {
    format!("volume.beta.{}", brand.label("storage-class"))
}

/// The class of a claim or volume as tables show it. Rows are made without a brand, so the annotation of every brand counts.
pub(in crate::kinds) fn shown_class(object: &Value) -> &str {
    let annotations = object.at("metadata").at("annotations");
    let noted =
        [&ORCH, &KUBERNETES].into_iter().find_map(|brand| annotations.get(class_annotation(brand).as_str()));
    noted.unwrap_or(object.at("spec").at("storageClassName")).as_str().unwrap_or_default()
}

/// Rules for the class of a claim, which moves once from the annotation to the field or is filled in where there was none.
/// `allowed` gets the class of `old` if it may change.
pub(super) fn validate_class(
    brand: &Brand,
    old: &Value,
    new: &Value,
    allowed: &mut Value,
) -> Option<FieldError> {
    let key = class_annotation(brand);
    let note = |claim: &'_ Value| claim.at("metadata").at("annotations").at(&key).as_str().map(str::to_owned);
    let (noted, notes) = (note(old), note(new));
    let class =
        new.at("spec").at("storageClassName").as_str().filter(|_| !old.at("spec").has("storageClassName"));
    if class.is_some() && (noted.is_none() || noted.as_deref() == class) {
        carry(old.at("spec"), allowed, "storageClassName");
    }
    let moves = class.is_some() && noted.as_deref() == class && (notes.is_none() || notes == noted);
    let (noted, notes) = (noted.unwrap_or_default(), notes.unwrap_or_default());
    let path = Path::new("metadata").child("annotations").child(&key);
    (!moves && noted != notes).then(|| FieldError::invalid_str(path, &notes, IMMUTABLE))
}

/// A claim keeps a class of attributes once its volume has one.
pub(super) fn validate_attributes_class(old: &Value, new: &Value) -> Option<FieldError> {
    const FIELD: &str = "volumeAttributesClassName";
    let class = new.at("spec").at(FIELD).as_str();
    if class == old.at("spec").at(FIELD).as_str() || !old.at("status").has("currentVolumeAttributesClassName")
    {
        return None;
    }
    let given_up = match class {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return None,
    };
    let detail =
        format!("update to {given_up} is forbidden when status.currentVolumeAttributesClassName is not nil");
    Some(FieldError::forbidden(Path::new("spec").child(FIELD), &detail))
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::super::tests::claim;
    use super::super::{PersistentVolumeClaim, UNCHANGED};
    use super::*;
    use crate::kinds::Strategy;
    use crate::kinds::testing::{CONTEXT, created};
    use crate::validate::tree::{child_mut, set};

    #[test]
    fn classes_move_from_the_annotation_to_the_field_and_else_stay() {
        let with = |note: Option<&str>, class: Option<&str>| {
            let mut claim = claim("1Gi");
            if let Some(note) = note {
                claim["metadata"]["annotations"] = json!({"volume.beta.orch.io/storage-class": note});
            }
            if let Some(class) = class {
                claim["spec"]["storageClassName"] = json!(class);
            }
            claim
        };
        let kept =
            "metadata.annotations.volume.beta.orch.io/storage-class: Invalid value: \"\": field is immutable";
        let changed = kept.replace("\"\"", "\"b\"");
        let spec = format!("spec: Forbidden: {UNCHANGED}");
        let (a, b) = (Some("a"), Some("b"));
        for (old, new, expected) in [
            (with(None, None), with(None, a), vec![]),
            (with(a, None), with(a, a), vec![]),
            (with(a, None), with(None, a), vec![]),
            (with(a, None), with(None, None), vec![kept]),
            (with(a, None), with(b, a), vec![&changed]),
            (with(a, None), with(a, b), vec![&spec]),
            (with(None, a), with(None, b), vec![&spec]),
        ] {
            let (old, mut next) =
                (created(&PersistentVolumeClaim, old), created(&PersistentVolumeClaim, new));
            set(child_mut(&mut next, "metadata"), "resourceVersion", "5");
            let errors = PersistentVolumeClaim.validate_update(&CONTEXT, &old, &next);
            let texts: Vec<String> =
                errors.iter().map(|error| error.to_string().split('\n').next().unwrap().to_owned()).collect();
            assert_eq!(texts, expected, "{old} {next}");
        }
        assert_eq!(shown_class(&with(a, b)), "a");
        assert_eq!(shown_class(&with(None, b)), "b");
    }

    #[test]
    fn a_class_of_attributes_changes_on_bound_claims_and_is_not_given_up() {
        let bound = |phase: &str, class: Value| {
            let mut claim = created(&PersistentVolumeClaim, claim("1Gi"));
            claim["spec"]["volumeAttributesClassName"] = class;
            claim["status"] = json!({"phase": phase, "currentVolumeAttributesClassName": "a"});
            claim
        };
        let given_up = |to: &str| {
            format!(
                "spec.volumeAttributesClassName: Forbidden: update to {to} is forbidden when \
                 status.currentVolumeAttributesClassName is not nil"
            )
        };
        for (phase, class, expected) in [
            ("Bound", json!("b"), vec![]),
            ("Pending", json!("b"), vec![format!("spec: Forbidden: {UNCHANGED}")]),
            ("Bound", json!(""), vec![given_up("empty string")]),
            ("Bound", Value::Null, vec![given_up("nil")]),
        ] {
            let (old, new) = (bound(phase, json!("a")), bound(phase, class));
            let errors = PersistentVolumeClaim.validate_update(&CONTEXT, &old, &new);
            let texts: Vec<String> =
                errors.iter().map(|error| error.to_string().split('\n').next().unwrap().to_owned()).collect();
            assert_eq!(texts, expected, "{new}");
        }
    }
}
