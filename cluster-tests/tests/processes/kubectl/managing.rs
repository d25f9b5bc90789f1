//! The commands by which people run a cluster: scale, expose, roll back, drain, tokens.
//!
//! No controller manager runs beside the node: what it would write, the tests write.

use super::{Session, in_session};

/// Prints the user as whom the server knows the caller.
const WHOAMI: [&str; 4] = ["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_scales_exposes_and_rolls_back() {
    in_session(deployed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_drains_a_node_as_far_as_budgets_allow() {
    in_session(drained).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_makes_tokens_that_the_server_knows() {
    in_session(authenticated).await;
}

/// A replica set of the deployment `web`, as its controller would make it.
fn revision(uid: &str, number: u32, image: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-{number}
  labels: {{app: web, pod-template-hash: h{number}}}
  annotations: {{deployment.kubernetes.io/revision: '{number}'}}
  ownerReferences: [{{apiVersion: apps/v1, kind: Deployment, name: web, uid: {uid}, controller: true}}]
spec:
  replicas: 0
  selector: {{matchLabels: {{app: web, pod-template-hash: h{number}}}}}
  template:
    metadata: {{labels: {{app: web, pod-template-hash: h{number}}}}}
    spec: {{containers: [{{name: front, image: '{image}'}}]}}
"
    )
}

fn deployed(session: &Session) {
    session.text(&["create", "deployment", "web", "--image=front:2", "--port=80"]);
    session.text(&["scale", "deployment", "web", "--replicas=3"]);
    session.text(&["scale", "deployment", "web", "--replicas=4", "--current-replicas=3"]);
    let refused = session.refused(&["scale", "deployment", "web", "--replicas=5", "--current-replicas=3"]);
    assert!(refused.contains("Expected replicas to be 3, was 4"), "{refused}");
    assert_eq!(session.text(&["get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"]), "4");

    session.text(&["autoscale", "deployment", "web", "--min=1", "--max=5", "--cpu-percent=80"]);
    let scaler = session.text(&["get", "hpa", "web"]);
    assert!(scaler.contains("Deployment/web") && scaler.contains("80%"), "{scaler}");

    session.text(&["expose", "deployment", "web", "--port=8080", "--target-port=80"]);
    let port = "jsonpath={.spec.ports[0].port} {.spec.ports[0].targetPort} {.spec.selector.app}";
    assert_eq!(session.text(&["get", "service", "web", "-o", port]), "8080 80 web");
    assert!(session.text(&["get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"]).contains('.'));

    session.text(&["set", "image", "deployment/web", "*=front:3"]);
    session.text(&["set", "resources", "deployment/web", "--limits=cpu=1"]);
    let uid = session.text(&["get", "deployment", "web", "-o", "jsonpath={.metadata.uid}"]);
    for (number, image) in [(1, "front:2"), (2, "front:3")] {
        let file = session.file("revision.yaml", &revision(&uid, number, image));
        session.text(&["create", "-f", &file]);
    }
    session.text(&["annotate", "deployment", "web", "deployment.kubernetes.io/revision=2"]);
    let history = session.text(&["rollout", "history", "deployment/web"]);
    assert!(history.contains("REVISION") && history.lines().any(|line| line.starts_with("2 ")), "{history}");
    let one = session.text(&["rollout", "history", "deployment/web", "--revision=1"]);
    assert!(one.contains("front:2"), "{one}");
    assert_eq!(session.text(&["rollout", "undo", "deployment/web"]), "deployment.apps/web rolled back\n");
    let image = "jsonpath={.spec.template.spec.containers[0].image}";
    assert_eq!(session.text(&["get", "deployment", "web", "-o", image]), "front:2");
    session.text(&["rollout", "pause", "deployment/web"]);
    session.text(&["rollout", "resume", "deployment/web"]);
    session.text(&["rollout", "restart", "deployment/web"]);
    let generation = session.text(&["get", "deployment", "web", "-o", "jsonpath={.metadata.generation}"]);
    let status = format!(
        r#"{{"status":{{"observedGeneration":{generation},"replicas":4,"updatedReplicas":4,"readyReplicas":4,"availableReplicas":4}}}}"#
    );
    session.text(&["patch", "deployment", "web", "--subresource=status", "--type=merge", "-p", &status]);
    let said = session.text(&["rollout", "status", "deployment/web", "--timeout=20s"]);
    assert!(said.contains("successfully rolled out"), "{said}");
}

fn drained(session: &Session) {
    let node = session.file("node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n");
    session.text(&["create", "-f", &node]);
    let owner = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web}\nspec:\n  replicas: 2\n  selector: {matchLabels: {app: \
                 web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: c, image: i}]}\n";
    session.text(&["create", "-f", &session.file("owner.yaml", owner)]);
    let uid = session.text(&["get", "replicaset", "web", "-o", "jsonpath={.metadata.uid}"]);
    for name in ["a", "b"] {
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  labels: {{app: web}}\n  ownerReferences: [{{apiVersion: \
             apps/v1, kind: ReplicaSet, name: web, uid: {uid}, controller: true}}]\nspec:\n  nodeName: node-1\n  \
             terminationGracePeriodSeconds: 0\n  containers: [{{name: c, image: i}}]\n"
        );
        let file = session.file("pod.yaml", &pod);
        session.text(&["create", "-f", &file]);
        let ready = r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
        session.text(&["patch", "pod", name, "--subresource=status", "--type=merge", "-p", ready]);
    }
    session.text(&["create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=1"]);
    let allowed = "jsonpath={.status.disruptionsAllowed}";
    session.text(&["wait", "pdb/web", "--for=jsonpath={.status.disruptionsAllowed}=1", "--timeout=20s"]);
    let drain = ["drain", "node-1", "--force", "--timeout=6s"];
    let refused = session.refused(&drain);
    assert!(
        refused.contains("Cannot evict pod as it would violate the pod's disruption budget"),
        "{refused}"
    );
    let left = session.text(&["get", "pods", "-o", "name"]);
    assert_eq!(left.lines().count(), 1, "the budget keeps one: {left}");
    assert_eq!(session.text(&["get", "pdb", "web", "-o", allowed]), "0");
    assert_eq!(session.text(&["get", "node", "node-1", "-o", "jsonpath={.spec.unschedulable}"]), "true");
    session.text(&["delete", "pdb", "web"]);
    let said = session.text(&["drain", "node-1", "--force", "--timeout=20s"]);
    assert!(said.contains("node/node-1 drained"), "{said}");
    session.text(&["uncordon", "node-1"]);
    assert_eq!(session.text(&["get", "node", "node-1", "-o", "jsonpath={.spec.unschedulable}"]), "");
    session.text(&["taint", "node", "node-1", "k=v:NoSchedule"]);
    assert_eq!(
        session.text(&["get", "node", "node-1", "-o", "jsonpath={.spec.taints[?(@.key=='k')].effect}"]),
        "NoSchedule"
    );
}

fn authenticated(session: &Session) {
    session.text(&["create", "serviceaccount", "robot"]);
    let token = session.text(&["create", "token", "robot", "--duration=10m", "--audience=somewhere"]);
    let refused = session.by_token(token.trim(), &WHOAMI).unwrap_err();
    assert!(refused.contains("logged in"), "a token for another audience: {refused}");
    let token = session.text(&["create", "token", "robot"]);
    assert_eq!(session.by_token(token.trim(), &WHOAMI).unwrap(), "system:serviceaccount:default:robot");
    let can = session.run(&["auth", "can-i", "get", "pods", "--as=system:serviceaccount:default:robot"]);
    assert_eq!(String::from_utf8_lossy(&can.stdout), "no\n");
    session.text(&["create", "rolebinding", "r", "--clusterrole=view", "--serviceaccount=default:robot"]);
    let can = session.text(&["auth", "can-i", "get", "pods", "--as=system:serviceaccount:default:robot"]);
    assert_eq!(can, "yes\n");
    session.text(&["delete", "serviceaccount", "robot"]);
    let refused = session.by_token(token.trim(), &WHOAMI).unwrap_err();
    assert!(refused.contains("logged in"), "the account is gone: {refused}");
}
