//! Ports and environment variables of a container.

use std::collections::HashMap;

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::kinds::pod::reference::{validate_field_reference, validate_resource_reference};
use crate::kinds::pod::volume::no_backsteps;
use crate::validate::metadata::invalid_each;
use crate::validate::tree::Tree;
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

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

fn validate_value_from(variable: &Value, path: &Path) -> FieldErrors {
    let source = variable.at("valueFrom");
    let mut errors = FieldErrors::new();
    let given: Vec<&str> = SOURCES.into_iter().filter(|kind| source.has(kind)).collect();
    for kind in &given {
        let (reference, path) = (source.at(kind), path.child(kind));
        match *kind {
            "fieldRef" => errors.extend(validate_field_reference(reference, false, &path)),
            "resourceFieldRef" => errors.extend(validate_resource_reference(reference, false, &path)),
            "fileKeyRef" => errors.extend(validate_file_key(reference, &path)),
            _ => errors.extend(validate_key_reference(reference, &path)),
        }
    }
    let detail = if given.is_empty() {
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
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

/// A reference to a variable in a file that an init container wrote to a volume.
fn validate_file_key(reference: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for field in ["key", "volumeName"] {
        let name = reference.text(field);
        if name.is_empty() {
            errors.push(FieldError::required(path.child(field), ""));
        } else {
            let messages = if field == "key" { names::env_var(name) } else { names::dns1123_label(name) };
            errors.extend(invalid_each(&path.child(field), name, messages));
        }
    }
    let (file, path) = (reference.text("path"), path.child("path"));
    if file.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        errors.extend(no_backsteps(file, &path));
    }
    errors
}

/// Checks that the variables of a pod that come from files name volumes of the pod that its containers can write.
pub(super) fn validate_variable_files(spec: &Value, path: &Path) -> FieldErrors {
    let volumes: HashMap<&str, &Value> =
        spec.items("volumes").iter().map(|volume| (volume.text("name"), volume)).collect();
    let mut errors = FieldErrors::new();
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for (at, container) in spec.items(list).iter().numbered() {
            let variables = path.child(list).index(at).child("env");
            for (at, variable) in container.items("env").iter().numbered() {
                let reference = variable.at("valueFrom").at("fileKeyRef");
                let name = reference.text("volumeName");
                if reference.is_null() || name.is_empty() {
                    continue;
                }
                let path = variables.index(at).child("valueFrom").child("fileKeyRef").child("volumeName");
                match volumes.get(name) {
                    None => errors.push(FieldError::not_found(path, &super::quoted(name))),
                    Some(volume) if !volume.has("emptyDir") => {
                        let detail = "referenced volume must be of type emptyDir";
                        errors.push(FieldError::invalid_str(path, name, detail));
                    }
                    Some(_) => {}
                }
            }
        }
    }
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
                   `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
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
                json!({"name": "A", "valueFrom": {"fileKeyRef": {}}}),
                &[
                    "e[0].valueFrom.fileKeyRef.key: Required value",
                    "e[0].valueFrom.fileKeyRef.volumeName: Required value",
                    "e[0].valueFrom.fileKeyRef.path: Required value",
                ],
            ),
            (
                json!({"name": "A", "valueFrom": {"fileKeyRef": {"key": "K", "volumeName": "v", "path": "a/../b"}}}),
                &["e[0].valueFrom.fileKeyRef.path: Invalid value: \"a/../b\": must not contain '..'"],
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

    #[test]
    fn files_of_variables_are_on_volumes_that_the_pod_can_write() {
        let variable = |volume: &str| json!({"valueFrom": {"fileKeyRef": {"volumeName": volume}}});
        let spec = json!({
            "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "secret": {}}],
            "containers": [{"env": [variable("a"), variable("b")]}],
            "initContainers": [{"env": [variable("c"), {"name": "A"}]}]
        });
        assert_eq!(
            texts(validate_variable_files(&spec, &Path::new("s"))),
            [
                "s.containers[0].env[1].valueFrom.fileKeyRef.volumeName: Invalid value: \"b\": referenced volume must be \
                 of type emptyDir",
                "s.initContainers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: \"c\"",
            ]
        );
    }
}
