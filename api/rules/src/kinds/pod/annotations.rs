//! Annotations of pods that mean something to the server and may not change.

use orch_schema::value::Value;

use crate::kinds::Context;
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path};

/// Annotation of a static pod's mirror, below the brand's domain of labels.
const MIRROR: &str = "config.mirror";

/// Whether the pod mirrors a static pod of a node.
pub(super) fn is_mirror(context: &Context<'_>, pod: &Value) -> bool {
    pod.at("metadata").at("annotations").has(&context.brand.label(MIRROR))
}

/// Checks that an update leaves these annotations as they are: whether the pod mirrors a static one, on which the rights
/// of its node depend, and the AppArmor profiles that its containers were started with.
pub(super) fn validate_update(context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
    let path = Path::new("metadata").child("annotations");
    let mirror = context.brand.label(MIRROR);
    let profiles = format!("container.apparmor.security.beta.{}", context.brand.label(""));
    let subject = |key: &str| match key {
        key if key.starts_with(&profiles) => Some("AppArmor annotations"),
        key if key == mirror => Some("mirror pod annotation"),
        _ => None,
    };
    let (before, after) = (old.at("metadata").at("annotations"), new.at("metadata").at("annotations"));
    let mut errors = FieldErrors::new();
    for (key, value) in before.as_object().into_iter().flatten() {
        if let Some(subject) = subject(key).filter(|_| after.get(key) != Some(value)) {
            errors.push(FieldError::forbidden(path.key(key), &format!("may not remove or update {subject}")));
        }
    }
    for (key, _) in after.as_object().into_iter().flatten() {
        if let Some(subject) = subject(key).filter(|_| before.get(key).is_none()) {
            errors.push(FieldError::forbidden(path.key(key), &format!("may not add {subject}")));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::kinds::testing::CONTEXT;

    #[test]
    fn whether_a_pod_is_a_mirror_and_its_profiles_stay() {
        let pod = |annotations: Value| json!({"metadata": {"annotations": annotations}});
        let (mirror, profile) = ("orch.io/config.mirror", "container.apparmor.security.beta.orch.io/c");
        for (old, new, expected) in [
            (json!({"a": "1", (mirror): "x"}), json!({"a": "2", (mirror): "x", "b": ""}), vec![]),
            (json!({}), json!({(mirror): ""}), vec![(mirror, "may not add mirror pod annotation")]),
            (
                json!({(mirror): "x"}),
                json!({}),
                vec![(mirror, "may not remove or update mirror pod annotation")],
            ),
            (
                json!({(mirror): "x"}),
                json!({(mirror): "y"}),
                vec![(mirror, "may not remove or update mirror pod annotation")],
            ),
            (
                json!({}),
                json!({(profile): "unconfined"}),
                vec![(profile, "may not add AppArmor annotations")],
            ),
            (
                json!({(profile): "unconfined"}),
                json!({(profile): "runtime/default"}),
                vec![(profile, "may not remove or update AppArmor annotations")],
            ),
        ] {
            let errors = validate_update(&CONTEXT, &pod(old), &pod(new));
            let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let expected: Vec<String> = expected
                .into_iter()
                .map(|(key, detail)| format!("metadata.annotations[{key}]: Forbidden: {detail}"))
                .collect();
            assert_eq!(told, expected);
        }
    }
}
