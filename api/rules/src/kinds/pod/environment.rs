//! Ports and environment variables of a container.

use orch_schema::budget::Numbered;
use orch_schema::excerpt::part;
use orch_schema::value::Value;

use crate::validate::metadata::invalid_each;
use crate::validate::tree::Tree;
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

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
const RESOURCE_PATHS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/// Rules for the ports of one container.
pub(super) fn validate_ports(ports: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for (at, port) in ports.iter().numbered() {
        let path = path.index(at);
        let name = port.text("name");
        if !name.is_empty() {
            let broken = invalid_each(&path.child("name"), name, names::port_name(name));
            if seen.is_repeated(name) && broken.is_empty() {
                errors.push(FieldError::duplicate(path.child("name"), &super::quoted(name)));
            }
            errors.extend(broken);
        }
        if port.is_empty_at("containerPort") {
            errors.push(FieldError::required(path.child("containerPort"), ""));
        }
        for field in ["containerPort", "hostPort"] {
            let number = port.int(field).filter(|&number| number != 0);
            let messages = number.map(names::port_number).unwrap_or_default();
            let shown = number.unwrap_or(0).to_string();
            errors.extend(
                messages.iter().map(|message| FieldError::invalid(path.child(field), &shown, message)),
            );
        }
        errors.extend(validate_protocol(port.text("protocol"), path.child("protocol")));
    }
    errors
}

/// Checks the transport protocol of a port.
fn validate_protocol(protocol: &str, path: Path) -> Option<FieldError> {
    let known = ["SCTP", "TCP", "UDP"];
    if protocol.is_empty() {
        return Some(FieldError::required(path, ""));
    }
    (!known.contains(&protocol)).then(|| FieldError::not_supported(path, protocol, &known))
}

/// Rules for the variables of one container.
pub(super) fn validate_env(variables: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (at, variable) in variables.iter().numbered() {
        let (name, path) = (variable.text("name"), path.index(at));
        if name.is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        } else {
            errors.extend(invalid_each(&path.child("name"), name, names::env_var(name)));
        }
        if variable.has("valueFrom") {
            errors.extend(validate_value_from(variable, &path.child("valueFrom")));
        }
    }
    errors
}

/// Rules for `envFrom`, the sources of whole sets of variables.
pub(super) fn validate_env_from(sources: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (at, source) in sources.iter().numbered() {
        let item = path.index(at);
        let prefix = source.text("prefix");
        if !prefix.is_empty() {
            errors.extend(invalid_each(&item.child("prefix"), prefix, names::env_var(prefix)));
        }
        let given: Vec<&str> =
            ["configMapRef", "secretRef"].into_iter().filter(|kind| source.has(kind)).collect();
        for kind in &given {
            errors.extend(validate_reference_name(source.at(kind), &item.child(kind)));
        }
        let detail = match given.len() {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid_str(path.clone(), "", detail));
    }
    errors
}

/// Checks a reference to a field of the pod. `in_volume`: the reference fills a file and may name a whole map.
pub(super) fn validate_field_reference(reference: &Value, in_volume: bool, path: &Path) -> FieldErrors {
    for field in ["apiVersion", "fieldPath"] {
        if reference.text(field).is_empty() {
            return FieldErrors::from(FieldError::required(path.child(field), ""));
        }
    }
    let field = reference.text("fieldPath");
    if let Some((map, key)) = field.strip_suffix("']").and_then(|rest| rest.split_once("['")) {
        return match map {
            "metadata.annotations" => invalid_each(path, key, names::qualified_name(&key.to_lowercase())),
            "metadata.labels" => invalid_each(path, key, names::qualified_name(key)),
            _ => FieldErrors::from(FieldError::invalid_str(path.clone(), map, "does not support subscript")),
        };
    }
    let (known, all): (&[&str], &[&str]) =
        (if in_volume { &VOLUME_FIELD_PATHS } else { &FIELD_PATHS }, &FIELD_PATHS);
    if known.contains(&field) {
        return FieldErrors::new();
    }
    let path = path.child("fieldPath");
    // few: the fields that a variable may name.
    if all.contains(&field) || VOLUME_FIELD_PATHS.contains(&field) {
        return FieldErrors::from(FieldError::not_supported(path, field, known));
    }
    let detail = format!("error converting fieldPath: field label not supported: {}", part(field));
    FieldErrors::from(FieldError::invalid_str(path, field, &detail))
}

/// Checks a reference to a request or limit of a container.
pub(super) fn validate_resource_reference(
    reference: &Value,
    in_volume: bool,
    path: &Path,
) -> Option<FieldError> {
    let resource = reference.text("resource");
    if in_volume && reference.text("containerName").is_empty() {
        return Some(FieldError::required(path.child("containerName"), ""));
    }
    if resource.is_empty() {
        return Some(FieldError::required(path.child("resource"), ""));
    }
    let known = RESOURCE_PATHS.contains(&resource)
        // few: two prefixes.
        || ["requests.hugepages-", "limits.hugepages-"].iter().any(|prefix| resource.starts_with(prefix));
    (!known).then(|| FieldError::not_supported(path.child("resource"), resource, &RESOURCE_PATHS))
}

fn validate_value_from(variable: &Value, path: &Path) -> FieldErrors {
    let source = variable.at("valueFrom");
    let mut errors = FieldErrors::new();
    let given: Vec<&str> = SOURCES.into_iter().filter(|kind| source.has(kind)).collect();
    for kind in &given {
        let (reference, path) = (source.at(kind), path.child(kind));
        match *kind {
            "fieldRef" => errors.extend(validate_field_reference(reference, false, &path)),
            "resourceFieldRef" => errors.extend(validate_resource_reference(reference, false, &path)),
            "fileKeyRef" => {
                let missing =
                    ["volumeName", "path", "key"].into_iter().filter(|f| reference.text(f).is_empty());
                errors.extend(missing.map(|field| FieldError::required(path.child(field), "")));
            }
            _ => errors.extend(validate_key_reference(reference, &path)),
        }
    }
    let detail = if given.is_empty() {
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
    } else if !variable.text("value").is_empty() {
        "may not be specified when `value` is not empty"
    } else if given.len() > 1 {
        "may not have more than one field specified at a time"
    } else {
        return errors;
    };
    errors.push(FieldError::invalid_str(path.clone(), "", detail));
    errors
}

fn validate_key_reference(reference: &Value, path: &Path) -> FieldErrors {
    let (name, key) = (reference.text("name"), reference.text("key"));
    let mut errors = invalid_each(&path.child("name"), name, names::dns1123_subdomain(name));
    if key.is_empty() {
        errors.push(FieldError::required(path.child("key"), ""));
    } else {
        errors.extend(invalid_each(&path.child("key"), key, names::config_key(key)));
    }
    errors
}

fn validate_reference_name(reference: &Value, path: &Path) -> FieldErrors {
    let name = reference.text("name");
    if name.is_empty() {
        return FieldErrors::from(FieldError::required(path.child("name"), ""));
    }
    let rule = crate::kinds::NameRule::Dns1123Subdomain;
    invalid_each(&path.child("name"), name, names::check_name(rule, name, true))
}

#[cfg(test)]
mod tests {

    use orch_schema::json;

    use super::*;

    fn texts(errors: FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn container_ports_are_in_range_with_distinct_names() {
        let ports = json!([
            {"name": "http", "containerPort": 80, "protocol": "TCP"},
            {"name": "http", "containerPort": 0, "protocol": ""},
            {"containerPort": 70000, "hostPort": -1, "protocol": "ICMP"}
        ]);
        assert_eq!(
            texts(validate_ports(ports.as_array().unwrap(), &Path::new("p"))),
            [
                "p[1].name: Duplicate value: \"http\"",
                "p[1].containerPort: Required value",
                "p[1].protocol: Required value",
                "p[2].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                "p[2].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
                "p[2].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ]
        );
    }

    #[test]
    fn a_variable_has_a_name_and_one_valid_source() {
        for (variable, expected) in [
            (json!({"name": "A", "value": "1"}), &[][..]),
            (json!({"value": "1"}), &["e[0].name: Required value"]),
            (
                json!({"name": "A", "valueFrom": {}}),
                &[
                    "e[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, \
                   `configMapKeyRef` or `secretKeyRef`",
                ],
            ),
            (
                json!({"name": "A", "value": "1", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}),
                &["e[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty"],
            ),
            (
                json!({"name": "A", "valueFrom": {"configMapKeyRef": {"name": "s"}}}),
                &["e[0].valueFrom.configMapKeyRef.key: Required value"],
            ),
            (
                json!({"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nope"}}}),
                &[
                    "e[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.nope\": error converting fieldPath: field \
                   label not supported: spec.nope",
                ],
            ),
            (
                json!({"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels['a']"}}}),
                &[],
            ),
            (
                json!({"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.disk"}}}),
                &[
                    "e[0].valueFrom.resourceFieldRef.resource: Unsupported value: \"limits.disk\": supported values: \
                   \"limits.cpu\", \"limits.ephemeral-storage\", \"limits.memory\", \"requests.cpu\", \
                   \"requests.ephemeral-storage\", \"requests.memory\"",
                ],
            ),
        ] {
            assert_eq!(texts(validate_env(&[variable], &Path::new("e"))), expected);
        }
    }

    #[test]
    fn sets_of_variables_have_one_source() {
        assert_eq!(
            texts(validate_env_from(&[json!({}), json!({"secretRef": {}})], &Path::new("e"))),
            [
                "e: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
                "e[1].secretRef.name: Required value"
            ]
        );
    }
}
