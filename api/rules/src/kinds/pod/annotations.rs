//! Annotations of pods that mean something to the server and may not change.

use orch_schema::excerpt::quoted;
use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::Context;
use crate::kinds::pod::os::containers;
use crate::kinds::pod::seccomp;
use crate::validate::tree::{Tree, child_mut, items_mut, set};
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

/// Annotation of a static pod's mirror, below the brand's domain of labels.
const MIRROR: &str = "config.mirror";

/// Whether the pod with this metadata mirrors a static pod of a node.
pub(super) fn is_mirror(context: &Context<'_>, metadata: &Value) -> bool {
    metadata.at("annotations").has(&context.brand.label(MIRROR))
}

/// Prefix of the keys of AppArmor's annotations, before the name of a container.
fn profiles(context: &Context<'_>) -> String {
    format!("container.apparmor.security.beta.{}", context.brand.label(""))
}

/// The type of an AppArmor profile, and its name on the node, by the text of an annotation. `None`: it is none.
fn profile(text: &str) -> Option<(&'static str, Option<&str>)> {
    match text {
        "" | "runtime/default" => Some(("RuntimeDefault", None)),
        "unconfined" => Some(("Unconfined", None)),
        text => text.strip_prefix("localhost/").map(|name| ("Localhost", Some(name))),
    }
}

/// Gives the containers of a new pod that have no AppArmor profile that of their annotation.
pub(super) fn set_profiles(context: &Context<'_>, pod: &mut Value) {
    let prefix = profiles(context);
    let annotations = pod.at("metadata").at("annotations").clone();
    let mut given = annotations.as_object().into_iter().flatten();
    // once: the annotations of a pod.
    if pod.at("spec").at("os").text("name") == "windows" || !given.any(|(key, _)| key.starts_with(&prefix)) {
        return;
    }
    let spec = child_mut(pod, "spec");
    for list in ["initContainers", "containers"] {
        for container in items_mut(spec, list) {
            let annotation = annotations.at(&format!("{prefix}{}", container.text("name"))).as_str();
            let Some((kind, name)) = annotation.filter(|text| !text.is_empty()).and_then(profile) else {
                continue;
            };
            if container.at("securityContext").has("appArmorProfile") {
                continue;
            }
            let mut profile = json!({"type": kind});
            if let Some(name) = name {
                set(&mut profile, "localhostProfile", name);
            }
            set(child_mut(container, "securityContext"), "appArmorProfile", profile);
        }
    }
}

/// Checks the annotations of a pod or of the template of pods that mean something: a mirror names its node, AppArmor's
/// name containers and profiles, those of seccomp profiles, and the cost of a deletion is a number.
pub(crate) fn validate(context: &Context<'_>, annotations: &Value, spec: &Value, path: &Path) -> FieldErrors {
    let (mirror, prefix) = (context.brand.label(MIRROR), profiles(context));
    let cost = format!("controller.{}", context.brand.label("pod-deletion-cost"));
    let names = ["initContainers", "containers", "ephemeralContainers"].into_iter();
    let names: Distinct<&str> =
        names.flat_map(|list| spec.items(list)).map(|container| container.text("name")).collect();
    let mut errors = FieldErrors::new();
    for (key, value) in annotations.as_object().into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        if *key == mirror && spec.text("nodeName").is_empty() {
            let detail = "must set spec.nodeName if mirror pod annotation is set";
            errors.push(FieldError::invalid_str(path.key(key), text, detail));
        }
        if *key == cost && !is_cost(text) {
            errors.push(FieldError::invalid_str(path.key(key), text, "must be a 32bit integer"));
        }
        errors.extend(seccomp::validate(context, key, text, path));
        let Some(name) = key.strip_prefix(&prefix) else { continue };
        if !names.has(&name) {
            errors.push(FieldError::invalid_str(path.key(key), name, "container not found"));
        }
        if profile(text).is_none() {
            let detail = format!("invalid AppArmor profile name: {}", quoted(text));
            errors.push(FieldError::invalid_str(path.key(key), text, &detail));
        }
    }
    errors
}

/// Whether the text is a number of 32 bits in its plain form.
fn is_cost(text: &str) -> bool {
    let is_plain = text == "0" || text.starts_with(|first: char| matches!(first, '-' | '1'..='9'));
    is_plain && text.parse::<i32>().is_ok()
}

/// Checks that the AppArmor profiles of a new pod's containers are those of their annotations.
pub(super) fn validate_same_profiles(context: &Context<'_>, pod: &Value, path: &Path) -> FieldErrors {
    let (spec, annotations) = (pod.at("spec"), pod.at("metadata").at("annotations"));
    let mut errors = FieldErrors::new();
    if spec.at("os").text("name") == "windows" {
        return errors;
    }
    let prefix = profiles(context);
    for (container, path) in containers(spec, path) {
        let of = |holder: &'_ Value| holder.at("securityContext").at("appArmorProfile").clone();
        let field = Some(of(container)).filter(|own| !own.is_null()).unwrap_or_else(|| of(spec));
        let annotation = annotations.at(&format!("{prefix}{}", container.text("name"))).as_str();
        let Some(text) = annotation.filter(|_| !field.is_null()) else { continue };
        let path = path.child("securityContext").child("appArmorProfile");
        // An annotation without text stands for no profile here.
        let given = profile(text).filter(|_| !text.is_empty());
        let (is_kind, is_profile) = match field.text("type") {
            kind @ ("Unconfined" | "RuntimeDefault") => (given.is_some_and(|given| given.0 == kind), true),
            "Localhost" => match given {
                Some(("Localhost", name)) => (true, field.at("localhostProfile").as_str() == name),
                _ => (false, true),
            },
            _ => (true, true),
        };
        if !is_kind {
            let detail = "apparmor type in annotation and field must match";
            errors.push(FieldError::forbidden(path.child("type"), detail));
        } else if !is_profile {
            let detail = "apparmor profile in annotation and field must match";
            errors.push(FieldError::forbidden(path.child("localhostProfile"), detail));
        }
    }
    errors
}

/// Checks that an update leaves these annotations as they are: whether the pod mirrors a static one, on which the rights
/// of its node depend, and the AppArmor profiles that its containers were started with.
pub(super) fn validate_update(context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
    let path = Path::new("metadata").child("annotations");
    let mirror = context.brand.label(MIRROR);
    let profiles = profiles(context);
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

    #[test]
    fn annotations_have_texts_that_mean_something() {
        let (cost, container) =
            ("controller.orch.io/pod-deletion-cost", "container.seccomp.security.alpha.orch.io/c");
        for (key, text, expected) in [
            (cost, "-12", None),
            (cost, "0", None),
            (cost, "+1", Some("m[{key}]: Invalid value: \"+1\": must be a 32bit integer")),
            (cost, "01", Some("m[{key}]: Invalid value: \"01\": must be a 32bit integer")),
            (cost, "3000000000", Some("m[{key}]: Invalid value: \"3000000000\": must be a 32bit integer")),
            (container, "docker/default", None),
            (container, "localhost/a", None),
            (container, "localhost//a", Some("m.{key}: Invalid value: \"/a\": must be a relative path")),
            (container, "x", Some("m.{key}: Invalid value: \"x\": must be a valid seccomp profile")),
        ] {
            let errors = validate(&CONTEXT, &json!({ (key): text }), &json!({}), &Path::new("m"));
            let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let expected: Vec<String> = expected.into_iter().map(|text| text.replace("{key}", key)).collect();
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn fields_and_annotations_about_profiles_agree() {
        for (kind, name, text, expected) in [
            ("Unconfined", None, "unconfined", None),
            ("RuntimeDefault", None, "unconfined", Some("type")),
            ("Localhost", Some("a"), "localhost/a", None),
            ("Localhost", Some("a"), "localhost/b", Some("localhostProfile")),
            ("Localhost", Some("a"), "", Some("type")),
        ] {
            let mut profile = json!({ "type": kind });
            if let Some(name) = name {
                set(&mut profile, "localhostProfile", name);
            }
            let pod = json!({
                "metadata": {"annotations": {"container.apparmor.security.beta.orch.io/c": text}},
                "spec": {"securityContext": {"appArmorProfile": profile}, "containers": [{"name": "c"}]}
            });
            let errors = validate_same_profiles(&CONTEXT, &pod, &Path::new("s"));
            let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
            let expected: Vec<String> = expected
                .into_iter()
                .map(|field| format!("s.containers[0].securityContext.appArmorProfile.{field}"))
                .collect();
            assert_eq!(paths, expected, "{kind} {text}");
        }
    }
}
