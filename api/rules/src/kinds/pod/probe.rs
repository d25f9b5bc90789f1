//! Probes and lifecycle hooks: exactly one handler, with valid ports, paths and times.

use orch_schema::value::Value;

use crate::validate::metadata::{invalid_each, nonnegative};
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path, names};

const PROBE_HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc"];
const HOOK_HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "sleep"];
const TIMES: [&str; 5] =
    ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];

/// Rules for the three probes and the hooks of a container.
pub(super) fn validate_probes(container: &Value, grace_period: Option<i64>, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let lifecycle = container.at("lifecycle");
    for hook in ["postStart", "preStop"] {
        if lifecycle.has(hook) {
            let path = path.child("lifecycle").child(hook);
            errors.extend(validate_handler(lifecycle.at(hook), HOOK_HANDLERS, grace_period, &path));
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container.has(name) {
            errors.extend(validate_probe(container.at(name), name, grace_period, &path.child(name)));
        }
    }
    errors
}

/// Checks a port that is given by number or by name.
pub(crate) fn validate_port(port: &Value, path: &Path) -> FieldErrors {
    if let Some(name) = port.as_str() {
        return invalid_each(path, name, names::port_name(name));
    }
    let number = port.as_i64().unwrap_or(0);
    let messages = names::port_number(number);
    messages.iter().map(|message| FieldError::invalid(path.clone(), &number.to_string(), message)).collect()
}

fn validate_probe(probe: &Value, name: &str, grace_period: Option<i64>, path: &Path) -> FieldErrors {
    let mut errors = validate_handler(probe, PROBE_HANDLERS, grace_period, path);
    errors.extend(TIMES.into_iter().filter_map(|field| nonnegative(probe.int(field), path.child(field))));
    let grace_path = path.child("terminationGracePeriodSeconds");
    if let Some(seconds) = probe.int("terminationGracePeriodSeconds") {
        if seconds <= 0 {
            errors.push(FieldError::invalid(
                grace_path.clone(),
                &seconds.to_string(),
                "must be greater than 0",
            ));
        }
        if name == "readinessProbe" {
            let detail = "must not be set for readinessProbes";
            errors.push(FieldError::invalid(grace_path, &seconds.to_string(), detail));
        }
    }
    let successes = probe.int("successThreshold").unwrap_or(0);
    if name != "readinessProbe" && successes != 1 {
        errors.push(FieldError::invalid(path.child("successThreshold"), &successes.to_string(), "must be 1"));
    }
    errors
}

fn validate_handler(handler: &Value, kinds: &[&str], grace_period: Option<i64>, path: &Path) -> FieldErrors {
    let mut given = kinds.iter().filter(|kind| handler.has(kind));
    let Some(first) = given.next() else {
        return FieldErrors::from(FieldError::required(path.clone(), "must specify a handler type"));
    };
    let mut errors = validate_action(first, handler.at(first), grace_period, &path.child(first));
    let more = "may not specify more than 1 handler type";
    errors.extend(given.map(|kind| FieldError::forbidden(path.child(kind), more)));
    errors
}

fn validate_action(kind: &str, action: &Value, grace_period: Option<i64>, path: &Path) -> FieldErrors {
    match kind {
        "exec" if action.items("command").is_empty() => {
            FieldErrors::from(FieldError::required(path.child("command"), ""))
        }
        "httpGet" => validate_http_get(action, path),
        "tcpSocket" | "grpc" => validate_port(action.at("port"), &path.child("port")),
        "sleep" => validate_sleep(action, grace_period, path).into_iter().collect(),
        _ => FieldErrors::new(),
    }
}

fn validate_http_get(get: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if get.text("path").is_empty() {
        errors.push(FieldError::required(path.child("path"), ""));
    }
    errors.extend(validate_port(get.at("port"), &path.child("port")));
    let scheme = get.text("scheme");
    if scheme != "HTTP" && scheme != "HTTPS" {
        errors.push(FieldError::not_supported(path.child("scheme"), scheme, &["HTTP", "HTTPS"]));
    }
    for header in get.items("httpHeaders") {
        let name = header.text("name");
        errors.extend(invalid_each(&path.child("httpHeaders"), name, names::http_header(name)));
    }
    errors
}

fn validate_sleep(sleep: &Value, grace_period: Option<i64>, path: &Path) -> Option<FieldError> {
    let (seconds, grace_period) = (sleep.int("seconds").unwrap_or(0), grace_period?);
    let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_period})");
    (!(0..=grace_period).contains(&seconds))
        .then(|| FieldError::invalid(path.clone(), &seconds.to_string(), &detail))
}

#[cfg(test)]
mod tests {

    use orch_schema::json;

    use super::*;

    fn check(container: Value, expected: &[&str]) {
        let errors = validate_probes(&container, Some(30), &Path::new("c"));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected, "{container}");
    }

    #[test]
    fn a_probe_has_exactly_one_complete_handler() {
        check(
            json!({"livenessProbe": {"successThreshold": 1, "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}}}),
            &[],
        );
        check(
            json!({"readinessProbe": {}}),
            &["c.readinessProbe: Required value: must specify a handler type"],
        );
        check(
            json!({"readinessProbe": {"exec": {}, "grpc": {"port": 1}}}),
            &[
                "c.readinessProbe.exec.command: Required value",
                "c.readinessProbe.grpc: Forbidden: may not specify more than 1 handler type",
            ],
        );
        check(
            json!({"readinessProbe": {"httpGet": {"path": "/", "port": 0, "scheme": "ftp", "httpHeaders": [{"name": "a b"}]}}}),
            &[
                "c.readinessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "c.readinessProbe.httpGet.scheme: Unsupported value: \"ftp\": supported values: \"HTTP\", \"HTTPS\"",
                "c.readinessProbe.httpGet.httpHeaders: Invalid value: \"a b\": a valid HTTP header must consist of \
                 alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
            ],
        );
        check(
            json!({"lifecycle": {"preStop": {"sleep": {"seconds": 99}}}}),
            &["c.lifecycle.preStop.sleep: Invalid value: 99: must be non-negative and less than \
               terminationGracePeriodSeconds (30)"],
        );
    }

    #[test]
    fn times_and_thresholds() {
        check(
            json!({"livenessProbe": {"successThreshold": 2, "periodSeconds": -1, "terminationGracePeriodSeconds": 0, "tcpSocket": {"port": "x"}}}),
            &[
                "c.livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
                "c.livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0",
                "c.livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ],
        );
    }
}
