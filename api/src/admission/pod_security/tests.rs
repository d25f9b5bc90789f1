//! PodSecurity over namespaces and pods: levels, modes, exemptions, warnings.

use futures::future::FutureExt;
use orch_schema::json;

use super::*;
use crate::admission::testing::{Objects, attributes};
use crate::authn::User;
use crate::exchange::Exchange;

/// The refusal of a write, if there is one, and its warnings.
struct Told {
    refusal: String,
    warnings: Vec<String>,
}

/// A write of `new` where there are `objects`; `change` may change the attributes.
fn written(
    settings: &PodSecuritySettings,
    storage: &str,
    old: Option<&Value>,
    new: &Value,
    objects: &Objects,
    user: &User,
) -> Told {
    let plugin = PodSecurity { settings: settings.clone() };
    let exchange = Exchange::internal();
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let namespace = if storage == NAMESPACES { "" } else { "ns" };
    let asked = Attributes { old, user, exchange: &exchange, namespace, ..attributes(storage, operation) };
    assert!(plugin.handles(&asked), "{storage}");
    let (view, mut additions) = (objects.view("ns"), Additions::default());
    let ruling = plugin.validate(&asked, Some(new), &view, &mut additions).now_or_never();
    let refusal = match ruling.expect("nobody else is asked") {
        Ok(()) => String::new(),
        Err(Refusal::Forbidden(reason)) => reason,
        Err(other) => format!("{other:?}"),
    };
    Told { refusal, warnings: exchange.warnings() }
}

fn namespace(labels: &[(&str, &str)]) -> Value {
    let mut metadata = json!({"name": "ns", "labels": {}});
    for (name, value) in labels {
        metadata["labels"][format!("pod-security.orch.io/{name}").as_str()] = json!(*value);
    }
    json!({"metadata": metadata})
}

fn with_namespace(labels: &[(&str, &str)], pods: &[Value]) -> Objects {
    let of = |pod: &Value| {
        (
            (PODS.to_owned(), "ns".to_owned(), pod["metadata"]["name"].as_str().unwrap().to_owned()),
            pod.clone(),
        )
    };
    let key = (NAMESPACES.to_owned(), String::new(), "ns".to_owned());
    Objects(pods.iter().map(of).chain([(key, namespace(labels))]).collect())
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field.as_str()] = value.clone();
    }
    pod
}

#[test]
fn the_labels_of_the_namespace_decide() {
    let host = pod("p", &json!({"hostPID": true}));
    let refused = "violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";
    let warned = "would violate PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";
    for (labels, refusal, warning) in [
        (&[][..], "", ""),
        (&[("enforce", "baseline")], refused, ""),
        (&[("warn", "baseline")], "", warned),
        (&[("audit", "baseline")], "", ""),
        (&[("enforce", "privileged"), ("warn", "baseline")], "", warned),
    ] {
        let told = written(
            &PodSecuritySettings::default(),
            PODS,
            None,
            &host,
            &with_namespace(labels, &[]),
            &User::local_admin(),
        );
        assert_eq!(
            (told.refusal.as_str(), told.warnings.join("")),
            (refusal, warning.to_owned()),
            "{labels:?}"
        );
    }
    let told = written(
        &PodSecuritySettings::default(),
        PODS,
        None,
        &pod("p", &json!({})),
        &with_namespace(&[("enforce", "odd")], &[]),
        &User::local_admin(),
    );
    assert!(
        told.refusal.starts_with("violates PodSecurity \"restricted:latest\": "),
        "a wrong level is the strictest"
    );
}

#[test]
fn templates_are_warned_of_and_never_refused() {
    let enforced = with_namespace(&[("enforce", "baseline")], &[]);
    let template = json!({"metadata": {}, "spec": {"hostIPC": true, "containers": []}});
    for (storage, object) in [
        ("deployments.apps", json!({"spec": {"template": template}})),
        ("jobs.batch", json!({"spec": {"template": template}})),
        ("cronjobs.batch", json!({"spec": {"jobTemplate": {"spec": {"template": template}}}})),
    ] {
        let told =
            written(&PodSecuritySettings::default(), storage, None, &object, &enforced, &User::local_admin());
        let expected = "would violate PodSecurity \"baseline:latest\": host namespaces (hostIPC=true)";
        assert_eq!(
            (told.refusal.as_str(), &told.warnings[..]),
            ("", &[expected.to_owned()][..]),
            "{storage}"
        );
    }
}

#[test]
fn a_pod_is_looked_at_again_when_its_spec_changes() {
    let enforced = with_namespace(&[("enforce", "baseline")], &[]);
    let old = pod("p", &json!({"hostPID": true}));
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new);
        let told =
            written(&PodSecuritySettings::default(), PODS, Some(&old), &new, &enforced, &User::local_admin());
        !told.refusal.is_empty()
    };
    assert!(!changed(&|pod| pod["metadata"]["labels"] = json!({"a": "b"})));
    assert!(changed(&|pod| pod["spec"]["containers"][0]["image"] = json!("j")));
    assert!(changed(&|pod| pod["spec"]["ephemeralContainers"] = json!([{"name": "e"}])));
    for (field, value) in [
        ("schedulingGates", json!([])),
        ("tolerations", json!([{"operator": "Exists"}])),
        ("activeDeadlineSeconds", json!(5)),
    ] {
        assert!(!changed(&|pod| pod["spec"][field] = value.clone()), "no standard reads {field}");
    }
    for (field, value) in
        [("hostUsers", json!(false)), ("activeDeadlineSeconds", json!(0)), ("hostPID", json!(null))]
    {
        assert!(changed(&|pod| {
            pod["spec"][field] = value.clone();
            pod["spec"]["hostIPC"] = json!(true);
        }));
    }
    assert!(changed(&|pod| pod["spec"]["hostUsers"] = json!(false)), "whatever other rules promise");
}

#[test]
fn some_are_exempt() {
    let set = |name: &str| std::collections::BTreeSet::from([name.to_owned()]);
    let defaults = Policy {
        enforce: LevelVersion { level: orch_rules::pod_security::Level::Baseline, ..LevelVersion::default() },
        ..Policy::default()
    };
    let plain = PodSecuritySettings { defaults, ..PodSecuritySettings::default() };
    let host = pod("p", &json!({"hostPID": true, "runtimeClassName": "gvisor"}));
    let ann = User { name: "ann".to_owned(), ..User::default() };
    for (settings, is_refused) in [
        (plain.clone(), true),
        (PodSecuritySettings { exempt_users: set("ann"), ..plain.clone() }, false),
        (PodSecuritySettings { exempt_users: set("bob"), ..plain.clone() }, true),
        (PodSecuritySettings { exempt_namespaces: set("ns"), ..plain.clone() }, false),
        (PodSecuritySettings { exempt_runtime_classes: set("gvisor"), ..plain.clone() }, false),
        (PodSecuritySettings::default(), false),
    ] {
        let told = written(&settings, PODS, None, &host, &with_namespace(&[], &[]), &ann);
        assert_eq!(!told.refusal.is_empty(), is_refused, "{settings:?}");
    }
    let exempt = PodSecuritySettings { exempt_namespaces: set("ns"), ..plain };
    let labelled = namespace(&[("enforce", "restricted"), ("audit-version", "v1.20")]);
    let told = written(&exempt, NAMESPACES, None, &labelled, &Objects::default(), &ann);
    let expected = "namespace \"ns\" is exempt from Pod Security, and the policy (enforce=restricted:latest) will be ignored";
    assert_eq!(told.warnings, [expected]);
}

#[test]
fn a_stricter_level_warns_of_the_pods_that_are_there() {
    let pods = [pod("b", &json!({})), pod("a", &json!({})), pod("c", &json!({"hostNetwork": true}))];
    let objects = with_namespace(&[], &pods);
    let none = namespace(&[]);
    let written = |old: &Value, labels: &[(&str, &str)]| {
        written(
            &PodSecuritySettings::default(),
            NAMESPACES,
            Some(old),
            &namespace(labels),
            &objects,
            &User::local_admin(),
        )
    };
    let hardening =
        "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile";
    let expected = [
        "existing pods in namespace \"ns\" violate the new PodSecurity enforce level \"restricted:latest\""
            .to_owned(),
        format!("a (and 1 other pod): {hardening}"),
        format!("c: host namespaces, {hardening}"),
    ];
    assert_eq!(written(&none, &[("enforce", "restricted")]).warnings, expected);
    let restricted = namespace(&[("enforce", "restricted")]);
    for labels in [&[("enforce", "baseline")][..], &[], &[("enforce", "restricted"), ("warn", "baseline")]] {
        assert!(written(&restricted, labels).warnings.is_empty(), "{labels:?}");
    }
    assert_eq!(
        written(&restricted, &[("enforce", "baseline"), ("enforce-version", "v1.20")]).warnings.len(),
        2
    );
}

#[test]
fn wrong_labels_are_refused_unless_they_were_there() {
    let wrong = namespace(&[("enforce", "odd")]);
    let told = |old: Option<&Value>, new: &Value| {
        let user = User::local_admin();
        written(&PodSecuritySettings::default(), NAMESPACES, old, new, &Objects::default(), &user).refusal
    };
    assert!(told(None, &wrong).contains("must be one of privileged, baseline, restricted"));
    assert!(told(Some(&namespace(&[])), &wrong).contains("must be one of"));
    assert_eq!(told(Some(&wrong), &wrong), "");
    assert!(told(Some(&wrong), &namespace(&[("enforce", "odder")])).contains("must be one of"));
}

#[test]
fn many_pods_are_looked_at_in_part_and_replicas_last() {
    let owned = |name: &str, owner: &str| {
        let mut pod = pod(name, &json!({}));
        pod["metadata"]["ownerReferences"] = json!([{"uid": owner}]);
        pod
    };
    let pods: Vec<Value> =
        (0..3001).map(|at| owned(&format!("a{at:05}"), "replicas")).chain([owned("z", "alone")]).collect();
    let objects = with_namespace(&[], &pods);
    let user = User::local_admin();
    let strict = namespace(&[("enforce", "restricted")]);
    let told =
        written(&PodSecuritySettings::default(), NAMESPACES, Some(&namespace(&[])), &strict, &objects, &user);
    assert_eq!(
        told.warnings[0],
        "new PodSecurity enforce level only checked against the first 3000 of 3002 existing pods"
    );
    assert!(told.warnings[2].starts_with("a00000 (and 2999 other pods): "), "{:?}", told.warnings);
}
