//! The sub-resource `ephemeralcontainers`: ephemeral containers are added to a pod, and never changed or removed.

use std::collections::BTreeMap;

use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use crate::kinds::Context;
use crate::kinds::pod::annotations::is_mirror;
use crate::validate::tree::{Tree, is_unchanged, shown};
use crate::validate::{FieldError, FieldErrors, Path};

/// Rules for a change of the ephemeral containers. `errors`: those of the new pod as a whole.
pub(super) fn validate_update(
    context: &Context<'_>,
    old: &Value,
    new: &Value,
    mut errors: FieldErrors,
) -> FieldErrors {
    if is_mirror(context, old.at("metadata")) {
        let detail = "static pods do not support ephemeral containers";
        return FieldErrors::from(FieldError::forbidden(Path::new(""), detail));
    }
    let path = Path::new("spec").child("ephemeralContainers");
    let after = new.at("spec").items("ephemeralContainers");
    let named: BTreeMap<&str, &Value> =
        after.iter().map(|container| (container.text("name"), container)).collect();
    for before in old.at("spec").items("ephemeralContainers") {
        let name = quoted(before.text("name"));
        let detail = match named.get(before.text("name")) {
            None => format!("existing ephemeral containers {name} may not be removed\n"),
            Some(after) if !is_unchanged(before, after) => {
                format!("existing ephemeral containers {name} may not be changed\nit is {}", shown(before))
            }
            Some(_) => continue,
        };
        errors.push(FieldError::forbidden(path.clone(), &detail));
    }
    errors
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::Action;
    use crate::kinds::Strategy;
    use crate::kinds::pod::Pod;
    use crate::kinds::testing::{CONTEXT, created, updated};

    fn pod(containers: Value) -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {"containers": [{"name": "c", "image": "i"}], "ephemeralContainers": containers}
        })
    }

    #[test]
    fn ephemeral_containers_are_only_added() {
        let without = created(&Pod, pod(json!([])));
        let one = |image: &str| json!({"name": "e", "image": image, "targetContainerName": "c"});
        let context = Context { action: Action::EphemeralContainers, ..CONTEXT };
        let with = |old: &Value, containers: Value| {
            let mut new = pod(containers);
            Pod.default(&context, &mut new);
            new["spec"]["containers"][0]["image"] = json!("changed");
            new["metadata"]["generation"] = old["metadata"]["generation"].clone();
            updated(&Pod, Action::EphemeralContainers, old, new)
        };
        let stored = with(&without, json!([one("x")]));
        assert_eq!(stored["metadata"]["generation"], 2);
        assert_eq!(stored["spec"]["containers"], without["spec"]["containers"], "the rest stays");
        for (containers, expected) in [
            (json!([one("x")]), None),
            (json!([{"name": "f", "image": "y"}, one("x")]), None),
            (json!([]), Some("may not be removed")),
            (json!([one("y")]), Some("may not be changed")),
            (json!([{"name": "c", "image": "y"}, one("x")]), Some("Duplicate value: \"c\"")),
        ] {
            let new = with(&stored, containers);
            let errors = Pod.validate_update(&context, &stored, &new);
            let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(told.len(), usize::from(expected.is_some()), "{told:?}");
            assert!(expected.is_none_or(|part| told[0].contains(part)), "{told:?}");
        }
    }
}
