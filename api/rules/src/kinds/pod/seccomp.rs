//! Annotations that name seccomp profiles, as they did before there were fields for them.

use orch_schema::value::Value;

use crate::kinds::Context;
use crate::kinds::pod::os::containers;
use crate::kinds::pod::volume::validate_descending_path;
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path};

/// The key of the annotation for the whole pod.
fn pod_key(context: &Context<'_>) -> String {
    format!("seccomp.security.alpha.{}", context.brand.label("pod"))
}

/// The key of the annotation for a container. Without a name: what such keys begin with.
fn container_key(context: &Context<'_>, name: &str) -> String {
    format!("container.seccomp.security.alpha.{}", context.brand.label(name))
}

/// Checks an annotation of a pod, if it is about seccomp. `path` is that of the annotations.
pub(super) fn validate(context: &Context<'_>, key: &str, text: &str, path: &Path) -> FieldErrors {
    if key != pod_key(context) && !key.starts_with(&container_key(context, "")) {
        return FieldErrors::new();
    }
    let path = path.child(key);
    match text {
        "runtime/default" | "docker/default" | "unconfined" => FieldErrors::new(),
        text => match text.strip_prefix("localhost/") {
            Some(file) => validate_descending_path(file, &path),
            None => FieldError::invalid_str(path, text, "must be a valid seccomp profile").into(),
        },
    }
}

/// Checks that the seccomp profiles of a pod or a template are those of the annotations. `path` is that of the spec.
pub(crate) fn validate_same_profiles(
    context: &Context<'_>,
    annotations: &Value,
    spec: &Value,
    path: &Path,
) -> FieldErrors {
    let of_pod = (spec, path.clone(), pod_key(context));
    let of_containers = containers(spec, path)
        .map(|(container, path)| (container, path, container_key(context, container.text("name"))));
    let all = std::iter::once(of_pod).chain(of_containers);
    let errors = all.filter_map(|(holder, path, key)| {
        let text = annotations.at(&key).as_str()?;
        let profile = holder.at("securityContext").at("seccompProfile");
        mismatch(profile, text, &path.child("securityContext").child("seccompProfile"))
    });
    errors.collect()
}

fn mismatch(profile: &Value, text: &str, path: &Path) -> Option<FieldError> {
    let (is_kind, is_profile) = match profile.text("type") {
        "Unconfined" => (text == "unconfined", true),
        "RuntimeDefault" => (matches!(text, "runtime/default" | "docker/default"), true),
        "Localhost" => match text.strip_prefix("localhost/") {
            Some(file) => (true, profile.at("localhostProfile").as_str() == Some(file)),
            None => (false, true),
        },
        _ => (true, true),
    };
    if !is_kind {
        let detail = "seccomp type in annotation and field must match";
        return Some(FieldError::forbidden(path.child("type"), detail));
    }
    let detail = "seccomp profile in annotation and field must match";
    (!is_profile).then(|| FieldError::forbidden(path.child("localhostProfile"), detail))
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::kinds::testing::CONTEXT;

    #[test]
    fn fields_and_annotations_agree() {
        for (kind, text, expected) in [
            ("RuntimeDefault", "docker/default", None),
            ("RuntimeDefault", "unconfined", Some("s.containers[0].securityContext.seccompProfile.type")),
            ("Localhost", "localhost/a", None),
            (
                "Localhost",
                "localhost/b",
                Some("s.containers[0].securityContext.seccompProfile.localhostProfile"),
            ),
            ("Localhost", "unconfined", Some("s.containers[0].securityContext.seccompProfile.type")),
        ] {
            let spec = json!({"containers": [{
                "name": "c", "securityContext": {"seccompProfile": {"type": kind, "localhostProfile": "a"}}
            }]});
            let key = "container.seccomp.security.alpha.orch.io/c";
            let errors = validate_same_profiles(&CONTEXT, &json!({ (key): text }), &spec, &Path::new("s"));
            let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
            assert_eq!(paths, Vec::from_iter(expected), "{kind} {text}");
        }
    }
}
