//! The sub-resource `resize`: the cpu and memory of a pod's containers change while it runs.
//!
//! Owns what a resize leaves alone, and its rules: no container comes, goes or changes its place, no request or limit
//! is removed, and the quality of service class stays.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::kinds::Context;
use crate::kinds::object_meta;
use crate::kinds::pod::annotations::is_mirror;
use crate::kinds::pod::qos::qos_class;
use crate::validate::tree::{
    Tree, carry, carry_entries, child_mut, is_empty, is_unchanged, items_mut, set, unset,
};
use crate::validate::{FieldError, FieldErrors, Path};

/// The lists of containers that can be resized.
const LISTS: [&str; 2] = ["containers", "initContainers"];

/// The amounts that can change.
const RESIZED: [&str; 2] = ["cpu", "memory"];

/// Keeps everything of `old` but the resources of the pod and of its containers. Lists of containers that do not match
/// are left for the rules to refuse.
pub(super) fn keep_but_resources(old: &Value, new: &mut Value) {
    let (before, after) = (old.at("spec"), new.at("spec"));
    let has_all = |list: &str| before.items(list).len() == after.items(list).len();
    if LISTS.into_iter().all(has_all) {
        let mut spec = before.clone();
        for list in LISTS {
            resize_list(&mut spec, after, list);
        }
        carry(after, &mut spec, "resources");
        set(new, "spec", spec);
        carry(old, new, "status");
        object_meta::keep_client_metadata(old, new);
    }
    object_meta::raise_generation(old, new, &["spec"]);
}

fn resize_list(spec: &mut Value, after: &Value, list: &str) {
    let named = |spec: &Value| {
        spec.items(list).iter().map(|container| container.text("name").to_owned()).collect::<Vec<_>>()
    };
    if named(spec) != named(after) {
        return carry(after, spec, list);
    }
    for (container, resized) in items_mut(spec, list).iter_mut().zip(after.items(list)) {
        for field in ["resources", "resizePolicy"] {
            carry(resized, container, field);
        }
    }
}

/// Rules for a resize. `errors`: those of the new pod as a whole.
pub(super) fn validate_update(
    context: &Context<'_>,
    old: &Value,
    new: &Value,
    mut errors: FieldErrors,
) -> FieldErrors {
    let (before, after, path) = (old.at("spec"), new.at("spec"), Path::new("spec"));
    let excluded = if is_mirror(context, old.at("metadata")) {
        Some("static pods cannot be resized")
    } else {
        let is_windows = before.at("os").text("name") == "windows";
        is_windows.then_some("windows pods cannot be resized")
    };
    if let Some(detail) = excluded {
        return FieldErrors::from(FieldError::forbidden(Path::new(""), detail));
    }
    let class = match old.at("status").text("qosClass") {
        "" => qos_class(before),
        class => class,
    };
    if class != qos_class(after) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid_str(path.clone(), new.at("status").text("qosClass"), detail));
    }
    if !supports_resize(old.at("status")) {
        let detail = "Pod running on node without support for resize";
        errors.push(FieldError::forbidden(path.clone(), detail));
    }
    let misplaced = validate_order(before, after, &path);
    let is_in_order = misplaced.is_empty();
    errors.extend(misplaced);
    if !is_in_order {
        return errors;
    }
    errors.extend(validate_pod_level(before, after, &path));
    for list in LISTS {
        let pairs = before.items(list).iter().zip(after.items(list)).numbered();
        for (at, (before, after)) in pairs {
            let path = path.child(list).index(at).child("resources");
            let (before, after) = (before.at("resources"), after.at("resources"));
            errors.extend(validate_none_removed(before, after, "resource", &path));
        }
        errors.extend(validate_nothing_else(before, after, list, &path));
    }
    if errors.is_empty() && !is_unchanged(before, &spec_with_amounts_of(after, before)) {
        errors.push(FieldError::forbidden(path, "only cpu and memory resources are mutable"));
    }
    errors
}

/// Whether the node reports the resources of running containers, as nodes do that can resize them.
fn supports_resize(status: &Value) -> bool {
    let running =
        // once: one pod.
        status.items("containerStatuses").iter().find(|container| container.at("state").has("running"));
    status.text("phase") != "Running" || running.is_none_or(|container| container.has("resources"))
}

fn validate_order(before: &Value, after: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for list in LISTS {
        let (path, before, after) = (path.child(list), before.items(list), after.items(list));
        if before.len() != after.len() {
            let detail = format!("{list} may not be added or removed on resize");
            errors.push(FieldError::forbidden(path, &detail));
            continue;
        }
        let pairs = before.iter().zip(after).numbered();
        let moved = pairs.filter(|(_, (before, after))| before.text("name") != after.text("name"));
        errors.extend(moved.map(|(at, _)| {
            let detail = format!("{list} may not be renamed or reordered on resize");
            FieldError::forbidden(path.index(at).child("name"), &detail)
        }));
    }
    errors
}

/// `subject` is the word in the message.
fn validate_none_removed(before: &Value, after: &Value, subject: &str, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for list in ["requests", "limits"] {
        let left = after.at(list);
        // once: one container.
        let is_removed = before.entries(list).into_iter().any(|(name, _)| !left.has(name));
        if is_removed {
            let detail = format!("{subject} {list} cannot be removed");
            errors.push(FieldError::forbidden(path.child(list), &detail));
        }
    }
    errors
}

/// Whether a pod asks for something as a whole, as of its spec before or after. Where it does not, its empty `resources` may
/// neither come nor go, as with the rest of the spec.
fn has_pod_level(before: &Value, after: &Value) -> bool {
    let asks = |resources: &Value| {
        // few: two lists.
        ["requests", "limits"].into_iter().any(|list| !is_empty(resources.at(list)))
    };
    asks(before.at("resources")) || asks(after.at("resources"))
}

/// Rules for what a pod asks for as a whole.
fn validate_pod_level(before: &Value, after: &Value, path: &Path) -> FieldErrors {
    if !has_pod_level(before, after) {
        return FieldErrors::new();
    }
    let resources = path.child("resources");
    let (before, after) = (before.at("resources"), after.at("resources"));
    if !before.is_null() && after.is_null() {
        let detail = "pod-level resources cannot be removed";
        return FieldErrors::from(FieldError::forbidden(resources, detail));
    }
    let mut errors = validate_none_removed(before, after, "pod-level resource", &resources);
    let mut restored = after.clone();
    for list in ["requests", "limits"].into_iter().filter(|_| !after.is_null()) {
        carry_entries(before, &mut restored, list, &RESIZED);
    }
    let is_kept = is_unchanged(before, &restored) || before.is_null() && is_empty(&restored);
    if !is_kept {
        let detail = "only cpu and memory resources are mutable at pod-level";
        errors.push(FieldError::forbidden(path.clone(), detail));
    }
    errors
}

/// Refuses changes of containers beyond amounts of cpu and memory, and of containers that would start again for it but
/// run only once.
fn validate_nothing_else(before: &Value, after: &Value, list: &str, path: &Path) -> FieldErrors {
    let pairs = before.items(list).iter().zip(after.items(list)).numbered();
    let mut errors = FieldErrors::new();
    for (at, (before, after)) in pairs {
        let is_more = !is_unchanged(before, &with_amounts_of(after, before));
        if list == "containers" {
            let detail = "only cpu and memory resources are mutable";
            errors.extend(is_more.then(|| FieldError::forbidden(path.clone(), detail)));
            continue;
        }
        let path = path.child(list).index(at);
        if is_more {
            let detail = "only cpu and memory resources for init or sidecar containers are mutable";
            errors.push(FieldError::forbidden(path.clone(), detail));
        }
        let mut policies = before.items("resizePolicy").iter();
        // few: a policy for each of two resources.
        let is_restarted = policies.any(|policy| policy.text("restartPolicy") == "RestartContainer");
        if is_restarted && before.text("restartPolicy") != "Always" && !is_unchanged(before, after) {
            let detail =
                "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
            errors.push(FieldError::forbidden(path, detail));
        }
    }
    errors
}

/// The spec `after` with the cpu and memory of `before`, as a whole and in all of its containers.
fn spec_with_amounts_of(after: &Value, before: &Value) -> Value {
    let mut restored = match has_pod_level(before, after) {
        true => with_amounts_of(after, before),
        false => after.clone(),
    };
    for list in LISTS {
        for (container, before) in items_mut(&mut restored, list).iter_mut().zip(before.items(list)) {
            *container = with_amounts_of(container, before);
        }
    }
    restored
}

/// `after` with the cpu and memory of `before`: of a container, or of a pod as a whole.
fn with_amounts_of(after: &Value, before: &Value) -> Value {
    let mut restored = after.clone();
    if restored.has("resources") || before.has("resources") {
        let resources = child_mut(&mut restored, "resources");
        // Claims are no amounts: a container that has some cannot be resized, as in the reference.
        unset(resources, "claims");
        for list in ["requests", "limits"] {
            carry_entries(before.at("resources"), resources, list, &RESIZED);
        }
        // Resources in which nothing is left say as much as none.
        if is_empty(resources) && before.at("resources").is_null() {
            unset(&mut restored, "resources");
        }
    }
    restored
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::Action;
    use crate::kinds::Strategy;
    use crate::kinds::pod::Pod;
    use crate::kinds::testing::{CONTEXT, created, updated};

    fn pod(containers: Value, init: Value) -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {"containers": containers, "initContainers": init}
        })
    }

    fn check(change: impl Fn(&mut Value), expected: &[&str]) -> Value {
        let resources = json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}});
        let old = created(
            &Pod,
            pod(
                json!([{"name": "c", "image": "i", "resources": resources}, {"name": "d", "image": "i"}]),
                json!([{"name": "s", "image": "i", "restartPolicy": "Always"}]),
            ),
        );
        let mut new = old.clone();
        change(&mut new);
        let new = updated(&Pod, Action::Resize, &old, new);
        let context = Context { action: Action::Resize, ..CONTEXT };
        let told: Vec<String> =
            Pod.validate_update(&context, &old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(told, expected);
        new
    }

    #[test]
    fn only_cpu_and_memory_change_and_neither_is_removed() {
        let resized = check(
            |pod| {
                pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("200m");
                pod["spec"]["containers"][0]["image"] = json!("ignored");
                pod["spec"]["initContainers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
                pod["metadata"]["labels"] = json!({"ignored": ""});
            },
            &[],
        );
        assert_eq!(resized["metadata"]["generation"], 2);
        assert_eq!(resized["spec"]["containers"][0]["image"], "i");
        assert!(!resized["metadata"].has("labels"));
        check(
            |pod| {
                pod["spec"]["containers"][0]["resources"]["limits"] = json!({});
            },
            &["spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed"],
        );
        let other = "spec: Forbidden: only cpu and memory resources are mutable";
        check(
            |pod| {
                pod["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = json!("1Gi");
            },
            &[other],
        );
        check(
            |pod| {
                let policy = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
                pod["spec"]["containers"][0]["resizePolicy"] = policy;
            },
            &[other],
        );
    }

    #[test]
    fn empty_resources_of_a_pod_as_a_whole_neither_come_nor_go() {
        let other = "spec: Forbidden: only cpu and memory resources are mutable";
        check(|pod| pod["spec"]["resources"] = json!({}), &[other]);
        // A pod that gets its first amounts as a whole is resized.
        let old = json!({"containers": []});
        let with = |resources: Value| json!({"containers": [], "resources": resources});
        let path = Path::new("spec");
        let told = |before: &Value, after: &Value| -> Vec<String> {
            validate_pod_level(before, after, &path).iter().map(ToString::to_string).collect()
        };
        let one = with(json!({"requests": {"cpu": "1"}}));
        assert!(told(&old, &one).is_empty() && is_unchanged(&old, &spec_with_amounts_of(&one, &old)));
        assert_eq!(told(&one, &old), ["spec.resources: Forbidden: pod-level resources cannot be removed"]);
        let empty = with(json!({}));
        for (before, after) in [(&old, &empty), (&empty, &old)] {
            assert!(told(before, after).is_empty());
            assert!(!is_unchanged(before, &spec_with_amounts_of(after, before)));
        }
    }

    #[test]
    fn containers_stay_in_their_places() {
        check(
            |pod| {
                let first = pod["spec"]["containers"][0].clone();
                pod["spec"]["containers"] = json!([first]);
            },
            &["spec.containers: Forbidden: containers may not be added or removed on resize"],
        );
        check(
            |pod| {
                pod["spec"]["containers"][1]["name"] = json!("e");
            },
            &["spec.containers[1].name: Forbidden: containers may not be renamed or reordered on resize"],
        );
    }

    #[test]
    fn a_resize_needs_a_node_that_reports_resources() {
        for (status, expected) in [
            (json!({"phase": "Pending"}), true),
            (json!({"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}), false),
            (json!({"phase": "Running", "containerStatuses": [{"state": {"waiting": {}}}]}), true),
            (
                json!({"phase": "Running", "containerStatuses": [{"state": {"running": {"a": 1}}, "resources": {"a": 1}}]}),
                true,
            ),
        ] {
            assert_eq!(supports_resize(&status), expected, "{status}");
        }
    }
}
