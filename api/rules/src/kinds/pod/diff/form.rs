//! The in-memory form of a pod spec as the reference prints it.
//!
//! Owns the order and the names of the fields, and the text of unset ones. Parts without a table are shown with the
//! fields they have.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::validate::tree::{Tree, set, sorted_entries};

/// The form of a field, and its text when it is not set.
#[derive(Clone, Copy)]
enum Shape {
    Null,
    Text,
    Number,
    Flag,
    Object(&'static [Member]),
    Pointer(&'static [Member]),
    List(&'static [Member]),
}

struct Member(&'static str, &'static str, Shape);

const RESOURCES: &[Member] = &[
    Member("Limits", "limits", Shape::Null),
    Member("Requests", "requests", Shape::Null),
    Member("Claims", "claims", Shape::Null),
];
const PORT: &[Member] = &[
    Member("Name", "name", Shape::Text),
    Member("HostPort", "hostPort", Shape::Number),
    Member("ContainerPort", "containerPort", Shape::Number),
    Member("Protocol", "protocol", Shape::Text),
    Member("HostIP", "hostIP", Shape::Text),
];
const VARIABLE: &[Member] = &[
    Member("Name", "name", Shape::Text),
    Member("Value", "value", Shape::Text),
    Member("ValueFrom", "valueFrom", Shape::Null),
];
const MOUNT: &[Member] = &[
    Member("Name", "name", Shape::Text),
    Member("ReadOnly", "readOnly", Shape::Flag),
    Member("RecursiveReadOnly", "recursiveReadOnly", Shape::Null),
    Member("MountPath", "mountPath", Shape::Text),
    Member("SubPath", "subPath", Shape::Text),
    Member("MountPropagation", "mountPropagation", Shape::Null),
    Member("SubPathExpr", "subPathExpr", Shape::Text),
];
const CONTAINER: &[Member] = &[
    Member("Name", "name", Shape::Text),
    Member("Image", "image", Shape::Text),
    Member("Command", "command", Shape::Null),
    Member("Args", "args", Shape::Null),
    Member("WorkingDir", "workingDir", Shape::Text),
    Member("Ports", "ports", Shape::List(PORT)),
    Member("EnvFrom", "envFrom", Shape::Null),
    Member("Env", "env", Shape::List(VARIABLE)),
    Member("Resources", "resources", Shape::Object(RESOURCES)),
    Member("ResizePolicy", "resizePolicy", Shape::Null),
    Member("RestartPolicy", "restartPolicy", Shape::Null),
    Member("RestartPolicyRules", "restartPolicyRules", Shape::Null),
    Member("VolumeMounts", "volumeMounts", Shape::List(MOUNT)),
    Member("VolumeDevices", "volumeDevices", Shape::Null),
    Member("LivenessProbe", "livenessProbe", Shape::Null),
    Member("ReadinessProbe", "readinessProbe", Shape::Null),
    Member("StartupProbe", "startupProbe", Shape::Null),
    Member("Lifecycle", "lifecycle", Shape::Null),
    Member("TerminationMessagePath", "terminationMessagePath", Shape::Text),
    Member("TerminationMessagePolicy", "terminationMessagePolicy", Shape::Text),
    Member("ImagePullPolicy", "imagePullPolicy", Shape::Text),
    Member("SecurityContext", "securityContext", Shape::Null),
    Member("Stdin", "stdin", Shape::Flag),
    Member("StdinOnce", "stdinOnce", Shape::Flag),
    Member("TTY", "tty", Shape::Flag),
];
const SECURITY: &[Member] = &[
    Member("HostNetwork", "hostNetwork", Shape::Flag),
    Member("HostPID", "hostPID", Shape::Flag),
    Member("HostIPC", "hostIPC", Shape::Flag),
    Member("ShareProcessNamespace", "shareProcessNamespace", Shape::Null),
    Member("HostUsers", "hostUsers", Shape::Null),
    Member("SELinuxOptions", "seLinuxOptions", Shape::Null),
    Member("WindowsOptions", "windowsOptions", Shape::Null),
    Member("RunAsUser", "runAsUser", Shape::Null),
    Member("RunAsGroup", "runAsGroup", Shape::Null),
    Member("RunAsNonRoot", "runAsNonRoot", Shape::Null),
    Member("SupplementalGroups", "supplementalGroups", Shape::Null),
    Member("SupplementalGroupsPolicy", "supplementalGroupsPolicy", Shape::Null),
    Member("FSGroup", "fsGroup", Shape::Null),
    Member("Sysctls", "sysctls", Shape::Null),
    Member("FSGroupChangePolicy", "fsGroupChangePolicy", Shape::Null),
    Member("SeccompProfile", "seccompProfile", Shape::Null),
    Member("AppArmorProfile", "appArmorProfile", Shape::Null),
    Member("SELinuxChangePolicy", "seLinuxChangePolicy", Shape::Null),
];
const TOLERATION: &[Member] = &[
    Member("Key", "key", Shape::Text),
    Member("Operator", "operator", Shape::Text),
    Member("Value", "value", Shape::Text),
    Member("Effect", "effect", Shape::Text),
    Member("TolerationSeconds", "tolerationSeconds", Shape::Null),
];
const SPEC: &[Member] = &[
    Member("Volumes", "volumes", Shape::Null),
    Member("InitContainers", "initContainers", Shape::List(CONTAINER)),
    Member("Containers", "containers", Shape::List(CONTAINER)),
    Member("EphemeralContainers", "ephemeralContainers", Shape::List(CONTAINER)),
    Member("RestartPolicy", "restartPolicy", Shape::Text),
    Member("TerminationGracePeriodSeconds", "terminationGracePeriodSeconds", Shape::Null),
    Member("ActiveDeadlineSeconds", "activeDeadlineSeconds", Shape::Null),
    Member("DNSPolicy", "dnsPolicy", Shape::Text),
    Member("NodeSelector", "nodeSelector", Shape::Null),
    Member("ServiceAccountName", "serviceAccountName", Shape::Text),
    Member("AutomountServiceAccountToken", "automountServiceAccountToken", Shape::Null),
    Member("NodeName", "nodeName", Shape::Text),
    Member("SecurityContext", "securityContext", Shape::Pointer(SECURITY)),
    Member("ImagePullSecrets", "imagePullSecrets", Shape::Null),
    Member("Hostname", "hostname", Shape::Text),
    Member("Subdomain", "subdomain", Shape::Text),
    Member("SetHostnameAsFQDN", "setHostnameAsFQDN", Shape::Null),
    Member("Affinity", "affinity", Shape::Null),
    Member("SchedulerName", "schedulerName", Shape::Text),
    Member("Tolerations", "tolerations", Shape::List(TOLERATION)),
    Member("HostAliases", "hostAliases", Shape::Null),
    Member("PriorityClassName", "priorityClassName", Shape::Text),
    Member("Priority", "priority", Shape::Null),
    Member("PreemptionPolicy", "preemptionPolicy", Shape::Null),
    Member("DNSConfig", "dnsConfig", Shape::Null),
    Member("ReadinessGates", "readinessGates", Shape::Null),
    Member("RuntimeClassName", "runtimeClassName", Shape::Null),
    Member("Overhead", "overhead", Shape::Null),
    Member("EnableServiceLinks", "enableServiceLinks", Shape::Null),
    Member("TopologySpreadConstraints", "topologySpreadConstraints", Shape::Null),
    Member("OS", "os", Shape::Null),
    Member("SchedulingGates", "schedulingGates", Shape::Null),
    Member("ResourceClaims", "resourceClaims", Shape::Null),
    Member("Resources", "resources", Shape::Null),
    Member("HostnameOverride", "hostnameOverride", Shape::Null),
];
const CLAIM: &[Member] = &[
    Member("AccessModes", "accessModes", Shape::Null),
    Member("Selector", "selector", Shape::Null),
    Member("Resources", "resources", Shape::Object(CLAIM_RESOURCES)),
    Member("VolumeName", "volumeName", Shape::Text),
    Member("StorageClassName", "storageClassName", Shape::Null),
    Member("VolumeMode", "volumeMode", Shape::Null),
    Member("DataSource", "dataSource", Shape::Null),
    Member("DataSourceRef", "dataSourceRef", Shape::Null),
    Member("VolumeAttributesClassName", "volumeAttributesClassName", Shape::Null),
];
const CLAIM_RESOURCES: &[Member] =
    &[Member("Limits", "limits", Shape::Null), Member("Requests", "requests", Shape::Null)];
const SECURITY_CONTEXT: &str = "securityContext";

/// Fields of the spec that the reference holds in memory in the security context.
const HOSTED: [&str; 5] = ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

/// The form of a volume claim's spec.
pub(super) fn claim_form(spec: &Value) -> String {
    let mut out = String::new();
    write_object(spec, CLAIM, 0, &mut out);
    out
}

/// The form of a pod's spec.
pub(super) fn pod_form(spec: &Value) -> String {
    let mut security = spec.at(SECURITY_CONTEXT).clone();
    for field in HOSTED {
        if let Some(value) = spec.get(field) {
            set(&mut security, field, value.clone());
        }
    }
    let mut out = String::new();
    let member = |name: &str| if name == SECURITY_CONTEXT { &security } else { spec.at(name) };
    write_members(member, SPEC, 0, &mut out);
    out
}

fn write_object(value: &Value, members: &[Member], depth: usize, out: &mut String) {
    write_members(|name| value.at(name), members, depth, out);
}

/// Writes an object; `value` returns a member by its name.
fn write_members<'v>(value: impl Fn(&str) -> &'v Value, members: &[Member], depth: usize, out: &mut String) {
    out.push_str("{\n");
    for (at, Member(shown, name, shape)) in members.iter().numbered() {
        indent(depth + 1, out);
        out.extend(["\"", shown, "\": "]);
        write_field(value(name), *shape, depth + 1, out);
        out.push_str(if at + 1 < members.len() { ",\n" } else { "\n" });
    }
    indent(depth, out);
    out.push('}');
}

fn indent(depth: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', depth));
}

fn write_field(value: &Value, shape: Shape, depth: usize, out: &mut String) {
    match shape {
        Shape::Object(members) => write_object(value, members, depth, out),
        Shape::Pointer(members) if value.is_object() => write_object(value, members, depth, out),
        Shape::List(members) if !value.is_null() => {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            write_list(items, depth, out, |item, out| write_object(item, members, depth + 1, out));
        }
        Shape::Text if value.is_null() => out.push_str("\"\""),
        Shape::Number if value.is_null() => out.push('0'),
        Shape::Flag if value.is_null() => out.push_str("false"),
        _ => write_any(value, depth, out),
    }
}

fn write_list(items: &[Value], depth: usize, out: &mut String, write: impl Fn(&Value, &mut String)) {
    if items.is_empty() {
        out.push_str("null");
        return;
    }
    out.push_str("[\n");
    for (at, item) in items.iter().numbered() {
        indent(depth + 1, out);
        write(item, out);
        out.push_str(if at + 1 < items.len() { ",\n" } else { "\n" });
    }
    indent(depth, out);
    out.push(']');
}

fn write_any(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Array(items) => write_list(items, depth, out, |item, out| write_any(item, depth + 1, out)),
        Value::Object(fields) if fields.is_empty() => out.push_str("{}"),
        Value::Object(_) => {
            out.push_str("{\n");
            let entries = sorted_entries(value);
            for (at, (name, value)) in entries.iter().numbered() {
                indent(depth + 1, out);
                out.extend([&*super::super::quoted(name), ": "]);
                write_any(value, depth + 1, out);
                out.push_str(if at + 1 < entries.len() { ",\n" } else { "\n" });
            }
            indent(depth, out);
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}
