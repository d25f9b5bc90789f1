//! Kernel parameters that a pod sets: their names, and the namespaces they belong to.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::validate::tree::Tree;
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

const FORMAT: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const LENGTH_MAX: usize = 253;
/// Prefixes of kernel parameters that each namespace of IPC has of its own.
const IPC_PREFIXES: [&str; 3] = ["kernel.shm", "kernel.msg", "fs.mqueue."];

/// Rules for `sysctls` of a pod's security context.
pub(super) fn validate_sysctls(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for (at, sysctl) in spec.at("securityContext").items("sysctls").iter().numbered() {
        let (name, path) = (sysctl.text("name"), path.index(at).child("name"));
        let is_repeated = seen.is_repeated(name);
        if name.is_empty() {
            errors.push(FieldError::required(path.clone(), ""));
        } else if !is_sysctl(name) {
            let detail = format!("must have at most {LENGTH_MAX} characters and match regex {FORMAT}");
            errors.push(FieldError::invalid_str(path.clone(), name, &detail));
        } else if is_repeated {
            errors.push(FieldError::duplicate(path.clone(), &super::quoted(name)));
        }
        errors.extend(host_sysctl(spec, name).map(|detail| FieldError::invalid_str(path, name, detail)));
    }
    errors
}

/// Why a pod that shares namespaces of its host may not set a kernel parameter; it would set it for the host.
fn host_sysctl(spec: &Value, name: &str) -> Option<&'static str> {
    let name = with_dots(name);
    // few: three prefixes.
    let is_of_ipc = || name == "kernel.sem" || IPC_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    if spec.flag("hostNetwork") && name.starts_with("net.") {
        return Some("may not be specified when 'hostNetwork' is true");
    }
    (spec.flag("hostIPC") && is_of_ipc()).then_some("may not be specified when 'hostIPC' is true")
}

/// The name with dots between its parts: where the first separator is a slash, dots belong to the parts.
fn with_dots(name: &str) -> String {
    // once: one pass over a name.
    let first = name.bytes().find(|byte| matches!(byte, b'.' | b'/'));
    if first != Some(b'/') {
        return name.to_owned();
    }
    let swapped = |letter| match letter {
        '/' => '.',
        '.' => '/',
        other => other,
    };
    name.chars().map(swapped).collect()
}

fn is_sysctl(name: &str) -> bool {
    let edge = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let segment = |part: &str| {
        let bytes = part.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.iter().all(|end| end.is_some_and(|&c| edge(c)))
            && bytes.iter().all(|&c| edge(c) || matches!(c, b'-' | b'_'))
    };
    name.len() <= LENGTH_MAX && name.split(['.', '/']).all(segment)
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn a_pod_sets_no_parameters_of_its_host() {
        let (network, ipc) = (
            "may not be specified when 'hostNetwork' is true",
            "may not be specified when 'hostIPC' is true",
        );
        for (name, expected) in [
            ("kernel.ctrl", None),
            ("net.core.x", Some(network)),
            ("net/core/x.y", Some(network)),
            ("kernel.sem", Some(ipc)),
            ("kernel.semaphores", None),
            ("kernel/shm_x", Some(ipc)),
            ("fs.mqueue.x", Some(ipc)),
        ] {
            let spec = json!({"hostNetwork": true, "hostIPC": true, "securityContext": {"sysctls": [{"name": name}]}});
            let errors = validate_sysctls(&spec, &Path::new("s"));
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let expected: Vec<String> = expected
                .into_iter()
                .map(|detail| format!("s[0].name: Invalid value: \"{name}\": {detail}"))
                .collect();
            assert_eq!(texts, expected);
        }
    }
}
