//! The pod security standards, check by check.

use std::collections::BTreeMap;

use orch_proto::brand::ORCH;
use orch_schema::json;

use super::*;

fn level(text: &str) -> LevelVersion {
    let (level, version) = text.split_once(':').unwrap();
    LevelVersion { level: Level::named(level).unwrap(), version: Version::named(version).unwrap() }
}

/// The violations of a pod with this spec, as a refusal shows them.
fn shown(policy: &str, spec: &Value) -> String {
    details(&evaluate(level(policy), &ORCH, &Value::Null, spec))
}

/// A container with this security context.
fn container(name: &str, context: &Value) -> Value {
    json!({"name": name, "securityContext": context.clone()})
}

/// What each container of a hardened pod says.
fn hardened() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": true,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

#[test]
fn checks_are_ordered_by_name_and_revisions_by_version() {
    for checks in [&BASELINE[..], &RESTRICTED[..]] {
        assert!(checks.is_sorted_by_key(|check| check.name));
        for check in checks {
            assert!(check.revisions.is_sorted_by_key(|revision| revision.since), "{}", check.name);
            for revision in check.revisions {
                let replaced = revision.replaces;
                assert!(
                    replaced.is_none_or(|name| BASELINE.iter().any(|check| check.name == name)),
                    "{replaced:?}"
                );
            }
        }
    }
}

#[test]
fn baseline_refuses_what_reaches_the_node() {
    let plain = json!({"containers": [{"name": "c"}]});
    assert_eq!(shown("baseline:latest", &plain), "");
    for (context, expected) in [
        (
            json!({"privileged": true}),
            "privileged (container \"c\" must not set securityContext.privileged=true)",
        ),
        (
            json!({"capabilities": {"add": ["SYS_ADMIN", "NET_RAW", "CHOWN"]}}),
            "non-default capabilities (container \"c\" must not include \"NET_RAW\", \"SYS_ADMIN\" in \
             securityContext.capabilities.add)",
        ),
        (
            json!({"procMount": "Unmasked"}),
            "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        (
            json!({"seLinuxOptions": {"role": "r"}}),
            "seLinuxOptions (container \"c\" set forbidden securityContext.seLinuxOptions: role may not be set)",
        ),
        (
            json!({"seLinuxOptions": {"type": "t", "user": "u"}}),
            "seLinuxOptions (container \"c\" set forbidden securityContext.seLinuxOptions: type \"t\"; user may not be \
             set)",
        ),
        (json!({"seLinuxOptions": {"type": "container_engine_t"}}), ""),
        (
            json!({"seccompProfile": {"type": "Unconfined"}}),
            "seccompProfile (container \"c\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            json!({"appArmorProfile": {"type": "Unconfined"}}),
            "forbidden AppArmor profile (container \"c\" must not set AppArmor profile type to \"Unconfined\")",
        ),
        (
            json!({"windowsOptions": {"hostProcess": true}}),
            "hostProcess (container \"c\" must not set securityContext.windowsOptions.hostProcess=true)",
        ),
    ] {
        assert_eq!(shown("baseline:latest", &json!({"containers": [container("c", &context)]})), expected);
        assert_eq!(shown("privileged:latest", &json!({"containers": [container("c", &context)]})), "");
    }
    for (spec, expected) in [
        (json!({"hostNetwork": true, "hostIPC": true}), "host namespaces (hostNetwork=true, hostIPC=true)"),
        (json!({"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}), "hostPath volumes (volume \"h\")"),
        (
            json!({"containers": [
                {"name": "a", "ports": [{"hostPort": 9}]}, {"name": "b", "ports": [{"hostPort": 80}, {"hostPort": 0}]},
            ]}),
            "hostPort (containers \"a\", \"b\" use hostPorts 80, 9)",
        ),
        (
            json!({"initContainers": [{"name": "i", "lifecycle": {"preStop": {"tcpSocket": {"host": "h"}}}}]}),
            "probe or lifecycle host (container \"i\" uses probe or lifecycle host \"h\")",
        ),
        (
            json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]}}),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            json!({
                "securityContext": {"seccompProfile": {"type": "Odd"}},
                "containers": [container("c", &json!({"seccompProfile": {"type": "Even"}}))],
            }),
            "seccompProfile (pod and container \"c\" must not set securityContext.seccompProfile.type to \"Even\", \
             \"Odd\")",
        ),
    ] {
        assert_eq!(shown("baseline:latest", &spec), expected);
    }
}

#[test]
fn restricted_asks_for_hardening() {
    let plain = json!({"containers": [{"name": "c"}], "ephemeralContainers": [{"name": "e"}]});
    let expected = "allowPrivilegeEscalation != false (containers \"c\", \"e\" must set \
        securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (containers \"c\", \"e\" must set \
        securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or containers \"c\", \"e\" must set \
        securityContext.runAsNonRoot=true), seccompProfile (pod or containers \"c\", \"e\" must set \
        securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
    assert_eq!(shown("restricted:latest", &plain), expected);
    let of = |change: &Value| {
        let mut spec = json!({"containers": [container("c", &hardened())]});
        for (name, value) in change.as_object().unwrap() {
            spec[name.as_str()] = value.clone();
        }
        shown("restricted:latest", &spec)
    };
    assert_eq!(of(&json!({})), "");
    for (change, expected) in [
        (
            json!({"volumes": [{"name": "n", "nfs": {}}, {"name": "h", "hostPath": {}}, {"name": "e", "emptyDir": {}}]}),
            "restricted volume types (volumes \"n\", \"h\" use restricted volume types \"hostPath\", \"nfs\")",
        ),
        (
            json!({"securityContext": {"runAsNonRoot": false, "runAsUser": 0}}),
            "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false), runAsUser=0 (pod must not set \
             runAsUser=0)",
        ),
        (json!({"securityContext": {"runAsNonRoot": false, "runAsUser": 0}, "hostUsers": false}), ""),
        (
            json!({"os": {"name": "windows"}, "containers": [container("c", &json!({"runAsNonRoot": true}))]}),
            "",
        ),
    ] {
        assert_eq!(of(&change), expected);
    }
    let mut unmasked = hardened();
    unmasked["procMount"] = json!("Unmasked");
    let spec = json!({"hostUsers": false, "containers": [container("c", &unmasked)]});
    let expected = "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")";
    assert_eq!(
        (shown("baseline:latest", &spec).as_str(), shown("restricted:latest", &spec).as_str()),
        ("", expected)
    );
}

#[test]
fn older_versions_have_the_checks_of_their_time() {
    let sysctl = json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_keepalive_time"}]}});
    let probe = json!({"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "h"}}}]});
    let engine = json!({"securityContext": {"seLinuxOptions": {"type": "container_engine_t"}}});
    let root = json!({"hostUsers": false, "securityContext": {"runAsUser": 0, "runAsNonRoot": true}});
    let windows = json!({"os": {"name": "windows"}, "containers": [container("c", &json!({
        "runAsNonRoot": true, "seccompProfile": {"type": "Localhost"}, "allowPrivilegeEscalation": false,
    }))]});
    for (spec, level, last_refused, first_refused) in [
        (&sysctl, "baseline", Some(28), Some(0)),
        (&probe, "baseline", None, Some(34)),
        (&engine, "baseline", Some(30), Some(0)),
        (&root, "restricted", Some(34), Some(23)),
        (&windows, "restricted", Some(24), Some(22)),
    ] {
        for minor in [0, 18, 22, 23, 24, 25, 28, 29, 30, 31, 33, 34, 35, 36, 99] {
            let is_refused = first_refused.is_some_and(|first| minor >= first)
                && last_refused.is_none_or(|last| minor <= last);
            let told = shown(&format!("{level}:v1.{minor}"), spec);
            assert_eq!(!told.is_empty(), is_refused, "{level} v1.{minor} {spec}: {told}");
        }
    }
    let annotated = json!({"annotations": {
        "seccomp.security.alpha.orch.io/pod": "unconfined", "container.apparmor.security.beta.orch.io/c": "unconfined",
    }});
    let told = |policy| details(&evaluate(level(policy), &ORCH, &annotated, &json!({})));
    let armor = "forbidden AppArmor profile (annotation must not set AppArmor profile type to \
        \"container.apparmor.security.beta.orch.io/c=\"unconfined\"\")";
    assert_eq!(told("baseline:v1.19"), armor);
    let seccomp = "seccompProfile (forbidden annotation seccomp.security.alpha.orch.io/pod=\"unconfined\")";
    assert_eq!(told("baseline:v1.18"), format!("{armor}, {seccomp}"));
}

fn policy(labels: &[(&str, &str)]) -> (String, Vec<String>) {
    let labels: BTreeMap<String, &str> =
        labels.iter().map(|(name, value)| (format!("pod-security.orch.io/{name}"), *value)).collect();
    let (policy, errors) = Policy::of(&ORCH, |key| labels.get(key).copied(), Policy::default());
    let modes = Mode::ALL.map(|mode| policy.of_mode(mode).to_string());
    (modes.join(" "), errors.iter().map(ToString::to_string).collect())
}

#[test]
fn labels_choose_the_policy() {
    for (labels, expected) in [
        (&[][..], "privileged:latest privileged:latest privileged:latest"),
        (&[("enforce", "baseline")], "baseline:latest privileged:latest baseline:latest"),
        (
            &[("enforce", "baseline"), ("enforce-version", "v1.20")],
            "baseline:v1.20 privileged:latest baseline:v1.20",
        ),
        (
            &[("enforce", "baseline"), ("enforce-version", "v1.20"), ("warn-version", "v1.21")],
            "baseline:v1.20 privileged:latest baseline:v1.21",
        ),
        (
            &[("enforce", "restricted"), ("warn", "privileged")],
            "restricted:latest privileged:latest privileged:latest",
        ),
        (
            &[("audit", "restricted"), ("audit-version", "v1.0")],
            "privileged:latest restricted:v1.0 privileged:latest",
        ),
    ] {
        assert_eq!(policy(labels), (expected.to_owned(), Vec::new()), "{labels:?}");
    }
}

#[test]
fn wrong_labels_are_told_and_fail_safely() {
    let (modes, errors) =
        policy(&[("enforce", "strict"), ("audit", "nope"), ("warn", "x"), ("warn-version", "v1")]);
    assert_eq!(modes, "restricted:latest privileged:latest privileged:latest");
    let wrong = "must be one of privileged, baseline, restricted";
    assert_eq!(
        errors,
        [
            format!("metadata.labels[pod-security.orch.io/enforce]: Invalid value: \"strict\": {wrong}"),
            format!("metadata.labels[pod-security.orch.io/audit]: Invalid value: \"nope\": {wrong}"),
            format!("metadata.labels[pod-security.orch.io/warn]: Invalid value: \"x\": {wrong}"),
            "metadata.labels[pod-security.orch.io/warn-version]: Invalid value: \"v1\": must be \"latest\" or \"v1.x\""
                .to_owned(),
        ]
    );
    for bad in ["", "v1.", "v1.01", "v2.0", "v1.+1", "v1.99999999999999999999", "Latest"] {
        assert_eq!(Version::named(bad), None, "{bad}");
    }
    assert_eq!(Version::named("v1.10000"), Some(Version::Minor(10_000)));
}

#[test]
fn a_hostile_pod_gets_a_bounded_message() {
    let containers: Vec<Value> =
        (0..5000).map(|at| container(&at.to_string(), &json!({"privileged": true}))).collect();
    let told = shown("baseline:latest", &json!({"containers": containers}));
    assert!(told.ends_with("\"99\", and 4900 more must not set securityContext.privileged=true)"), "{told}");
    for hostile in [json!(7), json!({"containers": 7}), json!({"containers": [7, {"securityContext": []}]})] {
        assert!(!shown("restricted:latest", &hostile).contains("privileged"));
    }
    let long = "x".repeat(100_000);
    let sysctls = json!({"securityContext": {"sysctls": [{"name": long.as_str()}]}});
    assert!(shown("baseline:latest", &sysctls).len() < 1000);
}
