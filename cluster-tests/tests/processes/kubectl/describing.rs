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
    shows_descriptions(session);
    let unknown = session.refused(&["explain", "pods.nope"]);
    assert!(unknown.contains("field \"nope\" does not exist"), "{unknown}");
}

/// `explain` shows the descriptions of kinds and fields that the document of their group holds.
fn shows_descriptions(session: &Session) {
    let kind = session.text(&["explain", "deployment"]);
    assert!(kind.contains("The kind of the object, in CamelCase"), "{kind}");
    for (path, definition, member, document) in [
        ("deployment.spec.strategy", "apps.v1.DeploymentSpec", "strategy", "apis/apps/v1"),
        ("pod.spec.containers", "core.v1.PodSpec", "containers", "api/v1"),
        ("pod.spec.containers.image", "core.v1.Container", "image", "api/v1"),
    ] {
        let document = session.text(&["get", "--raw", &format!("/openapi/v3/{document}")]);
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        let properties = &document["components"]["schemas"][format!("io.k8s.api.{definition}")]["properties"];
        let text = properties[member]["description"].as_str().expect("a description");
        // Lines are broken to fit the terminal.
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        for version in ["plaintext", "plaintext-openapiv2"] {
            let shown = words(&session.text(&["explain", path, &format!("--output={version}")]));
            assert!(shown.contains(&words(text)), "{path}: {text} in {shown}");
        }
        let recursive = session.text(&["explain", path, "--recursive"]);
        assert!(words(&recursive).contains(&words(text)), "{path}: {text} in {recursive}");
    }
}
