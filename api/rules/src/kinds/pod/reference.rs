//! References to fields of a pod and to the resources of its containers, in variables and in downward volumes.

use orch_schema::excerpt::part;
use orch_schema::quantity::{Quantity, canonical};
use orch_schema::value::Value;

use crate::validate::metadata::invalid_each;
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path, names};

const FIELD_PATHS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const VOLUME_FIELD_PATHS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// Fields that the reference knows by these names, but gives to no reference.
const OTHER_FIELD_PATHS: [&str; 3] = ["spec.restartPolicy", "spec.schedulerName", "status.phase"];
const RESOURCE_PATHS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const CPU_DIVISORS: [&str; 2] = ["1m", "1"];
const BYTE_DIVISORS: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Checks a reference to a field of the pod. `in_volume`: the reference fills a file and may name a whole map.
pub(super) fn validate_field_reference(reference: &Value, in_volume: bool, path: &Path) -> FieldErrors {
    for field in ["apiVersion", "fieldPath"] {
        if reference.text(field).is_empty() {
            return FieldErrors::from(FieldError::required(path.child(field), ""));
        }
    }
    let (version, field) = (reference.text("apiVersion"), reference.text("fieldPath"));
    let unread = |reason: &str, subject: &str| {
        let detail = format!("error converting fieldPath: {reason}: {}", part(subject));
        FieldErrors::from(FieldError::invalid_str(path.child("fieldPath"), field, &detail))
    };
    if version != "v1" {
        return unread("unsupported pod version", version);
    }
    let subscripted = field.strip_suffix("']").and_then(|rest| rest.split_once("['"));
    if let Some((map, key)) = subscripted.filter(|(map, _)| !map.is_empty()) {
        return match map {
            "metadata.annotations" => invalid_each(path, key, names::qualified_name(&key.to_lowercase())),
            "metadata.labels" => invalid_each(path, key, names::qualified_name(key)),
            _ => unread("field label does not support subscript", field),
        };
    }
    // The name of the field before version 1 of the API.
    let known_as = if field == "spec.host" { "spec.nodeName" } else { field };
    let known: &[&str] = if in_volume { &VOLUME_FIELD_PATHS } else { &FIELD_PATHS };
    if known.contains(&known_as) {
        return FieldErrors::new();
    }
    let others: [&[&str]; 3] = [&FIELD_PATHS, &VOLUME_FIELD_PATHS, &OTHER_FIELD_PATHS];
    // few: the fields of a pod that have such names.
    if others.into_iter().flatten().any(|other| *other == known_as) {
        return FieldErrors::from(FieldError::not_supported(path.child("fieldPath"), known_as, known));
    }
    unread("field label not supported", field)
}

/// Checks a reference to a request or limit of a container.
pub(super) fn validate_resource_reference(reference: &Value, in_volume: bool, path: &Path) -> FieldErrors {
    let resource = reference.text("resource");
    let mut errors = FieldErrors::new();
    if in_volume && reference.text("containerName").is_empty() {
        errors.push(FieldError::required(path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(path.child("resource"), ""));
    } else if !RESOURCE_PATHS.contains(&resource) && !is_of_huge_pages(resource) {
        errors.push(FieldError::not_supported(path.child("resource"), resource, &RESOURCE_PATHS));
    }
    errors.extend(validate_divisor(resource, reference.text("divisor"), path.child("divisor")));
    errors
}

fn is_of_huge_pages(resource: &str) -> bool {
    // few: two prefixes.
    ["requests.hugepages-", "limits.hugepages-"].into_iter().any(|prefix| resource.starts_with(prefix))
}

/// A divisor is a unit in which the resource is counted.
fn validate_divisor(resource: &str, divisor: &str, path: Path) -> Option<FieldError> {
    Quantity::parse(divisor).filter(|quantity| !quantity.is_zero())?;
    let shown = match resource.split_once('.').map_or(resource, |(_, name)| name) {
        _ if is_of_huge_pages(resource) => "hugepages",
        _ if !RESOURCE_PATHS.contains(&resource) => return None,
        "cpu" => "cpu",
        "memory" => "memory",
        _ => "local ephemeral storage",
    };
    let (known, listed): (&[&str], String) = if shown == "cpu" {
        (&CPU_DIVISORS, CPU_DIVISORS.join(" and "))
    } else {
        (&BYTE_DIVISORS, BYTE_DIVISORS.join(", "))
    };
    let divisor = canonical(divisor).unwrap_or_default();
    let detail = format!("only divisor's values {listed} are supported with the {shown} resource");
    (!known.contains(&divisor.as_str())).then(|| FieldError::invalid_str(path, resource, &detail))
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn check(errors: FieldErrors, expected: &[&str]) {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn fields_are_known_by_their_path() {
        for (version, field, in_volume, expected) in [
            ("v1", "metadata.labels['a']", false, ""),
            ("v1", "spec.host", false, ""),
            ("v1", "metadata.labels", true, ""),
            ("", "metadata.name", false, "f.apiVersion: Required value"),
            (
                "v2",
                "metadata.name",
                false,
                "f.fieldPath: Invalid value: \"metadata.name\": error converting fieldPath: unsupported pod version: v2",
            ),
            (
                "v1",
                "spec.nope",
                false,
                "f.fieldPath: Invalid value: \"spec.nope\": error converting fieldPath: field label not supported: \
                 spec.nope",
            ),
            (
                "v1",
                "spec.x['a']",
                false,
                "f.fieldPath: Invalid value: \"spec.x['a']\": error converting fieldPath: field label does not support \
                 subscript: spec.x['a']",
            ),
            (
                "v1",
                "status.phase",
                true,
                "f.fieldPath: Unsupported value: \"status.phase\": supported values: \"metadata.annotations\", \
                 \"metadata.labels\", \"metadata.name\", \"metadata.namespace\", \"metadata.uid\"",
            ),
        ] {
            let reference = json!({"apiVersion": version, "fieldPath": field});
            let expected: Vec<&str> = Some(expected).filter(|text| !text.is_empty()).into_iter().collect();
            check(validate_field_reference(&reference, in_volume, &Path::new("f")), &expected);
        }
    }

    #[test]
    fn resources_are_counted_in_units() {
        let bytes = BYTE_DIVISORS.join(", ");
        for (resource, divisor, expected) in [
            ("limits.cpu", "1000m", None),
            ("limits.cpu", "0", None),
            ("limits.memory", "1Mi", None),
            (
                "limits.disk",
                "7",
                Some(
                    "resource: Unsupported value: \"limits.disk\": supported values: \"limits.cpu\", \
                     \"limits.ephemeral-storage\", \"limits.memory\", \"requests.cpu\", \
                     \"requests.ephemeral-storage\", \"requests.memory\""
                        .to_owned(),
                ),
            ),
            (
                "requests.cpu",
                "2",
                Some(
                    "divisor: Invalid value: \"requests.cpu\": only divisor's values 1m and 1 are supported with the cpu \
                     resource"
                        .to_owned(),
                ),
            ),
            (
                "limits.ephemeral-storage",
                "2Mi",
                Some(format!(
                    "divisor: Invalid value: \"limits.ephemeral-storage\": only divisor's values {bytes} are supported \
                     with the local ephemeral storage resource"
                )),
            ),
            (
                "limits.hugepages-2Mi",
                "1m",
                Some(format!(
                    "divisor: Invalid value: \"limits.hugepages-2Mi\": only divisor's values {bytes} are supported with \
                     the hugepages resource"
                )),
            ),
        ] {
            let reference = json!({"resource": resource, "divisor": divisor});
            let expected: Vec<String> = expected.into_iter().map(|text| format!("r.{text}")).collect();
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            check(validate_resource_reference(&reference, false, &Path::new("r")), &expected);
        }
    }
}
