//! Pods and the accounts that complete or refuse them.

use futures::FutureExt;
use orch_proto::brand::ORCH;

use super::*;
use crate::admission::testing::{Objects, attributes};
use crate::ambient::SystemAmbient;

fn account(name: &str, more: Value) -> ((String, String, String), Value) {
    let mut account = json!({"metadata": {"name": name}});
    for (field, value) in more.as_object().unwrap().iter() {
        set(&mut account, field, value.clone());
    }
    (("serviceaccounts".to_owned(), "ns".to_owned(), name.to_owned()), account)
}

/// The accounts `default`, and `robot`, which has `more`.
fn accounts(more: Value) -> View {
    let accounts = [account("default", json!({})), account("robot", more)];
    Objects(accounts.into_iter().collect()).view("ns")
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

fn completed(mut pod: Value, view: &View) -> Result<Value, Refusal> {
    let attributes = attributes("pods", Operation::Create);
    complete(&attributes, &mut pod, view, || 1)?;
    assert_eq!(check(&attributes, &pod, view), Ok(()), "a completed pod is valid");
    Ok(pod["spec"].clone())
}

fn refusal(pod: Value, view: &View) -> String {
    let mut tried = pod.clone();
    let refusal = complete(&attributes("pods", Operation::Create), &mut tried, view, || 1).unwrap_err();
    assert_eq!(tried, pod, "a refusal leaves the pod as it was");
    match refusal {
        Refusal::Forbidden(reason) | Refusal::Awaited(reason) => reason,
        Refusal::Error(error) | Refusal::Final(error) => panic!("{error:?}"),
    }
}

#[test]
fn a_pod_runs_as_the_default_account_and_mounts_its_token() {
    let spec = completed(pod(json!({"containers": [{"name": "c"}]})), &accounts(json!({}))).unwrap();
    assert_eq!(
        (&spec["serviceAccountName"], &spec["serviceAccount"]),
        (&json!("default"), &json!("default"))
    );
    let volume = &spec["volumes"][0];
    let name = volume["name"].as_str().unwrap();
    assert!(name.starts_with("orch-api-access-") && name.len() == "orch-api-access-".len() + 5, "{name}");
    assert_eq!(volume["projected"]["defaultMode"], 420);
    assert_eq!(volume["projected"]["sources"][1]["configMap"]["name"], "orch-root-ca.crt");
    let mount =
        json!({"name": name, "readOnly": true, "mountPath": "/var/run/secrets/orch.io/serviceaccount"});
    assert_eq!(spec["containers"][0]["volumeMounts"], json!([mount]));
}

#[test]
fn mounts_of_the_pod_win_over_the_token() {
    let view = accounts(json!({}));
    let own = json!([{"name": "e", "mountPath": "/var/run/secrets/orch.io/serviceaccount"}]);
    let containers = json!([{"name": "c", "volumeMounts": own}, {"name": "d"}]);
    let spec = completed(pod(json!({"containers": containers, "volumes": [{"name": "e"}]})), &view).unwrap();
    assert_eq!(spec["containers"][0]["volumeMounts"], own);
    assert_eq!(spec["containers"][1]["volumeMounts"][0]["name"], spec["volumes"][1]["name"]);
    let spec = completed(pod(json!({"containers": [{"name": "c", "volumeMounts": own}]})), &view).unwrap();
    assert!(spec.get("volumes").is_none(), "no container mounts it");
    let given = json!({"containers": [{"name": "c"}], "volumes": [{"name": "orch-api-access-mine"}]});
    let spec = completed(pod(given), &view).unwrap();
    assert_eq!(spec["volumes"].as_array().unwrap().len(), 1);
    assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], "orch-api-access-mine");
}

#[test]
fn the_pod_and_then_the_account_say_whether_a_token_is_mounted() {
    for (of_account, of_pod, expected) in [
        (json!({}), json!({}), true),
        (json!({"automountServiceAccountToken": false}), json!({}), false),
        (json!({"automountServiceAccountToken": false}), json!({"automountServiceAccountToken": true}), true),
        (
            json!({"automountServiceAccountToken": true}),
            json!({"automountServiceAccountToken": false}),
            false,
        ),
    ] {
        let mut spec = json!({"containers": [{"name": "c"}], "serviceAccountName": "robot"});
        for (field, value) in of_pod.as_object().unwrap().iter() {
            set(&mut spec, field, value.clone());
        }
        let spec = completed(pod(spec), &accounts(of_account)).unwrap();
        assert_eq!(spec.get("volumes").is_some(), expected);
    }
}

#[test]
fn pull_secrets_come_from_the_account_where_the_pod_names_none() {
    let view = accounts(json!({"imagePullSecrets": [{"name": "one"}, {"name": "two"}]}));
    let given = |spec: Value| pod(spec);
    let spec = completed(given(json!({"serviceAccountName": "robot"})), &view).unwrap();
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "one"}, {"name": "two"}]));
    let own = json!([{"name": "mine"}]);
    let spec =
        completed(given(json!({"serviceAccountName": "robot", "imagePullSecrets": own})), &view).unwrap();
    assert_eq!(spec["imagePullSecrets"], own);
}

#[test]
fn an_account_must_exist_and_the_default_one_is_waited_for() {
    let view = Objects::default().view("ns");
    let reason = |name: &str| {
        format!("error looking up service account ns/{name}: serviceaccount \"{name}\" not found")
    };
    for (spec, expected) in [
        (json!({}), Refusal::Awaited(reason("default"))),
        (json!({"serviceAccountName": "ghost"}), Refusal::Forbidden(reason("ghost"))),
    ] {
        assert_eq!(completed(pod(spec), &view), Err(expected));
    }
}

#[test]
fn a_mirror_pod_depends_on_nothing() {
    let view = Objects::default().view("ns");
    let mirror = |spec: Value| json!({"metadata": {"name": "p", "annotations": {(ORCH.label("config.mirror").as_str()): "x"}}, "spec": spec});
    let given = json!({"containers": [{"name": "c"}]});
    assert_eq!(completed(mirror(given.clone()), &view).unwrap(), given);
    let secrets = "a mirror pod may not reference secrets";
    for (spec, expected) in [
        (json!({"serviceAccountName": "default"}), "a mirror pod may not reference service accounts"),
        (json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}), secrets),
        (json!({"volumes": [{"name": "v", "csi": {"nodePublishSecretRef": {"name": "s"}}}]}), secrets),
        (json!({"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]}), secrets),
        (json!({"containers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}), secrets),
        (json!({"initContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "s"}}}]}]}), secrets),
        (json!({"imagePullSecrets": [{"name": "s"}]}), secrets),
        (
            json!({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}),
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
    ] {
        assert_eq!(refusal(mirror(spec.clone()), &view), expected, "{spec}");
    }
}

#[test]
fn an_account_may_limit_the_secrets_of_its_pods() {
    let annotations = json!({(ORCH.label("enforce-mountable-secrets").as_str()): "true"});
    let (listed, pullable) = (json!([{"name": "s"}]), json!([{"name": "pull"}]));
    let metadata = json!({"name": "robot", "annotations": annotations});
    let view = accounts(json!({"metadata": metadata, "secrets": listed, "imagePullSecrets": pullable}));
    let of = |secret: &str| {
        let env = json!([{"name": "V", "valueFrom": {"secretKeyRef": {"name": secret}}}]);
        let volumes = json!([{"name": "v", "secret": {"secretName": secret}}]);
        let env_from = json!([{"secretRef": {"name": secret}}]);
        [
            json!({"volumes": volumes}),
            json!({"initContainers": [{"name": "c", "env": env}]}),
            json!({"containers": [{"name": "c", "env": env}]}),
            json!({"initContainers": [{"name": "c", "envFrom": env_from}]}),
            json!({"containers": [{"name": "c", "envFrom": env_from}]}),
        ]
    };
    let run = |mut spec: Value| {
        set(&mut spec, "serviceAccountName", "robot");
        pod(spec)
    };
    for spec in of("s") {
        assert!(completed(run(spec), &view).is_ok());
    }
    let end = "is not allowed because service account robot does not reference that secret";
    let expected = [
        format!("volume with secret.secretName=\"x\" {end}"),
        format!("init container c with envVar V referencing secret.secretName=\"x\" {end}"),
        format!("container c with envVar V referencing secret.secretName=\"x\" {end}"),
        format!("init container c with envFrom referencing secret.secretName=\"x\" {end}"),
        format!("container c with envFrom referencing secret.secretName=\"x\" {end}"),
    ];
    for (spec, expected) in of("x").into_iter().zip(expected) {
        assert_eq!(refusal(run(spec), &view), expected);
    }
    assert_eq!(
        refusal(run(json!({"imagePullSecrets": [{"name": "pull"}, {"name": "s"}]})), &view),
        "imagePullSecrets[1].name=\"s\" is not allowed because service account robot does not reference that imagePullSecret"
    );
}

#[test]
fn ephemeral_containers_refer_to_secrets_of_the_account_only() {
    let annotations = json!({(ORCH.label("enforce-mountable-secrets").as_str()): "true"});
    let metadata = json!({"name": "robot", "annotations": annotations});
    let objects = [
        account("default", json!({})),
        account("robot", json!({"metadata": metadata, "secrets": [{"name": "s"}]})),
    ];
    let objects = Objects(objects.into_iter().collect());
    let asked = Attributes { action: Action::EphemeralContainers, ..attributes("pods", Operation::Update) };
    let env_from = |secret: &str| json!({"name": "e", "envFrom": [{"secretRef": {"name": secret}}]});
    let env = |secret: &str| json!({"name": "e", "env": [{"name": "V", "valueFrom": {"secretKeyRef": {"name": secret}}}]});
    let end = "is not allowed because service account robot does not reference that secret";
    for (account, container, expected) in [
        ("robot", env_from("s"), None),
        ("robot", env("s"), None),
        ("default", env_from("x"), None),
        (
            "robot",
            env_from("x"),
            Some(format!("ephemeral container e with envFrom referencing secret.secretName=\"x\" {end}")),
        ),
        (
            "robot",
            env("x"),
            Some(format!("ephemeral container e with envVar V referencing secret.secretName=\"x\" {end}")),
        ),
        ("", env("s"), Some("no service account specified for pod ns/p".to_owned())),
    ] {
        // The volume was there before: only what is added is judged.
        let volumes = json!([{"name": "v", "secret": {"secretName": "x"}}]);
        let pod = pod(
            json!({"serviceAccountName": account, "volumes": volumes, "ephemeralContainers": [container]}),
        );
        let plugin = ServiceAccount { ambient: Arc::new(SystemAmbient) };
        assert!(plugin.handles(&asked));
        let view = objects.view("ns");
        let mut additions = Additions::default();
        let ruling = plugin.validate(&asked, Some(&pod), &view, &mut additions).now_or_never();
        let told = ruling.expect("nobody else is asked");
        assert_eq!(told, expected.map_or(Ok(()), |expected| Err(Refusal::Forbidden(expected))));
    }
}
