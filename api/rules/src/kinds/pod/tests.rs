//! Defaults, rules, updates, grace periods and selectable fields of pods.

use super::*;
use crate::kinds::Action;
use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created, updated};

fn pod(spec: Value) -> Value {
    let mut spec = spec;
    crate::validate::tree::set_default(&mut spec, "containers", json!([{"name": "c", "image": "img:1"}]));
    json!({"spec": spec})
}

#[test]
fn a_new_pod_is_pending() {
    let pod = created(&Pod, pod(json!({})));
    assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    assert_eq!(pod["metadata"]["generation"], 1);
}

#[test]
fn a_pod_needs_containers_with_names_and_images() {
    check_create(&Pod, pod(json!({})), &[]);
    check_create(&Pod, pod(json!({"containers": []})), &["spec.containers: Required value"]);
    check_create(
        &Pod,
        pod(json!({"containers": [{}, {"name": "a", "image": " x"}, {"name": "a", "image": "y"}]})),
        &[
            "spec.containers[0].name: Required value",
            "spec.containers[0].image: Required value",
            "spec.containers[2].name: Duplicate value: \"a\"",
            "spec.containers[1].image: Invalid value: \" x\": must not have leading or trailing whitespace",
        ],
    );
}

#[test]
fn rules_of_the_spec() {
    for (spec, expected) in [
        (
            json!({"restartPolicy": "Sometimes"}),
            &[
                "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
            ][..],
        ),
        (
            json!({"dnsPolicy": "None"}),
            &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
        (
            json!({"activeDeadlineSeconds": 0}),
            &["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (
            json!({"hostAliases": [{"ip": "x", "hostnames": ["a.b"]}]}),
            &[
                "spec.hostAliases[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ],
        ),
        (
            json!({"ephemeralContainers": [{"name": "e", "image": "i"}]}),
            &["spec.ephemeralContainers: Forbidden: cannot be set on create"],
        ),
        (
            json!({"nodeName": "n", "schedulingGates": [{"name": "g"}]}),
            &["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
        ),
        (
            json!({"initContainers": [{"name": "c", "image": "i", "readinessProbe": {"exec": {"command": ["x"]}}}]}),
            &[
                "spec.initContainers[0].name: Duplicate value: \"c\"",
                "spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without \
                 restartPolicy=Always",
            ],
        ),
        (
            json!({"containers": [{"name": "c", "image": "i", "ports": [
                {"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}
            ]}]}),
            &["spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//5\""],
        ),
        (
            json!({"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}),
            &[
                "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when \
               serviceAccountName is not set",
            ],
        ),
    ] {
        check_create(&Pod, pod(spec), expected);
    }
}

#[test]
fn images_and_deadlines_may_change() {
    let old = pod(json!({}));
    check_update(&Pod, old.clone(), pod(json!({"containers": [{"name": "c", "image": "img:2"}]})), &[]);
    check_update(&Pod, old.clone(), pod(json!({"activeDeadlineSeconds": 30})), &[]);
    check_update(
        &Pod,
        pod(json!({"activeDeadlineSeconds": 30})),
        pod(json!({"activeDeadlineSeconds": 60})),
        &["spec.activeDeadlineSeconds: Invalid value: 60: must be less than or equal to previous value"],
    );
    check_update(
        &Pod,
        old,
        pod(json!({"containers": [{"name": "c", "image": "img:1"}, {"name": "d", "image": "i"}]})),
        &["spec.containers: Forbidden: pod updates may not add or remove containers"],
    );
}

const REFUSAL: &str = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
                       `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions \
                       to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it \
                       was previously negative)\n";

#[test]
fn other_changes_are_refused_with_a_difference() {
    check_update(
        &Pod,
        pod(json!({})),
        pod(json!({"restartPolicy": "Never"})),
        &[&format!(
            "{REFUSAL}@@ -35,7 +35,7 @@\n   }}\n  ],\n  \"EphemeralContainers\": null,\n- \"RestartPolicy\": \
             \"Always\",\n+ \"RestartPolicy\": \"Never\",\n  \"TerminationGracePeriodSeconds\": 30,\n  \
             \"ActiveDeadlineSeconds\": null,\n  \"DNSPolicy\": \"ClusterFirst\",\n"
        )],
    );
    check_update(
        &Pod,
        pod(json!({})),
        pod(json!({"nodeName": "n"})),
        &[&format!(
            "{REFUSAL}@@ -42,7 +42,7 @@\n  \"NodeSelector\": null,\n  \"ServiceAccountName\": \"\",\n  \
             \"AutomountServiceAccountToken\": null,\n- \"NodeName\": \"\",\n+ \"NodeName\": \"n\",\n  \
             \"SecurityContext\": {{\n   \"HostNetwork\": false,\n   \"HostPID\": false,\n"
        )],
    );
}

#[test]
fn tolerations_are_only_added() {
    let tolerations = |list: Value| pod(json!({"tolerations": list}));
    let first = json!({"key": "a", "operator": "Exists"});
    check_update(
        &Pod,
        tolerations(json!([first])),
        tolerations(json!([first, {"key": "b", "operator": "Exists"}])),
        &[],
    );
    check_update(
        &Pod,
        tolerations(json!([first])),
        tolerations(json!([])),
        &[
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
        ],
    );
    check_update(
        &Pod,
        pod(json!({"schedulingGates": [{"name": "a"}]})),
        pod(json!({"schedulingGates": [{"name": "b"}]})),
        &[
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'b'",
        ],
    );
}

#[test]
fn spec_and_status_are_written_apart() {
    let old = created(&Pod, pod(json!({})));
    let mut new = old.clone();
    set(child_mut(&mut new, "status"), "phase", "Running");
    set(child_mut(&mut new, "spec"), "nodeName", "n");
    let main = updated(&Pod, Action::Object, &old, new.clone());
    assert_eq!((&main["status"], &main["metadata"]["generation"]), (&old["status"], &json!(2)));
    unset(child_mut(&mut new, "status"), "qosClass");
    let status = updated(&Pod, Action::Status, &old, new);
    assert_eq!((&status["spec"], &status["metadata"]["generation"]), (&old["spec"], &json!(1)));
    assert_eq!(status["status"], json!({"phase": "Running", "qosClass": "BestEffort"}));
}

#[test]
fn containers_that_ended_stay_ended() {
    let status = |state: Value| {
        let mut pod = created(&Pod, pod(json!({"restartPolicy": "Never"})));
        set(child_mut(&mut pod, "status"), "containerStatuses", json!([{"name": "c", "state": state}]));
        set(child_mut(&mut pod, "status"), "podIPs", json!([{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]));
        pod
    };
    let errors = status::validate_status_update(
        &status(json!({"terminated": {"exitCode": 1}})),
        &status(json!({"running": {}})),
    );
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
            "status.podIPs: Invalid value: [{\"ip\":\"10.0.0.1\"},{\"ip\":\"10.0.0.2\"}]: may specify no more than one \
             IP for each IP family",
        ]
    );
}

#[test]
fn pods_on_nodes_end_gracefully() {
    let bound = created(&Pod, pod(json!({"nodeName": "n1"})));
    for (requested, expected) in [(None, 30), (Some(5), 5), (Some(0), 0), (Some(-3), 1)] {
        assert_eq!(Pod.grace_period_seconds(&bound, requested), Some(expected));
    }
    assert_eq!(Pod.grace_period_seconds(&created(&Pod, pod(json!({}))), None), Some(0));
    let mut ended = bound;
    set(child_mut(&mut ended, "status"), "phase", "Succeeded");
    assert_eq!(Pod.grace_period_seconds(&ended, Some(30)), Some(0));
}

#[test]
fn label_keys_become_expressions() {
    let mut object = pod(json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {},
        "matchLabelKeys": ["app", "absent"]
    }]}));
    set(&mut object, "metadata", json!({"labels": {"app": "x"}}));
    assert_eq!(
        created(&Pod, object)["spec"]["topologySpreadConstraints"][0]["labelSelector"],
        json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]})
    );
}

#[test]
fn selectable_fields_have_values() {
    let pod = created(&Pod, pod(json!({"nodeName": "n1", "hostNetwork": true})));
    for (name, value) in [
        ("spec.nodeName", "n1"),
        ("spec.restartPolicy", "Always"),
        ("spec.schedulerName", "default-scheduler"),
        ("spec.serviceAccountName", ""),
        ("spec.hostNetwork", "true"),
        ("status.phase", "Pending"),
        ("status.podIP", ""),
        ("status.podIPs", ""),
        ("status.nominatedNodeName", ""),
    ] {
        assert_eq!(Pod.field_value(&pod, name), value, "{name}");
    }
    let with_address = json!({"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.2"}]}});
    assert_eq!(Pod.field_value(&with_address, "status.podIP"), "10.0.0.2");
    assert_eq!(Pod.warnings(&CONTEXT, None, &json!({"metadata": {"name": "a.b"}})).len(), 1);
    check_hostile(&Pod);
}

#[test]
fn a_gated_pod_says_since_when_it_waits() {
    let gated = created(&Pod, pod(json!({"schedulingGates": [{"name": "a"}]})));
    let condition = &gated["status"]["conditions"][0];
    assert_eq!(
        (&condition["reason"], &condition["lastProbeTime"]),
        (&json!("SchedulingGated"), &Value::Null)
    );
    assert_eq!(condition["lastTransitionTime"], CONTEXT.now);
}
