//! Writes by the program: client-side and server-side apply, patches, replacements, deletions, and `kubectl wait`.

use super::{Session, in_session};

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: front, image: 'front:1', ports: [{containerPort: 80}]}
      - {name: back, image: 'back:1'}
";

const CONFIG_MAP: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: shared}
data: {key: one}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_applies_what_changed_and_nothing_else() {
    in_session(applied).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_changes_objects_in_every_way() {
    in_session(changed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_deletes_with_every_cascade_and_waits() {
    in_session(deleted).await;
}

fn applied(session: &Session) {
    let file = session.file("web.yaml", DEPLOYMENT);
    let apply = ["apply", "-f", &file];
    assert_eq!(session.text(&apply), "deployment.apps/web created\n");
    assert_eq!(session.text(&apply), "deployment.apps/web unchanged\n");
    // Apply keeps a field that another manager has set, and removes items that the file no longer has.
    session.text(&["patch", "deployment", "web", "-p", r#"{"spec":{"minReadySeconds":7}}"#]);
    let one = DEPLOYMENT.replace("front:1", "front:2").replace("      - {name: back, image: 'back:1'}\n", "");
    session.file("web.yaml", &one);
    let diff = session.run(&["diff", "-f", &file]);
    let shown = String::from_utf8_lossy(&diff.stdout);
    assert_eq!(diff.status.code(), Some(1), "{diff:?}");
    for line in ["-      - image: front:1", "+      - image: front:2", "-      - image: back:1"] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    assert!(!shown.contains("minReadySeconds: 7\n+"), "{shown}");
    assert_eq!(session.text(&apply), "deployment.apps/web configured\n");
    let seen = "jsonpath={.spec.template.spec.containers[*].image} {.spec.minReadySeconds}";
    assert_eq!(session.text(&["get", "deployment", "web", "-o", seen]), "front:2 7");
    assert_eq!(session.run(&["diff", "-f", &file]).status.code(), Some(0));

    let wrong = session.file("wrong.yaml", &DEPLOYMENT.replace("name: web}", "name: wrong, nope: 1}"));
    let refused = session.refused(&["apply", "-f", &wrong]);
    assert!(refused.contains("strict decoding error: unknown field \"metadata.nope\""), "{refused}");
    let warned = session.run(&["apply", "--validate=warn", "-f", &wrong]);
    assert!(
        String::from_utf8_lossy(&warned.stderr).contains("unknown field \"metadata.nope\""),
        "{warned:?}"
    );

    let shared = session.file("shared.yaml", CONFIG_MAP);
    session.text(&["apply", "--server-side", "--field-manager=first", "-f", &shared]);
    session.file("shared.yaml", &CONFIG_MAP.replace("one", "two"));
    let second = ["apply", "--server-side", "--field-manager=second", "-f", &shared];
    let conflict = session.refused(&second);
    assert!(conflict.contains("conflict with \"first\": .data.key"), "{conflict}");
    session.text(&[&second[..], &["--force-conflicts"]].concat());
    assert_eq!(session.text(&["get", "cm", "shared", "-o", "jsonpath={.data.key}"]), "two");
}

fn changed(session: &Session) {
    session.text(&["create", "configmap", "c", "--from-literal=a=1"]);
    session.text(&["label", "cm", "c", "colour=red"]);
    session.text(&["annotate", "cm", "c", "note=this"]);
    session.text(&["patch", "cm", "c", "-p", r#"{"data":{"b":"2"}}"#]);
    session.text(&["patch", "cm", "c", "--type=merge", "-p", r#"{"data":{"c":"3"}}"#]);
    let json = r#"[{"op":"add","path":"/data/d","value":"4"}]"#;
    session.text(&["patch", "cm", "c", "--type=json", "-p", json]);
    assert_eq!(session.text(&["get", "cm", "-l", "colour=red", "-o", "name"]), "configmap/c\n");
    let whole = session.text(&["get", "cm", "c", "-o", "yaml"]);
    for line in ["  a: \"1\"", "  b: \"2\"", "  c: \"3\"", "  d: \"4\"", "    note: this"] {
        assert!(whole.contains(line), "{line} in {whole}");
    }
    let file = session.file("c.yaml", &whole.replace("a: \"1\"", "a: \"9\""));
    session.text(&["replace", "-f", &file]);
    let again = session.refused(&["replace", "-f", &file]);
    assert!(again.contains("the object has been modified"), "{again}");
    assert_eq!(session.text(&["get", "cm", "c", "-o", "jsonpath={.data.a}"]), "9");

    session.text(&["run", "p", "--image=x"]);
    let wide = session.text(&["get", "pods", "-o", "wide"]);
    assert!(wide.contains("NOMINATED NODE") && wide.contains("Pending"), "{wide}");
    session.text(&["wait", "--for=jsonpath={.status.phase}=Pending", "pod/p", "--timeout=10s"]);
    let event = "apiVersion: v1\nkind: Event\nmetadata: {name: e}\nreason: Made\nmessage: it is there\n\
        type: Normal\ncount: 1\nsource: {component: test}\n\
        involvedObject: {kind: Pod, name: p, namespace: default, apiVersion: v1}\n";
    let file = session.file("e.yaml", event);
    session.text(&["create", "-n", "default", "-f", &file]);
    let events = session.text(&["events", "--for=pod/p"]);
    assert!(events.contains("Made") && events.contains("it is there"), "{events}");
    let described = session.text(&["describe", "pod", "p"]);
    assert!(described.contains("QoS Class:        BestEffort"), "{described}");
}

fn deleted(session: &Session) {
    for cascade in ["foreground", "background", "orphan"] {
        session.text(&["create", "configmap", "owner", "--from-literal=a=1"]);
        let uid = session.text(&["get", "cm", "owner", "-o", "jsonpath={.metadata.uid}"]);
        let owner = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: owned\n  ownerReferences:\n  - apiVersion: v1\n    \
             kind: ConfigMap\n    name: owner\n    uid: {uid}\n    blockOwnerDeletion: true\n"
        );
        let file = session.file("owned.yaml", &owner);
        session.text(&["create", "-f", &file]);
        let said = session.text(&["delete", "cm", "owner", &format!("--cascade={cascade}")]);
        assert_eq!(said, "configmap \"owner\" deleted\n");
        if cascade == "orphan" {
            let left = session.text(&["get", "cm", "owned", "-o", "jsonpath={.metadata.ownerReferences}"]);
            assert_eq!(left, "");
        } else {
            session.text(&["wait", "--for=delete", "cm/owned", "--timeout=20s"]);
        }
    }
}
