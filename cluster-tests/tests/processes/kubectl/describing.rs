//! Discovery by the program: resources, schemas, versions.

use super::{Session, in_session};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_lists_resources_and_explains_kinds() {
    in_session(described).await;
}

fn described(session: &Session) {
    let resources = session.text(&["api-resources"]);
    let deployments = resources.lines().find(|line| line.starts_with("deployments ")).unwrap_or_default();
    let words: Vec<&str> = deployments.split_whitespace().collect();
    assert_eq!(words, ["deployments", "deploy", "apps/v1", "true", "Deployment"], "{resources}");
    let in_all = session.text(&["api-resources", "--categories=all", "-o", "name"]);
    assert!(in_all.contains("deployments.apps") && !in_all.contains("configmaps"), "{in_all}");
    let versions = session.text(&["api-versions"]);
    assert!(versions.lines().any(|line| line == "rbac.authorization.k8s.io/v1"), "{versions}");

    let spec = session.text(&["explain", "pods.spec"]);
    assert!(spec.contains("FIELD: spec <PodSpec>"), "{spec}");
    assert!(spec.contains("containers\t<[]Container> -required-"), "{spec}");
    let recursive = session.text(&["explain", "deployment.spec", "--recursive"]);
    for line in ["maxSurge\t<IntOrString>", "selector\t<LabelSelector> -required-", "image\t<string>"] {
        assert!(recursive.contains(line), "{line} in {recursive}");
    }
    let older = session.text(&["explain", "pods.spec.containers", "--output=plaintext-openapiv2"]);
    assert!(older.contains("RESOURCE: containers <[]Object>"), "{older}");
    let unknown = session.refused(&["explain", "pods.nope"]);
    assert!(unknown.contains("field \"nope\" does not exist"), "{unknown}");
}
