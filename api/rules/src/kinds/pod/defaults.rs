//! Defaults of pods and of pod templates.
//!
//! A template gets only the defaults that the reference gives it, so that stored templates do not change;
//! [`default_pod`] sets those that only a pod gets.

use std::borrow::Cow;

use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::Context;
use crate::kinds::pod::image;
use crate::kinds::pod::pod_resources::{is_of_pods, taken_together};
use crate::validate::tree::{
    Tree, child_mut, existing_mut, items_mut, set, set_default, set_default_int, set_default_text,
    sorted_entries,
};

/// The lists of containers in a pod spec.
const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
const GRACE_PERIOD_SECONDS: i64 = 30;
const FILE_MODE: i64 = 0o644;
const TOKEN_EXPIRATION_SECONDS: i64 = 3600;

/// Sets the defaults that pods and pod templates share.
pub(crate) fn default_pod_spec(context: &Context<'_>, spec: &mut Value) {
    set_default_text(spec, "restartPolicy", "Always");
    set_default_text(spec, "dnsPolicy", "ClusterFirst");
    set_default_text(spec, "schedulerName", context.brand.scheduler_name);
    set_default(spec, "terminationGracePeriodSeconds", GRACE_PERIOD_SECONDS);
    set_default(spec, "securityContext", json!({}));
    alias_service_account(spec);
    for volume in items_mut(spec, "volumes") {
        default_volume(volume);
    }
    for list in CONTAINER_LISTS {
        items_mut(spec, list).iter_mut().for_each(default_container);
    }
}

/// Sets the defaults that only a pod gets, after [`default_pod_spec`].
pub(super) fn default_pod(pod: &mut Value) {
    let spec = child_mut(pod, "spec");
    // A negative period means one second. Templates keep it, so that their generation does not change.
    if spec.int("terminationGracePeriodSeconds").is_some_and(|period| period < 0) {
        set(spec, "terminationGracePeriodSeconds", 1);
    }
    for list in ["containers", "initContainers"] {
        for container in items_mut(spec, list) {
            requests_from_limits(container);
        }
    }
    requests_from_pod_limits(spec);
    set_default(spec, "enableServiceLinks", true);
    if spec.flag("hostNetwork") {
        for list in ["containers", "initContainers"] {
            items_mut(spec, list).iter_mut().for_each(host_ports);
        }
    }
    if let Some(status) = existing_mut(pod, "status") {
        unify_pod_ips(status);
    }
}

// `serviceAccount` is the old name of `serviceAccountName`: where one is set, both are shown.
fn alias_service_account(spec: &mut Value) {
    let name =
        // few: two names.
        [spec.text("serviceAccountName"), spec.text("serviceAccount")].into_iter().find(|n| !n.is_empty());
    if let Some(name) = name.map(str::to_owned) {
        set(spec, "serviceAccountName", name.clone());
        set(spec, "serviceAccount", name);
    }
}

// `podIP` is the first of `podIPs`; `podIP` wins where they differ.
fn unify_pod_ips(status: &mut Value) {
    let single = status.text("podIP").to_owned();
    let first = status.items("podIPs").first().map(|ip| ip.text("ip").to_owned()).unwrap_or_default();
    if !single.is_empty() && single != first {
        set(status, "podIPs", json!([{"ip": single}]));
    } else if single.is_empty() && !first.is_empty() {
        set(status, "podIP", first);
    }
}

fn default_container(container: &mut Value) {
    let policy = if image::is_latest(container.text("image")) { "Always" } else { "IfNotPresent" };
    set_default_text(container, "terminationMessagePath", "/dev/termination-log");
    set_default_text(container, "terminationMessagePolicy", "File");
    set_default_text(container, "imagePullPolicy", policy);
    for port in items_mut(container, "ports") {
        set_default_text(port, "protocol", "TCP");
    }
    for variable in items_mut(container, "env") {
        if let Some(source) = existing_mut(variable, "valueFrom") {
            default_field_reference(source);
            if let Some(key) = existing_mut(source, "fileKeyRef") {
                set_default(key, "optional", false);
            }
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = existing_mut(container, name) {
            default_probe(probe);
        }
    }
    if let Some(lifecycle) = existing_mut(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(handler) = existing_mut(lifecycle, name) {
                default_handler(handler);
            }
        }
    }
}

fn default_probe(probe: &mut Value) {
    default_handler(probe);
    for (field, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        set_default_int(probe, field, value);
    }
}

fn default_handler(handler: &mut Value) {
    if let Some(get) = existing_mut(handler, "httpGet") {
        set_default_text(get, "path", "/");
        set_default_text(get, "scheme", "HTTP");
    }
    if let Some(grpc) = existing_mut(handler, "grpc") {
        set_default(grpc, "service", "");
    }
}

fn default_field_reference(source: &mut Value) {
    if let Some(field) = existing_mut(source, "fieldRef") {
        set_default_text(field, "apiVersion", "v1");
    }
}

fn default_volume(volume: &mut Value) {
    // once: one pass over the fields of a volume.
    let has_source = sorted_entries(volume).iter().any(|(name, source)| *name != "name" && !source.is_null());
    if !has_source {
        set(volume, "emptyDir", json!({}));
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = existing_mut(volume, name) {
            set_default(source, "defaultMode", FILE_MODE);
        }
    }
    default_host_path(volume);
    if let Some(source) = existing_mut(volume, "downwardAPI") {
        items_mut(source, "items").iter_mut().for_each(default_field_reference);
    }
    if let Some(source) = existing_mut(volume, "projected") {
        items_mut(source, "sources").iter_mut().for_each(default_projection);
    }
    if let Some(source) = existing_mut(volume, "image") {
        let policy = if image::is_latest(source.text("reference")) { "Always" } else { "IfNotPresent" };
        set_default_text(source, "pullPolicy", policy);
    }
    if let Some(claim) =
        existing_mut(volume, "ephemeral").and_then(|e| existing_mut(e, "volumeClaimTemplate"))
    {
        set_default_text(child_mut(claim, "spec"), "volumeMode", "Filesystem");
    }
    default_remote_volume(volume);
}

/// Sets the type of the host path of a volume: of a pod's volume, or of the spec of a persistent one.
pub(crate) fn default_host_path(volume: &mut Value) {
    if let Some(source) = existing_mut(volume, "hostPath") {
        set_default(source, "type", "");
    }
}

/// The stored spec of a persistent volume as it would be stored today: earlier programs stored host paths without a type.
pub(crate) fn with_host_path_type(volume: &Value) -> Cow<'_, Value> {
    if !volume.has("hostPath") || volume.at("hostPath").has("type") {
        return Cow::Borrowed(volume);
    }
    let mut volume = volume.clone();
    default_host_path(&mut volume);
    Cow::Owned(volume)
}

fn default_projection(source: &mut Value) {
    if let Some(token) = existing_mut(source, "serviceAccountToken") {
        set_default(token, "expirationSeconds", TOKEN_EXPIRATION_SECONDS);
    }
    if let Some(downward) = existing_mut(source, "downwardAPI") {
        items_mut(downward, "items").iter_mut().for_each(default_field_reference);
    }
}

/// Volume types whose settings have plain default texts.
const REMOTE_DEFAULTS: [(&str, &[(&str, &str)]); 4] = [
    ("iscsi", &[("iscsiInterface", "default")]),
    ("rbd", &[("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")]),
    ("azureDisk", &[("cachingMode", "ReadWrite"), ("fsType", "ext4"), ("kind", "Shared")]),
    ("scaleIO", &[("storageMode", "ThinProvisioned"), ("fsType", "xfs")]),
];

fn default_remote_volume(volume: &mut Value) {
    for (name, defaults) in REMOTE_DEFAULTS {
        if let Some(source) = existing_mut(volume, name) {
            for (field, value) in defaults {
                set_default_text(source, field, value);
            }
            if name == "azureDisk" {
                set_default(source, "readOnly", false);
            }
        }
    }
}

fn requests_from_limits(container: &mut Value) {
    let Some(resources) = existing_mut(container, "resources") else { return };
    let Some(limits) = resources.at("limits").as_object().cloned() else { return };
    let requests = child_mut(resources, "requests");
    for (name, limit) in limits {
        set_default(requests, &name, limit);
    }
}

// Defaults pod-level requests to the containers' sum, else to the pod's limit.
fn requests_from_pod_limits(spec: &mut Value) {
    let limits = spec.at("resources").at("limits").as_object().cloned().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let together: Vec<(String, String)> = taken_together(spec, "requests")
        .into_iter()
        .filter(|(name, _)| matches!(*name, "cpu" | "memory"))
        .map(|(name, amount)| (name.to_owned(), amount.to_string()))
        .collect();
    let requests = child_mut(child_mut(spec, "resources"), "requests");
    for (name, amount) in together {
        set_default(requests, &name, amount);
    }
    for (name, limit) in limits.into_iter().filter(|(name, _)| is_of_pods(name)) {
        set_default(requests, &name, limit);
    }
}

fn host_ports(container: &mut Value) {
    for port in items_mut(container, "ports") {
        let number = port.int("containerPort").unwrap_or(0);
        if number != 0 {
            set_default_int(port, "hostPort", number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::pod::Pod;
    use crate::kinds::testing::defaulted;

    #[test]
    fn a_pod_is_filled_in_as_recorded() {
        let pod = defaulted(
            &Pod,
            json!({"spec": {
                "containers": [{
                    "name": "c", "image": "repo/img", "ports": [{"containerPort": 80}],
                    "livenessProbe": {"httpGet": {"port": "http"}},
                    "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
                }],
                "volumes": [{"name": "e"}, {"name": "s", "secret": {"secretName": "x"}}, {"name": "h", "hostPath": {"path": "/x"}}]
            }}),
        );
        assert_eq!(
            pod["spec"],
            json!({
                "volumes": [
                    {"name": "e", "emptyDir": {}},
                    {"name": "s", "secret": {"secretName": "x", "defaultMode": 420}},
                    {"name": "h", "hostPath": {"path": "/x", "type": ""}}
                ],
                "containers": [{
                    "name": "c", "image": "repo/img", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "env": [{"name": "N", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
                    "livenessProbe": {
                        "httpGet": {"path": "/", "port": "http", "scheme": "HTTP"},
                        "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3
                    },
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    "imagePullPolicy": "Always"
                }],
                "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                "securityContext": {}, "schedulerName": "default-scheduler", "enableServiceLinks": true
            })
        );
    }

    #[test]
    fn a_negative_grace_period_is_one_second_in_pods_and_stays_in_templates() {
        let spec = json!({"terminationGracePeriodSeconds": -5});
        let pod = defaulted(&Pod, json!({"spec": spec.clone()}));
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 1);
        let mut template = spec;
        default_pod_spec(&crate::kinds::testing::CONTEXT, &mut template);
        assert_eq!(template["terminationGracePeriodSeconds"], -5);
    }

    #[test]
    fn limits_stand_for_missing_requests() {
        let pod = defaulted(
            &Pod,
            json!({"spec": {
                "containers": [{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}}],
                "resources": {"limits": {"cpu": "2", "memory": "2Gi"}}
            }}),
        );
        assert_eq!(
            pod["spec"]["containers"][0]["resources"]["requests"],
            json!({"cpu": "500m", "memory": "1Gi"})
        );
        assert_eq!(pod["spec"]["resources"]["requests"], json!({"cpu": "500m", "memory": "1Gi"}));
    }

    #[test]
    fn aliases_agree() {
        let pod = defaulted(
            &Pod,
            json!({"spec": {"serviceAccount": "sa", "hostNetwork": true, "containers": [{"ports": [{"containerPort": 7}]}]},
                "status": {"podIPs": [{"ip": "10.0.0.1"}]}}),
        );
        assert_eq!(pod["spec"]["serviceAccountName"], "sa");
        assert_eq!(pod["spec"]["containers"][0]["ports"][0]["hostPort"], 7);
        assert_eq!(pod["status"]["podIP"], "10.0.0.1");
    }
}
